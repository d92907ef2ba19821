"""Bytes of an HDF5 file by their address, from a file, a buffer or a file object, with every length checked.

In: an address as the file gives it, and how many bytes.  Out: exactly those bytes, or a CorruptError.
Always: nothing beyond the end of the file is read, so a wrong length cannot make us allocate more than the size of
the file. Addresses are relative to the base address (the end of a user block).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from colonnade import kernels
from colonnade.dataclass import dataclass
from colonnade.errors import CorruptError

CHECKSUM = 4  # bytes of a checksum


def with_checksum(data: bytes) -> bytes:
    """Bytes followed by their checksum."""
    return data + int(kernels.lookup3(data)).to_bytes(CHECKSUM, "little")


class Fields:
    """Numbers and bytes read one after another, never beyond the end. Numbers are little-endian and unsigned."""

    def __init__(self, data: bytes | memoryview, what: str, name: str = "", offset_size: int = 8, length_size: int = 8):
        self._data = memoryview(data)
        self.what = what
        self.name = name
        self.at = 0
        self._offset_size = offset_size
        self._length_size = length_size

    @property
    def left(self) -> int:
        return len(self._data) - self.at

    def take(self, n_bytes: int) -> bytes:
        if n_bytes > self.left:
            raise self.wrong(f"ends after {len(self._data)} bytes, {n_bytes} more are needed after byte {self.at}")
        self.at += n_bytes
        return bytes(self._data[self.at - n_bytes : self.at])

    def number(self, n_bytes: int) -> int:
        return int.from_bytes(self.take(n_bytes), "little")

    def numbers(self, count: int, n_bytes: int) -> tuple[int, ...]:
        data = self.take(count * n_bytes)
        return tuple(int.from_bytes(data[at : at + n_bytes], "little") for at in range(0, len(data), n_bytes))

    def length(self) -> int:
        return self.number(self._length_size)

    def address(self) -> int | None:
        """An address; None for the undefined address, which has all bits set."""
        data = self.take(self._offset_size)
        return None if data == b"\xff" * len(data) else int.from_bytes(data, "little")

    def expect(self, value: bytes, what: str) -> None:
        found = self.take(len(value))
        if found != value:
            raise self.wrong(f"has {found!r} where {what} {value!r} belongs")

    def version(self, *allowed: int) -> int:
        found = self.number(1)
        if found not in allowed:
            known = ", ".join(str(one) for one in allowed)
            raise self.wrong(f"has version {found}; known: {known}")
        return found

    def rest(self) -> memoryview:
        """All bytes that were not read yet."""
        start, self.at = self.at, len(self._data)
        return self._data[start:]

    def wrong(self, text: str, **facts: object) -> CorruptError:
        """An error about this structure, to be raised."""
        lead = f"{self.name}: " if self.name else ""
        return CorruptError(f"{lead}{self.what} {text}", path=self.name, **facts)


@dataclass(frozen=True)
class Source:
    """A file to read from. Safe to be used by several threads."""

    name: str
    size: int
    read_at: Callable[[int, int], bytes]
    base: int = 0
    offset_size: int = 8
    length_size: int = 8

    @property
    def fits(self) -> int:
        """The number of bytes after the base address."""
        return self.size - self.base

    def read(self, address: int, n_bytes: int, what: str) -> bytes:
        """Read exactly `n_bytes` bytes."""
        if address < 0 or n_bytes < 0 or address + n_bytes > self.fits:
            raise CorruptError(
                f"{self.name}: {what} has {n_bytes} bytes at byte {self.base + address}, but the file has {self.size}",
                path=self.name,
                offset=self.base + address,
            )
        data = self.read_at(self.base + address, n_bytes)
        if len(data) != n_bytes:
            raise CorruptError(
                f"{self.name}: {what} is cut short by the end of the file", path=self.name, offset=address
            )
        return data

    def fields(self, address: int, n_bytes: int, what: str) -> Fields:
        """Read these bytes as fields."""
        return self.as_fields(self.read(address, n_bytes, what), f"{what} at byte {self.base + address}")

    def summed(self, address: int, n_bytes: int, what: str) -> Fields:
        """Read bytes that end with a checksum as fields. The checksum is verified and left out."""
        return self.as_fields(
            self.verified(self.read(address, n_bytes, what), address, what), f"{what} at byte {self.base + address}"
        )

    def verified(self, data: bytes, address: int, what: str) -> bytes:
        """The bytes without the checksum at their end, which is verified."""
        if len(data) < CHECKSUM:
            raise CorruptError(f"{self.name}: {what} is shorter than its checksum", path=self.name, offset=address)
        kept, expected = data[:-CHECKSUM], int.from_bytes(data[-CHECKSUM:], "little")
        found = kernels.lookup3(kept)
        if found != expected:
            raise CorruptError(
                f"{self.name}: {what} at byte {self.base + address} does not match its checksum "
                f"({found:08x}, stored {expected:08x})",
                path=self.name,
                offset=self.base + address,
                expected=expected,
                found=found,
            )
        return kept

    def as_fields(self, data: bytes | memoryview, what: str) -> Fields:
        return Fields(data, what, self.name, self.offset_size, self.length_size)


def source_of_descriptor(descriptor: int, name: str) -> Source:
    """The source of an open file descriptor."""
    return Source(name, os.fstat(descriptor).st_size, lambda at, n_bytes: os.pread(descriptor, n_bytes, at))


def source_of_buffer(data: bytes | bytearray | memoryview, name: str = "the buffer") -> Source:
    """The source of a whole file in memory."""
    view = memoryview(data).cast("B")
    return Source(name, len(view), lambda at, n_bytes: bytes(view[at : at + n_bytes]))


def source_of_stream(stream: Any, name: str) -> Source:
    """The source of a seekable binary file object, whose position is moved."""
    lock = threading.Lock()
    with lock:
        size = int(stream.seek(0, os.SEEK_END))

    def read_at(at: int, n_bytes: int) -> bytes:
        with lock:
            stream.seek(at)
            return bytes(stream.read(n_bytes))

    return Source(name, size, read_at)
