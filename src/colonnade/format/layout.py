"""Data layout messages: how ordinary storage is laid out (format specification IV.A.2.i), and sectioned chunks.

| ordinary, version 3 | bytes | | version 4 (5: chunks of 4 GiB and more) | bytes |
| --- | --- | --- | --- | --- |
| version 3, class | 1 + 1 | | version 4, class | 1 + 1 |
| compact (0): size, elements | 2, ... | | compact, contiguous: as version 3 | |
| contiguous (1): address, size | O, L | | chunked: flags, D, E | 1 + 1 + 1 |
| chunked (2): D, address of a version 1 B-tree | 1, O | | D dimensions; chunk map, as below | E each, ... |
| D dimensions, the last one the bytes of an element | 4 each | | address of the chunk map | O |
| | | | virtual (3): map, in the global heap | O |

Versions 1 and 2: version, D, class (1 each), 5 zero bytes, address (O, unless compact), D dimensions (4 each; of chunks
the last is the bytes of an element), compact: size (4), elements.

flags: bit 0: chunks that extend beyond the dataset are not filtered; bit 1: a single chunk is filtered.
Chunk maps of version 4: as below, but 1 single chunk: if flags bit 1, its bytes (L) and the filters it has skipped (4);
2 implicit: nothing; the chunks follow each other at the address.

Sectioned chunks have version 5, class 4, in four dialects. All begin `05 04`, property version 0 (1), type (2). Then,
in this order:

| sectioned (RFC 3.1.2) | structured (RFC 3.1.1) | prototype (RFC v28, the code) |
| --- | --- | --- |
| storage type 0 (1) | flags (1) | flags (1) |
| composition | D (1), E (1), D dimensions (E each) | D, E, dimensions |
| offset size (8) | chunk map | offset size (1), composition |
| flags (1) | address (O) | chunk map |
| D, E, dimensions | offset size (8; read also: 1) | address |
| chunk map | composition | |
| address | | |

composition: number of sections N (1), number of checksummed sections K (1), their numbers (1 each).
dimensions: of the chunk, slowest first, and finally the bytes of an element; D counts all of them.
chunk map: type (1) and

| type | what follows |
| --- | --- |
| 1 single chunk | the chunk's record without its address (see `records`) |
| 3 fixed array | page bits (1) |
| 4 extensible array | max bits, index block elements, least super block pointers, least elements, page bits (1 each) |
| 5 version 2 B-tree | node size (4), split (1), merge (1) |

No field names the dialect of a message: it is the only one in which the message is valid (facts 1.6). Zeros may follow.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Literal

from colonnade.dataclass import dataclass
from colonnade.errors import CorruptError
from colonnade.format.source import Fields, HDF5Source
from colonnade.model import Storage

Dialect = Literal["sectioned", "structured", "structured, short", "prototype"]
MapKind = Literal["single", "fixed array", "extensible array", "b-tree"]
OrdinaryMapKind = MapKind | Literal["implicit", "version 1 b-tree"]
MAP_NUMBERS: dict[MapKind, tuple[int, ...]] = {
    "single": (),
    "fixed array": (10,),
    "extensible array": (32, 4, 4, 16, 10),
    "b-tree": (2048, 100, 40),
}
SPARSE, VARIABLE = 1, 2  # bits of the type
SKIP_EDGES, FILTERED_SINGLE = 1, 2  # bits of the flags
_COMPACT, _CONTIGUOUS, _CHUNKED, _VIRTUAL, _CLASS = 0, 1, 2, 3, 4
_OLD, _NEWEST = 3, 5  # versions of ordinary storage: those before have one form, those after it one for each class
_VERSION = 5
_OFFSET_SIZE = 8
_MOST_DIMENSIONS = 33
LARGEST_HDF5_CHUNK = 1 << 62  # bytes, if all elements were defined
_IMPLICIT = 2  # type of a chunk map
_MAPS: dict[int, tuple[MapKind, tuple[int, ...]]] = {  # and the byte widths of the numbers that follow
    1: ("single", ()),
    3: ("fixed array", (1,)),
    4: ("extensible array", (1, 1, 1, 1, 1)),
    5: ("b-tree", (4, 1, 1)),
}


@dataclass(frozen=True, slots=True)
class StorageLayout:
    """How a dataset is divided into sectioned chunks, and where they are.

    numbers: the numbers after the type of the chunk map; empty for a single chunk, whose record is in `single`.
    address: of the chunk map, or of the single chunk; None if nothing was written.

    >>> s = cn.create_sparse("run.h5", "matrix", shape=(100, 100), dtype="i4")
    >>> s.write([(0, 1), (50, 2)], [5, 6])
    >>> s.info.layout.chunk
    (100, 100)
    """

    dialect: Dialect
    type: int
    flags: int
    chunk: tuple[int, ...]
    element_size: int
    n_sections: int
    checksummed: tuple[int, ...]
    map: MapKind
    numbers: tuple[int, ...]
    single: bytes
    address: int | None

    @property
    def is_sparse(self) -> bool:
        """Whether section 0 lists the defined elements; else all are. The prototype writes type 0 for sparse."""
        return self.type != VARIABLE

    @property
    def values_section(self) -> int:
        """The number of the section that holds the values."""
        return 1 if self.is_sparse else 0

    @property
    def heap_section(self) -> int | None:
        """The section that holds the data of variable-length elements."""
        last = self.n_sections - 1
        return last if last > self.values_section else None

    @property
    def chunk_elements(self) -> int:
        """The number of elements of a chunk."""
        return prod(self.chunk)


@dataclass(frozen=True, slots=True)
class OrdinaryStorage:
    """How a dataset that is not sectioned is stored.

    chunk, element_size: lengths of a chunk, and the bytes of an element, if it is chunked; flags: see the table.
    elements: their bytes, if they are in the header. address: of the elements, of the chunk map, of the only chunk, or
    of the map of a virtual dataset; None if nothing was written. size: the bytes of contiguous elements, if given.
    single: bytes and filter mask of a chunk that is the only one and filtered.
    """

    version: int
    storage: Storage
    chunk: tuple[int, ...] = ()
    element_size: int = 0
    flags: int = 0
    elements: bytes = b""
    address: int | None = None
    size: int | None = None
    map: OrdinaryMapKind | None = None
    single: tuple[int, int] | None = None

    @property
    def has_options(self) -> bool:
        """Whether its chunks have flags set, such as that those at the edge skip filters."""
        return bool(self.flags)


def decode_storage(fields: Fields) -> OrdinaryStorage:
    """See the table at the top of this file. A map of virtual storage is found in versions after 5 too."""
    version, kind = fields.number(1), fields.number(1)
    if kind == _VIRTUAL and version > _OLD:
        return OrdinaryStorage(version, "virtual", address=fields.address())
    if not 1 <= version <= _NEWEST:
        raise fields.unknown(f"version {version} of this message")
    if version < _OLD:
        return _decode_old_storage(fields, version, kind)
    if kind == _COMPACT:
        return OrdinaryStorage(version, "compact", elements=fields.take(fields.number(2)))
    if kind == _CONTIGUOUS:
        return OrdinaryStorage(version, "contiguous", address=fields.address(), size=fields.length())
    if kind == _CLASS and version == _VERSION:
        return OrdinaryStorage(version, "sectioned")
    if kind != _CHUNKED:
        raise fields.wrong(f"has class {kind}")
    if version == _OLD:
        n_sizes, address = fields.number(1), fields.address()
        chunk, element_size = _decode_chunk(fields, n_sizes, 4)
        return OrdinaryStorage(version, "chunked", chunk, element_size, address=address, map="version 1 b-tree")
    return _decode_chunked(fields, version)


def _decode_old_storage(fields: Fields, version: int, n_sizes: int) -> OrdinaryStorage:
    kind = fields.number(1)
    fields.take(5)
    address = fields.address() if kind != _COMPACT else None
    if kind == _CHUNKED:
        chunk, element_size = _decode_chunk(fields, n_sizes, 4)
        return OrdinaryStorage(version, "chunked", chunk, element_size, address=address, map="version 1 b-tree")
    fields.numbers(n_sizes, 4)
    if kind == _COMPACT:
        return OrdinaryStorage(version, "compact", elements=fields.take(fields.number(4)))
    if kind != _CONTIGUOUS:
        raise fields.wrong(f"has class {kind}")
    return OrdinaryStorage(version, "contiguous", address=address)


def _decode_chunked(fields: Fields, version: int) -> OrdinaryStorage:
    flags, n_sizes, width = fields.number(1), fields.number(1), fields.number(1)
    chunk, element_size = _decode_chunk(fields, n_sizes, width)
    number, single = fields.number(1), None
    if number not in (*_MAPS, _IMPLICIT):
        raise fields.unknown(f"a chunk map of type {number}")
    kind: OrdinaryMapKind = "implicit" if number == _IMPLICIT else _MAPS[number][0]
    for width in () if number == _IMPLICIT else _MAPS[number][1]:
        fields.number(width)
    if kind == "single" and flags & FILTERED_SINGLE:
        single = fields.length(), fields.number(4)
    return OrdinaryStorage(
        version, "chunked", chunk, element_size, flags, address=fields.address(), map=kind, single=single
    )


def _decode_chunk(fields: Fields, n_sizes: int, width: int) -> tuple[tuple[int, ...], int]:
    """The lengths of a chunk, and the bytes of an element."""
    if not 2 <= n_sizes <= _MOST_DIMENSIONS or not 1 <= width <= 8:
        raise fields.wrong(f"has {n_sizes} dimensions in {width} bytes each")
    sizes = fields.numbers(n_sizes, width)
    if not all(sizes) or prod(sizes) > LARGEST_HDF5_CHUNK:
        raise fields.wrong(f"has chunks of {sizes}")
    return sizes[:-1], sizes[-1]


def is_virtual(data: bytes) -> bool:
    """Whether a layout message is one of a virtual dataset."""
    return data[1:2] == bytes((_VIRTUAL,)) and data[0] >= 4


def is_sectioned(data: bytes) -> bool:
    """Whether a layout message is one of sectioned chunks. HDF5 2.0 uses version 5 for ordinary chunks too."""
    return data[:2] == bytes((_VERSION, _CLASS))


def size_bytes(chunk_bytes: int, n_sections: int) -> int:
    """The byte width of the size of a stored chunk (facts 4: W)."""
    return 8 if n_sections > 2 else min(8, 1 + (chunk_bytes.bit_length() - 1 + 8) // 8)


def record_tail(n_sections: int, filtered: bool) -> int:
    """The size of the section fields in a chunk's record (facts 3.1)."""
    return 8 * (n_sections - 1) + (12 * n_sections if filtered else 0)


