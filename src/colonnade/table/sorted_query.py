"""Queries whose rows are in the order of some columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from colonnade import limits
from colonnade.dataclass import replace
from colonnade.errors import UsageError
from colonnade.table.rows import TABLE_BATCH_ROWS, Query, rows_in

if TYPE_CHECKING:
    from colonnade.columns.read import ColumnReader
    from colonnade.model import IndexInfo
    from colonnade.predicate.expressions import Term
    from colonnade.predicate.tree import Predicate
    from colonnade.query.plan import Plan
    from colonnade.selection import RowNumbers, Rows, Selection
    from colonnade.sorting.keys import SortKey
    from colonnade.sorting.sort import Sorting


class SortedQuery(Query):
    """The rows of another query in the order of some columns, or the first of them; not read yet.

    >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
    >>> t = cn.open_table("run.h5", "events")
    >>> t.sort_by(("energy", "descending")).head(2).to_numpy()
    {'ts': array([2, 3]), 'energy': array([7., 6.])}
    """

    def __init__(self, unsorted: Query, keys: tuple[SortKey, ...], limit: int | None = None) -> None:
        super().__init__(unsorted._table, unsorted._names, None, None, limit, unsorted._computed)
        self._unsorted, self._keys = unsorted, keys

    def _with(
        self,
        names: tuple[str, ...] | None = None,
        rows: Rows | None = None,
        limit: int | None = None,
        computed: Mapping[str, Term] | None = None,
    ) -> Query:
        unsorted = self._unsorted._with(names, computed=computed)
        if rows is not None:
            return Query(self._table, unsorted._names, rows, computed=unsorted._computed)
        return SortedQuery(unsorted, self._keys, self._limit if limit is None else limit)

    def _narrowed(self, predicate: Predicate) -> Query:
        return SortedQuery(self._unsorted._narrowed(predicate), self._keys)  # without a limit: see `where`

    def _settled(self) -> Query:
        return Query(self._table, self._names, self._known_rows(), computed=self._computed)

    def _slice(self, item: slice) -> Query:
        if item.start in (None, 0) and item.step in (None, 1) and isinstance(item.stop, int) and item.stop >= 0:
            return self._with(limit=item.stop if self._limit is None else min(self._limit, item.stop))
        return super()._slice(item)

    def count(self) -> int:
        """The number of rows; they are not sorted for that."""
        n_rows = self._unsorted.count()
        return n_rows if self._limit is None else min(n_rows, self._limit)

    def _n_rows_text(self, n_shown: int) -> str:
        return self._unsorted._n_rows_text(n_shown)

    # -- the rows in order --

    def _sorting(self) -> Sorting:
        from colonnade.sorting.sort import Sorting

        return Sorting.of(self._keys, self._key_readers())

    def _key_readers(self) -> list[ColumnReader]:
        return [
            self._table._reader(key.column, dictionaries=True)
            if key.term is None
            else self._subject_reader(key.term, key.column)
            for key in self._keys
        ]

    def _known_rows(self) -> Rows:
        rows: Rows = self._table._file._consistent(lambda: self._by_index() or self._by_keys())[0]
        return rows

    def _by_keys(self) -> tuple[RowNumbers, None]:
        return self._sorting().row_numbers(self._parts([]), self._limit), None

    def _parts(self, names: Sequence[str]) -> Iterator[Rows]:
        """The rows that are to be sorted, in parts of which several fit into memory with these columns."""
        columns = [*map(self._column, names), *(reader.column for reader in self._key_readers())]
        return self._unsorted._row_parts(rows_in(limits.now.sorted_bytes // 4, columns))

    def _by_index(self) -> tuple[RowNumbers, IndexInfo] | None:
        unsorted, n_rows = self._unsorted, self._table.info.n_rows
        is_whole = unsorted._rows is None or (isinstance(unsorted._rows, range) and unsorted._rows == range(n_rows))
        if unsorted._predicate is not None or not is_whole:
            return None
        indexes = self._table._search_indexes()
        return self._sorting().by_index(indexes, self._table._file._trust, n_rows, self._limit)

    def _selection(self) -> Selection:
        from colonnade.selection import Selection

        if self._limit is None:
            return self._unsorted._selection()
        return Selection.from_rows(np.unique(self._known_rows()))

    def to_arrow(self, *, dictionaries: bool = False, views: bool = False) -> pa.Table:
        """All rows in order as a pyarrow.Table; the options are those of `Query.to_arrow`.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> cn.open_table("run.h5", "events").sort_by("energy").to_arrow().column("ts").to_pylist()
        [1, 3, 2]
        """
        if self._limit is not None or not self._names:
            return super().to_arrow(dictionaries=dictionaries, views=views)
        coded = dictionaries or views

        def read() -> pa.Table:  # the columns are sorted with their keys: cheaper than to read them in another order
            schema, readers = self._schema(coded), self._readers(coded)
            batches = self._sorting().batches(self._parts(self._names), readers, schema, TABLE_BATCH_ROWS)
            table = pa.Table.from_batches(batches, schema)
            return self._with_views(table, dictionaries) if views else table

        table: pa.Table = self._file._consistent(read)
        return table

    def batches(self, rows: int = TABLE_BATCH_ROWS, *, dictionaries: bool = False) -> Iterator[pa.RecordBatch]:
        """The rows in order as Arrow record batches of at most `rows` rows; the first one after all are sorted.

        Rows that do not fit into memory are sorted in temporary files, in the folder that TMPDIR names; they are
        removed with the iterator. dictionaries: strings stored as categories become Arrow dictionaries.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events")
        >>> [batch["ts"].to_pylist() for batch in t.sort_by("energy").batches(rows=2)]
        [[1, 3], [2]]
        """
        if not hasattr(rows, "__index__") or rows < 1:
            raise UsageError(f"a batch must have at least one row, not {rows!r}")
        if self._limit is not None and self._limit <= limits.now.top_rows:
            return super().batches(rows, dictionaries=dictionaries)

        def start() -> Iterator[pa.RecordBatch]:
            parts = self._parts(self._names)
            return self._sorting().batches(parts, self._readers(dictionaries), self._schema(dictionaries), rows)

        return _first_rows(self._file._unchanged(start), self._limit)

    def explain(self) -> Plan:
        """How the rows are found and sorted, and which chunks are read at most.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events", index={"ts": "sorted_rows"})
        >>> t = cn.open_table("run.h5", "events")
        >>> print(t.sort_by("ts").head(1).explain().sorted)
        by ts, the first 1
        """
        from colonnade.query.plan import IndexUsed

        first = "" if self._limit is None else f", the first {self._limit:,}"
        how = f"by {', '.join(map(str, self._keys))}{first}"
        first_rows = self._table._file._consistent(self._by_index)
        if first_rows is not None:
            rows, index = first_rows
            plan = Query(self._table, self._names, np.sort(rows), computed=self._computed).explain()
            used = [IndexUsed(index.column, index.kind, index.name, "the order", len(rows), exact=True)]
            return replace(plan, n_rows=self._table.info.n_rows, indexes_used=used, sorted=how)
        readers = [*self._readers(), *self._key_readers()]
        return replace(self._unsorted._plan(lambda: readers), sorted=how)

    def __repr__(self) -> str:
        first = "" if self._limit is None else f", the first {self._limit:,}"
        return f"{self._unsorted!r}\nsorted by {', '.join(map(str, self._keys))}{first}"

    def __reduce__(self) -> tuple[object, ...]:
        return SortedQuery, (self._unsorted, self._keys, self._limit)


def _first_rows(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """The batches up to a number of rows."""
    left = limit
    for batch in batches:
        yield batch if left is None else batch.slice(0, left)
        left = None if left is None else left - batch.num_rows
        if left is not None and left <= 0:
            return
