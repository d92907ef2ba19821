"""Totals of a column per group: the number of values, their sum, the least, the greatest, and what else is needed.

The totals of a window are computed in one pass over its rows; those of several windows are then merged. Integers are
added exactly, floats as float64 with compensated summation: the rounding errors are summed separately.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from colonnade import kernels
from colonnade.arrays import Int64s
from colonnade.columns.keys import Keys, NumberKeys, Numbers, join
from colonnade.columns.missing import Mask
from colonnade.columns.read import ColumnReader
from colonnade.columns.strings import Places
from colonnade.dataclass import dataclass, replace
from colonnade.query.groups import Groups, take_or_miss
from colonnade.query.plan import may_miss
from colonnade.query.quantiles import Gathered
from colonnade.query.spread import Spread, merge_spreads, spread_of
from colonnade.query.window import Window
from colonnade.selection import RowNumbers

Counts = Int64s
_LOW = 2**32 - 1


@dataclass(frozen=True)
class Needs:
    """Which totals of a column are needed besides the number of values.

    ends: the least and the greatest. places: the first and the last row with a value. values: what quantiles need.
    """

    sums: bool = False
    ends: bool = False
    spread: bool = False
    places: bool = False
    values: bool = False

    @property
    def only_presence(self) -> bool:
        """Whether it is enough to know which rows have a value."""
        return not (self.sums or self.ends or self.spread or self.values)


@dataclass(frozen=True)
class Totals:
    """For each group: how many values are numbers, how many are NaN, their sum, the least and the greatest key.

    sums: None where not requested. For floats, two numbers per group: the sum, and its correction. For integers, the
    low and the high half of 128 bits, or one Python integer. A group without values has missing keys. first, last: the
    position among all rows, which `after` counts on, and the row number; both -1 in a group without values.
    """

    counts: Counts
    nans: Counts
    sums: Numbers | None = None
    least: Keys | None = None
    greatest: Keys | None = None
    spread: Spread | None = None
    first: RowNumbers | None = None
    last: RowNumbers | None = None
    gathered: Gathered | None = None

    @property
    def n_values(self) -> Counts:
        return self.counts + self.nans

    def take(self, places: Places) -> Totals:
        """The totals of these groups."""
        numbers = np.zeros(len(self.counts), np.int64)
        numbers[places] = np.arange(len(places))
        return Totals(
            self.counts[places],
            self.nans[places],
            None if self.sums is None else self.sums[places],
            None if self.least is None else self.least.take(places),
            None if self.greatest is None else self.greatest.take(places),
            None if self.spread is None else self.spread.take(places),
            None if self.first is None else self.first[places],
            None if self.last is None else self.last[places],
            None if self.gathered is None else self.gathered.renumbered(numbers),
        )

    def after(self, n_rows: int) -> Totals:
        """These totals, of rows that come after n_rows others."""
        if self.first is None or self.last is None:
            return self
        step = np.array([n_rows, 0])
        first, last = (np.where(rows >= 0, rows + step, rows) for rows in (self.first, self.last))
        return replace(self, first=first, last=last)

    def whole_sums(self) -> list[int]:
        """The exact sums of integers."""
        assert self.sums is not None  # the caller requested sums
        if self.sums.ndim == 1:
            return [int(number) for number in self.sums]
        halves = self.sums.view(np.uint64)[:, 0].tolist(), self.sums[:, 1].tolist()
        return [(high << 64) + low for low, high in zip(*halves, strict=True)]

    def float_sums(self) -> Numbers:
        """The sums of floats; NaN if any value is NaN."""
        assert self.sums is not None  # the caller requested sums
        with np.errstate(all="ignore"):
            found = np.where(np.isfinite(self.sums[:, 0]), self.sums[:, 0] + self.sums[:, 1], self.sums[:, 0])
        return np.where(self.nans > 0, np.nan, found)


# -- of a window --


def totals_of(reader: ColumnReader, window: Window, needs: Needs, groups: Groups | None) -> Totals:
    """The totals of a column by group, or (None) of all rows of the window as one group."""
    codes, n = (None, 1) if groups is None else (groups.codes, groups.n)
    if needs.only_presence:
        missing = window.missing(reader) if may_miss(reader.column) else None
        totals = _counted(missing, len(window), groups)
        return _with_places(totals, window, missing, codes, n) if needs.places else totals
    if not reader.has_numbers:
        keys = window.keys(reader)
        totals, missing = _of_keys(keys, needs, groups), keys.missing
        values = keys.values if isinstance(keys, NumberKeys) else None
    else:
        values, missing = window.numbers(reader)
        values = np.ascontiguousarray(values, dtype="f4" if values.dtype == np.float16 else values.dtype)
        totals = _of_all(values, missing, needs) if groups is None else _of_groups(values, missing, needs, groups)
    if needs.places:
        totals = _with_places(totals, window, missing, codes, n)
    if needs.spread or needs.values:
        assert values is not None  # bytes have neither
        spread = spread_of(values, missing, codes, n) if needs.spread else None
        gathered = Gathered.of(values, missing, codes, bool(totals.nans.any())) if needs.values else None
        totals = replace(totals, spread=spread, gathered=gathered)
    return totals


def _counted(missing: Mask | None, n_rows: int, groups: Groups | None) -> Totals:
    if groups is None:
        counts = np.array([n_rows - (0 if missing is None else int(missing.sum()))], dtype=np.int64)
    else:
        counts = np.bincount(groups.codes if missing is None else groups.codes[~missing], minlength=groups.n)
    return Totals(counts, np.zeros_like(counts))


def _with_places(totals: Totals, window: Window, missing: Mask | None, codes: Numbers | None, n: int) -> Totals:
    """The totals, with the first and the last row with a value of each group, in the order of the window."""
    places = np.arange(len(window)) if missing is None else np.flatnonzero(~missing)
    codes = np.zeros(len(places), np.int64) if codes is None else codes[places]
    return replace(totals, first=_first_of(places, codes, n, window), last=_last_of(places, codes, n, window))


def _first_of(places: Places, codes: Numbers, n: int, window: Window) -> RowNumbers:
    return _last_of(places[::-1], codes[::-1], n, window)


def _last_of(places: Places, codes: Numbers, n: int, window: Window) -> RowNumbers:
    known = np.full((n, 2), -1, np.int64)
    known[codes, 0] = places  # the last one of each group remains
    is_known = known[:, 0] >= 0
    known[is_known, 1] = window.row_numbers(known[is_known, 0])
    return known


def _of_all(values: Numbers, missing: Mask | None, needs: Needs) -> Totals:
    sums, n, n_nan = None, 0, 0
    ends: list[Keys | None] = [None, None]
    if needs.sums:
        total, n, n_nan = kernels.total(values, missing)
        is_float = values.dtype.kind == "f"
        sums = np.array([[total, 0.0]]) if is_float else _halves([int(total)])
    if needs.ends:
        *found, n, n_nan = kernels.least_greatest(values, missing)
        none = np.array([found[0] is None])
        ends = [NumberKeys(np.array([0 if end is None else end], values.dtype), none) for end in found]
    return Totals(np.array([n], np.int64), np.array([n_nan], np.int64), sums, ends[0], ends[1])


def _halves(numbers: Sequence[int]) -> Numbers:
    """Integers as the low and the high half of 128 bits."""
    halves = [(number & (2**64 - 1), number >> 64 & (2**64 - 1)) for number in numbers]
    return np.array(halves, dtype=np.uint64).view(np.int64)


def _of_groups(values: Numbers, missing: Mask | None, needs: Needs, groups: Groups) -> Totals:
    counts, nans = np.zeros(groups.n, np.int64), np.zeros(groups.n, np.int64)
    sums = np.zeros(2 * groups.n, "f8" if values.dtype.kind == "f" else "i8")
    ends = [np.zeros(groups.n, values.dtype) if needs.ends else None for _ in range(2)]
    kernels.group_totals(groups.codes, values, missing, sums, counts, nans, *ends)
    keys = [None if end is None else NumberKeys(end, counts == 0) for end in ends]
    return Totals(counts, nans, sums.reshape(-1, 2), keys[0], keys[1])


def _of_keys(keys: Keys, needs: Needs, groups: Groups | None) -> Totals:
    """Totals of bytes, and of integers of any length."""
    ids = np.zeros(len(keys), np.int64) if groups is None else groups.codes
    n, present, sums = 1 if groups is None else groups.n, ~keys.missing, None
    counts = np.bincount(ids[present], minlength=n)
    if needs.sums:
        assert isinstance(keys, NumberKeys)  # bytes are not added
        sums = np.zeros(n, dtype=object)
        np.add.at(sums, ids[present], keys.values[present])
    ends = _ends(keys, ids, n) if needs.ends else (None, None)
    return Totals(counts, np.zeros(n, np.int64), sums, *ends)


def _ends(keys: Keys, ids: Numbers, n: int) -> tuple[Keys, Keys]:
    """The least and the greatest key of each of n groups; missing where there is none."""
    if n == 1:
        places = keys.least_and_greatest()
        none = np.array([places is None])
        return tuple(take_or_miss(keys, np.array([place]), none) for place in places or (0, 0))  # type: ignore[return-value]
    known, ranks = keys.distinct()
    present = ranks >= 0
    least, greatest = np.full(n, len(known), np.int64), np.full(n, -1, np.int64)
    np.minimum.at(least, ids[present], ranks[present])
    np.maximum.at(greatest, ids[present], ranks[present])
    return take_or_miss(known, least, greatest < 0), take_or_miss(known, greatest, greatest < 0)


# -- of several windows --


def merge_totals(parts: Sequence[Totals], ids: Places, n: int) -> Totals:
    """The totals of n groups, merged from those of parts; `ids` gives the group of each line of each part."""
    counts, nans = np.zeros(n, np.int64), np.zeros(n, np.int64)
    np.add.at(counts, ids, np.concatenate([part.counts for part in parts]))
    np.add.at(nans, ids, np.concatenate([part.nans for part in parts]))
    sums = [part.sums for part in parts if part.sums is not None]
    least = [part.least for part in parts if part.least is not None]
    greatest = [part.greatest for part in parts if part.greatest is not None]
    spreads = [part.spread for part in parts if part.spread is not None]
    return Totals(
        counts,
        nans,
        _merge_sums(np.concatenate(sums), ids, n) if sums else None,
        _ends(join(least), ids, n)[0] if least else None,
        _ends(join(greatest), ids, n)[1] if greatest else None,
        merge_spreads(spreads, ids, n) if spreads else None,
        _merge_rows([part.first for part in parts], ids, n, first=True),
        _merge_rows([part.last for part in parts], ids, n, first=False),
        _merge_gathered(parts, ids),
    )


def _merge_rows(parts: Sequence[RowNumbers | None], ids: Places, n: int, first: bool) -> RowNumbers | None:
    """The first row of each group that is known, or the last."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    rows, merged = np.concatenate(known), np.full((n, 2), -1, np.int64)
    order = np.argsort(rows[:, 0], kind="stable")
    order = order[rows[order, 0] >= 0][:: -1 if first else 1]
    merged[ids[order]] = rows[order]
    return merged


