"""Rows written and cut: chunks are filtered here, and stored so that what libhdf5 remembers of them is never wrong.

HDF5 (1.10 to 2.0) remembers, for every open dataset, the chunk that it looked up last: its address, its size and the
filters that it skipped. `H5Dwrite_chunk` updates the first two and keeps the old filter mask, and it stores a new
mask in the chunk map only when the size of the chunk changes as well. The library would then read, cut or rewrite
filtered bytes as if they were rows. All handles of a dataset share this memory, those of the user too.

So this module is the only place that writes a chunk of a filtered dataset or cuts such a dataset. Where a chunk changes
its mask, the new mask is forced into the chunk map, and the library is made to forget the chunk. It forgets when it
looks up another chunk; a dataset that is shorter than one chunk has no other, so its chunk must not skip a filter.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
from h5py import h5d, h5s, h5t
from h5py._objects import phil

from colonnade import limits
from colonnade.arrays import Image
from colonnade.dataclass import dataclass, replace
from colonnade.errors import UnsupportedError
from colonnade.filters.apply import Habit, Packer
from colonnade.filters.codecs import Data
from colonnade.filters.undo import Pipeline
from colonnade.h5 import capi
from colonnade.h5.chunks import open_source
from colonnade.h5.datasets import describe_dataset, read_fill, reading, unreadable_rows
from colonnade.h5.datatypes import describe_type, memory_type
from colonnade.h5.filters import describe_filters, may_skip
from colonnade.h5.outside import check_rows
from colonnade.h5.vetting import creation_of, has_lost_fill, size_in_file
from colonnade.model import ColumnInfo, StoredType
from colonnade.nodes import DatasetHandle
from colonnade.nodes.chunk_source import ChunkSource, by_chunk
from colonnade.nodes.damage import hdf5_errors
from colonnade.nodes.elements import is_shown_as_stored
from colonnade.selection import RowNumbers, Selection
from colonnade.stored_dtypes import memory_dtype, raw_dtype
from colonnade.threads import begin

if TYPE_CHECKING:
    from concurrent.futures import Future

SMALL_CHUNK = 256 << 10  # bytes of a chunk: to hand it to another thread costs more than it spares


class CannotSkipFilter(Exception):
    """The only chunk of a dataset, which its rows do not fill, would have to be stored without one of its filters."""


@dataclass(frozen=True, slots=True)
class Held:
    """A chunk that is in the file: its size there, and the filters that it skipped."""

    size: int
    mask: int


def find_chunk(dataset: DatasetHandle, first: int) -> Held | None:
    """The chunk that begins with this row, by the chunk map and not by the library's memory; looks at every chunk."""
    found = dataset.get_chunk_info_by_coord((first,))
    return None if found.byte_offset is None else Held(found.size, found.filter_mask)


def find_replaced(dataset: DatasetHandle, first: int) -> Held | None:
    """The same of a chunk that is to be replaced whole: quicker where there is none, which is so mostly."""
    return find_chunk(dataset, first) if capi.chunk_size(dataset, first) else None


def write_chunk(dataset: DatasetHandle, chunk_rows: int, first: int, data: Data, mask: int, held: Held | None) -> None:
    """Store a chunk as it is; `held` is the result of `find_chunk`, or of `find_replaced`."""
    if mask == (0 if held is None else held.mask):
        capi.write_stored_chunk(dataset, (first,), data, mask)
        return
    n_rows = int(dataset.shape[0])
    if n_rows > chunk_rows:
        _replace(dataset, first, data, mask, held)
        forget_chunk(dataset, chunk_rows, first)
    elif not mask:
        remove_chunks(dataset, 0, n_rows)
        capi.write_stored_chunk(dataset, (first,), data)
    elif n_rows == chunk_rows and can_grow(dataset):
        dataset.set_extent((n_rows + 1,))
        _replace(dataset, first, data, mask, held)
        dataset.set_extent((n_rows,))  # removes no chunk that is there, but the library forgets all of them
    else:
        raise CannotSkipFilter


