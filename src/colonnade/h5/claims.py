"""What attributes of variable length claim, looked at before the HDF5 library takes memory for it.

As for datasets (`lengths`), but the library does not tell where an attribute's bytes are: they are looked for in the
header of its object, whose parts are followed here. Where they are not found there (very many attributes are kept
elsewhere) or the header makes no sense, nothing is said.

| header | begins | each message, before its data |
| --- | --- | --- |
| version 1 | version, 0, messages (2), references (4), bytes (4), 0 (4) | type (2), bytes (2), flags, 0 (3) |
| version 2 | `OHDR`, 2, flags; times (16), limits (4) by flags; bytes (1 to 8) | type, bytes (2), flags, order (2) |
| more of 1 | | the same |
| more of 2 | `OCHK` | the same; a checksum (4) at the end |
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from h5py import h5f, h5fd, h5g, h5i

from colonnade.h5 import capi

REFERENCE = np.dtype([("length", "<u4"), ("address", "<u8"), ("index", "<u4")])
"""An element of variable length in a file, where addresses have 8 bytes."""
SMALL = 1 << 26  # bytes of an element that are not worth the question whether the file has them
_MOST_PARTS = 256  # of a header
_LONGEST_PART = 1 << 20
_EIGHT_BYTES = (8, 8)
_ATTRIBUTE, _CONTINUATION = 0x0C, 0x10


def check_attribute(node: Any, name: bytes, count: int) -> None:
    """An OSError, as the library would raise it, when an element of an attribute claims more than the file has."""
    file_id = h5i.get_file_id(node)
    creation = file_id.get_create_plist()
    if file_id.get_intent() != h5f.ACC_RDONLY or file_id.get_access_plist().get_driver() != h5fd.SEC2:
        return
    if creation.get_userblock() or creation.get_sizes() != _EIGHT_BYTES:
        return
    descriptor = int(file_id.get_vfd_handle())
    low, high = h5g.get_objinfo(node).objno
    most = max(os.fstat(descriptor).st_size, SMALL)
    for kind, message in _messages(descriptor, low | high << 32):
        data = _value(message, name + b"\0") if kind == _ATTRIBUTE else b""
        held = np.frombuffer(data[: len(data) // REFERENCE.itemsize * REFERENCE.itemsize], REFERENCE)[:count]
        if int(held["length"].max(initial=0)) > most:
            capi.refuse("read an attribute", "it claims more bytes than the file has")


def _messages(descriptor: int, address: int) -> Iterator[tuple[int, bytes]]:
    """The messages of the header at this address, with their types, as far as they make sense."""
    head = os.pread(descriptor, 64, address)
    if head[:4] == b"OHDR":
        flags = head[5]
        begin = 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
        width = 1 << (flags & 3)
        size = int.from_bytes(head[begin : begin + width], "little")
        place, before, front = address + begin + width, 6 if flags & 0x04 else 4, b"OCHK"
    else:
        size, place, before, front = int.from_bytes(head[8:12], "little"), address + 16, 8, b""
    parts, seen = [(place, size, 0)], 0
    while parts and seen < _MOST_PARTS:
        at, length, skipped = parts.pop()
        seen += 1
        part = os.pread(descriptor, min(length, _LONGEST_PART), at) if at < 1 << 62 else b""
        for kind, message in _cut(part[skipped : len(part) - (4 if skipped else 0)], before):
            if kind == _CONTINUATION and len(message) >= 16:
                target, more = (int.from_bytes(message[i : i + 8], "little") for i in (0, 8))
                parts.append((target, more, len(front)))
            yield kind, message


def _cut(part: bytes, before: int) -> Iterator[tuple[int, bytes]]:
    """The messages of a part of a header; each has so many bytes before its data."""
    at, first = 0, 2 if before == 8 else 1
    while at + before <= len(part):
        kind = int.from_bytes(part[at : at + first], "little")
        size = int.from_bytes(part[at + first : at + first + 2], "little")
        yield kind, part[at + before : at + before + size]
        at += before + size


def _value(message: bytes, name: bytes) -> bytes:
    """The elements of an attribute by its message; nothing of one that has another name."""
    version = message[0] if message else 0
    if version not in (1, 2, 3) or len(message) < 9:
        return b""
    sizes = [int.from_bytes(message[at : at + 2], "little") for at in (2, 4, 6)]
    begin, unit = 9 if version == 3 else 8, 8 if version == 1 else 1
    if message[begin : begin + sizes[0]] != name:
        return b""
    return message[begin + sum(-(-size // unit) * unit for size in sizes) :]
