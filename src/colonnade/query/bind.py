"""A predicate bound to the columns of a table: values become keys, `not` is pushed down to the leaves, ranges are
fused.

Types are checked here: what cannot be compared is a PredicateError that names both sides. Comparisons are exact,
whatever the widths: 2.5 against an integer column, 2**70 against an int64, 0.1 against a float32, microseconds
against a column of seconds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from fractions import Fraction

import numpy as np
import pyarrow as pa

from colonnade import compute as pc
from colonnade.columns.keys import Keys, NumberKeys, decimal_keys, keys_of
from colonnade.columns.read import ColumnReader
from colonnade.errors import PredicateError
from colonnade.predicate.bound import (
    NOTHING,
    AllOf,
    Among,
    AnyOf,
    Bound,
    BoundLeaf,
    Interval,
    Key,
    Missing,
    NotANumber,
    Pattern,
    Test,
)
from colonnade.predicate.expressions import Subject, described
from colonnade.predicate.literals import MAX_DIGITS, has_too_many_digits
from colonnade.predicate.tree import (
    And,
    Between,
    Compare,
    Comparison,
    Contains,
    IsIn,
    IsMissing,
    IsNan,
    Leaf,
    Like,
    Matches,
    Not,
    OfElements,
    Or,
    Predicate,
    StartsWith,
    column_of,
)
from colonnade.stored_dtypes import memory_dtype

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


def as_bytes(value: object, kind: pa.DataType, refuse: Refusal) -> bytes:
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


def as_number(value: object, kind: pa.DataType, refuse: Refusal) -> Number:
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


def _plain(value: object) -> object:
    """The Python value of a NumPy or Arrow scalar; the scalar itself for times that Python cannot hold exactly."""
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return value
    return value.item() if isinstance(value, np.generic) else value


def _told(value: object) -> str:
    kind = {str: "text", bytes: "bytes", bool: "a boolean", int: "a number", float: "a number"}.get(type(value))
    return f"{kind or type(value).__name__} ({value!r})"


def _exact(value: float | Decimal | Fraction) -> Number:
    try:
        return Fraction(value)
    except (ValueError, OverflowError):
        return float(value)


def _as_time(value: object, kind: pa.DataType, refuse: Refusal) -> Fraction:
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


def _duration(value: object, refuse: Refusal) -> Fraction:
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


def _time_of_day(value: object, refuse: Refusal) -> Fraction:
    if isinstance(value, time) and value.tzinfo is None:
        return Fraction((value.hour * 60 + value.minute) * 60 + value.second) + Fraction(value.microsecond, 10**6)
    match = re.fullmatch(_TIME, value.strip()) if isinstance(value, str) else None
    if match is None or match["day"] or not match["time"] or match["zone"]:
        raise refuse(f"{_told(value)}, but with a time of day such as '12:30:00'")
    return _clock(match, refuse, value)


def _clock(match: re.Match[str], refuse: Refusal, value: object) -> Fraction:
    """The seconds since midnight that a matched string gives."""
    parts = [int(part) for part in (match["time"] or "0:0").split(":")]
    hours, minutes, seconds = (*parts, 0)[:3]
    if hours > 23 or minutes > 59 or seconds > 59:
        raise refuse(f"{value!r}, which is not a time")
    digits = match["fraction"] or "0"
    return Fraction((hours * 60 + minutes) * 60 + seconds) + Fraction(int(digits), 10 ** len(digits))


def _since_epoch(value: object, zoned: bool, refuse: Refusal) -> Fraction:
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


def _require_zone(zoned: bool, value: object, refuse: Refusal) -> None:
    if not zoned:
        raise refuse(f"{value!s}, which has a time zone, and the column has none")


def _offset(zone: str) -> int:
    if zone == "Z":
        return 0
    digits = zone[1:].replace(":", "")
    return (int(digits[:2]) * 3600 + int(digits[2:]) * 60) * (-1 if zone[0] == "-" else 1)


Readers = Mapping[str, ColumnReader]
MOST_VALUES_SHOWN = 10  # of `is_in`, by explain
MOST_LOOKED_UP = 64  # strings; with more, all categories are compared in one pass
TOO_DEEP = "the predicate is nested too deeply"


def bind(predicate: Predicate, readers: Mapping[Subject, ColumnReader]) -> Bound:
    """Express the predicate in terms of the keys of what its leaves test."""
    try:
        return fuse(_bound(predicate, False, readers))
    except RecursionError:
        raise PredicateError(TOO_DEEP) from None


def _bound(predicate: Predicate, negated: bool, readers: Mapping[Subject, ColumnReader]) -> Bound:
    while isinstance(predicate, Not):
        predicate, negated = predicate.part, not negated
    if isinstance(predicate, (And, Or)):
        parts = tuple(_bound(part, negated, readers) for part in predicate.parts)
        return AllOf(parts) if isinstance(predicate, And) != negated else AnyOf(parts)
    if not isinstance(predicate, Leaf):
        raise PredicateError(f"{predicate!r} is not a predicate")
    return _LeafBinder(readers[predicate.column], predicate).bind(negated)


def _plain_integers(values: tuple[object, ...]) -> list[int] | None:
    """The values if all are integers of Python that 64 bits hold: these are keys as they are."""
    integers = [value for value in values if type(value) is int and -(1 << 63) <= value < 1 << 64]
    return integers if len(integers) == len(values) else None


def _short(leaf: Leaf) -> str:
    """The leaf as a string, with the first of its values only if it has many."""
    if not isinstance(leaf, IsIn) or len(leaf.values) <= MOST_VALUES_SHOWN:
        return str(leaf)
    first = IsIn(leaf.column, leaf.values[:MOST_VALUES_SHOWN])
    return f"{str(first)[:-1]}, ... {len(leaf.values):,} values)"


class _LeafBinder:
    """Binds one leaf to its column."""

    def __init__(self, reader: ColumnReader, leaf: Leaf) -> None:
        self._reader, self._leaf, self._source = reader, leaf, leaf

    def bind(self, negated: bool) -> BoundLeaf:
        leaf = self._leaf
        said = f"not {_short(leaf)}" if negated else _short(leaf)
        if isinstance(leaf, Compare) and leaf.operator == "!=":
            self._leaf, negated = Compare(leaf.column, "==", leaf.value), not negated
        test, is_negated = self._bound_test(negated)
        return BoundLeaf(self._reader.column.name, test, is_negated, said, bool(self._reader.sources))

    def _bound_test(self, negated: bool) -> tuple[Test, bool]:
        """The test, and whether it is still to be negated."""
        if isinstance(self._leaf, IsMissing):
            return Missing(), negated
        if self._reader.is_coded:
            return self._among_codes(negated), False
        if self._reader.domain is None:
            raise self._refusal("anything")
        dtype = np.dtype(object) if self._reader.is_decimal_text else memory_dtype(self._reader.key_type)
        return self._test(self._reader.kind, dtype), negated

    def _among_codes(self, negated: bool) -> Test:
        """The codes of the categories for which the leaf is true."""
        if self._reader.column.categories is not None:
            values = self._reader.categories()
            if pa.types.is_string(values.type) and not negated:
                test = self._test(values.type, np.dtype("S1"))
                if isinstance(test, Among) and len(test.keys) <= MOST_LOOKED_UP:
                    return Among(tuple(sorted(code for text in test.keys for code in self._codes(text))))
            numbers = np.arange(len(values))
        else:
            members = sorted((number, name) for name, number in self._reader.column.type.members)
            members = [pair for pair in members if pair[0] != self._reader.fill_number]
            values = pa.array([name for _, name in members], pa.string())
            numbers = np.array([number for number, _ in members], dtype=np.int64)
        keys = self._value_keys(values)
        dtype = keys.values.dtype if isinstance(keys, NumberKeys) else np.dtype("S1")
        truth = keys.truth(BoundLeaf(self._reader.column.name, self._test(values.type, dtype), negated))
        return Among(tuple(numbers[truth].tolist()))

    def _codes(self, text: Key) -> list[int]:
        assert isinstance(text, bytes)  # the key type of strings
        codes: list[int] = self._reader.codes_of(text).tolist()
        return codes

    def _value_keys(self, values: pa.Array) -> Keys:
        """The keys of an array of values of any type that can be compared."""
        kind = values.type
        if not is_ordered_type(kind):
            raise self._refusal("anything")
        if is_bytes_type(kind):
            return keys_of(values.cast(pa.binary()))
        if pa.types.is_decimal(kind):
            return decimal_keys(values)
        if pa.types.is_boolean(kind):
            return keys_of(values.cast(pa.int8()))
        if pa.types.is_temporal(kind):
            return keys_of(values.view(pa.int32() if kind.bit_width == 32 else pa.int64()))
        return keys_of(values)

    # -- the test itself --

    def _test(self, kind: pa.DataType, dtype: np.dtype) -> Test:
        leaf = self._leaf
        if isinstance(leaf, Compare):
            return self._compare(leaf.operator, leaf.value, kind, dtype)
        if isinstance(leaf, Between):
            low = self._compare(">=", leaf.low, kind, dtype)
            return intersection(low, self._compare("<=", leaf.high, kind, dtype))
        if isinstance(leaf, IsIn):
            integers = _plain_integers(leaf.values) if dtype.kind in "iu" and pa.types.is_integer(kind) else None
            if integers is not None:
                bounds = np.iinfo(dtype)
                least, greatest = int(bounds.min), int(bounds.max)
                return Among(tuple(sorted({value for value in integers if least <= value <= greatest})))
            return Among(tuple(sorted({k for value in leaf.values for k in self._points(value, kind, dtype)})))
        if isinstance(leaf, IsNan):
            return NotANumber() if pa.types.is_floating(kind) else NOTHING
        if isinstance(leaf, (Comparison, OfElements)):
            return Among((1,))
        return self._text_test(kind)

    def _points(self, value: object, kind: pa.DataType, dtype: np.dtype) -> tuple[Key, ...]:
        point = self._compare("==", value, kind, dtype)
        return point.keys if isinstance(point, Among) else ()

    def _compare(self, operator: str, value: object, kind: pa.DataType, dtype: np.dtype) -> Interval | Among:
        if value is None:
            raise PredicateError(f"nothing equals a missing value: ask for {self._leaf.column} is missing")
        if not is_ordered_type(kind):
            raise self._refusal(repr(value))
        if is_bytes_type(kind):
            return _interval(operator, as_bytes(value, kind, self._refusal))
        number = as_number(value, kind, self._refusal)
        if isinstance(number, float) and math.isnan(number):
            return NOTHING
        return _float_interval(operator, number) if dtype.kind == "f" else _integer_interval(operator, number, dtype)

    def _text_test(self, kind: pa.DataType) -> Test:
        leaf = self._leaf
        if not pa.types.is_string(kind) and (isinstance(leaf, (Like, Matches)) or not pa.types.is_binary(kind)):
            raise self._refusal("text")
        if isinstance(leaf, StartsWith):
            return _prefix(as_bytes(leaf.text, kind, self._refusal))
        if isinstance(leaf, Contains):
            return Pattern("contains", as_bytes(leaf.text, kind, self._refusal))
        if isinstance(leaf, Matches):
            self._check_regular_expression(leaf.pattern)
            return Pattern("matches", leaf.pattern)
        if isinstance(leaf, Like):
            begin = leaf.pattern[:-1]
            simple = leaf.pattern.endswith("%") and not set(begin) & set("%_\\")
            return _prefix(begin.encode()) if simple else Pattern("like", leaf.pattern)
        raise PredicateError(f"{leaf!r} is not a predicate")

    def _check_regular_expression(self, pattern: str) -> None:
        try:
            pc.match_substring_regex(pa.array([""]), pattern)
        except pa.ArrowInvalid as error:
            message = f"{pattern!r} is not a regular expression of RE2: {error}"
            raise PredicateError(message, text=str(self._source), part=self._source) from None

    def _refusal(self, value: str) -> PredicateError:
        return PredicateError(
            f"{described(self._source.column)} holds {self._reader.kind}, which cannot be compared with {value}; "
            f"in: {self._source}",
            column=column_of(self._source.column),
            text=str(self._source),
            part=self._source,
        )


# -- intervals --


def _interval(operator: str, key: Key) -> Interval | Among:
    if operator == "==":
        return Among((key,))
    if operator in ("<", "<="):
        return Interval(high=key, high_open=operator == "<")
    return Interval(low=key, low_open=operator == ">")


def _integer_interval(operator: str, number: Number, dtype: np.dtype) -> Interval | Among:
    """The integers for which the comparison with `number` is true: both bounds included, within the range of the
    datatype."""
    least, most = (-math.inf, math.inf) if dtype.kind == "O" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    low: Key | None = None
    high: Key | None = None
    if operator == "==":
        whole = isinstance(number, Fraction) and number.denominator == 1 and least <= number <= most
        return Among((int(number),)) if whole else NOTHING
    if isinstance(number, float):  # an infinity
        below = operator in ("<", "<=")
        return Interval() if below == (number > 0) else NOTHING
    if operator in ("<", "<="):
        high = math.ceil(number) - 1 if operator == "<" else math.floor(number)
        return NOTHING if high < least else Interval() if high >= most else Interval(high=high)
    low = math.floor(number) + 1 if operator == ">" else math.ceil(number)
    return NOTHING if low > most else Interval() if low <= least else Interval(low=low)


def _float_interval(operator: str, number: Number) -> Interval | Among:
    """The floats for which the comparison with `number` is true; a number that no float equals lies between two
    floats."""
    try:
        nearest = float(number)
    except OverflowError:
        nearest = math.inf if number > 0 else -math.inf
    if number == nearest:
        return _interval(operator, nearest + 0.0)
    if operator == "==":
        return NOTHING
    above = nearest > number
    if operator in ("<", "<="):
        return Interval(high=nearest, high_open=above)
    return Interval(low=nearest, low_open=not above)


def _prefix(begin: bytes) -> Test:
    """The interval of all byte strings with this prefix."""
    end = begin.rstrip(b"\xff")
    if not end:
        return Interval(low=begin)
    return Interval(low=begin, high=end[:-1] + bytes([end[-1] + 1]), high_open=True)


def _holds(test: Interval, key: Key) -> bool:
    low, high = test.low, test.high
    above = low is None or (key > low if test.low_open else key >= low)  # type: ignore[operator]
    below = high is None or (key < high if test.high_open else key <= high)  # type: ignore[operator]
    return above and below


def intersection(a: Interval | Among, b: Interval | Among) -> Interval | Among:
    """The keys that pass both tests."""
    if isinstance(a, Among) and isinstance(b, Among):
        wanted = frozenset(b.keys)
        return Among(tuple(key for key in a.keys if key in wanted))
    if isinstance(a, Among):
        a, b = b, a
    if isinstance(b, Among):
        assert isinstance(a, Interval)  # two Amongs are above
        return Among(tuple(key for key in b.keys if _holds(a, key)))
    assert isinstance(a, Interval)  # all other cases are above
    low, low_open = _tighter((a.low, a.low_open), (b.low, b.low_open), is_low=True)
    high, high_open = _tighter((a.high, a.high_open), (b.high, b.high_open), is_low=False)
    if low is not None and high is not None and (_is_below(high, low) or (low == high and (low_open or high_open))):
        return NOTHING
    return Interval(low, high, low_open, high_open)


_Edge = tuple[Key | None, bool]


def _is_below(a: Key, b: Key) -> bool:
    return a < b  # type: ignore[operator]  # keys of one column can be compared


def _tighter(a: _Edge, b: _Edge, is_low: bool) -> _Edge:
    if a[0] is None or b[0] is None:
        return b if a[0] is None else a
    if a[0] == b[0]:
        return a[0], a[1] or b[1]
    return b if _is_below(a[0], b[0]) is is_low else a


def fuse(tree: Bound) -> Bound:
    """Flatten nested and/or, and merge tests of the same column."""
    if isinstance(tree, BoundLeaf):
        return tree
    whole = type(tree)
    parts: list[Bound] = []
    for part in map(fuse, tree.parts):
        parts.extend(part.parts if isinstance(part, whole) else [part])
    together: dict[str, BoundLeaf] = {}
    kept: list[Bound] = []
    for part in parts:
        if not _can_be_fused(part, whole is AllOf):
            kept.append(part)
        elif part.column in together:  # type: ignore[union-attr]
            together[part.column] = _both(together[part.column], part, whole is AllOf)  # type: ignore[union-attr,arg-type]
        else:
            together[part.column] = part  # type: ignore[union-attr,assignment]
    joined = (*together.values(), *kept)
    if whole is AllOf:  # what is computed comes last: it is computed only for rows that pass the other tests
        joined = tuple(sorted(joined, key=_is_computed))
    return joined[0] if len(joined) == 1 else whole(joined)


def _is_computed(part: Bound) -> bool:
    return part.is_computed if isinstance(part, BoundLeaf) else any(map(_is_computed, part.parts))


def _can_be_fused(part: Bound, all_of: bool) -> bool:
    kinds = (Interval, Among) if all_of else (Among,)
    return isinstance(part, BoundLeaf) and not part.negated and isinstance(part.test, kinds)


def _both(a: BoundLeaf, b: BoundLeaf, all_of: bool) -> BoundLeaf:
    if all_of:
        test: Test = intersection(a.test, b.test)  # type: ignore[arg-type]
    else:
        test = Among(tuple(sorted({*a.test.keys, *b.test.keys})))  # type: ignore[union-attr]
    return BoundLeaf(a.column, test, False, f"{a.said} {'and' if all_of else 'or'} {b.said}", a.is_computed)


def columns_of(tree: Bound) -> dict[str, None]:
    """The names of the columns that a predicate tests, each once, in order."""
    if isinstance(tree, BoundLeaf):
        return {tree.column: None}
    return {name: None for part in tree.parts for name in columns_of(part)}
