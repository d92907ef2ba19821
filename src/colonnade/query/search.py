"""The rows of a query: a plan narrows them down, rows it is not sure of are tested; in the requested order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from colonnade import limits
from colonnade.arrays import distinct
from colonnade.columns.read import ColumnReader
from colonnade.indexes.base import Found
from colonnade.layouts.index_home import OpenIndex
from colonnade.model import ColumnInfo
from colonnade.pager.receipts import Trust
from colonnade.predicate.bound import Bound, BoundLeaf
from colonnade.predicate.tree import Predicate
from colonnade.query.bind import Readers, columns_of
from colonnade.query.match import answered, matches
from colonnade.query.plan import ALWAYS, Plan, Planner, describe_reads
from colonnade.selection import RowNumbers, Rows, Selection


class Search:
    """Finds which of some rows match a predicate (None: all of them), and reports how."""

    def __init__(
        self,
        tree: Bound | None,
        rows: Rows,
        limit: int | None,
        indexes: Sequence[OpenIndex],
        trust: Trust,
        readers: Readers,
        predicate: Predicate | None,
    ) -> None:
        self._tree, self._rows, self._limit = tree, rows, limit
        self._readers, self._predicate = readers, predicate
        self._planner = Planner(indexes, trust, readers)
        self._scope = _as_selection(rows)
        self._probed: dict[str, set[int]] = {}  # by column, the chunks that indexes needed keys of

    def plan(self, wanted: Sequence[ColumnReader]) -> Plan:
        """What is read, for the requested columns."""
        found, residual = self._find()
        tested = stored_columns(self._readers[name] for name in columns_of(residual))
        names = stored_columns(wanted)
        columns = {**stored_columns(self._readers.values()), **names}
        return Plan(
            predicate=str(self._predicate) if self._predicate is not None else "all rows",
            n_rows=len(self._rows),
            found=found,
            indexes_used=self._planner.used,
            indexes_skipped=list(self._planner.skipped.values()),
            columns=describe_reads(tested, found, names, self._probed, columns),
            tests_codes=bool(self._readers) and all(r.column.categories is not None for r in self._readers.values()),
        )

    def _find(self) -> tuple[Found, Bound]:
        if self._tree is None:
            return Found(self._scope, self._scope), ALWAYS
        return answered(self._planner.search(self._tree, self._scope), self._readers, self._probed)

    @property
    def _is_plain(self) -> bool:
        """Whether the rows are requested in increasing order, each once."""
        return isinstance(self._rows, range) and self._rows.step > 0

    def _selections(self) -> Iterator[Selection]:
        """The matching rows in increasing order, a window at a time."""
        found, residual = self._find()
        yield from matches(residual, found, self._readers)

    def count(self) -> int:
        """How many rows match."""
        if not self._is_plain:
            return len(self.rows())
        whole = isinstance(self._tree, BoundLeaf) and self._limit is None and self._rows == range(len(self._rows))
        if whole and isinstance(self._tree, BoundLeaf) and self._covers(self._tree):
            n_rows = answered(self._planner.count(self._tree), self._readers, self._probed)
            if n_rows is not None:
                return n_rows
        found, residual = self._find()
        count = found.may.count
        if not found.is_exact:
            count = sum(part.count for part in matches(residual, found, self._readers))
        return count if self._limit is None else min(count, self._limit)

    def _covers(self, leaf: BoundLeaf) -> bool:
        """Whether all rows of the table are requested."""
        return self._readers[leaf.column].column.n_rows == len(self._rows)

    def rows(self) -> Rows:
        """The rows that match, in the requested order."""
        if self._is_plain and self._limit is None:
            whole = Selection.joined(list(self._selections()))
            return range(int(whole.starts[0]), int(whole.stops[0])) if len(whole.starts) == 1 else whole.rows()
        if self._is_plain:
            parts = list(self.parts(1 << 22))
            return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
        matching = [part.rows() for part in self._selections()]
        every = np.concatenate(matching) if matching else np.empty(0, dtype=np.int64)
        asked = np.asarray(self._rows, dtype=np.int64)
        places = np.minimum(np.searchsorted(every, asked), max(len(every) - 1, 0))
        kept = asked[every[places] == asked] if len(every) else asked[:0]
        return kept[: self._limit]

    def selection(self) -> Selection:
        """The rows that match, whatever their order."""
        return Selection.joined(list(self._selections())) if self._limit is None else _as_selection(self.rows())

    def parts(self, most: int) -> Iterator[RowNumbers]:
        """The matching rows in parts of `most` rows (the last one shorter), found as they are requested."""
        if not self._is_plain:
            rows = np.asarray(self.rows(), dtype=np.int64)
            yield from (rows[first : first + most] for first in range(0, len(rows), most))
            return
        waiting: list[RowNumbers] = []
        n_waiting = 0
        for rows in self.windows():
            waiting.append(rows)
            n_waiting += len(rows)
            while n_waiting >= most:
                whole = np.concatenate(waiting)
                yield whole[:most]
                waiting, n_waiting = [whole[most:]], n_waiting - most
        if n_waiting:
            yield np.concatenate(waiting)

    def windows(self) -> Iterator[RowNumbers]:
        """The matching rows, one window at a time as they are found: most windows end at chunk boundaries."""
        if not self._is_plain:
            yield from self.parts(limits.now.most_window_rows)
            return
        left = self._limit
        for selection in self._selections() if left != 0 else ():
            rows = selection.rows() if left is None else selection.rows()[:left]
            yield rows
            left = None if left is None else left - len(rows)
            if left == 0:
                break


def stored_columns(readers: Iterable[ColumnReader]) -> dict[str, ColumnInfo]:
    """The columns that these readers read from the file, by name: for computed columns, what they are computed from."""
    stored = [source for reader in readers for source in (reader.sources or (reader,))]
    return {reader.column.name: reader.column for reader in stored}


def _as_selection(rows: Rows) -> Selection:
    if isinstance(rows, range):
        if rows.step == 1:
            return Selection.of(rows.start, rows.stop)
        rows = np.asarray(rows, dtype=np.int64)
    return Selection.from_rows(distinct(rows))
