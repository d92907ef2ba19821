"""Strings and bytes of variable length, read straight from the file.

An element in a chunk is a length, the address of a collection of the global heap, and the number of an object in it.
Collections are small and lie close together, so those that some rows refer to are read in spans, each walked once. What
is not as it should be is left to the caller's other way to read, which reports what is wrong.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np

from colonnade import kernels, limits
from colonnade.arrays import Int32s, UInt64s, distinct
from colonnade.errors import CorruptError, UnsupportedError
from colonnade.filters.codecs import ByteBuffer, new_array
from colonnade.model import StoredType
from colonnade.nodes.chunk_source import FARTHEST
from colonnade.nodes.damage import hdf5_errors
from colonnade.nodes.elements import as_strings
from colonnade.selection import RowNumbers

REFERENCE_DTYPE = np.dtype([("length", "<u4"), ("address", "<u8"), ("index", "<u4")])
AS_BYTES = np.dtype((np.void, REFERENCE_DTYPE.itemsize))
References = np.ndarray
Offsets = Int32s
SMALL_CLAIM = 1 << 26  # bytes that an element may claim in any file: too few to do harm
_GAP = 1 << 16  # bytes between collections that are read in one go
_MOST = 1 << 30  # bytes of collections that are held at the same time
_MOST_SLOTS = 1 << 26  # objects of collections, counted by their highest index
_FEW_SLOTS = 1 << 20  # that are nothing to speak of; of more, there must be bytes enough for an eighth of them
_HEAD = 16
_INT64, _INT32, _BYTE = np.dtype("i8"), np.dtype("i4"), np.dtype("u1")


def check_lengths(references: References, stored: StoredType, file_bytes: int, path: str) -> None:
    """Refuse elements of which one claims more bytes than the file has."""
    item = stored.item.size if stored.kind == "sequence" else 1
    longest = int(references["length"].max(initial=0)) * item
    if longest > max(file_bytes, SMALL_CLAIM):
        raise CorruptError(f"an element claims {longest:,} bytes, more than the file has", path=path)


class Strings(NamedTuple):
    """Bytes of variable length, as Arrow holds them."""

    offsets: Offsets
    data: ByteBuffer


def as_objects(strings: Strings, path: str) -> np.ndarray:
    """Strings as `str`, in an array of objects; bytes that are not UTF-8 are a CorruptError."""
    data, bounds = strings.data.tobytes(), list(pairwise(strings.offsets.tolist()))
    values = np.empty(len(bounds), dtype=object)
    if not data.isascii():
        values[:] = [data[begin:end] for begin, end in bounds]
        return as_strings(values, path)
    text = data.decode("ascii")
    values[:] = [text[begin:end] for begin, end in bounds]
    return values


class ReferenceRows(Protocol):
    """Rows that are references into the global heap, as stored, and the bytes of their file."""

    @property
    def path(self) -> str: ...
    def read(self, start: int, count: int, /) -> np.ndarray | None: ...
    def take(self, rows: RowNumbers, /) -> np.ndarray | None: ...
    def load(self, address: int, target: ByteBuffer, /) -> None: ...


class HeapSource:
    """A column of variable-length strings or bytes whose rows can be read past the library."""

    def __init__(self, source: ReferenceRows, stored: StoredType, file_bytes: int) -> None:
        self._source = source
        self._stored = stored
        self._is_text = stored.kind == "text"
        self._file_bytes = file_bytes

    def read(self, start: int, count: int) -> Strings | None:
        """The rows from `start` on; None when the library must read them."""
        return self.follow(self._source.read(start, count))

    def take(self, rows: RowNumbers) -> Strings | None:
        """These rows, which increase."""
        return self.follow(self._source.take(rows))

    def follow(self, image: np.ndarray | None) -> Strings | None:
        """What these references lead to; None where the library must read it."""
        if image is None:
            return None
        self._check_lengths(image.view(REFERENCE_DTYPE))
        try:
            parts = [self._resolve(image[begin:end]) for begin, end in _parts(image.view(REFERENCE_DTYPE))]
            return parts[0] if len(parts) == 1 else _joined(parts)
        except hdf5_errors(ValueError):
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
        heap = self._collect(distinct(references["address"][references["length"] > 0]))
        offsets = new_array(len(references) + 1, _INT32)
        kernels.heap_offsets(*heap, image, 1, self._is_text, offsets)
        data = new_array(int(offsets[-1]), _BYTE)
        kernels.heap_data(*heap, image, 1, self._is_text, offsets, data)
        return Strings(offsets, data)

    def _collect(self, addresses: UInt64s) -> tuple[ByteBuffer, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
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
    n_parts = len(distinct(addresses)) // limits.now.heap_collections
    if n_parts < 2:
        return [(0, len(references))]
    parts = list(pairwise(np.linspace(0, len(references), n_parts + 1).astype(np.int64).tolist()))
    n_read = sum(len(distinct(addresses[begin:end])) for begin, end in parts)
    return parts if n_read < 2 * limits.now.heap_collections * n_parts else [(0, len(references))]


def _joined(parts: list[Strings]) -> Strings:
    """The rows of several parts, one after the other."""
    before = np.cumsum([0, *(int(part.offsets[-1]) for part in parts)])
    moved = [part.offsets[1:] + int(start) for part, start in zip(parts, before[:-1], strict=True)]
    offsets: Offsets = np.concatenate([np.zeros(1, _INT32), *moved]).astype(_INT32, copy=False)
    return Strings(offsets, np.concatenate([part.data for part in parts]))
