"""Expressions on columns, as plain data: what is computed for each row, such as `dx / dt` or `lower(label)`.

An expression is a tree of terms: columns (and fields of struct columns), literals, and calls of operators and
functions. `str()` of a term returns a string that `colonnade.predicate.parse.expr` reads back. What a call computes is
defined in `query.evaluate`; here are only the names of functions, and how many arguments they take.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Literal

import numpy as np

from colonnade.dataclass import dataclass
from colonnade.errors import PredicateError
from colonnade.predicate.literals import MAX_DIGITS, has_too_many_digits, name_text, value_text

Operator = Literal["==", "!=", "<", "<=", ">", ">="]
TURNED: dict[Operator, Operator] = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

MAX_EXPRESSION_LEVELS = 50  # of calls inside each other: str(), pickle, copy and evaluation recurse
MAX_ROUND_DIGITS = 300  # of round(x, digits), before or after the point

SCALAR_FUNCTIONS = ("abs", "round", "floor", "ceil", "lower", "upper", "length",
                    "year", "month", "day", "hour", "minute", "second", "weekday")  # fmt: skip
OTHER_NAMES = {"len": "length"}  # of functions, in text
COMPARING = tuple(TURNED)
# How strongly operators bind: a call in text needs no parentheses inside one that binds less.
_STRENGTH: dict[str, int] = {
    **dict.fromkeys(COMPARING, 1), "+": 2, "-": 2, "*": 3, "/": 3, "//": 3, "%": 3, "neg": 4, "**": 5,
}  # fmt: skip
STRONGEST = 6
_LITERAL_TYPES = (
    bool, int, float, Decimal, str, bytes, datetime, date, time, timedelta, np.datetime64, np.timedelta64,
)  # fmt: skip


class Term:
    """A part of an expression, or the whole of it: plain data that can be compared, hashed and pickled.

    >>> term = (cn.col("dx") / cn.col("dt")).term
    >>> str(term), term == cn.expr("dx / dt").term
    ('dx / dt', True)
    """

    __slots__ = ()

    @property
    def strength(self) -> int:
        """How strongly its parts are bound in text."""
        return STRONGEST

    @property
    def parts(self) -> tuple[Term, ...]:
        """What it is computed from."""
        return ()

    def with_definitions(self, definitions: Mapping[str, Term]) -> Term:
        """The term with the names of computed columns replaced by what they are computed from."""
        return self


@dataclass(frozen=True, slots=True)
class ColumnTerm(Term):
    """A column, or a field of a struct column. The name "pos.x" means the column of this name or else the field."""

    name: str
    fields: tuple[str, ...] = ()

    def with_definitions(self, definitions: Mapping[str, Term]) -> Term:
        definition = definitions.get(self.name)
        if definition is None:
            return self
        if not self.fields:
            return definition
        if not isinstance(definition, ColumnTerm):
            raise PredicateError(f"{self} has no fields: it is computed", part=self)
        return ColumnTerm(definition.name, (*definition.fields, *self.fields))

    def __str__(self) -> str:
        return name_text(self.name) + "".join(f"[{value_text(name)}]" for name in self.fields)


@dataclass(frozen=True, slots=True)
class LiteralTerm(Term):
    """A value. Two are equal when `text` is: 1, 1.0 and true are three values."""

    value: object = field(compare=False)
    text: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        value = _plain_literal(self.value)
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "text", value_text(value))

    @property
    def strength(self) -> int:
        return _STRENGTH["neg"] if self.text.startswith("-") else STRONGEST

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class CallTerm(Term):
    """An operator or a function, and what it is applied to. "neg" is the minus sign with one operand."""

    function: str
    arguments: tuple[Term, ...]
    levels: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        levels = 1 + max((getattr(argument, "levels", 0) for argument in self.arguments), default=0)
        if levels > MAX_EXPRESSION_LEVELS:
            raise PredicateError(
                f"cannot build the expression: its calls would be nested more than {MAX_EXPRESSION_LEVELS} levels "
                f"deep. Write long sums with parentheses: (a + b) + (c + d)"
            )
        object.__setattr__(self, "levels", levels)

    @property
    def strength(self) -> int:
        return _STRENGTH.get(self.function, STRONGEST)

    @property
    def parts(self) -> tuple[Term, ...]:
        return self.arguments

    def with_definitions(self, definitions: Mapping[str, Term]) -> Term:
        return CallTerm(self.function, tuple(argument.with_definitions(definitions) for argument in self.arguments))

    def __str__(self) -> str:
        strength = _STRENGTH.get(self.function)
        if strength is None:
            return f"{self.function}({', '.join(map(str, self.arguments))})"
        if self.function == "neg":
            return "-" + _within(self.arguments[0], strength + 1)
        left, right = self.arguments
        left_strength = strength + 1 if self.function == "**" or self.function in COMPARING else strength
        return f"{_within(left, left_strength)} {self.function} {_within(right, strength + 1)}"


Subject = str | Term
"""What a leaf of a predicate tests: a column, by its name, or an expression."""


def _within(term: Term, least: int) -> str:
    """A term as an operand, in parentheses unless it binds at least this strongly."""
    is_bound = term.strength >= least or (isinstance(term, LiteralTerm) and least < STRONGEST)
    return str(term) if is_bound else f"({term})"


def _plain_literal(value: object) -> object:
    """A literal as a plain Python value, or one of NumPy's times."""
    if type(value).__module__.startswith("pyarrow") and hasattr(value, "as_py"):
        value = value.as_py()
    if isinstance(value, np.generic) and not isinstance(value, (np.datetime64, np.timedelta64)):
        value = value.item()
    if value is None:
        raise PredicateError("cannot compute with a missing value: the result would always be missing")
    if not isinstance(value, _LITERAL_TYPES) or (
        isinstance(value, (np.datetime64, np.timedelta64)) and np.isnat(value)
    ):
        raise PredicateError(
            f"cannot compute with {value!r}: an expression takes columns, numbers, strings, bytes, booleans and times"
        )
    if has_too_many_digits(value):
        raise PredicateError(f"cannot compute with a number of more than {MAX_DIGITS:,} digits")
    if isinstance(value, Decimal) and (not value.is_finite() or Decimal(repr(float(value))) == value):
        return float(value)  # what its text means
    return value


