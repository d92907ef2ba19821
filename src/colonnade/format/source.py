"""Bytes of an HDF5 file by their address, and fields in them, with every length checked.

In: an address as the file gives it, and how many bytes. Out: exactly those bytes, or a CorruptError that names the
structure, its offset in the file, and the heading of the format specification that describes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TypeVar

from colonnade import kernels
from colonnade.dataclass import dataclass
from colonnade.errors import ColonnadeError, CorruptError, UnsupportedError
from colonnade.pager.sources import ByteSource

T = TypeVar("T")
CHECKSUM = 4  # bytes of a checksum
_MOST_BYTES = 512  # of messages whose meaning is kept; longer ones are rare, and differ
_SLACK = 1 << 16
_HEADINGS = {  # of the HDF5 file format specification, by the first words of a structure's name
    "the superblock": "II.A Format Signature and Superblock",
    "version 1 B-tree": "III.A.1 Version 1 B-trees",
    "B-tree": "III.A.2 Version 2 B-trees",
    "symbol table message": "IV.A.2.r The Symbol Table Message",
    "symbol table": "III.B Group Symbol Table Nodes",
    "local heap": "III.D Local Heaps",
    "global heap": "III.E Global Heap",
    "fractal heap": "III.G Fractal Heap",
    "object header": "IV.A.1 Data Object Header Prefix",
    "dataspace": "IV.A.2.b The Dataspace Message",
    "link info": "IV.A.2.c The Link Info Message",
    "datatype": "IV.A.2.d The Datatype Message",
    "fill value": "IV.A.2.f The Data Storage - Fill Value Message",
    "link": "IV.A.2.g The Link Message",
    "layout": "IV.A.2.i The Data Layout Message",
    "filter": "IV.A.2.l The Data Storage - Filter Pipeline Message",
    "attribute info": "IV.A.2.v The Attribute Info Message",
    "attribute": "IV.A.2.m The Attribute Message",
    "continuation": "IV.A.2.q The Object Header Continuation Message",
    "selection": "Appendix D: Encoding for Dataspace and Reference",
    "reference": "Appendix D: Encoding for Dataspace and Reference",
    "fixed array": "Appendix C: Types of Indexes for Dataset Chunks",
    "extensible array": "Appendix C: Types of Indexes for Dataset Chunks",
}


class UnknownToReader(UnsupportedError):
    """The file uses a feature of HDF5 that this reader does not know, and libhdf5 may know."""


def with_checksum(data: bytes) -> bytes:
    """Bytes followed by their checksum."""
    return data + int(kernels.lookup3(data)).to_bytes(CHECKSUM, "little")


class Fields:
    """Numbers and bytes read one after another, never beyond the end. Numbers are little-endian and unsigned.

    what: the structure, as errors name it. offset: of its first byte in the file, if known.
    """

    def __init__(
        self,
        data: bytes | memoryview,
        what: str,
        name: str = "",
        offset_size: int = 8,
        length_size: int = 8,
        offset: int | None = None,
    ):
        self._data = memoryview(data)
        self._size = len(data)
        self.what = what
        self.name = name
        self.at = 0
        self.offset_size = offset_size
        self.length_size = length_size
        self._offset = offset

    @property
    def left(self) -> int:
        return self._size - self.at

    def take(self, n_bytes: int) -> bytes:
        begin, end = self.at, self.at + n_bytes
        if end > self._size:
            raise self._short(n_bytes)
        self.at = end
        return self._data[begin:end].tobytes()

    def number(self, n_bytes: int) -> int:
        begin, end = self.at, self.at + n_bytes
        if end > self._size:
            raise self._short(n_bytes)
        self.at = end
        return int.from_bytes(self._data[begin:end], "little")

    def _short(self, n_bytes: int) -> CorruptError:
        return self.wrong(f"ends after {self._size} bytes, {n_bytes} more are needed after byte {self.at}")

    def numbers(self, count: int, n_bytes: int) -> tuple[int, ...]:
        data = self.take(count * n_bytes)
        return tuple(int.from_bytes(data[at : at + n_bytes], "little") for at in range(0, len(data), n_bytes))

    def take_text(self) -> bytes:
        """The bytes up to the next NUL, which is passed over."""
        step = 64
        while True:
            text, end, _ = bytes(self._data[self.at : self.at + step]).partition(b"\0")
            if end or len(text) < step:
                self.take(len(text) + 1)
                return text
            step *= 4

    def length(self) -> int:
        return self.number(self.length_size)

    def address(self) -> int | None:
        """An address; None for the undefined address, which has all bits set."""
        data = self.take(self.offset_size)
        return None if data == b"\xff" * len(data) else int.from_bytes(data, "little")

    def expect(self, value: bytes, what: str) -> None:
        found = self.take(len(value))
        if found != value:
            raise self.wrong(f"has {found!r} where {what} {value!r} belongs")

    def version(self, *allowed: int) -> int:
        found = self.number(1)
        if found > max(allowed):
            raise self.unknown(f"version {found} of this structure")
        if found not in allowed:
            known = ", ".join(str(one) for one in allowed)
            raise self.wrong(f"has version {found}; known: {known}")
        return found

    def rest(self) -> memoryview:
        """All bytes that were not read yet."""
        start, self.at = self.at, len(self._data)
        return self._data[start:]

    def of_part(self, data: bytes, what: str) -> Fields:
        """Fields of a part of this structure, whose place in the file is not known."""
        return Fields(data, what, self.name, self.offset_size, self.length_size)

    def wrong(self, text: str) -> CorruptError:
        """An error about this structure, to be raised."""
        return _corrupt(self.name, self.what, self._offset, text)

    def unknown(self, feature: str) -> UnknownToReader:
        """An error about a feature of this structure that this reader does not know, to be raised."""
        lead = f"{self.name}: " if self.name else ""
        text = f"{lead}{_placed(self.what, self._offset)} uses {feature}, which colonnade's own reader does not know"
        return UnknownToReader(text, feature=feature, path=self.name)


def _corrupt(name: str, what: str, offset: int | None, text: str) -> CorruptError:
    heading = next((heading for start, heading in _HEADINGS.items() if what.startswith(start)), None)
    tail = f" (HDF5 file format specification, {heading})" if heading else ""
    return CorruptError(f"{_placed(what, offset)} {text}{tail}", path=name or None, offset=offset)


def _placed(what: str, offset: int | None) -> str:
    return what if offset is None else f"{what} at byte {offset}"


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

    @property
    def most_work(self) -> int:
        """More bytes than the nodes of one tree can have: they do not overlap, and are read once."""
        return 2 * self.fits + _SLACK

    def read(self, address: int, n_bytes: int, what: str) -> bytes:
        """Read exactly `n_bytes` bytes."""
        if address < 0 or address + n_bytes > self.fits:
            raise self.wrong(what, address, f"has {n_bytes} bytes, but the file has {self.file.size}")
        return self.file.read(self.base + address, n_bytes, what)

    def read_up_to(self, address: int, n_bytes: int, what: str) -> bytes:
        """Read `n_bytes` bytes, or all that are left in the file; at least one."""
        if not 0 <= address < self.fits:
            raise self.wrong(what, address, f"starts after the end of the file, which has {self.file.size} bytes")
        return self.read(address, min(n_bytes, self.fits - address), what)

    def read_many(self, ranges: Iterable[tuple[int, int]], what: str) -> list[bytes]:
        """Read exactly the bytes of each range (address, bytes), in the order of the ranges."""
        return self.file.read_many([(self.base + address, n_bytes) for address, n_bytes in ranges], what)

    def fields(self, address: int, n_bytes: int, what: str) -> Fields:
        """Read these bytes as fields."""
        return self.as_fields(self.read(address, n_bytes, what), what, address)

    def summed(self, address: int, n_bytes: int, what: str) -> Fields:
        """Read bytes that end with a checksum as fields. The checksum is verified and left out."""
        return self.as_fields(self.verified(self.read(address, n_bytes, what), address, what), what, address)

    def verified(self, data: bytes, address: int, what: str) -> bytes:
        """The bytes without the checksum at their end, which is verified."""
        if len(data) < CHECKSUM:
            raise self.wrong(what, address, "is shorter than its checksum")
        kept, expected = data[:-CHECKSUM], int.from_bytes(data[-CHECKSUM:], "little")
        found = kernels.lookup3(kept)
        if found != expected:
            text = f"does not match its checksum ({found:08x}, stored {expected:08x})"
            error = self.wrong(what, address, text)
            error.expected, error.found = expected, found
            raise error
        return kept

    def as_fields(self, data: bytes | memoryview, what: str, address: int | None = None) -> Fields:
        """Bytes as fields, which were read from this address if it is known."""
        offset = None if address is None else self.base + address
        return Fields(data, what, self.name, self.offset_size, self.length_size, offset)

    def wrong(self, what: str, address: int, text: str) -> CorruptError:
        """An error about the structure at an address, to be raised."""
        return _corrupt(self.name, what, self.base + address, text)


# -- messages that were decoded before: tables of many files have few datatypes, fills and attributes between them --


def decode_known(
    source: HDF5Source, data: bytes, decode: Callable[[Fields], T], what: str, address: int | None = None
) -> T:
    """What a message means that holds no address of its own: immutable values, which others may have.

    what, address: for errors, as in `HDF5Source.as_fields`.
    """
    if len(data) <= _MOST_BYTES:
        try:
            return _decode_once(data, decode, source.offset_size, source.length_size)  # type: ignore[return-value]
        except ColonnadeError:
            pass  # decoded again: the error names the structure, its place and its file
    return decode(source.as_fields(data, what, address))


@lru_cache(maxsize=1024)
def _decode_once(data: bytes, decode: Callable[[Fields], object], offset_size: int, length_size: int) -> object:
    return decode(Fields(data, "", "", offset_size, length_size))
