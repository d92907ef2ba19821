"""Selected elements of an array: what references to regions select, what NumPy calls the same, and their values.

`Chosen` elements are either a grid, increasing positions along each dimension, or a list of points. A grid keeps its
shape: one dimension of the array, one of the result. Points are one-dimensional, in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from colonnade.arrays import Int64s, UInt64s
from colonnade.errors import UnsupportedError, UsageError

if TYPE_CHECKING:
    from colonnade.nodes.protocols import Dataset

Corners = UInt64s
ElementPositions = range | Int64s
"""Increasing positions along one dimension."""
Points = Int64s
"""ElementPositions by point and dimension."""
Chosen = tuple[ElementPositions, ...] | Points
RegionItem = slice | np.ndarray
"""What a selection is along one dimension."""

MOST_CHOSEN = 1 << 28  # positions that are listed one by one; more are refused
_MOST_READ = 2 << 30  # bytes of elements that are read together; more are refused
_PIECE_BYTES = 32 << 20  # of a box around selected elements, read at a time if it is not selected whole


class SlabAxis(NamedTuple):
    """The elements of one dimension of regular hyperslabs: `n_blocks` blocks, one every `stride` elements."""

    start: int
    stride: int
    n_blocks: int
    block: int

    @property
    def last(self) -> int:
        return self.start + (self.n_blocks - 1) * self.stride + self.block - 1

    @property
    def positions(self) -> ElementPositions:
        if self.n_blocks == 1 or self.stride == self.block:
            return range(self.start, self.last + 1)
        if self.block == 1:
            return range(self.start, self.last + 1, self.stride)
        _check_number(self.n_blocks * self.block)
        starts = self.start + np.arange(self.n_blocks, dtype=np.int64) * self.stride
        return (starts[:, np.newaxis] + np.arange(self.block, dtype=np.int64)).reshape(-1)


class Region(NamedTuple):
    """Selected elements: regular hyperslabs, or blocks (first and last element), or points; or all, if none of them."""

    axes: tuple[SlabAxis, ...] = ()
    blocks: Corners | None = None  # by block, first and last, dimension
    points: Corners | None = None  # by point, dimension

    def bounds(self, shape: tuple[int, ...]) -> list[range]:
        """The smallest box around it."""
        if self.axes:
            return [range(axis.start, axis.last + 1) for axis in self.axes]
        if self.points is None and self.blocks is None:
            return [range(length) for length in shape]
        low, high = (self.points, self.points) if self.blocks is None else (self.blocks[:, 0], self.blocks[:, 1])
        assert low is not None and high is not None  # one of them is given
        pairs = zip(low.min(axis=0).tolist(), high.max(axis=0).tolist(), strict=True)
        return [range(first, last + 1) for first, last in pairs]

    def chosen(self, shape: tuple[int, ...]) -> Chosen:
        """Its elements: a grid wherever they are one, whatever way they are stored in."""
        if self.axes:
            return tuple(axis.positions for axis in self.axes)
        if self.points is not None:
            return self.points.astype(np.int64)
        if self.blocks is None:
            return tuple(range(length) for length in shape)
        return _grid_of_blocks(self.blocks) or _merged_blocks(self.blocks, self.bounds(shape))


def _check_number(count: int) -> None:
    if count > MOST_CHOSEN:
        text = f"a region of {count:,} elements in parts is more than can be read at once: read a part of its array"
        raise UnsupportedError(text, feature="regions that exceed what is read at once")


def _grid_of_blocks(blocks: Corners) -> tuple[ElementPositions, ...] | None:
    """The grid that blocks are if they are every combination of intervals along each dimension; None if not."""
    n_blocks, _, rank = blocks.shape
    along = [np.unique(blocks[:, :, dimension], axis=0) for dimension in range(rank)]
    if prod(map(len, along)) != n_blocks or any((edges[1:, 0] <= edges[:-1, 1]).any() for edges in along):
        return None
    if n_blocks > 1 and len(np.unique(blocks.reshape(n_blocks, -1), axis=0)) != n_blocks:
        return None
    return tuple(_joined(edges.astype(np.int64)) for edges in along)


def _joined(edges: Int64s) -> ElementPositions:
    """The positions in intervals that follow each other."""
    lengths = edges[:, 1] - edges[:, 0] + 1
    total = int(lengths.sum())
    if total == edges[-1, 1] - edges[0, 0] + 1:
        return range(int(edges[0, 0]), int(edges[-1, 1]) + 1)
    _check_number(total)
    steps = np.ones(total, dtype=np.int64)
    steps[0] = edges[0, 0]
    steps[np.cumsum(lengths)[:-1]] = edges[1:, 0] - edges[:-1, 1]
    return _as_axis(np.cumsum(steps))


def _as_axis(positions: Int64s) -> ElementPositions:
    """Increasing positions as a range, if they are one."""
    if len(positions) == 1:
        return range(int(positions[0]), int(positions[0]) + 1)
    steps = np.diff(positions)
    is_regular = bool((steps == steps[0]).all())
    return range(int(positions[0]), int(positions[-1]) + 1, int(steps[0])) if is_regular else positions


def _merged_blocks(blocks: Corners, box: list[range]) -> Chosen:
    """The elements of blocks that may touch or overlap: a grid if they are one, else points in the array's order."""
    corners = blocks.astype(np.int64)
    sides = corners[:, 1] - corners[:, 0] + 1
    _check_number(sum(prod(lengths) for lengths in sides.tolist()))
    lengths = tuple(len(axis) for axis in box)
    if prod(lengths) >> 62:
        raise UnsupportedError("a region that reaches so far is not read", feature="regions of very large arrays")
    low = np.array([axis.start for axis in box], dtype=np.int64)
    steps = np.array([prod(lengths[dimension + 1 :]) for dimension in range(len(lengths))], dtype=np.int64)
    parts = []
    for side in np.unique(sides, axis=0):
        starts = (corners[(sides == side).all(axis=1), 0] - low) @ steps
        inside = np.zeros(1, dtype=np.int64)
        for length, step in zip(side.tolist(), steps.tolist(), strict=True):
            inside = (inside[:, np.newaxis] + np.arange(length, dtype=np.int64) * step).reshape(-1)
        parts.append((starts[:, np.newaxis] + inside).reshape(-1))
    places = np.unique(np.concatenate(parts))
    points = np.stack(np.unravel_index(places, lengths), axis=1).astype(np.int64) + low
    along = [np.unique(points[:, dimension]) for dimension in range(len(lengths))]
    return tuple(map(_as_axis, along)) if prod(map(len, along)) == len(points) else points


