"""Object headers: the messages that describe an object (format specification IV.A.1).

| version 1 | bytes | | version 2 | bytes |
| --- | --- | --- | --- | --- |
| version 1, 0 | 1 + 1 | | `OHDR` | 4 |
| number of messages | 2 | | version 2 | 1 |
| reference count | 4 | | flags | 1 |
| bytes of messages here | 4 | | times, if flags bit 5 | 16 |
| 0 | 4 | | limits of attributes, if flags bit 4 | 4 |
| messages | | | bytes of messages here | 1 << (flags & 3) |
| | | | messages, gap, checksum | ... 4 |

A message: type (2, or 1 in version 2), bytes (2), flags (1), 3 zero bytes (version 1) or a creation order (2; version
2 with header flags bit 2: the order of attributes is tracked), data. Message 0x10 points to more: address, length; in
version 2 these begin with `OCHK` and end with a checksum.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from colonnade.format.source import CHECKSUM, Fields, HDF5Source, with_checksum

NIL, DATASPACE, LINK_INFO, DATATYPE, OLD_FILL, FILL, LINK, EXTERNAL = 0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07
LAYOUT, PIPELINE, ATTRIBUTE, COMMENT, CONTINUATION, SYMBOL_TABLE = 0x08, 0x0B, 0x0C, 0x0D, 0x10, 0x11
MODIFIED, ATTRIBUTE_INFO, REFERENCE_COUNT, SECTION_PIPELINE = 0x12, 0x15, 0x16, 0x19
SHARED = 0x02  # flag of a message that only points to the actual message
_IN_HEADER = 2  # the shared message is in another object's header, as the message of the same type
_FAIL_IF_UNKNOWN = 0x80  # flag of a message without which the object makes no sense
_USUAL_BYTES = 512  # most headers have fewer bytes, and are read at once
_MOST_BEFORE_TYPE = 256  # messages before the datatype in the header of a committed one, in which it is the first
_MOST_MESSAGES = 1 << 17  # of one header; a header of version 1 counts up to half as many
_PREFIX_1, _PREFIX_2, _PREFIX_2_ORDERED = struct.Struct("<HHB3x"), struct.Struct("<BHB"), struct.Struct("<BHBH")


class Message(NamedTuple):
    """One message of an object header. `at` is the address of its data; `order` its creation order, where tracked."""

    type: int
    flags: int
    data: bytes
    at: int
    order: int | None = None


class _Block(NamedTuple):
    """Messages that are stored together: bytes, their address, where the first message starts, and their prefix."""

    data: bytes
    address: int
    first: int
    prefix: struct.Struct


def read_messages(source: HDF5Source, address: int) -> list[Message]:
    """All messages of the object header at an address; shared messages are resolved."""
    return [
        _resolve(source, message, address) if message.flags & SHARED and message.type == DATATYPE else message
        for message in iter_messages(source, address)
    ]


def reference_count(source: HDF5Source, address: int, messages: list[Message]) -> int:
    """The number of hard links to an object."""
    head = source.read_up_to(address, 8, "object header")
    if head[:4] != b"OHDR":
        return int.from_bytes(head[4:8], "little")
    message = find(messages, REFERENCE_COUNT)
    return 1 if message is None else int.from_bytes(message.data[1:5], "little")


def fields_of(source: HDF5Source, message: Message, what: str) -> Fields:
    """The fields of a message in its own place, and not in the file's table of shared messages."""
    check_own(source, message, what)
    return source.as_fields(message.data, what, message.at)


def check_own(source: HDF5Source, message: Message, what: str) -> None:
    """Raise if a message is in the file's table of shared messages."""
    if message.flags & SHARED:
        raise source.as_fields(message.data, what, message.at).unknown("a table of shared messages")


def find(messages: list[Message], kind: int) -> Message | None:
    """The first message of a type."""
    for message in messages:
        if message.type == kind:
            return message
    return None


