"""One test of one column, bound to the keys of the column.

A key is what a stored value is compared by: a whole number (integers, booleans, codes, times, decimals), a float, or
bytes (text, opaque). Where a predicate speaks of values ("2026-01-01", 2.5 against an integer column, a category),
binding (`query.bind`) has worked out the keys, so that here and in the indexes every comparison is exact.

Of a leaf only "true" matters: `not` is pushed down to the leaves, and a missing row makes no leaf true but `Missing`.
A leaf that is `negated` is true for every value that does not pass the test, NaN among them.
"""

from __future__ import annotations

from typing import Literal

from colonnade.dataclass import dataclass

Key = int | float | bytes
Domain = Literal["integer", "float", "bytes"]


@dataclass(frozen=True, slots=True)
class Interval:
    """Keys from low to high; None is no bound. NaN lies in no interval."""

    low: Key | None = None
    high: Key | None = None
    low_open: bool = False
    high_open: bool = False

    @property
    def is_point(self) -> bool:
        """Whether one key lies in it at most."""
        return self.low is not None and self.low == self.high


@dataclass(frozen=True, slots=True)
class Among:
    """One of these keys, which are distinct and increasing; none of them NaN."""

    keys: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class Pattern:
    """Text that holds `text` somewhere, or is like it ("like": % any text, _ one character)."""

    how: Literal["contains", "like"]
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
    """A test of one column, or its negation. `said` is the predicate it came from."""

    column: str
    test: Test
    negated: bool = False
    said: str = ""

    @property
    def points(self) -> tuple[Key, ...] | None:
        """The keys that the leaf asks for, when it is true for these keys alone."""
        if self.negated:
            return None
        if isinstance(self.test, Among):
            return self.test.keys
        if isinstance(self.test, Interval) and self.test.is_point and self.test.low is not None:
            return () if self.test.low_open or self.test.high_open else (self.test.low,)
        return None


@dataclass(frozen=True, slots=True)
class AllOf:
    """True when all parts are; with no parts, always."""

    parts: tuple[Bound, ...] = ()


@dataclass(frozen=True, slots=True)
class AnyOf:
    """True when one of the parts is; with no parts, never."""

    parts: tuple[Bound, ...] = ()


Bound = BoundLeaf | AllOf | AnyOf
