"""One test of one column, bound to the keys of the column.

A key is the form in which stored values are compared: an integer (integers, booleans, codes, times, decimals), a float,
or bytes (strings, opaque). Predicates hold values ("2026-01-01", 2.5 against an integer column, a category); binding
(`query.bind`) translates them to keys, so that here and in the indexes every comparison is exact.

A leaf only has to distinguish "true" from the rest: `not` is pushed down to the leaves, and for a missing row only
`Missing` is true. A `negated` leaf is true for every value that does not pass the test, including NaN.
"""

from __future__ import annotations

from typing import Literal

from colonnade.dataclass import dataclass

Key = int | float | bytes
Domain = Literal["integer", "float", "bytes"]


@dataclass(frozen=True, slots=True)
class Interval:
    """Keys from low to high; None means unbounded. NaN is in no interval."""

    low: Key | None = None
    high: Key | None = None
    low_open: bool = False
    high_open: bool = False

    @property
    def is_point(self) -> bool:
        """Whether it contains at most one key."""
        return self.low is not None and self.low == self.high


@dataclass(frozen=True, slots=True)
class Among:
    """One of these keys, which are distinct and increasing; none of them is NaN."""

    keys: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class Pattern:
    """The string contains `text`, or matches it: a pattern ("like": % any string, _ one character), or a regular
    expression, a part of the string ("matches")."""

    how: Literal["contains", "like", "matches"]
    text: str | bytes


@dataclass(frozen=True, slots=True)
class Missing:
    """The row has no value."""


@dataclass(frozen=True, slots=True)
class NotANumber:
    """The value is NaN."""


Test = Interval | Among | Pattern | Missing | NotANumber
NOTHING = Among(())


@dataclass(frozen=True, slots=True)
class BoundLeaf:
    """A test of one column, or its negation. `said` is the predicate that it was bound from.

    column: its name; for a test of an expression, the name of the column that computes it (`is_computed`)."""

    column: str
    test: Test
    negated: bool = False
    said: str = ""
    is_computed: bool = False

    @property
    def points(self) -> tuple[Key, ...] | None:
        """The keys for which the leaf is true, if there is a finite list of them; else None."""
        if self.negated:
            return None
        if isinstance(self.test, Among):
            return self.test.keys
        if isinstance(self.test, Interval) and self.test.is_point and self.test.low is not None:
            return () if self.test.low_open or self.test.high_open else (self.test.low,)
        return None


@dataclass(frozen=True, slots=True)
class AllOf:
    """True when all parts are true; always true without parts."""

    parts: tuple[Bound, ...] = ()


@dataclass(frozen=True, slots=True)
class AnyOf:
    """True when one of the parts is true; never true without parts."""

    parts: tuple[Bound, ...] = ()


Bound = BoundLeaf | AllOf | AnyOf
