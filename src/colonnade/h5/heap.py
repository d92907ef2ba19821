"""Variable-length strings and bytes, read past the HDF5 library.

An element in a chunk is a length, the address of a collection of the global heap, and the number of an object in it.
Collections are small and lie close together: those that some rows lead to are read in spans, each walked once.
What is not as it should be is left to the library, which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from h5py import h5i

from colonnade import kernels
from colonnade.h5.attributes import BROKEN
from colonnade.h5.chunks import FARTHEST, ChunkSource, RowNumbers, new_array, open_source
from colonnade.h5.codecs import Bytes
from colonnade.model import FilterInfo, StoredType

REFERENCE = np.dtype([("length", "<u4"), ("address", "<u8"), ("index", "<u4")])
Offsets = np.ndarray[Any, np.dtype[np.int32]]
_GAP = 1 << 16  # bytes between collections that are read in one go
_MOST = 1 << 30  # bytes of collections that are held at the same time
_MOST_SLOTS = 1 << 26  # objects of collections, counted by their highest index
_HEAD = 16
_INT64, _INT32, _BYTE = np.dtype("i8"), np.dtype("i4"), np.dtype("u1")


class Strings(NamedTuple):
    """Bytes of variable length, as Arrow holds them."""

    offsets: Offsets
    data: Bytes


class HeapSource:
    """A column of variable-length strings or bytes whose rows can be read past the library."""

    def __init__(self, source: ChunkSource, is_text: bool) -> None:
        self._source = source
        self._is_text = is_text

    def read(self, start: int, count: int) -> Strings | None:
        """The rows from `start` on; None when the library must read them."""
        return self._follow(self._source.read(start, count))

    def take(self, rows: RowNumbers) -> Strings | None:
        """These rows, which increase."""
        return self._follow(self._source.take(rows))

    def _follow(self, image: Any) -> Strings | None:
        if image is None:
            return None
        references = image.view(REFERENCE)
        try:
            heap = self._collect(np.unique(references["address"][references["length"] > 0]))
            offsets = new_array(len(references) + 1, _INT32)
            kernels.heap_offsets(*heap, image, 1, self._is_text, offsets)
            data = new_array(int(offsets[-1]), _BYTE)
            kernels.heap_data(*heap, image, 1, self._is_text, offsets, data)
        except BROKEN:
            return None
        return Strings(offsets, data)

    def _collect(self, addresses: Any) -> tuple[Bytes, Any, Any, Any, Any]:
        """The collections at these addresses: their bytes, and where their objects lie in them."""
        if len(addresses) and int(addresses[-1]) > FARTHEST:
            raise ValueError("a reference leads far behind the end of the file")
        heap, places = self._load(addresses.astype(np.int64))
        slots = np.empty(len(addresses), dtype=np.int64)
        kernels.heap_slots(heap, places, slots)
        firsts = np.concatenate(([0], np.cumsum(slots)))
        if int(firsts[-1]) > _MOST_SLOTS:
            raise ValueError("these collections claim far more objects than they can hold")
        starts, sizes = new_array(int(firsts[-1]), _INT64), new_array(int(firsts[-1]), _INT64)
        kernels.heap_objects(heap, places, firsts, starts, sizes)
        return heap, addresses, firsts, starts, sizes

    def _load(self, addresses: RowNumbers) -> tuple[Bytes, RowNumbers]:
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
        """Bytes of the collection at an address, as its head says."""
        head = new_array(_HEAD, _BYTE)
        self._source.load(address, head)
        size = int.from_bytes(head[8:].tobytes(), "little")
        if not _HEAD <= size <= _MOST:
            raise ValueError("a collection of the global heap makes no sense")
        return size


def open_heap(dataset: Any, stored: StoredType, filters: Sequence[FilterInfo]) -> HeapSource | None:
    """A way to strings or bytes of variable length past the library; None where there is none, or it would not pay."""
    if stored.kind not in ("text", "binary") or kernels.FORM != "c":
        return None
    if h5i.get_file_id(dataset).get_create_plist().get_sizes() != (8, 8):
        return None
    source = open_source(dataset, np.dtype((np.void, REFERENCE.itemsize)), filters)
    return None if source is None else HeapSource(source, stored.kind == "text")
