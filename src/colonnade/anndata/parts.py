"""Read some rows and columns of an array of any rank: only the chunks that hold them, a few MiB at a time.

Rows are given as increasing ranges that do not overlap. A contiguous dataset is read as if it had small
chunks, so that the rows between two distant rows are not read.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from colonnade.arrays import Int64s
from colonnade.nodes import Dataset

RowIndices = Int64s
READ_BLOCK_BYTES = 8 << 20  # read at once
PAGE_BYTES = 32 << 10  # the assumed chunk of a contiguous dataset


def read_cells(dataset: Dataset, rows: RowIndices | None, columns: RowIndices | None = None) -> np.ndarray:
    """The given rows (and columns) of a dataset. Numbers must increase strictly; None means the whole axis."""
    shape = dataset.shape
    chosen = np.arange(shape[0]) if rows is None else rows
    starts, stops = ranges_of(chosen)
    if columns is None:
        return read_ranges(dataset, starts, stops)
    chunk = max(shape[1], 1) if dataset.chunk_shape is None else dataset.chunk_shape[1]
    parts = [
        read_ranges(dataset, starts, stops, slice(first, stop))[:, columns[low:high] - first]
        for first, stop, low, high in _column_parts(columns, chunk)
    ]
    return np.concatenate(parts, axis=1) if parts else read_ranges(dataset, starts, stops, slice(0, 0))


def ranges_of(rows: RowIndices) -> tuple[RowIndices, RowIndices]:
    """Increasing row numbers as ranges: their starts and their stops."""
    if not len(rows):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    cuts = np.flatnonzero(np.diff(rows) != 1) + 1
    starts, lasts = rows[np.concatenate([[0], cuts])], rows[np.concatenate([cuts - 1, [len(rows) - 1]])]
    return starts.astype(np.int64), lasts.astype(np.int64) + 1


def _column_parts(columns: RowIndices, chunk: int) -> Iterator[tuple[int, int, int, int]]:
    """Columns grouped by chunk: the range of columns to read, and the range of positions in `columns` it covers."""
    low = 0
    while low < len(columns):
        high = int(np.searchsorted(columns, (columns[low] // chunk + 1) * chunk))
        yield int(columns[low]), int(columns[high - 1]) + 1, low, high
        low = high


def read_ranges(dataset: Dataset, starts: RowIndices, stops: RowIndices, columns: slice | None = None) -> np.ndarray:
    """The rows of these ranges, one after the other, restricted to a slice of columns if one is given."""
    shape, dtype = dataset.shape, dataset.array_dtype()
    filled = stops > starts
    starts, stops = starts[filled], stops[filled]
    n_rows = int((stops - starts).sum())
    inner = shape[1:] if columns is None else (columns.stop - columns.start, *shape[2:])
    width = max(prod(inner) * dtype.itemsize, 1)
    unit = _unit(dataset, width)
    dataset.check_readable(max(n_rows, _largest_block(starts, stops, unit, width)) * prod(inner))
    result = None
    done = 0
    for first, stop in _spans(starts, stops, unit, width):
        low, high = np.searchsorted(stops, first, "right"), np.searchsorted(starts, stop, "left")
        numbers = _row_numbers(np.maximum(starts[low:high], first), np.minimum(stops[low:high], stop)) - first
        block = dataset.read_array((slice(first, stop),) if columns is None else (slice(first, stop), columns))
        if result is None:
            result = np.empty((n_rows, *block.shape[1:]), block.dtype)
        result[done : done + len(numbers)] = block if len(numbers) == stop - first else block[numbers]
        done += len(numbers)
    return np.empty((0, *inner), dtype) if result is None else result


def _largest_block(starts: RowIndices, stops: RowIndices, unit: int, width: int) -> int:
    """The most rows in memory at once: the chunk length in a damaged file may be far larger than what is wanted."""
    if not len(starts):
        return 0
    return min(max(1, READ_BLOCK_BYTES // (unit * width)) * unit, int(stops[-1] - starts[0]))


def _unit(dataset: Dataset, width: int) -> int:
    """How many rows are always read together: those of a chunk."""
    return max(1, PAGE_BYTES // width) if dataset.chunk_shape is None else dataset.chunk_shape[0]


def _spans(starts: RowIndices, stops: RowIndices, unit: int, width: int) -> Iterator[tuple[int, int]]:
    """The row ranges to read: chunks with a wanted row, adjacent ones joined up to a few MiB, cut at the outer rows."""
    if not len(starts):
        return
    most = max(1, READ_BLOCK_BYTES // (unit * width))
    first_units, last_units = starts // unit, (stops - 1) // unit
    joined = first_units[1:] > last_units[:-1] + 1
    heads = first_units[np.concatenate([[True], joined])]
    tails = last_units[np.concatenate([joined, [True]])]
    begin, end = int(starts[0]), int(stops[-1])
    for head, tail in zip(heads.tolist(), tails.tolist(), strict=True):
        for number in range(head, tail + 1, most):
            yield max(number * unit, begin), min(min(number + most, tail + 1) * unit, end)


def _row_numbers(starts: RowIndices, stops: RowIndices) -> RowIndices:
    """All row numbers in these ranges."""
    lengths = stops - starts
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))
