"""Columns of lists, read: a dataset of offsets, and the elements in a column of their own, of any form.

Row i holds the elements from offset i to offset i + 1. A dataset that is as long as the column lacks the first offset,
which is 0; one that is longer may have offsets after the last row, which mean nothing. Missing lists are marked by a
mask (`Masked(Lists(...))`). Strings are stored in the same way: their elements are bytes (`Lists(..., as_text=True)`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from colonnade import limits
from colonnade.arrays import Float64s, Int64s, distinct
from colonnade.columns.decode import corrupt_row
from colonnade.columns.keys import Keys, Numbers
from colonnade.columns.missing import Mask
from colonnade.columns.raw import cut, refuse_unreadable, runs
from colonnade.errors import CorruptError, FormatError, UnsupportedError, UsageError
from colonnade.model import ColumnInfo
from colonnade.nodes import Dataset
from colonnade.nodes.elements import MOST_UNSTORED, claims_too_much, dataset_column
from colonnade.selection import RowNumbers, Rows

if TYPE_CHECKING:
    from colonnade.columns.read import ColumnReader

ListOffsets = Int64s
_MOST = 2**31 - 1  # the largest offset in an Arrow list array
_BYTES_OF_OFFSET = 4  # in an Arrow list array


class ListSpans(NamedTuple):
    """The first element of each list, and the one after its last."""

    starts: ListOffsets
    ends: ListOffsets


class ListsDecoder:
    """Decodes offsets to lists of the elements between them."""

    def __init__(self, kind: pa.DataType, values: ColumnReader) -> None:
        self._kind, self._values = kind, values

    def array(self, raw: ListSpans) -> pa.Array:
        offsets, values = self._parts(raw)
        buffers = [None, pa.py_buffer(offsets)]
        return pa.Array.from_buffers(self._kind, len(offsets) - 1, buffers, children=[values])

    def _parts(self, raw: ListSpans) -> tuple[np.ndarray, pa.Array]:
        """The offsets of the lists as Arrow has them, and their elements."""
        self._check(raw)
        _refuse_unwritten(self._values, raw)
        lengths = raw.ends - raw.starts
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        total = int(offsets[-1])
        if total > _MOST:
            raise UsageError(f"these {len(lengths):,} lists have {total:,} elements: take fewer")
        if (raw.starts[1:] == raw.ends[:-1]).all():
            values = self._values.read(int(raw.starts[0]) if total else 0, total)
        else:
            values = self._values.take(np.arange(total) + np.repeat(raw.starts - offsets[:-1], lengths))
        return offsets.astype(np.int32), values

    def numbers(self, raw: ListSpans) -> tuple[Numbers, Mask | None]:
        raise TypeError("lists have no numbers")

    def keys(self, raw: ListSpans) -> Keys:
        raise TypeError("lists have no keys")

    def key_array(self, raw: ListSpans) -> pa.Array:
        raise TypeError("lists have no keys")

    def values(self, keys: Keys) -> pa.Array:
        raise TypeError("lists have no keys")

    def part(self, raw: ListSpans, begin: int, end: int) -> ListSpans:
        return ListSpans(raw.starts[begin:end], raw.ends[begin:end])

    def _check(self, raw: ListSpans) -> None:
        """Raise a CorruptError unless the lists follow each other inside the values."""
        n_values = self._values.column.n_rows
        wrong = (raw.starts < 0) | (raw.ends < raw.starts) | (raw.ends > n_values)
        wrong[1:] |= raw.starts[1:] < raw.ends[:-1]
        if wrong.any():
            row = int(np.argmax(wrong))
            found = f"elements {raw.starts[row]} to {raw.ends[row]}"
            raise corrupt_row(row, f"increasing offsets of at most {n_values}", found)


class TextsDecoder(ListsDecoder):
    """Decodes offsets to strings of the bytes between them."""

    def array(self, raw: ListSpans) -> pa.Array:
        offsets, values = self._parts(raw)
        data = values.buffers()[1]
        data = data.slice(values.offset, len(values)) if data is not None else pa.py_buffer(b"")
        array = pa.Array.from_buffers(self._kind, len(offsets) - 1, [None, pa.py_buffer(offsets), data])
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            raise self._not_text(array) from None
        return array

    def _not_text(self, array: pa.Array) -> CorruptError:
        """The error for the first string that is not UTF-8."""
        strings = array.view(pa.binary())
        for row, element in enumerate(strings):
            if not _is_text(element.as_py()):
                return corrupt_row(row, "a string in UTF-8", element.as_py())
        raise AssertionError("Arrow refused strings that Python decodes")


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _refuse_unwritten(values: ColumnReader, spans: ListSpans) -> None:
    """Refuse lists of many elements most of which were never written: a file of any size may claim any number."""
    claimed = int((spans.ends - spans.starts).astype(np.float64).sum()) * max(values.column.type.size, 1)
    if claimed > MOST_UNSTORED and claims_too_much(claimed, values.stored_bytes):
        name = values.column.name
        raise UnsupportedError(
            f"{name} claims {claimed:,} bytes, {values.stored_bytes:,} are stored: they are not read. Take fewer rows",
            feature="lists of which most was never written",
            column=name,
        )


class ListsFetcher:
    """Rows of offsets. A piece has only as many lists as hold a few MiB of elements."""

    source = None

    def __init__(self, column: ColumnInfo, offsets: ColumnReader, values: ColumnReader) -> None:
        self._column, self._offsets, self._values = column, offsets, values
        self._shift = offsets.column.n_rows - column.n_rows - 1  # from a row to the offset of its first element
        self.n_threads = offsets.n_threads

    def fetch(self, start: int, count: int) -> ListSpans:
        refuse_unreadable(self._column)
        first = start + self._shift
        offsets = self._offsets.numbers(max(first, 0), count + min(first, 0) + 1)[0].astype(np.int64)
        self._check_first(first, offsets)
        if first < 0:
            offsets = np.concatenate((np.zeros(1, dtype=np.int64), offsets))
        return ListSpans(offsets[:-1], offsets[1:])

    @contextmanager
    def by_library(self, start: int, count: int, step: int = 1) -> Iterator[ListSpans]:
        yield self.take(start + step * np.arange(count))

    def take(self, rows: RowNumbers) -> ListSpans:
        refuse_unreadable(self._column)
        first, last = rows + self._shift, rows + self._shift + 1
        needed = distinct(np.concatenate([first[first >= 0], last]))
        offsets = self._offsets.take_numbers(needed)[0].astype(np.int64)
        self._check_first(int(needed[0]) + min(self._shift, 0) if len(needed) else 1, offsets)
        starts = np.zeros(len(rows), dtype=np.int64)  # where the first offset is not stored, it is 0
        starts[first >= 0] = offsets[np.searchsorted(needed, first[first >= 0])]
        return ListSpans(starts, offsets[np.searchsorted(needed, last)])

    def _check_first(self, first: int, offsets: ListOffsets) -> None:
        """Refuse lists that do not begin at the first element: `offsets` begin at this position."""
        if first == 0 and self._shift == 0 and len(offsets) and offsets[0] != 0:
            raise corrupt_row(0, "a first offset of 0", int(offsets[0]))

    def pieces(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        for first, last in cut(start, stop, self._column.grid.chunk_rows, self._column.type):
            n_bytes = self._bytes_of(self.fetch(first, last - first))
            for begin, end in runs(n_bytes, limits.now.piece_bytes):
                yield first + begin, first + end

    def element_bytes(self, rows: Rows) -> Float64s:
        """The bytes that the elements of these rows take in memory, given increasing and distinct."""
        if isinstance(rows, range) and rows.step == 1:
            return self._bytes_of(self.fetch(rows.start, len(rows)))
        return self._bytes_of(self.take(np.asarray(rows)))

    def _bytes_of(self, spans: ListSpans) -> Float64s:
        """The bytes that the elements of each list take in memory, also of lists inside them; wrong offsets count as
        they are."""
        lengths = np.maximum(spans.ends - spans.starts, 0).astype(np.float64)
        inside = self._values.lists
        size = self._values.column.type.size if inside is None else _BYTES_OF_OFFSET
        n_bytes: Float64s = lengths * size
        return n_bytes if inside is None else n_bytes + inside.bytes_between(spans)

    def bytes_between(self, outer: ListSpans) -> Float64s:
        """The bytes that the lists in each of these ranges of rows take; 0 for ranges that are not of this column."""
        n_bytes: Float64s = np.zeros(len(outer.starts))
        last = self._column.n_rows
        good = np.flatnonzero((outer.starts >= 0) & (outer.ends > outer.starts) & (outer.ends <= last))
        if not len(good):
            return n_bytes
        firsts = self._first_elements(outer.starts[good])
        n_bytes[good] = self._bytes_of(ListSpans(firsts, self._first_elements(outer.ends[good])))
        return n_bytes

    def _first_elements(self, rows: RowNumbers) -> ListOffsets:
        """The first element of these lists, in any order; of the list after the last one, where that one ends."""
        at = rows + self._shift
        needed = distinct(at[at >= 0])
        firsts = np.zeros(len(rows), dtype=np.int64)
        if len(needed):
            offsets = self._offsets.take_numbers(needed)[0].astype(np.int64)
            firsts[at >= 0] = offsets[np.searchsorted(needed, at[at >= 0])]
        return firsts

    @property
    def stored_bytes(self) -> int:
        return self._offsets.stored_bytes + self._values.stored_bytes

    def written_rows(self) -> int:
        return self._offsets.written_rows()


def offsets_column(column: ColumnInfo, dataset: Dataset) -> ColumnInfo:
    """The offsets of a column of lists as a column."""
    info, name = dataset.describe(), column.name
    n_offsets = info.shape[0] if info.shape is not None and len(info.shape) == 1 else -1
    if info.type.kind != "integer" or n_offsets < column.n_rows:
        raise FormatError(f"column {name!r} has no offsets of its {column.n_rows} lists", column=name)
    return dataset_column(f"{name} (offsets)", info, min(n_offsets, column.n_rows + 1))
