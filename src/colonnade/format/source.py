"""Bytes of an HDF5 file by their address, and fields in them, with every length checked.

In: an address as the file gives it, and how many bytes. Out: exactly those bytes, or a CorruptError.
"""

from __future__ import annotations

from collections.abc import Iterable

from colonnade import kernels
from colonnade.dataclass import dataclass
from colonnade.errors import CorruptError
from colonnade.pager.sources import ByteSource

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
class HDF5Source:
    """The bytes of an HDF5 file by the addresses it uses: relative to its base address, the end of a user block.

    offset_size, length_size: the bytes of an address and of a length in this file.
    """

    file: ByteSource
    base: int = 0
    offset_size: int = 8
    length_size: int = 8

    @property
    def name(self) -> str:
        return self.file.name

    @property
    def fits(self) -> int:
        """The number of bytes after the base address."""
        return self.file.size - self.base

    def read(self, address: int, n_bytes: int, what: str) -> bytes:
        """Read exactly `n_bytes` bytes."""
        return self.file.read(self.base + address, n_bytes, what)

    def read_many(self, ranges: Iterable[tuple[int, int]], what: str) -> list[bytes]:
        """Read exactly the bytes of each range (address, bytes), in the order of the ranges."""
        return self.file.read_many([(self.base + address, n_bytes) for address, n_bytes in ranges], what)

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