# -- as NumPy has it --


def selection_of(chosen: Chosen) -> tuple[RegionItem, ...]:
    """The index for which `array[index]` has the chosen elements, in the shape that `read_chosen` gives them."""
    if not isinstance(chosen, tuple):
        return tuple(np.ascontiguousarray(column) for column in chosen.T)
    if all(isinstance(axis, range) for axis in chosen):
        return tuple(slice(axis.start, axis.stop, None if axis.step == 1 else axis.step) for axis in chosen)  # type: ignore[union-attr]
    return np.ix_(*(np.asarray(axis, dtype=np.int64) for axis in chosen))


def chosen_of(selection: object, shape: tuple[int, ...]) -> Chosen:
    """The elements of an array of this shape that an index chooses: slices and integers, or arrays as `selection_of`
    gives them. A ValueError has the reason if there is none."""
    items = selection if isinstance(selection, tuple) else (selection,)
    if any(isinstance(item, np.ndarray) for item in items):
        return _chosen_by_arrays(items, shape)
    n_named = sum(item is not Ellipsis for item in items)
    if n_named > len(shape) or len(items) - n_named > 1:
        raise ValueError(f"it has {len(items)} parts, and the array has {len(shape)} dimensions")
    rest = [slice(None)] * (len(shape) - n_named)
    ellipsis = next((number for number, item in enumerate(items) if item is Ellipsis), len(items))
    items = (*items[:ellipsis], *rest, *items[ellipsis + 1 :])
    return tuple(_chosen_along(item, length) for item, length in zip(items, shape, strict=True))


def _chosen_along(item: object, length: int) -> range:
    if isinstance(item, slice):
        if item.step is not None and item.step < 1:
            raise ValueError(f"the step of {item} is not positive")
        chosen = range(length)[item]
        if not chosen:
            raise ValueError(f"{item} selects nothing of {length} elements")
        return chosen
    if isinstance(item, (bool, np.bool_)) or not isinstance(item, (int, np.integer)):
        raise ValueError(f"{item!r} is neither an integer nor a slice")
    if not -length <= item < length:
        raise ValueError(f"there is no element {item} of {length}")
    return range(int(item) % length, int(item) % length + 1)


