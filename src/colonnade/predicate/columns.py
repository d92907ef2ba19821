"""Columns and expressions as Python objects, whose operators make terms and predicates: `col("dx") / col("dt") > 3`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from colonnade.dataclass import replace
from colonnade.errors import PredicateError, UsageError
from colonnade.predicate.expressions import (
    ColumnTerm,
    LiteralTerm,
    Operator,
    Subject,
    Term,
    called,
    described,
    subject_of,
    term_of,
)
from colonnade.predicate.tree import (
    Between,
    Compare,
    Contains,
    IsIn,
    IsMissing,
    IsNan,
    Like,
    Matches,
    Predicate,
    StartsWith,
    compared,
)


class Expression:
    """What is computed for each row from its columns: made from `col` by arithmetic and functions, or by `expr`.

    `+ - * / // % **` and unary minus compute; comparisons, `is_in`, `between` and the others give a Predicate. The page
    docs/expressions.md defines the results.

    >>> speed = cn.col("dx") / cn.col("dt")
    >>> str(speed), str(speed > 3)
    ('dx / dt', 'dx / dt > 3')
    """

    __slots__ = ("term",)
    __array_ufunc__ = None  # with an array on the left, NumPy leaves the operation to us
    __hash__ = None  # type: ignore[assignment]
    __iter__ = None  # otherwise Python would try the numbers 0, 1, ... as names of fields

    def __init__(self, term: Term) -> None:
        if not isinstance(term, Term):
            raise UsageError(f"an expression is made with col or expr, not from {term!r}")
        self.term = term

    # -- comparisons --

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

    @property
    def _subject(self) -> Subject:
        return subject_of(self.term)

    def _compare(self, operator: Operator, value: object) -> Predicate:
        if isinstance(value, Expression):
            return compared(self.term, operator, value.term)
        return Compare(self._subject, operator, _value(value, self._subject))

    def between(self, low: object, high: object) -> Predicate:
        """From low to high, both included.

        >>> str(cn.col("energy").between(3, 5))
        'energy between 3 and 5'
        """
        return Between(self._subject, _value(low, self._subject), _value(high, self._subject))

    def is_in(self, values: Iterable[object]) -> Predicate:
        """Equal to one of these values.

        >>> str(cn.col("label").is_in(["muon", "pion"]))
        "label in ('muon', 'pion')"
        """
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise PredicateError(f"is_in takes a list of values, not {values!r}")
        subject = self._subject
        return IsIn(subject, tuple([_value(value, subject) for value in values]))

    def is_missing(self) -> Predicate:
        """The row has no value.

        >>> str(~cn.col("energy").is_missing())
        'not energy is missing'
        """
        return IsMissing(self._subject)

    def is_nan(self) -> Predicate:
        """The value is not a number.

        >>> str(cn.col("energy").is_nan())
        'energy is nan'
        """
        return IsNan(self._subject)

    def startswith(self, text: str | bytes) -> Predicate:
        """The string begins with `text`.

        >>> str(cn.col("label").startswith("mu"))
        "label startswith 'mu'"
        """
        return StartsWith(self._subject, _text(text, "startswith"))

    def contains(self, value: object) -> Predicate:
        """The string contains a string; of a list column: an element of the list equals the value.

        >>> str(cn.col("label").contains("uo"))
        "label contains 'uo'"
        """
        return Contains(self._subject, _value(value, self._subject))

    def like(self, pattern: str) -> Predicate:
        """The string matches a pattern, in which % matches any string and _ one character.

        >>> str(cn.col("label").like("m%n"))
        "label like 'm%n'"
        """
        if not isinstance(pattern, str):
            raise PredicateError(f"like takes a string, not {pattern!r}")
        return Like(self._subject, pattern)

    def matches(self, pattern: str) -> Predicate:
        """A part of the string matches a regular expression, in the syntax of RE2; ^ and $ anchor it.

        >>> str(cn.col("label").matches("^mu+"))
        "label matches '^mu+'"
        """
        if not isinstance(pattern, str):
            raise PredicateError(f"matches takes a string, not {pattern!r}")
        return Matches(self._subject, pattern)

    # -- arithmetic --

    def __add__(self, other: object) -> Expression:
        return _joined("+", self, other)

    def __radd__(self, other: object) -> Expression:
        return _joined("+", other, self)

    def __sub__(self, other: object) -> Expression:
        return _joined("-", self, other)

    def __rsub__(self, other: object) -> Expression:
        return _joined("-", other, self)

    def __mul__(self, other: object) -> Expression:
        return _joined("*", self, other)

    def __rmul__(self, other: object) -> Expression:
        return _joined("*", other, self)

    def __truediv__(self, other: object) -> Expression:
        return _joined("/", self, other)

    def __rtruediv__(self, other: object) -> Expression:
        return _joined("/", other, self)

    def __floordiv__(self, other: object) -> Expression:
        return _joined("//", self, other)

    def __rfloordiv__(self, other: object) -> Expression:
        return _joined("//", other, self)

    def __mod__(self, other: object) -> Expression:
        return _joined("%", self, other)

    def __rmod__(self, other: object) -> Expression:
        return _joined("%", other, self)

    def __pow__(self, other: object) -> Expression:
        return _joined("**", self, other)

    def __rpow__(self, other: object) -> Expression:
        return _joined("**", other, self)

    def __neg__(self) -> Expression:
        return Expression(called("neg", self.term))

    def __pos__(self) -> Expression:
        return self

    def __abs__(self) -> Expression:
        return self._call("abs")

    def __round__(self, digits: int = 0) -> Expression:
        return self.round(digits)

    # -- functions --

    def _call(self, function: str, *arguments: object) -> Expression:
        return Expression(called(function, self.term, *map(LiteralTerm, arguments)))

    def round(self, digits: int = 0) -> Expression:
        """Rounded to a number of decimal digits; a number in the middle to the even one.

        >>> str(cn.col("energy").round(2))
        'round(energy, 2)'
        """
        return self._call("round", *([digits] if digits != 0 else []))

    def abs(self) -> Expression:
        """The absolute value.

        >>> str(cn.col("energy").abs())
        'abs(energy)'
        """
        return self._call("abs")

    def floor(self) -> Expression:
        """The greatest integer that is not greater, as a number of the same type.

        >>> str(cn.col("energy").floor())
        'floor(energy)'
        """
        return self._call("floor")

    def ceil(self) -> Expression:
        """The least integer that is not less, as a number of the same type.

        >>> str(cn.col("energy").ceil())
        'ceil(energy)'
        """
        return self._call("ceil")

    def lower(self) -> Expression:
        """The string in lower case.

        >>> str(cn.col("label").lower())
        'lower(label)'
        """
        return self._call("lower")

    def upper(self) -> Expression:
        """The string in upper case.

        >>> str(cn.col("label").upper())
        'upper(label)'
        """
        return self._call("upper")

    def length(self) -> Expression:
        """The number of characters of a string, of bytes, or of items of a list.

        >>> str(cn.col("label").length())
        'length(label)'
        """
        return self._call("length")

    def len(self) -> Expression:
        """The number of items of a list; the same as `length`.

        >>> str(cn.col("hits").len() > 2)
        'length(hits) > 2'
        """
        return self.length()

    def year(self) -> Expression:
        """The year of a time or date.

        >>> str(cn.col("ts").year())
        'year(ts)'
        """
        return self._call("year")

    def month(self) -> Expression:
        """The month of a time or date, 1 to 12.

        >>> str(cn.col("ts").month())
        'month(ts)'
        """
        return self._call("month")

    def day(self) -> Expression:
        """The day of the month, 1 to 31.

        >>> str(cn.col("ts").day())
        'day(ts)'
        """
        return self._call("day")

    def hour(self) -> Expression:
        """The hour of a time, 0 to 23, in the time zone of the column.

        >>> str(cn.col("ts").hour())
        'hour(ts)'
        """
        return self._call("hour")

    def minute(self) -> Expression:
        """The minute of a time, 0 to 59.

        >>> str(cn.col("ts").minute())
        'minute(ts)'
        """
        return self._call("minute")

    def second(self) -> Expression:
        """The second of a time, 0 to 59, without its fraction.

        >>> str(cn.col("ts").second())
        'second(ts)'
        """
        return self._call("second")

    def weekday(self) -> Expression:
        """The day of the week of a time or date: 0 is Monday, 6 is Sunday.

        >>> str(cn.col("ts").weekday())
        'weekday(ts)'
        """
        return self._call("weekday")

    # -- fields of a struct column --

    def __getitem__(self, field: str) -> Expression:
        """A field of a struct column: `col("pos")["x"]`, also written `col("pos").x`."""
        if not isinstance(field, str):
            raise UsageError(f"a field of a struct column is chosen by name, not by {field!r}")
        if not isinstance(self.term, ColumnTerm):
            raise UsageError(f"only a struct column has fields: {self} is computed")
        return Expression(replace(self.term, fields=(*self.term.fields, field)))

    def __getattr__(self, field: str) -> Expression:
        if field.startswith("_") or field == "term" or not isinstance(self.term, ColumnTerm):
            raise AttributeError(f"an expression has no attribute {field!r}", name=field, obj=self)
        return self[field]

    # -- as an object --

    def __bool__(self) -> NoReturn:
        raise PredicateError(f"{self} is not true or false by itself: compare it")

    def __invert__(self) -> NoReturn:
        raise PredicateError(f"compare the expression: {self!r} == False")

    def __and__(self, other: object) -> NoReturn:
        raise PredicateError(
            f"& and | join comparisons, not {self!r} and {other!r}: comparisons need parentheses, "
            f"as in (col('a') > 1) & (col('b') < 2)"
        )

    __rand__ = __or__ = __ror__ = __and__

    def __str__(self) -> str:
        return str(self.term)

    def __repr__(self) -> str:
        return f"expr({str(self.term)!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.term,)


class ColumnName(Expression):
    """A column, to be compared and computed with: made by `col`.

    >>> str(cn.col("energy") > 5)
    'energy > 5'
    """

    __slots__ = ("name",)
    __hash__ = None

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise UsageError(f"col takes the name of a column, not {name!r}")
        super().__init__(ColumnTerm(name))
        self.name = name

    def __bool__(self) -> NoReturn:
        raise PredicateError(f"compare the column: col({self.name!r}) == True")

    __invert__ = __bool__

    def __repr__(self) -> str:
        return f"col({self.name!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return ColumnName, (self.name,)


def col(name: str) -> ColumnName:
    """A column, to be compared with values and other columns, and to compute with: `col("energy") > 5`.

    >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
    >>> t = cn.open_table("run.h5", "events")
    >>> t.where(cn.col("energy") > 5).count()
    2
    >>> t.where(cn.col("energy") / cn.col("ts") > 3).count()
    1
    """
    return ColumnName(name)


def _joined(operator: str, left: object, right: object) -> Expression:
    """An operator of arithmetic, one of whose operands is an expression."""
    return Expression(called(operator, _operand(left), _operand(right)))


def _operand(value: object) -> Term:
    if isinstance(value, Expression):
        return value.term
    if isinstance(value, Predicate):
        raise PredicateError(f"cannot compute with the predicate {value}: an expression takes columns and values")
    return LiteralTerm(value)


def _value(value: object, subject: Subject) -> object:
    if isinstance(value, (Expression, Predicate)):
        raise PredicateError(
            f"{described(subject)} is compared with a value here, not with {value}: join comparisons with & and |"
        )
    if value is None:
        raise PredicateError(
            f"nothing equals a missing value: ask for {Expression(term_of(subject))!r}.is_missing()"
            if not isinstance(subject, str)
            else f"nothing equals a missing value: ask for col({subject!r}).is_missing()"
        )
    return value


def _text(text: object, what: str) -> str | bytes:
    if not isinstance(text, (str, bytes)):
        raise PredicateError(f"{what} takes a string, not {text!r}")
    return text
