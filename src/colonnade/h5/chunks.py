"""Rows of a dataset, read past the HDF5 library.

libhdf5 is asked where the chunks are (`LibraryChunkMap`), a `ReadPlan` is made of that, and a `ChunkReader` runs it:
the bytes come straight from the file, and filters are undone outside libhdf5's lock, so that threads can read at the
same time. Only elements that lie in the file as they do in memory, up to their byte order, are read so. Whatever is not
plain is left to the library: None is given back, and the caller asks it. A chunk that cannot be unpacked is not: the
library does not check whether a chunk unpacks to the bytes it must have, and reads and writes after the end of one
that is shorter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import NamedTuple, Protocol

import numpy as np
from h5py import h5d, h5f, h5i
from h5py.h5d import StoreInfo
from h5py.h5f import FileID

from colonnade.errors import CorruptError
from colonnade.filters.chunk_reader import ChunkReader, DamagedChunk
from colonnade.filters.codecs import ByteBuffer
from colonnade.filters.read_plan import (
    MOST_AT_ONCE,
    ChunkForm,
    Located,
    ReadPlan,
    few_of_each_chunk,
    plan_range,
    plan_rows,
    plan_singles,
)
from colonnade.filters.undo import Pipeline
from colonnade.h5 import capi
from colonnade.h5.damage import hdf5_errors
from colonnade.h5.vetting import FARTHEST, creation_of, source_of
from colonnade.model import DEFAULT_CHUNK_ROWS, FilterInfo
from colonnade.nodes import Dataset
from colonnade.pager.sources import JournaledBytes, LocalBytes
from colonnade.selection import RowNumbers

_FEW_CHUNKS = 16
_LAST_ROW = (1 << 63) - 1


def by_chunk(rows: RowNumbers, chunk_rows: int) -> Iterator[tuple[int, int, int]]:
    """Of each chunk that holds some of these rows, which increase: its number, and from where to where they are."""
    at, n_rows = 0, len(rows)
    while at < n_rows:
        number = int(rows[at]) // chunk_rows
        last = min((number + 1) * chunk_rows - 1, _LAST_ROW)
        end = at + int(np.searchsorted(rows[at : at + chunk_rows], last, "right"))
        yield number, at, end
        at = end


class ChunkLocator(Protocol):
    """Where the chunks of a dataset are, as of now. Safe to be used by several threads."""

    def located(self, numbers: range | RowNumbers, n_wanted: int) -> Located:
        """The chunks of these numbers, of which `n_wanted` are distinct; those of a range that were never written are
        left out where that is known. A ValueError if the library must read them."""

    def fill(self) -> bytes:
        """The element, as stored, of rows that were never written. A ValueError if only the library knows it."""


class _Place(NamedTuple):
    """Where a chunk is: its address and size in the file, and the filters it has skipped."""

    address: int
    size: int
    mask: int


class LibraryChunkMap:
    """The chunk map as libhdf5 reports it: chunk by chunk, or as a whole where many are wanted.

    `frozen`: nobody writes to the file as long as it is open, so that chunks stay where they are.
    """

    def __init__(self, dataset: Dataset, form: ChunkForm, frozen: bool) -> None:
        self._dataset = dataset
        self._form = form
        self._frozen = frozen
        self._forget()

    def _forget(self) -> None:
        self._known: dict[int, _Place] = {}
        self._all_known = False
        self._has_gaps = False  # chunks that were never written, as far as that is known
        self._whole: Located | None = None  # all chunks, where they are known and none is out of the ordinary
        self._n_asked = 0

    def located(self, numbers: range | RowNumbers, n_wanted: int) -> Located:
        self._look(n_wanted)
        whole = self._whole
        if whole is None:
            return self._listed(numbers)
        if isinstance(numbers, range):
            some = slice(numbers.start, numbers.stop)
            if numbers and numbers.stop > len(whole.sizes):
                raise ValueError("there are fewer chunks")
            return Located(numbers, whole.addresses[some], whole.sizes[some])
        if len(numbers) and int(numbers.max()) >= len(whole.sizes):
            raise ValueError("there are fewer chunks")
        return Located(numbers, whole.addresses[numbers], whole.sizes[numbers])

    def _look(self, n_wanted: int) -> None:
        """Make sure that what is known is still true, and learn of all chunks where many are wanted."""
        _check_open(self._dataset)
        if not self._frozen:
            h5f.flush(h5i.get_file_id(self._dataset))
            self._forget()
        self._n_asked += n_wanted
        if self._n_asked > _FEW_CHUNKS and not self._all_known:
            n_chunks = int(-(-self._dataset.shape[0] // self._form.chunk_rows))
            if self._n_asked > n_chunks // _FEW_CHUNKS:
                self._learn_all(n_chunks)

    def _learn_all(self, n_chunks: int) -> None:
        known: dict[int, _Place] = {}

        def note(info: StoreInfo) -> None:
            if info.byte_offset is not None:
                number = info.chunk_offset[0] // self._form.chunk_rows
                known[number] = _Place(info.byte_offset, info.size, info.filter_mask)

        self._dataset.chunk_iter(note)
        self._all_known = True
        if any(known.get(number) != place for number, place in self._known.items()):
            return  # the chunk map is damaged and contradicts itself: what was found one by one stays
        self._known, self._has_gaps = known, len(known) < n_chunks
        if not self._has_gaps:
            try:
                whole = self._listed(range(n_chunks))
            except ValueError:
                return  # a chunk is out of the ordinary: each request is checked by itself
            self._whole = whole if whole.masks is None else None

    def _listed(self, numbers: range | RowNumbers) -> Located:
        """Chunks that are known or looked for one by one."""
        if self._has_gaps and isinstance(numbers, range):
            numbers = np.array([number for number in numbers if number in self._known], dtype=np.int64)
        places = [self._find(number) for number in (numbers if isinstance(numbers, range) else numbers.tolist())]
        for place in places:
            _check_address(place.address)
            self._form.check(place.size)
        addresses, sizes, masks = np.array(places, dtype=np.int64).reshape(-1, 3).T.copy()
        return Located(numbers, addresses, sizes, masks if masks.any() else None)

    def _find(self, number: int) -> _Place:
        place = self._known.get(number)
        if place is None:
            info = self._dataset.get_chunk_info_by_coord((number * self._form.chunk_rows,))
            if info.byte_offset is None:
                raise ValueError("a chunk was never written")
            place = self._known[number] = _Place(info.byte_offset, info.size, info.filter_mask)
        return place

    def fill(self) -> bytes:
        """As the library would report it, which looks for the chunk of every row."""
        creation, dtype = creation_of(self._dataset), self._form.dtype
        if dtype.kind not in "iufS" or creation.get_fill_time() == h5d.FILL_TIME_NEVER:
            raise ValueError("only the library knows what rows hold that were never written")
        if creation.fill_value_defined() == h5d.FILL_VALUE_UNDEFINED:
            raise ValueError("rows that were never written hold nothing that is known")
        value = np.zeros((), dtype)
        capi.get_fill(creation, self._dataset.get_type(), value.ctypes.data)
        return value.tobytes()


class ContiguousMap:
    """The chunk map of a contiguous dataset, read as if it consisted of adjacent chunks."""

    def __init__(self, dataset: Dataset, form: ChunkForm, frozen: bool) -> None:
        self._dataset = dataset
        self._form = form
        self._frozen = frozen

    def located(self, numbers: range | RowNumbers, n_wanted: int) -> Located:
        _check_open(self._dataset)
        if not self._frozen:
            h5f.flush(h5i.get_file_id(self._dataset))
        address, n_bytes = self._dataset.get_offset(), self._form.chunk_bytes
        if address is None:
            raise ValueError("the rows were never written")
        _check_address(address)
        begins = np.asarray(numbers, dtype=np.int64) * n_bytes
        return Located(numbers, address + begins, np.full(len(numbers), n_bytes, dtype=np.int64))

    def fill(self) -> bytes:
        raise ValueError("only the library knows what rows hold that were never written")


def _check_open(dataset: Dataset) -> None:
    if not dataset.valid:
        raise ValueError("the file was closed")


def _check_address(address: int) -> None:
    if address > FARTHEST:
        raise ValueError("an address lies far after the end of the file")


class ChunkSource:
    """A dataset whose rows can be read past the library: its chunk map, and what runs plans of its chunks.

    look: an element, as it is stored, that `read_and_look` looks for.
    """

    def __init__(
        self, dataset: Dataset, form: ChunkForm, chunk_map: ChunkLocator, reader: ChunkReader, look: bytes | None
    ) -> None:
        self._dataset = dataset
        self._form = form
        self._map = chunk_map
        self._reader = reader
        self._look_for = look
        self.chunk_rows = form.chunk_rows

    def read(self, start: int, count: int) -> np.ndarray | None:
        """The rows from `start` on, in memory form; None when the library must read them, or refuse to."""
        return self.read_and_look(start, count)[0]

    def read_and_look(self, start: int, count: int) -> tuple[np.ndarray | None, bool]:
        """The rows from `start` on, or None, and whether one of them may be `look`: False only where none is."""
        return self._run(count, lambda: self._plan_range(start, count))

    def take(self, rows: RowNumbers) -> np.ndarray | None:
        """These rows, which increase; None when the library must read them."""
        return self._run(len(rows), lambda: self._plan_rows(rows))[0]

    def take_few(self, rows: RowNumbers) -> np.ndarray | None:
        """These rows, in any order, each by its own bytes; None where not each can be read without the others."""
        return self._run(len(rows), lambda: self._plan_singles(rows))[0] if self.is_open_to_rows else None

    @property
    def is_open_to_rows(self) -> bool:
        """Whether a row can be read without the rest of its chunk."""
        return self._reader.reads_single_rows

    @property
    def path(self) -> str:
        """The path of the dataset in its file, for messages."""
        return (h5i.get_name(self._dataset) or b"?").decode("utf-8", "surrogateescape")

    def load(self, address: int, target: ByteBuffer) -> None:
        """Bytes of the file."""
        _check_address(address)
        self._reader.load(address, target)

    def expect_overwrite(self, start: int, count: int) -> None:
        """Let the journal save these rows, which are going to be overwritten, while their new content is computed."""
        file = self._reader.file
        if isinstance(file, JournaledBytes) and self._form.pipeline.is_empty:
            numbers = range(start // self.chunk_rows, -(-(start + count) // self.chunk_rows))
            chunks = self._map.located(numbers, len(numbers))
            file.save_ahead(
                list(zip(chunks.addresses.tolist(), (chunks.addresses + chunks.sizes).tolist(), strict=True))
            )

    def leave_unchanged(self, rows: np.ndarray) -> None:
        """Promise that these rows stay as they are until the commit: they are not copied when they are written."""
        file = self._reader.file
        if isinstance(file, JournaledBytes):
            file.leave_unchanged(rows.data)

    def _run(self, count: int, make_plan: Callable[[], ReadPlan | None]) -> tuple[np.ndarray | None, bool]:
        """Make a plan for this many rows and run it. A file may claim any number of rows: too many are refused."""
        if count * self._form.dtype.itemsize > MOST_AT_ONCE:
            return None, True
        try:
            plan = make_plan()
            return (None, True) if plan is None else self._reader.run(plan, self._look_for)
        except DamagedChunk as error:
            first, last = error.rows
            raise CorruptError(f"the rows cannot be read: {error}", path=self.path, row=first, last_row=last) from error
        except hdf5_errors():
            return None, True

    def _plan_range(self, start: int, count: int) -> ReadPlan:
        numbers = range(start // self.chunk_rows, -(-(start + count) // self.chunk_rows)) if count else range(0)
        chunks = self._map.located(numbers, len(numbers))
        fill = self._map.fill() if len(chunks.numbers) < len(numbers) else None
        return plan_range(self._form, start, count, chunks, fill)

    def _plan_rows(self, rows: RowNumbers) -> ReadPlan:
        few = few_of_each_chunk(self._form, rows) if self.is_open_to_rows else None
        if few is not None:
            plan = plan_singles(rows - few[0] * self.chunk_rows, self._map.located(*few))
            if plan is not None:
                return plan
        parts = [(number, end) for number, _, end in by_chunk(rows, self.chunk_rows)]
        numbers, ends = np.array(parts, dtype=np.int64).reshape(-1, 2).T.copy()
        return plan_rows(self._form, rows, ends, self._map.located(numbers, len(numbers)), self.is_open_to_rows)

    def _plan_singles(self, rows: RowNumbers) -> ReadPlan | None:
        numbers = rows // self.chunk_rows
        return plan_singles(rows - numbers * self.chunk_rows, self._map.located(numbers, len(rows)))


def open_source(
    dataset: Dataset, dtype: np.dtype | None, filters: Sequence[FilterInfo], look: bytes | None = None
) -> ChunkSource | None:
    """A way to the rows of a dataset, whose elements are such, past the library; None where there is none."""
    creation = creation_of(dataset)
    if dtype is None or len(dataset.shape) != 1:
        return None
    if creation.get_layout() == h5d.CONTIGUOUS and not creation.get_external_count():
        return open_run(dataset, dtype, look)
    if creation.get_layout() != h5d.CHUNKED:
        return None
    chunk_rows = int(creation.get_chunk()[0])
    form = ChunkForm(dtype, chunk_rows, Pipeline(filters, chunk_rows * dtype.itemsize))
    file_id = h5i.get_file_id(dataset)
    file = _file_of(file_id)
    if not form.pipeline.is_known or capi.skips_partial_chunks(creation) or file is None:
        return None
    chunk_map = LibraryChunkMap(dataset, form, file_id.get_intent() == h5f.ACC_RDONLY)
    return ChunkSource(dataset, form, chunk_map, ChunkReader(form, file), look)


def open_run(dataset: Dataset, dtype: np.dtype, look: bytes | None = None) -> ChunkSource | None:
    """A way to all elements of a contiguous dataset, in their order, whatever its rank."""
    file_id = h5i.get_file_id(dataset)
    file = _file_of(file_id)
    if file is None or dataset.get_storage_size() != prod(dataset.shape) * dtype.itemsize:
        return None
    form = ChunkForm(dtype, DEFAULT_CHUNK_ROWS, Pipeline((), 0))
    chunk_map = ContiguousMap(dataset, form, file_id.get_intent() == h5f.ACC_RDONLY)
    return ChunkSource(dataset, form, chunk_map, ChunkReader(form, file), look)


def _file_of(file_id: FileID) -> LocalBytes | JournaledBytes | None:
    """What the bytes of a file can be read from."""
    return None if file_id.get_create_plist().get_userblock() else source_of(file_id)
