"""Bytes of a file by offset: of a local file, a buffer, a file object, or a file that is open for changes.

In: an offset and a number of bytes. Out: exactly those bytes, or a CorruptError (`read`, `read_many`); or as many of
them as there are (`read_at`, `read_into`).
Always: `read` compares with the size first, so a wrong length in a file cannot make it allocate more than the file has.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from colonnade.errors import CorruptError
from colonnade.pager.disk import DISK, Disk

if TYPE_CHECKING:
    from colonnade.pager.journal import JournaledFile
    from colonnade.pager.options import BinaryFile


class ByteSource:
    """A file to read from, safe to be used by several threads. `size` is its length when the source was made."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size

    def read_at(self, offset: int, n_bytes: int) -> bytes:
        """Up to `n_bytes` bytes; fewer only at the end of the file."""
        raise NotImplementedError

    def read_into(self, offset: int, target: memoryview) -> int:
        """Read bytes into memory of the caller, and return how many there were."""
        data = self.read_at(offset, len(target))
        target[: len(data)] = data
        return len(data)

    def read(self, offset: int, n_bytes: int, what: str) -> bytes:
        """Exactly `n_bytes` bytes; `what` names them in the CorruptError that is raised if the file has fewer."""
        if offset < 0 or n_bytes < 0 or offset + n_bytes > self.size:
            raise CorruptError(
                f"{what} has {n_bytes} bytes at byte {offset}, but the file has {self.size}",
                path=self.name,
                offset=offset,
            )
        data = self.read_at(offset, n_bytes)
        if len(data) != n_bytes:
            raise CorruptError(f"{what} is cut short by the end of the file", path=self.name, offset=offset)
        return data

    def read_many(self, ranges: Iterable[tuple[int, int]], what: str) -> list[bytes]:
        """The bytes of each range (offset, bytes), in the order of the ranges, each as `read` gives them."""
        return [self.read(offset, n_bytes, what) for offset, n_bytes in ranges]


class LocalBytes(ByteSource):
    """The bytes of a file on a local disk, by its open descriptor, which belongs to the caller."""

    def __init__(self, descriptor: int, name: str, disk: Disk = DISK) -> None:
        super().__init__(name, disk.length(descriptor))
        self.descriptor = descriptor
        self._disk = disk

    def read_at(self, offset: int, n_bytes: int) -> bytes:
        return self._disk.read(self.descriptor, n_bytes, offset)

    def read_into(self, offset: int, target: memoryview) -> int:
        return self._disk.read_into(self.descriptor, target, offset)


class BufferBytes(ByteSource):
    """The bytes of a whole file in memory."""

    def __init__(self, data: bytes | bytearray | memoryview, name: str = "the buffer") -> None:
        self._data = memoryview(data).cast("B")
        super().__init__(name, len(self._data))

    def read_at(self, offset: int, n_bytes: int) -> bytes:
        return bytes(self._data[offset : offset + n_bytes])


class StreamBytes(ByteSource):
    """The bytes of a seekable binary file object, whose position is moved."""

    def __init__(self, stream: BinaryFile, name: str) -> None:
        super().__init__(name, int(stream.seek(0, os.SEEK_END)))
        self._stream = stream
        self._lock = threading.Lock()

    def read_at(self, offset: int, n_bytes: int) -> bytes:
        with self._lock:
            self._stream.seek(offset)
            return bytes(self._stream.read(n_bytes))


class JournaledBytes(ByteSource):
    """The bytes of a file that is open for changes, committed or not."""

    def __init__(self, file: JournaledFile, name: str) -> None:
        super().__init__(name, file.length)
        self._file = file

    def read_at(self, offset: int, n_bytes: int) -> bytes:
        return self._file.read_at(offset, n_bytes)

    def read_into(self, offset: int, target: memoryview) -> int:
        return self._file.read_into(offset, target)

    def save_ahead(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Begin to journal bytes that are going to be overwritten."""
        self._file.save_ahead(ranges)

    def leave_unchanged(self, memory: memoryview) -> None:
        """Promise that this memory is not changed before the commit."""
        self._file.leave_unchanged(memory)
