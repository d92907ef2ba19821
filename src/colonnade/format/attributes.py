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
from collections.abc import Iterator
from typing import NamedTuple

from colonnade.format.fractal_heap import NamedForm, read_named
from colonnade.format.headers import ATTRIBUTE, ATTRIBUTE_INFO, Message
from colonnade.format.source import Fields, Source

# A record: heap id, flags (1), order (4), hash (4).
_FORM = NamedForm("attribute", order_bytes=2, tree=8, before=0, behind=9)


class AttributeMessage(NamedTuple):
    """An attribute cut into its parts, none of which is decoded; `elements` is all that follows the dataspace."""

    name: bytes  # with NUL
    is_type_shared: bool
    datatype: bytes
    dataspace: bytes
    elements: bytes


def iter_attributes(source: Source, messages: list[Message]) -> Iterator[tuple[bytes, int]]:
    """The bytes and the message flags of each attribute, in the header or in a heap."""
    for message in messages:
        if message.type == ATTRIBUTE:
            yield message.data, message.flags
        elif message.type == ATTRIBUTE_INFO:
            for data, tail in read_named(source, message, _FORM):
                yield data, tail[0]


def decode_attribute(fields: Fields) -> AttributeMessage:
    """See the table at the top of this file."""
    version = fields.version(1, 2, 3)
    is_shared = bool(fields.number(1) & 1) and version > 1
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
