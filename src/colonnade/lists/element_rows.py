"""Rows of elements: each row repeated for every element of its list in one column, which becomes the elements.

Where a row is among the rows of elements is computed from the lengths of the lists, for a block of rows at a time; what
is kept is where each block begins. Elements are read by their own numbers, so a list may be larger than memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from colonnade import compute as pc
from colonnade import limits
from colonnade.arrays import Booleans, Float64s, Int64s
from colonnade.columns.arrow_types import taken
from colonnade.columns.keys import Keys, Numbers
from colonnade.columns.missing import Mask
from colonnade.columns.read import ColumnReader, opaque
from colonnade.dataclass import replace
from colonnade.query.computed import ComputedDecoder, described_column
from colonnade.query.scan import read_column
from colonnade.selection import RowNumbers, Rows


class ElementPlaces(NamedTuple):
    """Where rows of elements come from: distinct rows in increasing order, and for each row of elements which of them
    it repeats, the number of its element, and whether there is none."""

    rows: RowNumbers
    places: Int64s
    elements: Int64s
    is_empty: Booleans


class RowsOfElements:
    """The rows of elements of some rows.

    lengths: a reader of the lengths of the lists. keeps_empty: whether a list without elements has one row.
    """

    def __init__(self, rows: Rows, lengths: ColumnReader, keeps_empty: bool) -> None:
        self._rows, self._lengths, self._least = rows, lengths, int(keeps_empty)
        self._block = limits.now.exploded_rows
        self._recent: tuple[int, Int64s] | None = None  # the lengths of the last block
        n_blocks = -(-len(rows) // self._block)
        counts = [int(np.maximum(self._lengths_of(block), self._least).sum()) for block in range(n_blocks)]
        self._starts = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
        self.n_rows = int(self._starts[-1])

    def _lengths_of(self, block: int) -> Int64s:
        """The lengths of the lists of a block; 0 for a missing list."""
        recent = self._recent
        if recent is not None and recent[0] == block:
            return recent[1]
        rows = self._rows[block * self._block : (block + 1) * self._block]
        known = read_column(self._lengths, rows).combine_chunks()
        lengths: Int64s = np.asarray(known.fill_null(0), dtype=np.int64)
        self._recent = block, lengths
        return lengths

    def row_numbers(self, rows: Rows) -> RowNumbers:
        """The row that each row of elements repeats, in any order."""
        asked, order = np.unique(np.asarray(rows, dtype=np.int64), return_inverse=True)
        located = self.locate(asked)
        numbers: RowNumbers = located.rows[located.places][order]
        return numbers

    def locate(self, rows: Rows) -> ElementPlaces:
        """Where these rows of elements come from, given in increasing order."""
        asked = np.asarray(rows, dtype=np.int64)
        blocks = np.searchsorted(self._starts, asked, side="right") - 1
        edges = np.flatnonzero(np.diff(blocks, prepend=-1, append=-1))
        positions, elements = np.empty_like(asked), np.empty_like(asked)
        is_empty = np.zeros(len(asked), dtype=bool)
        for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            block = int(blocks[first])
            lengths = self._lengths_of(block)
            ends = np.cumsum(np.maximum(lengths, self._least))
            local = asked[first:last] - self._starts[block]
            owners = np.searchsorted(ends, local, side="right")
            positions[first:last] = owners + block * self._block
            elements[first:last] = local - (ends[owners] - np.maximum(lengths[owners], self._least))
            is_empty[first:last] = lengths[owners] == 0
        numbers = _numbers_at(self._rows, positions)
        distinct, places = np.unique(numbers, return_inverse=True)
        return ElementPlaces(distinct, places.astype(np.int64), elements, is_empty)


def _numbers_at(rows: Rows, positions: Int64s) -> RowNumbers:
    numbers: RowNumbers = rows.start + positions * rows.step if isinstance(rows, range) else rows[positions]
    return numbers


class _LocatedFetcher:
    """Rows of elements, located; the decoder reads what they come from."""

    source = None

    def __init__(self, rows: RowsOfElements, reader: ColumnReader) -> None:
        self._rows, self._reader = rows, reader
        self.n_threads = reader.n_threads

    def fetch(self, start: int, count: int) -> ElementPlaces:
        return self._rows.locate(range(start, start + count))

    @contextmanager
    def by_library(self, start: int, count: int, step: int = 1) -> Iterator[ElementPlaces]:
        yield self._rows.locate(range(start, start + count * step, step))

    def take(self, rows: RowNumbers) -> ElementPlaces:
        return self._rows.locate(rows)

    def pieces(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        most = max(1, limits.now.piece_bytes // max(self._reader.column.type.size, 8))
        for first in range(start, stop, most):
            yield first, min(first + most, stop)

    def element_bytes(self, rows: Rows) -> Float64s:
        """The bytes that the elements of these rows take in memory, for a column of lists."""
        located = self._rows.locate(rows)
        lists = self._reader.lists
        assert lists is not None  # by the column's form
        n_bytes: Float64s = lists.element_bytes(located.rows)[located.places]
        return n_bytes

    @property
    def stored_bytes(self) -> int:
        return self._reader.stored_bytes

    def written_rows(self) -> int:
        return self._rows.n_rows


class _RepeatedDecoder:
    """The rows of another column, each as often as its list has elements."""

    def __init__(self, reader: ColumnReader) -> None:
        self._reader = reader

    def array(self, raw: ElementPlaces) -> pa.Array:
        return taken(self._reader.take(raw.rows), raw.places)

    def numbers(self, raw: ElementPlaces) -> tuple[Numbers, Mask | None]:
        values, missing = self._reader.take_numbers(raw.rows)
        return values[raw.places], None if missing is None else missing[raw.places]

    def keys(self, raw: ElementPlaces) -> Keys:
        return self._reader.take_keys(raw.rows).take(raw.places)

    def key_array(self, raw: ElementPlaces) -> pa.Array:
        return self.keys(raw).array

    def values(self, keys: Keys) -> pa.Array:
        return self._reader.values(keys)

    def part(self, raw: ElementPlaces, begin: int, end: int) -> ElementPlaces:
        return ElementPlaces(raw.rows, raw.places[begin:end], raw.elements[begin:end], raw.is_empty[begin:end])


class _ElementFetcher(_LocatedFetcher):
    """The elements of the lists themselves, as values."""

    def fetch(self, start: int, count: int) -> pa.Array:  # type: ignore[override]
        return self._values(super().fetch(start, count))

    @contextmanager
    def by_library(self, start: int, count: int, step: int = 1) -> Iterator[pa.Array]:  # type: ignore[override]
        yield self._values(self._rows.locate(range(start, start + count * step, step)))

    def take(self, rows: RowNumbers) -> pa.Array:  # type: ignore[override]
        return self._values(super().take(rows))

    def _values(self, located: ElementPlaces) -> pa.Array:
        has_element = ~located.is_empty
        places, within = located.places[has_element], located.elements[has_element]
        lists = self._reader.lists
        if lists is not None and not self._reader.sources:
            numbers = lists.take(located.rows).starts[places] + within
            read: ColumnReader | None = lists.elements
        else:
            values = self._reader.take(located.rows)
            numbers = _first_elements(values)[places] + within
            read, values = None, values.flatten()
        distinct, order = np.unique(numbers, return_inverse=True)
        values = values.take(pa.array(distinct)) if read is None else read.take(distinct)
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if len(distinct) == len(has_element) and (np.diff(numbers) > 0).all():
            return values
        chosen = np.zeros(len(has_element), dtype=np.int64)
        chosen[has_element] = order
        if has_element.all():
            return taken(values, chosen)
        return values.take(pa.array(chosen, mask=located.is_empty))


def _first_elements(lists: pa.Array) -> Int64s:
    """The number of each list's first element among the elements of all that are not missing."""
    if pa.types.is_fixed_size_list(lists.type):
        lengths = np.where(lists.is_null().to_numpy(zero_copy_only=False), 0, lists.type.list_size)
    else:
        known = pc.call_function("list_value_length", [lists])
        assert isinstance(known, pa.Array)  # as the lists are
        lengths = np.asarray(known.fill_null(0), dtype=np.int64)
    firsts: Int64s = np.cumsum(lengths) - lengths
    return firsts


def repeated_reader(rows: RowsOfElements, reader: ColumnReader) -> ColumnReader:
    """A column next to the elements: its rows, each repeated."""
    return reader.with_rows(rows.n_rows, opaque(_LocatedFetcher(rows, reader), _RepeatedDecoder(reader)))


def element_reader(rows: RowsOfElements, name: str, reader: ColumnReader) -> ColumnReader:
    """The column of the elements of a list column."""
    if reader.lists is not None and not reader.sources:
        reader.lists.elements.check_written(rows.n_rows)
    kind = reader.kind.value_type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    column = described_column(name, kind, rows.n_rows, reader.column.grid.chunk_rows)
    column = replace(column, description=reader.column.description, units=column.units or reader.column.units)
    opened = opaque(_ElementFetcher(rows, reader), ComputedDecoder(kind))
    return ColumnReader.computed(column, opened, reader.sources or (reader,))
