"""Messages of object headers, read past the HDF5 library: what it would die of, or never come back from, is seen there.

What makes no sense is passed over: the library is the judge of it. `format/headers.py` reads headers for what they say.

| header | begins | each message, before its data |
| --- | --- | --- |
| version 1 | version, 0, messages (2), references (4), bytes (4), 0 (4) | type (2), bytes (2), flags, 0 (3) |
| version 2 | `OHDR`, 2, flags; times (16), limits (4) by flags; bytes (1 to 8) | type, bytes (2), flags, order (2) |
| more of 1 | | the same |
| more of 2 | `OCHK` | the same; a checksum (4) at the end |
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from h5py import h5f, h5g, h5i

from colonnade.h5 import capi
from colonnade.pager.journal import JOURNALED
from colonnade.pager.sources import LocalBytes

OLD_FILL, FILL, EXTERNAL, LAYOUT, PIPELINE, ATTRIBUTE, SYMBOL_TABLE = 0x04, 0x05, 0x07, 0x08, 0x0B, 0x0C, 0x11
_CONTINUATION = 0x10
_MOST_BYTES = 1 << 19  # of a header that are looked at: its parts may form a circle
_EIGHT_BYTES = (8, 8)
FARTHEST = 1 << 62  # an address behind the end of any file; sums with it still fit
_MOST_FILES = 1000
ReadAt = Callable[[int, int], bytes]
_READERS: dict[tuple[int, int], ReadAt | None] = {}


def bytes_of(node: Any) -> ReadAt | None:
    """What reads the bytes of the file that an object is in, as they lie there now; None where they cannot be read."""
    number = h5g.get_objinfo(node).fileno  # HDF5 gives each file that it opens another
    journaled = JOURNALED.get(number)
    if journaled is not None:
        return journaled.read_at
    if number not in _READERS:
        if len(_READERS) >= _MOST_FILES:
            _READERS.clear()
        _READERS[number] = _reader_of(h5i.get_file_id(node))
    return _READERS[number]


def is_frozen(node: Any) -> bool:
    """Whether the bytes of the file that an object is in are of one state: not written to since it was opened."""
    journaled = JOURNALED.get(h5g.get_objinfo(node).fileno)
    if journaled is not None:
        return journaled.is_untouched
    return bool(h5i.get_file_id(node).get_intent() == h5f.ACC_RDONLY)


def _reader_of(file_id: Any) -> ReadAt | None:
    creation = file_id.get_create_plist()
    if file_id.get_intent() != h5f.ACC_RDONLY or creation.get_sizes() != _EIGHT_BYTES:
        return None
    begin = int(creation.get_userblock())
    descriptor = capi.descriptor_of(file_id)
    if descriptor is not None:
        source = LocalBytes(descriptor, os.fsdecode(h5f.get_name(file_id)))
        return lambda at, n_bytes: source.read_at(begin + at, n_bytes)
    path = Path(os.fsdecode(h5f.get_name(file_id)))
    return partial(_read_by_path, path, begin) if path.is_file() else None


def _read_by_path(path: Path, begin: int, at: int, n_bytes: int) -> bytes:
    try:
        with path.open("rb") as file:
            return LocalBytes(file.fileno(), str(path)).read_at(begin + at, n_bytes)
    except OSError:
        return b""


def address_of(node: Any) -> int:
    """Where the header of an object is."""
    return address_in(h5g.get_objinfo(node))


def address_in(found: Any) -> int:
    """The same by what is known of an object. H5Oget_info would say so too, but walks over all chunks on the way."""
    low, high = found.objno
    return int(low) + (int(high) << 32)


def messages(read_at: ReadAt, address: int) -> Iterator[tuple[int, bytes]]:
    """The messages of the header at this address, with their types, as far as they make sense."""
    head = read_at(address, 64) if address < FARTHEST else b""
    if head[:4] == b"OHDR":
        flags = head[5] if len(head) > 5 else 0
        begin = 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
        width = 1 << (flags & 3)
        size = int.from_bytes(head[begin : begin + width], "little")
        place, before, front = address + begin + width, 6 if flags & 0x04 else 4, b"OCHK"
    elif head[:2] == b"\1\0":
        size, place, before, front = int.from_bytes(head[8:12], "little"), address + 16, 8, b""
    else:
        return
    parts, left = [(place, size, 0)], _MOST_BYTES
    while parts and left > 0:
        at, length, skipped = parts.pop()
        part = read_at(at, min(length, left)) if at < FARTHEST else b""
        left -= len(part) + 1
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
