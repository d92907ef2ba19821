"""Fractal heaps: storage for the links of large groups and for many attributes (format specification III.G).

A heap is one space of bytes, divided into direct blocks. They are listed in a table of rows: rows 0 and 1 have blocks
of the starting size, and each further row doubles the size; all rows have the same number of blocks. Blocks larger
than the maximum direct size are indirect: each is another table of this kind. An object's id contains its offset in
the space.

| id of a managed object | bytes | | direct block | bytes | | indirect block | bytes |
| --- | --- | --- | --- | --- | --- | --- | --- |
| bits 4-5: 0 managed, 1 huge, 2 tiny | 1 | | `FHDB` | 4 | | `FHIB` | 4 |
| offset in the space | ceil(bits / 8) | | version 0 | 1 | | version 0 | 1 |
| length | | | heap header | O | | heap header | O |
| | | | offset in the space | ceil(bits / 8) | | offset in the space | ceil(bits / 8) |
| | | | checksum, if header flags bit 1 | 4 | | addresses, row by row | O each |
| | | | objects (offsets include the fields above) | | | checksum | 4 |

A tiny object is in its id, after the first byte, whose bits 0-3 are its length minus one (in ids of more than 18 bytes:
12 bits, with the next byte). A huge object is anywhere in the file: its id has its address and length, or, if they do
not fit, a number to be looked up in a B-tree of records (address O, length L, number L).

Links and attributes in a heap are found by a B-tree of the hashes of their names. An info message points to both:
version 0, flags, the largest creation order if flags bit 0, heap, B-tree by name, B-tree by order if flags bit 1.
"""

from __future__ import annotations

from collections.abc import Iterator

from colonnade import kernels
from colonnade.dataclass import dataclass
from colonnade.format.btrees import RecordBound, read_records
from colonnade.format.headers import Message
from colonnade.format.source import CHECKSUM, Fields, HDF5Source

_SUMMED = 2
_MANAGED, _HUGE, _TINY = 0, 1, 2
_HUGE_RECORDS = 1  # type of the B-tree of huge objects that are not filtered
_LONG_ID = 18  # bytes; in longer ids, tiny objects have a length of 12 bits


@dataclass(frozen=True, slots=True)
class HeapHeader:
    """The fields of a heap's header that are needed to find objects."""

    id_size: int
    flags: int
    greatest_object: int
    width: int
    start_size: int
    greatest_direct: int
    space_bits: int
    root: int | None
    root_rows: int
    huge_tree: int | None = None

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
        raise fields.unknown("filters")
    greatest = fields.number(4)
    fields.length()
    huge_tree = fields.address()
    fields.length()
    fields.address()
    for _ in range(8):
        fields.length()
    width, start, direct, bits = fields.number(2), fields.length(), fields.length(), fields.number(2)
    fields.number(2)
    root, rows = fields.address(), fields.number(2)
    sound = 0 < width < 1 << 15 and _is_power(start) and _is_power(direct) and start <= direct and bits <= 64
    if not sound or not id_size or rows > 64 or direct > 1 << 32:
        raise fields.wrong("has a table of blocks that makes no sense")
    return HeapHeader(id_size, flags, greatest, width, start, direct, bits, root, rows, huge_tree)


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
        self._work = source.most_work

    @property
    def id_size(self) -> int:
        return self._header.id_size

    def read(self, identity: bytes) -> bytes:
        """The object of an id."""
        fields = self._source.as_fields(identity, f"fractal heap id {identity.hex()}, in the heap", self._address)
        first = fields.number(1)
        kind = first >> 4 & 3
        if first >> 6 or kind > _TINY:
            raise fields.unknown(f"an id of version {first >> 6} and kind {kind}")
        if kind == _TINY:
            return fields.take(first % 16 * 256 + fields.number(1) + 1 if self.id_size > _LONG_ID else first % 16 + 1)
        return self._read_huge(fields) if kind == _HUGE else self._read_managed(fields)

    def _read_managed(self, fields: Fields) -> bytes:
        place, length = fields.number(self._header.place_bytes), fields.number(self._header.length_bytes)
        start, block = self._find(place, fields)
        inside = place - start
        if inside < self._lead or length < 1 or inside + length > len(block):
            raise fields.wrong("points outside its block")
        return block[inside : inside + length]

    def _read_huge(self, fields: Fields) -> bytes:
        if self._source.offset_size + self._source.length_size < self.id_size:
            address, length = fields.address(), fields.length()
        else:
            address, length = self._find_huge(fields)
        if address is None:
            raise fields.wrong("points nowhere")
        return self._source.read(address, length, "fractal heap object")

    def _find_huge(self, fields: Fields) -> tuple[int | None, int]:
        number = fields.number(min(self.id_size - 1, 8))
        if self._header.huge_tree is None:
            raise fields.wrong("is the id of a huge object, of which the heap has none")
        size = self._source.length_size

        def keep(left: RecordBound, right: RecordBound) -> bool:
            after = left is None or int.from_bytes(left[-size:], "little") <= number
            return after and (right is None or int.from_bytes(right[-size:], "little") >= number)

        for node in read_records(self._source, self._header.huge_tree, keep):
            step = node.header.record_size
            if node.header.type != _HUGE_RECORDS or step != self._source.offset_size + 2 * size:
                raise fields.wrong(f"leads to a B-tree of type {node.header.type} with records of {step} bytes")
            for at in range(0, len(node.data), step):
                record = self._source.as_fields(node.data[at : at + step], "fractal heap record of a huge object")
                address, length = record.address(), record.length()
                if record.length() == number:
                    return address, length
        raise fields.wrong("is the id of a huge object that does not exist")

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
            self._spend(size, fields)
            data = self._source.read(address, size, "fractal heap block")
            self._check_block(data, address, b"FHDB", start)
            self._blocks[address] = data
        return self._blocks[address]

    def _spend(self, n_bytes: int, fields: Fields) -> None:
        """Blocks are read once and kept, and do not overlap."""
        self._work -= n_bytes
        if self._work < 0:
            raise fields.wrong("leads to blocks that overlap")

    def _check_block(self, data: bytes, address: int, signature: bytes, start: int) -> None:
        fields = self._source.as_fields(data, "fractal heap block", address)
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
            self._spend(size, fields)
            what = "fractal heap table"
            data = self._source.verified(self._source.read(address, size, what), address, what)
            self._check_block(data, address, b"FHIB", start)
            pointers = self._source.as_fields(data[lead:], what, address)
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
    """How one kind is stored: bytes of its largest order, type of its B-tree, bytes before and after an id there.

    hash_at: where the hash of the name is in a record.
    """

    title: str
    order_bytes: int
    tree: int
    before: int
    after: int
    hash_at: int