def decode_layout(source: HDF5Source, data: bytes, at: int, rank: int, element_size: int) -> StorageLayout:
    """Decode the layout in the only dialect in which the message is valid for this rank and element size."""
    what = f"layout message at byte {at}"
    found: list[StorageLayout] = []
    for dialect, decode in _DIALECTS.items():
        try:
            layout = _decode_as(dialect, decode, source.as_fields(data, what))
        except CorruptError:
            continue
        if len(layout.chunk) == rank and layout.element_size == element_size:
            found.append(layout)
    if len(found) != 1:
        meaning = "can be read in several ways" if found else "makes sense in no known dialect"
        raise source.as_fields(b"", what).wrong(f"{meaning}: {data.hex(' ')}")
    return found[0]


def _decode_as(dialect: Dialect, decode: Callable[[Fields, _Draft], None], fields: Fields) -> StorageLayout:
    fields.expect(bytes((_VERSION, _CLASS, 0)), "version, class and property version")
    draft = _Draft(fields.number(2))
    if draft.type > SPARSE | VARIABLE:
        raise fields.wrong(f"has type {draft.type}")
    decode(fields, draft)
    if any(fields.rest()):
        raise fields.wrong("has bytes after its end")
    expected = 3 if draft.type == SPARSE | VARIABLE else 2
    if draft.n_sections != expected and not (draft.n_sections == 3 and draft.type <= SPARSE):
        raise fields.wrong(f"has {draft.n_sections} sections for type {draft.type}")
    return draft.finish(dialect)


