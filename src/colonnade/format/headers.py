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
2 with header flags bit 2), data. Message 0x10 points to more: address, length; in version 2 these begin with `OCHK`
and end with a checksum.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator

from colonnade.dataclass import dataclass
from colonnade.format.source import CHECKSUM, Fields, HDF5Source, with_checksum

NIL, DATASPACE, LINK_INFO, DATATYPE, OLD_FILL, FILL, LINK, LAYOUT = 0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x08
PIPELINE, ATTRIBUTE, COMMENT, CONTINUATION, SYMBOL_TABLE = 0x0B, 0x0C, 0x0D, 0x10, 0x11
MODIFIED, ATTRIBUTE_INFO, SECTION_PIPELINE = 0x12, 0x15, 0x19
SHARED = 0x02  # flag of a message that only points to the actual message
_IN_HEADER = 2  # the shared message is in another object's header, as the message of the same type


@dataclass(frozen=True, slots=True)
class Message:
    """One message of an object header. `at` is the address of its data."""

    type: int
    flags: int
    data: bytes
    at: int


@dataclass(frozen=True, slots=True)
class _Form:
    """The format of the prefix of each message in one header."""

    version: int
    with_order: bool = False

    @property
    def lead(self) -> int:
        return 8 if self.version == 1 else 6 if self.with_order else 4


def read_messages(source: HDF5Source, address: int) -> list[Message]:
    """All messages of the object header at an address; shared messages are resolved."""
    return [_resolve(source, message, address) for message in _messages(source, address)]


def find(messages: list[Message], kind: int) -> Message | None:
    """The first message of a type."""
    return next((message for message in messages if message.type == kind), None)


def _messages(source: HDF5Source, address: int) -> list[Message]:
    form, fields, start = _open(source, address)
    found: list[Message] = []
    blocks: deque[tuple[int, int]] = deque()
    budget = source.fits  # otherwise overlapping blocks could be read forever
    while True:
        for message in _decode_block(fields, form, start):
            if message.type == CONTINUATION:
                more = source.as_fields(message.data, f"continuation message at byte {message.at}")
                blocks.append((more.address() or 0, more.length()))
            elif message.type != NIL:
                found.append(message)
        if not blocks:
            return found
        begin, length = blocks.popleft()
        budget -= max(length, 1)
        if budget < 0:
            raise fields.wrong("is continued in more bytes than the file has")
        start, fields = _open_block(source, form, begin, length)


def _open(source: HDF5Source, address: int) -> tuple[_Form, Fields, int]:
    """The form of a header, its first messages, and the address that their offsets are relative to."""
    head = source.read(address, min(32, max(source.fits - address, 0)), "object header")
    fields = source.as_fields(head, f"object header at byte {address}")
    if head[:1] == b"\x01":
        fields.take(8)
        size = fields.number(4)
        return _Form(1), source.fields(address + 16, size, "object header"), address + 16
    fields.expect(b"OHDR", "the signature")
    fields.version(2)
    flags = fields.number(1)
    fields.take((16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0))
    size = fields.number(1 << (flags & 3))
    lead = fields.at
    whole = source.summed(address, lead + size + CHECKSUM, "object header")
    whole.take(lead)
    return _Form(2, bool(flags & 4)), whole, address


def _open_block(source: HDF5Source, form: _Form, address: int, length: int) -> tuple[int, Fields]:
    """The address that offsets in a continuation block are relative to, and its messages."""
    if form.version == 1:
        return address, source.fields(address, length, "object header continuation")
    fields = source.summed(address, length, "object header continuation")
    fields.expect(b"OCHK", "the signature")
    return address, fields


def _decode_block(fields: Fields, form: _Form, start: int) -> Iterator[Message]:
    while fields.left >= form.lead:
        if form.version == 1:
            kind, size, flags = fields.number(2), fields.number(2), fields.number(1)
            fields.take(3)
        else:
            kind, size, flags = fields.number(1), fields.number(2), fields.number(1)
            fields.take(2 if form.with_order else 0)
        at = start + fields.at
        yield Message(kind, flags, fields.take(size), at)


def _resolve(source: HDF5Source, message: Message, address: int) -> Message:
    """The actual message of a shared one, which is in another object's header: a committed datatype."""
    if not message.flags & SHARED or message.type != DATATYPE:
        return message
    return follow_shared(source, source.as_fields(message.data, f"shared message at byte {message.at}"), address)


def follow_shared(source: HDF5Source, fields: Fields, address: int | None = None) -> Message:
    """The datatype that a shared message, of the object at `address` if given, points to."""
    version = fields.version(1, 2, 3)
    where = fields.number(1)
    if version == 3 and where != _IN_HEADER:
        raise fields.wrong("is in the file's heap of shared messages, which is not supported here")
    if version == 1:
        fields.take(6)
    target = fields.address()
    if target is None or target == address:
        raise fields.wrong("leads nowhere")
    for one in _messages(source, target):
        if one.type == DATATYPE and not one.flags & SHARED:
            return one
    raise fields.wrong(f"points to byte {target}, where there is no datatype")


def encode_header(messages: list[tuple[int, int, bytes]]) -> bytes:
    """An object header of version 2 in one block, from types, flags and data of messages."""
    body = b"".join(struct.pack("<BHB", kind, len(data), flags) + data for kind, flags, data in messages)
    width = next(number for number in range(4) if len(body) < 1 << (8 << number))
    return with_checksum(b"OHDR" + bytes((2, width)) + len(body).to_bytes(1 << width, "little") + body)
