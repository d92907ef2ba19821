"""Numbers that netCDF stores for others: packed by a factor and an offset, times since a date, and missing values.

The attributes are those of the CF conventions. Times are decoded in the standard calendar; those of other calendars,
and units of months or years, stay numbers.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from colonnade.arrays import Booleans, Image, Int64s
from colonnade.errors import CorruptError
from colonnade.layouts.columns import names
from colonnade.model import StoredType
from colonnade.nodes import Dataset, attributes
from colonnade.nodes.row_views import RowView
from colonnade.stored_dtypes import memory_dtype

STANDARD = (None, "standard", "gregorian", "proleptic_gregorian")
INT64 = StoredType("integer", 8, "little", signed=True, precision=64)
UNPACKED = {
    4: StoredType("float", 4, "little", precision=32, mantissa=23, exponent=8),
    8: StoredType("float", 8, "little", precision=64, mantissa=52, exponent=11),
}
NOT_A_TIME = np.iinfo(np.int64).min
UNITS_OF_TIMES = {"s": "seconds", "us": "microseconds", "ms": "milliseconds", "ns": "nanoseconds"}
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_SECONDS = {
    **dict.fromkeys(("day", "days", "d"), 86_400),
    **dict.fromkeys(("hour", "hours", "hr", "hrs", "h"), 3600),
    **dict.fromkeys(("minute", "minutes", "min", "mins"), 60),
    **dict.fromkeys(("second", "seconds", "sec", "secs", "s"), 1),
}
_FRACTIONS = {
    **dict.fromkeys(("millisecond", "milliseconds", "msec", "msecs", "ms"), "ms"),
    **dict.fromkeys(("microsecond", "microseconds", "us"), "us"),
    **dict.fromkeys(("nanosecond", "nanoseconds", "ns"), "ns"),
}
_SINCE = re.compile(
    r"\s*(?P<word>[a-z]+)\s+since\s+(?P<year>\d{1,6})-(?P<month>\d{1,2})-(?P<day>\d{1,2})"
    r"(?:(?:\s+|T)(?P<hour>\d{1,2})(?::(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:\.(?P<fraction>\d*))?)?)?)?"
    r"\s*(?P<zone>utc|gmt|z|[+-]\d{1,2}(?::?\d{2})?)?\s*",
    re.IGNORECASE | re.ASCII,
)
_DAYS_BEFORE = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)


class Since(NamedTuple):
    """What units such as "days since 2000-01-01" mean. `ticks` of `unit` are one of the stored number.

    epoch: the date, in ticks of `unit` since 1970. unit: "s", "ms", "us" or "ns". has_zone: whether it names a zone.
    """

    unit: str
    ticks: int
    epoch: int
    has_zone: bool

    @property
    def arrow_type(self) -> str:
        return f"timestamp[{self.unit}, UTC]" if self.has_zone else f"timestamp[{self.unit}]"

    @property
    def units(self) -> str:
        return f"{UNITS_OF_TIMES[self.unit]} since 1970-01-01" + (" 00:00:00 UTC" if self.has_zone else "")


def parse_since(units: str, calendar: str | None, is_float: bool) -> Since | None:
    """The meaning of units of times; None for what is not decoded."""
    match = _SINCE.fullmatch(units)
    kind = None if calendar is None else calendar.strip().lower()
    if match is None or kind not in STANDARD:
        return None
    word = match["word"].lower()
    if word not in _SECONDS and word not in _FRACTIONS:
        return None
    day = _day_number(int(match["year"]), int(match["month"]), int(match["day"]), kind == "proleptic_gregorian")
    clock = [int(match[part] or 0) for part in ("hour", "minute", "second")]
    if day is None or clock[0] > 24 or clock[1] > 59 or clock[2] > 60:
        return None
    seconds = day * 86_400 + clock[0] * 3600 + clock[1] * 60 + clock[2] - _zone_seconds(match["zone"])
    fraction = (match["fraction"] or "").rstrip("0")
    unit = _unit_of(word, fraction, is_float)
    digits = {"s": 0, "ms": 3, "us": 6, "ns": 9}[unit]
    per_second = _PER_SECOND[unit]
    epoch = seconds * per_second + int((fraction + "0" * 9)[:digits] or 0)
    ticks = _SECONDS[word] * per_second if word in _SECONDS else per_second // _PER_SECOND[_FRACTIONS[word]]
    if abs(epoch) >= 2**62:
        return None
    return Since(unit, ticks, epoch, match["zone"] is not None)


def _unit_of(word: str, fraction: str, is_float: bool) -> str:
    """The unit in which such times are exact; microseconds for floats, unless they count nanoseconds."""
    finest = _FRACTIONS.get(word, "s")
    if is_float or fraction:
        finest = max(finest, "us", key=_PER_SECOND.__getitem__)
    return "ns" if len(fraction) > 6 else finest


def _zone_seconds(zone: str | None) -> int:
    """How far a zone is ahead of UTC."""
    if zone is None or zone[0] not in "+-":
        return 0
    digits = zone[1:].replace(":", "")
    hours, minutes = (digits[:-2], digits[-2:]) if len(digits) > 2 else (digits, "0")
    seconds = int(hours) * 3600 + int(minutes) * 60
    return -seconds if zone[0] == "-" else seconds


def _day_number(year: int, month: int, day: int, proleptic: bool) -> int | None:
    """Days from 1970-01-01 to a date, which is of Julius Caesar's calendar before 1582-10-15 unless `proleptic`."""
    if not 1 <= month <= 12 or not 1 <= day <= 31:
        return None
    is_julian = not proleptic and (year, month, day) < (1582, 10, 15)
    is_leap = year % 4 == 0 and (is_julian or year % 100 != 0 or year % 400 == 0)
    last = year - 1
    leap_days = last // 4 - (0 if is_julian else last // 100 - last // 400)
    in_year = _DAYS_BEFORE[month - 1] + day - 1 + (1 if is_leap and month > 2 else 0)
    return last * 365 + leap_days + in_year - (719_164 if is_julian else 719_162)


