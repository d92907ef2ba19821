"""The bytes of a file that HDF5 has open, read without it: also of objects that it cannot open."""

from __future__ import annotations

import os
from typing import Any

from h5py import h5f, h5fd, h5g, h5i

from colonnade.errors import ConflictError
from colonnade.h5 import capi
from colonnade.pager.journal import JOURNALED
from colonnade.pager.sources import ByteSource, JournaledBytes, LocalBytes


def raw_bytes(node: Any) -> ByteSource | None:
    """The bytes of the file that an object is in, as they are now; None if they can be read only through HDF5."""
    file_id = h5i.get_file_id(node)
    if file_id.get_intent() != h5f.ACC_RDONLY:
        h5f.flush(file_id)
    source = source_of(file_id)
    return None if source is None else _WhileOpen(node, source)


def source_of(file_id: Any) -> LocalBytes | JournaledBytes | None:
    """The bytes of an open HDF5 file; None if they can be read only through HDF5."""
    name = os.fsdecode(h5f.get_name(file_id))
    if file_id.get_access_plist().get_driver() == h5fd.fileobj_driver:
        journaled = JOURNALED.get(h5g.get_objinfo(file_id).fileno)
        return None if journaled is None else JournaledBytes(journaled, name)
    descriptor = capi.descriptor_of(file_id)
    return None if descriptor is None else LocalBytes(descriptor, name)


class _WhileOpen(ByteSource):
    """Bytes that are read while an object is open: the descriptor of a closed file may by now be another file's."""

    def __init__(self, node: Any, source: ByteSource) -> None:
        super().__init__(source.name, source.size)
        self._node = node
        self._source = source

    def read_at(self, offset: int, n_bytes: int) -> bytes:
        if not self._node.valid:
            raise ConflictError(f"{self.name} was closed while it was read", path=self.name)
        return self._source.read_at(offset, n_bytes)
