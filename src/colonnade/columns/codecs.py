"""Codecs: rows that stand for numbers of another type, such as integers for booleans or strings for dates.

A codec is composed with a form: it turns raw rows into the numbers that they stand for, which are the keys as well, and
these numbers into values.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from colonnade.columns.decode import boolean_array, corrupt_row, fixed_array, missing_rows
from colonnade.columns.keys import Keys, NumberKeys, Numbers, keys_of
from colonnade.columns.mapping import key_type
from colonnade.columns.missing import Mask
from colonnade.columns.raw import Present, Raw, any_of, part_of
from colonnade.columns.rfc3339 import Stamps, Texts, equal_texts, parse_date_times, parse_dates, texts_of
from colonnade.errors import FormatError
from colonnade.h5.datasets import Image
from colonnade.h5.heap import Strings
from colonnade.model import ColumnInfo, Encoding
from colonnade.stored_dtypes import memory_dtype

R_NA = 1954  # the low word of the NaN that R uses for a missing number
MOST_SHOWN = 60  # characters of an invalid string that an error shows

Standing = tuple[Numbers, Mask | None]
"""The numbers that rows stand for, in the datatype of the keys, and a mask of missing rows, or None."""


class CodecDecoder:
    """Decodes rows in two steps: `stand_for` gives the numbers that they stand for, `as_array` the values of these."""

    def __init__(
        self,
        column: ColumnInfo,
        stand_for: Callable[[Any], Standing],
        as_array: Callable[[Numbers, Mask | None], pa.Array],
    ) -> None:
        self._key_dtype = memory_dtype(key_type(column))
        self._stand_for = stand_for
        self._as_array = as_array

    def array(self, raw: Raw) -> pa.Array:
        return self._as_array(*self._stand_for(raw))

    def numbers(self, raw: Raw) -> Standing:
        return self._stand_for(raw)

    def key_array(self, raw: Raw) -> pa.Array:
        numbers, missing = self._stand_for(raw)
        return fixed_array(numbers, pa.from_numpy_dtype(numbers.dtype), missing)

    def keys(self, raw: Raw) -> Keys:
        return keys_of(self.key_array(raw))

    def values(self, keys: Keys) -> pa.Array:
        assert isinstance(keys, NumberKeys)  # as returned by key_array
        missing = any_of(keys.missing)
        numbers = keys.values if missing is None else np.where(missing, keys.values.dtype.type(0), keys.values)
        return self._as_array(numbers.astype(self._key_dtype), missing)

    def part(self, raw: Raw, begin: int, end: int) -> Raw:
        return part_of(raw, begin, end)


def codec_decoder(column: ColumnInfo, kind: pa.DataType, codec: Encoding) -> CodecDecoder:
    """The decoder of a plain column with a codec."""
    if codec == "truth":
        return CodecDecoder(column, lambda raw: _truths(raw, column), lambda n, missing: boolean_array(n != 0, missing))
    if codec in ("date", "date-time"):
        parse = parse_dates if codec == "date" else lambda texts: parse_date_times(texts, kind.unit)
        stand_for: Callable[[Any], Standing] = lambda raw: _times(raw, column, kind, parse)  # noqa: E731
    else:
        stand_for = lambda raw: _NUMBERS[codec](raw, column)  # noqa: E731
    return CodecDecoder(column, stand_for, lambda numbers, missing: fixed_array(numbers, kind, missing))


def _truths(raw: Raw, column: ColumnInfo) -> Standing:
    """Numbers read as booleans: 0 is false, all others are true."""
    image = numbers_in(raw, column)
    return (image != 0).astype(np.int8), missing_rows(image, column.type, column.fill)


def _doubles(raw: Raw, column: ColumnInfo) -> Standing:
    """Numbers of any datatype read as float64; missing rows are found before the conversion."""
    image = numbers_in(raw, column)
    return image.astype(np.float64), missing_rows(image, column.type, column.fill)


def _bits(raw: Raw, column: ColumnInfo) -> Standing:
    """Floats that are missing if they equal the fill bit by bit: only one of many NaNs, only one of the two zeros."""
    image, fill = numbers_in(raw, column), column.fill
    if fill is None:
        return image, None
    bits = f"u{image.dtype.itemsize}"
    if len(fill) != image.dtype.itemsize:
        raise FormatError(f"the fill of column {column.name!r} has {len(fill)} bytes", column=column.name)
    return image, any_of(image.view(bits) == np.frombuffer(fill, dtype=bits)[0])


def _r_doubles(raw: Raw, column: ColumnInfo) -> Standing:
    """Floats that are missing if they are R's NA: a float64 NaN whose low word is 1954."""
    image = numbers_in(raw, column)
    if image.dtype != np.float64:
        return image, None
    low = image.view(np.uint64) & np.uint64(0xFFFF_FFFF)
    return image, any_of((low == R_NA) & np.isnan(image))


_NUMBERS: dict[Encoding, Callable[[Any, ColumnInfo], Standing]] = {"double": _doubles, "bits": _bits, "r": _r_doubles}


def numbers_in(raw: Any, column: ColumnInfo) -> Image:
    """The rows as read; raises a FormatError unless they are numbers of a native width."""
    if isinstance(raw, Strings) or raw.dtype.kind not in "iuf":
        raise FormatError(f"column {column.name!r} holds {column.type}, which is not a number", column=column.name)
    return np.ascontiguousarray(raw)


# -- dates and times --


def _times(raw: Raw, column: ColumnInfo, kind: pa.DataType, parse: Callable[[Texts], Stamps]) -> Standing:
    """Strings read as dates (YYYY-MM-DD) or RFC 3339 times, compared as integers."""
    texts = _strings_in(raw, column)
    missing = None if column.fill is None else any_of(equal_texts(texts, column.fill))
    times = parse(texts)
    _check_times(texts, times, missing, kind)
    return times.numbers.astype(memory_dtype(key_type(column))), missing


def _strings_in(raw: Raw, column: ColumnInfo) -> Texts:
    if isinstance(raw, Strings):
        return Texts(raw.data, raw.offsets[:-1].astype(np.int64), np.diff(raw.offsets).astype(np.int64))
    assert not isinstance(raw, Present)  # strings are not numbers
    if column.type.kind == "text":
        strings = [ctypes.string_at(pointer) if pointer else b"" for pointer in raw.tolist()]
        return texts_of(pa.array(strings, pa.binary()))
    if raw.dtype.kind != "S":
        name = column.name
        raise FormatError(f"column {name!r} holds {column.type}, which is not a string type", column=name)
    return texts_of(raw)


def _check_times(texts: Texts, times: Stamps, missing: Mask | None, kind: pa.DataType) -> None:
    """Raise for a row that is not a valid date or time; missing rows are not checked."""
    is_date = pa.types.is_date(kind)
    for wrong, expected in (
        (times.malformed, "a date as YYYY-MM-DD" if is_date else "a time as YYYY-MM-DDThh:mm:ss and Z or +hh:mm"),
        (times.no_such_day, "a day that exists"),
        (times.too_far, f"a time that {kind} can hold"),
    ):
        if missing is not None:
            wrong = wrong & ~missing
        if wrong.any():
            row = int(np.argmax(wrong))
            start, length = int(texts.starts[row]), min(int(texts.lengths[row]), MOST_SHOWN)
            shown = texts.data[start : start + length].tobytes()
            raise corrupt_row("date" if is_date else "time", row, expected, shown.decode("utf-8", "replace"))
