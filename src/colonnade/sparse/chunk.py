"""Decode one sectioned chunk: bytes to sections, sections to cells (RFC 2; facts 3).

A stored chunk is the concatenation of its sections. Each section has its own filters; a checksum, if any, is appended
before filtering. Section 0 selects the defined elements, section 1 holds their values, section 2 the heap that
variable-length values refer to. (In dense variable-length chunks, section 0 holds all elements, section 1 the heap.)

Out: `Cells`, the ascending positions of defined elements in the chunk, and their values.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from colonnade.dataclass import dataclass
from colonnade.errors import UnsupportedError
from colonnade.filters.undo import UNDO, Pipeline
from colonnade.format.dataspace import Dataspace
from colonnade.format.heap_set import decode_heap_set
from colonnade.format.layout import SKIP_EDGES, Layout
from colonnade.format.records import ChunkRecord
from colonnade.format.source import CHECKSUM, Fields, HDF5Source
from colonnade.format.values import Values, decode_values
from colonnade.model import FilterInfo, StoredType
from colonnade.sparse.selections import CellSelection, Places, decode_selection, find_places


@dataclass(frozen=True, slots=True)
class SparseInfo:
    """The description of a sectioned dataset: everything needed to read it."""

    name: str
    space: Dataspace
    type: StoredType
    fill: bytes | None
    layout: Layout
    pipelines: tuple[tuple[FilterInfo, ...], ...]
    attributes: tuple[bytes, ...] = ()  # messages of attributes stored in the header
    others: tuple[tuple[int, bytes], ...] = ()  # messages that are copied unchanged: comment, modification time

    @property
    def filtered(self) -> bool:
        """Whether chunk records have filter fields: they do for all chunks as soon as one section has filters."""
        return any(self.pipelines)


@dataclass(frozen=True, slots=True)
class Cells:
    """Defined elements of one chunk: their ascending positions in it, and their values (None if not requested)."""

    places: Places
    values: Values | None


def origin(info: SparseInfo, record: ChunkRecord) -> tuple[int, ...]:
    """The coordinates of a chunk's first element."""
    return tuple(at * size for at, size in zip(record.grid, info.layout.chunk, strict=True))


def is_edge(info: SparseInfo, record: ChunkRecord) -> bool:
    """Whether a chunk extends beyond the dataset."""
    ends = zip(origin(info, record), info.layout.chunk, info.space.shape, strict=True)
    return any(start + size > limit for start, size, limit in ends)


def check_record(source: HDF5Source, info: SparseInfo, record: ChunkRecord) -> None:
    """Raise unless the chunk is within the file and its sections follow each other within the chunk."""
    bounds = record.bounds
    if any(start > stop for start, stop in pairwise(bounds)):
        raise _what(source, record, "").wrong(f"has sections that start at {bounds[:-1]} in {bounds[-1]} bytes")
    if record.address + record.size > source.fits:
        raise _what(source, record, "").wrong(f"lies at byte {record.address}, beyond the end of the file")


def _what(source: HDF5Source, record: ChunkRecord, part: str) -> Fields:
    """Fields that name the chunk in errors."""
    return source.as_fields(b"", f"{part}chunk {record.grid} at byte {record.address}")


def read_section(source: HDF5Source, info: SparseInfo, record: ChunkRecord, number: int) -> bytes:
    """One section, unfiltered, with its checksum verified and removed."""
    start, stop = record.bounds[number], record.bounds[number + 1]
    stored = source.read(record.address + start, stop - start, f"section {number} of chunk {record.grid}")
    return decode_section(source, info, record, number, stored)


def decode_section(source: HDF5Source, info: SparseInfo, record: ChunkRecord, number: int, stored: bytes) -> bytes:
    """Undo the filters of a section, and verify and remove its checksum."""
    what = _what(source, record, f"section {number} of ")
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
    unknown = [step.name for place, step in enumerate(filters) if step.id not in UNDO and not mask >> place & 1]
    pipeline = _pipeline(filters, size)
    if unknown or (not pipeline.is_known and not mask):
        text = f"filter {unknown[0]}" if unknown else f"these filters on {size} bytes"
        raise UnsupportedError(
            f"{what.name}: {what.what} has {text}, which cannot be undone here", feature=text, path=what.name
        )
    made = np.empty(size, dtype=np.uint8)
    try:
        pipeline.undo(stored, mask, made)
    except ValueError as error:
        raise what.wrong(f"cannot be unpacked: {error}") from error
    return made.tobytes()


def read_selection(source: HDF5Source, info: SparseInfo, record: ChunkRecord) -> CellSelection:
    """The selection of the defined elements of a chunk, from its section 0."""
    what = _what(source, record, "section 0 of ")
    data = read_section(source, info, record, 0)
    return decode_selection(source.as_fields(data, what.what), info.layout.chunk)


def count_values(source: HDF5Source, info: SparseInfo, record: ChunkRecord) -> int:
    """The number of values in a chunk, from its record alone."""
    number = info.layout.values_section
    size = record.unfiltered[number]
    if number in info.layout.checksummed and size:
        size -= CHECKSUM
    count, rest = divmod(size, info.layout.element_size)
    if rest or size < 0:
        what = _what(source, record, f"section {number} of ")
        raise what.wrong(f"has {size} bytes, which is not a multiple of the element size {info.layout.element_size}")
    return count


def read_cells(source: HDF5Source, info: SparseInfo, record: ChunkRecord, with_values: bool = True) -> Cells:
    """The defined elements of a chunk; see the module docstring."""
    check_record(source, info, record)
    count = count_values(source, info, record)
    what = _what(source, record, "section 0 of ")
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


def read_values(source: HDF5Source, info: SparseInfo, record: ChunkRecord) -> Values:
    """The values of a chunk, in the order of its selection."""
    layout, heap = info.layout, None
    if layout.heap_section is not None:
        what = _what(source, record, f"section {layout.heap_section} of ").what
        heap = decode_heap_set(source.as_fields(read_section(source, info, record, layout.heap_section), what))
    return decode_values(read_section(source, info, record, layout.values_section), info.type, heap)


def _check_inside(info: SparseInfo, record: ChunkRecord, places: Places, what: Fields) -> None:
    if is_edge(info, record) and not is_inside(info, record, places).all():
        raise what.wrong(f"selects elements outside the dataset, which has shape {info.space.shape}")


def is_inside(info: SparseInfo, record: ChunkRecord, places: Places) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """A mask of the positions that are inside the dataset."""
    limits = np.array(info.space.shape) - origin(info, record)
    inside: np.ndarray[Any, np.dtype[np.bool_]] = np.all(coordinates(places, info.layout.chunk) < limits, axis=1)
    return inside


def coordinates(places: Places, chunk: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The coordinates in the chunk of these positions, one row each."""
    found = np.empty((len(places), len(chunk)), dtype=np.int64)
    left = places
    for axis in range(len(chunk) - 1, 0, -1):
        up = left // chunk[axis]  # faster than np.divmod, which is not vectorized
        found[:, axis] = left - up * chunk[axis]
        left = up
    found[:, 0] = left
    return found
