"""Elements of variable length: vetted before libhdf5 follows their references, and read without it.

An element in a chunk is a length, the address of a collection of the global heap, and the number of an object in it.
libhdf5 allocates and clears as many bytes as an element claims before it looks whether they are there. The global heap
has no filters: an element that claims more bytes than its file has is damaged.

Reading without libhdf5: collections are small and lie close together, so those that some rows refer to are read in
spans, each walked once. What is not as it should be is left to libhdf5, which reports what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np
from h5py import h5d, h5i

from colonnade import kernels, limits
from colonnade.arrays import Int32s, UInt64s
from colonnade.errors import CorruptError, UnsupportedError
from colonnade.filters.codecs import ByteBuffer, new_array
from colonnade.format.global_heap import REFERENCE_DTYPE, reference_dtype
from colonnade.format.headers import LAYOUT
from colonnade.format.layout import decode_storage
from colonnade.format.source import UnknownToReader
from colonnade.h5.chunks import ChunkSource, open_run, open_source
from colonnade.h5.damage import hdf5_errors
from colonnade.h5.vetting import (
    FARTHEST,
    SMALL_CLAIM,
    address_of,
    creation_of,
    open_file_of,
    size_in_file,
    vet_elements,
    vetted_file,
)
from colonnade.model import FilterInfo, StoredType
from colonnade.nodes import Dataset
from colonnade.selection import RowNumbers

AS_BYTES = np.dtype((np.void, REFERENCE_DTYPE.itemsize))
References = np.ndarray
FLETCHER32 = 3
SHORTEST_CHECKED = 5  # bytes: a checksum, and something that it sums
Offsets = Int32s
_GAP = 1 << 16  # bytes between collections that are read in one go
_MOST = 1 << 30  # bytes of collections that are held at the same time
_MOST_SLOTS = 1 << 26  # objects of collections, counted by their highest index
_FEW_SLOTS = 1 << 20  # that are nothing to speak of; of more, there must be bytes enough for an eighth of them
_HEAD = 16
_INT64, _INT32, _BYTE = np.dtype("i8"), np.dtype("i4"), np.dtype("u1")


# -- vetting --


def check_lengths(references: References, stored: StoredType, file_bytes: int, path: str) -> None:
    """Refuse elements of which one claims more bytes than the file has."""
    item = stored.item.size if stored.kind == "sequence" else 1
    longest = int(references["length"].max(initial=0)) * item
    if longest > max(file_bytes, SMALL_CLAIM):
        raise CorruptError(f"an element claims {longest:,} bytes, more than the file has", path=path)


def vet_rows(dataset: Dataset, stored: StoredType, filters: Sequence[FilterInfo], rows: range) -> bool:
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


def _check_references(dataset: Dataset, stored: StoredType, filters: Sequence[FilterInfo], rows: range) -> bool:
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


def vet_stored_rows(dataset: Dataset, stored: StoredType, image: np.ndarray | None, path: str) -> None:
    """Refuse elements as they lie in the file; None are those that were never written."""
    if image is None:
        return
    if stored.kind in ("text", "binary", "sequence"):
        references = image.view(reference_dtype(open_file_of(dataset).offset_size))
        check_lengths(references, stored, h5i.get_file_id(dataset).get_filesize(), path)
    vet_elements(dataset, stored, np.ascontiguousarray(image).view("u1").data)


def _check_compact(dataset: Dataset, stored: StoredType) -> bool:
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


def vet_run(dataset: Dataset, stored: StoredType) -> bool:
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


def vet_chunk_sizes(dataset: Dataset, filters: Sequence[FilterInfo], path: str) -> None:
    """Refuse a dataset of which a chunk is shorter than its checksum: the library would read before its beginning.

    A damaged B-tree may hide the chunk from whoever asks for it by its place.
    """
    if FLETCHER32 in (one.id for one in filters):
        sizes: list[int] = []
        dataset.chunk_iter(lambda info: sizes.append(info.size))
        if min(sizes, default=SHORTEST_CHECKED) < SHORTEST_CHECKED:
            raise CorruptError(f"a chunk has {min(sizes)} bytes", path=path)


# -- reading without libhdf5 --


class Strings(NamedTuple):
    """Bytes of variable length, as Arrow holds them."""

    offsets: Offsets
    data: ByteBuffer


class HeapSource:
    """A column of variable-length strings or bytes whose rows can be read past the library."""

    def __init__(self, source: ChunkSource, stored: StoredType, file_bytes: int) -> None:
        self._source = source
        self._stored = stored
        self._is_text = stored.kind == "text"
        self._file_bytes = file_bytes

    def read(self, start: int, count: int) -> Strings | None:
        """The rows from `start` on; None when the library must read them."""
        return self._follow(self._source.read(start, count))

    def take(self, rows: RowNumbers) -> Strings | None:
        """These rows, which increase."""
        return self._follow(self._source.take(rows))

    def _follow(self, image: np.ndarray | None) -> Strings | None:
        if image is None:
            return None
        self._check_lengths(image.view(REFERENCE_DTYPE))
        try:
            parts = [self._resolve(image[begin:end]) for begin, end in _parts(image.view(REFERENCE_DTYPE))]
            return parts[0] if len(parts) == 1 else _joined(parts)
        except hdf5_errors():
            return None

    def _check_lengths(self, references: References) -> None:
        """Refuse rows of too many bytes before any is read: many may lead to one long text. The library takes all."""
        path = self._source.path
        check_lengths(references, self._stored, self._file_bytes, path)
        n_bytes = int(references["length"].sum(dtype=np.int64))
        if n_bytes > limits.now.heap_row_bytes:
            raise UnsupportedError(
                f"{path}: {len(references)} rows of {n_bytes:,} bytes are more than can be read at once: take fewer",
                feature="more bytes than are read at once",
                path=path,
            )

    def _resolve(self, image: np.ndarray) -> Strings:
        """The bytes that these references lead to."""
        references = image.view(REFERENCE_DTYPE)
        heap = self._collect(np.unique(references["address"][references["length"] > 0]))
        offsets = new_array(len(references) + 1, _INT32)
        kernels.heap_offsets(*heap, image, 1, self._is_text, offsets)
        data = new_array(int(offsets[-1]), _BYTE)
        kernels.heap_data(*heap, image, 1, self._is_text, offsets, data)
        return Strings(offsets, data)

    def _collect(self, addresses: UInt64s) -> tuple[ByteBuffer, Any, Any, Any, Any]:
        """The collections at these addresses: their bytes, and where their objects lie in them."""
        if len(addresses) and int(addresses[-1]) > FARTHEST:
            raise ValueError("a reference leads far after the end of the file")
        heap, places = self._load(addresses.astype(np.int64))
        slots = np.empty(len(addresses), dtype=np.int64)
        kernels.heap_slots(heap, places, slots)
        firsts = np.concatenate(([0], np.cumsum(slots)))
        if int(firsts[-1]) > min(_MOST_SLOTS, max(_FEW_SLOTS, len(heap) // 2)):
            raise ValueError("these collections claim far more objects than they can hold")
        starts, sizes = new_array(int(firsts[-1]), _INT64), new_array(int(firsts[-1]), _INT64)
        kernels.heap_objects(heap, places, firsts, starts, sizes)
        return heap, addresses, firsts, starts, sizes

    def _load(self, addresses: RowNumbers) -> tuple[ByteBuffer, RowNumbers]:
        """The bytes of the collections, and where each begins in them. Those close together are read in one go."""
        if not len(addresses):
            return new_array(0, _BYTE), addresses
        edges = np.flatnonzero(np.diff(addresses) > _GAP)
        begins, lasts = addresses[np.append(0, edges + 1)], addresses[np.append(edges, len(addresses) - 1)]
        lengths = np.array([self._size(last) for last in lasts.tolist()], dtype=np.int64) + lasts - begins
        ends = np.cumsum(lengths)
        if int(ends[-1]) > _MOST:
            raise ValueError("these rows lie too far apart in the global heap")
        heap = new_array(int(ends[-1]), _BYTE)
        for begin, end, length in zip(begins.tolist(), ends.tolist(), lengths.tolist(), strict=True):
            self._source.load(begin, heap[end - length : end])
        span = np.searchsorted(begins, addresses, "right") - 1
        return heap, addresses - begins[span] + (ends - lengths)[span]

    def _size(self, address: int) -> int:
        """Bytes of the collection at an address, from its head."""
        head = new_array(_HEAD, _BYTE)
        self._source.load(address, head)
        size = int.from_bytes(head[8:].tobytes(), "little")
        if not _HEAD <= size <= _MOST:
            raise ValueError("a collection of the global heap makes no sense")
        return size


def _parts(references: References) -> list[tuple[int, int]]:
    """Rows to be followed together: those of some collections, so that what is held of them stays small.

    Rows that were written together lie together, as a rule; where they do not, collections would be read again and
    again, and all are held at once.
    """
    addresses = references["address"]
    n_parts = len(np.unique(addresses)) // limits.now.heap_collections
    if n_parts < 2:
        return [(0, len(references))]
    parts = list(pairwise(np.linspace(0, len(references), n_parts + 1).astype(np.int64).tolist()))
    n_read = sum(len(np.unique(addresses[begin:end])) for begin, end in parts)
    return parts if n_read < 2 * limits.now.heap_collections * n_parts else [(0, len(references))]


def _joined(parts: list[Strings]) -> Strings:
    """The rows of several parts, one after the other."""
    before = np.cumsum([0, *(int(part.offsets[-1]) for part in parts)])
    moved = [part.offsets[1:] + int(start) for part, start in zip(parts, before[:-1], strict=True)]
    offsets: Offsets = np.concatenate([np.zeros(1, _INT32), *moved]).astype(_INT32, copy=False)
    return Strings(offsets, np.concatenate([part.data for part in parts]))


def open_heap(dataset: Dataset, stored: StoredType, filters: Sequence[FilterInfo]) -> HeapSource | None:
    """A way to strings or bytes of variable length past the library; None where there is none, or it would not pay."""
    if stored.kind not in ("text", "binary") or kernels.FORM != "c" or not open_file_of(dataset).has_usual_sizes:
        return None
    source = open_source(dataset, AS_BYTES, filters)
    if source is None:
        return None
    return HeapSource(source, stored, h5i.get_file_id(dataset).get_filesize())
