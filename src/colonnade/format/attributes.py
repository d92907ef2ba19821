"""Attributes in object headers and in heaps (format spec. IV.A.2.m, v).

| message 0x0C, version 3 | bytes | | versions 1 and 2 | | message 0x15, attribute info | bytes |
| --- | --- | --- | --- | --- | --- | --- |
| version 3 | 1 | | the same, without the character set; | | version 0 | 1 |
| flags: bit 0 the datatype is shared | 1 | | version 1 has no flags, and pads | | flags | 1 |
| bytes of name, datatype, dataspace | 2 each | | name, type and space to 8 | | greatest order, if flags bit 0 | 2 |
| character set | 1 | | | | fractal heap | O |
| name with NUL, datatype, dataspace | | | | | B-tree by name | O |
| elements | | | | | B-tree by order, if flags bit 1 | O |

Written: version 3 in the header, fixed-length strings. Read: also variable-length strings, whose bytes are in the
file's global heap, and attributes in a fractal heap (dense storage, used when there are many).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from colonnade.dataclass import dataclass
from colonnade.errors import DataError, UnsupportedError
from colonnade.format.dataspace import decode_extent, encode_extent
from colonnade.format.datatype import decode_datatype, encode_datatype
from colonnade.format.fractal_heap import NamedForm, read_named
from colonnade.format.headers import ATTRIBUTE, ATTRIBUTE_INFO, SHARED, Message, follow_shared
from colonnade.format.heap_set import decode_collection
from colonnade.format.source import Fields, HDF5Source
from colonnade.format.values import decode_values
from colonnade.model import StoredType

LARGEST = 65_000  # the largest message, in bytes, that a header holds
# A record: heap id, flags (1), order (4), hash (4).
_FORM = NamedForm("attribute", order_bytes=2, tree=8, before=0, behind=9)


def read_attributes(source: HDF5Source, messages: list[Message]) -> dict[str, Any]:
    """Name and value of every attribute, from the messages of an object header."""
    heap = GlobalHeap(source)
    return dict(decode_attribute(source, data, flags, heap) for data, flags in stored_attributes(source, messages))


def stored_attributes(source: HDF5Source, messages: list[Message]) -> Iterator[tuple[bytes, int]]:
    """The bytes and the message flags of each attribute."""
    for message in messages:
        if message.type == ATTRIBUTE:
            yield message.data, message.flags
        elif message.type == ATTRIBUTE_INFO:
            for data, tail in read_named(source, message, _FORM):
                yield data, tail[0]


@dataclass(frozen=True)
class StoredAttribute:
    """A parsed attribute. raw: name with NUL, datatype, dataspace, elements; shape is None for a null dataspace."""

    name: str
    type: StoredType
    shape: tuple[int, ...] | None
    raw: tuple[bytes, bytes, bytes, bytes]


def parse_attribute(source: HDF5Source, data: bytes, flags: int) -> StoredAttribute:
    """The parts of an attribute, from its message; see the table at the top of this file."""
    fields = source.as_fields(data, "an attribute")
    if flags & SHARED:
        raise UnsupportedError(
            f"{source.name}: cannot read an attribute in the file's heap of shared messages",
            feature="shared attribute",
        )
    version = fields.version(1, 2, 3)
    shared = bool(fields.number(1) & 1) and version > 1
    sizes = [fields.number(2) for _ in range(3)]
    fields.take(1 if version == 3 else 0)
    text, kind, space = (fields.take(-(-size // 8) * 8 if version == 1 else size)[:size] for size in sizes)
    name = text.split(b"\0")[0].decode("utf-8", "surrogateescape")
    fields.what = f"attribute {name!r}"
    kind = _type_bytes(source, kind, shared)
    stored = decode_datatype(source.as_fields(kind, fields.what))
    shape = decode_extent(source.as_fields(space, fields.what), source.length_size)
    count = 0 if shape is None else prod(shape)
    if count > fields.left:  # checked before the count is multiplied or trusted
        raise fields.wrong(f"claims {count} elements in {fields.left} bytes")
    return StoredAttribute(name, stored, shape, (text, kind, space, fields.take(count * stored.size)))


def decode_attribute(source: HDF5Source, data: bytes, flags: int, heap: GlobalHeap) -> tuple[str, Any]:
    """The name and the value of an attribute; None for a null dataspace."""
    parts = parse_attribute(source, data, flags)
    if parts.shape is None:
        return parts.name, None
    return parts.name, _shown(decode_values(parts.raw[3], parts.type, heap), parts.type, parts.shape)


def _type_bytes(source: HDF5Source, data: bytes, shared: bool) -> bytes:
    if not shared:
        return data
    return follow_shared(source, source.as_fields(data, "the datatype of an attribute")).data


def _shown(values: Any, stored: StoredType, shape: tuple[int, ...]) -> Any:
    """A scalar as a scalar, string elements as str."""
    if stored.kind == "string":
        values = np.array(
            [value.rstrip(b" " if stored.padding == "space" else b"\0") for value in values], dtype=object
        )
        values = np.array([value.decode("utf-8", "surrogateescape") for value in values], dtype=object)
    if not shape:
        return values[0]
    return values.reshape(*shape, *values.shape[1:])


class GlobalHeap:
    """The global heap of a file, which holds the variable-length values of attributes."""

    def __init__(self, source: HDF5Source) -> None:
        self._source = source
        self._known: dict[int, dict[int, memoryview]] = {}

    def read(self, reference: bytes, item_size: int) -> tuple[int, memoryview]:
        """The number of items that a reference points to, and their bytes."""
        count, address, index = struct.unpack("<IQI", reference)
        if not count and not address:
            return 0, memoryview(b"")
        if address not in self._known:
            head = self._source.fields(address, 16, "global heap collection")
            head.take(8)
            data = self._source.read(address, head.number(8), "global heap collection")
            what = self._source.as_fields(b"", f"the global heap at byte {address}")
            self._known[address] = decode_collection(memoryview(data), what)
        stored = self._known[address].get(index)
        if stored is None or len(stored) < count * item_size:
            what = self._source.as_fields(b"", f"global heap collection at byte {address}")
            raise what.wrong(f"has no object {index} of {count * item_size} bytes")
        return count, stored[: count * item_size]


def name_of(data: bytes, source_name: str) -> str:
    """The name of an attribute, from its message."""
    fields = Fields(data, "an attribute", source_name)
    version = fields.version(1, 2, 3)
    fields.take(1)
    size = fields.number(2)
    fields.take(5 if version == 3 else 4)
    return fields.take(size).split(b"\0")[0].decode("utf-8", "surrogateescape")


def encode_attribute(name: str, stored: StoredType, shape: tuple[int, ...], data: bytes) -> bytes:
    """A message of version 3; `data` are the elements. Raises a DataError if a header cannot hold it."""
    text, kind, space = name.encode("utf-8", "surrogateescape") + b"\0", encode_datatype(stored), encode_extent(shape)
    if len(text) + len(kind) + len(space) + len(data) > LARGEST:
        raise DataError(f"attribute {name!r} has {len(data):,} bytes; a header holds at most {LARGEST:,}")
    return join_attribute(text, kind, space, data)


def join_attribute(text: bytes, kind: bytes, space: bytes, data: bytes) -> bytes:
    """A message of version 3 from its parts: name with NUL, datatype, dataspace, elements."""
    return struct.pack("<BBHHHB", 3, 0, len(text), len(kind), len(space), 1) + text + kind + space + data
