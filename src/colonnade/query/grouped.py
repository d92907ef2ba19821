"""Rows of a table by group, window by window: for each group its key in each column, its row count, and its totals.

Each thread reads one window of rows. The parts come in order, and are merged where many groups wait.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from colonnade import compute as pc
from colonnade import limits
from colonnade.columns.keys import Keys, NumberKeys, Numbers, join
from colonnade.columns.read import ColumnReader
from colonnade.columns.strings import Places
from colonnade.dataclass import dataclass, replace
from colonnade.query.groups import groups_of, same_groups
from colonnade.query.search import Search
from colonnade.query.totals import Counts, Needs, Totals, merge_totals, totals_of
from colonnade.query.window import Window, windows_of
from colonnade.selection import Rows
from colonnade.threads import in_order

ColumnNeeds = Mapping[str, Needs]


@dataclass(frozen=True)
class GroupPart:
    """What is known about some rows: for each group its key in each column, its row count, and the totals of each
    column."""

    keys: list[Keys]
    rows: Counts
    totals: list[Totals]

    def __len__(self) -> int:
        return len(self.rows)


def merge_parts(parts: Sequence[GroupPart], ranks: Mapping[int, Keys] | None = None) -> GroupPart:
    """Merge equal groups, in increasing order of their keys; `ranks`: keys to order columns by instead."""
    keys = [join([part.keys[i] for part in parts]) for i in range(len(parts[0].keys))]
    ordered = [(ranks or {}).get(i, item) for i, item in enumerate(keys)]
    ids, places = same_groups(ordered, sum(map(len, parts)))
    rows = np.zeros(len(places), np.int64)
    np.add.at(rows, ids, np.concatenate([part.rows for part in parts]))
    totals = [[part.totals[i] for part in parts] for i in range(len(parts[0].totals))]
    return GroupPart(
        [item.take(places) for item in keys], rows, [merge_totals(item, ids, len(places)) for item in totals]
    )


class GroupedRows:
    """Rows by their values in columns; without columns all rows are one group."""

    def __init__(self, by: Sequence[ColumnReader], rows: Rows | Search) -> None:
        self.by = by
        self.rows = rows

    def read(self, readers: Mapping[str, ColumnReader], needs: ColumnNeeds) -> GroupPart:
        """The totals of these columns by group, the groups in increasing order of their values."""
        parts: list[GroupPart] = []
        n_waiting, n_rows, gathered, gathers = 0, 0, 0, any(item.values for item in needs.values())
        for part in self.parts(readers, needs):
            part = replace(part, totals=[item.after(n_rows) for item in part.totals])
            n_rows += int(part.rows.sum())
            if gathers:
                gathered += sum(item.gathered.n_bytes for item in part.totals if item.gathered is not None)
                gathers = gathered <= limits.now.gathered_bytes
                parts = parts if gathers else [_without_values(item) for item in parts]
            parts.append(part if gathers else _without_values(part))
            n_waiting += len(part)
            if len(parts) > 2 and n_waiting > 2 * len(parts[0]) + limits.now.waiting_groups:
                parts = [merge_parts(parts)]
                n_waiting = len(parts[0])
        return self.sorted(merge_parts(parts or [self._window(range(0), readers, needs)]))

    def parts(self, readers: Mapping[str, ColumnReader], needs: ColumnNeeds) -> Iterator[GroupPart]:
        """The groups and totals of one window after another."""

        def work(rows: Rows) -> GroupPart:
            return self._window(rows, readers, needs)

        return in_order(work, self._windows(readers, needs), self._threads(readers))

    def _threads(self, readers: Mapping[str, ColumnReader]) -> int:
        return max((reader.n_threads for reader in (*self.by, *readers.values())), default=1)

    def _windows(self, readers: Mapping[str, ColumnReader], needs: ColumnNeeds) -> Iterator[Rows]:
        if isinstance(self.rows, Search):
            return iter(self.rows.windows())
        for reader in (*self.by, *readers.values()):
            reader.check_written(len(self.rows))
        columns = [reader.column for reader in (*self.by, *readers.values())]
        return windows_of(self.rows, columns, in_order=any(item.places for item in needs.values()))

    def _window(self, rows: Rows, readers: Mapping[str, ColumnReader], needs: ColumnNeeds) -> GroupPart:
        window = Window.of(rows)
        groups = groups_of(self.by, window) if self.by else None
        totals = [totals_of(reader, window, needs[name], groups) for name, reader in readers.items()]
        if groups is None:
            return GroupPart([], np.array([len(window)], np.int64), totals)
        full = (item.n_values for item in totals if item.n_values.sum() == len(window))
        counts = next(full, None)
        if counts is None:
            counts = np.bincount(groups.codes, minlength=groups.n)
        used = np.flatnonzero(counts)
        return GroupPart([keys.take(used) for keys in groups.keys], counts[used], [item.take(used) for item in totals])

    def sorted(self, part: GroupPart) -> GroupPart:
        """The groups in increasing order of their values; the input is ordered by keys."""
        ranks = self._ranks(part.keys)
        return merge_parts([part], ranks) if ranks else part

    def sort_keys(self, keys: Sequence[Keys]) -> list[Keys]:
        """Keys of the groups that sort like their values, and are equal where these are."""
        ranks = self._ranks(keys)
        return [ranks.get(position, item) for position, item in enumerate(keys)]

    def _ranks(self, keys: Sequence[Keys]) -> dict[int, Keys]:
        """Keys that sort like the values, for the columns whose own keys do not."""
        return {
            position: label_ranks(reader.values(item))
            for position, (reader, item) in enumerate(zip(self.by, keys, strict=True))
            if reader.is_coded and not (pa.types.is_dictionary(reader.kind) and reader.kind.ordered)
        }

    # -- read again, when all groups are known --

    def values_by_group(self, reader: ColumnReader, known: Sequence[Keys]) -> Iterator[tuple[Numbers, Places]]:
        """The values of a column that are numbers, and the position of the group of each among those known."""
        needs = {"": Needs(values=True)}

        def work(rows: Rows) -> tuple[Numbers, Places]:
            part = self._window(rows, {"": reader}, needs)
            gathered = part.totals[0].gathered
            assert gathered is not None  # it is needed
            if self.by:
                gathered = gathered.renumbered(self._places(part.keys, known))
            values, codes = gathered.whole()
            return values, np.zeros(len(values), np.int32) if codes is None else codes

        return in_order(work, self._windows({"": reader}, needs), self._threads({"": reader}))

    def _places(self, keys: Sequence[Keys], known: Sequence[Keys]) -> Places:
        """The positions of these groups among those known."""
        both = [join([item, other]) for item, other in zip(known, keys, strict=True)]
        n_known = len(known[0])
        ids, _ = same_groups(self.sort_keys(both), len(both[0]))
        places = np.zeros(len(ids), np.int64)
        places[ids[:n_known]] = np.arange(n_known)
        return places[ids[n_known:]]


def _without_values(part: GroupPart) -> GroupPart:
    return replace(part, totals=[replace(item, gathered=None) for item in part.totals])


def label_ranks(values: pa.Array) -> NumberKeys:
    """The order of values that are stored as categories, as numbers; equal values have equal numbers."""
    missing = values.is_null().to_numpy(zero_copy_only=False)
    plain = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
    if pa.types.is_floating(plain.type):  # Arrow numbers by bits: 0.0 and -0.0 apart, and NaN with other bits
        plain = pc.add(plain.cast(pa.float64()), 0.0)  # -0.0 becomes 0.0
        plain = pc.if_else(pc.is_nan(plain), math.nan, plain)
    coded = plain.dictionary_encode()
    ranks = np.zeros(len(coded.dictionary), np.int64)
    ranks[pc.array_sort_indices(coded.dictionary).to_numpy()] = np.arange(len(ranks))
    numbers = np.zeros(len(values), np.int64)
    numbers[~missing] = ranks[coded.indices.drop_null().to_numpy()]
    return NumberKeys(numbers, missing)