class Packing(NamedTuple):
    """How stored numbers become values: value = stored * factor + offset, and which of them are missing."""

    factor: np.ndarray | None = None
    offset: np.ndarray | None = None
    missing: tuple[float | int, ...] = ()
    since: Since | None = None

    @property
    def is_packed(self) -> bool:
        return self.factor is not None or self.offset is not None

    @property
    def needs_view(self) -> bool:
        return self.is_packed or self.since is not None or len(self.missing) > 1


def packing_of(dataset: Dataset, stored: StoredType) -> Packing:
    """What the attributes of a variable say about its numbers."""
    if stored.kind not in ("integer", "float") or memory_dtype(stored).kind not in "iuf":
        return Packing()
    factor, offset = _number(dataset, names.SCALE), _number(dataset, names.OFFSET)
    missing: list[float | int] = []
    for name in (names.FILL, names.MISSING):
        for value in _numbers(dataset, name):
            fitting = _fitting(value, memory_dtype(stored))
            if fitting is not None and not any(_same(fitting, other) for other in missing):
                missing.append(fitting)
    units = attributes.read_text(dataset, names.UNITS)
    is_float = stored.kind == "float" or factor is not None or offset is not None
    calendar = attributes.read_text(dataset, names.CALENDAR)
    since = None if units is None else parse_since(units, calendar, is_float)
    return Packing(factor, offset, tuple(missing), since)


def _same(value: float | int, other: float | int) -> bool:
    return value == other or (value != value and other != other)  # noqa: PLR0124 - NaN


def _numbers(dataset: Dataset, name: str) -> list[np.ndarray]:
    value = dataset.read_attribute(name)
    array = np.asarray(value) if isinstance(value, (np.ndarray, np.generic, int, float)) else np.zeros(0)
    return list(array.ravel()) if array.dtype.kind in "iuf" and array.size <= 64 else []