@contextmanager
def keeping_mask(dataset: DatasetHandle, first: int) -> Iterator[None]:
    """Here the library itself writes into the chunk that begins with this row, with filters that it may skip.

    It remembers then which ones it has skipped; but if the chunk keeps its size, it leaves the chunk map as it is.
    """
    with phil:  # no thread may have it look up another chunk meanwhile
        size = capi.chunk_size(dataset, first)
        yield
        if not size:
            return
        mask, data = capi.read_stored_chunk(dataset, (first,))
        held = find_chunk(dataset, first) if len(data) == size else None
        if held is not None and held.mask != mask:
            _replace(dataset, first, data, mask, held)


def forget_chunk(dataset: DatasetHandle, chunk_rows: int, first: int) -> None:
    """Make the library forget the chunk that begins with this row, by asking for another; there must be another."""
    try:
        capi.read_stored_chunk(dataset, (first - chunk_rows if first else chunk_rows,))
    except hdf5_errors(MemoryError):
        pass  # that it is looked up is all that is wanted


def _replace(dataset: DatasetHandle, first: int, data: Data, mask: int, held: Held | None) -> None:
    """Store a chunk that has another mask than the one it replaces."""
    if held is not None and held.size == len(data):  # then the library would leave the chunk map as it is
        capi.write_stored_chunk(dataset, (first,), bytes(data) + b"\0", mask)
    capi.write_stored_chunk(dataset, (first,), data, mask)


def cut_rows(dataset: DatasetHandle, chunk_rows: int, n_rows: int, edge: Data, mask: int) -> None:
    """Keep the first rows only. `edge` is what the last chunk then holds, which the rows do not fill.

    The library itself would unpack that chunk, put the fill after the last row, and filter it again.
    """
    if mask and n_rows < chunk_rows:
        raise CannotSkipFilter
    first = n_rows // chunk_rows * chunk_rows
    remove_chunks(dataset, first, n_rows)
    write_chunk(dataset, chunk_rows, first, edge, mask, None)


def remove_chunks(dataset: DatasetHandle, first: int, n_rows: int) -> None:
    """Remove the chunks from row `first` on, and say that there are `n_rows`: the library forgets all chunks then."""
    dataset.set_extent((first,))
    dataset.set_extent((n_rows,))


def can_grow(dataset: DatasetHandle) -> bool:
    """Whether a dataset can be made longer without end, in every dimension."""
    if not _has_no_limit(dataset) or has_lost_fill(dataset):
        return False
    return bool(creation_of(dataset).get_layout() == h5d.CHUNKED)


def can_column_grow(column: ColumnInfo, dataset: DatasetHandle) -> bool:
    """Whether the dataset of a column can be made longer without end; asks only for what its description lacks."""
    if column.storage != "chunked" or not _has_no_limit(dataset):
        return False
    return not (column.type.has_pointers and has_lost_fill(dataset))


def _has_no_limit(dataset: DatasetHandle) -> bool:
    space = dataset.get_space()
    limits = space.get_simple_extent_dims(maxdims=True) if space.get_simple_extent_type() == h5s.SIMPLE else ()
    return bool(limits) and all(limit == h5s.UNLIMITED for limit in limits)


