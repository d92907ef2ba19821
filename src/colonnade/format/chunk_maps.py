"""Which chunks of a dataset are stored, and where: the kinds of chunk map (facts 4).

| kind | used by libhdf5 when | which chunk |
| --- | --- | --- |
| single | the chunk is the whole dataset, permanently | the only one |
| implicit | no dimension is unlimited, space was allocated early, no filters | row by row, as in a fixed array |
| fixed array | no dimension is unlimited | row by row in the grid of the maximum shape |
| extensible array | one dimension is unlimited | row by row, with that dimension first |
| B-tree | several dimensions are unlimited | the record contains it |
| version 1 B-tree | the file is to be read by HDF5 before 1.10 | the key contains it |

The last kind and implicit maps are of ordinary chunks only. Records of ordinary chunks:

| element of an array | bytes | | record of a B-tree | bytes |
| --- | --- | --- | --- | --- |
| address | O | | address | O |
| with filters: bytes of the stored chunk | W | | with filters: bytes of the stored chunk | W |
| with filters: those it has skipped, one bit each | 4 | | with filters: those it has skipped, one bit each | 4 |
| | | | position in the grid of chunks | 8 per dimension |

In: a window of the grid of chunks.  Out: records of stored chunks in that window, in batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from colonnade.arrays import Octets
from colonnade.dataclass import dataclass
from colonnade.filters.read_plan import ChunkForm, Located
from colonnade.format import arrays
from colonnade.format.btrees import CHUNKS, RecordBound, TreeLeaf, TreeNode, read_leaves, read_records, read_tree_header
from colonnade.format.dataspace import Dataspace
from colonnade.format.layout import SKIP_EDGES, OrdinaryStorage, StorageLayout, record_tail, size_bytes
from colonnade.format.records import NOWHERE, Grid, RecordForm, RecordNumbers, Records, decode_records, form_of
from colonnade.format.source import HDF5Source
from colonnade.nodes.chunk_source import CachedChunkMap, ChunkPlace, check_address
from colonnade.pager.sources import ByteSource
from colonnade.selection import RowNumbers

if TYPE_CHECKING:
    from colonnade.format.nodes import ByteDataset

GridWindow = tuple[tuple[int, ...], tuple[int, ...]]
"""The first position in a grid of chunks, and the position after the last, in each dimension."""
_PLAIN, _FILTERED = 2, 3  # clients of arrays
_TREE_PLAIN, _TREE_FILTERED = 12, 13  # types of B-trees
_ORDINARY_TREES = {False: 10, True: 11}  # types of B-trees of chunks with and without filters
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
        data = self._address.to_bytes(self.source.offset_size, "little") + layout.single
        if len(data) != form.length:
            text = "contradicts the filter message about whether the chunk is filtered"
            raise self.source.as_fields(b"", "the layout message").wrong(text)
        records = decode_records(data, form)
        yield _placed(records, np.zeros((1, len(layout.chunk)), dtype=np.int64))

    def _read_fixed(self, low: tuple[int, ...], high: tuple[int, ...]) -> Iterator[Records]:
        for elements in _fixed_elements(self.source, self._address, self._grid, (low, high)):
            yield _placed(decode_records(elements.data, self._array_form(elements)), elements.grid)

    def _read_extensible(self, low: tuple[int, ...], high: tuple[int, ...]) -> Iterator[Records]:
        for elements in _extensible_elements(self.source, self._address, self._grid, (low, high)):
            yield _placed(decode_records(elements.data, self._array_form(elements)), elements.grid)

    def _read_tree(self, low: tuple[int, ...], high: tuple[int, ...]) -> Iterator[Records]:
        kind = _TREE_FILTERED if self.filtered else _TREE_PLAIN
        what = f"B-tree at byte {self._address}"
        tail = record_tail(self.layout.n_sections, self.filtered)
        for node in _tree_nodes(self.source, self._address, kind, self._grid, (low, high), tail):
            form = form_of(self.source, node.header.record_size, len(low), self.layout.n_sections, self.filtered, what)
            yield decode_records(node.data, form)

    @property
    def _address(self) -> int:
        address = self.layout.address
        if address is None:
            raise self.source.as_fields(b"", "the chunk map").wrong("was never written")
        return address

    @property
    def _grid(self) -> ChunkGridShape:
        return ChunkGridShape(self.space, self.layout.chunk)

    def check_order(self) -> None:
        """Raise if the records of a B-tree are not sorted by position: searching relies on that."""
        address = self.layout.address
        if self.layout.map != "b-tree" or address is None:
            return
        for node in read_records(self.source, address):
            rank, size = len(self.layout.chunk), node.header.record_size
            what = f"B-tree header at byte {address}"
            form = form_of(self.source, size, rank, self.layout.n_sections, self.filtered, what)
            lead, last = (b"" if bound is None else bound for bound in (node.low, node.high))
            places = decode_records(lead + node.data + last, form).grid.tolist()
            if any(first >= second for first, second in pairwise(places)):
                raise self.source.as_fields(b"", f"B-tree at byte {address}").wrong("has records out of order")

    def _array_form(self, elements: _Elements) -> RecordForm:
        what = f"array at byte {self._address}"
        if elements.client != (_FILTERED if self.filtered else _PLAIN):
            raise self.source.as_fields(b"", what).wrong(f"is for client {elements.client}, contrary to the filters")
        return form_of(self.source, elements.size, 0, self.layout.n_sections, self.filtered, what)


_READ = {
    "single": ChunkMap._read_single,
    "fixed array": ChunkMap._read_fixed,
    "extensible array": ChunkMap._read_extensible,
    "b-tree": ChunkMap._read_tree,
}


# -- ordinary chunks --


class StoredChunks(NamedTuple):
    """Stored chunks: position in the grid, one row each; address, bytes, and filters that each has skipped."""

    grid: Grid
    address: RecordNumbers
    size: RecordNumbers
    mask: RecordNumbers


@dataclass(frozen=True, slots=True)
class OrdinaryChunkMap:
    """The chunk map of a dataset in ordinary chunks. `filtered`: whether it has filters."""

    source: HDF5Source
    storage: OrdinaryStorage
    space: Dataspace
    filtered: bool

    @property
    def chunk_bytes(self) -> int:
        """The bytes of a chunk without filters."""
        return prod(self.storage.chunk) * self.storage.element_size

    @property
    def grid_shape(self) -> tuple[int, ...]:
        """The number of chunks of the dataset in its current shape, by dimension."""
        return tuple(-(-size // chunk) for size, chunk in zip(self.space.shape, self.storage.chunk, strict=True))

    def read(self, low: tuple[int, ...] | None = None, high: tuple[int, ...] | None = None) -> Iterator[StoredChunks]:
        """The stored chunks from `low` to below `high` in the grid; by default all of the dataset's shape."""
        shape = self.grid_shape
        low = low or (0,) * len(shape)
        high = shape if high is None else tuple(min(stop, size) for stop, size in zip(high, shape, strict=True))
        if self.storage.address is None or any(start >= stop for start, stop in zip(low, high, strict=True)):
            return
        for chunks in self._read((low, high), self.storage.address):
            inside = ((chunks.grid >= low) & (chunks.grid < high)).all(axis=1) & (chunks.address != NOWHERE)
            if inside.any():
                yield self._with_edges(StoredChunks(*(part[inside] for part in chunks)))

    def _with_edges(self, chunks: StoredChunks) -> StoredChunks:
        """Chunks that extend beyond the dataset have skipped all filters, if the dataset has that option."""
        if not self.filtered or not self.storage.flags & SKIP_EDGES:
            return chunks
        edge = ((chunks.grid + 1) * np.array(self.storage.chunk) > np.array(self.space.shape)).any(axis=1)
        return chunks._replace(mask=np.where(edge, np.uint64(0xFFFFFFFF), chunks.mask))

    def _read(self, window: GridWindow, address: int) -> Iterator[StoredChunks]:
        grid, kind = ChunkGridShape(self.space, self.storage.chunk), self.storage.map
        if kind == "version 1 b-tree":
            yield from self._read_old_tree(window, address)
        elif kind == "single":
            size, mask = self.storage.single or (self.chunk_bytes, 0)
            yield _chunks(np.zeros((1, len(grid.chunk)), dtype=np.int64), [address], [size], [mask])
        elif kind == "implicit":
            yield self._implied(grid, window, address)
        elif kind == "b-tree":
            for node in _tree_nodes(self.source, address, _ORDINARY_TREES[self.filtered], grid, window, 0):
                yield self._decode(node.data, node.header.record_size, None)
        else:
            elements_of = _fixed_elements if kind == "fixed array" else _extensible_elements
            for elements in elements_of(self.source, address, grid, window):
                if elements.client != int(self.filtered):
                    raise self._wrong(address, f"is for client {elements.client}, contrary to the filters")
                yield self._decode(elements.data, elements.size, elements.grid)

    def _decode(self, data: bytes, size: int, grid: Grid | None) -> StoredChunks:
        """Records of this size, with their positions in them if they are not given."""
        rank, offset_size = len(self.storage.chunk) if grid is None else 0, self.source.offset_size
        width = size - offset_size - 8 * rank - (4 if self.filtered else 0)
        if not (1 <= width <= 8 if self.filtered else width == 0):
            raise self._wrong(self.storage.address or 0, f"has records of {size} bytes")
        rows = np.frombuffer(data, dtype=np.uint8).reshape(-1, size)
        address = _numbers(rows[:, :offset_size])
        address[address == (1 << 8 * offset_size) - 1] = NOWHERE
        sizes, masks = np.full(len(rows), self.chunk_bytes, dtype=np.uint64), np.zeros(len(rows), dtype=np.uint64)
        if self.filtered:
            sizes = _numbers(rows[:, offset_size : offset_size + width])
            masks = _numbers(rows[:, offset_size + width : offset_size + width + 4])
        return StoredChunks(_positions(rows[:, size - 8 * rank :]) if grid is None else grid, address, sizes, masks)

    def _implied(self, grid: ChunkGridShape, window: GridWindow, address: int) -> StoredChunks:
        counts = grid.slots(self.source, address)
        slots = _slots(*window, counts)
        if address + slots.stop * self.chunk_bytes > self.source.fits:
            raise self._wrong(
                address, f"claims {slots.stop} chunks of {self.chunk_bytes} bytes, more than the file has"
            )
        numbers = np.arange(slots.start, slots.stop)
        sizes, masks = np.full(len(numbers), self.chunk_bytes), np.zeros(len(numbers))
        return _chunks(_grid_of(slots.start, len(slots), counts), address + numbers * self.chunk_bytes, sizes, masks)

    def _read_old_tree(self, window: GridWindow, address: int) -> Iterator[StoredChunks]:
        rank = len(self.storage.chunk)
        key_size = 16 + 8 * rank
        first, last = window[0][0] * self.storage.chunk[0], window[1][0] * self.storage.chunk[0]

        def keep(low: bytes, high: bytes) -> bool:
            return int.from_bytes(low[8:16], "little") < last and int.from_bytes(high[8:16], "little") >= first

        before = np.full((1, rank), -1, dtype=np.int64)
        for leaf in read_leaves(self.source, address, CHUNKS, key_size, keep):
            if leaf.n_children:
                chunks = self._decode_leaf(leaf, key_size)
                if not _increases(np.concatenate([before, chunks.grid])):
                    raise self.source.wrong("version 1 B-tree node", leaf.address, "has chunks that are not in order")
                before = chunks.grid[-1:]
                yield chunks

    def _decode_leaf(self, leaf: TreeLeaf, key_size: int) -> StoredChunks:
        step = key_size + self.source.offset_size
        rows = np.frombuffer(leaf.data, dtype=np.uint8, count=leaf.n_children * step).reshape(-1, step)
        grid, rest = np.divmod(_positions(rows[:, 8 : key_size - 8]), np.array(self.storage.chunk, dtype=np.int64))
        if rest.any():
            raise self.source.wrong("version 1 B-tree node", leaf.address, "has a chunk that is not in the grid")
        sizes = _numbers(rows[:, :4])
        if not self.filtered and (sizes != self.chunk_bytes).any():
            text = f"has a chunk of {int(sizes.max())} bytes, expected {self.chunk_bytes}"
            raise self.source.wrong("version 1 B-tree node", leaf.address, text)
        return StoredChunks(grid, _numbers(rows[:, key_size:]), sizes, _numbers(rows[:, 4:8]))

    def _wrong(self, address: int, text: str) -> Exception:
        return self.source.wrong(f"{self.storage.map}", address, text)


