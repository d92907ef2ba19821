"""Columns with a mask: a second dataset of booleans that is TRUE for missing rows.

The values of missing rows are undefined, but they are read and checked like the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from colonnade.columns.keys import Numbers
from colonnade.columns.missing import Mask
from colonnade.columns.read import ColumnReader, Raw
from colonnade.dataclass import dataclass
from colonnade.errors import FormatError
from colonnade.h5.chunks import RowNumbers
from colonnade.h5.datasets import describe_dataset
from colonnade.model import ColumnInfo


@dataclass(frozen=True)
class Masked:
    """Rows as read, and a mask of missing rows (None if no row is missing)."""

    rows: Raw
    missing: Mask | None


class MaskedRows(ColumnReader):
    """A column whose rows are read together with a mask of missing rows."""

    @property
    def _is_at_hand(self) -> bool:
        return False

    def _decode(self, raw: Any) -> pa.Array:
        if not isinstance(raw, Masked):
            return super()._decode(raw)
        return _with_missing(super()._decode(raw.rows), raw.missing)

    def _part(self, raw: Any, begin: int, end: int) -> Any:
        if not isinstance(raw, Masked):
            return super()._part(raw, begin, end)
        return Masked(super()._part(raw.rows, begin, end), None if raw.missing is None else raw.missing[begin:end])

    def _key_array(self, raw: Any) -> pa.Array:
        return _with_missing(super()._key_array(raw.rows), raw.missing)

    def _decode_numbers(self, raw: Any) -> tuple[Numbers, Mask | None]:
        numbers, _ = super()._decode_numbers(raw.rows)
        return numbers, raw.missing


class MaskedReader(MaskedRows):
    """A column whose missing rows are marked by a mask dataset."""

    def __init__(self, column: ColumnInfo, dataset: Any, mask: Any, n_threads: int = 1) -> None:
        super().__init__(column, dataset, None, n_threads)
        self._mask = ColumnReader(mask_column(column, mask), mask, None, n_threads)
        self.n_threads = min(self.n_threads, self._mask.n_threads)

    @contextmanager
    def _raw(self, start: int, count: int, step: int = 1) -> Iterator[Any]:
        with super()._raw(start, count, step) as rows, self._mask._raw(start, count, step) as mask:
            yield Masked(rows, self._missing(mask))

    def _take_raw(self, rows: RowNumbers) -> Any:
        values = super()._take_raw(rows)
        if values is None:
            return None
        flags, _ = self._mask.take_numbers(rows)
        return Masked(values, _any_of(flags))

    def _missing(self, mask: Raw) -> Mask | None:
        flags, _ = self._mask._decode_numbers(mask)
        return _any_of(flags)


def mask_column(column: ColumnInfo, mask: Any) -> ColumnInfo:
    """The mask as a column. The layout has already checked that it holds booleans and is as long as the values."""
    info = describe_dataset(mask)
    n_rows = info.shape[0] if info.shape else 0
    if info.type.kind != "boolean" or n_rows != column.n_rows:
        raise FormatError(f"the mask of column {column.name!r} has changed", column=column.name)
    return ColumnInfo(f"{column.name} (mask)", info.type, n_rows, info.storage, info.chunk_rows, info.filters)


def _any_of(flags: Numbers) -> Mask | None:
    missing: Mask = flags != 0
    return missing if missing.any() else None


def _with_missing(array: pa.Array, missing: Mask | None) -> pa.Array:
    """The array with nulls where the mask is set. The array must have no nulls and no offset."""
    if missing is None:
        return array
    if array.type.num_fields or isinstance(array, (pa.ExtensionArray, pa.DictionaryArray)):
        return array.take(pa.array(np.arange(len(array)), mask=missing))
    validity = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.Array.from_buffers(array.type, len(array), [validity, *array.buffers()[1:]])
