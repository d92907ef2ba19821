"""The rows of a query in the order of keys: all of them, the first n, or batches of their columns.

| asked for | how |
| --- | --- |
| the first n of the table; all its rows in increasing order of one column | by a SORTED_ROWS index of the first key |
| the first n | the keys of all rows are read in parts; only the n best are kept |
| all row numbers | keys and row numbers are sorted, in temporary files if they do not fit into memory |
| all rows as batches | the same with the columns of the result |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from colonnade import compute as pc
from colonnade import limits
from colonnade.columns.read import ColumnReader
from colonnade.dataclass import dataclass
from colonnade.indexes.base import BAD_INDEX, Index, asked
from colonnade.layouts.index_home import OpenIndex
from colonnade.model import IndexInfo
from colonnade.pager.receipts import Trust
from colonnade.query.match import answered
from colonnade.query.plan import why_not
from colonnade.query.scan import empty_columns, read_column, read_table
from colonnade.selection import RowNumbers, Rows
from colonnade.sorting.external import ExternalSort
from colonnade.sorting.keys import KeyColumn, SortKey, plain_numbers, sorted_positions

PAYS_FROM = 16  # rows of the table per row asked for: with fewer, an index of keys in disorder saves nothing
ROW = "row"
FEWEST_COMPARED, MOST_COMPARED = 1024, 1 << 18  # rows that are compared with the best ones at a time


@dataclass(frozen=True)
class Sorting:
    """Keys, and the readers of their columns."""

    keys: tuple[SortKey, ...]
    columns: tuple[KeyColumn, ...]

    @classmethod
    def of(cls, keys: tuple[SortKey, ...], readers: Sequence[ColumnReader]) -> Sorting:
        """Refuses columns without an order."""
        return cls(keys, tuple(map(KeyColumn, readers)))

    def key_arrays(self, rows: Rows) -> list[pa.Array]:
        """The keys of these rows."""
        return [column.keys(read_column(column.reader, rows)) for column in self.columns]

    def _named(self, rows: Rows) -> dict[str, pa.Array]:
        return {f"key {number}": array for number, array in enumerate(self.key_arrays(rows))}

    def row_numbers(self, parts: Iterable[Rows], limit: int | None) -> RowNumbers:
        """These rows in order, or the first of them."""
        if limit is not None and limit <= limits.now.top_rows:
            return self._first(parts, limit)
        with ExternalSort(self.keys) as order:
            for rows in parts:
                order.add(pa.table({**self._named(rows), ROW: np.asarray(rows, dtype=np.int64)}))
            left, numbers = limit, []
            for part in order.tables():
                numbers.append(part.column(ROW).to_numpy()[:left])
                left = None if left is None else left - len(numbers[-1])
                if left == 0:
                    break
        return np.concatenate(numbers) if numbers else np.empty(0, dtype=np.int64)

    def _first(self, parts: Iterable[Rows], limit: int) -> RowNumbers:
        """The first rows; keys are kept for at most a few times as many."""
        best: list[pa.Table] = []
        n_rows, edge = 0, None
        step = max(FEWEST_COMPARED, 4 * limit)
        for rows in parts if limit else ():
            keys = self.key_arrays(rows)
            start = 0
            while start < len(keys[0]):  # few rows at first: they give an edge that leaves out most of the others
                part = [key.slice(start, step) for key in keys]
                places = self._places_before(edge, part[0])
                named = {f"key {number}": key.take(pa.array(places)) for number, key in enumerate(part)}
                best.append(pa.table({**named, ROW: _numbers_at(rows, start + places)}))
                n_rows += len(places)
                start += step
                if n_rows >= 4 * limit:
                    best = [self._best(best, limit)]
                    n_rows, edge = limit, best[0].column(0)[-1]
                    step = min(4 * step, MOST_COMPARED)
        if not best:
            return np.empty(0, dtype=np.int64)
        numbers: RowNumbers = self._best(best, limit).column(ROW).to_numpy()
        return numbers

    def _places_before(self, edge: pa.Scalar | None, key: pa.Array) -> RowNumbers:
        """The places where the first key is not after `edge`: other rows are not among the first."""
        if edge is None or not edge.is_valid or (pa.types.is_floating(edge.type) and np.isnan(edge.as_py())):
            return np.arange(len(key))
        numbers = plain_numbers(key)
        if numbers is not None:
            value = edge.as_py()
            return np.flatnonzero(numbers >= value if self.keys[0].descending else numbers <= value)
        compare = pc.greater_equal if self.keys[0].descending else pc.less_equal
        places = pc.indices_nonzero(compare(key, edge))  # unknown, and so left out, for missing rows
        return np.asarray(places).astype(np.int64)

    def _best(self, tables: Sequence[pa.Table], limit: int) -> pa.Table:
        whole = pa.concat_tables(tables).combine_chunks()
        return whole.take(pa.array(sorted_positions(whole.columns[: len(self.keys)], self.keys)[:limit]))

    def batches(
        self, parts: Iterable[Rows], readers: Sequence[ColumnReader], schema: pa.Schema, most_rows: int
    ) -> Iterator[pa.RecordBatch]:
        """All columns of these rows in order, in batches of at most `most_rows` rows."""
        with ExternalSort(self.keys) as order:
            for rows in parts:
                columns = read_table(readers, rows, schema).columns
                named = {f"column {number}": column for number, column in enumerate(columns)}
                order.add(pa.table({**self._named(rows), **named}))
            for part in order.tables():
                arrays = part.columns[len(self.keys) :]
                whole = pa.Table.from_arrays(arrays, schema=schema) if arrays else empty_columns(part.num_rows)
                yield from whole.combine_chunks().to_batches(most_rows)

    # -- by an index --

    def by_index(
        self, indexes: Sequence[OpenIndex], trust: Trust, n_rows: int, limit: int | None
    ) -> tuple[RowNumbers, IndexInfo] | None:
        """All rows of the table in order, or the first of them, and the index that knows; None if none does."""
        first = self.columns[0].reader
        is_whole = limit is None or limit >= n_rows
        if first.is_coded or first.column.encoding is not None or first.is_decimal_text:
            return None  # its index has another order
        if is_whole and (len(self.keys) > 1 or self.keys[0].descending):
            return None
        if not is_whole and limit is not None and limit * PAYS_FROM > n_rows:
            return None
        for opened in indexes:
            if opened.index is None or not opened.is_of(first) or why_not(opened, trust) is not None:
                continue
            try:
                rows = opened.index.ordered_rows() if is_whole or limit is None else self._first_of(opened.index, limit)
            except BAD_INDEX:
                continue
            if rows is not None:
                return rows, opened.info
        return None

    def _first_of(self, index: Index, limit: int) -> RowNumbers | None:
        """The first rows, by an index of the first key."""
        reader = self.columns[0].reader
        steps = asked(index.first_rows(limit, self.keys[0].descending, len(self.keys) > 1, reader.is_open_to_rows))
        rows = answered(steps, {reader.column.name: reader}, {})
        if rows is None:
            return None
        rows = np.sort(rows)
        return rows[sorted_positions(self.key_arrays(rows), self.keys)[:limit]]


def _numbers_at(rows: Rows, places: RowNumbers) -> RowNumbers:
    """The numbers of the rows at these places of a part."""
    if isinstance(rows, range):
        return rows.start + rows.step * places
    return np.asarray(np.asarray(rows, dtype=np.int64)[places])
