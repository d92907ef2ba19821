"""What attributes of variable length claim, looked at before the HDF5 library takes memory for it.

As for datasets (`lengths`), but the library does not tell where an attribute's bytes are: they are looked for in the
header of its object, whose parts are followed here. Where they are not found there (very many attributes are kept
elsewhere) or the header makes no sense, nothing is said.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from h5py import h5i

from colonnade.h5 import capi
from colonnade.h5.headers import ATTRIBUTE, address_of, bytes_of, is_frozen, messages

REFERENCE = np.dtype([("length", "<u4"), ("address", "<u8"), ("index", "<u4")])
"""An element of variable length in a file, where addresses have 8 bytes."""
SMALL = 1 << 26  # bytes of an element that are not worth the question whether the file has them


def check_attribute(node: Any, name: bytes, count: int) -> None:
    """An OSError, as the library would raise it, when an element of an attribute claims more than the file has."""
    read_at = bytes_of(node)
    if read_at is None or not is_frozen(node):
        return
    most = max(h5i.get_file_id(node).get_filesize(), SMALL)
    for kind, message in messages(read_at, address_of(node)):
        data = _value(message, name + b"\0") if kind == ATTRIBUTE else b""
        held = np.frombuffer(data[: len(data) // REFERENCE.itemsize * REFERENCE.itemsize], REFERENCE)[:count]
        if int(held["length"].max(initial=0)) > most:
            capi.refuse("read an attribute", "it claims more bytes than the file has")


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