def _chosen_by_arrays(items: Sequence[object], shape: tuple[int, ...]) -> Chosen:
    """A list of points by their coordinates, or the grid that `np.ix_` makes."""
    arrays = [item for item in items if isinstance(item, np.ndarray) and item.dtype.kind in "iu" and item.size]
    if len(arrays) != len(items) or len(arrays) != len(shape):
        raise ValueError("arrays select points: give one array of integers for each dimension")
    if any(array.min() < 0 or array.max() >= length for array, length in zip(arrays, shape, strict=True)):
        raise ValueError(f"it has elements outside the shape {shape}")
    columns = [array.astype(np.int64) for array in arrays]
    if all(column.ndim == 1 for column in columns):
        if len({len(column) for column in columns}) != 1:
            raise ValueError("the arrays of coordinates differ in length")
        return np.stack(columns, axis=1)
    is_grid = [column.size == column.shape[at] if at < column.ndim else False for at, column in enumerate(columns)]
    along = [column.reshape(-1) for column in columns]
    if not all(is_grid) or any((np.diff(positions) <= 0).any() for positions in along):
        raise ValueError("arrays of more dimensions must be a grid of increasing positions, as np.ix_ makes it")
    return tuple(map(_as_axis, along))


# -- their values --


def count_chosen(chosen: Chosen) -> int:
    return prod(map(len, chosen)) if isinstance(chosen, tuple) else len(chosen)


def read_chosen(dataset: Dataset, chosen: Chosen) -> np.ndarray:
    """The chosen elements: of a grid in its shape, of points in their order. Boxes around them are read in pieces."""
    count = count_chosen(chosen)
    width = max(dataset.array_dtype().itemsize, 1)
    if count * width > _MOST_READ:
        raise UnsupportedError(
            f"{dataset.path}: {count} elements are more than can be read at once: read a part of it through File.h5",
            feature="arrays that exceed what is read at once",
            path=dataset.path,
        )
    dataset.check_readable(count)
    if isinstance(chosen, tuple):
        return _read_grid(dataset, chosen, max(_PIECE_BYTES // width, 1))
    return _read_points(dataset, chosen, max(_PIECE_BYTES // width, 1))


def _extent(axis: ElementPositions) -> int:
    return int(axis[-1] - axis[0]) + 1 if len(axis) else 0


def _read_grid(dataset: Dataset, axes: tuple[ElementPositions, ...], most: int) -> np.ndarray:
    wide = [dimension for dimension, axis in enumerate(axes) if _extent(axis) > len(axis)]
    if not wide or prod(map(_extent, axes)) <= most:
        box = dataset.read_array(
            tuple(slice(int(axis[0]), int(axis[-1]) + 1) if len(axis) else slice(0) for axis in axes)
        )
        if not wide:
            return box
        inside = np.ix_(*(np.asarray(axis, dtype=np.int64) - axis[0] for axis in axes))
        return np.ascontiguousarray(box[inside])
    widest = max(wide, key=lambda dimension: _extent(axes[dimension]))
    middle = len(axes[widest]) // 2
    halves = (axes[widest][:middle], axes[widest][middle:])
    parts = [_read_grid(dataset, (*axes[:widest], half, *axes[widest + 1 :]), most) for half in halves]
    return np.concatenate(parts, axis=widest)


def _read_points(dataset: Dataset, points: Points, most: int) -> np.ndarray:
    low, high = points.min(axis=0), points.max(axis=0)
    extents = (high - low + 1).tolist()
    if prod(extents) <= most:
        box = dataset.read_array(
            tuple(slice(first, last + 1) for first, last in zip(low.tolist(), high.tolist(), strict=True))
        )
        return np.ascontiguousarray(box[tuple((points - low).T)])
    widest = int(np.argmax(extents))
    is_low = points[:, widest] < low[widest] + extents[widest] // 2
    lower, upper = _read_points(dataset, points[is_low], most), _read_points(dataset, points[~is_low], most)
    values = np.empty((len(points), *lower.shape[1:]), dtype=lower.dtype)
    values[is_low], values[~is_low] = lower, upper
    return values


def is_index(item: object) -> bool:
    """Whether an object can select elements along one dimension."""
    if isinstance(item, np.ndarray):
        return item.dtype.kind in "iu"
    return item is Ellipsis or (isinstance(item, (slice, int, np.integer)) and not isinstance(item, bool))


def check_selection(selection: object) -> None:
    """Refuse an object that no array can be indexed with: see `chosen_of`."""
    items = selection if isinstance(selection, tuple) else (selection,)
    for item in items:
        if not is_index(item):
            raise UsageError(
                f"cannot select elements with {item!r}: give slices and integers, one per dimension, such as "
                "np.s_[0:2, 5]"
            )
