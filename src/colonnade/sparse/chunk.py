"""Decode and encode one sectioned chunk: bytes to sections, sections to cells, and back (RFC 2; facts 3).

A stored chunk is the concatenation of its sections. Each section has its own filters; a checksum, if any, is appended
before filtering. Section 0 selects the defined elements, section 1 holds their values, section 2 the heap that
variable-length values refer to. (In dense variable-length chunks, section 0 holds all elements, section 1 the heap.)

Decoding gives `Cells`: the ascending positions of defined elements in the chunk, and their values. Encoding gives a
`PackedChunk`; section 0 is written in the legal form that is smallest after filtering (facts 11).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

import numpy as np

from colonnade.arrays import Booleans
from colonnade.dataclass import dataclass
from colonnade.errors import UnsupportedError, UsageError
from colonnade.filters.apply import Packer
from colonnade.filters.codecs import as_view
from colonnade.filters.undo import UNDO, Pipeline
from colonnade.format.global_heap import REFERENCE, decode_heap_set
from colonnade.format.layout import SKIP_EDGES
from colonnade.format.records import ChunkRecord
from colonnade.format.source import Fields, HDF5Source, with_checksum
from colonnade.format.values import DecodedValues, decode_values
from colonnade.model import FilterInfo
from colonnade.sparse.info import SparseInfo, check_record, chunk_fields, count_values, is_edge, origin
from colonnade.sparse.selections import (
    CellSelection,
    Positions,
    choose_selections,
    coordinates,
    decode_selection,
    encode_selection,
    find_places,
)
from colonnade.sparse.values import VARIABLE_KINDS, encode_objects

_PACKING = ("deflate", "zstd")
_QUICK = 3  # up to this deflate level, speed is assumed to matter more than size
Section = bytes | memoryview


@dataclass(frozen=True, slots=True)
class Cells:
    """Defined elements of one chunk: their ascending positions in it, and their values (None if not requested)."""

    places: Positions
    values: DecodedValues | None


def read_section(source: HDF5Source, info: SparseInfo, record: ChunkRecord, number: int) -> bytes:
    """One section, unfiltered, with its checksum verified and removed."""
    start, stop = record.bounds[number], record.bounds[number + 1]
    stored = source.read(record.address + start, stop - start, f"section {number} of chunk {record.grid}")
    return decode_section(source, info, record, number, stored)


def decode_section(source: HDF5Source, info: SparseInfo, record: ChunkRecord, number: int, stored: bytes) -> bytes:
    """Undo the filters of a section, and verify and remove its checksum."""
    what = chunk_fields(source, record, f"section {number} of ")
    filters, size = info.pipelines[number], record.unfiltered[number]
    if info.layout.flags & SKIP_EDGES and is_edge(info, record):
        filters = ()
    if not stored:
        if size:
            raise what.wrong(f"has no bytes, {size} are expected")
        return b""
    data = _undo(filters, stored, size, record.masks[number], what) if filters else stored
    if len(data) != size:
        raise what.wrong(f"has {len(data)} bytes, {size} are expected")
    if number not in info.layout.checksummed:
        return data
    return source.verified(data, record.address + record.bounds[number], f"section {number} of chunk {record.grid}")


@lru_cache(maxsize=256)
def _pipeline(filters: tuple[FilterInfo, ...], size: int) -> Pipeline:
    return Pipeline(filters, size)


def _undo(filters: tuple[FilterInfo, ...], stored: bytes, size: int, mask: int, what: Fields) -> bytes:
    unknown = [step.name for number, step in enumerate(filters) if step.id not in UNDO and not mask >> number & 1]
    pipeline = _pipeline(filters, size)
    if unknown or (not pipeline.is_known and not mask):
        text = f"filter {unknown[0]}" if unknown else f"these filters on {size} bytes"
        raise UnsupportedError(
            f"{what.name}: {what.what} has {text}, which is not supported", feature=text, path=what.name
        )
    data = np.empty(size, dtype=np.uint8)
    try:
        pipeline.undo(stored, mask, data)
    except ValueError as error:
        raise what.wrong(f"cannot be unpacked: {error}") from error
    return data.tobytes()


def read_selection(source: HDF5Source, info: SparseInfo, record: ChunkRecord) -> CellSelection:
    """The selection of the defined elements of a chunk, from its section 0."""
    what = chunk_fields(source, record, "section 0 of ")
    data = read_section(source, info, record, 0)
    return decode_selection(source.as_fields(data, what.what), info.layout.chunk)


def read_cells(source: HDF5Source, info: SparseInfo, record: ChunkRecord, with_values: bool = True) -> Cells:
    """The defined elements of a chunk; see the module docstring."""
    check_record(source, info, record)
    count = count_values(source, info, record)
    what = chunk_fields(source, record, "section 0 of ")
    if info.layout.is_sparse:
        selection = read_selection(source, info, record)
        places = find_places(selection, count, source.as_fields(b"", what.what))
        ordered = selection.is_ordered
        _check_inside(info, record, places, what)
    else:
        if count != info.layout.chunk_elements:
            raise what.wrong(f"has {count} elements, a chunk has {info.layout.chunk_elements}")
        places, ordered = np.arange(count, dtype=np.int64), True
    values = read_values(source, info, record) if with_values else None
    if not ordered and (places[1:] < places[:-1]).any():
        order = np.argsort(places, kind="stable")
        places, values = places[order], values[order] if values is not None else None
    if not info.layout.is_sparse and is_edge(info, record):
        inside = is_inside(info, record, places)
        places, values = places[inside], values[inside] if values is not None else None
    return Cells(places, values)


def read_values(source: HDF5Source, info: SparseInfo, record: ChunkRecord) -> DecodedValues:
    """The values of a chunk, in the order of its selection."""
    layout, heap = info.layout, None
    if layout.heap_section is not None:
        what = chunk_fields(source, record, f"section {layout.heap_section} of ").what
        heap = decode_heap_set(source.as_fields(read_section(source, info, record, layout.heap_section), what))
    return decode_values(read_section(source, info, record, layout.values_section), info.type, heap)


def _check_inside(info: SparseInfo, record: ChunkRecord, places: Positions, what: Fields) -> None:
    if is_edge(info, record) and not is_inside(info, record, places).all():
        raise what.wrong(f"selects elements outside the dataset, which has shape {info.space.shape}")


def is_inside(info: SparseInfo, record: ChunkRecord, places: Positions) -> Booleans:
    """A mask of the positions that are inside the dataset."""
    limits = np.array(info.space.shape) - origin(info, record)
    inside: Booleans = np.all(coordinates(places, info.layout.chunk) < limits, axis=1)
    return inside


# -- encoding --


@dataclass(frozen=True, slots=True)
class PackedChunk:
    """A chunk as stored, section by section, and the fields of its record."""

    sections: tuple[Section, ...]
    bounds: tuple[int, ...]
    unfiltered: tuple[int, ...]
    masks: tuple[int, ...]

    @property
    def data(self) -> bytes:
        """All sections as stored, concatenated."""
        return b"".join(self.sections)

    @property
    def size(self) -> int:
        return self.bounds[-1]

    def record(self, grid: tuple[int, ...], address: int) -> ChunkRecord:
        return ChunkRecord(grid, address, self.bounds, self.unfiltered, self.masks)


Packed = tuple[tuple[int, ...], PackedChunk | None]
"""The grid index of a chunk, and its new content; None removes it."""


def encode_chunk(info: SparseInfo, places: Positions, values: bytes, heap: bytes | None = None) -> PackedChunk:
    """A sparse chunk from ascending positions, the bytes of their values, and the bytes of the heap, if any."""
    forms = choose_selections(places, info.layout.chunk, is_thorough(info.pipelines[0]))
    if not is_thorough(info.pipelines[0]):
        forms = forms[:1]
    tried = [_summed(info, 0, encode_selection(form)) for form in forms]
    if len(tried) > 1:
        tried.sort(key=lambda section: len(_filter(info, 0, section)[0]))
    rest = [values] if heap is None else [values, heap]
    return pack_sections(info, [tried[0], *(_summed(info, number, data) for number, data in enumerate(rest, 1))])


def encode_sections(info: SparseInfo, sections: Sequence[bytes]) -> PackedChunk:
    """A chunk of these sections, none of which is a selection."""
    return pack_sections(info, [_summed(info, number, data) for number, data in enumerate(sections)])


def pack_sections(info: SparseInfo, sections: Sequence[Section]) -> PackedChunk:
    """A chunk of these sections, which already include their checksums."""
    parts = [_filter(info, number, section) for number, section in enumerate(sections)]
    bounds = accumulate((len(data) for data, _ in parts), initial=0)
    masks = tuple(mask for _, mask in parts)
    unfiltered = tuple(len(section) for section in sections)
    return PackedChunk(tuple(data for data, _ in parts), tuple(bounds), unfiltered, masks)


def is_thorough(filters: tuple[FilterInfo, ...]) -> bool:
    """Whether to try all forms for the smallest one: not without filters, nor with fast ones."""
    return any(step.name != "deflate" or step.options[0] > _QUICK for step in filters if step.name in _PACKING)


def _summed(info: SparseInfo, number: int, data: bytes) -> bytes:
    return with_checksum(data) if data and number in info.layout.checksummed else data


def _filter(info: SparseInfo, number: int, whole: Section) -> tuple[Section, int]:
    """The stored bytes of a section, and the mask of skipped filters."""
    packer = _packer(info.pipelines[number])
    if packer.is_empty or not whole:
        return whole, 0
    packed, mask = packer.pack(whole)
    return as_view(packed), mask


@lru_cache(maxsize=64)
def _packer(filters: tuple[FilterInfo, ...]) -> Packer:
    packer = Packer(filters, skip_useless=True)
    if not packer.is_known:
        names = ", ".join(step.name for step in filters)
        raise UnsupportedError(f"cannot filter sections with {names}", feature=names)
    return packer


def encode_cells(info: SparseInfo, cells: Cells) -> PackedChunk:
    """A chunk of these cells with a heap, and, depending on the layout, a selection or all elements."""
    assert cells.values is not None  # needed for writing
    if not info.type.has_pointers:
        return encode_chunk(info, cells.places, cells.values.tobytes())
    if info.type.kind not in VARIABLE_KINDS:
        raise UsageError(f"cannot write {info.name}: its type {info.type} is not supported for writing")
    elements, heap = encode_objects(cells.values, info.type)
    if info.layout.is_sparse:
        return encode_chunk(info, cells.places, elements.tobytes(), heap)
    whole = np.zeros((info.layout.chunk_elements, REFERENCE), dtype=np.uint8)
    whole[cells.places] = elements
    return encode_sections(info, [whole.tobytes(), heap])
