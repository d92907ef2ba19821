"""The rows of a query in the order of keys: all of them, the first n, or batches of their columns.

| asked for | how |
| --- | --- |
| the first n of the table; all its rows in increasing order of one column | by a SORTED_ROWS index of the first key |
| the first n of the table | by a CHUNK_MINMAX index of the first key: the keys of the chunks that may have them |
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
from colonnade.indexes.base import BAD_INDEX, ChunkBounds, Index, asked
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
        best = _FirstRows(self.keys, limit)
        for rows in parts if limit else ():
            best.add(rows, self.key_arrays(rows))
        return best.row_numbers()

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
        bounded: tuple[ChunkBounds, IndexInfo] | None = None
        for opened in indexes:
            if opened.index is None or not opened.is_of(first) or why_not(opened, trust) is not None:
                continue
            try:
                bounds = opened.index.chunk_bounds()
                if bounds is not None:
                    bounded = bounds, opened.info  # asked if no index knows the order of rows
                    continue
                rows = opened.index.ordered_rows() if is_whole or limit is None else self._first_of(opened.index, limit)
            except BAD_INDEX:
                continue
            if rows is not None:
                return rows, opened.info
        rows = None if bounded is None or is_whole or limit is None else self._first_within(bounded[0], limit)
        return None if rows is None or bounded is None else (rows, bounded[1])

    def _first_of(self, index: Index, limit: int) -> RowNumbers | None:
        """The first rows, by an index of the first key."""
        reader = self.columns[0].reader
        steps = asked(index.first_rows(limit, self.keys[0].descending, len(self.keys) > 1, reader.is_open_to_rows))
        rows = answered(steps, {reader.column.name: reader}, {})
        if rows is None:
            return None
        rows = np.sort(rows)
        return rows[sorted_positions(self.key_arrays(rows), self.keys)[:limit]]

    def _first_within(self, bounds: ChunkBounds, limit: int) -> RowNumbers | None:
        """The first rows of the table: chunks with the best bounds are read, until no other can have one of them."""
        kind = self.columns[0].reader.kind
        is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
        if not is_number and not pa.types.is_temporal(kind):
            return None
        if bounds.n_values.sum() < limit or limit > limits.now.top_rows:
            return None  # NaN and missing rows are among them, which bounds do not tell
        descending, n_rows = self.keys[0].descending, self.columns[0].reader.column.n_rows
        bound = bounds.high if descending else bounds.low
        with_values = np.flatnonzero(bounds.n_values > 0)
        order = with_values[np.argsort(bound[with_values], kind="stable")]
        best = _FirstRows(self.keys, limit, in_order=False)
        for chunk in (order[::-1].tolist() if descending else order.tolist()) if limit else ():
            edge = None if best.edge is None else _as_key(best.edge)
            if edge is not None and (bound[chunk] < edge if descending else bound[chunk] > edge):
                break
            rows = range(chunk * bounds.chunk_rows, min((chunk + 1) * bounds.chunk_rows, n_rows))
            best.add(rows, self.key_arrays(rows))
            best.leave_out_others()
        return best.row_numbers()


class _FirstRows:
    """The first rows by their keys, of those that were added.

    in_order: rows are added in the order that those with equal keys are to have; otherwise these are in the order of
    their numbers.
    """

    def __init__(self, keys: tuple[SortKey, ...], limit: int, in_order: bool = True) -> None:
        self._keys, self._limit, self._in_order = keys, limit, in_order
        self._tables: list[pa.Table] = []
        self._n_rows = 0
        self._step = max(FEWEST_COMPARED, 4 * limit)
        self.edge: pa.Scalar | None = None  # the first key of the last of them, once there are enough

    def add(self, rows: Rows, keys: list[pa.Array]) -> None:
        """Take more rows and their keys."""
        start = 0
        while start < len(keys[0]):  # few rows at first: they give an edge that leaves out most of the others
            part = [key.slice(start, self._step) for key in keys]
            places = self._places_before(part[0])
            if len(places):
                named = {f"key {number}": key.take(pa.array(places)) for number, key in enumerate(part)}
                self._tables.append(pa.table({**named, ROW: _numbers_at(rows, start + places)}))
                self._n_rows += len(places)
            start += self._step
            if self._n_rows >= 4 * self._limit:
                self.leave_out_others()
                self._step = min(4 * self._step, MOST_COMPARED)

    def leave_out_others(self) -> None:
        """Keep the first rows only, if there are more."""
        if self._n_rows > self._limit:
            self._tables = [self._best()]
            self._n_rows, self.edge = self._limit, self._tables[0].column(0)[-1]

    def row_numbers(self) -> RowNumbers:
        """Their numbers, in order."""
        if not self._tables:
            return np.empty(0, dtype=np.int64)
        numbers: RowNumbers = self._best().column(ROW).to_numpy()
        return numbers

    def _places_before(self, key: pa.Array) -> RowNumbers:
        """The places where the first key is not after the edge: other rows are not among the first."""
        edge = self.edge
        if edge is None or not edge.is_valid or (pa.types.is_floating(edge.type) and np.isnan(edge.as_py())):
            return np.arange(len(key))
        descending, numbers = self._keys[0].descending, plain_numbers(key)
        if numbers is not None:
            value = edge.as_py()
            return np.flatnonzero(numbers >= value if descending else numbers <= value)
        compare = pc.greater_equal if descending else pc.less_equal
        places = pc.indices_nonzero(compare(key, edge))  # unknown, and so left out, for missing rows
        return np.asarray(places).astype(np.int64)

    def _best(self) -> pa.Table:
        whole = pa.concat_tables(self._tables).combine_chunks()
        if not self._in_order:
            whole = whole.take(pa.array(np.argsort(whole.column(ROW).to_numpy())))
        return whole.take(pa.array(sorted_positions(whole.columns[: len(self._keys)], self._keys)[: self._limit]))


def _as_key(value: pa.Scalar) -> float | int | None:
    """A value as indexes compare it; None for one that is not a number or a time."""
    kind = value.type
    if not value.is_valid or (pa.types.is_floating(kind) and np.isnan(value.as_py())):
        return None
    if pa.types.is_temporal(kind):
        return int(pa.array([value]).view(pa.int32() if kind.bit_width == 32 else pa.int64())[0].as_py())
    number: float | int = value.as_py()
    return number


def _numbers_at(rows: Rows, places: RowNumbers) -> RowNumbers:
    """The numbers of the rows at these places of a part."""
    if isinstance(rows, range):
        return rows.start + rows.step * places
    return np.asarray(np.asarray(rows, dtype=np.int64)[places])