class _Draft:
    """A layout that is filled field by field."""

    def __init__(self, kind: int) -> None:
        self.type = kind
        self.flags = 0
        self.sizes: tuple[int, ...] = ()
        self.n_sections = 0
        self.checksummed: tuple[int, ...] = ()
        self.map: MapKind = "single"
        self.numbers: tuple[int, ...] = ()
        self.single = b""
        self.address: int | None = None

    def take_grid(self, fields: Fields) -> None:
        self.flags, count, width = fields.number(1), fields.number(1), fields.number(1)
        if not 2 <= count <= _MOST_DIMENSIONS or not 1 <= width <= 8 or self.flags > SKIP_EDGES | FILTERED_SINGLE:
            raise fields.wrong(f"has {count} dimensions in {width} bytes each, flags {self.flags}")
        self.sizes = fields.numbers(count, width)
        if not all(self.sizes) or prod(self.sizes) > LARGEST_HDF5_CHUNK:
            raise fields.wrong(f"has chunks of {self.sizes}")

    def take_offset_size(self, fields: Fields, n_bytes: int) -> None:
        size = fields.number(n_bytes)
        if size != _OFFSET_SIZE:
            raise fields.wrong(f"has section offsets of {size} bytes")

    def take_composition(self, fields: Fields) -> None:
        self.n_sections, count = fields.number(1), fields.number(1)
        self.checksummed = fields.numbers(count, 1)
        listed = list(self.checksummed)
        if not 2 <= self.n_sections <= 3 or not listed or listed[0] != 0:
            raise fields.wrong(f"has {self.n_sections} sections, of which {listed} have checksums")
        if listed != sorted(set(listed)) or listed[-1] >= self.n_sections:
            raise fields.wrong(f"has {self.n_sections} sections, of which {listed} have checksums")

    def take_map(self, fields: Fields, n_sections: int) -> None:
        number = fields.number(1)
        if number not in _MAPS:
            raise fields.wrong(f"has a chunk map of type {number}")
        self.map, widths = _MAPS[number]
        self.numbers = tuple(fields.number(width) for width in widths)
        if self.map == "single":
            tail = record_tail(n_sections, bool(self.flags & FILTERED_SINGLE))
            self.single = fields.take(size_bytes(prod(self.sizes), n_sections) + tail)
        self.address = fields.address()

    def finish(self, dialect: Dialect) -> StorageLayout:
        return StorageLayout(
            dialect, self.type, self.flags, self.sizes[:-1], self.sizes[-1], self.n_sections, self.checksummed,
            self.map, self.numbers, self.single, self.address,
        )  # fmt: skip