def columns_in(term: Term) -> Iterator[ColumnTerm]:
    """The columns that a term is computed from, from left to right."""
    if isinstance(term, ColumnTerm):
        yield term
    for part in term.parts:
        yield from columns_in(part)


def subject_of(term: Term) -> Subject:
    """What a leaf tests: the name of a column alone, otherwise the term."""
    return term.name if isinstance(term, ColumnTerm) and not term.fields else term


def term_of(subject: Subject) -> Term:
    """The inverse of `subject_of`."""
    return ColumnTerm(subject) if isinstance(subject, str) else subject


def subject_text(subject: Subject) -> str:
    """A subject as an operand in the text of a predicate."""
    if isinstance(subject, str):
        return name_text(subject)
    return str(subject) if subject.strength > _STRENGTH["=="] else f"({subject})"


def described(subject: Subject) -> str:
    """A subject in the message of an error."""
    return f"column {subject!r}" if isinstance(subject, str) else f"expression {subject}"


def called(function: str, *arguments: Term) -> Term:
    """A call of an operator or a function, whose arguments are checked; the minus of a number is the number."""
    if function == "neg" and isinstance(arguments[0], LiteralTerm):
        number = arguments[0].value
        if isinstance(number, (int, float, Decimal)) and not isinstance(number, bool):
            return LiteralTerm(-number)
    if function in SCALAR_FUNCTIONS:
        _check_arguments(function, arguments)
    return CallTerm(function, arguments)


def _check_arguments(function: str, arguments: tuple[Term, ...]) -> None:
    most = 2 if function == "round" else 1
    if not 1 <= len(arguments) <= most:
        takes = "one argument" if most == 1 else "one or two arguments"
        raise PredicateError(f"{function} takes {takes}, not {len(arguments)}")
    if len(arguments) == 2:
        digits = arguments[1].value if isinstance(arguments[1], LiteralTerm) else None
        if type(digits) is not int or abs(digits) > MAX_ROUND_DIGITS:
            raise PredicateError(
                f"round takes a number of digits, an integer from -{MAX_ROUND_DIGITS} to {MAX_ROUND_DIGITS}, "
                f"not {arguments[1]}"
            )