def _merge_gathered(parts: Sequence[Totals], ids: Places) -> Gathered | None:
    """All values that were kept; None as soon as those of one part were not."""
    pieces: list[tuple[Numbers, Numbers | None]] = []
    start = 0
    for part in parts:
        if part.gathered is None:
            return None
        pieces += part.gathered.renumbered(ids[start : start + len(part.counts)]).pieces
        start += len(part.counts)
    return Gathered(pieces)


def _merge_sums(sums: Numbers, ids: Places, n: int) -> Numbers:
    if sums.ndim == 1:
        found = np.zeros(n, dtype=object)
        np.add.at(found, ids, sums)
        return found
    return _add_floats(sums, ids, n) if sums.dtype.kind == "f" else _add_halves(sums, ids, n)


def _add_floats(sums: Numbers, ids: Places, n: int) -> Numbers:
    added, counts, nans = np.zeros(2 * n), np.zeros(n, np.int64), np.zeros(n, np.int64)
    kernels.group_totals(ids, np.ascontiguousarray(sums[:, 0]), None, added, counts, nans, None, None)
    merged = added.reshape(-1, 2)
    merged[nans > 0, 0] = np.nan  # infinities of both signs
    merged[:, 1] += np.bincount(ids, weights=sums[:, 1], minlength=n)
    return merged


def _add_halves(sums: Numbers, ids: Places, n: int) -> Numbers:
    """Add 128-bit numbers, the low half in two quarters so that no sum overflows."""
    low, high = sums.view(np.uint64)[:, 0], sums[:, 1]
    quarters = np.zeros((n, 2), np.int64)
    np.add.at(quarters[:, 0], ids, (low & np.uint64(_LOW)).astype(np.int64))
    np.add.at(quarters[:, 1], ids, (low >> np.uint64(32)).astype(np.int64))
    upper = quarters[:, 1] + (quarters[:, 0] >> 32)
    merged = np.zeros((n, 2), np.int64)
    np.add.at(merged[:, 1], ids, high)
    merged[:, 1] += upper >> 32
    merged[:, 0] = (quarters[:, 0] & _LOW) | (upper << 32)
    return merged
