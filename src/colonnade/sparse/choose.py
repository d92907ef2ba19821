"""Encode positions of defined elements as selections, in all legal forms; the writer uses the smallest.

In: ascending positions in a chunk. Out: selections, all of the same elements.
Blocks are built by merging: single elements into runs along the last dimension, equal adjacent runs into rectangles,
and so on through all dimensions.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from colonnade import kernels
from colonnade.sparse.chunk import coordinates
from colonnade.sparse.selections import CellSelection, Places, width_for

_REGULAR_VERSION = _BLOCKS_VERSION = 3
_POINTS_VERSION = 2
_WORTH_BLOCKS = 2  # minimum ratio of runs to blocks
Ends = np.ndarray[Any, np.dtype[np.int64]]


def choose_selections(places: Places, shape: tuple[int, ...], filtered: bool = False) -> list[CellSelection]:
    """Every form worth trying, ordered by size without filters, smallest first.

    filtered: the selection will be filtered. Filters compress uniform runs better than runs mixed with a few blocks of
    several rows, so runs are not merged where only few of them could be.
    """
    if not len(places):
        return [CellSelection(shape, "none", 1, np.empty(0, dtype=np.uint64))]
    if len(places) == prod(shape):
        return [CellSelection(shape, "all", 1, np.empty(0, dtype=np.uint64))]
    coords = coordinates(places, shape)
    first, last = _grow_plane(places, shape) if len(shape) <= 2 else _grow(coords, shape)
    regular = _regular(first, last, shape)
    if regular is not None:
        return [regular]
    points = CellSelection(shape, "points", _POINTS_VERSION, coords.view(np.uint64))
    if not filtered and 2 * len(first) >= len(coords):
        return [points]  # a block takes as many numbers as two points
    if filtered:
        starts, stops = _find_runs(places, shape[-1])
        if len(starts) < _WORTH_BLOCKS * len(first):
            first, last = coordinates(starts, shape), coordinates(stops, shape)
    blocks = np.stack((first, last), axis=1).astype(np.uint64)
    found = [CellSelection(shape, "blocks", _BLOCKS_VERSION, blocks)]
    found.append(points)
    return sorted(found, key=lambda one: one.numbers.size * width_for(one))


def _find_runs(places: Places, width: int) -> tuple[Places, Places]:
    """First and last positions of runs of adjacent elements along the last dimension."""
    begins = np.append(True, (places[1:] != places[:-1] + 1) | (places[1:] % width == 0))
    return places[begins], places[np.append(begins[1:], True)]


def _grow_plane(places: Places, shape: tuple[int, ...]) -> tuple[Ends, Ends]:
    """First and last corners of blocks, as in `_grow`, for one or two dimensions."""
    first, last = np.empty((2, len(places)), dtype=np.int64)
    count = kernels.grow_blocks(places, shape[-1], first, last)
    if count == len(places):
        same = coordinates(places, shape)
        return same, same
    return coordinates(first[:count], shape), coordinates(last[:count], shape)


def _grow(coords: Ends, shape: tuple[int, ...]) -> tuple[Ends, Ends]:
    """First and last corners of blocks that hold exactly these elements, in the order of their first corners."""
    first, last = coords, coords
    axes = range(len(shape))
    for axis in reversed(axes):
        first, last = _grow_along(first, last, shape, axis)
    order = _order(first, shape, tuple(axes))
    return (first, last) if order is None else (first[order], last[order])


def _grow_along(first: Ends, last: Ends, shape: tuple[int, ...], axis: int) -> tuple[Ends, Ends]:
    """Merge blocks that touch along a dimension and are equal in all others.

    Blocks do not overlap, so sorting them by first corner, with this dimension last, makes such blocks neighbours.
    """
    others = tuple(one for one in range(len(shape)) if one != axis)
    order = _order(first, shape, (*others, axis))
    if order is not None:
        first, last = first[order], last[order]
    alike = first[1:, axis] == last[:-1, axis] + 1
    for other in others:
        alike &= (first[1:, other] == first[:-1, other]) & (last[1:, other] == last[:-1, other])
    if not alike.any():
        return first, last
    begins = np.flatnonzero(np.concatenate(([True], ~alike)))
    ends = np.append(begins[1:], len(first)) - 1
    return first[begins], last[ends]


def _order(coords: Ends, shape: tuple[int, ...], axes: tuple[int, ...]) -> Places | None:
    """The permutation that sorts coordinates by these dimensions, the first slowest; None if sorted already."""
    key = coords[:, axes[0]].copy()
    for axis in axes[1:]:
        key *= shape[axis]
        key += coords[:, axis]
    return None if (key[1:] > key[:-1]).all() else np.argsort(key)


def _regular(first: Ends, last: Ends, shape: tuple[int, ...]) -> CellSelection | None:
    """The blocks as one regular pattern (equal blocks at equal distances); None if they are not regular."""
    size = last - first + 1
    same = int(np.searchsorted(first[:, 0], first[0, 0], side="right"))  # blocks are sorted by row
    if len(first) % same or (first[same : 2 * same, 1:] != first[: min(same, len(first) - same), 1:]).any():
        return None
    if (size != size[0]).any():
        return None
    rows = []
    for axis in range(len(shape)):
        starts = np.unique(first[:, axis])
        steps = np.diff(starts)
        if len(steps) and (steps != steps[0]).any():
            return None
        step = int(steps[0]) if len(steps) else 1
        rows.append((int(starts[0]), step, len(starts), int(size[0, axis])))
    if prod(row[2] for row in rows) != len(first):
        return None
    return CellSelection(shape, "regular", _REGULAR_VERSION, np.array(rows, dtype=np.uint64))
