"""Attribute messages (format specification IV.A.2.m), and attributes in a heap (IV.A.2.v).

| message 0x0C, version 3 | bytes | | versions 1 and 2 | | message 0x15, attribute info | bytes |
| --- | --- | --- | --- | --- | --- | --- |
| version 3 | 1 | | the same, without the character set; | | version 0 | 1 |
| flags: bit 0 the datatype is shared | 1 | | version 1 has no flags, and pads | | flags | 1 |
| bytes of name, datatype, dataspace | 2 each | | name, type and space to 8 | | greatest order, if flags bit 0 | 2 |
| character set | 1 | | | | fractal heap | O |
| name with NUL, datatype, dataspace | | | | | B-tree by name | O |
| elements | | | | | B-tree by order, if flags bit 1 | O |
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from colonnade.errors import CorruptError, DataError
from colonnade.format.dataspace import decode_dataspace, encode_extent
from colonnade.format.datatype import decode_datatype, encode_datatype
from colonnade.format.fractal_heap import NamedForm, NamedHeap
from colonnade.format.global_heap import GlobalHeap
from colonnade.format.headers import ATTRIBUTE, ATTRIBUTE_INFO, SHARED, Message, follow_shared
from colonnade.format.source import Fields, HDF5Source, UnknownToReader, decode_known
from colonnade.format.values import decode_values
from colonnade.model import StoredType

LARGEST = 65_000  # the largest message, in bytes, that a header holds
# A record: heap id, flags (1), order (4), hash (4).
_FORM = NamedForm("attribute", order_bytes=2, tree=8, before=0, after=9, hash_at=-4)


_SHARED_TYPE, _SHARED_SPACE = 1, 2  # flags of an attribute


class AttributeMessage(NamedTuple):
    """An attribute cut into its parts, none of which is decoded; `elements` is all that follows the dataspace."""

    name: bytes  # with NUL
    is_type_shared: bool
    datatype: bytes
    dataspace: bytes
    elements: bytes


def iter_attributes(source: HDF5Source, messages: list[Message]) -> Iterator[tuple[bytes, int]]:
    """The bytes and the message flags of each attribute, in the header or in a heap."""
    for data, flags, _ in _ordered_attributes(source, messages):
        yield data, flags


def _ordered_attributes(source: HDF5Source, messages: list[Message]) -> Iterator[tuple[bytes, int, int | None]]:
    """The bytes, message flags and creation order of each attribute; the order is None where it is not tracked."""
    for message in messages:
        if message.type == ATTRIBUTE:
            yield message.data, message.flags, message.order
        elif message.type == ATTRIBUTE_INFO:
            heap = NamedHeap(source, message, _FORM)
            for data, tail in heap.read():
                yield data, tail[0], int.from_bytes(tail[1:5], "little") if heap.has_order else None


def read_stored_attributes(source: HDF5Source, messages: list[Message]) -> Iterator[StoredAttribute]:
    """Every attribute, from the messages of an object header."""
    return (parse_attribute(source, data, flags) for data, flags in iter_attributes(source, messages))


def order_of_attributes(source: HDF5Source, messages: list[Message]) -> list[str] | None:
    """The names in the order in which attributes were made; None where that is not tracked."""
    found = [
        (order, parse_attribute(source, data, flags).name)
        for data, flags, order in _ordered_attributes(source, messages)
    ]
    numbered = [(order, name) for order, name in found if order is not None]
    return [name for _, name in sorted(numbered)] if len(numbered) == len(found) else None


def find_attribute(source: HDF5Source, messages: list[Message], name: str) -> StoredAttribute | None:
    """The attribute of this name."""
    key = name.encode("utf-8", "surrogateescape")
    for message in messages:
        found: Iterable[tuple[bytes, int]] = ()
        if message.type == ATTRIBUTE and (key in message.data or message.flags & SHARED):
            found = ((message.data, message.flags),)
        elif message.type == ATTRIBUTE_INFO:
            found = ((data, tail[0]) for data, tail in NamedHeap(source, message, _FORM).find(key))
        for data, flags in found:
            attribute = parse_attribute(source, data, flags)
            if attribute.name == name:
                return attribute
    return None


def attributes_by_name(source: HDF5Source, messages: list[Message]) -> dict[str, tuple[bytes, int]]:
    """The bytes and the message flags of each attribute by its name; not of those whose name cannot be read."""
    named: dict[str, tuple[bytes, int]] = {}
    for data, flags in iter_attributes(source, messages):
        with suppress(CorruptError, UnknownToReader):
            name = attribute_name(decode_attribute(source.as_fields(data, "attribute")))
            named.setdefault(name, (data, flags))
    return named


def decode_attribute(fields: Fields) -> AttributeMessage:
    """See the table at the top of this file."""
    version = fields.version(1, 2, 3)
    flags = fields.number(1)
    is_shared = bool(flags & _SHARED_TYPE) and version > 1
    if flags & _SHARED_SPACE and version > 1:
        raise fields.unknown("a table of shared messages")
    sizes = fields.numbers(3, 2)
    fields.take(1 if version == 3 else 0)
    name, kind, space = (fields.take(-(-size // 8) * 8 if version == 1 else size)[:size] for size in sizes)
    return AttributeMessage(name, is_shared, kind, space, bytes(fields.rest()))


def attribute_name(attribute: AttributeMessage) -> str:
    """The name of an attribute."""
    return attribute.name.split(b"\0")[0].decode("utf-8", "surrogateescape")


def encode_attribute_message(attribute: AttributeMessage) -> bytes:
    """A message of version 3."""
    sizes = [len(part) for part in (attribute.name, attribute.datatype, attribute.dataspace)]
    head = struct.pack("<BBHHHB", 3, 0, *sizes, 1)
    return head + attribute.name + attribute.datatype + attribute.dataspace + attribute.elements


# -- values --


class StoredAttribute(NamedTuple):
    """An attribute with its decoded type and shape; the shape is None for a null dataspace."""

    name: str
    type: StoredType
    shape: tuple[int, ...] | None
    message: AttributeMessage

    def value(self, heap: GlobalHeap) -> object:
        """The value as NumPy has it; `heap` holds what is of variable length."""
        if self.shape is None:
            return None
        return _shown(decode_values(self.message.elements, self.type, heap), self.type, self.shape)


def read_attributes(source: HDF5Source, messages: list[Message]) -> dict[str, object]:
    """Name and value of every attribute, from the messages of an object header."""
    heap = GlobalHeap(source)
    parsed = (parse_attribute(source, data, flags) for data, flags in iter_attributes(source, messages))
    return {attribute.name: attribute.value(heap) for attribute in parsed}


def parse_attribute(source: HDF5Source, data: bytes, flags: int) -> StoredAttribute:
    """An attribute with its type and shape, from its message; its elements are cut to the size of its shape."""
    if flags & SHARED:
        raise source.as_fields(b"", "attribute").unknown("a table of shared messages")
    if len(data) > 1 and data[1] & _SHARED_TYPE and data[0] > 1:
        message = decode_attribute(source.as_fields(data, "attribute"))
        kind = follow_shared(source, source.as_fields(message.datatype, "the datatype of an attribute")).data
        return _parsed(source.as_fields(data, "attribute"), message._replace(is_type_shared=False, datatype=kind))
    return decode_known(source, data, _decode_own, "attribute")


def _decode_own(fields: Fields) -> StoredAttribute:
    """An attribute whose type is in its message."""
    return _parsed(fields, decode_attribute(fields))


def _parsed(fields: Fields, message: AttributeMessage) -> StoredAttribute:
    """An attribute from its parts; `fields` are those of its message."""
    name = attribute_name(message)
    what = f"attribute {name!r}"
    stored = decode_datatype(fields.of_part(message.datatype, what))
    space = decode_dataspace(fields.of_part(message.dataspace, what))
    shape, count = None if space.is_null else space.shape, space.n_elements
    elements = fields.of_part(message.elements, what)
    if count > elements.left:  # checked before the count is multiplied or trusted
        raise elements.wrong(f"claims {count} elements in {elements.left} bytes")
    return StoredAttribute(name, stored, shape, message._replace(elements=elements.take(count * stored.size)))


def _shown(values: np.ndarray, stored: StoredType, shape: tuple[int, ...]) -> object:
    """A scalar as a scalar, string elements as str."""
    if stored.kind == "string":
        values = np.array(
            [value.rstrip(b" " if stored.padding == "space" else b"\0") for value in values], dtype=object
        )
        values = np.array([value.decode("utf-8", "surrogateescape") for value in values], dtype=object)
    if not shape:
        return values[0]
    return values.reshape(*shape, *values.shape[1:])


def encode_attribute(name: str, stored: StoredType, shape: tuple[int, ...], data: bytes) -> bytes:
    """A message of version 3; `data` are the elements. Raises a DataError if a header cannot hold it."""
    text = name.encode("utf-8", "surrogateescape") + b"\0"
    message = AttributeMessage(text, False, encode_datatype(stored), encode_extent(shape), data)
    if sum(len(part) for part in (text, message.datatype, message.dataspace, data)) > LARGEST:
        raise DataError(f"attribute {name!r} has {len(data):,} bytes; a header holds at most {LARGEST:,}")
    return encode_attribute_message(message)
