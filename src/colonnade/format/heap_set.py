"""The heap section of variable-length chunks, as the prototype writes it (facts 3.6). Experimental.

| section | bytes | | reference in an element | bytes |
| --- | --- | --- | --- | --- |
| `HGLS` | 4 | | number of items | 4 |
| version 1, 0 | 1 + 3 | | slot | 2 |
| slots | 4 | | object in the slot's collection | 2 |
| each slot: offset in the section, length (0, 0: unused) | 8 + 8 | | 0 | 8 |
| collections | | | | |

A collection has the form of those in the global heap (see `global_heap`). Slot 0 and object 0 together mean no value.
"""

from __future__ import annotations

import struct
from typing import Protocol

from colonnade.format.global_heap import COLLECTION_HEAD, decode_collection
from colonnade.format.source import Fields

REFERENCE = 16  # bytes of a reference in an element
_MOST_OBJECTS = 65_535  # in a collection: an index has two bytes


class Heap(Protocol):
    """Stores the bytes of variable-length values."""

    def read(self, reference: bytes, item_size: int) -> tuple[int, memoryview]:
        """The number of items that a reference points to, and their bytes."""
        ...


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
