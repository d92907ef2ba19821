"""Predicates on rows, as plain data: `(col("ts") >= 10) & (col("label") == "muon")`.

Logic is three-valued, as in SQL and Arrow: a comparison with a missing value is unknown, `~` unknown is unknown,
and only rows for which the whole predicate is true match. NaN is a value: it equals nothing, and is neither less nor
greater than anything.

`str()` of a predicate returns a string that `colonnade.predicate.parse.parse` reads back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Literal, NoReturn

from colonnade.dataclass import dataclass, replace
from colonnade.errors import PredicateError
from colonnade.predicate.expressions import (
    TURNED,
    CallTerm,
    LiteralTerm,
    Operator,
    Subject,
    Term,
    columns_in,
    described,
    subject_of,
    subject_text,
    term_of,
)
from colonnade.predicate.literals import MAX_DIGITS, has_too_many_digits, value_text

# Limits of every predicate, however it was built: one that is too expensive to evaluate is refused immediately.
MAX_LEVELS = 120  # of and, or, not inside each other: str(), pickle, copy and others recurse
_LEVELS_OF_ELEMENTS = 3  # how many of these a test of elements counts for: a leaf, its term, and the predicate inside
MAX_PATTERN = 10_000  # characters of a `like` pattern
MAX_WILDCARDS = 100  # `%` of a `like` pattern: each multiplies the work
MAX_REGULAR_EXPRESSION = 1_000  # characters of a `matches` pattern


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

    def any(self) -> Predicate:
        """True for an element of the list: `(col("x") > 3).any()`, in text `any(x > 3)`. False for an empty list.

        >>> str((cn.col("x") > 3).any())
        'any(x > 3)'
        """
        return OfElements(ElementsTerm("any", self))

    def all(self) -> Predicate:
        """True for all elements of the list: `(col("x") > 3).all()`, in text `all(x > 3)`. True for an empty list.

        >>> str((cn.col("x") > 3).all())
        'all(x > 3)'
        """
        return OfElements(ElementsTerm("all", self))

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
    """A test of one column, given by its name, or of an expression, given as a Term.

    >>> (cn.col("ts") >= 10).column
    'ts'
    >>> str((cn.col("ts") / 2 >= 10).column)
    'ts / 2'
    """

    column: Subject

    def leaves(self) -> Iterator[Leaf]:
        """This leaf alone."""
        yield self

    @property
    def _name(self) -> str:
        return subject_text(self.column)


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
        if any(map(has_too_many_digits, self.values)):
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
    """The string contains `text`, or an element of the list equals it."""

    text: object

    def __post_init__(self) -> None:
        check_number(self.text, self.column)

    @property
    def of_elements(self) -> OfElements:
        """What it means of a list column: an element equals the value."""
        return OfElements(ElementsTerm("any", Compare(self.column, "==", self.text)))

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
                f"cannot match {described(self.column)} with a pattern of {len(self.pattern):,} characters and "
                f"{wildcards:,} wildcards %: {MAX_PATTERN:,} characters and {MAX_WILDCARDS} wildcards are allowed. "
                f"Use contains or startswith, or join several patterns",
                column=column_of(self.column),
            )

    def __str__(self) -> str:
        return f"{self._name} like {value_text(self.pattern)}"


@dataclass(frozen=True, slots=True)
class Matches(Leaf):
    """A part of the string matches a regular expression, in the syntax of RE2."""

    pattern: str

    def __post_init__(self) -> None:
        if len(self.pattern) > MAX_REGULAR_EXPRESSION:
            raise PredicateError(
                f"cannot match {described(self.column)} with a regular expression of {len(self.pattern):,} "
                f"characters: {MAX_REGULAR_EXPRESSION:,} are allowed. Join several with |",
                column=column_of(self.column),
            )

    def __str__(self) -> str:
        return f"{self._name} matches {value_text(self.pattern)}"


@dataclass(frozen=True, slots=True)
class Comparison(Leaf):
    """Two expressions compared with each other: `column` is the call of the comparison."""

    def __str__(self) -> str:
        return str(self.column)


@dataclass(frozen=True, slots=True)
class TruthTerm(Term):
    """Whether a predicate holds, as a value that is computed: a boolean, missing where it is unknown."""

    predicate: Predicate

    @property
    def strength(self) -> int:
        return 0  # in parentheses inside anything else

    @property
    def parts(self) -> tuple[Term, ...]:
        return tuple(term_of(leaf.column) for leaf in self.predicate.leaves())

    def with_definitions(self, definitions: Mapping[str, Term]) -> Term:
        return TruthTerm(with_definitions(self.predicate, definitions))

    def __str__(self) -> str:
        return str(self.predicate)


@dataclass(frozen=True, slots=True)
class ElementsTerm(Term):
    """Whether a predicate is true for any, or for all, of the elements of a list column.

    In the predicate, the column stands for one element. The fields of lists of structs are `hits.x` or `hits['x']`.
    """

    how: Literal["any", "all"]
    predicate: Predicate
    levels: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not any(True for _ in columns_in(self)):
            raise PredicateError(f"{self.how} takes a test of a list column, such as x > 3")
        inside = max((getattr(part, "levels", 0) for part in (self.predicate, *self.parts)), default=0)
        levels = inside + _LEVELS_OF_ELEMENTS
        if levels > MAX_LEVELS:
            raise PredicateError(f"cannot test elements of elements: nested more than {MAX_LEVELS} levels deep")
        object.__setattr__(self, "levels", levels)

    @property
    def parts(self) -> tuple[Term, ...]:
        return tuple(term_of(leaf.column) for leaf in self.predicate.leaves())

    def with_definitions(self, definitions: Mapping[str, Term]) -> Term:
        return ElementsTerm(self.how, with_definitions(self.predicate, definitions))

    def __str__(self) -> str:
        return f"{self.how}({self.predicate})"


@dataclass(frozen=True, slots=True)
class OfElements(Leaf):
    """A test of the elements of lists: `column` is an ElementsTerm. Unknown where the list is missing."""

    @property
    def levels(self) -> int:
        """How deep predicates are nested in it."""
        return getattr(self.column, "levels", 0)

    def __str__(self) -> str:
        return str(self.column)


def column_of(subject: Subject) -> str | None:
    """The name of the column that is tested; None for an expression."""
    return subject if isinstance(subject, str) else None


def check_number(value: object, subject: Subject) -> None:
    """Raise if a number has more digits than any column can hold."""
    if has_too_many_digits(value):
        raise PredicateError(
            f"cannot compare {described(subject)} with a number of more than {MAX_DIGITS:,} digits before or after "
            f"the point. Compare it with a number that the column can hold",
            column=column_of(subject),
        )


def with_leaves(predicate: Predicate, change: Callable[[Leaf], Leaf]) -> Predicate:
    """The predicate with other leaves: what a function gives for each."""
    if isinstance(predicate, Not):
        return Not(with_leaves(predicate.part, change))
    if isinstance(predicate, (And, Or)):
        return type(predicate)(tuple(with_leaves(part, change) for part in predicate.parts))
    assert isinstance(predicate, Leaf)  # the fourth kind of predicate
    return change(predicate)


def with_definitions(predicate: Predicate, definitions: Mapping[str, Term]) -> Predicate:
    """The predicate with the names of computed columns replaced by what they are computed from."""
    if isinstance(predicate, Not):
        return Not(with_definitions(predicate.part, definitions))
    if isinstance(predicate, (And, Or)):
        return type(predicate)(tuple(with_definitions(part, definitions) for part in predicate.parts))
    assert isinstance(predicate, Leaf)  # the fourth kind of predicate
    subject = subject_of(term_of(predicate.column).with_definitions(definitions))
    if isinstance(subject, TruthTerm) and isinstance(predicate, Compare) and isinstance(predicate.value, bool):
        asked = (predicate.operator, predicate.value)
        if asked in (("==", True), ("!=", False)):  # planned as if the predicate was written there
            return subject.predicate
        if asked in (("==", False), ("!=", True)):
            return Not(subject.predicate)
    return predicate if subject == predicate.column else replace(predicate, column=subject)


def compared(left: Term, operator: Operator, right: Term) -> Leaf:
    """The comparison of two expressions, of which one may be a literal."""
    if not any(True for term in (left, right) for _ in columns_in(term)):
        raise PredicateError(f"a comparison needs a column, which {left} {operator} {right} has not")
    if isinstance(right, LiteralTerm):
        return Compare(subject_of(left), operator, right.value)
    if isinstance(left, LiteralTerm):
        return Compare(subject_of(right), TURNED[operator], left.value)
    return Comparison(CallTerm(operator, (left, right)))
