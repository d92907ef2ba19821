"""What the HDF5 library never comes back from when it opens an object or lists links, looked at before it is asked.

- A group of the old form keeps the names of its links in a local heap, whose free places are a list: where that is a
  circle, the library takes memory for ever.
- The map of a virtual dataset is in the global heap, which is read when the dataset is opened: see `collections`.

Each is an OSError, as the library would raise it.
"""

from __future__ import annotations

from typing import Any

from h5py import h5g, h5l

from colonnade.format.superblock import SIGNATURE
from colonnade.h5 import capi
from colonnade.h5.collections import check_addresses
from colonnade.h5.headers import FARTHEST, LAYOUT, SYMBOL_TABLE, ReadAt, address_of, bytes_of, is_frozen, messages

_VIRTUAL = 3
_END = 1  # of the list of free places
_LONGEST_HEAP = 16 << 20  # bytes of names; in longer ones nothing is looked for
_CIRCLE = "the free places of its names form a circle"
_MOST_KNOWN = 1 << 16
_HARMLESS: set[tuple[Any, ...]] = set()


def check_links(group: Any) -> None:
    """Refuse a group whose local heap the library would read for ever; each is looked at once.

    Not in files that were changed since they were opened: what lies there may be older than what the library knows.
    """
    found = h5g.get_objinfo(group)
    key = (found.fileno, found.objno)
    if key in _HARMLESS:
        return
    read_at = bytes_of(group) if is_frozen(group) else None
    if read_at is not None:
        _check_names(read_at, address_of(group))
    if len(_HARMLESS) >= _MOST_KNOWN:
        _HARMLESS.clear()
    _HARMLESS.add(key)


def check_root(read_at: ReadAt) -> None:
    """The same of the root group, which the library looks at already when it opens a file for changes."""
    head = read_at(0, 100)
    version = head[8] if len(head) == 100 and head[:8] == SIGNATURE else 255
    if version <= 1 and head[13:15] == b"\10\10":
        entry = 56 + 4 * version  # name (8), header (8), 1 where the table and the heap follow (4), 0 (4)
        if _number(head, entry + 16, 4) == 1 and _is_circle(read_at, _number(head, entry + 32)):
            capi.refuse("open the file", _CIRCLE)
        _check_names(read_at, _number(head, entry + 8))
    elif version <= 3 and head[9:11] == b"\10\10":
        _check_names(read_at, _number(head, 36))


def _check_names(read_at: ReadAt, address: int) -> None:
    """Refuse a group, by the address of its header, whose local heap never ends."""
    tables = [message for kind, message in messages(read_at, address) if kind == SYMBOL_TABLE]
    if any(_is_circle(read_at, _number(message, 8)) for message in tables):
        capi.refuse("list links", _CIRCLE)


def _number(data: bytes, at: int, n_bytes: int = 8) -> int:
    return int.from_bytes(data[at : at + n_bytes], "little")


def _is_circle(read_at: ReadAt, address: int) -> bool:
    """Whether the free places of the local heap at an address never end: each holds the place of the next."""
    head = read_at(address, 32) if address < FARTHEST else b""
    size, place, data_address = (_number(head, at) for at in (8, 16, 24))
    if head[:4] != b"HEAP" or not 0 < size <= _LONGEST_HEAP or data_address >= FARTHEST:
        return False
    data = read_at(data_address, size)
    for _ in range(size // 8 + 1):
        if place in (0, _END) or place + 16 > len(data):
            return False  # an end, or bytes that were not written yet, or what the library refuses
        place = _number(data, place)
    return True


def check_object(group: Any, name: bytes) -> None:
    """Refuse a virtual dataset whose map is in a collection that never ends; soft links are not followed."""
    link = group.links.get_info(name)
    if link.type == h5l.TYPE_HARD:
        check_header(group, int(link.u))


def check_header(group: Any, address: int) -> None:
    """Refuse the same by the address of the dataset's header, which is in the file of the group."""
    read_at = bytes_of(group)
    if read_at is None:
        return
    for kind, message in messages(read_at, address):
        if kind == LAYOUT and message[:1] >= b"\4" and message[1:2] == bytes((_VIRTUAL,)):
            check_addresses(group, [_number(message, 2)])
