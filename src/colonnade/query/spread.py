"""How far values lie from their mean, per group: what standard deviations and variances are computed from.

Per group: one of its values (the pivot), the mean distance of the values from the pivot, and the sum of the squared
distances from that mean. Distances between values of a group are exact, or rounded once, however far the group is from
zero; so nothing is lost by cancellation, and groups are merged by shifting their means to a common pivot.

Squares are summed around the pivot first. Only where that would lose digits, because the pivot is far from the mean,
they are summed again around the mean. An infinity or NaN makes the sum of squares NaN.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from colonnade import kernels
from colonnade.arrays import Int64s
from colonnade.columns.keys import Numbers
from colonnade.columns.missing import Mask
from colonnade.columns.strings import Places
from colonnade.dataclass import dataclass

FIRST_ROWS = 4096
_LOST = 1e-3  # of a sum of squares around the pivot, what is left when the mean is subtracted
_EXACT_BITS = 32  # integers of up to 32 bits, and their distances, are exact as float64


@dataclass(frozen=True)
class Spread:
    """For each group: the pivot, the mean distance from it, and the sum of squares. Meaningless without values."""

    counts: Int64s
    pivots: Numbers
    means: Numbers
    squares: Numbers

    def take(self, places: Places) -> Spread:
        """The spread of these groups."""
        return Spread(self.counts[places], self.pivots[places], self.means[places], self.squares[places])

    def variances(self, ddof: int) -> Numbers:
        """The sum of squares, divided by the number of values less `ddof`; meaningless where that is not positive."""
        with np.errstate(all="ignore"):
            return np.asarray(self.squares / np.maximum(self.counts - ddof, 1))


def spread_of(values: Numbers, missing: Mask | None, codes: Numbers | None, n: int) -> Spread:
    """The spread of the values of n groups; codes: the group of each value, None for a single group."""
    if missing is not None:
        values, codes = values[~missing], None if codes is None else codes[~missing]
    pivots = np.zeros(n, dtype=values.dtype)
    if not len(values):
        return Spread(np.zeros(n, np.int64), pivots, np.zeros(n), np.zeros(n))
    with np.errstate(all="ignore"):
        if codes is None:
            pivots[0] = values[0]
            return _of_one(_distances(values, pivots), pivots)
        pivots = _some_value_of_each(values, codes, n)
        return _of_several(_distances(values, pivots.take(codes)), codes, pivots)


def _some_value_of_each(values: Numbers, codes: Numbers, n: int) -> Numbers:
    """A value of each group: one of the first rows, unless they lack some group."""
    pivots, is_known = np.zeros(n, dtype=values.dtype), np.zeros(n, dtype=bool)
    pivots[codes[:FIRST_ROWS]], is_known[codes[:FIRST_ROWS]] = values[:FIRST_ROWS], True
    if not is_known.all():
        pivots[codes] = values
    return pivots


def _of_one(distances: Numbers, pivots: Numbers) -> Spread:
    count = len(distances)
    mean = distances.sum() / count
    squares = np.dot(distances, distances)
    if not squares - count * mean * mean > _LOST * squares:
        distances -= mean
        squares = np.dot(distances, distances) - distances.sum() ** 2 / count
    else:
        squares -= count * mean * mean
    return Spread(np.array([count]), pivots, np.array([mean]), _not_negative(np.array([squares])))


def _of_several(distances: Numbers, codes: Numbers, pivots: Numbers) -> Spread:
    n = len(pivots)
    sums, counts = _added(distances, codes, n)
    divisors = np.maximum(counts, 1)
    means = sums / divisors
    whole, _ = _added(np.square(distances), codes, n)
    squares = whole - sums * means
    if not ((squares > _LOST * whole) | (whole == 0)).all():
        distances -= means[codes]
        rest, _ = _added(distances, codes, n)
        squares = _added(np.square(distances), codes, n)[0] - rest * rest / divisors
    return Spread(counts, pivots, means, _not_negative(squares))


def _added(values: Numbers, codes: Numbers, n: int) -> tuple[Numbers, Int64s]:
    """The sum of the values of each group, NaN if one is, and their number."""
    sums, counts, nans = np.zeros(2 * n), np.zeros(n, np.int64), np.zeros(n, np.int64)
    kernels.group_totals(codes, values, None, sums, counts, nans, None, None)
    pairs = sums.reshape(-1, 2)
    totals = np.where(np.isfinite(pairs[:, 0]), pairs[:, 0] + pairs[:, 1], pairs[:, 0])
    return np.where(nans > 0, np.nan, totals), counts + nans


def _not_negative(squares: Numbers) -> Numbers:
    return np.asarray(np.maximum(squares, 0.0))


def _distances(values: Numbers, pivots: Numbers) -> Numbers:
    """values - pivots as float64, a new array."""
    kind = values.dtype
    if kind.kind == "f":
        return np.asarray(np.subtract(values, pivots, dtype=np.float64))
    if kind == np.object_:
        return np.asarray((values - pivots).astype(np.float64))
    if 8 * kind.itemsize <= _EXACT_BITS:
        return np.asarray(values.astype(np.float64) - pivots)
    upward = (values - pivots).view(np.uint64).astype(np.float64)  # modulo 2**64, where values are at least the pivot
    downward = (pivots - values).view(np.uint64).astype(np.float64)
    return np.asarray(np.where(values >= pivots, upward, -downward))


def merge_spreads(parts: Sequence[Spread], ids: Places, n: int) -> Spread:
    """The spread of n groups, merged from those of parts; `ids` gives the group of each line of each part."""
    counts = np.concatenate([part.counts for part in parts])
    full = np.flatnonzero(counts)
    ids, counts = ids[full], counts[full]
    values = np.concatenate([part.pivots for part in parts])[full]
    means = np.concatenate([part.means for part in parts])[full]
    squares = np.concatenate([part.squares for part in parts])[full]
    pivots, merged = np.zeros(n, dtype=values.dtype), np.zeros(n, np.int64)
    pivots[ids[::-1]] = values[::-1]
    np.add.at(merged, ids, counts)
    with np.errstate(all="ignore"):
        means = means + _distances(values, pivots[ids])
        whole = np.bincount(ids, counts * means, n) / np.maximum(merged, 1)
        means -= whole[ids]
        squares = np.bincount(ids, squares + counts * np.square(means), n)
    return Spread(merged, pivots, whole, squares)
