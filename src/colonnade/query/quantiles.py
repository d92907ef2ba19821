"""Medians and quantiles: values kept per group, and, where they are too many, ranges narrowed around what is wanted.

The value at a rank is exact. As long as the values found so far take fewer than `limits.gathered_bytes`, they are kept
as they are read, and one pass suffices. If there are more, the range of each rank, at first from the least to the
greatest value, is divided into bins; a pass over the rows counts the values in each bin, and the bin that holds the
rank is the next range. Once the values inside all ranges are few enough, one more pass collects them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import numpy as np

from colonnade import limits
from colonnade.arrays import Int64s
from colonnade.columns.keys import NumberKeys, Numbers
from colonnade.columns.missing import Mask
from colonnade.columns.read import ColumnReader
from colonnade.columns.strings import Places
from colonnade.dataclass import dataclass

FEW_GROUPS = 4096  # each of which is sorted by itself
DENSE = 8  # bytes for each value that a table of all possible values may take
_EXACT = 2**52  # integers up to here, and halfway between two of them, are exact as float64
Pass = Callable[[], Iterator[tuple[Numbers, Places]]]
"""Reads all rows again: the values that are numbers, and the group of each, window by window."""


@dataclass(frozen=True)
class Gathered:
    """The values of some rows that are neither missing nor NaN, and their groups (None: there is only one)."""

    pieces: Sequence[tuple[Numbers, Numbers | None]]

    @classmethod
    def of(cls, values: Numbers, missing: Mask | None, codes: Numbers | None, has_nan: bool) -> Gathered:
        """The values of a window."""
        wanted = None if missing is None else ~missing
        if has_nan:
            wanted = ~np.isnan(values) if wanted is None else wanted & ~np.isnan(values)
        if wanted is not None:
            values, codes = values[wanted], None if codes is None else codes[wanted]
        return cls([(values, codes)])

    @property
    def n_bytes(self) -> int:
        return sum(values.nbytes + (0 if codes is None else codes.nbytes) for values, codes in self.pieces)

    def renumbered(self, ids: Places) -> Gathered:
        """These values; `ids` gives the new number of each group."""
        small = ids.astype(np.int32)
        return Gathered([(values, None if codes is None else small[codes]) for values, codes in self.pieces])

    def whole(self) -> tuple[Numbers, Numbers | None]:
        """All values, and all groups."""
        values = np.concatenate([values for values, _ in self.pieces])
        codes = [codes for _, codes in self.pieces if codes is not None]
        return values, np.concatenate(codes) if codes else None


# -- ranks --


@dataclass(frozen=True)
class Ranks:
    """Where a quantile lies among the sorted values of each group: between two ranks, and how far from the first."""

    low: Int64s
    high: Int64s
    part: Numbers


def ranks_of(q: float, counts: Int64s) -> Ranks:
    """The ranks of a quantile; 0 in a group without values."""
    last = np.maximum(counts - 1, 0)
    position = q * last
    low = np.minimum(np.floor(position).astype(np.int64), last)
    return Ranks(low, np.minimum(low + (position > low), last), position - low)


def ranked(gathered: Gathered, counts: Int64s, ranks: Sequence[Int64s]) -> list[Numbers]:
    """For each array of ranks (one per group), the values at these ranks; undefined for a group without values."""
    values, codes = gathered.whole()
    if codes is None or len(counts) == 1:
        return _of_one_group(values, [rank[:1] for rank in ranks], len(counts))
    if len(counts) <= FEW_GROUPS:
        order = NumberKeys(codes, np.zeros(len(codes), bool)).ordered()
        values, starts = values[order], np.cumsum(counts) - counts
        values_at = [np.zeros(len(counts), values.dtype) for _ in ranks]
        for group in np.flatnonzero(counts).tolist():
            start = int(starts[group])
            wanted = [rank[group : group + 1] for rank in ranks]
            part = _of_one_group(values[start : start + int(counts[group])], wanted, 1)
            for array, value in zip(values_at, part, strict=True):
                array[group] = value[0]
        return values_at
    order = NumberKeys(values, np.zeros(len(values), bool)).ordered()
    by_group = NumberKeys(codes[order], np.zeros(len(codes), bool)).ordered()  # a stable sort
    values, starts = values[order][by_group], np.cumsum(counts) - counts
    padded = np.append(values, values[:1]) if len(values) else np.zeros(1, values.dtype)
    return [padded[np.where(counts > 0, starts + rank, len(values))] for rank in ranks]


def _of_one_group(values: Numbers, ranks: Sequence[Int64s], n: int) -> list[Numbers]:
    if not n or not len(values):
        return [np.zeros(n, values.dtype) for _ in ranks]
    distinct_ranks = sorted({int(rank[0]) for rank in ranks})
    values = np.sort(values) if values.dtype == np.object_ else np.partition(values, distinct_ranks)
    return [values[rank] for rank in ranks]


# -- distinct values --


def can_be_sorted(reader: ColumnReader) -> bool:
    """Whether distinct values are counted by sorting: numbers of more than a byte that are not codes."""
    return reader.has_numbers and not reader.is_coded and reader.column.type.size > 1


def n_distinct(gathered: Gathered, counts: Int64s) -> Int64s:
    """How many distinct values each group has."""
    values, codes = gathered.whole()
    n = len(counts)
    if len(values) and values.dtype.kind in "iu":
        least = int(values.min())
        width = int(values.max()) - least + 1
        if width * n <= DENSE * len(values):
            table = np.zeros(width * n, dtype=bool)
            offsets = (values - values.dtype.type(least)).view(f"u{values.itemsize}").astype(np.int64)
            table[offsets if codes is None else codes.astype(np.int64) * width + offsets] = True
            return np.asarray(table.reshape(n, width).sum(axis=1))
    if codes is None or n == 1:
        return np.array([_n_runs(np.sort(values))])
    if n <= FEW_GROUPS:
        values = values[NumberKeys(codes, np.zeros(len(codes), bool)).ordered()]
        starts = (np.cumsum(counts) - counts).tolist()
        parts = zip(starts, counts.tolist(), strict=True)
        return np.array([_n_runs(np.sort(values[start : start + count])) for start, count in parts], np.int64)
    order = NumberKeys(values, np.zeros(len(values), bool)).ordered()
    order = order[NumberKeys(codes[order], np.zeros(len(codes), bool)).ordered()]
    values, codes = values[order], codes[order]
    is_new = np.ones(len(values), bool)
    is_new[1:] = (values[1:] != values[:-1]) | (codes[1:] != codes[:-1])
    return np.bincount(codes[is_new], minlength=n)


def _n_runs(values: Numbers) -> int:
    """The number of distinct values of a sorted array."""
    return int((values[1:] != values[:-1]).sum()) + 1 if len(values) else 0


# -- more values than are kept --


@dataclass
class _Range:
    """For each group: the keys low to high, the number of lesser ones, how many are inside; and the rank wanted."""

    low: Numbers
    high: Numbers
    below: Int64s
    inside: Int64s
    rank: Int64s

    def wanted(self) -> Mask:
        """The groups of which values must still be read."""
        return np.asarray((self.inside > 0) & (self.low < self.high))

    def within(self, keys: Numbers, codes: Places) -> Mask:
        """Which keys are inside the range of their group, and wanted."""
        return np.asarray(self.wanted()[codes] & (keys >= self.low[codes]) & (keys <= self.high[codes]))

    def narrowed(self, n_bins: int, read: Callable[[], Iterator[tuple[Numbers, Places]]]) -> _Range:
        """The bin of each group that holds its rank."""
        n = len(self.low)
        width = (self.high - self.low) // _like(self.low, n_bins) + _like(self.low, 1)
        counts = np.zeros(n * n_bins, np.int64)
        for keys, codes in read():
            inside = self.within(keys, codes)
            keys, codes = keys[inside], codes[inside]
            bins = ((keys - self.low[codes]) // width[codes]).astype(np.int64)
            counts += np.bincount(codes.astype(np.int64) * n_bins + bins, minlength=len(counts))
        so_far = self.below[:, None] + np.cumsum(counts.reshape(n, n_bins), axis=1)
        chosen = np.minimum((so_far <= self.rank[:, None]).sum(axis=1), n_bins - 1)
        each, open_ = np.arange(n), self.wanted()
        inside = counts.reshape(n, n_bins)[each, chosen]
        low = self.low + chosen.astype(self.low.dtype) * width
        room = self.high - low  # how far the range reaches beyond the start of the bin: the last bin may be cut
        high = low + np.minimum(room, width - _like(width, 1))
        return _Range(
            np.where(open_, low, self.low),
            np.where(open_, high, self.high),
            np.where(open_, so_far[each, chosen] - inside, self.below),
            np.where(open_, inside, self.inside),
            self.rank,
        )


def _like(keys: Numbers, number: int) -> int | np.generic:
    """A number that does not change the type of the keys."""
    return number if keys.dtype == np.object_ else keys.dtype.type(number)


def narrowed_ranks(
    read: Pass, least: Numbers, greatest: Numbers, counts: Int64s, ranks: Sequence[Int64s]
) -> list[Numbers]:
    """As `ranked`, but the values are read again, several times. least, greatest: of each group."""
    low, high = _as_keys(least), _as_keys(greatest)
    ranges = [_Range(low, high, np.zeros_like(counts), counts, rank) for rank in ranks]

    def keys_read() -> Iterator[tuple[Numbers, Places]]:
        return ((_as_keys(values), codes) for values, codes in read())

    bytes_each = least.itemsize + 8
    most_bins = 1 << 16 if low.dtype == np.object_ else min(1 << 16, np.iinfo(low.dtype).max)
    n_bins = max(2, min(most_bins, limits.now.gathered_bytes // (64 * max(len(counts), 1))))
    while sum(int(span.inside[span.wanted()].sum()) for span in ranges) * bytes_each > limits.now.gathered_bytes:
        ranges = [span.narrowed(n_bins, keys_read) for span in ranges]
    collected: list[list[tuple[Numbers, Places]]] = [[] for _ in ranges]
    if any(span.wanted().any() for span in ranges):
        for keys, codes in keys_read():
            for span, pieces in zip(ranges, collected, strict=True):
                inside = span.within(keys, codes)
                pieces.append((keys[inside], codes[inside]))
    values_at = []
    for span, pieces in zip(ranges, collected, strict=True):
        chosen = span.low
        if span.wanted().any():
            n_inside: Int64s = np.where(span.wanted(), span.inside, np.int64(0))
            inner = ranked(Gathered(pieces), n_inside, [np.where(n_inside > 0, span.rank - span.below, 0)])[0]
            chosen = np.where(n_inside > 0, inner, span.low)
        values_at.append(_as_values(chosen, least.dtype))
    return values_at


def _as_keys(values: Numbers) -> Numbers:
    """Numbers as unsigned integers in the same order; integers of any length as they are."""
    kind = values.dtype
    if kind.kind in "uO":
        return values
    top = np.array(1 << (8 * kind.itemsize - 1), f"u{kind.itemsize}")
    if kind.kind == "i":
        return np.asarray(np.ascontiguousarray(values).view(top.dtype) ^ top)
    bits = np.ascontiguousarray(values + kind.type(0)).view(top.dtype)  # -0.0 becomes 0.0
    return np.where(bits & top, ~bits, bits | top)


def _as_values(keys: Numbers, kind: np.dtype) -> Numbers:
    if kind.kind in "uO":
        return keys
    top = keys.dtype.type(1 << (8 * kind.itemsize - 1))
    if kind.kind == "i":
        signed: Numbers = (keys ^ top).view(kind)
        return signed
    floats: Numbers = np.where(keys & top, keys ^ top, ~keys).view(kind)
    return floats


# -- between two ranks --


def interpolated(low: Numbers, high: Numbers, part: Numbers) -> Numbers:
    """Values between two numbers as float64, rounded once: `part` of the way from low to high."""
    a, b = low.astype(np.float64), high.astype(np.float64)
    with np.errstate(all="ignore"):
        between = np.where(part < 0.5, a + (b - a) * part, b - (b - a) * (1.0 - part))
        far = np.isinf(b - a) & np.isfinite(a) & np.isfinite(b)
        between = np.where(far, a * (1.0 - part) + b * part, between)
        between = np.where(np.isinf(a) | np.isinf(b), a + b, between)
    between = np.where((part == 0) | (a == b), a, between)
    if low.dtype.kind != "f":
        for position in np.flatnonzero((np.abs(a) >= _EXACT) | (np.abs(b) >= _EXACT)).tolist():
            between[position] = float(_between(int(low[position]), int(high[position]), float(part[position])))
    return between


def interpolated_down(low: Numbers, high: Numbers, part: Numbers) -> Numbers:
    """Integers between two integers, rounded down: `part` of the way from low to high."""
    rows = zip(low.tolist(), high.tolist(), part.tolist(), strict=True)
    return np.array([math.floor(_between(a, b, c)) for a, b, c in rows], dtype=low.dtype)


def _between(low: int, high: int, part: float) -> Fraction:
    return Fraction(low) + (high - low) * Fraction(part)
