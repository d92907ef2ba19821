"""Predicates on rows, as plain data: `(col("ts") >= 10) & (col("label") == "muon")`.

Logic is three-valued, as in SQL and Arrow: a comparison with a missing value is unknown, `~` unknown is unknown,
and only rows for which the whole predicate is true match. NaN is a value: it equals nothing, and is neither less nor
greater than anything.

`str()` of a predicate returns a string that `colonnade.predicate.parse.parse` reads back.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Literal, NoReturn

import numpy as np

from colonnade.dataclass import dataclass
from colonnade.errors import PredicateError, UsageError

Operator = Literal["==", "!=", "<", "<=", ">", ">="]
WORDS = ("and", "or", "not", "in", "between", "is", "missing", "null", "none", "nan", "like", "startswith", "contains",
         "true", "false", "inf")  # fmt: skip

# Limits of every predicate, however it was built: one that is too expensive to evaluate is refused immediately.
MAX_LEVELS = 120  # of and, or, not inside each other: str(), pickle, copy and others recurse
MAX_DIGITS = 2000  # of a number, before or after the point: numbers are compared exactly. No column holds that many
MAX_PATTERN = 10_000  # characters of a `like` pattern
MAX_WILDCARDS = 100  # `%` of a `like` pattern: each multiplies the work
_LARGEST = 10**MAX_DIGITS


class Predicate:
    """A condition that is true, false or unknown for a row. Combine with `&`, `|` and `~`.

    >>> str((cn.col("ts") >= 10) & ~cn.col("label").is_in(["muon", "pion"]))
    "ts >= 10 and (not label in ('muon', 'pion'))"
    """

    __slots__ = ()

    def __and__(self, other: Predicate) -> Predicate:
        return And((*_parts(self, And), *_parts(_checked(other, "&"), And)))

    def __or__(self, other: Predicate) -> Predicate:
        return Or((*_parts(self, Or), *_parts(_checked(other, "|"), Or)))

    def __invert__(self) -> Predicate:
        return Not(self)

    def __rand__(self, other: object) -> NoReturn:
        _checked(other, "&")
        raise AssertionError  # with a predicate on the left, __and__ is called instead

    def __ror__(self, other: object) -> NoReturn:
        _checked(other, "|")
        raise AssertionError

    def __bool__(self) -> NoReturn:
        raise PredicateError(
            "a predicate is not true or false by itself: join predicates with & | ~ (in parentheses) instead of "
            "and, or, not; write a range as col('x').between(3, 5)",
            text=str(self),
        )

    def leaves(self) -> Iterator[Leaf]:
        """Every leaf, from left to right.

        >>> predicate = (cn.col("ts") >= 10) | (cn.col("label") == "muon")
        >>> [str(leaf) for leaf in predicate.leaves()]
        ['ts >= 10', "label == 'muon'"]
        """
        raise NotImplementedError


def _parts(whole: Predicate, kind: type[And] | type[Or]) -> tuple[Predicate, ...]:
    """The parts of an And or Or, so that long chains of & or | stay flat; any other predicate is its only part."""
    return whole.parts if isinstance(whole, kind) else (whole,)


def _checked(other: object, sign: str) -> Predicate:
    if isinstance(other, Predicate):
        return other
    raise PredicateError(
        f"{sign} joins two predicates, not a predicate and {other!r}: comparisons need parentheses, "
        f"as in (col('a') > 1) {sign} (col('b') < 2)"
    )


@dataclass(frozen=True, slots=True)
class And(Predicate):
    """True when all parts are."""

    parts: tuple[Predicate, ...]
    levels: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", _one_more_level(self.parts))

    def leaves(self) -> Iterator[Leaf]:
        return (leaf for part in self.parts for leaf in part.leaves())

    def __str__(self) -> str:
        return " and ".join(_inside(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Or(Predicate):
    """True when one of the parts is."""

    parts: tuple[Predicate, ...]
    levels: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", _one_more_level(self.parts))

    def leaves(self) -> Iterator[Leaf]:
        return (leaf for part in self.parts for leaf in part.leaves())

    def __str__(self) -> str:
        return " or ".join(_inside(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Not(Predicate):
    """True when the part is false, unknown when it is unknown."""

    part: Predicate
    levels: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", _one_more_level((self.part,)))

    def leaves(self) -> Iterator[Leaf]:
        return self.part.leaves()

    def __str__(self) -> str:
        return f"not {_inside(self.part)}"


def _one_more_level(parts: Iterable[Predicate]) -> int:
    levels = 1 + max((getattr(part, "levels", 0) for part in parts), default=0)
    if levels > MAX_LEVELS:
        raise PredicateError(
            f"cannot join predicates: they would be nested more than {MAX_LEVELS} levels deep. Use is_in([...]) for "
            f"many values of a column, or join many predicates with one kind of sign"
        )
    return levels


def _inside(part: Predicate) -> str:
    return str(part) if isinstance(part, Leaf) else f"({part})"


@dataclass(frozen=True, slots=True)
class Leaf(Predicate):
    """A test of one column.

    >>> (cn.col("ts") >= 10).column
    'ts'
    """

    column: str

    def leaves(self) -> Iterator[Leaf]:
        """This leaf alone."""
        yield self

    @property
    def _name(self) -> str:
        return name_text(self.column)


@dataclass(frozen=True, slots=True)
class Compare(Leaf):
    """The column against one value."""

    operator: Operator
    value: object

    def __post_init__(self) -> None:
        check_number(self.value, self.column)

    def __str__(self) -> str:
        return f"{self._name} {self.operator} {value_text(self.value)}"


@dataclass(frozen=True, slots=True)
class Between(Leaf):
    """From low to high, both included."""

    low: object
    high: object

    def __post_init__(self) -> None:
        check_number(self.low, self.column)
        check_number(self.high, self.column)

    def __str__(self) -> str:
        return f"{self._name} between {value_text(self.low)} and {value_text(self.high)}"


@dataclass(frozen=True, slots=True)
class IsIn(Leaf):
    """Equal to one of the values."""

    values: tuple[object, ...]

    def __post_init__(self) -> None:
        for value in self.values:
            check_number(value, self.column)

    def __str__(self) -> str:
        return f"{self._name} in ({', '.join(value_text(value) for value in self.values)})"


@dataclass(frozen=True, slots=True)
class IsMissing(Leaf):
    """The row has no value. Never unknown."""

    def __str__(self) -> str:
        return f"{self._name} is missing"


@dataclass(frozen=True, slots=True)
class IsNan(Leaf):
    """Not a number; unknown where the value is missing."""

    def __str__(self) -> str:
        return f"{self._name} is nan"


@dataclass(frozen=True, slots=True)
class StartsWith(Leaf):
    """The string begins with `text`."""

    text: str | bytes

    def __str__(self) -> str:
        return f"{self._name} startswith {value_text(self.text)}"


@dataclass(frozen=True, slots=True)
class Contains(Leaf):
    """The string contains `text`."""

    text: str | bytes

    def __str__(self) -> str:
        return f"{self._name} contains {value_text(self.text)}"


@dataclass(frozen=True, slots=True)
class Like(Leaf):
    """The string matches a pattern: `%` matches any string, `_` one character, `\\` escapes them."""

    pattern: str

    def __post_init__(self) -> None:
        wildcards = re.sub(r"\\.", "", self.pattern, flags=re.DOTALL).count("%")
        if len(self.pattern) > MAX_PATTERN or wildcards > MAX_WILDCARDS:
            raise PredicateError(
                f"cannot match column {self.column!r} with a pattern of {len(self.pattern):,} characters and "
                f"{wildcards:,} wildcards %: {MAX_PATTERN:,} characters and {MAX_WILDCARDS} wildcards are allowed. "
                f"Use contains or startswith, or join several patterns",
                column=self.column,
            )

    def __str__(self) -> str:
        return f"{self._name} like {value_text(self.pattern)}"


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


def check_number(value: object, column: str) -> None:
    """Raise if a number has more digits than any column can hold."""
    if has_too_many_digits(value):
        raise PredicateError(
            f"cannot compare column {column!r} with a number of more than {MAX_DIGITS:,} digits before or after the "
            f"point. Compare it with a number that the column can hold",
            column=column,
        )


class ColumnName:
    """A column, to be compared: made by `col`.

    >>> str(cn.col("energy") > 5)
    'energy > 5'
    """

    __slots__ = ("name",)
    __array_ufunc__ = None  # with an array on the left, NumPy leaves the comparison to us
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise UsageError(f"col takes the name of a column, not {name!r}")
        self.name = name

    def __eq__(self, value: object) -> Predicate:  # type: ignore[override]
        return self._compare("==", value)

    def __ne__(self, value: object) -> Predicate:  # type: ignore[override]
        return self._compare("!=", value)

    def __lt__(self, value: object) -> Predicate:
        return self._compare("<", value)

    def __le__(self, value: object) -> Predicate:
        return self._compare("<=", value)

    def __gt__(self, value: object) -> Predicate:
        return self._compare(">", value)

    def __ge__(self, value: object) -> Predicate:
        return self._compare(">=", value)

    def _compare(self, operator: Operator, value: object) -> Predicate:
        return Compare(self.name, operator, _value(value, self.name))

    def between(self, low: object, high: object) -> Predicate:
        """From low to high, both included.

        >>> str(cn.col("energy").between(3, 5))
        'energy between 3 and 5'
        """
        return Between(self.name, _value(low, self.name), _value(high, self.name))

    def is_in(self, values: Iterable[object]) -> Predicate:
        """Equal to one of these values.

        >>> str(cn.col("label").is_in(["muon", "pion"]))
        "label in ('muon', 'pion')"
        """
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise PredicateError(f"is_in takes a list of values, not {values!r}")
        return IsIn(self.name, tuple(_value(value, self.name) for value in values))

    def is_missing(self) -> Predicate:
        """The row has no value.

        >>> str(~cn.col("energy").is_missing())
        'not energy is missing'
        """
        return IsMissing(self.name)

    def is_nan(self) -> Predicate:
        """The value is not a number.

        >>> str(cn.col("energy").is_nan())
        'energy is nan'
        """
        return IsNan(self.name)

    def startswith(self, text: str | bytes) -> Predicate:
        """The string begins with `text`.

        >>> str(cn.col("label").startswith("mu"))
        "label startswith 'mu'"
        """
        return StartsWith(self.name, _text(text, "startswith"))

    def contains(self, text: str | bytes) -> Predicate:
        """The string contains `text`.

        >>> str(cn.col("label").contains("uo"))
        "label contains 'uo'"
        """
        return Contains(self.name, _text(text, "contains"))

    def like(self, pattern: str) -> Predicate:
        """The string matches a pattern, in which % matches any string and _ one character.

        >>> str(cn.col("label").like("m%n"))
        "label like 'm%n'"
        """
        if not isinstance(pattern, str):
            raise PredicateError(f"like takes a string, not {pattern!r}")
        return Like(self.name, pattern)

    def __bool__(self) -> NoReturn:
        raise PredicateError(f"compare the column: col({self.name!r}) == True")

    __invert__ = __bool__

    def __and__(self, other: object) -> NoReturn:
        raise PredicateError(
            f"& and | join comparisons, not {self!r} and {other!r}: comparisons need parentheses, "
            f"as in (col('a') > 1) & (col('b') < 2)"
        )

    __rand__ = __or__ = __ror__ = __and__

    def __repr__(self) -> str:
        return f"col({self.name!r})"


def col(name: str) -> ColumnName:
    """A column, to be compared with values: `col("energy") > 5`.

    >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
    >>> t = cn.open_table("run.h5", "events")
    >>> t.where(cn.col("energy") > 5).count()
    2
    """
    return ColumnName(name)


def _value(value: object, column: str) -> object:
    if isinstance(value, (ColumnName, Predicate)):
        raise PredicateError(f"column {column!r} is compared with a value, not with another column")
    if value is None:
        raise PredicateError(f"nothing equals a missing value: ask for col({column!r}).is_missing()")
    return value


def _text(text: object, what: str) -> str | bytes:
    if not isinstance(text, (str, bytes)):
        raise PredicateError(f"{what} takes a string, not {text!r}")
    return text


# -- predicates to strings --


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
