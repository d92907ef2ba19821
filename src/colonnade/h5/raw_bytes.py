"""The bytes of a file that HDF5 has open, for what is read past it: also objects that it cannot open."""

from __future__ import annotations

import os
from typing import Any

from h5py import h5f, h5fd, h5g, h5i

from colonnade.dataclass import dataclass
from colonnade.errors import ConflictError
from colonnade.h5 import capi
from colonnade.h5.vetting import ReadAt
from colonnade.pager.journal import JOURNALED


@dataclass(frozen=True)
class RawBytes:
    """A file's name and length, and what reads so many of its bytes from a place on."""

    name: str
    size: int
    read_at: ReadAt


def raw_bytes(node: Any) -> RawBytes | None:
    """The bytes of the file that an object is in, as they are now; None where they cannot be had past HDF5."""
    file_id = h5i.get_file_id(node)
    name = os.fsdecode(h5f.get_name(node))
    driver = file_id.get_access_plist().get_driver()
    if file_id.get_intent() != h5f.ACC_RDONLY:
        h5f.flush(file_id)
    if driver == h5fd.fileobj_driver:
        journaled = JOURNALED.get(h5g.get_objinfo(file_id).fileno)
        if journaled is None:
            return None
        return RawBytes(name, journaled.length, _while_open(node, journaled.read_at, name))
    descriptor = capi.descriptor_of(file_id)
    if descriptor is None:
        return None
    size = os.fstat(descriptor).st_size
    return RawBytes(name, size, _while_open(node, lambda at, n_bytes: os.pread(descriptor, n_bytes, at), name))


def _while_open(node: Any, read_at: ReadAt, name: str) -> ReadAt:
    """Reads as long as the object is open: a descriptor of a closed file may be that of another by now."""

    def read(at: int, n_bytes: int) -> bytes:
        if not node.valid:
            raise ConflictError(f"{name} was closed while it was read", path=name)
        return read_at(at, n_bytes)

    return read
