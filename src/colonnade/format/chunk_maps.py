"""Which chunks of a dataset are stored, and where: the four kinds of chunk map (facts 4).

| kind | used by libhdf5 when | which chunk |
| --- | --- | --- |
| single | the chunk is the whole dataset, permanently | the only one |
| fixed array | no dimension is unlimited | row by row in the grid of the maximum shape |
| extensible array | one dimension is unlimited | row by row, with that dimension first |
| B-tree | several dimensions are unlimited | the record contains it |

In: a window of the grid of chunks.  Out: records of stored chunks in that window, in batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import prod

import numpy as np

from colonnade.dataclass import dataclass
from colonnade.format import arrays
from colonnade.format.btree2 import RecordBound, read_records, read_tree_header
from colonnade.format.dataspace import Dataspace
from colonnade.format.layout import StorageLayout, size_bytes
from colonnade.format.records import NOWHERE, Grid, RecordForm, Records, decode_records, form_of
from colonnade.format.source import HDF5Source

_PLAIN, _FILTERED = 2, 3  # clients of arrays
_TREE_PLAIN, _TREE_FILTERED = 12, 13  # types of B-trees
_MOST_SLOTS = 1 << 62


@dataclass(frozen=True, slots=True)
class ChunkMap:
    """The chunk map of one dataset. `filtered`: whether records have filter fields."""

    source: HDF5Source
    layout: StorageLayout
    space: Dataspace
    filtered: bool

    @property
    def grid_shape(self) -> tuple[int, ...]:
        """The number of chunks of the dataset in its current shape, by dimension."""
        return tuple(-(-size // chunk) for size, chunk in zip(self.space.shape, self.layout.chunk, strict=True))

    def read(self, low: tuple[int, ...], high: tuple[int, ...]) -> Iterator[Records]:
        """Records of the stored chunks from `low` to below `high` in the grid."""
        if self.layout.address is None or any(start >= stop for start, stop in zip(low, high, strict=True)):
            return
        for records in _READ[self.layout.map](self, low, high):
            inside = ((records.grid >= low) & (records.grid < high)).all(axis=1) & (records.address != NOWHERE)
            if inside.any():
                yield records if inside.all() else records.where(inside)

    def read_all(self) -> Iterator[Records]:
        """Records of all stored chunks, including those outside the current shape of the dataset."""
        free = tuple(1 << 62 if limit is None else -(-limit // size) for limit, size in self._limits())
        yield from self.read((0,) * len(free), free)

    def _limits(self) -> Iterator[tuple[int | None, int]]:
        return zip(self.space.max_shape, self.layout.chunk, strict=True)

    def version(self) -> int | None:
        """The version of the map's header; None for a single chunk, and where nothing was written."""
        address = self.layout.address
        if address is None or self.layout.map == "single":
            return None
        if self.layout.map == "fixed array":
            return arrays.read_fixed_header(self.source, address).version
        if self.layout.map == "extensible array":
            return arrays.read_extensible_header(self.source, address).version
        return read_tree_header(self.source, address).version

    def _read_single(self, low: tuple[int, ...], high: tuple[int, ...]) -> Iterator[Records]:
        layout = self.layout
        width = size_bytes(layout.chunk_elements * layout.element_size, layout.n_sections)
        form = RecordForm(self.source.offset_size, width, 0, layout.n_sections, self.filtered)
        assert layout.address is not None  # checked by read
        data = layout.address.to_bytes(self.source.offset_size, "little") + layout.single
        if len(data) != form.length:
            text = "contradicts the filter message about whether the chunk is filtered"
            raise self.source.as_fields(b"", "the layout message").wrong(text)
        found = decode_records(data, form)
        yield _placed(found, np.zeros((1, len(layout.chunk)), dtype=np.int64))

    def _read_fixed(self, low: tuple[int, ...], high: tuple[int, ...]) -> Iterator[Records]:
        address = self.layout.address
        assert address is not None
        counts = self._slot_shape(tuple(range(len(low))))
        header = arrays.read_fixed_header(self.source, address)
        what = f"fixed array header at byte {address}"
        if header.n_elements != prod(counts):
            text = f"has {header.n_elements} elements for a grid of {counts} chunks"
            raise self.source.as_fields(b"", what).wrong(text)
        form = self._array_form(header.client, header.element_size, what)
        for first, data in arrays.read_fixed_elements(self.source, address, _slots(low, high, counts)):
            found = decode_records(data, form)
            yield _placed(found, _grid_of(first, len(found), counts))

    def _read_extensible(self, low: tuple[int, ...], high: tuple[int, ...]) -> Iterator[Records]:
        address = self.layout.address
        assert address is not None
        order = self._unlimited_first()
        counts = self._slot_shape(order)
        header = arrays.read_extensible_header(self.source, address)
        form = self._array_form(header.client, header.element_size, f"extensible array header at byte {address}")
        wanted = _slots(tuple(low[axis] for axis in order), tuple(high[axis] for axis in order), counts)
        back = np.argsort(order)
        for first, data in arrays.read_extensible_elements(self.source, address, wanted):
            found = decode_records(data, form)
            yield _placed(found, _grid_of(first, len(found), counts)[:, back])

    def _read_tree(self, low: tuple[int, ...], high: tuple[int, ...]) -> Iterator[Records]:
        address = self.layout.address
        assert address is not None
        header = read_tree_header(self.source, address)
        what = f"B-tree header at byte {address}"
        if header.type != (_TREE_FILTERED if self.filtered else _TREE_PLAIN):
            raise self.source.as_fields(b"", what).wrong(f"has records of type {header.type}, contrary to the filters")
        form = form_of(self.source, header.record_size, len(low), self.layout.n_sections, self.filtered, what)
        at = form.offset_size + form.size_bytes

        def keep(left: RecordBound, right: RecordBound) -> bool:
            """Whether a node can hold records of the window: records are sorted by their first coordinate first."""
            after = left is None or int.from_bytes(left[at : at + 8], "little") < high[0]
            return after and (right is None or int.from_bytes(right[at : at + 8], "little") >= low[0])

        whole = not any(low) and all(stop >= size for stop, size in zip(high, self.grid_shape, strict=True))
        for node in read_records(self.source, address, None if whole else keep):
            yield decode_records(node.data, form)

    def check_order(self) -> None:
        """Raise if the records of a B-tree are not sorted by position: searching relies on that."""
        address = self.layout.address
        if self.layout.map != "b-tree" or address is None:
            return
        for node in read_records(self.source, address):
            rank, size = len(self.layout.chunk), node.header.record_size
            what = f"B-tree header at byte {address}"
            form = form_of(self.source, size, rank, self.layout.n_sections, self.filtered, what)
            lead, last = (b"" if one is None else one for one in (node.low, node.high))
            places = decode_records(lead + node.data + last, form).grid.tolist()
            if any(first >= second for first, second in pairwise(places)):
                raise self.source.as_fields(b"", f"B-tree at byte {address}").wrong("has records out of order")

    def _array_form(self, client: int, element_size: int, what: str) -> RecordForm:
        if client != (_FILTERED if self.filtered else _PLAIN):
            raise self.source.as_fields(b"", what).wrong(f"is for client {client}, contrary to the filters")
        return form_of(self.source, element_size, 0, self.layout.n_sections, self.filtered, what)

    def _unlimited_first(self) -> tuple[int, ...]:
        """The dimensions, the unlimited one first."""
        free = [axis for axis, size in enumerate(self.space.max_shape) if size is None]
        if len(free) != 1:
            text = f"is an extensible array for a dataset with {len(free)} unlimited dimensions"
            raise self.source.as_fields(b"", "the chunk map").wrong(text)
        return (free[0], *(axis for axis in range(len(self.space.shape)) if axis != free[0]))

    def _slot_shape(self, order: tuple[int, ...]) -> tuple[int, ...]:
        """The grid of all possible chunks, in this order of dimensions; 0 for the unlimited one."""
        limits = [self.space.max_shape[axis] for axis in order]
        counts = tuple(
            -(-limit // self.layout.chunk[axis]) if limit is not None else 0
            for axis, limit in zip(order, limits, strict=True)
        )
        if prod(counts[1:]) > _MOST_SLOTS or (self.layout.map == "fixed array" and None in limits):
            raise self.source.as_fields(b"", "the chunk map").wrong(f"is for a grid of {counts} chunks")
        return counts


_READ = {
    "single": ChunkMap._read_single,
    "fixed array": ChunkMap._read_fixed,
    "extensible array": ChunkMap._read_extensible,
    "b-tree": ChunkMap._read_tree,
}


def _slots(low: tuple[int, ...], high: tuple[int, ...], counts: tuple[int, ...]) -> range:
    """The range of slots that covers a window. Slots are row by row, so most slots in the range are in the window."""
    first = last = 0
    for axis, (start, stop) in enumerate(zip(low, high, strict=True)):
        step = prod(counts[axis + 1 :])
        first, last = first + start * step, last + (stop - 1) * step
    return range(first, last + 1)


def _grid_of(first: int, count: int, counts: tuple[int, ...]) -> Grid:
    """The grid positions of consecutive slots. The first dimension may be unlimited, so it has no modulus."""
    left = np.arange(first, first + count, dtype=np.int64)
    found = np.empty((count, len(counts)), dtype=np.int64)
    for axis in range(len(counts) - 1, 0, -1):
        found[:, axis] = left % counts[axis]
        left //= counts[axis]
    found[:, 0] = left
    return found


def _placed(records: Records, grid: Grid) -> Records:
    return Records(grid, records.address, records.bounds, records.unfiltered, records.masks)
