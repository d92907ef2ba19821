"""The mark of an incomplete commit: bytes after the end of a file that name the journal that undoes it.

While pages of a file are being overwritten, its last bytes are a mark. So a file that was moved, copied or renamed
after a crash without its journal is still recognized. HDF5 ignores bytes after the end given in the superblock, in
every superblock version; colonnade looks for a mark before it opens a file.

If the file still grows, its mark ends at a multiple of `Limits.mark_stride`, and moves to a later multiple before bytes
are written over it: the new mark is synced before the old one is erased. So if a file of such a length does not end
with a mark, a power cut may have left the new length without the new mark, and the old mark is at an earlier multiple.

| mark | bytes | what |
| --- | --- | --- |
| | 16 | `89 43 4f 4c 48 41 4c 46 ...`: the magic |
| | 8 | offset of the mark: a copy of it elsewhere is not a mark |
| | 16 | the id of the journal |
| | 8 | the length of the journal when the mark was set: this much of it must be intact |
| | 256 | the name of the journal, as a Pascal string |
| | 4 | CRC-32 of all that |
"""

from __future__ import annotations

import os
import struct
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from colonnade import limits
from colonnade.dataclass import dataclass
from colonnade.pager.checksum import crc32

if TYPE_CHECKING:
    from colonnade.pager.sources import ByteSource

_MAGIC = b"\x89COLHALF\r\n\x1a\n\x00\x00\x00\x01"
_MARK = struct.Struct("<16sQ16sQ256p")
_CHECK = struct.Struct("<I")
MARK_BYTES = _MARK.size + _CHECK.size
_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_LARGEST_USER_BLOCK = 1 << 40


@dataclass(frozen=True)
class Mark:
    """Which journal undoes an incomplete commit."""

    journal_id: bytes
    journal_length: int
    journal_name: str


def pack_mark(mark: Mark, offset: int) -> bytes:
    """The bytes of a mark to be written at an offset."""
    name = os.fsencode(mark.journal_name)[:255]
    content = _MARK.pack(_MAGIC, offset, mark.journal_id, mark.journal_length, name)
    return content + _CHECK.pack(crc32(content))


def place_with_room(stop: int) -> int:
    """The offset for a mark that leaves the bytes before `stop` free."""
    stride = limits.now.mark_stride
    return -(-(stop + MARK_BYTES) // stride) * stride - MARK_BYTES


def mark_in(file: ByteSource) -> Mark | None:
    """The mark in a file; None if there is none."""
    mark = _mark_before(file, file.size)
    stride = limits.now.mark_stride
    is_moved = mark is None and file.size % stride == 0
    if (mark is None and not is_moved) or _is_data(file):
        return None
    earlier = range(file.size - stride, 0, -stride) if is_moved else ()
    return next((moved for end in earlier if (moved := _mark_before(file, end)) is not None), mark)


def _mark_before(file: ByteSource, end: int) -> Mark | None:
    return _parse_mark(file.read_at(end - MARK_BYTES, MARK_BYTES), end) if end > MARK_BYTES else None


def _parse_mark(content: bytes, end: int) -> Mark | None:
    body = content[: _MARK.size]
    if not body.startswith(_MAGIC) or content[_MARK.size :] != _CHECK.pack(crc32(body)):
        return None
    _, offset, journal_id, length, name = _MARK.unpack(body)
    return Mark(journal_id, length, os.fsdecode(name)) if offset == end - MARK_BYTES else None


def _is_data(file: ByteSource) -> bool:
    """Whether, by the superblock, HDF5's data ends with the file: then bytes that look like a mark are data."""
    at = 0
    while at < min(file.size, _LARGEST_USER_BLOCK):
        head = file.read_at(at, 96)
        if head.startswith(_SIGNATURE):
            version = head[8]
            width = head[13] if version < 2 else head[9]
            first = {0: 24, 1: 28}.get(version, 12)  # offset of: base address, another address, end of file
            return int.from_bytes(head[first + 2 * width : first + 3 * width], "little") == file.size
        at = at * 2 or 512
    return False


@lru_cache(maxsize=256)  # called before and after every read
def journal_path(path: Path) -> Path:
    return path.with_name(path.name + "-journal")
