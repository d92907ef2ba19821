"""What attributes of variable length refer to, looked at before the HDF5 library does.

As for datasets (`lengths`, `collections`), but the library does not tell where an attribute's bytes are: they are
looked for in the header of its object, whose parts are followed here. One that is kept elsewhere, as very many or
very long attributes are, is read from a guarded file first. Where the header makes no sense, nothing is said.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from h5py import h5a, h5i

from colonnade.h5 import capi
from colonnade.h5.collections import REFERENCE, check_elements, stored_size
from colonnade.h5.datatypes import describe_type
from colonnade.h5.guarded import guarded
from colonnade.h5.headers import ATTRIBUTE, address_of, bytes_of, is_frozen, messages

SMALL = 1 << 26  # bytes of an element that are not worth the question whether the file has them


def check_attribute(attribute: Any) -> None:
    """An OSError, as the library would raise it, when the elements of an attribute are not to be read.

    Because one claims more bytes than the file has, or leads to a collection that never ends.
    """
    stored = describe_type(attribute.get_type())
    read_at = bytes_of(attribute) if stored.has_pointers else None
    if read_at is None:
        return
    key = attribute.name + b"\0"
    held = [_value(message, key) for kind, message in messages(read_at, address_of(attribute)) if kind == ATTRIBUTE]
    count = attribute.get_space().get_simple_extent_npoints()
    for data in filter(None, held):
        elements = data[: count * stored_size(stored)]
        if is_frozen(attribute) and stored.kind in ("text", "binary", "sequence"):
            _check_lengths(attribute, elements)
        check_elements(attribute, stored, elements)
    if not any(held):
        _check_elsewhere(attribute)


def _check_lengths(attribute: Any, data: bytes) -> None:
    most = max(h5i.get_file_id(attribute).get_filesize(), SMALL)
    held = np.frombuffer(data[: len(data) // REFERENCE.itemsize * REFERENCE.itemsize], REFERENCE)
    if int(held["length"].max(initial=0)) > most:
        capi.refuse("read an attribute", "it claims more bytes than the file has")


def _check_elsewhere(attribute: Any) -> None:
    """Read an attribute that is not in the header of its object once from a guarded file."""
    with guarded(attribute) as node:
        if node is not None:
            twin = h5a.open(node, attribute.name)
            twin.read(np.zeros(twin.shape, dtype=twin.dtype))


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
