"""How far values lie from their mean, per group: what standard deviations and variances are computed from.

Per group: one of its values (the pivot), the mean distance of the values from the pivot, and the sum of the squared
distances from that mean. Distances between values of a group are exact, or rounded once, however far the group is from
zero; so nothing is lost by cancellation, and groups are merged by shifting their means to a common pivot.

Distances of floats are halved: none is too large for a float64. An infinity or NaN makes the sum of squares NaN.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from colonnade.arrays import Int64s
from colonnade.columns.keys import Numbers
from colonnade.columns.missing import Mask
from colonnade.columns.strings import Places
from colonnade.dataclass import dataclass

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
        unit = 4.0 if self.pivots.dtype.kind == "f" else 1.0
        with np.errstate(all="ignore"):
            return unit * (self.squares / np.maximum(self.counts - ddof, 1))


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
        pivots[codes] = values
        counts = np.bincount(codes, minlength=n)
        return _of_several(_distances(values, pivots[codes]), counts, codes, pivots)


def _of_one(distances: Numbers, pivots: Numbers) -> Spread:
    mean = distances.mean()
    distances -= mean
    squares = _corrected(np.array([np.dot(distances, distances)]), distances.sum(), len(distances))
    return Spread(np.array([len(distances)]), pivots, np.array([mean]), squares)


def _of_several(distances: Numbers, counts: Int64s, codes: Numbers, pivots: Numbers) -> Spread:
    n, divisors = len(counts), np.maximum(counts, 1)
    means = np.bincount(codes, distances, n) / divisors
    distances -= means[codes]
    rest = np.bincount(codes, distances, n)
    np.square(distances, out=distances)
    return Spread(counts, pivots, means, _corrected(np.bincount(codes, distances, n), rest, divisors))


def _corrected(squares: Numbers, rest: Numbers, counts: Int64s | int) -> Numbers:
    """Sums of squares, less what comes from rounding the mean: rest is the sum of the distances, nearly 0."""
    return np.where(np.isinf(squares), squares, np.maximum(squares - rest * rest / counts, 0.0))


def _distances(values: Numbers, pivots: Numbers) -> Numbers:
    """values - pivots as float64, a new array; of floats, the half of it."""
    kind = values.dtype
    if kind.kind == "f":
        return np.asarray(values.astype(np.float64) * 0.5 - pivots.astype(np.float64) * 0.5)
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
