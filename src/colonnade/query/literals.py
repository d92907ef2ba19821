"""Converts the values of a predicate to what a column's keys are compared with: exact numbers, or bytes.

Times become numbers in the column's own unit: '2026-01-01T12:00' against timestamp[s] is the seconds since 1970.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from colonnade.errors import PredicateError
from colonnade.predicate import MAX_DIGITS, has_too_many_digits

Refusal = Callable[[str], PredicateError]
Number = Fraction | float
"""An exact number, or NaN or an infinity."""

_EPOCH = datetime(1970, 1, 1)
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_TIME = (
    r"(?:(?P<day>\d{4}-\d\d-\d\d)(?:[T ](?=\d)|$))?"
    r"(?:(?P<time>\d\d:\d\d(?::\d\d)?)(?:\.(?P<fraction>\d{1,18}))?(?P<zone>Z|[+-]\d\d:?\d\d)?)?"
)
_DURATION = r"(?P<number>[+-]?\d+(?:\.\d*)?(?:e[+-]?\d+)?)\s*(?P<unit>s|ms|us|ns|min|h|d)"
_SECONDS: dict[str, int | Fraction] = {
    "d": 86400,
    "h": 3600,
    "min": 60,
    "s": 1,
    "ms": Fraction(1, 10**3),
    "us": Fraction(1, 10**6),
    "ns": Fraction(1, 10**9),
}


_NUMPY_SECONDS = {
    "W": Fraction(7 * 86400), "D": Fraction(86400), "h": Fraction(3600), "m": Fraction(60), "s": Fraction(1),
    **{unit: Fraction(1, 1000**power) for power, unit in enumerate(("ms", "us", "ns", "ps", "fs", "as"), 1)},
}  # fmt: skip


def is_ordered_type(kind: pa.DataType) -> bool:
    """Whether values of an Arrow type can be compared with values of a predicate."""
    types = pa.types
    return bool(
        types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)
        or types.is_temporal(kind) or is_bytes_type(kind)
    )  # fmt: skip


def is_bytes_type(kind: pa.DataType) -> bool:
    """Whether values are compared byte by byte."""
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind))


def as_bytes(value: Any, kind: pa.DataType, refuse: Refusal) -> bytes:
    """The bytes of a string or of bytes, for a column of strings or bytes."""
    value = _plain(value)
    if isinstance(value, str) and pa.types.is_string(kind):
        try:
            return value.encode()
        except UnicodeEncodeError:
            raise refuse("text that is not Unicode") from None
    if isinstance(value, (bytes, bytearray, memoryview)) and not pa.types.is_string(kind):
        return bytes(value)
    raise refuse(_told(value))


def as_number(value: Any, kind: pa.DataType, refuse: Refusal) -> Number:
    """A value as a number in the unit of the column's keys."""
    value = _plain(value)
    if pa.types.is_boolean(kind):
        if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
            return Fraction(int(value))
        raise refuse(_told(value))
    if pa.types.is_temporal(kind):
        return _as_time(value, kind, refuse)
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal, Fraction)):
        raise refuse(_told(value))
    if pa.types.is_decimal(kind):
        number = _exact(Decimal(repr(value)) if isinstance(value, float) else value)  # 0.1 means the decimal 0.1
        return number * Fraction(10) ** int(kind.scale) if isinstance(number, Fraction) else number
    return _exact(value)


def _plain(value: Any) -> Any:
    """The Python value of a NumPy or Arrow scalar; the scalar itself for times that Python cannot hold exactly."""
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return value
    return value.item() if isinstance(value, np.generic) else value


def _told(value: Any) -> str:
    kind = {str: "text", bytes: "bytes", bool: "a boolean", int: "a number", float: "a number"}.get(type(value))
    return f"{kind or type(value).__name__} ({value!r})"


def _exact(value: float | Decimal | Fraction) -> Number:
    try:
        return Fraction(value)
    except (ValueError, OverflowError):
        return float(value)


def _as_time(value: Any, kind: pa.DataType, refuse: Refusal) -> Fraction:
    if pa.types.is_duration(kind):
        seconds = _duration(value, refuse)
    elif pa.types.is_time(kind):
        seconds = _time_of_day(value, refuse)
    else:
        zone = kind.tz if pa.types.is_timestamp(kind) else None
        seconds = _since_epoch(value, zone is not None, refuse)
    if pa.types.is_date32(kind):
        return seconds / 86400
    return seconds * (1000 if pa.types.is_date64(kind) else _PER_SECOND[kind.unit])