def iter_messages(source: HDF5Source, address: int, most_bytes: int | None = None) -> Iterator[Message]:
    """The messages of an object header, one by one, as stored; a CorruptError at the first one that makes no sense.

    most_bytes: of continuation blocks that are read; the default is the size of the file. A header that needs more is
    a CorruptError too: blocks may overlap without end.
    """
    block = _open(source, address)
    blocks: deque[tuple[int, int]] = deque()
    seen: set[int] = set()
    budget = source.fits if most_bytes is None else most_bytes
    n_messages = 0
    while True:
        for message in _decode_block(source, block):
            if message.type == CONTINUATION:
                more = source.as_fields(message.data, "continuation message", message.at)
                blocks.append((more.address() or 0, more.length()))
            elif message.type > SECTION_PIPELINE and message.flags & _FAIL_IF_UNKNOWN:
                raise source.as_fields(b"", "object header", address).unknown(f"messages of type {message.type}")
            elif message.type != NIL:
                yield message
            n_messages += 1
            if n_messages > _MOST_MESSAGES:
                raise source.wrong("object header", address, f"has more than {_MOST_MESSAGES} messages")
        if not blocks:
            return
        begin, length = blocks.popleft()
        budget -= max(length, 1)
        if budget < 0 or begin in seen:
            text = "is continued in more bytes than the file has, or in the same bytes again"
            raise source.wrong("object header", block.address, text)
        seen.add(begin)
        block = _open_block(source, block.prefix, begin, length)


def _open(source: HDF5Source, address: int) -> _Block:
    """The first messages of a header."""
    head = source.read_up_to(address, _USUAL_BYTES, "object header")
    fields = source.as_fields(head, "object header", address)
    if head[:1] == b"\x01":
        fields.take(8)
        return _Block(_up_to(source, head, address, 16 + fields.number(4)), address, 16, _PREFIX_1)
    fields.expect(b"OHDR", "the signature")
    fields.version(2)
    flags = fields.number(1)
    fields.take((16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0))
    size = fields.number(1 << (flags & 3))
    whole = _up_to(source, head, address, fields.at + size + CHECKSUM)
    prefix = _PREFIX_2_ORDERED if flags & 4 else _PREFIX_2
    return _Block(source.verified(whole, address, "object header"), address, fields.at, prefix)


def _up_to(source: HDF5Source, head: bytes, address: int, n_bytes: int) -> bytes:
    """The first `n_bytes` bytes of a header, of which some were read."""
    return head[:n_bytes] if n_bytes <= len(head) else source.read(address, n_bytes, "object header")


def _open_block(source: HDF5Source, prefix: struct.Struct, address: int, length: int) -> _Block:
    """The messages of a continuation block."""
    what = "object header continuation"
    data = source.read(address, length, what)
    if prefix is _PREFIX_1:
        return _Block(data, address, 0, prefix)
    data = source.verified(data, address, what)
    source.as_fields(data, what, address).expect(b"OCHK", "the signature")
    return _Block(data, address, 4, prefix)


def _decode_block(source: HDF5Source, block: _Block) -> Iterator[Message]:
    data, at, lead, unpack = block.data, block.first, block.prefix.size, block.prefix.unpack_from
    end = len(data)
    while at + lead <= end:
        kind, size, flags, *order = unpack(data, at)
        at += lead
        if at + size > end:
            text = f"ends inside the message at byte {block.address + at}, of {size} bytes"
            raise source.wrong("object header", block.address, text)
        yield Message(kind, flags, data[at : at + size], block.address + at, *order)
        at += size


def _resolve(source: HDF5Source, message: Message, address: int) -> Message:
    """The actual message of a shared datatype, which is in another object's header: a committed datatype."""
    return follow_shared(source, source.as_fields(message.data, "datatype message", message.at), address)


def follow_shared(source: HDF5Source, fields: Fields, address: int | None = None) -> Message:
    """The datatype that a shared message, of the object at `address` if given, points to."""
    version = fields.version(1, 2, 3)
    where = fields.number(1)
    if version == 3 and where != _IN_HEADER:
        raise fields.unknown("a table of shared messages")
    if version == 1:
        fields.take(6)
    target = fields.address()
    if target is None or target == address:
        raise fields.wrong("leads nowhere")
    for message in islice(iter_messages(source, target), _MOST_BEFORE_TYPE):  # many attributes may point to it
        if message.type == DATATYPE and not message.flags & SHARED:
            return message
    raise fields.wrong(f"points to byte {target}, where there is no datatype")


def encode_header(messages: list[tuple[int, int, bytes]]) -> bytes:
    """An object header of version 2 in one block, from types, flags and data of messages."""
    body = b"".join(struct.pack("<BHB", kind, len(data), flags) + data for kind, flags, data in messages)
    width = next(number for number in range(4) if len(body) < 1 << (8 << number))
    return with_checksum(b"OHDR" + bytes((2, width)) + len(body).to_bytes(1 << width, "little") + body)
