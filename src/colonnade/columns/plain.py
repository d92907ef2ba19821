"""Plain columns: one element per row, which is the value, or what a codec makes the value of (such as RFC 3339)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from colonnade.arrays import Image, Int64s, Octets
from colonnade.columns.decode import (
    boolean_array,
    corrupt_row,
    decode,
    decode_numbers,
    decode_strings,
    fixed_array,
    missing_rows,
)
from colonnade.columns.keys import Keys, NumberKeys, Numbers, decimal_keys, keys_of, keys_to_decimals, keys_to_image
from colonnade.columns.mapping import key_type
from colonnade.columns.missing import Mask
from colonnade.columns.raw import Present, Raw, any_of, part_of
from colonnade.columns.strings import string_buffers
from colonnade.errors import DataError, FormatError
from colonnade.model import Codec, ColumnInfo, StoredType
from colonnade.nodes.heap_source import Strings
from colonnade.stored_dtypes import memory_dtype


class PlainDecoder:
    """Decodes elements by their datatype."""

    def __init__(self, column: ColumnInfo, kind: pa.DataType) -> None:
        self._stored, self._fill, self._kind = column.type, column.fill, kind

    def array(self, raw: Raw) -> pa.Array:
        if isinstance(raw, Present):
            return decode(raw.image, self._stored, self._kind)
        if isinstance(raw, Strings):
            return decode_strings(raw, self._kind, self._fill)
        return decode(raw, self._stored, self._kind, self._fill)

    def numbers(self, raw: Raw) -> tuple[Numbers, Mask | None]:
        if isinstance(raw, Present):
            return decode_numbers(raw.image, self._stored, None)
        assert not isinstance(raw, Strings)  # only readers that have numbers ask for them
        return decode_numbers(raw, self._stored, self._fill)

    def keys(self, raw: Raw) -> Keys:
        return keys_in(self.key_array(raw))

    def key_array(self, raw: Raw) -> pa.Array:
        stored = self._stored
        if isinstance(raw, Present):
            return decode(raw.image, stored, pa.from_numpy_dtype(raw.image.dtype))
        if not isinstance(raw, Strings) and stored.kind in ("integer", "bitfield", "float"):
            return decode(raw, stored, pa.from_numpy_dtype(raw.dtype), self._fill)
        array = self.array(raw)
        if stored.kind == "boolean":
            return array.cast(pa.int8())
        if stored.kind == "enum":
            return pa.array(raw, mask=array.is_null().to_numpy(zero_copy_only=False))
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        return array if pa.types.is_decimal(array.type) else array.cast(pa.binary())

    def values(self, keys: Keys) -> pa.Array:
        if self._stored.kind in ("string", "text") and pa.types.is_decimal(self._kind):
            return spread(keys, self._decimals)
        return values_of(keys, self._stored, self.array)

    def _decimals(self, keys: Keys) -> pa.Array:
        assert isinstance(keys, NumberKeys)  # as returned by decimal_keys
        return pa.array(keys_to_decimals(keys.values.tolist(), self._kind.scale), self._kind)

    def part(self, raw: Raw, begin: int, end: int) -> Raw:
        return part_of(raw, begin, end)


def keys_in(array: pa.Array) -> Keys:
    """An array of keys, which a decoder made, as keys."""
    return decimal_keys(array) if pa.types.is_decimal(array.type) else keys_of(array)


def values_of(keys: Keys, stored: StoredType, array: Callable[[Image], pa.Array]) -> pa.Array:
    """The values of keys that can be stored as elements, which `array` decodes."""

    def present_values(present: Keys) -> pa.Array:
        image, _memory = keys_to_image(present, stored)  # the elements may point to this memory
        return array(image)

    return spread(keys, present_values)


def spread(keys: Keys, array_of: Callable[[Keys], pa.Array]) -> pa.Array:
    """The values of the keys that are not missing, at the positions of these keys."""
    places = np.flatnonzero(~keys.missing)
    array = array_of(keys.take(places))
    if len(places) == len(keys):
        return array
    positions: Int64s = np.zeros(len(keys), dtype=np.int64)
    positions[places] = np.arange(len(places))
    return array.take(pa.array(positions, mask=keys.missing))


# -- Convert RFC 3339 dates and times, stored as strings, to integers and back, vectorized --


Integers = Int64s
Images = np.ndarray  # of bytes
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_DATE = 10  # length of a date in bytes
_SECONDS = 19  # length of a time in bytes, up to its seconds
_DAY = 86_400
_MOST_DIGITS = 9  # of a fraction, in the finest unit
_MONTHS = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], dtype=np.int64)
_FIRST, _LAST = -719_528, 2_932_896  # day numbers of 0000-01-01 and 9999-12-31


class Texts(NamedTuple):
    """Many strings: their bytes, and the offset and length of each."""

    data: Octets
    starts: Integers
    lengths: Integers

    def __len__(self) -> int:
        return len(self.starts)


class Stamps(NamedTuple):
    """Parsed dates or times. Integers are undefined where one of the masks is set.

    malformed: does not match the grammar. no_such_day: such as 2023-02-30. too_far: out of the unit's 64-bit range.
    """

    numbers: Integers
    malformed: Mask
    no_such_day: Mask
    too_far: Mask


def texts_of(strings: pa.Array | Images) -> Texts:
    """The strings of an Arrow array or of NUL-padded fixed-length elements; undefined for missing rows."""
    if not isinstance(strings, np.ndarray):
        ends, content = string_buffers(strings)
        starts = ends[:-1].astype(np.int64)
        return Texts(content, starts, ends[1:] - starts)
    width = strings.dtype.itemsize
    content = np.ascontiguousarray(strings).view(np.uint8)
    if not width:
        return Texts(content, np.zeros(len(strings), np.int64), np.zeros(len(strings), np.int64))
    ended = content.reshape(-1, width) == 0
    lengths = np.where(ended.any(axis=1), ended.argmax(axis=1), width)
    return Texts(content, np.arange(len(strings), dtype=np.int64) * width, lengths.astype(np.int64))


def equal_texts(texts: Texts, text: bytes) -> Mask:
    """The rows that equal this string, each compared up to its first NUL. Compared one byte position at a time, because
    few rows are left after the first bytes."""
    wanted = text.split(b"\0")[0]
    found = np.zeros(len(texts), dtype=bool)
    rows = np.flatnonzero(texts.lengths >= len(wanted))
    for place, byte in enumerate(wanted):
        rows = rows[texts.data[texts.starts[rows] + place] == byte]
    longer = rows[texts.lengths[rows] > len(wanted)]
    found[rows] = True
    found[longer] = texts.data[texts.starts[longer] + len(wanted)] == 0
    return found


def date_problems(strings: pa.Array | Images) -> tuple[Mask, Mask]:
    """Masks of the rows that are not a date as YYYY-MM-DD, and of days that do not exist; undefined if missing."""
    found = parse_dates(texts_of(strings))
    return found.malformed, found.no_such_day


def date_time_problems(strings: pa.Array | Images) -> tuple[Mask, Mask]:
    """Masks of the rows that are not an RFC 3339 time, and of those whose day does not exist; undefined if missing."""
    found = parse_date_times(texts_of(strings), "s")
    return found.malformed, found.no_such_day


# -- strings to integers --


def parse_dates(texts: Texts) -> Stamps:
    """Parse dates."""
    rows = np.flatnonzero(texts.lengths == _DATE)
    days, good, exists = _days(texts.data, texts.starts[rows])
    return _spread(len(texts), rows, days, good, exists, np.zeros(len(rows), dtype=bool))


def parse_date_times(texts: Texts, unit: str) -> Stamps:
    """Parse times into multiples of a unit: "s", "ms", "us" or "ns"."""
    rows = np.flatnonzero(texts.lengths > _SECONDS)
    data, starts, lengths = texts.data, texts.starts[rows], texts.lengths[rows]
    days, good, exists = _days(data, starts)
    zones, offsets, zones_good = _zones(data, starts, lengths)
    fractions, is_zero, fractions_good = _fractions(data, starts, lengths - zones, _DIGITS[unit])
    seconds, times_good = _time_of_day(data, starts, is_zero)
    good &= zones_good & fractions_good & times_good
    whole = days * _DAY + seconds - offsets
    numbers = whole * PER_SECOND[unit] + fractions  # times out of range wrap around; too_far marks them
    return _spread(len(texts), rows, numbers, good, exists, _is_too_far(whole, fractions, PER_SECOND[unit]))


def _is_too_far(seconds: Integers, fractions: Integers, per_second: int) -> Mask:
    """A mask of the times that do not fit 64 bits."""
    least, least_rest = divmod(-(2**63), per_second)
    most, most_rest = divmod(2**63 - 1, per_second)
    below = (seconds < least) | ((seconds == least) & (fractions < least_rest))
    return np.asarray(below | (seconds > most) | ((seconds == most) & (fractions > most_rest)))


def _spread(n: int, rows: Integers, numbers: Integers, good: Mask, exists: Mask, far: Mask) -> Stamps:
    """Expand the results for `rows` to all `n` rows; the other rows are malformed."""
    whole, malformed = np.zeros(n, dtype=np.int64), np.ones(n, dtype=bool)
    no_such_day, too_far = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    whole[rows], malformed[rows] = numbers, ~good
    no_such_day[rows], too_far[rows] = good & ~exists, good & exists & far
    return Stamps(whole, malformed, no_such_day, too_far)


def _days(data: Octets, starts: Integers) -> tuple[Integers, Mask, Mask]:
    """The day numbers at the start of strings of at least 10 bytes, and masks of valid dates and of days that exist."""
    century, good = _pair(data, starts)
    rest, good_rest = _pair(data, starts + 2)
    month, good_month = _pair(data, starts + 5)
    day, good_day = _pair(data, starts + 8)
    good &= good_rest & good_month & good_day & (month <= 12) & (day <= 31)
    good &= (data[starts + 4] == ord("-")) & (data[starts + 7] == ord("-"))
    year = century * 100 + rest
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    month = np.minimum(month, 12)
    longest = _MONTHS[month] + (leap & (month == 2))
    return days_since_1970(year, month, day), good, (month > 0) & (day > 0) & (day <= longest)


def days_since_1970(year: Integers, month: Integers, day: Integers) -> Integers:
    """Day numbers, computed with years that begin in March, so that the leap day is the last day of a year."""
    begun = year - (month <= 2)
    before = begun * 365 + begun // 4 - begun // 100 + begun // 400
    within = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return before + within - 719_468


def _time_of_day(data: Octets, starts: Integers, is_whole: Mask) -> tuple[Integers, Mask]:
    """The second of the day in strings of at least 19 bytes, and a mask of valid times."""
    hour, good = _pair(data, starts + 11)
    minute, good_minute = _pair(data, starts + 14)
    second, good_second = _pair(data, starts + 17)
    good &= good_minute & good_second & (hour <= 24) & (minute <= 59) & (second <= 60)
    good &= (data[starts + 10] == ord("T")) & (data[starts + 13] == ord(":")) & (data[starts + 16] == ord(":"))
    good &= (hour < 24) | ((minute == 0) & (second == 0) & is_whole)
    good &= (second < 60) | is_whole
    return hour * 3600 + minute * 60 + second, good


def _zones(data: Octets, starts: Integers, lengths: Integers) -> tuple[Integers, Integers, Mask]:
    """For strings of at least 20 bytes: the length of the zone, its offset in seconds, and a mask of valid zones."""
    ends = starts + lengths
    is_utc = data[ends - 1] == ord("Z")
    sign = data[ends - 6]
    hour, good = _pair(data, ends - 5)
    minute, good_minute = _pair(data, ends - 2)
    good &= good_minute & (lengths >= _SECONDS + 6) & (data[ends - 3] == ord(":"))
    good &= ((sign == ord("+")) | (sign == ord("-"))) & (minute <= 59) & (hour * 60 + minute <= 24 * 60)
    offsets = np.where(sign == ord("-"), -1, 1) * (hour * 3600 + minute * 60)
    return np.where(is_utc, 1, 6), np.where(is_utc, 0, offsets), good | is_utc


def _fractions(data: Octets, starts: Integers, ends: Integers, n_digits: int) -> tuple[Integers, Mask, Mask]:
    """The fraction of a second to `n_digits` digits, a mask of zero fractions, and a mask of valid fractions.

    The zone of each string begins at `ends`.
    """
    lengths = ends - _SECONDS - 1  # digits; -1 if there is no point
    good = lengths == -1
    billionths = np.zeros(len(starts), dtype=np.int64)
    is_zero = np.ones(len(starts), dtype=bool)
    rows = np.flatnonzero(lengths > 0)
    if len(rows):
        begins, stops = starts[rows] + _SECONDS + 1, starts[rows] + ends[rows]
        found, good[rows] = _first_digits(data, begins, stops)
        good[rows] &= data[begins - 1] == ord(".")
        billionths[rows], is_zero[rows] = found, found == 0
        longer = rows[lengths[rows] > _MOST_DIGITS]
        begins, stops = starts[longer] + _SECONDS + 1 + _MOST_DIGITS, starts[longer] + ends[longer]
        if len(longer):
            good[longer] &= ~_holds(begins, stops, (data - np.uint8(ord("0"))) > 9)
            is_zero[longer] &= ~_holds(begins, stops, data != ord("0"))
    return billionths // 10 ** (_MOST_DIGITS - n_digits), is_zero, good


def _first_digits(data: Octets, begins: Integers, stops: Integers) -> tuple[Integers, Mask]:
    """The first nine digits from each begin, padded with zeros at its stop, and a mask of rows with only digits."""
    found, good = np.zeros(len(begins), dtype=np.int64), np.ones(len(begins), dtype=bool)
    for place in range(_MOST_DIGITS):
        digit = data[np.minimum(begins + place, stops - 1)] - np.uint8(ord("0"))
        digit[begins + place >= stops] = 0
        good &= digit <= 9
        found = found * 10 + digit
    return found, good


def _holds(begins: Integers, stops: Integers, marked: Mask) -> Mask:
    """For each range from begin to stop, whether one of its bytes is marked."""
    places = np.flatnonzero(marked)
    return np.asarray(np.searchsorted(places, begins) != np.searchsorted(places, stops))


def _pair(data: Octets, places: Integers) -> tuple[Integers, Mask]:
    """Two digits as a number, and whether they are digits."""
    high, low = data[places] - np.uint8(ord("0")), data[places + 1] - np.uint8(ord("0"))
    return high.astype(np.int64) * 10 + low, (high <= 9) & (low <= 9)


# -- integers to strings --


def dates_to_text(days: Integers) -> Images:
    """Days as YYYY-MM-DD; raises a DataError for a year that does not have four digits."""
    _check_years(days)
    return np.datetime_as_string(days.astype("M8[D]")).astype("S10")


def date_times_to_text(numbers: Integers, unit: str) -> Images:
    """Times as YYYY-MM-DDThh:mm:ssZ, with 3, 6 or 9 decimal places where needed."""
    per_second = PER_SECOND[unit]
    seconds, rest = np.divmod(numbers, per_second)
    _check_years(seconds // _DAY)
    whole = np.datetime_as_string(seconds.astype("M8[s]")).astype(f"S{_SECONDS}")
    texts = np.char.add(whole, b"Z").astype(f"S{_SECONDS + 1 + (_DIGITS[unit] and _DIGITS[unit] + 1)}")
    left = rest != 0
    for coarser in [name for name in PER_SECOND if 1 < PER_SECOND[name] <= per_second]:
        factor, digits = per_second // PER_SECOND[coarser], _DIGITS[coarser]
        rows = np.flatnonzero(left & (rest % factor == 0))
        if not len(rows):  # NumPy's zfill fails for an empty array
            continue
        behind = np.char.zfill((rest[rows] // factor).astype(f"S{digits}"), digits)
        texts[rows] = np.char.add(np.char.add(whole[rows], b"."), np.char.add(behind, b"Z"))
        left[rows] = False
    return texts


def _check_years(days: Integers) -> None:
    wrong = (days < _FIRST) | (days > _LAST)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(f"a date {days[row]} days from 1970-01-01 is in a year that does not have four digits", row=row)


# -- Codecs: rows that stand for numbers of another type, such as integers for booleans or strings for dates --


R_NA = 1954  # the low word of the NaN that R uses for a missing number
MOST_SHOWN = 60  # characters of an invalid string that an error shows

Standing = tuple[Numbers, Mask | None]
"""The numbers that rows stand for, in the datatype of the keys, and a mask of missing rows, or None."""


class CodecDecoder:
    """Decodes rows in two steps: `stand_for` gives the numbers that they stand for, `as_array` the values of these."""

    def __init__(
        self,
        column: ColumnInfo,
        stand_for: Callable[[Raw], Standing],
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


def codec_decoder(column: ColumnInfo, kind: pa.DataType, codec: Codec) -> CodecDecoder:
    """The decoder of a plain column with a codec."""
    if codec == "truth":
        return CodecDecoder(column, lambda raw: _truths(raw, column), lambda n, missing: boolean_array(n != 0, missing))
    if codec in ("date", "date-time"):
        parse = parse_dates if codec == "date" else lambda texts: parse_date_times(texts, kind.unit)
        stand_for: Callable[[Raw], Standing] = lambda raw: _times(raw, column, kind, parse)  # noqa: E731
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


_NUMBERS: dict[Codec, Callable[[Raw, ColumnInfo], Standing]] = {"double": _doubles, "bits": _bits, "r": _r_doubles}


def numbers_in(raw: Raw, column: ColumnInfo) -> Image:
    """The rows as read; raises a FormatError unless they are numbers of a native width."""
    if isinstance(raw, (Strings, Present)) or raw.dtype.kind not in "iuf":
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
            raise corrupt_row(row, expected, shown.decode("utf-8", "replace"))