class RowSink:
    """A dataset that rows are written to, as long as it is open.

    Whole chunks are filtered here, by several threads, and go to the file as they are. `write` may be ahead of the
    file: `drain` catches up.
    """

    def __init__(self, dataset: DatasetHandle, stored: StoredType, n_threads: int = 1) -> None:
        creation = check_rows(dataset, stored)
        self._stored = stored
        self._filters = filters = describe_filters(creation)
        self._dataset = dataset
        self._n_threads = n_threads
        self._waiting: deque[tuple[int, Held | None, Future[tuple[Data, int]]]] = deque()
        self._packer = Packer(filters)
        self._habit = Habit()
        self._dtype = raw_dtype(replace(stored, padding="null") if stored.padding == "terminated" else stored)
        direct = creation.get_layout() == h5d.CHUNKED and self._dtype is not None and self._packer.is_known
        self._chunk_rows = creation.get_chunk()[0] if direct and not capi.skips_partial_chunks(creation) else 0
        # Parts of chunks as well: the library is slower, and would write chunks of scale-offset that it cannot read.
        self._packs = bool(self._chunk_rows) and not self._packer.is_empty
        chunk_rows = creation.get_chunk()[0] if creation.get_layout() == h5d.CHUNKED else 0
        self._pipeline = Pipeline(filters, chunk_rows * (self._dtype.itemsize if self._dtype is not None else 0))
        # Of chunks that the library filters with what it may skip; 0 if there are none.
        self._skipping_rows = chunk_rows if not self._packs and may_skip(filters) else 0

    def write(self, start: int, image: Image, count: int) -> None:
        """Take `count` elements in memory form, from row `start` on; the dataset is long enough."""
        at = 0
        while at < count:
            step = min(self._chunk_rows - (start + at) % self._chunk_rows, count - at) if self._chunk_rows else count
            part = image[at : at + step]
            if step == self._chunk_rows:
                self._send(start + at, part)
            elif self._packs:
                self._change(start + at, slice(0, step), part)
            else:
                self._write_by_library(start + at, part)
            at += step

    def write_at(self, rows: RowNumbers, image: Image) -> None:
        """Put elements into these rows, which increase."""
        if self._packs:
            for _, begin, end in by_chunk(rows, self._chunk_rows):
                self._change(int(rows[begin]), rows[begin:end] - rows[begin], image[begin:end])
            return
        for _, begin, end in by_chunk(rows, self._chunk_rows) if self._chunk_rows else [(0, 0, len(rows))]:
            self._write_runs(rows[begin:end], image[begin:end])

    def _write_runs(self, rows: RowNumbers, image: Image) -> None:
        """Put elements into these rows, run by run; a chunk that is not filtered is written as a whole if it has many
        runs."""
        edges = [0, *(np.flatnonzero(np.diff(rows) != 1) + 1).tolist(), len(rows)]
        if self._chunk_rows and len(edges) > limits.now.runs_per_chunk:
            first = int(rows[0]) // self._chunk_rows * self._chunk_rows
            whole = self._loaded(first, self._dataset.shape[0], find_replaced(self._dataset, first), image.dtype)
            whole[rows - first] = image
            self._send(first, whole)
            return
        for low, high in itertools.pairwise(edges):
            self.write(int(rows[low]) if high > low else 0, image[low:high], high - low)

    def _send(self, start: int, image: Image) -> None:
        """A whole chunk."""
        if self._packer.is_empty:
            capi.write_stored_chunk(self._dataset, (start,), self._as_stored(image))
            return
        if any(start == other for other, _, _ in self._waiting):
            self.drain()
        self._pack(start, self._as_stored(image), find_replaced(self._dataset, start))

    def _as_stored(self, image: Image) -> Data:
        """The bytes of a chunk before it is filtered."""
        return np.ascontiguousarray(image).astype(self._dtype, copy=False).view(np.uint8)

    def _pack(self, start: int, data: Data, held: Held | None) -> None:
        """A chunk to be filtered, and what is in its place now."""
        if self._packer.deflates_quickly and self._habit.is_due():  # in the order of the chunks, whatever threads do
            packed, self._habit.runs = self._packer.pack_either(data)
            self.drain()
            write_chunk(self._dataset, self._chunk_rows, start, *packed, held)
            return
        n_threads = self._n_threads if len(data) >= SMALL_CHUNK else 1
        self._waiting.append((start, held, begin(partial(self._packer.pack, data, self._habit.runs), n_threads)))
        while len(self._waiting) > 2 * self._n_threads:
            self._put(*self._waiting.popleft())

    def drain(self) -> None:
        """Put everything that was written into the file."""
        while self._waiting:
            self._put(*self._waiting.popleft())

    def _put(self, start: int, held: Held | None, packed: Future[tuple[Data, int]]) -> None:
        write_chunk(self._dataset, self._chunk_rows, start, *packed.result(), held)

    def _change(self, start: int, places: slice | RowNumbers, image: Image) -> None:
        """Some rows of a chunk, counted from `start`; the others stay."""
        self.drain()
        first = start // self._chunk_rows * self._chunk_rows
        held = find_replaced(self._dataset, first)
        n_rows = self._dataset.shape[0]
        whole = self._loaded(first, n_rows, held, image.dtype)
        whole[start - first :][places] = image
        self._pack(first, self._as_stored(whole), held)
        if n_rows < self._chunk_rows:
            self.drain()  # the only chunk: whether it must be copied into another dataset is to be known now

    def close_gaps(self, removed: Selection, n_rows: int) -> None:
        """Move the rows after removed ones up, as they are stored. The rows at the end are still to be cut off."""
        if is_shown_as_stored(self._stored):
            raise UnsupportedError(
                f"cannot remove rows: elements of type {self._stored} cannot be moved. Drop the column first",
                feature=str(self._stored),
            )
        at = int(removed.starts[0])
        parts: list[Image] = []  # that do not fill a chunk yet
        for part in self._kept(removed, n_rows):
            parts.append(part)
            n_waiting = sum(map(len, parts))
            edge = (at + n_waiting) // self._chunk_rows * self._chunk_rows if self._chunk_rows else at + n_waiting
            if edge > at:
                image = (
                    np.concatenate(parts) if len(parts) > 1 else part
                )  # pointers in it are valid only until the next
                self.write(at, image, edge - at)
                parts, at = [image[edge - at :]], edge
        rest = np.concatenate(parts) if parts else np.empty(0)
        self.write(at, rest, len(rest))
        self.drain()

    def _kept(self, removed: Selection, n_rows: int) -> Iterator[Image]:
        """The rows that are not removed, from the first removed one on, a few MiB at a time."""
        first, chunk_rows = int(removed.starts[0]), max(self._chunk_rows, 1)
        most = max(1, limits.now.piece_bytes // self._stored.size)
        step = most // chunk_rows * chunk_rows or most
        dtype, info = memory_dtype(self._stored), describe_dataset(self._dataset)
        for start in range(first // step * step, n_rows, step):
            left = removed.complement(max(start, first), min(start + step, n_rows))
            if not left:
                continue
            low, count = int(left.starts[0]), left.span
            places = None if left.count == count else left.rows() - low
            image = self.read(low, count, dtype)
            if image is not None:
                yield image if places is None else image[places]
                continue
            self.drain()
            with reading(self._dataset, info, low, count) as image:
                yield image if places is None else image[places]

    def cut(self, n_rows: int) -> None:
        """Keep the first rows only."""
        self.drain()
        if self._skipping_rows:
            self._cut_by_library(n_rows)
            return
        count = n_rows % self._chunk_rows if self._packs else 0
        held = find_chunk(self._dataset, n_rows - count) if count else None
        if held is None:
            self._dataset.set_extent((n_rows,))
            return
        assert self._dtype is not None  # parts are packed here only if it is known
        edge = self._loaded(n_rows - count, n_rows, held, self._dtype.newbyteorder("="))
        cut_rows(self._dataset, self._chunk_rows, n_rows, *self._packer.pack(self._as_stored(edge)))

    def _loaded(self, first: int, n_rows: int, held: Held | None, dtype: np.dtype) -> Image:
        """The chunk that begins with row `first`, in memory form; after the last row it holds the fill."""
        whole = self._unwritten(dtype)
        count = min(self._chunk_rows, n_rows - first)
        if held is not None:
            whole[:count] = self._unpacked(first, held)[:count]
        return whole

    def read(self, start: int, count: int, dtype: np.dtype) -> Image | None:
        """Rows that are in the file, in memory form; None where the library is to read them."""
        if not self._packs:
            return None
        self.drain()
        known: dict[int, Held] = {}
        self._dataset.chunk_iter(lambda info: known.update({info.chunk_offset[0]: Held(info.size, info.filter_mask)}))
        begin = start // self._chunk_rows * self._chunk_rows
        parts = [
            self._unpacked(first, known[first]).astype(dtype, copy=False) if first in known else self._unwritten(dtype)
            for first in range(begin, start + count, self._chunk_rows)
        ]
        return np.concatenate(parts)[start - begin :][:count] if parts else np.empty(0, dtype=dtype)

    def _unwritten(self, dtype: np.dtype) -> Image:
        """A chunk that holds nothing yet, in memory form."""
        whole = np.zeros(self._chunk_rows, dtype=dtype)
        if self._fill is not None:
            whole[...] = np.frombuffer(self._fill, dtype=dtype)[0]
        return whole

    @cached_property
    def _fill(self) -> bytes | None:
        """The value of rows that were not written."""
        return read_fill(creation_of(self._dataset), self._dataset.get_type(), self._stored)

    def _unpacked(self, first: int, held: Held) -> Image:
        """The elements of a chunk that is in the file."""
        assert self._dtype is not None  # parts are packed here only if it is known
        found = np.empty(self._chunk_rows, dtype=self._dtype)
        try:
            self._pipeline.check_size(held.size)
            _, data = capi.read_stored_chunk(self._dataset, (first,))
            self._pipeline.undo(data, held.mask, found.view(np.uint8))
        except hdf5_errors(MemoryError) as error:  # a damaged chunk map may claim any size
            last = first + self._chunk_rows - 1
            raise unreadable_rows(error, self._dataset, self._filters, first, last) from error
        return found

    def _write_by_library(self, start: int, image: Image) -> None:
        self.drain()
        self._check_chunk(start)
        if not self._skipping_rows:
            self._store(start, image)
            return
        for number, begin_, end in by_chunk(np.arange(start, start + len(image)), self._skipping_rows):
            with keeping_mask(self._dataset, number * self._skipping_rows):
                self._store(start + begin_, image[begin_:end])

    def _cut_by_library(self, n_rows: int) -> None:
        """Keep the first rows only; the last of them go into a new chunk, since the library would keep its old mask."""
        first = n_rows // self._skipping_rows * self._skipping_rows
        if first == n_rows or not capi.chunk_size(self._dataset, first):
            self._dataset.set_extent((n_rows,))
            return
        self._check_chunk(first + 1)
        with reading(self._dataset, describe_dataset(self._dataset), first, n_rows - first) as rows:
            remove_chunks(self._dataset, first, n_rows)
            self._store(first, rows)

    def _store(self, start: int, image: Image) -> None:
        """Have the library write rows."""
        image = np.ascontiguousarray(image)
        file_space = self._dataset.get_space()
        file_space.select_hyperslab((start,), (len(image),))
        in_memory = h5s.create_simple((len(image),))
        capi.write(self._dataset, self._memory_type, in_memory, file_space, image.ctypes.data)

    @cached_property
    def _memory_type(self) -> h5t.TypeID:
        return memory_type(self._dataset.get_type(), self._stored, writing=True)

    def _check_chunk(self, row: int) -> None:
        """Refuse to write into a chunk that does not unpack to its length: libhdf5 would write after its end."""
        source = None if self._packer.is_empty else self._old_rows()
        if source is not None and row % source.chunk_rows:
            source.read(row // source.chunk_rows * source.chunk_rows, 1)

    def _old_rows(self) -> ChunkSource | None:
        """The rows that are there, as bytes; None where their width in the file is not known."""
        if self._stored.has_pointers and self._stored.kind not in ("text", "binary", "sequence"):
            return None
        width = size_in_file(self._dataset, self._stored)
        filters = describe_filters(creation_of(self._dataset))
        return open_source(self._dataset, np.dtype((np.void, width)), filters)


def write_rows(dataset: DatasetHandle, stored: StoredType, start: int, image: Image, count: int) -> None:
    """Write `count` elements in memory form from row `start` on; the dataset is long enough."""
    if count:
        sink = RowSink(dataset, stored)
        sink.write(start, image, count)
        sink.drain()


def resize(dataset: DatasetHandle, n_rows: int) -> None:
    """Set the number of rows of a chunked dataset; CannotSkipFilter where it must be copied for that."""
    if n_rows < dataset.shape[0] and dataset.get_create_plist().get_nfilters():
        RowSink(dataset, describe_type(dataset.get_type())).cut(n_rows)
    else:
        dataset.set_extent((n_rows,))
