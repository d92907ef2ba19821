"""Tables of many columns are described lazily: a column when it is first used, the problems when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from colonnade import limits
from colonnade.model import Finding, LazyFindings, TableInfo

SAMPLED = 8  # columns that determine the length of a wide table


def is_wide(n_columns: int) -> bool:
    """Whether a table of this many columns is described lazily."""
    return n_columns >= limits.now.wide_columns


def sample(names: Sequence[str]) -> Sequence[str]:
    """A few of the names, evenly spread: the columns that determine the length of a wide table."""
    return names[:: max(1, len(names) // SAMPLED)]


def problems_of(describe_all: Callable[[], TableInfo]) -> Sequence[Finding]:
    """The problems of a wide table. All its columns are described when the problems are first used."""
    return LazyFindings(lambda: describe_all().problems)
