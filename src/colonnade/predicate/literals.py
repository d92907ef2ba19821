"""Names and values in predicates and expressions: their text, and the bounds of numbers."""

from __future__ import annotations

import math
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction

import numpy as np

WORDS = ("and", "or", "not", "in", "between", "is", "missing", "null", "none", "nan", "like", "startswith", "contains",
         "true", "false", "inf")  # fmt: skip

MAX_DIGITS = 2000  # of a number, before or after the point: numbers are compared exactly. No column holds that many
_LARGEST = 10**MAX_DIGITS


def has_too_many_digits(value: object) -> bool:
    """Whether a number has more than MAX_DIGITS digits before or after the point. False for other values."""
    if isinstance(value, int):
        return not -_LARGEST < value < _LARGEST
    if isinstance(value, Decimal) and value.is_finite():
        _, digits, last = value.as_tuple()
        assert isinstance(last, int)  # the exponent of a finite number
        return len(digits) + last > MAX_DIGITS or -last > MAX_DIGITS
    if isinstance(value, Fraction):
        return has_too_many_digits(value.numerator) or has_too_many_digits(value.denominator)
    return False


def name_text(name: str) -> str:
    """The name of a column in a predicate string: as it is, or in backticks."""
    if name.isidentifier() and name.isascii() and name.lower() not in WORDS:
        return name
    return "`" + name.replace("`", "``") + "`"


def value_text(value: object) -> str:
    """A value as a string that parses back to the same value, or to one that compares the same."""
    if isinstance(value, np.datetime64):  # may have nanoseconds, which Python's datetime cannot hold
        unit = np.datetime_data(value.dtype)[0]
        whole = {"Y": "D", "M": "D", "W": "D", "h": "s", "m": "s"}.get(unit, unit)
        return f"'{value.astype(f'datetime64[{whole}]')}'"
    if isinstance(value, np.timedelta64):
        return f"'{_duration_text(value)}'"
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        value = value.item()  # another NumPy scalar
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf") if math.isinf(value) else repr(value)
    if isinstance(value, (int, Decimal)):
        return str(value)
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, (datetime, date, time)):
        return f"'{value.isoformat()}'"
    if isinstance(value, timedelta):
        seconds = Decimal(value // timedelta(microseconds=1)).scaleb(-6)  # a float would lose some
        return f"'{seconds.normalize():f} s'"
    return "'" + str(value).replace("'", "''") + "'"


def _duration_text(value: np.timedelta64) -> str:
    """A NumPy duration as a number and a unit that `query.bind` understands."""
    unit, step = np.datetime_data(value.dtype)
    units = {"W": ("d", 7), "D": ("d", 1), "h": ("h", 1), "m": ("min", 1)}
    word, times = units.get(unit, (unit, 1))
    return "NaT" if np.isnat(value) else f"{int(value.astype('i8')) * step * times} {word}"
