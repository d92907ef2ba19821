"""The size of a sectioned dataset: bytes of each section, as stored and before filtering."""

from __future__ import annotations

from math import prod

from colonnade.dataclass import dataclass
from colonnade.format.source import HDF5Source
from colonnade.model import FilterInfo
from colonnade.sparse.info import SparseInfo, check_record, chunk_map_of, count_values

_NAMES = {True: ("selection", "values", "heap"), False: ("values", "heap")}


@dataclass(frozen=True, slots=True)
class SectionSize:
    """The size of one section, summed over all chunks. `ratio` is the compression ratio.

    >>> s = cn.create_sparse("run.h5", "matrix", shape=(100, 100), dtype="i4")
    >>> s.write([(0, 1), (50, 2)], [5, 6])
    >>> [section.name for section in s.measure().sections]
    ['selection', 'values']
    """

    number: int
    name: str
    stored: int
    unfiltered: int
    filters: tuple[FilterInfo, ...]

    @property
    def ratio(self) -> float | None:
        """The bytes before filtering per stored byte; None if nothing is stored."""
        return self.unfiltered / self.stored if self.stored else None


@dataclass(frozen=True, slots=True)
class StoredSize:
    """The size of a dataset's chunks. `dense` is the size that all its elements would have without filters.

    >>> s = cn.create_sparse("run.h5", "matrix", shape=(100, 100), dtype="i4")
    >>> s.write([(0, 1), (50, 2)], [5, 6])
    >>> size = s.measure()
    >>> size.n_values, size.dense
    (2, 40000)
    """

    n_chunks: int
    n_places: int
    n_values: int
    map_version: int | None
    dense: int
    sections: tuple[SectionSize, ...]


def measure(source: HDF5Source, info: SparseInfo) -> StoredSize:
    """The size of a dataset, from the chunk records alone: no chunk is read."""
    chunk_map = chunk_map_of(info, source)
    n_sections, n_chunks, n_values = info.layout.n_sections, 0, 0
    stored, unfiltered = [0] * n_sections, [0] * n_sections
    shape = chunk_map.grid_shape
    for records in chunk_map.read((0,) * len(shape), shape):
        for record in records:
            check_record(source, info, record)
            n_chunks, n_values = n_chunks + 1, n_values + count_values(source, info, record)
            for number in range(n_sections):
                stored[number] += record.bounds[number + 1] - record.bounds[number]
                unfiltered[number] += record.unfiltered[number]
    names = _NAMES[info.layout.is_sparse]
    sections = tuple(
        SectionSize(number, names[number], stored[number], unfiltered[number], info.pipelines[number])
        for number in range(n_sections)
    )
    dense = prod(info.space.shape) * info.type.size
    return StoredSize(n_chunks, prod(shape), n_values, chunk_map.version(), dense, sections)
