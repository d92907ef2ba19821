"""Fractal heaps: storage for the links of large groups and for many attributes (format specification III.G).

A heap is one space of bytes, divided into direct blocks. They are listed in a table of rows: rows 0 and 1 have blocks
of the starting size, and each further row doubles the size; all rows have the same number of blocks. Blocks larger
than the maximum direct size are indirect: each is another table of this kind. An object's id contains its offset in
the space.

| id of a managed object | bytes | | direct block | bytes | | indirect block | bytes |
| --- | --- | --- | --- | --- | --- | --- | --- |
| 0 (version, kind) | 1 | | `FHDB` | 4 | | `FHIB` | 4 |
| offset in the space | ceil(bits / 8) | | version 0 | 1 | | version 0 | 1 |
| length | | | heap header | O | | heap header | O |
| | | | offset in the space | ceil(bits / 8) | | offset in the space | ceil(bits / 8) |
| | | | checksum, if header flags bit 1 | 4 | | addresses, row by row | O each |
| | | | objects (offsets include the fields above) | | | checksum | 4 |

Links and attributes in a heap are found by a B-tree of their names. An info message points to both: version 0, flags,
the largest creation order if flags bit 0, heap, B-tree by name.
"""

from __future__ import annotations

from collections.abc import Iterator

from colonnade import kernels
from colonnade.dataclass import dataclass
from colonnade.errors import UnsupportedError
from colonnade.format.btree2 import read_records
from colonnade.format.headers import Message
from colonnade.format.source import CHECKSUM, Fields, HDF5Source

_SUMMED = 2
_KIND = 0x30  # bits of an id's first byte: 0 managed, else huge or tiny


