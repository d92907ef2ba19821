"""Read the cells of a box of a matrix by rows, as in SciPy's CSR: chunk by chunk, then merged row by row.

Sorted points, as most writers store them, become rows directly; other selections are converted to positions first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from colonnade import kernels
from colonnade.arrays import Int64s
from colonnade.dataclass import dataclass
from colonnade.format.records import ChunkRecord
from colonnade.format.source import HDF5Source
from colonnade.format.values import DecodedValues
from colonnade.sparse.boxes import ArrayBox
from colonnade.sparse.chunk import read_cells, read_selection, read_values
from colonnade.sparse.info import SparseInfo, check_record, count_values, origin
from colonnade.sparse.selections import CellSelection, coordinates

Ends = Int64s
Minor = np.ndarray  # int32 if that is enough, else int64
_MOST_ROWS = 1 << 22  # limit for a chunk and for a box, because each row needs an offset
_MOST_NARROW = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class RowCells:
    """Cells of rows from `first`, relative to the box: row r has the cells ends[r] to ends[r + 1] - 1."""

    first: int
    column: int
    ends: Ends
    minor: Minor
    values: DecodedValues


def suits_rows(info: SparseInfo, box: ArrayBox) -> bool:
    """Whether a box can be read by rows: it is of a matrix, without steps, and has not too many rows."""
    if len(info.space.shape) != 2 or not box.is_plain or not info.layout.is_sparse:
        return False
    return len(box.ranges[0]) <= _MOST_ROWS and min(info.layout.chunk[0], info.space.shape[0]) <= _MOST_ROWS


def read_rows(source: HDF5Source, info: SparseInfo, record: ChunkRecord, box: ArrayBox) -> RowCells:
    """The cells of one chunk that are in a box; column numbers are relative to the array."""
    check_record(source, info, record)
    start = origin(info, record)
    rows, columns = (
        min(size, limit - at) for at, size, limit in zip(start, info.layout.chunk, info.space.shape, strict=True)
    )
    points = _points(read_selection(source, info, record), count_values(source, info, record), rows, columns, start[1])
    if points is None:
        ends, minor, values = _places(source, info, record, rows, start[1])
    else:
        (ends, minor), values = points, read_values(source, info, record)
    low, high = max(box.low[0] - start[0], 0), min(box.high[0] - start[0], rows)
    if (low, high) != (0, rows):
        part = slice(int(ends[low]), int(ends[high]))
        ends, minor, values = ends[low : high + 1] - part.start, minor[part], values[part]
    if box.low[1] > start[1] or box.high[1] < start[1] + columns:
        ends, minor, values = _cut_columns(ends, minor, values, box)
    return RowCells(start[0] + low - box.low[0], start[1], ends, minor, values)


def _points(selection: CellSelection, count: int, rows: int, columns: int, column: int) -> tuple[Ends, Minor] | None:
    """The rows of sorted points; None for all other selections, including invalid ones."""
    if selection.kind != "points" or len(selection.numbers) != count or rows < 1 or columns < 1:
        return None
    ends = np.empty(rows + 1, dtype=np.int64)
    minor = np.empty(count, dtype=np.int32 if column + columns <= _MOST_NARROW else np.int64)
    fine = kernels.points_to_rows(selection.numbers, selection.numbers.itemsize, columns, column, ends, minor)
    return (ends, minor) if fine else None


def _places(
    source: HDF5Source, info: SparseInfo, record: ChunkRecord, rows: int, column: int
) -> tuple[Ends, Minor, DecodedValues]:
    cells = read_cells(source, info, record)
    assert cells.values is not None  # requested
    coords = coordinates(cells.places, info.layout.chunk)
    ends = np.searchsorted(coords[:, 0], np.arange(rows + 1, dtype=np.int64))
    return ends, coords[:, 1] + column, cells.values


def _cut_columns(ends: Ends, minor: Minor, values: DecodedValues, box: ArrayBox) -> tuple[Ends, Minor, DecodedValues]:
    inside = (minor >= box.low[1]) & (minor < box.high[1])
    before = np.concatenate(([0], np.cumsum(inside)))
    return before[ends], minor[inside], values[inside]


def join_rows(parts: Sequence[RowCells], box: ArrayBox, empty: DecodedValues) -> tuple[Ends, Minor, DecodedValues]:
    """Merge the cells of all chunks: row offsets, columns relative to the array, and values."""
    lengths = np.zeros(len(box.ranges[0]), dtype=np.int64)
    for part in parts:
        lengths[part.first : part.first + len(part.ends) - 1] += np.diff(part.ends)
    ends = np.concatenate(([0], np.cumsum(lengths)))
    narrow = all(part.minor.dtype == np.int32 for part in parts)
    minor = np.empty(int(ends[-1]), dtype=np.int32 if narrow else np.int64)
    values = np.empty((len(minor), *empty.shape[1:]), dtype=empty.dtype)
    at = ends[:-1].copy()
    for part in sorted(parts, key=lambda part: part.column):
        rows = slice(part.first, part.first + len(part.ends) - 1)
        counts = np.diff(part.ends)
        _copy(part.minor.astype(minor.dtype, copy=False), part.ends, at[rows], counts, minor)
        _copy(part.values, part.ends, at[rows], counts, values)
        at[rows] += counts
    return ends, minor, values


def _copy(source: DecodedValues, ends: Ends, places: Ends, counts: Ends, out: DecodedValues) -> None:
    """Copy runs of elements to their positions; dtypes that the kernels do not support, one run at a time."""
    if not len(source):
        return
    if source.dtype.hasobject:
        for start, target, count in zip(ends.tolist(), places.tolist(), counts.tolist(), strict=False):
            out[target : target + count] = source[start : start + count]
        return
    given = np.ascontiguousarray(source)
    size = given.nbytes // len(given)
    kernels.copy_runs(given.reshape(-1).view(np.uint8), ends[:-1], places, counts, size, out.reshape(-1).view(np.uint8))
