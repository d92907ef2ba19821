"""What the HDF5 library never comes back from when it opens an object or lists links, looked at before it is asked.

- A group of the old form keeps the names of its links in a local heap, whose free places are a list: where that is a
  circle, the library takes memory for ever.
- The map of a virtual dataset is in the global heap, which is read when the dataset is opened: see `collections`.

Each is an OSError, as the library would raise it.
"""

from __future__ import annotations

from typing import Any

from h5py import h5g, h5l

from colonnade.h5 import capi
from colonnade.h5.collections import check_collections
from colonnade.h5.headers import FARTHEST, LAYOUT, SYMBOL_TABLE, ReadAt, address_of, bytes_of, is_frozen, messages

_VIRTUAL = 3
_END = 1  # of the list of free places
_LONGEST_HEAP = 16 << 20  # bytes of names; in longer ones nothing is looked for
_MOST_KNOWN = 1 << 16
_HARMLESS: set[tuple[Any, ...]] = set()


def check_links(group: Any) -> None:
    """Refuse a group whose local heap the library would read for ever; each is looked at once.

    Not in files that are open for changes: what lies in the file may be older than what the library has in memory.
    """
    found = h5g.get_objinfo(group)
    key = (found.fileno, found.objno)
    if key in _HARMLESS:
        return
    read_at = bytes_of(group) if is_frozen(group) else None
    if read_at is not None:
        tables = [message for kind, message in messages(read_at, address_of(group)) if kind == SYMBOL_TABLE]
        if any(_is_circle(read_at, int.from_bytes(message[8:16], "little")) for message in tables):
            capi.refuse("list links", "the free places of their names form a circle")
    if len(_HARMLESS) >= _MOST_KNOWN:
        _HARMLESS.clear()
    _HARMLESS.add(key)


def _is_circle(read_at: ReadAt, address: int) -> bool:
    """Whether the free places of the local heap at an address never end: each holds the place of the next."""
    head = read_at(address, 32) if address < FARTHEST else b""
    size, place, data_address = (int.from_bytes(head[at : at + 8], "little") for at in (8, 16, 24))
    if head[:4] != b"HEAP" or not 0 < size <= _LONGEST_HEAP or data_address >= FARTHEST:
        return False
    data = read_at(data_address, size)
    for _ in range(size // 8 + 1):
        if place in (0, _END) or place + 16 > len(data):
            return False  # an end, or bytes that were not written yet, or what the library refuses
        place = int.from_bytes(data[place : place + 8], "little")
    return True


def check_object(group: Any, name: bytes) -> None:
    """Refuse a virtual dataset in a file with a collection that never ends; soft links are not followed."""
    read_at = bytes_of(group)
    if read_at is None:
        return
    link = group.links.get_info(name)
    if link.type != h5l.TYPE_HARD:
        return
    for kind, message in messages(read_at, int(link.u)):
        if kind == LAYOUT and message[:1] >= b"\4" and message[1:2] == bytes((_VIRTUAL,)):
            check_collections(group)
