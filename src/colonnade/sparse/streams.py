"""Cells of a whole array, some at a time: where they come from is one thing, how they are written another.

A stream is of SciPy matrices, of coordinates, of another sparse array; `matrix_market` and `compressed` have more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from colonnade.dataclass import dataclass
from colonnade.errors import DataError, UsageError
from colonnade.sparse.values import Values

if TYPE_CHECKING:
    from colonnade.sparse.array import SparseArray

Axis = np.ndarray[Any, np.dtype[np.int64]]
Block = tuple[tuple[Axis, ...], Values]
"""Cells: their coordinates, an array a dimension, and their values."""

BLOCK_CELLS = 1 << 18
CHUNK_CELLS = 3 << 14  # a chunk of points has numbers of 2 bytes as long as there are fewer than 1 << 16 of them
_MOST_SIDE = 1 << 16
_MOST_BYTES = 1 << 31  # of a chunk, were it dense


@dataclass(frozen=True)
class RowSource:
    """A matrix that is kept by rows: `ends` as SciPy's indptr; `read` gives columns and values from place to place.

    mend: some rows (their ends, columns and values) with columns in order and twins added up, where a caller may give
    others; a stream of the same matrix has them so.
    """

    ends: Axis
    read: Callable[[int, int], tuple[Any, Any]] = field(repr=False)
    mend: Callable[[Axis, Any, Any], tuple[Axis, Any, Any]] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class CellStream:
    """Cells of an array of a shape.

    blocks: the cells, some at a time; it is given the chunk they are to be put into, as a hint.
    axis: the dimension along which they never go back; None where they come in any order.
    lines: the same cells by rows (axis 0) or by columns (axis 1), where they are kept so.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    blocks: Callable[[tuple[int, ...]], Iterator[Block]] = field(repr=False)
    axis: int | None = None
    fill: Any = None
    lines: RowSource | None = field(default=None, repr=False)


def stream_of(given: Any) -> CellStream:
    """Cells of what a caller has: a SciPy or pydata sparse array, (coordinates, values, shape), a sparse array."""
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
        f"cannot take cells out of {type(given).__name__}: give a SciPy sparse array, or (coordinates, values, shape)"
    )


def _stream_of_triple(given: tuple[Any, ...]) -> CellStream:
    if len(given) != 3:
        raise UsageError("give (coordinates, values, shape): coordinates are rows, one for each value")
    coords, values, shape = np.asarray(given[0]), np.asarray(given[1]), tuple(given[2])
    if coords.ndim == 1 and len(shape) == 1:
        coords = coords[:, None]
    if coords.ndim != 2 or coords.shape[1] != len(shape) or (coords.size and coords.dtype.kind not in "iu"):
        raise DataError(f"coordinates must be whole numbers in rows of {len(shape)}, not {coords.dtype} {coords.shape}")
    return _stream_of_axes(tuple(coords.T), values, shape)


def _stream_of_coo(given: Any) -> CellStream:
    """SciPy adds up what is there twice, so it does before."""
    if getattr(given, "has_canonical_format", True) is False:
        given = given.copy()
        given.sum_duplicates()
    axes = tuple(np.asarray(one) for one in given.coords)
    return _stream_of_axes(axes, np.asarray(given.data), tuple(given.shape), getattr(given, "fill_value", None))


def _stream_of_axes(axes: tuple[Any, ...], values: Values, shape: tuple[int, ...], fill: Any = None) -> CellStream:
    if any(len(one) != len(values) for one in axes):
        raise DataError(f"there are {len(axes[0])} coordinates and {len(values)} values")

    def blocks(_chunk: tuple[int, ...]) -> Iterator[Block]:
        for start in range(0, len(values), BLOCK_CELLS):
            part = slice(start, start + BLOCK_CELLS)
            yield tuple(_whole(one[part]) for one in axes), values[part]

    in_order = bool(len(values)) and bool((axes[0][1:] >= axes[0][:-1]).all())
    return CellStream(shape, values.dtype, blocks, 0 if in_order else None, fill)


def _whole(numbers: Any) -> Axis:
    if numbers.dtype.kind == "u" and numbers.dtype.itemsize == 8 and len(numbers) and numbers.max() >= 1 << 62:
        raise DataError(f"coordinate {numbers.max()} lies outside the array")
    made: Axis = np.ascontiguousarray(numbers, dtype=np.int64)
    return made