def _increases(grid: Grid) -> bool:
    """Whether each position in a grid comes after the one before it, the last dimension varying fastest."""
    steps = np.diff(grid, axis=0)
    decisive = (steps != 0).argmax(axis=1)
    return bool((steps[np.arange(len(steps)), decisive] > 0).all())


def _chunks(grid: Grid, address: object, size: object, mask: object) -> StoredChunks:
    return StoredChunks(grid, *(np.asarray(part, dtype=np.uint64) for part in (address, size, mask)))


def _numbers(rows: Octets) -> RecordNumbers:
    """One little-endian number per row."""
    wide = np.zeros((len(rows), 8), dtype=np.uint8)
    wide[:, : rows.shape[1]] = rows
    return wide.view("<u8")[:, 0].astype(np.uint64)


def _positions(rows: Octets) -> Grid:
    """Several numbers of 8 bytes per row; those that are too large for any file are made smaller, but stay large."""
    numbers: RecordNumbers = np.ascontiguousarray(rows).view("<u8").reshape(len(rows), rows.shape[1] // 8)
    return np.minimum(numbers, 1 << 62).astype(np.int64)


# -- elements of maps --


@dataclass(frozen=True, slots=True)
class ChunkGridShape:
    """The grid of all chunks that a dataset can have."""

    space: Dataspace
    chunk: tuple[int, ...]

    def slots(self, source: HDF5Source, address: int, order: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """The number of possible chunks, in this order of dimensions; 0 for an unlimited one, which is the first."""
        axes = tuple(range(len(self.chunk))) if order is None else order
        limits = [self.space.max_shape[axis] for axis in axes]
        counts = tuple(
            -(-limit // self.chunk[axis]) if limit is not None else 0 for axis, limit in zip(axes, limits, strict=True)
        )
        if prod(counts[1:]) > _MOST_SLOTS or (order is None and (None in limits or prod(counts) > _MOST_SLOTS)):
            raise source.wrong("chunk map", address, f"is for a grid of {counts} chunks")
        return counts

    def unlimited_first(self, source: HDF5Source, address: int) -> tuple[int, ...]:
        """The dimensions, the unlimited one first."""
        free = [axis for axis, size in enumerate(self.space.max_shape) if size is None]
        if len(free) != 1:
            text = f"is the chunk map of a dataset with {len(free)} unlimited dimensions"
            raise source.wrong("extensible array header", address, text)
        return (free[0], *(axis for axis in range(len(self.chunk)) if axis != free[0]))


class _Elements(NamedTuple):
    """Elements of an array: where in the grid each is, their concatenated bytes, the bytes of one, and their client."""

    grid: Grid
    data: bytes
    size: int
    client: int


def _fixed_elements(source: HDF5Source, address: int, grid: ChunkGridShape, window: GridWindow) -> Iterator[_Elements]:
    counts = grid.slots(source, address)
    header = arrays.read_fixed_header(source, address)
    if header.n_elements != prod(counts):
        text = f"has {header.n_elements} elements for a grid of {counts} chunks"
        raise source.wrong("fixed array header", address, text)
    for first, data in arrays.read_fixed_elements(source, address, _slots(*window, counts)):
        placed = _grid_of(first, len(data) // header.element_size, counts)
        yield _Elements(placed, data, header.element_size, header.client)


def _extensible_elements(
    source: HDF5Source, address: int, grid: ChunkGridShape, window: GridWindow
) -> Iterator[_Elements]:
    order = grid.unlimited_first(source, address)
    counts = grid.slots(source, address, order)
    header = arrays.read_extensible_header(source, address)
    low, high = (tuple(corner[axis] for axis in order) for corner in window)
    back = np.argsort(order)
    for first, data in arrays.read_extensible_elements(source, address, _slots(low, high, counts)):
        placed = _grid_of(first, len(data) // header.element_size, counts)[:, back]
        yield _Elements(placed, data, header.element_size, header.client)


def _tree_nodes(
    source: HDF5Source, address: int, kind: int, grid: ChunkGridShape, window: GridWindow, tail: int
) -> Iterator[TreeNode]:
    """The nodes with records of a window; in a record, `tail` bytes are after the position in the grid."""
    header = read_tree_header(source, address)
    low, high = window
    at = header.record_size - tail - 8 * len(low)
    if header.type != kind or at < source.offset_size:
        text = f"has records of type {header.type} and {header.record_size} bytes, contrary to the filters"
        raise source.wrong("B-tree header", address, text)

    def keep(left: RecordBound, right: RecordBound) -> bool:
        """Whether a node can hold records of the window: records are sorted by their first coordinate first."""
        after = left is None or int.from_bytes(left[at : at + 8], "little") < high[0]
        return after and (right is None or int.from_bytes(right[at : at + 8], "little") >= low[0])

    shape = [-(-size // chunk) for size, chunk in zip(grid.space.shape, grid.chunk, strict=True)]
    whole = not any(low) and all(stop >= size for stop, size in zip(high, shape, strict=True))
    yield from read_records(source, address, None if whole else keep)


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
    grid = np.empty((count, len(counts)), dtype=np.int64)
    for axis in range(len(counts) - 1, 0, -1):
        grid[:, axis] = left % counts[axis]
        left //= counts[axis]
    grid[:, 0] = left
    return grid


def _placed(records: Records, grid: Grid) -> Records:
    return Records(grid, records.address, records.bounds, records.unfiltered, records.masks)


# -- chunks located for plans of reading --


class StoredChunkMap(CachedChunkMap):
    """The chunk map of a dataset in a file that is only read."""

    def __init__(self, dataset: ByteDataset, form: ChunkForm) -> None:
        super().__init__(form)
        self._node = dataset

    @property
    def n_chunks(self) -> int:
        return -(-self._node.header.space.shape[0] // self._form.chunk_rows)

    def find(self, number: int) -> ChunkPlace | None:
        for batch in self._node.chunk_map.read((number,), (number + 1,)):
            for address, size, mask in zip(
                batch.address.tolist(), batch.size.tolist(), batch.mask.tolist(), strict=True
            ):
                return ChunkPlace(address, size, mask)
        return None

    def find_all(self) -> dict[int, ChunkPlace]:
        places: dict[int, ChunkPlace] = {}
        for batch in self._node.chunk_map.read():
            rows = zip(batch.address.tolist(), batch.size.tolist(), batch.mask.tolist(), strict=True)
            places.update(zip(batch.grid[:, 0].tolist(), map(ChunkPlace._make, rows), strict=True))
        return places

    def fill(self) -> bytes:
        fill, dtype = self._node.header.fill, self._form.dtype
        if dtype.kind not in "iufS" or not fill.is_written:
            raise ValueError("what rows hold that were never written must be read otherwise")
        return fill.value if fill.value is not None and len(fill.value) == dtype.itemsize else bytes(dtype.itemsize)


class RunMap:
    """Contiguous rows, located as if they consisted of adjacent chunks."""

    def __init__(self, address: int, form: ChunkForm) -> None:
        check_address(address)
        self._address = address
        self._form = form

    def located(self, numbers: range | RowNumbers, n_wanted: int) -> Located:
        n_bytes = self._form.chunk_bytes
        begins = np.asarray(numbers, dtype=np.int64) * n_bytes
        return Located(numbers, self._address + begins, np.full(len(numbers), n_bytes, dtype=np.int64))

    def fill(self) -> bytes:
        raise ValueError("all rows were written")


class ShiftedBytes(ByteSource):
    """The bytes of a file after its user block."""

    def __init__(self, file: ByteSource, base: int) -> None:
        super().__init__(file.name, file.size - base)
        self._file = file
        self._base = base

    def read_at(self, offset: int, n_bytes: int) -> bytes:
        return self._file.read_at(self._base + offset, n_bytes)

    def read_into(self, offset: int, target: memoryview) -> int:
        return self._file.read_into(self._base + offset, target)