@dataclass(frozen=True, slots=True)
class HeapHeader:
    """The fields of a heap's header that are needed to find managed objects."""

    id_size: int
    flags: int
    greatest_object: int
    width: int
    start_size: int
    greatest_direct: int
    space_bits: int
    root: int | None
    root_rows: int

    @property
    def place_bytes(self) -> int:
        return -(-self.space_bits // 8)

    @property
    def length_bytes(self) -> int:
        by_block = (self.greatest_direct.bit_length() - 1 + 7) // 8
        by_object = (max(self.greatest_object, 1).bit_length() - 1) // 8 + 1
        return min(by_block, by_object)

    def block_size(self, row: int) -> int:
        return self.start_size << max(row - 1, 0)


def decode_heap_header(fields: Fields) -> HeapHeader:
    """`FRHP`, version 0, then the fields named below; the skipped numbers are counts."""
    fields.expect(b"FRHP", "the signature")
    fields.version(0)
    id_size, filter_bytes, flags = fields.number(2), fields.number(2), fields.number(1)
    if filter_bytes:
        raise UnsupportedError(f"{fields.name}: {fields.what} has filters, which is not supported", path=fields.name)
    greatest = fields.number(4)
    fields.length()
    fields.address()
    fields.length()
    fields.address()
    for _ in range(8):
        fields.length()
    width, start, direct, bits = fields.number(2), fields.length(), fields.length(), fields.number(2)
    fields.number(2)
    root, rows = fields.address(), fields.number(2)
    sound = 0 < width < 1 << 15 and _is_power(start) and _is_power(direct) and start <= direct and bits <= 64
    if not sound or rows > 64 or direct > 1 << 32:
        raise fields.wrong("has a table of blocks that makes no sense")
    return HeapHeader(id_size, flags, greatest, width, start, direct, bits, root, rows)


def _is_power(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


class FractalHeap:
    """A heap, from which objects are read by their ids."""

    def __init__(self, source: HDF5Source, address: int) -> None:
        lengths, offsets = source.length_size, source.offset_size
        size = 14 + 10 * lengths + 2 * offsets + 2 + 2 * lengths + 2 + 2 + offsets + 2 + CHECKSUM
        self._source = source
        self._address = address
        self._header = decode_heap_header(source.summed(address, size, "fractal heap header"))
        self._blocks: dict[int, bytes] = {}
        self._tables: dict[int, list[int | None]] = {}

    @property
    def id_size(self) -> int:
        return self._header.id_size

    def read(self, identity: bytes) -> bytes:
        """The object of an id."""
        fields = self._source.as_fields(identity, f"an id of the fractal heap at byte {self._address}")
        if fields.number(1) & _KIND:
            raise UnsupportedError(
                f"{self._source.name}: the heap at byte {self._address} has a very long link, which is not supported",
                path=self._source.name,
            )
        place, length = fields.number(self._header.place_bytes), fields.number(self._header.length_bytes)
        start, block = self._find(place, fields)
        inside = place - start
        if inside < self._lead or length < 1 or inside + length > len(block):
            raise fields.wrong("points outside its block")
        return block[inside : inside + length]

    @property
    def _lead(self) -> int:
        summed = CHECKSUM if self._header.flags & _SUMMED else 0
        return 5 + self._source.offset_size + self._header.place_bytes + summed

    def _find(self, place: int, fields: Fields) -> tuple[int, bytes]:
        """The direct block that contains a place: its offset in the space, and its bytes."""
        header, address, rows, start = self._header, self._header.root, self._header.root_rows, 0
        if rows == 0:
            return 0, self._read_direct(address, header.start_size, 0, fields)
        while True:
            row, column, begin = _entry(header, place - start)
            if row >= rows:
                raise fields.wrong("points after the end of the heap")
            children = self._read_indirect(address, rows, start, fields)
            address, start, size = children[row * header.width + column], start + begin, header.block_size(row)
            if size <= header.greatest_direct:
                return start, self._read_direct(address, size, start, fields)
            rows = (size // (header.start_size * header.width)).bit_length()

    def _read_direct(self, address: int | None, size: int, start: int, fields: Fields) -> bytes:
        if address is None:
            raise fields.wrong("points to a block that does not exist")
        if address not in self._blocks:
            data = self._source.read(address, size, "fractal heap block")
            self._check_block(data, address, b"FHDB", start)
            self._blocks[address] = data
        return self._blocks[address]

    def _check_block(self, data: bytes, address: int, signature: bytes, start: int) -> None:
        fields = self._source.as_fields(data, f"fractal heap block at byte {address}")
        fields.expect(signature, "the signature")
        fields.version(0)
        owner, place = fields.address(), fields.number(self._header.place_bytes)
        if owner != self._address or place != start:
            raise fields.wrong("belongs to another place")
        if signature == b"FHDB" and self._header.flags & _SUMMED:
            stored = fields.number(CHECKSUM)
            at = fields.at - CHECKSUM
            if kernels.lookup3(data[:at] + bytes(CHECKSUM) + data[at + CHECKSUM :]) != stored:
                raise fields.wrong("does not match its checksum")

    def _read_indirect(self, address: int | None, rows: int, start: int, fields: Fields) -> list[int | None]:
        if address is None:
            raise fields.wrong("points to a block that does not exist")
        if address not in self._tables:
            lead = 5 + self._source.offset_size + self._header.place_bytes
            n_children = rows * self._header.width
            size = lead + n_children * self._source.offset_size + CHECKSUM
            data = self._source.verified(self._source.read(address, size, "heap table"), address, "fractal heap table")
            self._check_block(data, address, b"FHIB", start)
            pointers = self._source.as_fields(data[lead:], f"fractal heap table at byte {address}")
            self._tables[address] = [pointers.address() for _ in range(n_children)]
        found = self._tables[address]
        if len(found) != rows * self._header.width:
            raise fields.wrong("points to a table of two sizes")
        return found


def _entry(header: HeapHeader, place: int) -> tuple[int, int, int]:
    """Row, column and start of the block that contains a place, in a table of blocks."""
    row_bytes = header.start_size * header.width
    row = (place // row_bytes).bit_length()
    size, first = header.block_size(row), row_bytes << (row - 1) if row else 0
    column = (place - first) // size
    return row, column, first + column * size


@dataclass(frozen=True, slots=True)
class NamedForm:
    """How one kind is stored: bytes of its largest order, type of its B-tree, bytes before and after an id there."""

    title: str
    order_bytes: int
    tree: int
    before: int
    behind: int


def read_named(source: HDF5Source, message: Message, form: NamedForm) -> Iterator[tuple[bytes, bytes]]:
    """The bytes of each object in the heap, and the bytes after the id in its record."""
    fields = source.as_fields(message.data, f"{form.title} info message at byte {message.at}")
    fields.version(0)
    flags = fields.number(1)
    fields.take(form.order_bytes if flags & 1 else 0)
    heap_address, tree_address = fields.address(), fields.address()
    if heap_address is None or tree_address is None:
        return
    heap = FractalHeap(source, heap_address)
    for node in read_records(source, tree_address):
        header, data = node.header, node.data
        if header.type != form.tree or header.record_size != form.before + heap.id_size + form.behind:
            raise fields.wrong("points to a B-tree that is not a B-tree of names")
        for at in range(form.before, len(data), header.record_size):
            yield heap.read(data[at : at + heap.id_size]), data[at + heap.id_size : at + heap.id_size + form.behind]
