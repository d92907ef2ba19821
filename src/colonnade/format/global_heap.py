"""The global heap: collections of objects that elements of variable length refer to (format specification III.E).

| collection | bytes | | object | bytes | | reference, in an element | bytes |
| --- | --- | --- | --- | --- | --- | --- | --- |
| `GCOL` | 4 | | index; 0: free space | 2 | | number of items | 4 |
| version 1, 0 | 1 + 3 | | reference count, 0 | 2 + 4 | | address of the collection | 8 |
| its size | 8 | | size; of free space with these 16 bytes | 8 | | index of the object | 4 |
| objects | | | data, padded to a multiple of 8 | | | | |

Sizes have L bytes, and addresses O: 8 in nearly all files. What is before objects and data takes 16 bytes in any case.

The heap section of variable-length sectioned chunks, as the prototype writes it (facts 3.6; experimental), holds
such collections too:

| section | bytes | | reference in an element | bytes |
| --- | --- | --- | --- | --- |
| `HGLS` | 4 | | number of items | 4 |
| version 1, 0 | 1 + 3 | | slot | 2 |
| slots | 4 | | object in the slot's collection | 2 |
| each slot: offset in the section, length (0, 0: unused) | 8 + 8 | | 0 | 8 |
| collections | | | | |

Slot 0 and object 0 together mean no value.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np

from colonnade.arrays import Octets
from colonnade.errors import CorruptError
from colonnade.format.source import Fields, HDF5Source
from colonnade.model import StoredType

COLLECTION_SIGNATURE = b"GCOL\x01"
COLLECTION_HEAD = 16
"""An element of variable length in a file whose addresses have 8 bytes."""
ElementBytes = Octets
_OBJECT = struct.Struct("<H6xQ")
_WINDOW = 1 << 16  # bytes that are read together
_USUAL_COLLECTION = 4096  # bytes: no collection is smaller
REFERENCE = 16  # bytes of a reference in an element
_REFERENCES = {"text": 8, "binary": 8, "sequence": 8, "object_reference": 0, "region_reference": 4}
# ... elements with an address in them, and their bytes without it
_MOST_DECODED_ONCE = 1 << 17  # bytes of a collection that is kept decoded
_MOST_OBJECTS = 65_535  # in a collection: an index has two bytes


class EndlessCollection(Exception):
    """A collection with an object that takes no bytes: whoever walks from object to object stays there for ever."""


class HeapObject(NamedTuple):
    """An object of a collection: its number (0 for free space), the address of its data, and its size as stored."""

    number: int
    at: int
    size: int


def walk_collection(
    read: Callable[[int, int], bytes | memoryview], at: int, end: int, length_size: int = 8
) -> Iterator[HeapObject]:
    """The objects between two addresses, in the steps in which libhdf5 walks over them.

    A CorruptError where an object does not fit, at which libhdf5 gives up; an EndlessCollection where it would not
    move on any more. Sizes are as stored: they may be larger than the collection where adding to them overflows.
    """
    begin, window = at, memoryview(b"")
    while at + COLLECTION_HEAD <= end:
        if not begin <= at <= begin + len(window) - COLLECTION_HEAD:
            begin, window = at, memoryview(read(at, min(_WINDOW, end - at)))
            if len(window) < COLLECTION_HEAD:
                raise CorruptError(f"the global heap is cut short at byte {at}")
        index, size = _OBJECT.unpack_from(window, at - begin)
        size &= (1 << 8 * length_size) - 1
        step = (COLLECTION_HEAD + (size + 7) // 8 * 8) % 2**64 if index else size
        if index and step > end - at and size > end - at - COLLECTION_HEAD:
            raise CorruptError(f"object {index} of the global heap at byte {at} has {size} bytes, more than there are")
        if index or step:
            yield HeapObject(index, at + COLLECTION_HEAD, size)
        if not step:
            raise EndlessCollection("an object in it claims no bytes, so that its end is never reached")
        at += step


def decode_collection(data: memoryview, what: Fields, length_size: int = 8) -> dict[int, memoryview]:
    """The objects of a collection by index; free space ends it."""
    fields = Fields(data, f"global heap collection in {what.what}", what.name)
    fields.expect(COLLECTION_SIGNATURE, "the signature")
    fields.take(3)
    end = fields.number(length_size)
    if not COLLECTION_HEAD <= end <= len(data):
        raise fields.wrong(f"claims {end} bytes")
    found: dict[int, memoryview] = {}
    try:
        walk = walk_collection(lambda at, n_bytes: data[at : at + n_bytes], COLLECTION_HEAD, end, length_size)
        for index, at, size in walk:
            if not index:
                break
            if size > end - at or index in found:
                raise fields.wrong(f"has an object {index} that does not fit")
            found[index] = data[at : at + size]
    except EndlessCollection:
        pass  # zeros at the end
    except CorruptError as error:
        raise fields.wrong(f"has an object that does not fit: {error}") from error
    return found


def reference_dtype(offset_size: int) -> np.dtype:
    """An element of variable length in a file whose addresses have `offset_size` bytes; eight of them are used."""
    formats = ["<u4", f"<u{min(offset_size, 8)}", "<u4"]
    offsets = [0, 4, 4 + offset_size]
    names = ["length", "address", "index"]
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": 8 + offset_size})


def stored_size(stored: StoredType, offset_size: int) -> int:
    """Bytes of an element, described as in memory, in a file whose addresses have `offset_size` bytes."""
    if stored.kind in _REFERENCES:
        return _REFERENCES[stored.kind] + offset_size
    if stored.kind == "array":
        return int(np.prod(stored.dims, dtype=object)) * stored_size(stored.item, offset_size)
    return stored.size + sum(stored_size(member.type, offset_size) - member.type.size for member in stored.fields)


def references_in(stored: StoredType, data: ElementBytes, offset_size: int) -> Iterator[tuple[StoredType, np.ndarray]]:
    """The references in elements as they are stored, with the datatype of what refers; half an element has none."""
    size = stored_size(stored, offset_size)
    yield from _references(stored, data[: len(data) // size * size].reshape(-1, size), offset_size)


def _references(stored: StoredType, rows: ElementBytes, offset_size: int) -> Iterator[tuple[StoredType, np.ndarray]]:
    if stored.kind in ("text", "binary", "sequence"):
        yield stored, np.ascontiguousarray(rows).reshape(-1).view(reference_dtype(offset_size))
    elif stored.kind == "array" and stored.has_pointers:
        yield from _references(stored.item, rows.reshape(-1, stored_size(stored.item, offset_size)), offset_size)
    elif stored.has_pointers:
        shift = 0  # the difference between a member's offset in the file and in memory
        for member in sorted(stored.fields, key=lambda member: member.offset):
            begin, size = member.offset + shift, stored_size(member.type, offset_size)
            if member.type.has_pointers:
                yield from _references(member.type, rows[:, begin : begin + size], offset_size)
            shift += size - member.type.size


# -- what elements refer to --


class Heap(Protocol):
    """Stores the bytes of variable-length values."""

    def read(self, reference: bytes, item_size: int) -> tuple[int, memoryview]:
        """The number of items that a reference points to, and their bytes."""
        ...


class GlobalHeap:
    """The global heap of a file. One object reads once: what elements claim together is in the file, and not twice."""

    def __init__(self, source: HDF5Source) -> None:
        self._source = source
        self._known: dict[int, dict[int, memoryview]] = {}
        self._reading, self._claimed = source.most_work, source.most_work

    def read(self, reference: bytes, item_size: int) -> tuple[int, memoryview]:
        """The number of items that a reference points to, and their bytes."""
        end = 4 + self._source.offset_size
        count, address = int.from_bytes(reference[:4], "little"), int.from_bytes(reference[4:end], "little")
        index = int.from_bytes(reference[end : end + 4], "little")
        if not count or not address:
            return 0, memoryview(b"")
        if address not in self._known:
            self._known[address] = self._read_collection(address)
        stored = self._known[address].get(index)
        self._claimed -= count * item_size
        if stored is None or len(stored) < count * item_size or self._claimed < 0:
            text = f"has no object {index} of {count * item_size} bytes, or one that is used many times"
            raise self._source.wrong("global heap collection", address, text)
        return count, stored[: count * item_size]

    def read_object(self, reference: bytes) -> memoryview:
        """All bytes of the object that a reference points to, whatever number of items it gives."""
        end = 4 + self._source.offset_size
        address, index = int.from_bytes(reference[4:end], "little"), int.from_bytes(reference[end : end + 4], "little")
        stored = self._read_collection(address).get(index)
        if stored is None:
            raise self._source.wrong("global heap collection", address, f"has no object {index}")
        return stored

    def _read_collection(self, address: int) -> dict[int, memoryview]:
        what, length_size = "global heap collection", self._source.length_size
        head = self._source.read_up_to(address, _USUAL_COLLECTION, what)
        size = int.from_bytes(head[8 : 8 + length_size], "little")
        self._reading -= size
        if self._reading < 0:
            raise self._source.wrong(what, address, f"has {size} bytes, or overlaps others")
        data = head[:size] if size <= len(head) else self._source.read(address, size, what)
        decode = _decode_once if size <= _MOST_DECODED_ONCE else _decode_collection_at
        return decode(bytes(data), address, self._source.name, length_size)


def _decode_collection_at(data: bytes, address: int, file: str, length_size: int) -> dict[int, memoryview]:
    return decode_collection(memoryview(data), Fields(b"", f"byte {address}", file), length_size)


@lru_cache(maxsize=8)
def _decode_once(data: bytes, address: int, file: str, length_size: int) -> dict[int, memoryview]:
    """Decode a collection, unless these bytes were decoded before: it often has the attributes of many objects."""
    return _decode_collection_at(data, address, file, length_size)


class HeapSet:
    """The objects of a heap section, found by slot and index."""

    def __init__(self, objects: dict[tuple[int, int], memoryview], what: Fields) -> None:
        self._objects = objects
        self._what = what

    def read(self, reference: bytes, item_size: int) -> tuple[int, memoryview]:
        """The number of items that a reference points to, and their bytes."""
        count = int.from_bytes(reference[:4], "little")
        slot, index = int.from_bytes(reference[4:6], "little"), int.from_bytes(reference[6:8], "little")
        if (slot, index) == (0, 0) and not count:
            return 0, memoryview(b"")
        data = self._objects.get((slot, index))
        if data is None or len(data) < count * item_size:
            raise self._what.wrong(f"has no object {index} of {count * item_size} bytes in slot {slot}")
        return count, data[: count * item_size]


def decode_heap_set(fields: Fields) -> HeapSet:
    """See the table at the top of this file; a section without bytes is an empty heap."""
    objects: dict[tuple[int, int], memoryview] = {}
    if not fields.left:
        return HeapSet(objects, fields)
    data = memoryview(fields.take(fields.left))
    head = Fields(data, fields.what, fields.name)
    head.expect(b"HGLS\1", "the signature")
    head.take(3)
    for slot in range(head.number(4)):
        offset, length = head.number(8), head.number(8)
        if length:
            if offset + length > len(data):
                raise head.wrong(f"has slot {slot} outside of it")
            for index, found in decode_collection(data[offset : offset + length], head).items():
                objects[slot, index] = found
    return HeapSet(objects, fields)


def encode_heap_set(objects: list[bytes]) -> tuple[bytes, list[tuple[int, int]]]:
    """A heap section of these objects, and the slot and index of each; empty if there are no objects."""
    if not objects:
        return b"", []
    parts = [objects[start : start + _MOST_OBJECTS] for start in range(0, len(objects), _MOST_OBJECTS)]
    places = [(slot, index) for slot, part in enumerate(parts) for index in range(1, len(part) + 1)]
    collections = [_encode_collection(part) for part in parts]
    at, table = 12 + 16 * len(parts), b""
    for one in collections:
        table += struct.pack("<QQ", at, len(one))
        at += len(one)
    return b"HGLS" + struct.pack("<B3xI", 1, len(parts)) + table + b"".join(collections), places


def _encode_collection(objects: list[bytes]) -> bytes:
    body = b"".join(
        struct.pack("<HH4xQ", index, 1, len(data)) + data.ljust(-(-len(data) // 8) * 8, b"\0")
        for index, data in enumerate(objects, 1)
    )
    return b"GCOL" + struct.pack("<B3xQ", 1, COLLECTION_HEAD + len(body)) + body


def encode_reference(count: int, place: tuple[int, int]) -> bytes:
    """The reference stored in an element: number of items, slot, index."""
    return struct.pack("<IHH8x", count, *place)
