"""Rows and columns picked out of an array of any rank: only the chunks that hold them are read, a few MiB at a time.

Rows are given as ranges in increasing order, which do not overlap. A contiguous dataset is read as if it had small
chunks, so that single rows far apart do not cost what lies between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from colonnade.h5.nodes import check_readable, dtype_of, read_as, read_checked, shape_of

Array = np.ndarray[Any, np.dtype[Any]]
Rows = np.ndarray[Any, np.dtype[np.int64]]
BLOCK_BYTES = 8 << 20  # that are read at once
PAGE_BYTES = 32 << 10  # what counts as a chunk of a contiguous dataset


def read_cells(dataset: Any, rows: Rows | None, columns: Rows | None = None) -> Array:
    """These rows (and columns) of a dataset, increasing and each once; None for all of an axis."""
    shape = shape_of(dataset)
    chosen = np.arange(shape[0]) if rows is None else rows
    starts, stops = ranges_of(chosen)
    if columns is None:
        return read_ranges(dataset, starts, stops)
    chunk = dataset.chunks[1] if dataset.chunks is not None else max(shape[1], 1)
    parts = [
        read_ranges(dataset, starts, stops, slice(first, stop))[:, columns[low:high] - first]
        for first, stop, low, high in _column_parts(columns, chunk)
    ]
    return np.concatenate(parts, axis=1) if parts else read_ranges(dataset, starts, stops, slice(0, 0))


def ranges_of(rows: Rows) -> tuple[Rows, Rows]:
    """Increasing row numbers as ranges: where each starts, and where it stops."""
    if not len(rows):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    cuts = np.flatnonzero(np.diff(rows) != 1) + 1
    starts, lasts = rows[np.concatenate([[0], cuts])], rows[np.concatenate([cuts - 1, [len(rows) - 1]])]
    return starts.astype(np.int64), lasts.astype(np.int64) + 1


def _column_parts(columns: Rows, chunk: int) -> Iterator[tuple[int, int, int, int]]:
    """Columns by the chunks they are in: first and last column to be read, and which of the wanted ones these are."""
    low = 0
    while low < len(columns):
        high = int(np.searchsorted(columns, (columns[low] // chunk + 1) * chunk))
        yield int(columns[low]), int(columns[high - 1]) + 1, low, high
        low = high


def read_ranges(dataset: Any, starts: Rows, stops: Rows, columns: slice | None = None) -> Array:
    """The rows of these ranges, one behind the other; of a slice of columns when one is given."""
    shape, dtype = shape_of(dataset), dtype_of(dataset)
    filled = stops > starts
    starts, stops = starts[filled], stops[filled]
    n_rows = int((stops - starts).sum())
    inner = shape[1:] if columns is None else (columns.stop - columns.start, *shape[2:])
    width = max(prod(inner) * dtype.itemsize, 1)
    unit = _unit(dataset, width)
    check_readable(dataset, max(n_rows, _largest_block(starts, stops, unit, width)) * prod(inner))
    found = np.empty((n_rows, *inner), read_as(dtype))
    done = 0
    for first, stop in _spans(starts, stops, unit, width):
        low, high = np.searchsorted(stops, first, "right"), np.searchsorted(starts, stop, "left")
        places = _places(np.maximum(starts[low:high], first), np.minimum(stops[low:high], stop)) - first
        block = read_checked(dataset, (slice(first, stop),) if columns is None else (slice(first, stop), columns))
        found[done : done + len(places)] = block if len(places) == stop - first else block[places]
        done += len(places)
    return found


def _largest_block(starts: Rows, stops: Rows, unit: int, width: int) -> int:
    """Rows that are held at once at most: a chunk may claim far more of them than are wanted."""
    if not len(starts):
        return 0
    return min(max(1, BLOCK_BYTES // (unit * width)) * unit, int(stops[-1] - starts[0]))


def _unit(dataset: Any, width: int) -> int:
    """Rows that are read together or not at all."""
    return int(dataset.chunks[0]) if dataset.chunks is not None else max(1, PAGE_BYTES // width)


def _spans(starts: Rows, stops: Rows, unit: int, width: int) -> Iterator[tuple[int, int]]:
    """What is to be read: chunks that hold a wanted row, neighbours together up to a few MiB, cut at the outer rows."""
    if not len(starts):
        return
    most = max(1, BLOCK_BYTES // (unit * width))
    first_units, last_units = starts // unit, (stops - 1) // unit
    joined = first_units[1:] > last_units[:-1] + 1
    heads = first_units[np.concatenate([[True], joined])]
    tails = last_units[np.concatenate([joined, [True]])]
    begin, end = int(starts[0]), int(stops[-1])
    for head, tail in zip(heads.tolist(), tails.tolist(), strict=True):
        for number in range(head, tail + 1, most):
            yield max(number * unit, begin), min(min(number + most, tail + 1) * unit, end)


def _places(starts: Rows, stops: Rows) -> Rows:
    """All numbers of these ranges."""
    lengths = stops - starts
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))
