"""Streams of cells of a whole array, in blocks: they separate the source of the cells from writing them.

Sources here are SciPy matrices, coordinates and other sparse arrays; `matrix_market` and `converting` add more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np

from colonnade import limits
from colonnade.arrays import Int64s
from colonnade.dataclass import dataclass, replace
from colonnade.errors import DataError, UsageError
from colonnade.format.values import DecodedValues

if TYPE_CHECKING:
    from colonnade.sparse.array import SparseArray

Axis = Int64s
Block = tuple[tuple[Axis, ...], DecodedValues]
"""Cells: their coordinates, one array per dimension, and their values."""

CHUNK_CELLS = 3 << 14  # with fewer than 1 << 16 points in a chunk, their coordinates take 2 bytes
_MOST_SIDE = 1 << 16
_MOST_BYTES = 1 << 31  # of a chunk if it were dense


@dataclass(frozen=True)
class RowSource:
    """A matrix stored by rows: `ends` is SciPy's indptr; `read` returns the columns and values in a range of cells.

    repair: sorts the columns of some rows (ends, columns and values) and adds up duplicates, if the caller's matrix may
    need that; the blocks of a stream of the same matrix are already sorted and without duplicates.
    """

    ends: Axis
    read: Callable[[int, int], tuple[np.ndarray, np.ndarray]] = field(repr=False)
    repair: Callable[[Axis, np.ndarray, np.ndarray], tuple[Axis, np.ndarray, np.ndarray]] | None = field(
        default=None, repr=False
    )


@dataclass(frozen=True)
class CellStream:
    """All cells of an array of a given shape.

    blocks: returns the cells in blocks; its argument is the chunk shape they will be written to, as a hint.
    axis: the dimension whose coordinates never decrease; None if the cells come in any order.
    lines: the same cells by rows (axis 0) or by columns (axis 1), if they are stored that way.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    blocks: Callable[[tuple[int, ...]], Iterator[Block]] = field(repr=False)
    axis: int | None = None
    fill: object = None
    lines: RowSource | None = field(default=None, repr=False)


def stream_of(given: Any) -> CellStream:
    """The cells of a SciPy or pydata sparse array, of (coordinates, values, shape), or of a SparseArray."""
    if isinstance(given, tuple) and type(given) is tuple:
        return _stream_of_triple(given)
    if hasattr(given, "iter_cells"):
        return stream_of_array(given)
    if getattr(given, "format", None) in ("csr", "csc"):
        return _stream_of_compressed(given)
    if hasattr(given, "coords") and hasattr(given, "data"):
        return _stream_of_coo(given)
    if hasattr(given, "tocoo") and hasattr(given, "shape"):
        return _stream_of_coo(given.tocoo())
    raise UsageError(
        f"cannot read cells from {type(given).__name__}: give a SciPy sparse array, or (coordinates, values, shape)"
    )


def _stream_of_triple(given: tuple[Any, ...]) -> CellStream:
    if len(given) != 3:
        raise UsageError("give (coordinates, values, shape): coordinates has one row per value")
    coords, values, shape = np.asarray(given[0]), np.asarray(given[1]), tuple(given[2])
    if coords.ndim == 1 and len(shape) == 1:
        coords = coords[:, None]
    if coords.ndim != 2 or coords.shape[1] != len(shape) or (coords.size and coords.dtype.kind not in "iu"):
        raise DataError(f"coordinates must be integers of shape (n, {len(shape)}), not {coords.dtype} {coords.shape}")
    return _stream_of_axes(tuple(coords.T), values, shape)


def _stream_of_coo(given: Any) -> CellStream:
    """The cells of a SciPy COO matrix. Duplicates are added up first, as SciPy does."""
    if getattr(given, "has_canonical_format", True) is False:
        given = given.copy()
        given.sum_duplicates()
    axes = tuple(np.asarray(axis) for axis in given.coords)
    return _stream_of_axes(axes, np.asarray(given.data), tuple(given.shape), getattr(given, "fill_value", None))


def _stream_of_axes(
    axes: tuple[np.ndarray, ...], values: DecodedValues, shape: tuple[int, ...], fill: object = None
) -> CellStream:
    if any(len(axis) != len(values) for axis in axes):
        raise DataError(f"there are {len(axes[0])} coordinates and {len(values)} values")

    def blocks(_chunk: tuple[int, ...]) -> Iterator[Block]:
        n = limits.now.block_cells
        for start in range(0, len(values), n):
            part = slice(start, start + n)
            yield tuple(_whole(axis[part]) for axis in axes), values[part]

    in_order = bool(len(values)) and bool((axes[0][1:] >= axes[0][:-1]).all())
    return CellStream(shape, values.dtype, blocks, 0 if in_order else None, fill)


def _whole(numbers: np.ndarray) -> Axis:
    if numbers.dtype.kind == "u" and numbers.dtype.itemsize == 8 and len(numbers) and numbers.max() >= 1 << 62:
        raise DataError(f"coordinate {numbers.max()} lies outside the array")
    coords: Axis = np.ascontiguousarray(numbers, dtype=np.int64)
    return coords


