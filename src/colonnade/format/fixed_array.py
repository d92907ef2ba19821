"""Fixed arrays: the chunk map of a dataset that cannot grow (format specification III.H; facts 5.5).

| header | bytes | | data block | bytes |
| --- | --- | --- | --- | --- |
| `FAHD` | 4 | | `FADB` | 4 |
| version 0 (1 in prototype files) | 1 | | version | 1 |
| client: 2 sectioned chunks, 3 with filters | 1 | | client | 1 |
| bytes of an element | 1 | | header address | O |
| page bits | 1 | | paged: bitmap of pages, the first is the highest bit | ceil(pages / 8) |
| number of elements | L | | not paged: elements | |
| data block address | O | | checksum | 4 |
| checksum | 4 | | paged: pages, each of 2^bits elements (the last of fewer) and a checksum | |

Arrays of more than 2^bits elements are paged. A page whose bit is not set is empty.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from colonnade.dataclass import dataclass
from colonnade.format.source import CHECKSUM, Fields, HDF5Source, with_checksum


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


def read_elements(source: HDF5Source, address: int, wanted: range) -> Iterator[tuple[int, bytes]]:
    """Concatenated elements of each page that holds some of `wanted`, and the number of the page's first element."""
    header = read_fixed_header(source, address)
    if header.block is None:
        return
    page = 1 << header.page_bits
    lead = 6 + source.offset_size
    if header.n_elements <= page:
        size = lead + header.n_elements * header.element_size + CHECKSUM
        fields = _open_block(source, header, address, size)
        yield 0, bytes(fields.rest())
        return
    n_pages = -(-header.n_elements // page)
    size = lead + -(-n_pages // 8) + CHECKSUM
    bitmap = bytes(_open_block(source, header, address, size).rest())
    first, last = wanted.start // page, -(-wanted.stop // page)
    for number in range(max(first, 0), min(last, n_pages)):
        if bitmap[number // 8] << number % 8 & 0x80:
            count = min(page, header.n_elements - number * page)
            at = header.block + size + number * (page * header.element_size + CHECKSUM)
            found = source.summed(at, count * header.element_size + CHECKSUM, "fixed array page")
            yield number * page, bytes(found.rest())


def _open_block(source: HDF5Source, header: FixedArrayHeader, address: int, size: int) -> Fields:
    assert header.block is not None  # checked by the caller
    fields = source.summed(header.block, size, "fixed array data block")
    fields.expect(b"FADB", "the signature")
    fields.version(0, 1)
    client, owner = fields.number(1), fields.address()
    if client != header.client or owner != address:
        raise fields.wrong("belongs to another array")
    return fields


def encode_fixed_array(header: FixedArrayHeader, elements: np.ndarray[Any, np.dtype[np.uint8]], address: int) -> bytes:
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
