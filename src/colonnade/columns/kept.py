"""Readers of columns whose logical type differs from their datatype (`ColumnInfo.kept`).

This module holds the common base class and the forms whose stored rows are numbers: integers for booleans or floats,
and floats and codes with their own rule for missing rows. Strings that stand for numbers are in `stamp_column` and
`level_column`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import pyarrow as pa

from colonnade.columns.decode import boolean_array, check_codes, code_array, fixed_array, missing_rows
from colonnade.columns.keys import Keys, NumberKeys, Numbers
from colonnade.columns.missing import Mask
from colonnade.columns.read import ColumnReader, Raw
from colonnade.errors import FormatError
from colonnade.h5.datasets import Image
from colonnade.h5.heap import Strings
from colonnade.model import ColumnInfo
from colonnade.predicate.bound import Key
from colonnade.stored_dtypes import memory_dtype

R_NA = 1954  # the low word of the NaN that R uses for a missing number


class StandingReader(ColumnReader):
    """A column whose rows stand for numbers; these numbers are its keys too."""

    def _decode(self, raw: Raw) -> pa.Array:
        return self._array(*self._stand_for(raw))

    def _decode_numbers(self, raw: Raw) -> tuple[Numbers, Mask | None]:
        return self._stand_for(raw)

    def _key_array(self, raw: Raw) -> pa.Array:
        numbers, missing = self._stand_for(raw)
        return fixed_array(numbers, pa.from_numpy_dtype(numbers.dtype), missing)

    @property
    def is_open_to_rows(self) -> bool:
        return False  # the stored values are not the keys

    def key(self, row: int) -> Key:
        return self.keys(row, 1).key(0)

    def values(self, keys: Keys) -> pa.Array:
        assert isinstance(keys, NumberKeys)  # as returned by _key_array
        missing = keys.missing if keys.missing.any() else None
        numbers = keys.values if missing is None else np.where(missing, keys.values.dtype.type(0), keys.values)
        return self._array(numbers.astype(memory_dtype(self.key_type)), missing)

    @abstractmethod
    def _stand_for(self, raw: Raw) -> tuple[Numbers, Mask | None]:
        """The numbers that rows stand for, in the datatype of the keys, and a mask of missing rows, or None."""

    def _array(self, numbers: Numbers, missing: Mask | None) -> pa.Array:
        """The numbers as the values of the column."""
        return fixed_array(numbers, self.kind, missing)


class TruthReader(StandingReader):
    """Numbers read as booleans: 0 is false, all others are true."""

    def _stand_for(self, raw: Raw) -> tuple[Numbers, Mask | None]:
        image = numbers_in(raw, self.column)
        return (image != 0).astype(np.int8), missing_rows(image, self.column.type, self.column.fill)

    def _array(self, numbers: Numbers, missing: Mask | None) -> pa.Array:
        return boolean_array(numbers != 0, missing)


class DoubleReader(StandingReader):
    """Numbers of any datatype read as float64; missing rows are found before the conversion."""

    def _stand_for(self, raw: Raw) -> tuple[Numbers, Mask | None]:
        image = numbers_in(raw, self.column)
        return image.astype(np.float64), missing_rows(image, self.column.type, self.column.fill)


class BitsReader(StandingReader):
    """Floats that are missing if they equal the fill bit by bit: only one of many NaNs, only one of the two zeros."""

    def _stand_for(self, raw: Raw) -> tuple[Numbers, Mask | None]:
        image, fill = numbers_in(raw, self.column), self.column.fill
        if fill is None:
            return image, None
        bits = f"u{image.dtype.itemsize}"
        if len(fill) != image.dtype.itemsize:
            raise FormatError(f"the fill of column {self.column.name!r} has {len(fill)} bytes", column=self.column.name)
        return image, any_of(image.view(bits) == np.frombuffer(fill, dtype=bits)[0])


class RReader(StandingReader):
    """Floats that are missing if they are R's NA: a float64 NaN whose low word is 1954."""

    def _stand_for(self, raw: Raw) -> tuple[Numbers, Mask | None]:
        image = numbers_in(raw, self.column)
        if image.dtype != np.float64:
            return image, None
        low = image.view(np.uint64) & np.uint64(0xFFFF_FFFF)
        return image, any_of((low == R_NA) & np.isnan(image))


class CodedReader(StandingReader):
    """Rows that stand for codes of categories."""

    def _array(self, numbers: Numbers, missing: Mask | None) -> pa.Array:
        width = np.int64 if numbers.dtype.itemsize > 4 else np.int32
        codes = code_array(
            numbers.astype(width) if missing is None else np.where(missing, 0, numbers).astype(width), missing
        )
        return self._coded(codes)


class CodesReader(CodedReader):
    """Codes that are missing if they equal the fill, which may be any number, even a valid code."""

    def _stand_for(self, raw: Raw) -> tuple[Numbers, Mask | None]:
        image, found = numbers_in(raw, self.column), self.column.categories
        if found is None:
            raise FormatError(f"column {self.column.name!r} has no categories", column=self.column.name)
        missing = missing_rows(image, self.column.type, self.column.fill)
        check_codes(image, found.n_categories, missing)
        return image, missing


def numbers_in(raw: Any, column: ColumnInfo) -> Image:
    """The rows as read; raises a FormatError unless they are numbers of a native width."""
    if isinstance(raw, Strings) or raw.dtype.kind not in "iuf":
        raise FormatError(f"column {column.name!r} holds {column.type}, which is not a number", column=column.name)
    return np.ascontiguousarray(raw)


def any_of(missing: Mask) -> Mask | None:
    """The mask, or None when no row is missing."""
    return missing if missing.any() else None