def _decode_sectioned(fields: Fields, draft: _Draft) -> None:
    fields.expect(b"\0", "storage type")
    draft.take_composition(fields)
    draft.take_offset_size(fields, 8)
    draft.take_grid(fields)
    draft.take_map(fields, draft.n_sections)


def _decode_structured(fields: Fields, draft: _Draft, offset_bytes: int = 8) -> None:
    """A single chunk's record comes before the number of sections that it depends on; the type gives that number."""
    draft.take_grid(fields)
    n_sections = 3 if draft.type == SPARSE | VARIABLE else 2
    draft.take_map(fields, n_sections)
    draft.take_offset_size(fields, offset_bytes)
    draft.take_composition(fields)
    if draft.map == "single" and draft.n_sections != n_sections:
        raise fields.wrong(f"has {draft.n_sections} sections for type {draft.type}")


def _decode_short(fields: Fields, draft: _Draft) -> None:
    _decode_structured(fields, draft, 1)


def _decode_prototype(fields: Fields, draft: _Draft) -> None:
    draft.take_grid(fields)
    draft.take_offset_size(fields, 1)
    draft.take_composition(fields)
    draft.take_map(fields, draft.n_sections)


_DIALECTS: dict[Dialect, Callable[[Fields, _Draft], None]] = {
    "sectioned": _decode_sectioned,
    "structured": _decode_structured,
    "structured, short": _decode_short,
    "prototype": _decode_prototype,
}


def encode_layout(layout: StorageLayout) -> bytes:
    """Encode the message in the layout's dialect; addresses have 8 bytes."""
    head = bytes((_VERSION, _CLASS, 0)) + layout.type.to_bytes(2, "little")
    composition = bytes((layout.n_sections, len(layout.checksummed), *layout.checksummed))
    sizes = (*layout.chunk, layout.element_size)
    width = max((size.bit_length() - 1 + 8) // 8 for size in sizes)
    grid = bytes((layout.flags, len(sizes), width)) + b"".join(size.to_bytes(width, "little") for size in sizes)
    number, widths = next((number, widths) for number, (kind, widths) in _MAPS.items() if kind == layout.map)
    numbers = b"".join(one.to_bytes(width, "little") for one, width in zip(layout.numbers, widths, strict=True))
    address = b"\xff" * 8 if layout.address is None else layout.address.to_bytes(8, "little")
    chunk_map = bytes((number,)) + numbers + layout.single + address
    long, short = _OFFSET_SIZE.to_bytes(8, "little"), bytes((_OFFSET_SIZE,))
    parts: dict[Dialect, tuple[bytes, ...]] = {
        "sectioned": (b"\0", composition, long, grid, chunk_map),
        "structured": (grid, chunk_map, long, composition),
        "structured, short": (grid, chunk_map, short, composition),
        "prototype": (grid, short, composition, chunk_map),
    }
    return head + b"".join(parts[layout.dialect])
