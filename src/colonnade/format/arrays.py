"""Fixed and extensible arrays: the chunk maps of datasets with at most one unlimited dimension.

A fixed array is the map of a dataset that cannot grow (format specification III.H; facts 5.5):

| header | bytes | | data block | bytes |
| --- | --- | --- | --- | --- |
| `FAHD` | 4 | | `FADB` | 4 |
| version 0 (1 in prototype files) | 1 | | version | 1 |
| client: 0 chunks, 1 with filters; 2 sectioned, 3 with filters | 1 | | client | 1 |
| bytes of an element | 1 | | header address | O |
| page bits | 1 | | paged: bitmap of pages, the first is the highest bit | ceil(pages / 8) |
| number of elements | L | | not paged: elements | |
| data block address | O | | checksum | 4 |
| checksum | 4 | | paged: pages, each of 2^bits elements (the last of fewer) and a checksum | |

Arrays of more than 2^bits elements are paged. A page whose bit is not set is empty.

An extensible array is the map of a dataset with one unlimited dimension (format specification III.I; facts 5.6):

| header | bytes | | index block | bytes | | super block | bytes | | data block | bytes |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
| `EAHD` | 4 | | `EAIB` | 4 | | `EASB` | 4 | | `EADB` | 4 |
| version 0 (1 in prototype files) | 1 | | version | 1 | | version | 1 | | version | 1 |
| client: as above | 1 | | client | 1 | | client | 1 | | client | 1 |
| bytes of an element | 1 | | header | O | | header | O | | header | O |
| max bits | 1 | | first elements | | | block offset | B | | block offset | B |
| elements in the index block | 1 | | data blocks | O each | | bitmap of pages | | | elements, if no pages | |
| least elements of a data block | 1 | | super blocks | O each | | data blocks | O each | | checksum | 4 |
| least pointers of a super block | 1 | | checksum | 4 | | checksum | 4 | | pages, each with a checksum | |
| page bits | 1 | | | | | | | | | |
| six counts; the fifth: largest index + 1 | 6 L | | | | | | | | | |
| index block | O | | | | | | | | | |
| checksum | 4 | | | | | | | | | |

B = ceil(max bits / 8). Super block u has 2^(u // 2) data blocks of least * 2^((u + 1) // 2) elements. Those of the
first super blocks (2 log2(least pointers) of them) are listed in the index block; the others have separate super
blocks. A data block is paged when it has more than 2^(page bits) elements.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from colonnade.arrays import Octets
from colonnade.dataclass import dataclass
from colonnade.format.source import CHECKSUM, Fields, HDF5Source, with_checksum

_MOST_BITS = 64
_NOWHERE = (1 << 64) - 1
_HEADER_BYTES = 72  # with addresses and lengths of 8 bytes


# -- fixed arrays --


@dataclass(frozen=True, slots=True)
class FixedArrayHeader:
    version: int
    client: int
    element_size: int
    page_bits: int
    n_elements: int
    block: int | None


def read_fixed_header(source: HDF5Source, address: int) -> FixedArrayHeader:
    size = 8 + source.length_size + source.offset_size + CHECKSUM
    return decode_fixed_header(source.summed(address, size, "fixed array header"))


def decode_fixed_header(fields: Fields) -> FixedArrayHeader:
    """See the table at the top of this file."""
    fields.expect(b"FAHD", "the signature")
    version, client, size, bits = fields.version(0, 1), *fields.numbers(3, 1)
    header = FixedArrayHeader(version, client, size, bits, fields.length(), fields.address())
    if not size or not 1 <= bits <= 32:
        raise fields.wrong(f"has elements of {size} bytes and {bits} page bits")
    return header


def read_fixed_elements(source: HDF5Source, address: int, wanted: range) -> Iterator[tuple[int, bytes]]:
    """Concatenated elements of each page that holds some of `wanted`, and the number of the page's first element."""
    header = read_fixed_header(source, address)
    if header.block is None:
        return
    page = 1 << header.page_bits
    lead = 6 + source.offset_size
    if header.n_elements <= page:
        size = lead + header.n_elements * header.element_size + CHECKSUM
        fields = _open_fixed_block(source, header, address, size)
        yield 0, bytes(fields.rest())
        return
    n_pages = -(-header.n_elements // page)
    size = lead + -(-n_pages // 8) + CHECKSUM
    bitmap = bytes(_open_fixed_block(source, header, address, size).rest())
    first, last = wanted.start // page, -(-wanted.stop // page)
    for number in range(max(first, 0), min(last, n_pages)):
        if bitmap[number // 8] << number % 8 & 0x80:
            count = min(page, header.n_elements - number * page)
            at = header.block + size + number * (page * header.element_size + CHECKSUM)
            found = source.summed(at, count * header.element_size + CHECKSUM, "fixed array page")
            yield number * page, bytes(found.rest())


def _open_fixed_block(source: HDF5Source, header: FixedArrayHeader, address: int, size: int) -> Fields:
    assert header.block is not None  # checked by the caller
    fields = source.summed(header.block, size, "fixed array data block")
    fields.expect(b"FADB", "the signature")
    fields.version(0, 1)
    client, owner = fields.number(1), fields.address()
    if client != header.client or owner != address:
        raise fields.wrong("belongs to another array")
    return fields


def encode_fixed_array(header: FixedArrayHeader, elements: Octets, address: int) -> bytes:
    """The header, followed by the data block, to be stored at `address`.

    elements: one row of bytes each, which begins with an address. Pages with only undefined addresses are empty.
    """
    block = address + 16 + 8 + CHECKSUM
    head = struct.pack(
        "<4sBBBBQQ", b"FAHD", header.version, header.client, header.element_size, header.page_bits, len(elements), block
    )
    lead = struct.pack("<4sBBQ", b"FADB", header.version, header.client, address)
    page = 1 << header.page_bits
    if len(elements) <= page:
        return with_checksum(head) + with_checksum(lead + elements.tobytes())
    pages = [elements[start : start + page] for start in range(0, len(elements), page)]
    used = np.array([bool((one[:, :8] != 0xFF).any()) for one in pages])
    bitmap = np.packbits(used, bitorder="big").tobytes()
    data = [
        with_checksum(one.tobytes()) if there else bytes(one.size + CHECKSUM)
        for one, there in zip(pages, used, strict=True)
    ]
    return with_checksum(head) + with_checksum(lead + bitmap) + b"".join(data)


# -- extensible arrays --


@dataclass(frozen=True, slots=True)
class ExtensibleArrayHeader:
    version: int
    client: int
    element_size: int
    max_bits: int
    index_elements: int
    least_elements: int
    least_pointers: int
    page_bits: int
    n_set: int
    index_block: int | None

    @property
    def offset_bytes(self) -> int:
        return -(-self.max_bits // 8)

    @property
    def n_super_blocks(self) -> int:
        return 1 + self.max_bits - (self.least_elements.bit_length() - 1)

    @property
    def n_super_inside(self) -> int:
        """The number of super blocks whose data blocks are listed in the index block."""
        return 2 * (self.least_pointers.bit_length() - 1)


@dataclass(frozen=True, slots=True)
class SuperBlock:
    """Super block `number`: its data blocks, their elements, and the index of the first."""

    number: int
    n_blocks: int
    block_elements: int
    start: int


def read_extensible_header(source: HDF5Source, address: int) -> ExtensibleArrayHeader:
    size = 12 + 6 * source.length_size + source.offset_size + CHECKSUM
    return decode_extensible_header(source.summed(address, size, "extensible array header"))


def decode_extensible_header(fields: Fields) -> ExtensibleArrayHeader:
    """See the table at the top of this file."""
    fields.expect(b"EAHD", "the signature")
    version = fields.version(0, 1)
    client, size, max_bits, index_elements, elements, pointers, page_bits = fields.numbers(7, 1)
    counts = [fields.length() for _ in range(6)]
    powers = all(number and not number & (number - 1) for number in (elements, pointers))
    if not size or not powers or not elements.bit_length() <= max_bits <= _MOST_BITS or page_bits > 32:
        raise fields.wrong("has numbers that make no sense")
    return ExtensibleArrayHeader(
        version, client, size, max_bits, index_elements, elements, pointers, page_bits, counts[4], fields.address()
    )


def super_blocks(header: ExtensibleArrayHeader) -> list[SuperBlock]:
    """All possible super blocks."""
    found, start = [], header.index_elements
    for number in range(header.n_super_blocks):
        n_blocks, elements = 1 << number // 2, header.least_elements << (number + 1) // 2
        found.append(SuperBlock(number, n_blocks, elements, start))
        start += n_blocks * elements
    return found


def read_extensible_elements(source: HDF5Source, address: int, wanted: range) -> Iterator[tuple[int, bytes]]:
    """Concatenated elements of each block that holds some of `wanted`, and the number of the block's first element."""
    array = _ExtensibleArray(source, address, read_extensible_header(source, address))
    wanted = range(max(wanted.start, 0), min(wanted.stop, array.header.n_set))
    for first, data in array.read(wanted):
        n_set = array.header.n_set - first  # elements after these were never written
        yield first, data[: max(n_set, 0) * array.header.element_size]


class _ExtensibleArray:
    """An extensible array, read block by block."""

    def __init__(self, source: HDF5Source, address: int, header: ExtensibleArrayHeader) -> None:
        self._source = source
        self._address = address
        self._work = source.most_work
        self.header = header

    def read(self, wanted: range) -> Iterator[tuple[int, bytes]]:
        header = self.header
        if header.index_block is None or not wanted:
            return
        supers = super_blocks(header)
        inside, outside = supers[: header.n_super_inside], supers[header.n_super_inside :]
        n_inside = sum(one.n_blocks for one in inside)
        n_bytes = header.index_elements * header.element_size
        size = 6 + self._source.offset_size * (1 + n_inside + len(outside)) + n_bytes + CHECKSUM
        fields = self._open(header.index_block, size, b"EAIB", "extensible array index block", 0)
        yield 0, fields.take(n_bytes)
        blocks = [fields.address() for _ in range(n_inside)]
        for one in inside:
            mine, blocks = blocks[: one.n_blocks], blocks[one.n_blocks :]
            yield from self._read_blocks(one, mine, None, wanted)
        for one in outside:
            place = fields.address()
            if place is not None and _overlaps(self._span(one), wanted):
                yield from self._read_super(one, place, wanted)

    def _span(self, one: SuperBlock) -> range:
        return range(one.start, one.start + one.n_blocks * one.block_elements)

    def _read_super(self, one: SuperBlock, place: int, wanted: range) -> Iterator[tuple[int, bytes]]:
        bitmap_bytes = one.n_blocks * -(-_n_pages(self.header, one) // 8)
        lead = 6 + self._source.offset_size + self.header.offset_bytes
        size = lead + bitmap_bytes + one.n_blocks * self._source.offset_size + CHECKSUM
        fields = self._open(place, size, b"EASB", "extensible array super block", self.header.offset_bytes)
        bitmap = fields.take(bitmap_bytes)
        blocks = [fields.address() for _ in range(one.n_blocks)]
        yield from self._read_blocks(one, blocks, bitmap, wanted)

    def _read_blocks(
        self, one: SuperBlock, blocks: list[int | None], bitmap: bytes | None, wanted: range
    ) -> Iterator[tuple[int, bytes]]:
        n_pages = _n_pages(self.header, one)
        for number, place in enumerate(blocks):
            first = one.start + number * one.block_elements
            if place is None or not _overlaps(range(first, first + one.block_elements), wanted):
                continue
            n_bytes = 0 if n_pages else one.block_elements * self.header.element_size
            size = 6 + self._source.offset_size + self.header.offset_bytes + n_bytes + CHECKSUM
            fields = self._open(place, size, b"EADB", "extensible array data block", self.header.offset_bytes)
            if not n_pages:
                yield first, bytes(fields.rest())
                continue
            if bitmap is None:
                raise fields.wrong("has pages, but no bitmap of the pages that exist")
            yield from self._read_pages(place + size, first, number * n_pages, n_pages, bitmap, wanted)

    def _read_pages(
        self, at: int, first: int, bit: int, n_pages: int, bitmap: bytes, wanted: range
    ) -> Iterator[tuple[int, bytes]]:
        count = 1 << self.header.page_bits
        n_bytes = count * self.header.element_size
        for page in range(n_pages):
            begin = first + page * count
            there = bitmap[(bit + page) // 8] << (bit + page) % 8 & 0x80
            if there and _overlaps(range(begin, begin + count), wanted):
                place = at + page * (n_bytes + CHECKSUM)
                self._spend(n_bytes, place)
                found = self._source.summed(place, n_bytes + CHECKSUM, "extensible array page")
                yield begin, bytes(found.rest())

    def _spend(self, n_bytes: int, place: int) -> None:
        """Blocks do not overlap, and are read once."""
        self._work -= n_bytes
        if self._work < 0:
            raise self._source.wrong("extensible array block", place, "overlaps others")

    def _open(self, place: int, size: int, signature: bytes, what: str, offset_bytes: int) -> Fields:
        """A block whose prefix was checked, except for its block offset: libhdf5 itself writes wrong ones."""
        self._spend(size, place)
        fields = self._source.summed(place, size, what)
        fields.expect(signature, "the signature")
        fields.version(0, 1)
        client, owner = fields.number(1), fields.address()
        if client != self.header.client or owner != self._address:
            raise fields.wrong("belongs to another array")
        fields.take(offset_bytes)
        return fields


def _overlaps(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop


def encode_extensible_array(header: ExtensibleArrayHeader, elements: Octets, address: int) -> bytes:
    """The header, the index block, and all non-empty super and data blocks, to be stored at `address`.

    elements: one row of bytes each, up to the last that is set; each begins with an address, which may be undefined.
    """
    return _Builder(header, elements, address).build()


class _Builder:
    """Builds an extensible array, block by block after its header."""

    def __init__(self, header: ExtensibleArrayHeader, elements: Octets, address: int) -> None:
        self._header = header
        self._elements = elements
        self._address = address
        self._out = bytearray(_HEADER_BYTES)
        self._counts = [0, 0, 0, 0]  # super blocks, their bytes, data blocks, their bytes
        self._n_realized = header.index_elements

    def build(self) -> bytes:
        header = self._header
        supers = super_blocks(header)
        blocks = [place for one in supers[: header.n_super_inside] for place, _ in self._put_blocks(one)]
        outside = [self._put_super(one) for one in supers[header.n_super_inside :]]
        index = self._address + len(self._out)
        inside = self._rows(0, header.index_elements).tobytes()
        places = struct.pack(f"<{len(blocks) + len(outside)}Q", *blocks, *outside)
        self._out += with_checksum(self._lead(b"EAIB") + inside + places)
        numbers = (header.element_size, header.max_bits, header.index_elements, header.least_elements)
        counts = (*self._counts, len(self._elements), self._n_realized)
        head = struct.pack(
            "<4sBB6B", b"EAHD", header.version, header.client, *numbers, header.least_pointers, header.page_bits
        )
        self._out[:_HEADER_BYTES] = with_checksum(head + struct.pack("<6QQ", *counts, index))
        return bytes(self._out)

    def _lead(self, signature: bytes, offset: int | None = None) -> bytes:
        lead = struct.pack("<4sBBQ", signature, self._header.version, self._header.client, self._address)
        return lead + (b"" if offset is None else offset.to_bytes(self._header.offset_bytes, "little"))

    def _rows(self, first: int, count: int) -> Octets:
        """Elements, with empty ones after the last that is set."""
        made = np.zeros((count, self._header.element_size), dtype=np.uint8)
        made[:, :8] = 0xFF
        found = self._elements[first : first + count]
        made[: len(found)] = found
        return made

    def _put_super(self, one: SuperBlock) -> int:
        """Write a super block and its data blocks; return its address, which is undefined if it is empty."""
        if one.start >= len(self._elements):
            return _NOWHERE
        blocks = self._put_blocks(one)
        if all(place == _NOWHERE for place, _ in blocks):
            return _NOWHERE
        n_pages = _n_pages(self._header, one)
        bits = np.zeros(8 * one.n_blocks * -(-n_pages // 8), dtype=bool)
        for number, (_, pages) in enumerate(blocks):
            bits[number * n_pages : number * n_pages + len(pages)] = pages
        body = np.packbits(bits, bitorder="big").tobytes() + struct.pack(f"<{one.n_blocks}Q", *(at for at, _ in blocks))
        block = with_checksum(self._lead(b"EASB", one.start - self._header.index_elements) + body)
        place = self._address + len(self._out)
        self._out += block
        self._counts[0] += 1
        self._counts[1] += len(block)
        return place

    def _put_blocks(self, one: SuperBlock) -> list[tuple[int, list[bool]]]:
        """Write the data blocks of a super block; return the address of each, and which of its pages are not empty."""
        return [self._put_block(one, number) for number in range(one.n_blocks)]

    def _put_block(self, one: SuperBlock, number: int) -> tuple[int, list[bool]]:
        first = one.start + number * one.block_elements
        if first >= len(self._elements) or not _holds(self._elements[first : first + one.block_elements]):
            return _NOWHERE, []
        place, rows = self._address + len(self._out), self._rows(first, one.block_elements)
        lead = self._lead(b"EADB", first - self._header.index_elements)
        n_pages = _n_pages(self._header, one)
        if n_pages:
            pages = np.split(rows, n_pages)
            used = [_holds(page) for page in pages]
            parts = [
                with_checksum(page.tobytes()) if there else bytes(page.size + CHECKSUM)
                for page, there in zip(pages, used, strict=True)
            ]
            block = with_checksum(lead) + b"".join(parts)
        else:
            used, block = [], with_checksum(lead + rows.tobytes())
        self._out += block
        self._counts[2] += 1
        self._counts[3] += len(block)
        self._n_realized += one.block_elements
        return place, used


def _holds(rows: Octets) -> bool:
    """Whether one of these elements has an address."""
    return bool((rows[:, :8] != 0xFF).any())


def _n_pages(header: ExtensibleArrayHeader, one: SuperBlock) -> int:
    """The number of pages of a data block; 0 if it is not paged."""
    return one.block_elements >> header.page_bits if one.block_elements > 1 << header.page_bits else 0
