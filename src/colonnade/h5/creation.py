"""The creation properties of a dataset, which the HDF5 library gives only when it can read a fill of variable length.

Such a fill lies in the global heap. H5Ocopy (h5py's `copy`, h5repack; HDF5 1.8 to 2.0) copies the reference, and not
what it refers to: the rows of the copy are whole, but the library fails to list its properties, and cannot resize it.
They are then taken from the object header, without the fill, which is lost.

| message | bytes |
| --- | --- |
| fill, 0x05, version 1 and 2 | version, when allocated, when written, defined; bytes (4), value |
| fill, 0x05, version 3 | version, flags (bit 5: defined); bytes (4), value |
| fill, 0x04 | bytes (4), value |
| layout, 0x08, version 3 | version, class; chunked: number of dimensions, address (8), dimensions (4 each) |
| layout, 0x08, version 4 | version, class; chunked: flags, number of dimensions, bytes of each (1), dimensions |
| filters, 0x0B, version 1 | version, number, 0 (6); each padded to 8 bytes |
| filters, 0x0B, version 2 | version, number; each: id (2), length of the name (2, if id >= 256), flags (2), number of options (2), name, options (4 each) |
"""  # noqa: E501 - tables

from __future__ import annotations

from typing import Any

from h5py import h5d, h5p

from colonnade.h5.collections import check_elements
from colonnade.h5.datatypes import describe_type
from colonnade.h5.headers import EXTERNAL, FILL, LAYOUT, OLD_FILL, PIPELINE, address_of, bytes_of, messages
from colonnade.model import StoredType

_BROKEN = (OSError, RuntimeError, KeyError, ValueError, TypeError)
_NAMED_FROM = 256


def check_fill(dataset: Any, stored: StoredType | None = None) -> None:
    """Refuse a dataset, with an OSError, whose fill of variable length the library would read for ever.

    The library reads it when it is asked for the creation properties.
    """
    stored = stored or describe_type(dataset.get_type())
    read_at = bytes_of(dataset) if stored.has_pointers else None
    if read_at is None:
        return
    for kind, message in messages(read_at, address_of(dataset)):
        if kind in (FILL, OLD_FILL):
            check_elements(dataset, stored, _fill_value(kind, message))


def _fill_value(kind: int, message: bytes) -> bytes:
    """The value in a fill message; nothing where there is none, or it makes no sense."""
    if kind == OLD_FILL:
        at = 0
    elif message[:1] in (b"\1", b"\2"):
        at = 4 if message[3:4] == b"\1" else len(message)
    else:
        at = 2 if message[:1] == b"\3" and message[1] & 0x20 else len(message)
    size = int.from_bytes(message[at : at + 4], "little")
    return message[at + 4 : at + 4 + size]


def creation_of(dataset: Any) -> Any:
    """The creation properties of a dataset; those that its header names where its fill was lost in a copy."""
    try:
        return dataset.get_create_plist()
    except _BROKEN:
        made = _from_header(dataset)
        if made is None:
            raise
        return made


def has_lost_fill(dataset: Any) -> bool:
    """Whether the fill of a dataset leads nowhere, so that the library does not list its properties."""
    try:
        dataset.get_create_plist()
    except _BROKEN:
        return _from_header(dataset) is not None
    return False


def _from_header(dataset: Any) -> Any | None:
    """Storage, chunk and filters as the header has them; None where they are not those of rows that we know."""
    read_at = bytes_of(dataset) if describe_type(dataset.get_type()).has_pointers else None
    if read_at is None:
        return None
    found = dict(messages(read_at, address_of(dataset)))
    has_fill = any(_fill_value(kind, found[kind]) for kind in (FILL, OLD_FILL) if kind in found)
    if not has_fill or EXTERNAL in found or LAYOUT not in found:
        return None
    creation = h5p.create(h5p.DATASET_CREATE)
    try:
        return creation if _set_storage(creation, found[LAYOUT]) and _set_filters(creation, found) else None
    except _BROKEN:
        return None


def _set_storage(creation: Any, message: bytes) -> bool:
    version, storage = message[0], message[1]
    if version not in (3, 4) or storage not in (h5d.COMPACT, h5d.CONTIGUOUS, h5d.CHUNKED):
        return False
    if storage != h5d.CHUNKED:
        creation.set_layout(storage)
        return True
    if version == 3:
        count, at, width = message[2], 11, 4
    else:
        count, at, width = message[3], 5, message[4]
        if message[2]:
            return False  # options of chunks, which a list made here would not have
    sizes = [int.from_bytes(message[at + i * width : at + (i + 1) * width], "little") for i in range(count - 1)]
    creation.set_chunk(tuple(sizes))  # the last one is the size of an element
    return True


def _set_filters(creation: Any, found: dict[int, bytes]) -> bool:
    message = found.get(PIPELINE, b"\2\0")
    version, count, at = message[0], message[1], 8 if message[0] == 1 else 2
    if version not in (1, 2):
        return False

    def number() -> int:
        nonlocal at
        at += 2
        return int.from_bytes(message[at - 2 : at], "little")

    for _ in range(count):
        code = number()
        n_name = number() if version == 1 or code >= _NAMED_FROM else 0
        flags, n_values = number(), number()
        at += n_name if version == 2 else -(-n_name // 8) * 8
        values = tuple(int.from_bytes(message[at + 4 * i : at + 4 * i + 4], "little") for i in range(n_values))
        at += 4 * (n_values + (n_values % 2 if version == 1 else 0))
        creation.set_filter(code, flags, values)
    return True
