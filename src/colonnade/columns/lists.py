"""Columns of lists, read and written: a dataset of offsets, and the elements in a column of their own, of any form.

Row i holds the elements from offset i to offset i + 1. A dataset that is as long as the column lacks the first offset,
which is 0; one that is longer may have offsets after the last row, which mean nothing. Missing lists are marked by a
mask (`Masked(Lists(...))`). Strings are stored in the same way: their elements are bytes (`Lists(..., as_text=True)`).

Lists of one length may be the rows of an array of rank 2 or more: a row is all that the array has at one index of its
first dimension, with a fixed-size list for each further dimension.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from colonnade import limits
from colonnade.arrays import Float64s, Int64s, distinct
from colonnade.columns.arrow_types import plain_array
from colonnade.columns.decode import corrupt_row, decode
from colonnade.columns.keys import Keys, NumberKeys, Numbers
from colonnade.columns.mapping import plain_type
from colonnade.columns.missing import Mask
from colonnade.columns.raw import cut, refuse_unreadable, runs
from colonnade.errors import CorruptError, FormatError, UnsupportedError, UsageError
from colonnade.model import DEFAULT_CHUNK_ROWS, ColumnInfo, ColumnOptions, DatasetInfo, StoredType
from colonnade.nodes import Dataset, EditableGroup
from colonnade.nodes.arrays import read_part
from colonnade.nodes.elements import MOST_UNSTORED, claims_too_much, dataset_column
from colonnade.selection import RowNumbers, Rows
from colonnade.stored_dtypes import memory_dtype

if TYPE_CHECKING:
    from colonnade.columns.read import ColumnReader
    from colonnade.columns.writer import ColumnWriter, WrittenColumn

ListOffsets = Int64s
_MOST = 2**31 - 1  # the largest offset in an Arrow list array
_LAST_OFFSET = 2**63 - 1
_BYTES_OF_OFFSET = 4  # in an Arrow list array


class ListSpans(NamedTuple):
    """The first element of each list, and the one after its last."""

    starts: ListOffsets
    ends: ListOffsets


class KeylessDecoder:
    """What a decoder of lists cannot do: lists are neither compared nor summed."""

    def numbers(self, _raw: object) -> tuple[Numbers, Mask | None]:
        raise TypeError("lists have no numbers")

    def keys(self, _raw: object) -> Keys:
        raise TypeError("lists have no keys")

    def key_array(self, _raw: object) -> pa.Array:
        raise TypeError("lists have no keys")

    def values(self, _keys: Keys) -> pa.Array:
        raise TypeError("lists have no keys")


class ListsDecoder(KeylessDecoder):
    """Decodes offsets to lists of the elements between them."""

    def __init__(self, kind: pa.DataType, values: ColumnReader) -> None:
        self._kind, self._values = kind, values

    def array(self, raw: ListSpans) -> pa.Array:
        offsets, values = self._parts(raw)
        buffers = [None, pa.py_buffer(offsets)]
        return pa.Array.from_buffers(self._kind, len(offsets) - 1, buffers, children=[values])

    def _parts(self, raw: ListSpans) -> tuple[np.ndarray, pa.Array]:
        """The offsets of the lists as Arrow has them, and their elements."""
        check_spans(raw, self._values.column.n_rows)
        _refuse_unwritten(self._values, raw)
        lengths = raw.ends - raw.starts
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        total = int(offsets[-1])
        if total > _MOST:
            raise UsageError(f"these {len(lengths):,} lists have {total:,} elements: take fewer")
        try:
            if (raw.starts[1:] == raw.ends[:-1]).all():
                values = self._values.read(int(raw.starts[0]) if total else 0, total)
            else:
                values = self._values.take(np.arange(total) + np.repeat(raw.starts - offsets[:-1], lengths))
        except CorruptError as error:
            if error.column is None:  # the error's rows are elements, not rows of the column
                error.column = self._values.column.name
            raise
        return offsets.astype(np.int32), values

    def part(self, raw: ListSpans, begin: int, end: int) -> ListSpans:
        return ListSpans(raw.starts[begin:end], raw.ends[begin:end])


def check_spans(raw: ListSpans, n_values: int) -> None:
    """Raise a CorruptError unless the lists follow each other inside the values."""
    wrong = (raw.starts < 0) | (raw.ends < raw.starts) | (raw.ends > n_values)
    wrong[1:] |= raw.starts[1:] < raw.ends[:-1]
    if wrong.any():
        row = int(np.argmax(wrong))
        found = f"elements {raw.starts[row]} to {raw.ends[row]}"
        raise corrupt_row(row, f"increasing offsets of at most {n_values}", found)


class LengthsDecoder:
    """Decodes offsets to the numbers of elements between them, of which there are `n_values`."""

    def __init__(self, n_values: int) -> None:
        self._n_values = n_values

    def array(self, raw: ListSpans) -> pa.Array:
        return pa.array(self.numbers(raw)[0])

    def numbers(self, raw: ListSpans) -> tuple[Numbers, Mask | None]:
        check_spans(raw, self._n_values)
        return raw.ends - raw.starts, None

    def keys(self, raw: ListSpans) -> Keys:
        return NumberKeys(self.numbers(raw)[0], np.zeros(len(raw.starts), dtype=bool))

    def key_array(self, raw: ListSpans) -> pa.Array:
        return self.array(raw)

    def values(self, keys: Keys) -> pa.Array:
        return keys.array

    def part(self, raw: ListSpans, begin: int, end: int) -> ListSpans:
        return ListSpans(raw.starts[begin:end], raw.ends[begin:end])


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
            spans = self.fetch(first, last - first)
            flat = self._values.lists is None and bool((spans.ends >= spans.starts).all())
            pieces = self._flat_pieces(spans) if flat else runs(self._bytes_of(spans), limits.now.piece_bytes)
            for begin, end in pieces:
                yield first + begin, first + end

    def _flat_pieces(self, spans: ListSpans) -> Iterator[tuple[int, int]]:
        """Ranges of lists that are read together: the offsets tell how many elements they have."""
        most = max(1, limits.now.piece_bytes // max(self._values.column.type.size, 1))
        at, n_lists = 0, len(spans.ends)
        while at < n_lists:
            end = int(np.searchsorted(spans.ends, min(int(spans.starts[at]) + most, _LAST_OFFSET), "right"))
            end = min(max(at + 1, end), n_lists)
            yield at, end
            at = end

    def element_bytes(self, rows: Rows) -> Float64s:
        """The bytes that the elements of these rows take in memory, given increasing and distinct."""
        if isinstance(rows, range) and rows.step == 1:
            return self._bytes_of(self.fetch(rows.start, len(rows)))
        return self._bytes_of(self.take(np.asarray(rows)))

    @property
    def elements(self) -> ColumnReader:
        """The reader of the elements of all lists, one after the other."""
        return self._values

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


# -- Read the rows of an array of rank 2 or more --


_ELEMENTS = ("integer", "float", "boolean", "complex", "string", "text")
Slab = np.ndarray
"""Some rows of an array, as the array has them."""


def slab_type(info: DatasetInfo) -> StoredType | str:
    """The datatype of the rows of an array of rank 2 or more; a string that explains why it has none."""
    dims = (info.shape or ())[1:]
    if info.type.kind not in _ELEMENTS:
        return f"rows of {len(dims) + 1} dimensions of type {info.type} are not supported"
    if 0 in dims:
        return f"its rows have no elements (its shape is {info.shape})"
    n_bytes = info.type.size
    for length in dims:
        n_bytes *= length
    if n_bytes >= 1 << 31:
        return f"each of its rows has {n_bytes:,} bytes"
    return StoredType("array", n_bytes, "none", base=info.type, dims=dims)


class SlabFetcher:
    """Rows of an array of rank 2 or more."""

    source = None
    n_threads = 1

    def __init__(self, column: ColumnInfo, dataset: Dataset) -> None:
        self._column, self._dataset = column, dataset

    def fetch(self, start: int, count: int) -> Slab:
        return self._read(slice(start, start + count))

    @contextmanager
    def by_library(self, start: int, count: int, step: int = 1) -> Iterator[Slab]:
        yield self._read(slice(start, start + count * step, step))

    def take(self, _rows: RowNumbers) -> None:
        """None: scattered rows are read as ranges."""

    def pieces(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        return cut(start, stop, self._column.grid.chunk_rows, self._column.type)

    @property
    def stored_bytes(self) -> int:
        return self._dataset.stored_bytes()

    def written_rows(self) -> int:
        return self._dataset.written_rows()

    def _read(self, rows: slice) -> Slab:
        refuse_unreadable(self._column)
        return read_part(self._dataset, (rows,))


class SlabDecoder(KeylessDecoder):
    """Decodes rows of an array to fixed-size lists of its elements."""

    def __init__(self, column: ColumnInfo, kind: pa.DataType) -> None:
        self._stored, self._kind = column.type.item, kind
        self._dims = column.type.dims

    def array(self, raw: Slab) -> pa.Array:
        values, n_elements = raw.reshape(-1), int(np.prod(self._dims))
        try:
            items = self._items(values)
        except CorruptError as error:
            if error.row is not None:  # of an element
                error.row //= n_elements
            raise
        for length in reversed(self._dims):
            items = pa.FixedSizeListArray.from_arrays(items, length)
        return items.cast(self._kind) if items.type != self._kind else items

    def _items(self, values: np.ndarray) -> pa.Array:
        """The elements one after the other."""
        stored = self._stored
        if stored.kind == "text":
            try:
                return pa.array(values.tolist(), pa.string())
            except (UnicodeEncodeError, pa.ArrowException) as error:
                raise CorruptError(f"strings are not UTF-8: {error}") from error
        dtype = memory_dtype(stored)
        if stored.kind == "string" and stored.padding == "space":
            values = np.char.rstrip(values, b" ")
        kind = self._kind
        for _ in self._dims:
            kind = kind.value_type
        return decode(np.ascontiguousarray(values, dtype=dtype), stored, kind)

    def part(self, raw: Slab, begin: int, end: int) -> Slab:
        return raw[begin:end]


# -- Write a column of lists: offsets, elements, and a mask once a list is missing --


class EncodedLists(NamedTuple):
    """Lists as they are stored: the end of each, their elements, and which lists are missing (these are empty)."""

    ends: ListOffsets
    values: pa.Array
    missing: Mask | None


def encode_lists(array: pa.Array, n_before: int) -> EncodedLists:
    """Lists as stored after `n_before` elements."""
    missing: Mask = array.is_null().to_numpy(zero_copy_only=False)
    lengths = np.diff(np.asarray(array.offsets)).astype(np.int64)
    lengths[missing] = 0
    return EncodedLists(n_before + np.cumsum(lengths), array.flatten(), missing if missing.any() else None)


class WrittenLists(NamedTuple):
    """The parts of a column of lists that was written."""

    offsets: WrittenColumn
    values: WrittenColumn | WrittenLists
    mask: WrittenColumn | None


class ListsWriter:
    """Writes one column of lists into a group: `<name>` for the offsets, `<name>_values`, and perhaps `<name>_mask`."""

    def __init__(self, name: str, kind: pa.DataType, options: ColumnOptions) -> None:
        from colonnade.columns.writer import ColumnWriter  # which needs libhdf5; lists are read without

        self._new_column = ColumnWriter
        self.name, self._kind = name, plain_type(kind)
        self._options = ColumnOptions(fill=None, chunk_rows=options.chunk_rows, filters=options.filters)
        self._offsets: ColumnWriter = self._new_column(name, pa.int64(), self._options, is_companion=True)
        item = self._kind.value_type
        values = f"{name}_values"
        self._values: ListsWriter | ColumnWriter = (
            ListsWriter(values, item, options) if pa.types.is_list(item) else ColumnWriter(values, item, options)
        )
        self._mask: ColumnWriter | None = None
        self._n_rows = self._n_values = 0

    def start(self, group: EditableGroup, sample: pa.Array, n_rows: int | None, most_rows: int) -> None:
        """Create the datasets. The parameters are those of ColumnWriter.start."""
        self._group, self._most_rows = group, most_rows
        encoded = encode_lists(plain_array(sample, self._kind), 0)
        self._offsets.start(group, pa.array(encoded.ends), n_rows, most_rows)
        self._values.start(group, encoded.values, None, most_rows)

    def write(self, array: pa.Array) -> None:
        """Take the next rows."""
        encoded = encode_lists(plain_array(array, self._kind), self._n_values)
        if encoded.missing is not None and self._mask is None:
            self._start_mask()
        self._offsets.write(pa.array(encoded.ends))
        self._values.write(encoded.values)
        if self._mask is not None:
            self._mask.write(array.is_null())
        self._n_rows += len(array)
        self._n_values += len(encoded.values)

    def finish(self) -> WrittenLists:
        """Write what is left and return how the column is stored."""
        mask = None if self._mask is None else self._mask.finish()
        return WrittenLists(self._offsets.finish(), self._values.finish(), mask)

    def _start_mask(self) -> None:
        """Begin a mask; none of the rows so far is missing."""
        self._mask = self._new_column(f"{self.name}_mask", pa.bool_(), self._options, is_companion=True)
        self._mask.start(self._group, pa.array([], pa.bool_()), None, self._most_rows)
        for start in range(0, self._n_rows, DEFAULT_CHUNK_ROWS):
            self._mask.write(pa.array(np.zeros(min(DEFAULT_CHUNK_ROWS, self._n_rows - start), dtype=bool)))