class NamedHeap:
    """Links or attributes in a heap: all of them, or those of a name."""

    def __init__(self, source: HDF5Source, message: Message, form: NamedForm) -> None:
        fields = source.as_fields(message.data, f"{form.title} info message", message.at)
        fields.version(0)
        flags = fields.number(1)
        fields.take(form.order_bytes if flags & 1 else 0)
        self.has_order = bool(flags & 1)
        self._heap_address, self._tree = fields.address(), fields.address()
        self._source, self._form, self._fields = source, form, fields
        self._heap: FractalHeap | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in the heap: the links or attributes are in the header, if there are any."""
        return self._heap_address is None or self._tree is None

    def read(self) -> Iterator[tuple[bytes, bytes]]:
        """The bytes of each object, and the bytes after the id in its record."""
        return self._read(None)

    def find(self, name: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The objects whose names have the hash of this one: nearly always one, or none."""
        return self._read(int(kernels.lookup3(name)))

    def _read(self, wanted: int | None) -> Iterator[tuple[bytes, bytes]]:
        if self._heap_address is None or self._tree is None:
            return
        if self._heap is None:
            self._heap = FractalHeap(self._source, self._heap_address)
        heap, form, work = self._heap, self._form, self._source.most_work

        def keep(left: RecordBound, right: RecordBound) -> bool:
            after = left is None or self._hash(left) <= (wanted or 0)
            return after and (right is None or self._hash(right) >= (wanted or 0))

        for node in read_records(self._source, self._tree, None if wanted is None else keep):
            header, data = node.header, node.data
            if header.type != form.tree or header.record_size != form.before + heap.id_size + form.after:
                raise self._fields.wrong("points to a B-tree that is not a B-tree of names")
            for at in range(0, len(data), header.record_size):
                record = data[at : at + header.record_size]
                if wanted is None or self._hash(record) == wanted:
                    end = form.before + heap.id_size
                    content = heap.read(record[form.before : end])
                    work -= len(content)
                    if work < 0:
                        raise self._fields.wrong("points to objects that overlap")
                    yield content, record[end:]

    def _hash(self, record: bytes) -> int:
        at = self._form.hash_at % len(record)
        return int.from_bytes(record[at : at + 4], "little")