def _stream_of_compressed(given: Any) -> CellStream:
    """A SciPy matrix by rows or by columns. That it is in order is asked only where nothing else would find out."""
    major = 0 if given.format == "csr" else 1

    def blocks(chunk: tuple[int, ...]) -> Iterator[Block]:
        matrix = given
        if not matrix.has_canonical_format:
            matrix = given.copy()
            matrix.sum_duplicates()
        return _stream_of_parts(matrix, major).blocks(chunk)

    def mend(ends: Axis, minor: Any, values: Any) -> tuple[Axis, Any, Any]:
        shape = (len(ends) - 1, given.shape[1 - major])
        matrix = type(given)((values, minor, ends), shape=shape if major == 0 else shape[::-1], copy=True)
        matrix.sum_duplicates()
        return matrix.indptr.astype(np.int64), matrix.indices, matrix.data

    found = _stream_of_parts(given, major)
    assert found.lines is not None  # it is by rows or by columns
    return replace(found, blocks=blocks, lines=replace(found.lines, mend=mend))


def _stream_of_parts(given: Any, major: int) -> CellStream:
    ends = np.asarray(given.indptr).astype(np.int64)

    def read(start: int, stop: int) -> tuple[Any, Any]:
        return given.indices[start:stop], given.data[start:stop]

    return stream_of_rows(tuple(given.shape), given.data.dtype, ends, read, major)


def stream_of_rows(
    shape: tuple[int, ...], dtype: np.dtype[Any], ends: Axis, read: Callable[[int, int], tuple[Any, Any]], major: int
) -> CellStream:
    """A matrix that is kept by rows (major 0) or by columns (1): `ends` as SciPy's indptr, `read` gives minor
    coordinates and values from place to place."""

    def blocks(_chunk: tuple[int, ...]) -> Iterator[Block]:
        row = 0
        while row < len(ends) - 1:
            stop = int(np.searchsorted(ends, ends[row] + BLOCK_CELLS, side="right")) - 1
            stop = min(max(stop, row + 1), len(ends) - 1)
            yield from _rows_block(ends, row, stop, read, major)
            row = stop

    return CellStream(shape, dtype, blocks, major, lines=RowSource(ends, read))


def _rows_block(
    ends: Axis, first: int, stop: int, read: Callable[[int, int], tuple[Any, Any]], major: int
) -> Iterator[Block]:
    """The cells of some rows; of one row that has very many, some at a time."""
    for start in range(int(ends[first]), int(ends[stop]), 4 * BLOCK_CELLS):
        end = min(start + 4 * BLOCK_CELLS, int(ends[stop]))
        minor, values = read(start, end)
        inside = np.clip(ends[first : stop + 1], start, end)
        counts = inside[1:] - inside[:-1]
        rows = np.repeat(np.arange(first, stop, dtype=np.int64), counts)
        axes = (rows, _whole(minor)) if major == 0 else (_whole(minor), rows)
        yield axes, values


def usual_chunk(stream: CellStream) -> tuple[int, ...] | None:
    """The chunk for a matrix that comes by rows or by columns, if nobody asks for another: whole lines, so many that
    a chunk has about CHUNK_CELLS cells. None for other cells."""
    if stream.lines is None or stream.axis is None:
        return None
    n_lines, width = max(stream.shape[stream.axis], 1), max(stream.shape[1 - stream.axis], 1)
    n_parts = -(-width // _MOST_SIDE)
    each = max(int(stream.lines.ends[-1]), 1) / n_lines / n_parts
    most = max(_MOST_BYTES // (-(-width // n_parts) * stream.dtype.itemsize), 1)
    lines = min(max(int(CHUNK_CELLS / each), 1), n_lines, _MOST_SIDE, most)
    chunk = lines, -(-width // n_parts)
    return chunk if stream.axis == 0 else chunk[::-1]


def expand_rows(first: int, ends: Axis, minor: Any) -> tuple[Axis, Axis]:
    """Coordinates of cells that are kept by rows, from a row on."""
    return np.repeat(np.arange(first, first + len(ends) - 1, dtype=np.int64), np.diff(ends)), _whole(minor)


def narrow_minor(minor: Any) -> np.ndarray[Any, Any]:
    """Columns as kernels take them: int32 or int64, of this machine's byte order."""
    return np.ascontiguousarray(minor) if minor.dtype in (np.int32, np.int64) else _whole(minor)


def stream_of_array(array: SparseArray) -> CellStream:
    """Another sparse array, band by band of the chunks that its cells are to be put into."""
    shape = array.shape

    def blocks(chunk: tuple[int, ...]) -> Iterator[Block]:
        for start in range(0, shape[0], chunk[0]):
            for coords, values in array.iter_cells(slice(start, start + chunk[0])):
                yield tuple(np.ascontiguousarray(one) for one in coords.T), values

    return CellStream(shape, array.dtype, blocks, 0, array.fill)
