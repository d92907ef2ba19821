"""Write a stream of cells as a new sparse array, in one commit and in the memory of a few bands of chunks.

A band is all chunks with the same index along one dimension. If the stream is sorted along that dimension, each band
is written as soon as it is complete; otherwise cells are kept, by band, until the stream ends. Cells that exceed the
memory limit go to a temporary file.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from itertools import pairwise
from math import prod
from typing import IO, TYPE_CHECKING

import numpy as np

from colonnade import limits
from colonnade.dataclass import replace
from colonnade.edit.cell_streams import Axis, Block, CellStream, stream_of, usual_chunk
from colonnade.edit.row_bands import pack_rows, suits_rows
from colonnade.errors import DataError, UsageError
from colonnade.format.headers import read_messages
from colonnade.format.values import DecodedValues, stored_dtype
from colonnade.h5.files import FileHandle
from colonnade.h5.links import make_placeholder
from colonnade.nodes.paths import editable
from colonnade.sparse.array import SparseArray, open_sparse
from colonnade.sparse.change import ChunkChange
from colonnade.sparse.chunk import Packed, encode_chunk
from colonnade.sparse.create import SparseOptions, plan
from colonnade.sparse.edit import Editor, edit_file, put_batches, put_dataset
from colonnade.sparse.info import SparseInfo, describe
from colonnade.sparse.opened import FileChanger, OpenHandle, change_of
from colonnade.sparse.selections import ordered
from colonnade.sparse.values import checked_values
from colonnade.threads import default_threads, in_order

if TYPE_CHECKING:
    import numpy.typing as npt


def write_sparse(
    target: str | os.PathLike[str] | OpenHandle,
    name: str,
    matrix: object,
    options: SparseOptions,
    *,
    dtype: npt.DTypeLike | None = None,
    n_threads: int | None = None,
) -> SparseArray:
    """Create a sparse array with all cells of a matrix, in one commit and bounded memory.

    matrix: a SciPy sparse array (explicit zeros are defined), a pydata one, (coordinates (n, rank), values, shape),
    another sparse array, or a stream of cells. Chunks are by default those of `create_sparse`, except for CSR and CSC
    matrices: their chunks are whole rows or columns, with about 50,000 cells per chunk.
    """
    stream = matrix if isinstance(matrix, CellStream) else stream_of(matrix)
    kind = stream.dtype if dtype is None else dtype
    fill = stream.fill if options.fill is None else options.fill
    chunks = usual_chunk(stream) if options.chunks is None else options.chunks
    info = plan(name, stream.shape, kind, replace(options, fill=fill, chunks=chunks))
    if info.type.has_pointers:
        raise UsageError("cannot write variable-length elements with write_sparse. Use create_sparse and write")
    threads = default_threads() if n_threads is None else n_threads
    put_stream(change_of(target), info, stream, threads)
    return open_sparse(target, name, n_threads=n_threads)


def put_stream(change: FileChanger, info: SparseInfo, stream: CellStream, n_threads: int) -> None:
    """Create a sparse array with all cells of a stream, in one commit."""

    def work(handle: FileHandle) -> None:
        header = make_placeholder(editable(handle.root), info.name)

        def fill(editor: Editor) -> None:
            put_dataset(editor, header, info)
            source = editor.renew()
            created = describe(source, read_messages(source, header), info.name)
            put_batches(editor, header, created, _packed(created, stream, n_threads))

        edit_file(handle, fill)

    change(work)


def _packed(info: SparseInfo, stream: CellStream, n_threads: int) -> Iterator[list[Packed]]:
    lines = stream.lines if stream.axis == 0 else None
    if lines is not None and lines.repair is not None and stream.dtype != stored_dtype(info.type):
        lines = None  # duplicates must be added up before the type conversion
    if lines is not None and suits_rows(info):
        return pack_rows(info, lines, _pack_sorted, n_threads)

    def work(part: ChunkChange) -> Packed:
        grid, places, values = part
        assert values is not None  # streams have values
        return grid, encode_chunk(info, places, values.tobytes())

    parts = (part for axes, values in _bands(info, stream) for part in split_chunks(info, axes, values))
    return ([chunk] for chunk in in_order(work, parts, n_threads))


def _pack_sorted(info: SparseInfo, cells: Block) -> Iterator[Packed]:
    """The chunks of cells that come in any order: they are sorted first."""
    _check_inside(cells[0], info)
    for grid, places, values in split_chunks(info, *cells):
        assert values is not None  # streams have values
        yield grid, encode_chunk(info, places, values.tobytes())


def _bands(info: SparseInfo, stream: CellStream) -> Iterator[Block]:
    """The cells, band by band."""
    axis = stream.axis or 0
    size = info.layout.chunk[axis]
    with tempfile.TemporaryFile() as spool:
        buffer = _BandBuffer(spool, axis, size, len(info.space.shape), stored_dtype(info.type))
        for axes, values in stream.blocks(info.layout.chunk):
            _check_inside(axes, info)
            buffer.add(axes, checked_values(values, info.type, len(axes[0])))
            if stream.axis is not None and len(axes[axis]):
                yield from buffer.take(int(axes[axis].max()) // size)
            buffer.spill(limits.now.cell_bytes)
        yield from buffer.take(None)


def _check_inside(axes: tuple[Axis, ...], info: SparseInfo) -> None:
    for axis, (coords, size) in enumerate(zip(axes, info.space.shape, strict=True)):
        if len(coords) and (coords.min() < 0 or coords.max() >= size):
            row = int(np.flatnonzero((coords < 0) | (coords >= size))[0])
            value = int(coords[row])
            raise DataError(
                f"coordinate {value} of dimension {axis} lies outside the array, which has shape {info.space.shape}",
                value=value,
            )


class _BandBuffer:
    """Cells of incomplete bands, in memory or in a temporary file."""

    def __init__(self, spool: IO[bytes], axis: int, size: int, rank: int, dtype: np.dtype) -> None:
        self._spool, self._axis, self._size = spool, axis, size
        self._rank, self._dtype = rank, dtype
        self._parts: dict[int, list[Block]] = {}
        self._spilled: dict[int, list[tuple[int, int]]] = {}
        self._n_bytes = 0
        self._done = -1

    def add(self, axes: tuple[Axis, ...], values: DecodedValues) -> None:
        if not len(values):
            return
        bands = axes[self._axis] // self._size
        low, high = int(bands.min()), int(bands.max())
        if low <= self._done:
            raise DataError(f"coordinates of dimension {self._axis} decrease, but the stream must be sorted by them")
        self._n_bytes += sum(coords.nbytes for coords in axes) + values.nbytes
        if low == high:
            self._parts.setdefault(low, []).append((axes, values))
            return
        order = ordered(bands)
        if order is not None:
            axes, values, bands = tuple(coords[order] for coords in axes), values[order], bands[order]
        cuts = [0, *(np.flatnonzero(bands[1:] != bands[:-1]) + 1).tolist(), len(bands)]
        for start, stop in pairwise(cuts):
            part = tuple(coords[start:stop] for coords in axes), values[start:stop]
            self._parts.setdefault(int(bands[start]), []).append(part)

    def take(self, below: int | None) -> Iterator[Block]:
        """The complete bands, removed from the buffer: those below band `below`, or all."""
        for band in sorted({*self._parts, *self._spilled}):
            if below is not None and band >= below:
                return
            self._done = band
            parts = [self._read(*part) for part in self._spilled.pop(band, [])]
            parts += self._parts.pop(band, [])
            axes = tuple(np.concatenate([part[0][axis] for part in parts]) for axis in range(self._rank))
            values = np.concatenate([part[1] for part in parts]) if len(parts) > 1 else parts[0][1]
            self._n_bytes -= sum(coords.nbytes for coords in axes) + values.nbytes
            yield axes, values

    def spill(self, most: int) -> None:
        """Move all cells to the temporary file if they take more than `most` bytes."""
        if self._n_bytes <= most:
            return
        for band, parts in self._parts.items():
            for axes, values in parts:
                offset = self._spool.seek(0, 2)
                for array in (*axes, values):
                    self._spool.write(np.ascontiguousarray(array).data.cast("B"))
                self._spilled.setdefault(band, []).append((offset, len(values)))
        self._parts.clear()
        self._n_bytes = 0

    def _read(self, offset: int, count: int) -> Block:
        self._spool.seek(offset)
        axes = tuple(np.frombuffer(self._spool.read(8 * count), dtype=np.int64) for _ in range(self._rank))
        values = np.frombuffer(self._spool.read(self._dtype.itemsize * count), dtype=self._dtype)
        self._n_bytes += sum(coords.nbytes for coords in axes) + values.nbytes
        return axes, values


def split_chunks(info: SparseInfo, axes: tuple[Axis, ...], values: DecodedValues) -> Iterator[ChunkChange]:
    """The cells of each chunk: its grid index, ascending positions in it, values. Raises for duplicates."""
    chunk = info.layout.chunk
    grids = [coords // size for coords, size in zip(axes, chunk, strict=True)]
    low = [int(indices.min()) for indices in grids]
    counts = [int(indices.max()) - first + 1 for indices, first in zip(grids, low, strict=True)]
    numbers = _linear([indices - first for indices, first in zip(grids, low, strict=True)], counts)
    places = _linear([coords - at * size for coords, at, size in zip(axes, grids, chunk, strict=True)], chunk)
    order = (
        None
        if prod(counts) == 1
        else ordered(numbers)
        if prod(counts) < 1 << 62
        else np.lexsort(tuple(reversed(grids)))
    )
    if order is not None:
        numbers, places, values = numbers[order], places[order], values[order]
    cuts = [0, *(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist(), len(numbers)]
    for start, stop in pairwise(cuts):
        first = start if order is None else int(order[start])
        grid = tuple(int(indices[first]) for indices in grids)
        yield grid, *_ascending(grid, chunk, places[start:stop], values[start:stop])


def _ascending(
    grid: tuple[int, ...], chunk: tuple[int, ...], places: Axis, values: DecodedValues
) -> tuple[Axis, DecodedValues]:
    order = ordered(places)
    if order is not None:
        places, values = places[order], values[order]
    twice = np.flatnonzero(places[1:] == places[:-1])
    if len(twice):
        inside = np.unravel_index(int(places[twice[0]]), chunk)
        where = [int(at) * size + int(offset) for at, size, offset in zip(grid, chunk, inside, strict=True)]
        raise DataError(f"{where} is given twice")
    return places, values


def _linear(coords: list[Axis], sizes: Iterable[int]) -> Axis:
    linear = np.zeros(len(coords[0]), dtype=np.int64)
    for axis, size in zip(coords, sizes, strict=True):
        linear *= size
        linear += axis
    return linear