def _stream_of_compressed(given: Any) -> CellStream:
    """A CSR or CSC matrix. Whether it is sorted is checked only where nothing later would detect it."""
    major = 0 if given.format == "csr" else 1

    def blocks(chunk: tuple[int, ...]) -> Iterator[Block]:
        matrix = given
        if not matrix.has_canonical_format:
            matrix = given.copy()
            matrix.sum_duplicates()
        return _stream_of_parts(matrix, major).blocks(chunk)

    def repair(ends: Axis, minor: np.ndarray, values: np.ndarray) -> tuple[Axis, np.ndarray, np.ndarray]:
        shape = (len(ends) - 1, given.shape[1 - major])
        matrix = type(given)((values, minor, ends), shape=shape if major == 0 else shape[::-1], copy=True)
        matrix.sum_duplicates()
        return matrix.indptr.astype(np.int64), matrix.indices, matrix.data

    stream = _stream_of_parts(given, major)
    assert stream.lines is not None  # as for every CSR or CSC matrix
    return replace(stream, blocks=blocks, lines=replace(stream.lines, repair=repair))


def _stream_of_parts(given: Any, major: int) -> CellStream:
    ends = np.asarray(given.indptr).astype(np.int64)

    def read(start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        return given.indices[start:stop], given.data[start:stop]

    return stream_of_rows(tuple(given.shape), given.data.dtype, ends, read, major)


def stream_of_rows(
    shape: tuple[int, ...],
    dtype: np.dtype,
    ends: Axis,
    read: Callable[[int, int], tuple[np.ndarray, np.ndarray]],
    major: int,
) -> CellStream:
    """A matrix stored by rows (major 0) or by columns (1): `ends` is SciPy's indptr, `read` returns the minor
    coordinates and values in a range of cells."""

    def blocks(_chunk: tuple[int, ...]) -> Iterator[Block]:
        row = 0
        while row < len(ends) - 1:
            stop = int(np.searchsorted(ends, ends[row] + limits.now.block_cells, side="right")) - 1
            stop = min(max(stop, row + 1), len(ends) - 1)
            yield from _rows_block(ends, row, stop, read, major)
            row = stop

    return CellStream(shape, dtype, blocks, major, lines=RowSource(ends, read))


def _rows_block(
    ends: Axis, first: int, stop: int, read: Callable[[int, int], tuple[np.ndarray, np.ndarray]], major: int
) -> Iterator[Block]:
    """The cells of some rows; a row with very many cells comes in several blocks."""
    n = 4 * limits.now.block_cells
    for start in range(int(ends[first]), int(ends[stop]), n):
        end = min(start + n, int(ends[stop]))
        minor, values = read(start, end)
        inside = np.clip(ends[first : stop + 1], start, end)
        counts = inside[1:] - inside[:-1]
        rows = np.repeat(np.arange(first, stop, dtype=np.int64), counts)
        axes = (rows, _whole(minor)) if major == 0 else (_whole(minor), rows)
        yield axes, values


def usual_chunk(stream: CellStream) -> tuple[int, ...] | None:
    """The default chunk shape for a matrix that comes by rows or by columns: as many whole lines as have about
    CHUNK_CELLS cells. None for other cells."""
    if stream.lines is None or stream.axis is None:
        return None
    n_lines, width = max(stream.shape[stream.axis], 1), max(stream.shape[1 - stream.axis], 1)
    n_parts = -(-width // _MOST_SIDE)
    each = max(int(stream.lines.ends[-1]), 1) / n_lines / n_parts
    most = max(_MOST_BYTES // (-(-width // n_parts) * stream.dtype.itemsize), 1)
    lines = min(max(int(CHUNK_CELLS / each), 1), n_lines, _MOST_SIDE, most)
    chunk = lines, -(-width // n_parts)
    return chunk if stream.axis == 0 else chunk[::-1]


def expand_rows(first: int, ends: Axis, minor: np.ndarray) -> tuple[Axis, Axis]:
    """The coordinates of cells stored by rows, starting at row `first`."""
    return np.repeat(np.arange(first, first + len(ends) - 1, dtype=np.int64), np.diff(ends)), _whole(minor)


def narrow_minor(minor: np.ndarray) -> np.ndarray:
    """Columns as the kernels expect them: int32 or int64, in native byte order."""
    return np.ascontiguousarray(minor) if minor.dtype in (np.int32, np.int64) else _whole(minor)


def stream_of_array(array: SparseArray) -> CellStream:
    """The cells of another sparse array, one band of the new array's chunks at a time."""
    shape = array.shape

    def blocks(chunk: tuple[int, ...]) -> Iterator[Block]:
        for start in range(0, shape[0], chunk[0]):
            for coords, values in array.iter_cells(slice(start, start + chunk[0])):
                yield tuple(np.ascontiguousarray(axis) for axis in coords.T), values

    return CellStream(shape, array.dtype, blocks, 0, array.fill)
