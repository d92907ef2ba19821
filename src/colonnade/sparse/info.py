"""The description of a sectioned dataset, from the messages of its header, and what its chunk records say."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from colonnade.dataclass import dataclass
from colonnade.errors import CorruptError, UnsupportedError, UsageError
from colonnade.format.chunk_maps import ChunkMap
from colonnade.format.dataspace import Dataspace, decode_dataspace
from colonnade.format.datatype import decode_datatype
from colonnade.format.headers import (
    ATTRIBUTE,
    COMMENT,
    DATASPACE,
    DATATYPE,
    FILL,
    LAYOUT,
    MODIFIED,
    OLD_FILL,
    PIPELINE,
    SECTION_PIPELINE,
    Message,
    find,
    read_messages,
)
from colonnade.format.layout import VARIABLE, StorageLayout, decode_layout, is_sectioned
from colonnade.format.links import is_group, read_links
from colonnade.format.pipelines import decode_pipelines
from colonnade.format.records import ChunkRecord
from colonnade.format.source import CHECKSUM, Fields, HDF5Source
from colonnade.format.values import decode_fill, decode_old_fill
from colonnade.model import FilterInfo, StoredType


@dataclass(frozen=True, slots=True)
class SparseInfo:
    """The description of a sectioned dataset: everything needed to read it.

    >>> s = cn.create_sparse("run.h5", "matrix", shape=(100, 100), dtype="i4")
    >>> s.write([(0, 1), (50, 2)], [5, 6])
    >>> s.info.space.shape
    (100, 100)
    """

    name: str
    space: Dataspace
    type: StoredType
    fill: bytes | None
    layout: StorageLayout
    pipelines: tuple[tuple[FilterInfo, ...], ...]
    attributes: tuple[bytes, ...] = ()  # messages of attributes stored in the header
    others: tuple[tuple[int, bytes], ...] = ()  # messages that are copied unchanged: comment, modification time

    @property
    def filtered(self) -> bool:
        """Whether chunk records have filter fields: they do for all chunks as soon as one section has filters."""
        return any(self.pipelines)


def chunk_map_of(info: SparseInfo, source: HDF5Source) -> ChunkMap:
    """The chunk map of a dataset, which is read from the file as it is used."""
    return ChunkMap(source, info.layout, info.space, info.filtered)


def walk_datasets(source: HDF5Source, root: int) -> Iterator[tuple[str, list[Message]]]:
    """Path and messages of every sectioned dataset, sorted by name within each group."""
    seen = {root}
    groups = [("", root)]
    while groups:
        path, address = groups.pop()
        objects = []
        for link in read_links(source, read_messages(source, address)):
            if link.address is None or link.address in seen:
                continue
            seen.add(link.address)
            objects.append((f"{path}/{link.name}", link.address))
        inner = []
        for name, header in sorted(objects):
            messages = read_messages(source, header)
            layout = find(messages, LAYOUT)
            if layout is not None and is_sectioned(layout.data):
                yield name, messages
            elif is_group(messages):
                inner.append((name, header))
        groups.extend(reversed(inner))


def describe(source: HDF5Source, messages: list[Message], name: str) -> SparseInfo:
    """The description of a sectioned dataset, from the messages of its header."""
    layout_message = find(messages, LAYOUT)
    if layout_message is None or not is_sectioned(layout_message.data):
        what = (
            "a group"
            if is_group(messages)
            else "a dataset that HDF5 itself can read"
            if layout_message
            else "not a dataset"
        )
        raise UsageError(f"{source.name}: {name} is not stored in sectioned chunks: it is {what}", path=source.name)
    space = decode_dataspace(_open(source, messages, DATASPACE, "dataspace"))
    if not space.shape:
        raise CorruptError(f"{name} has no dimensions", path=source.name)
    stored = decode_datatype(_open(source, messages, DATATYPE, "datatype"))
    layout = decode_layout(source, layout_message.data, layout_message.at, len(space.shape), stored.size)
    limits = zip(space.shape, space.max_shape, strict=True)
    if any(size >= 1 << 62 for size in space.shape):
        message = f"{source.name}: {name} has shape {space.shape}: a side of 2**62 or more is not read"
        raise UnsupportedError(message, feature="sides of 2**62 or more", path=source.name)
    if any(limit is not None and size > limit for size, limit in limits):
        raise CorruptError(f"{name} has shape {space.shape}, at most {space.max_shape}", path=source.name)
    if stored.has_pointers != (layout.heap_section is not None) or (
        layout.type == VARIABLE and not stored.has_pointers
    ):
        raise CorruptError(f"{name} has {layout.n_sections} sections for {stored}", path=source.name)
    fill = _read_fill(source, messages)
    if fill is not None and len(fill) != stored.size:
        raise CorruptError(f"{name} has a fill value of {len(fill)} bytes for {stored}", path=source.name)
    pipelines = _read_pipelines(source, messages)
    if any(section >= layout.n_sections for section in pipelines):
        raise CorruptError(f"{name} has filters for sections it does not have", path=source.name)
    by_section = tuple(pipelines.get(section, ()) for section in range(layout.n_sections))
    attributes = tuple(message.data for message in messages if message.type == ATTRIBUTE)
    others = tuple((message.type, message.data) for message in messages if message.type in (COMMENT, MODIFIED))
    return SparseInfo(name, space, stored, fill, layout, by_section, attributes, others)


def _open(source: HDF5Source, messages: list[Message], kind: int, what: str) -> Fields:
    message = find(messages, kind)
    if message is None:
        raise CorruptError(f"a dataset has no {what} message", path=source.name)
    return source.as_fields(message.data, f"{what} message at byte {message.at}")


def _read_fill(source: HDF5Source, messages: list[Message]) -> bytes | None:
    for kind, decode in ((FILL, decode_fill), (OLD_FILL, decode_old_fill)):
        message = find(messages, kind)
        if message is not None:
            return decode(source.as_fields(message.data, f"fill value message at byte {message.at}"))
    return None


def _read_pipelines(source: HDF5Source, messages: list[Message]) -> dict[int, tuple[FilterInfo, ...]]:
    for kind, version in ((PIPELINE, 3), (SECTION_PIPELINE, 1)):
        message = find(messages, kind)
        if message is not None:
            return decode_pipelines(source.as_fields(message.data, f"filter message at byte {message.at}"), version)
    return {}


# -- chunks, from their records alone --


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
        raise chunk_fields(source, record, "").wrong(f"has sections that start at {bounds[:-1]} in {bounds[-1]} bytes")
    if record.address + record.size > source.fits:
        raise chunk_fields(source, record, "").wrong(f"lies at byte {record.address}, beyond the end of the file")


def chunk_fields(source: HDF5Source, record: ChunkRecord, part: str) -> Fields:
    """Fields that name the chunk in errors."""
    return source.as_fields(b"", f"{part}chunk {record.grid} at byte {record.address}")


def count_values(source: HDF5Source, info: SparseInfo, record: ChunkRecord) -> int:
    """The number of values in a chunk, from its record alone."""
    number = info.layout.values_section
    size = record.unfiltered[number]
    if number in info.layout.checksummed and size:
        size -= CHECKSUM
    count, rest = divmod(size, info.layout.element_size)
    if rest or size < 0:
        what = chunk_fields(source, record, f"section {number} of ")
        raise what.wrong(f"has {size} bytes, which is not a multiple of the element size {info.layout.element_size}")
    return count
