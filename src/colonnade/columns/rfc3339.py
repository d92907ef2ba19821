"""Convert RFC 3339 dates and times, stored as strings, to integers and back, vectorized.

| string | integer |
| --- | --- |
| YYYY-MM-DD | days since 1970-01-01, for the years 0000 to 9999 |
| YYYY-MM-DDThh:mm:ss, an optional fraction .fff, Z or +hh:mm or -hh:mm | units since 1970-01-01T00:00:00Z |

Second 60 is second 0 of the next minute, and 24:00:00 is 00:00:00 of the next day; both allow only a zero fraction. An
offset may be up to 24:00. Digits of a fraction finer than the unit are cut off. The grammar accepts month 00, day 00
and the 31st of any month, as other readers do; dates that do not exist are reported separately.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from colonnade.columns.missing import Mask
from colonnade.columns.strings import Bytes, string_buffers
from colonnade.errors import DataError

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Images = np.ndarray[Any, np.dtype[np.bytes_]]
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

    data: Bytes
    starts: Numbers
    lengths: Numbers

    def __len__(self) -> int:
        return len(self.starts)


class Stamps(NamedTuple):
    """Parsed dates or times. Numbers are undefined where one of the masks is set.

    malformed: does not match the grammar. no_such_day: such as 2023-02-30. too_far: out of the unit's 64-bit range.
    """

    numbers: Numbers
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


def _is_too_far(seconds: Numbers, fractions: Numbers, per_second: int) -> Mask:
    """A mask of the times that do not fit 64 bits."""
    least, least_rest = divmod(-(2**63), per_second)
    most, most_rest = divmod(2**63 - 1, per_second)
    below = (seconds < least) | ((seconds == least) & (fractions < least_rest))
    return np.asarray(below | (seconds > most) | ((seconds == most) & (fractions > most_rest)))


def _spread(n: int, rows: Numbers, numbers: Numbers, good: Mask, exists: Mask, far: Mask) -> Stamps:
    """Expand the results for `rows` to all `n` rows; the other rows are malformed."""
    whole, malformed = np.zeros(n, dtype=np.int64), np.ones(n, dtype=bool)
    no_such_day, too_far = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    whole[rows], malformed[rows] = numbers, ~good
    no_such_day[rows], too_far[rows] = good & ~exists, good & exists & far
    return Stamps(whole, malformed, no_such_day, too_far)


def _days(data: Bytes, starts: Numbers) -> tuple[Numbers, Mask, Mask]:
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


def days_since_1970(year: Numbers, month: Numbers, day: Numbers) -> Numbers:
    """Day numbers, computed with years that begin in March, so that the leap day is the last day of a year."""
    begun = year - (month <= 2)
    before = begun * 365 + begun // 4 - begun // 100 + begun // 400
    within = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return before + within - 719_468


def _time_of_day(data: Bytes, starts: Numbers, is_whole: Mask) -> tuple[Numbers, Mask]:
    """The second of the day in strings of at least 19 bytes, and a mask of valid times."""
    hour, good = _pair(data, starts + 11)
    minute, good_minute = _pair(data, starts + 14)
    second, good_second = _pair(data, starts + 17)
    good &= good_minute & good_second & (hour <= 24) & (minute <= 59) & (second <= 60)
    good &= (data[starts + 10] == ord("T")) & (data[starts + 13] == ord(":")) & (data[starts + 16] == ord(":"))
    good &= (hour < 24) | ((minute == 0) & (second == 0) & is_whole)
    good &= (second < 60) | is_whole
    return hour * 3600 + minute * 60 + second, good


def _zones(data: Bytes, starts: Numbers, lengths: Numbers) -> tuple[Numbers, Numbers, Mask]:
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


def _fractions(data: Bytes, starts: Numbers, ends: Numbers, n_digits: int) -> tuple[Numbers, Mask, Mask]:
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


def _first_digits(data: Bytes, begins: Numbers, stops: Numbers) -> tuple[Numbers, Mask]:
    """The first nine digits from each begin, padded with zeros at its stop, and a mask of rows with only digits."""
    found, good = np.zeros(len(begins), dtype=np.int64), np.ones(len(begins), dtype=bool)
    for place in range(_MOST_DIGITS):
        digit = data[np.minimum(begins + place, stops - 1)] - np.uint8(ord("0"))
        digit[begins + place >= stops] = 0
        good &= digit <= 9
        found = found * 10 + digit
    return found, good


def _holds(begins: Numbers, stops: Numbers, marked: Mask) -> Mask:
    """For each range from begin to stop, whether one of its bytes is marked."""
    places = np.flatnonzero(marked)
    return np.asarray(np.searchsorted(places, begins) != np.searchsorted(places, stops))


def _pair(data: Bytes, places: Numbers) -> tuple[Numbers, Mask]:
    """Two digits as a number, and whether they are digits."""
    high, low = data[places] - np.uint8(ord("0")), data[places + 1] - np.uint8(ord("0"))
    return high.astype(np.int64) * 10 + low, (high <= 9) & (low <= 9)


# -- integers to strings --


def dates_to_text(days: Numbers) -> Images:
    """Days as YYYY-MM-DD; raises a DataError for a year that does not have four digits."""
    _check_years(days)
    return np.datetime_as_string(days.astype("M8[D]")).astype("S10")


def date_times_to_text(numbers: Numbers, unit: str) -> Images:
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


def _check_years(days: Numbers) -> None:
    wrong = (days < _FIRST) | (days > _LAST)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"row {row} of these is {days[row]} days from 1970-01-01, in a year that does not have four digits", row=row
        )
