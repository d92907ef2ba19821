"""What is known about the values of a column: how many are missing or NaN, the least, the greatest, how many differ."""

from __future__ import annotations

from typing import Literal

import numpy as np

from colonnade.columns.keys import Keys, join
from colonnade.dataclass import dataclass


@dataclass(frozen=True)
class Distinct:
    """How many distinct values there are; NaN is one value.

    >>> cn.write("run.h5", {"ts": [1, 2, 3], "label": ["muon", "pion", "muon"]}, "events")
    >>> t = cn.open_table("run.h5", "events")
    >>> t.stats(["label"])["label"].distinct
    Distinct(count=2, how='exactly')
    """

    count: int
    how: Literal["exactly", "more than", "at most"]


@dataclass
class Known:
    """What is known about a column in terms of its keys; `ends` are the least and the greatest key."""

    n_missing: int = 0
    n_nan: int = 0
    ends: Keys | None = None
    distinct: Distinct | None = None

    def widen(self, keys: Keys) -> None:
        """Extend the ends to include these keys."""
        places = keys.least_and_greatest()
        if places is not None:
            both = keys.take(np.array(places))
            self.ends = both if self.ends is None else _ends(join([self.ends, both]))


def _ends(keys: Keys) -> Keys:
    places = keys.least_and_greatest()
    assert places is not None  # the ends of at least one key
    return keys.take(np.array(places))
