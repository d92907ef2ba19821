"""One sectioned chunk: its bytes to sections, its sections to cells (RFC 2; facts 3).

A stored chunk is its sections side by side. Each was filtered by filters of its own; those with a checksum end with
it, before their filters. Section 0 says which elements are defined, section 1 holds their values, section 2 the heap
that variable-length values refer to. (Of dense variable-length chunks, section 0 holds all elements, 1 the heap.)

Out: `Cells`, the places of defined elements in the chunk, ascending, and their values.
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
from colonnade.format.source import CHECKSUM, Fields, Source
from colonnade.model import FilterInfo, StoredType
from colonnade.sparse.selections import CellSelection, Places, decode_selection, find_places
from colonnade.sparse.values import Values, decode_values


@dataclass(frozen=True, slots=True)
class SparseInfo:
    """A sectioned dataset, described: all that is needed to read it."""

    name: str
    space: Dataspace
    type: StoredType
    fill: bytes | None
    layout: Layout
    pipelines: tuple[tuple[FilterInfo, ...], ...]
    attributes: tuple[bytes, ...] = ()  # messages of those that are kept in the header
    others: tuple[tuple[int, bytes], ...] = ()  # messages that are kept as they are: comment, time of the last change

    @property
    def filtered(self) -> bool:
        """Whether records of chunks tell of filters: of all chunks, as soon as one section has some."""
        return any(self.pipelines)


@dataclass(frozen=True, slots=True)
class Cells:
    """Defined elements of one chunk: their places in it, ascending, and their values (None where not asked for)."""

    places: Places
    values: Values | None


def origin(info: SparseInfo, record: ChunkRecord) -> tuple[int, ...]:
    """The coordinates of a chunk's first element."""
    return tuple(at * size for at, size in zip(record.grid, info.layout.chunk, strict=True))


def is_edge(info: SparseInfo, record: ChunkRecord) -> bool:
    """Whether a chunk reaches beyond the dataset."""
    ends = zip(origin(info, record), info.layout.chunk, info.space.shape, strict=True)
    return any(start + size > limit for start, size, limit in ends)


def check_record(source: Source, info: SparseInfo, record: ChunkRecord) -> None:
    """A chunk must lie in the file, and its sections one behind the other in it."""
    bounds = record.bounds
    if any(start > stop for start, stop in pairwise(bounds)):
        raise _what(source, record, "").wrong(f"has sections that start at {bounds[:-1]} in {bounds[-1]} bytes")
    if record.address + record.size > source.fits:
        raise _what(source, record, "").wrong(f"lies at byte {record.address}, beyond the end of the file")


def _what(source: Source, record: ChunkRecord, part: str) -> Fields:
    """The chunk's name, for errors."""
    return source.as_fields(b"", f"{part}chunk {record.grid} at byte {record.address}")


def read_section(source: Source, info: SparseInfo, record: ChunkRecord, number: int) -> bytes:
    """One section, filters undone, its checksum verified and left out."""
    start, stop = record.bounds[number], record.bounds[number + 1]
    stored = source.read(record.address + start, stop - start, f"section {number} of chunk {record.grid}")
    return decode_section(source, info, record, number, stored)


def decode_section(source: Source, info: SparseInfo, record: ChunkRecord, number: int, stored: bytes) -> bytes:
    """A section as it was before it was filtered and its checksum put behind it."""
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


def read_selection(source: Source, info: SparseInfo, record: ChunkRecord) -> CellSelection:
    """Which elements of a chunk are defined, as its section 0 says."""
    what = _what(source, record, "section 0 of ")
    data = read_section(source, info, record, 0)
    return decode_selection(source.as_fields(data, what.what), info.layout.chunk)


def count_values(source: Source, info: SparseInfo, record: ChunkRecord) -> int:
    """How many elements a chunk holds values of, from its record alone."""
    number = info.layout.values_section
    size = record.unfiltered[number]
    if number in info.layout.checksummed and size:
        size -= CHECKSUM
    count, rest = divmod(size, info.layout.element_size)
    if rest or size < 0:
        what = _what(source, record, f"section {number} of ")
        raise what.wrong(f"has {size} bytes, which are no whole number of elements of {info.layout.element_size}")
    return count


def read_cells(source: Source, info: SparseInfo, record: ChunkRecord, with_values: bool = True) -> Cells:
    """The defined elements of a chunk; see the head of this file."""
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


def read_values(source: Source, info: SparseInfo, record: ChunkRecord) -> Values:
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
    """Which places are of elements that the dataset has."""
    limits = np.array(info.space.shape) - origin(info, record)
    inside: np.ndarray[Any, np.dtype[np.bool_]] = np.all(coordinates(places, info.layout.chunk) < limits, axis=1)
    return inside


def coordinates(places: Places, chunk: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Coordinates in the chunk of places, a row each."""
    found = np.empty((len(places), len(chunk)), dtype=np.int64)
    left = places
    for axis in range(len(chunk) - 1, 0, -1):
        up = left // chunk[axis]  # quicker than divmod, which NumPy does number by number
        found[:, axis] = left - up * chunk[axis]
        left = up
    found[:, 0] = left
    return found
