"""A file opened a second time so that the HDF5 library cannot walk a collection of the global heap that never ends.

For the few things of which we cannot tell beforehand to which collections they refer: attributes that are not kept in
the header of their object, and rows behind filters that are not built in here. The library reads the second file
through a Python object, which looks at each collection before it hands out its bytes.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import h5py
from h5py import h5i

from colonnade.h5 import capi
from colonnade.h5.collections import SIGNATURE, Vetted, vetted_of
from colonnade.h5.headers import ReadAt, address_of, bytes_of, is_frozen


class _GuardedFile(io.RawIOBase):
    """The bytes of a file; reading a collection that never ends is an OSError."""

    def __init__(self, read_at: ReadAt, length: int, vetted: Vetted) -> None:
        self._read_at, self._length, self._vetted = read_at, length, vetted
        self._at = 0

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._length)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        data = self._read_at(self._at, len(buffer))
        if data[: len(SIGNATURE)] == SIGNATURE:
            self._vetted.check(self._at)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def write(self, _data: Any) -> int:
        raise OSError("this file is open for reading only")

    def truncate(self, _size: int | None = None) -> int:
        return self._length


@contextmanager
def guarded(node: Any) -> Iterator[Any | None]:
    """The same object in the same file, open a second time; None where that cannot be, or the file may change."""
    read_at = bytes_of(node) if is_frozen(node) else None
    vetted = vetted_of(node)
    if read_at is None or vetted is None:
        yield None
        return
    length = int(h5i.get_file_id(node).get_filesize())
    with h5py.File(_GuardedFile(read_at, length, vetted), "r") as file:
        yield capi.open_at(file.id, address_of(node))