def _duration(value: Any, refuse: Refusal) -> Fraction:
    if isinstance(value, np.timedelta64):
        return _counted(value, refuse)
    if isinstance(value, timedelta):
        whole = value // timedelta(microseconds=1)
        return Fraction(whole, 10**6) + Fraction(getattr(value, "nanoseconds", 0), 10**9)
    match = re.fullmatch(_DURATION, value.strip(), re.IGNORECASE) if isinstance(value, str) else None
    if match is None or not _is_small(match["number"]):
        raise refuse(f"{_told(value)}, but with a duration such as '1.5 s' or a timedelta")
    return Fraction(match["number"]) * _SECONDS[match["unit"].lower()]


def _is_small(digits: str) -> bool:
    """Whether a written number has no more digits than a predicate may have."""
    try:
        return len(digits) <= MAX_DIGITS and not has_too_many_digits(Decimal(digits))
    except InvalidOperation:  # the exponent is out of range for Decimal
        return False


def _counted(value: np.datetime64 | np.timedelta64, refuse: Refusal) -> Fraction:
    """A NumPy time as exact seconds, whatever its unit: int64 nanoseconds end in 2262."""
    unit, step = np.datetime_data(value.dtype)
    if np.isnat(value) or unit not in _NUMPY_SECONDS:
        raise refuse(f"{value!r}, which is not a fixed number of seconds")
    return int(value.astype("i8")) * step * _NUMPY_SECONDS[unit]


def _time_of_day(value: Any, refuse: Refusal) -> Fraction:
    if isinstance(value, time) and value.tzinfo is None:
        return Fraction((value.hour * 60 + value.minute) * 60 + value.second) + Fraction(value.microsecond, 10**6)
    match = re.fullmatch(_TIME, value.strip()) if isinstance(value, str) else None
    if match is None or match["day"] or not match["time"] or match["zone"]:
        raise refuse(f"{_told(value)}, but with a time of day such as '12:30:00'")
    return _clock(match, refuse, value)


def _clock(match: re.Match[str], refuse: Refusal, value: str) -> Fraction:
    """The seconds since midnight that a matched string gives."""
    parts = [int(part) for part in (match["time"] or "0:0").split(":")]
    hours, minutes, seconds = (*parts, 0)[:3]
    if hours > 23 or minutes > 59 or seconds > 59:
        raise refuse(f"{value!r}, which is not a time")
    digits = match["fraction"] or "0"
    return Fraction((hours * 60 + minutes) * 60 + seconds) + Fraction(int(digits), 10 ** len(digits))


def _since_epoch(value: Any, zoned: bool, refuse: Refusal) -> Fraction:
    """Seconds since 1970, in UTC where the column has a zone; a time without a zone then counts as UTC."""
    if isinstance(value, np.datetime64):
        if np.isnat(value):
            raise refuse("NaT")
        months = np.datetime_data(value.dtype)[0] in ("Y", "M")
        return _counted(value.astype("datetime64[D]") if months else value, refuse)
    if isinstance(value, datetime):
        return _from_datetime(value, zoned, refuse)
    if isinstance(value, date):
        return Fraction((value - _EPOCH.date()).days * 86400)
    match = re.fullmatch(_TIME, value.strip()) if isinstance(value, str) else None
    if match is None or not match["day"]:
        raise refuse(f"{_told(value)}, but with a time such as '2026-01-31' or '2026-01-31T12:30'")
    try:
        day = date.fromisoformat(match["day"])
    except ValueError:
        raise refuse(f"{value!r}, which is not a date") from None
    seconds = Fraction((day - _EPOCH.date()).days * 86400) + _clock(match, refuse, value)
    if match["zone"]:
        _require_zone(zoned, value, refuse)
        seconds -= _offset(match["zone"])
    return seconds


def _from_datetime(value: datetime, zoned: bool, refuse: Refusal) -> Fraction:
    nanoseconds = Fraction(getattr(value, "nanosecond", 0), 10**9)  # pandas
    if value.tzinfo is not None:
        _require_zone(zoned, value, refuse)
        value = value.astimezone(UTC).replace(tzinfo=None)
    return Fraction((value - _EPOCH) // timedelta(microseconds=1), 10**6) + nanoseconds


def _require_zone(zoned: bool, value: Any, refuse: Refusal) -> None:
    if not zoned:
        raise refuse(f"{value!s}, which has a time zone, and the column has none")


def _offset(zone: str) -> int:
    if zone == "Z":
        return 0
    digits = zone[1:].replace(":", "")
    return (int(digits[:2]) * 3600 + int(digits[2:]) * 60) * (-1 if zone[0] == "-" else 1)