def _number(dataset: Dataset, name: str) -> np.ndarray | None:
    """An attribute that is one finite number."""
    numbers = _numbers(dataset, name)
    return numbers[0] if len(numbers) == 1 and np.isfinite(numbers[0]) else None


def _fitting(value: np.ndarray, dtype: np.dtype) -> float | int | None:
    """A number as one of another type that equals it; None if there is none."""
    number: float | int = value.item()
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return float(np.array(number, dtype=dtype))
    if number != number or number != int(number):  # noqa: PLR0124 - NaN
        return None
    bounds = np.iinfo(dtype)
    return int(number) if bounds.min <= number <= bounds.max else None


class PackedNumbers(RowView):
    """Numbers as their attributes describe them: unpacked, times as integers since 1970, missing ones as one value.

    fill: the bytes of the value that stands for missing rows.
    """

    def __init__(self, dataset: Dataset, packing: Packing) -> None:
        info = dataset.describe()
        self._stored, self._packing = info, packing
        stored = info.type
        if packing.since is not None:
            stored, self._missing = INT64, np.int64(NOT_A_TIME)
        elif packing.is_packed:
            stored = UNPACKED[4 if self._unpacked(np.zeros(0, memory_dtype(info.type))).dtype.itemsize == 4 else 8]
            self._missing = memory_dtype(stored).type(np.nan)
        else:
            self._missing = memory_dtype(stored).type(packing.missing[0])
        super().__init__(stored, dataset.shape[0], (dataset,), info.chunk_rows)

    @property
    def fill(self) -> bytes:
        return bytes(self._missing.tobytes())

    def image(self, start: int, count: int, _owned: list[object]) -> Image:
        with self._base.reading(self._stored, start, count) as stored:
            missing = self._is_missing(stored)
            if self._packing.since is not None:
                values = self._times(stored, missing, start, self._packing.since)
            else:
                values = self._unpacked(stored) if self._packing.is_packed else stored.copy()
            values[missing] = self._missing
        return values

    def _is_missing(self, stored: Image) -> Booleans:
        missing: Booleans = np.zeros(len(stored), dtype=bool)
        for value in self._packing.missing:
            missing |= np.isnan(stored) if value != value else stored == value  # noqa: PLR0124 - NaN
        return missing

    def _unpacked(self, stored: Image) -> np.ndarray:
        values: np.ndarray = stored
        with np.errstate(all="ignore"):
            if self._packing.factor is not None:
                values = values * self._packing.factor
            if self._packing.offset is not None:
                values = values + self._packing.offset
        return values.astype(np.float32 if values.dtype == np.float32 else np.float64)

    def _times(self, stored: Image, missing: Booleans, start: int, since: Since) -> np.ndarray:
        """Ticks since 1970; NaN is missing. A number that does not fit a 64-bit time is a CorruptError."""
        most = (2**63 - 2 - abs(since.epoch)) // since.ticks
        if not self._packing.is_packed and stored.dtype.kind in "iu":
            bounds = np.iinfo(stored.dtype)
            outside = (stored > min(most, int(bounds.max))) | (stored < max(-most, int(bounds.min)))
            self._refuse_outside(outside & ~missing, stored, start, since)
            return np.where(missing, 0, stored).astype(np.int64) * since.ticks + since.epoch
        numbers = self._unpacked(stored).astype(np.float64)
        missing |= np.isnan(numbers)
        self._refuse_outside(~missing & ~(np.abs(numbers) < float(most) * (1 - 2**-50)), stored, start, since)
        present = np.where(missing, 0, numbers)
        whole = np.floor(present)
        ticks: Int64s = np.rint((present - whole) * since.ticks).astype(np.int64)
        return whole.astype(np.int64) * since.ticks + ticks + since.epoch

    def _refuse_outside(self, outside: Booleans, stored: Image, start: int, since: Since) -> None:
        if outside.any():
            at = int(np.argmax(outside))
            value, expected = stored[at].item(), f"a number that is a {since.arrow_type}"
            raise CorruptError(
                f"found {value!r}, expected {expected}", path=self.path, row=start + at, expected=expected, found=value
            )
