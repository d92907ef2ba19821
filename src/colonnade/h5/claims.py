"""What attributes of variable length claim, looked at before the HDF5 library takes memory for it.

As for datasets (`lengths`), but the library does not tell where an attribute's bytes are: they are looked for in the
header of its object. Where they are not found there (a header in several parts, very many attributes), nothing is said.
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
_HEADER = 1 << 16
_EIGHT_BYTES = (8, 8)


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
    header = os.pread(descriptor, _HEADER, low | high << 32)
    most = max(os.fstat(descriptor).st_size, SMALL)
    for data in _values(header, name + b"\0"):
        held = np.frombuffer(data[: len(data) // REFERENCE.itemsize * REFERENCE.itemsize], REFERENCE)[:count]
        if int(held["length"].max(initial=0)) > most:
            capi.refuse("read an attribute", "it claims more bytes than the file has")


def _values(header: bytes, name: bytes) -> Iterator[bytes]:
    """What stands where the values of attributes of this name are, up to the end."""
    place = header.find(name)
    while place >= 0:
        for version, before, unit in ((3, 9, 1), (2, 8, 1), (1, 8, 8)):
            begin = place - before
            if begin >= 0 and header[begin] == version:
                sizes = [int.from_bytes(header[begin + at : begin + at + 2], "little") for at in (2, 4, 6)]
                if sizes[0] == len(name):
                    yield header[place + sum(-(-size // unit) * unit for size in sizes) :]
        place = header.find(name, place + 1)
