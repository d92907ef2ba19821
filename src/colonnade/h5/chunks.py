"""Rows of a dataset, read past the HDF5 library.

libhdf5 is asked where the chunks are (`LibraryChunkMap`), a `ReadPlan` is made of that, and a `ChunkReader` runs it:
the bytes come straight from the file, and filters are undone outside libhdf5's lock, so that threads can read at the
same time. Only elements that lie in the file as they do in memory, up to their byte order, are read so. Whatever is not
plain is left to the library: None is given back, and the caller asks it. A chunk that cannot be unpacked is not: the
library does not check whether a chunk unpacks to the bytes it must have, and reads and writes after the end of one
that is shorter.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from math import prod

import numpy as np
from h5py import h5d, h5f, h5i
from h5py.h5d import StoreInfo
from h5py.h5f import FileID

from colonnade import kernels
from colonnade.errors import CorruptError, UnsupportedError
from colonnade.filters.chunk_reader import ChunkReader
from colonnade.filters.read_plan import (
    ChunkForm,
    Located,
)
from colonnade.filters.undo import Pipeline
from colonnade.format.global_heap import reference_dtype
from colonnade.format.headers import LAYOUT
from colonnade.format.layout import decode_storage
from colonnade.format.source import UnknownToReader
from colonnade.h5 import capi
from colonnade.h5.vetting import (
    address_of,
    creation_of,
    open_file_of,
    raw_bytes,
    size_in_file,
    source_of,
    vet_elements,
    vetted_file,
)
from colonnade.model import DEFAULT_CHUNK_ROWS, FilterInfo, StoredType
from colonnade.nodes import DatasetHandle
from colonnade.nodes.chunk_source import CachedChunkMap, ChunkPlace, ChunkSource, by_chunk, check_address
from colonnade.nodes.heap_source import AS_BYTES, HeapSource, check_lengths
from colonnade.pager.sources import JournaledBytes, LocalBytes
from colonnade.selection import RowNumbers

FLETCHER32 = 3
SHORTEST_CHECKED = 5  # bytes: a checksum, and something that it sums


class LibraryChunkMap(CachedChunkMap):
    """The chunk map as libhdf5 reports it.

    `frozen`: nobody writes to the file as long as it is open, so that chunks stay where they are.
    """

    def __init__(self, dataset: DatasetHandle, form: ChunkForm, frozen: bool) -> None:
        super().__init__(form)
        self._dataset = dataset
        self._frozen = frozen

    @property
    def n_chunks(self) -> int:
        return int(-(-self._dataset.shape[0] // self._form.chunk_rows))

    def check(self) -> None:
        _check_open(self._dataset)
        if not self._frozen:
            h5f.flush(h5i.get_file_id(self._dataset))
            self.forget()

    def find(self, number: int) -> ChunkPlace | None:
        info = self._dataset.get_chunk_info_by_coord((number * self._form.chunk_rows,))
        return None if info.byte_offset is None else ChunkPlace(info.byte_offset, info.size, info.filter_mask)

    def find_all(self) -> dict[int, ChunkPlace]:
        known: dict[int, ChunkPlace] = {}

        def note(info: StoreInfo) -> None:
            if info.byte_offset is not None:
                number = info.chunk_offset[0] // self._form.chunk_rows
                known[number] = ChunkPlace(info.byte_offset, info.size, info.filter_mask)

        self._dataset.chunk_iter(note)
        return known

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

    def __init__(self, dataset: DatasetHandle, form: ChunkForm, frozen: bool) -> None:
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
        check_address(address)
        begins = np.asarray(numbers, dtype=np.int64) * n_bytes
        return Located(numbers, address + begins, np.full(len(numbers), n_bytes, dtype=np.int64))

    def fill(self) -> bytes:
        raise ValueError("only the library knows what rows hold that were never written")


def _check_open(dataset: DatasetHandle) -> None:
    if not dataset.valid:
        raise ValueError("the file was closed")


def open_source(
    dataset: DatasetHandle, dtype: np.dtype | None, filters: Sequence[FilterInfo], look: bytes | None = None
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
    return ChunkSource(partial(_path_of, dataset), form, chunk_map, ChunkReader(form, file), look)


def open_run(dataset: DatasetHandle, dtype: np.dtype, look: bytes | None = None) -> ChunkSource | None:
    """A way to all elements of a contiguous dataset, in their order, whatever its rank."""
    file_id = h5i.get_file_id(dataset)
    file = _file_of(file_id)
    if file is None or dataset.get_storage_size() != prod(dataset.shape) * dtype.itemsize:
        return None
    form = ChunkForm(dtype, DEFAULT_CHUNK_ROWS, Pipeline((), 0))
    chunk_map = ContiguousMap(dataset, form, file_id.get_intent() == h5f.ACC_RDONLY)
    return ChunkSource(partial(_path_of, dataset), form, chunk_map, ChunkReader(form, file), look)


def _file_of(file_id: FileID) -> LocalBytes | JournaledBytes | None:
    """What the bytes of a file can be read from."""
    return None if file_id.get_create_plist().get_userblock() else source_of(file_id)


def _path_of(dataset: DatasetHandle) -> str:
    return (h5i.get_name(dataset) or b"?").decode("utf-8", "surrogateescape")


# -- elements of variable length: vetted before libhdf5 follows their references --
#
# libhdf5 allocates and clears as many bytes as an element claims before it looks whether they are there. The global
# heap has no filters: an element that claims more bytes than its file has is damaged.


def vet_rows(dataset: DatasetHandle, stored: StoredType, filters: Sequence[FilterInfo], rows: range) -> bool:
    """Refuse rows of a one-dimensional dataset that libhdf5 may not read; returns whether they could be vetted.

    Elements of variable length must claim no more bytes than the file has, and lead to collections that end. Filtered
    chunks are unpacked whatever they hold: libhdf5, or the filter, may crash on a damaged one.
    """
    if stored.has_pointers:
        return _check_references(dataset, stored, filters, rows)
    if stored.size and filters:
        source = open_source(dataset, np.dtype((np.void, size_in_file(dataset, stored))), filters)
        if source is not None:
            source.read(rows.start, len(rows))
    return True


def _check_references(dataset: DatasetHandle, stored: StoredType, filters: Sequence[FilterInfo], rows: range) -> bool:
    if creation_of(dataset).get_layout() == h5d.COMPACT:
        return _check_compact(dataset, stored)
    source = open_source(dataset, np.dtype((np.void, size_in_file(dataset, stored))), filters)
    if source is None:
        return False
    start = rows.start
    while start < rows.stop:  # chunk by chunk: one that was never written hides no other
        stop = min(rows.stop, (start // source.chunk_rows + 1) * source.chunk_rows)
        vet_stored_rows(dataset, stored, source.read(start, stop - start), source.path)
        start = stop
    return True


def vet_stored_rows(dataset: DatasetHandle, stored: StoredType, image: np.ndarray | None, path: str) -> None:
    """Refuse elements as they lie in the file; None are those that were never written."""
    if image is None:
        return
    if stored.kind in ("text", "binary", "sequence"):
        references = image.view(reference_dtype(open_file_of(dataset).offset_size))
        check_lengths(references, stored, h5i.get_file_id(dataset).get_filesize(), path)
    vet_elements(dataset, stored, np.ascontiguousarray(image).view("u1").data)


def _check_compact(dataset: DatasetHandle, stored: StoredType) -> bool:
    """Vet elements that are kept in the header of their dataset."""
    file = vetted_file(dataset)
    if file is None:
        return False
    for message in file.messages(address_of(dataset)):
        if message.type == LAYOUT:
            with suppress(CorruptError, UnknownToReader):
                elements = decode_storage(file.fields(message)).elements
                vet_elements(dataset, stored, elements)
    return True


def vet_run(dataset: DatasetHandle, stored: StoredType) -> bool:
    """Vet all elements of a dataset of any rank that is not chunked; returns whether they could be vetted."""
    creation = creation_of(dataset)
    if not stored.has_pointers:
        return True
    if creation.get_layout() == h5d.COMPACT:
        return _check_compact(dataset, stored)
    if creation.get_layout() != h5d.CONTIGUOUS or creation.get_external_count():
        return False
    size = size_in_file(dataset, stored)
    source, count = open_run(dataset, np.dtype((np.void, size))), prod(dataset.shape)
    if source is None or count * size > h5i.get_file_id(dataset).get_filesize():
        return True  # never written, or not there: libhdf5 reports which
    for start in range(0, count, source.chunk_rows):
        vet_stored_rows(dataset, stored, source.read(start, min(source.chunk_rows, count - start)), source.path)
    return True


def vet_chunk_sizes(dataset: DatasetHandle, filters: Sequence[FilterInfo], path: str) -> None:
    """Refuse a dataset of which a chunk is shorter than its checksum: the library would read before its beginning.

    A damaged B-tree may hide the chunk from whoever asks for it by its place.
    """
    if FLETCHER32 in (one.id for one in filters):
        sizes: list[int] = []
        dataset.chunk_iter(lambda info: sizes.append(info.size))
        if min(sizes, default=SHORTEST_CHECKED) < SHORTEST_CHECKED:
            raise CorruptError(f"a chunk has {min(sizes)} bytes", path=path)


def open_heap(dataset: DatasetHandle, stored: StoredType, filters: Sequence[FilterInfo]) -> HeapSource | None:
    """A way to strings or bytes of variable length past the library; None where there is none, or it would not pay."""
    if stored.kind not in ("text", "binary") or kernels.FORM != "c" or not open_file_of(dataset).has_usual_sizes:
        return None
    source = open_source(dataset, AS_BYTES, filters)
    if source is None:
        return None
    return HeapSource(source, stored, h5i.get_file_id(dataset).get_filesize())


# -- references in the form of HDF5 1.12, read as they are stored: in memory they hold pointers and open handles --

USUAL_SIZE = 18  # bytes of a reference on disk where file addresses have 8 bytes


def size_as_stored(dataset: DatasetHandle, n_rows: int) -> int:
    """Bytes of one element in the file."""
    creation = dataset.get_create_plist()
    total = dataset.get_storage_size()
    if creation.get_layout() == h5d.CHUNKED:
        chunks = dataset.get_num_chunks()
        return int(total // (chunks * creation.get_chunk()[0])) if chunks else USUAL_SIZE
    return int(total // n_rows) if n_rows and total else USUAL_SIZE


def read_as_stored(dataset: DatasetHandle, size: int, rows: range, path: str) -> np.ndarray:
    """The bytes of these rows, `size` a row; zeros where nothing was written."""
    creation = dataset.get_create_plist()
    layout = creation.get_layout()
    image = np.zeros((len(rows), size), dtype="u1")
    if layout == h5d.CHUNKED and creation.get_nfilters() == 0:
        _read_chunks(dataset, creation.get_chunk()[0], size, rows, image)
    elif layout == h5d.CONTIGUOUS and creation.get_external_count() == 0:
        _read_contiguous(dataset, size, rows, image, path)
    else:
        raise UnsupportedError(
            f"{path}: references in the HDF5 1.12 form are read only from contiguous or unfiltered chunked storage",
            feature="HDF5 1.12 references",
            path=path,
        )
    return image.reshape(-1).view(f"V{size}")


def _read_chunks(dataset: DatasetHandle, chunk_rows: int, size: int, rows: range, image: np.ndarray) -> None:
    numbers = np.arange(rows.start, rows.stop, rows.step)
    for chunk, begin, end in by_chunk(numbers, chunk_rows):
        start = chunk * chunk_rows
        if dataset.get_chunk_info_by_coord((start,)).byte_offset is None:
            continue
        _, data = capi.read_stored_chunk(dataset, (start,))
        stored = np.frombuffer(data, dtype="u1", count=chunk_rows * size).reshape(chunk_rows, size)
        image[begin:end] = stored[numbers[begin:end] - start]


def _read_contiguous(dataset: DatasetHandle, size: int, rows: range, image: np.ndarray, path: str) -> None:
    offset = dataset.get_offset()
    if offset is None:
        return
    source = raw_bytes(dataset)
    if source is None:
        raise UnsupportedError(
            f"{path}: references in the HDF5 1.12 form are read only from a file that colonnade has opened",
            feature="HDF5 1.12 references",
            path=path,
        )
    for place, row in enumerate(rows):
        data = source.read_at(offset + row * size, size)
        if len(data) != size:
            raise CorruptError("the reference lies beyond the end of the file", path=path, row=row)
        image[place] = np.frombuffer(data, dtype="u1")
