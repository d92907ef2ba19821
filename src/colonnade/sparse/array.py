"""The public class of sparse arrays: shape, dense boxes, defined cells, chunk by chunk or all at once.

s = cn.open_sparse("run.h5", "matrix")
s[0:10, :]                       dense, undefined elements are the fill
coords, values = s.cells(box)    only the defined elements
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from math import prod
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import numpy as np

from colonnade.arrays import Booleans, Int64s
from colonnade.dataclass import dataclass
from colonnade.errors import ColonnadeError, ConflictError, UsageError
from colonnade.format.chunk_maps import ChunkMap
from colonnade.format.headers import Message
from colonnade.format.links import find_object
from colonnade.format.records import ChunkRecord
from colonnade.format.source import HDF5Source
from colonnade.format.superblock import open_root
from colonnade.format.values import DecodedValues, decode_fill_value, value_dtype
from colonnade.model import FilterInfo, Finding, StoredType
from colonnade.nodes.attributes import Attributes
from colonnade.pager.sources import ByteSource
from colonnade.sealed import Sealed
from colonnade.sparse.attributes import read_attributes
from colonnade.sparse.boxes import ArrayBox, BoxKey, parse_box
from colonnade.sparse.change import change_attributes, erase_cells, resize_array, write_cells
from colonnade.sparse.chunk import read_cells
from colonnade.sparse.create import SparseOptions, put_new
from colonnade.sparse.info import (
    SparseInfo,
    check_record,
    chunk_map_of,
    count_values,
    describe,
    is_edge,
    origin,
    walk_datasets,
)
from colonnade.sparse.measure import StoredSize, measure
from colonnade.sparse.opened import OpenHandle, SparseFile, SparseTarget, change_of, opened
from colonnade.sparse.row_cells import Ends, Minor, RowCells, join_rows, read_rows, suits_rows
from colonnade.sparse.selections import Coordinates, coordinates, ordered
from colonnade.sparse.verify import Advance, verify
from colonnade.threads import default_threads, in_order

if TYPE_CHECKING:
    import numpy.typing as npt

T = TypeVar("T")
ScipyFormat = Literal["csr", "csc", "coo"]
_MOST_PLACES = 1 << 62
_SUMMABLE = ("integer", "float", "boolean", "complex")  # types that SciPy's matrices can hold


class Coo(NamedTuple):
    """Defined elements in the form of pydata's `sparse`: `sparse.COO(**s.to_coo()._asdict())`.

    >>> s = cn.create_sparse("run.h5", "matrix", shape=(100, 100), dtype="i4")
    >>> s.write([(0, 1), (50, 2)], [5, 6])
    >>> coo = s.to_coo()
    >>> coo.coords.tolist(), coo.data.tolist(), coo.shape
    ([[0, 50], [1, 2]], [5, 6], (100, 100))
    """

    coords: Coordinates
    data: DecodedValues
    shape: tuple[int, ...]
    fill_value: object


@dataclass(frozen=True, slots=True)
class _State:
    """The description of a dataset, valid for one state of its file."""

    source: HDF5Source
    info: SparseInfo
    messages: list[Message]
    generation: int

    @property
    def chunk_map(self) -> ChunkMap:
        return chunk_map_of(self.info, self.source)


def open_sparse(target: SparseTarget, name: str, *, n_threads: int | None = None) -> SparseArray:
    """Open the sparse array at path `name` of an HDF5 file: a file's path, its bytes, or a binary file object.

    n_threads: the number of threads that decode chunks; the number of cores by default.
    """
    return SparseArray(opened(target), name, default_threads() if n_threads is None else n_threads)


def create_sparse(
    target: str | os.PathLike[str] | OpenHandle,
    name: str,
    shape: Sequence[int],
    dtype: npt.DTypeLike,
    options: SparseOptions,
    n_threads: int | None = None,
) -> SparseArray:
    """Create a sparse array without defined elements, in a new or an existing file. Other objects are left unchanged.

    target: a path, or a file that is open for changes.
    """
    put_new(change_of(target), name, shape, dtype, options)
    return open_sparse(target, name, n_threads=n_threads)


def find_sparse(target: SparseTarget) -> list[str]:
    """The paths of all sparse arrays of a file."""
    file = opened(target)

    def walk(source: ByteSource) -> list[str]:
        return [path for path, _ in walk_datasets(*open_root(source))]

    try:
        return file.consistent(walk)
    finally:
        if file is not target:
            file.close()


def verify_sparse(
    target: SparseTarget, name: str | None = None, progress: Advance | None = None, *, deep: bool = True
) -> list[Finding]:
    """Check one sparse array, or all of a file, and return the findings; `progress` is called with the chunks checked.

    deep: read the chunks too, and not only their addresses.
    """
    file = opened(target)

    def look(source: ByteSource) -> list[Finding]:
        based, root = open_root(source)
        datasets = walk_datasets(based, root) if name is None else [(name, find_object(based, root, name))]
        return [finding for path, messages in datasets for finding in verify(based, messages, path, progress, deep)]

    try:
        return file.consistent(look)
    finally:
        if file is not target:
            file.close()


class SparseArray(Sealed):
    """An array in which only some elements are defined; the others read as the fill.

    >>> s = cn.create_sparse("run.h5", "matrix", shape=(100, 100), dtype="i4")
    >>> s.write([(0, 1), (50, 2)], [5, 6])
    >>> s
    <SparseArray /matrix: 100 x 100, int32, chunks (100, 100)>
    >>> s[50, 0:4]
    array([0, 0, 6, 0], dtype=int32)
    """

    def __init__(self, file: SparseFile, name: str, n_threads: int) -> None:
        self._file = file
        self._n_threads = n_threads
        self._state: _State | None = None
        self._name = "/" + name.strip("/")
        try:
            self._consistent(lambda state: None)
        except BaseException:
            file.close()
            raise

    # -- description --

    @property
    def name(self) -> str:
        """The path of the array in its file."""
        return self._name

    @property
    def info(self) -> SparseInfo:
        """The description of the dataset, from its header messages."""
        return self._consistent(lambda state: state.info)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of elements along each dimension."""
        return self.info.space.shape

    @property
    def max_shape(self) -> tuple[int | None, ...]:
        """The largest shape that `resize` accepts; None for a dimension without a limit."""
        return self.info.space.max_shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the values; for an array type, the dtype of its items."""
        return value_dtype(self.info.type).base

    @property
    def type(self) -> StoredType:
        """The HDF5 datatype."""
        return self.info.type

    @property
    def chunks(self) -> tuple[int, ...]:
        """The shape of a chunk."""
        return self.info.layout.chunk

    @property
    def fill(self) -> Any:
        """The value that undefined elements read as."""
        info = self.info
        return decode_fill_value(info.fill, info.type)

    @property
    def filters(self) -> tuple[tuple[FilterInfo, ...], ...]:
        """The filters of each section."""
        return self.info.pipelines

    @property
    def attrs(self) -> Attributes:
        """The attributes: numbers, strings and arrays of these. Setting or deleting one is one commit."""
        return Attributes(
            lambda _only: self._consistent(self._read_attributes),
            lambda new, without: change_attributes(self._file, self.name, new, without),
        )

    def _read_attributes(self, state: _State) -> dict[str, object]:
        return read_attributes(state.source, state.messages)

    @property
    def n_defined(self) -> int:
        """The number of defined elements; values are not read."""
        return self._consistent(_count_defined)

    @property
    def n_chunks(self) -> int:
        """The number of stored chunks."""
        return self._consistent(lambda state: sum(1 for _ in _records(state, _whole(state))))

    def __repr__(self) -> str:
        shape = " x ".join(str(size) for size in self.shape)
        return f"<SparseArray {self.name}: {shape}, {self.info.type}, chunks {self.chunks}>"

    def records(self) -> list[ChunkRecord]:
        """The address and the sections of each stored chunk.

        >>> s = cn.create_sparse("run.h5", "matrix", shape=(100, 100), dtype="i4")
        >>> s.write([(0, 1), (50, 2)], [5, 6])
        >>> len(s.records())
        1
        """
        return self._consistent(lambda state: list(_records(state, _whole(state))))

    def measure(self) -> StoredSize:
        """The number of stored chunks, and the bytes that their sections take.

        >>> s = cn.create_sparse("run.h5", "matrix", shape=(100, 100), dtype="i4")
        >>> s.write([(0, 1), (50, 2)], [5, 6])
        >>> s.measure().n_values
        2
        """
        return self._consistent(lambda state: measure(state.source, state.info))

    # -- elements --

    def __getitem__(self, key: BoxKey) -> Any:
        """A dense box; undefined elements are the fill. An integer drops its dimension, slices may have steps."""
        if key is None:
            raise UsageError("cannot add a dimension with None: a box has at most as many dimensions as the array")
        return self._consistent(lambda state: self._dense(state, parse_box(key, state.info.space.shape)))

    def cells(self, box: BoxKey = None) -> tuple[Coordinates, DecodedValues]:
        """The defined elements of a box in row-major order: coordinates in the array (n, rank), values (n, ...).

        >>> s = cn.create_sparse("run.h5", "matrix", shape=(100, 100), dtype="i4")
        >>> s.write([(0, 1), (50, 2)], [5, 6])
        >>> coords, values = s.cells((slice(0, 10), ...))
        >>> coords.tolist(), values.tolist()
        ([[0, 1]], [5])
        """
        return self._consistent(lambda state: self._cells(state, parse_box(box, state.info.space.shape)))

    def defined(self, box: BoxKey = None) -> Booleans:
        """A mask of the defined elements of a box, in the box's shape; values are not read.

        >>> s = cn.create_sparse("run.h5", "matrix", shape=(100, 100), dtype="i4")
        >>> s.write([(0, 1), (50, 2)], [5, 6])
        >>> s.defined((0, slice(0, 3)))
        array([False,  True, False])
        """
        return self._consistent(lambda state: self._defined(state, parse_box(box, state.info.space.shape)))

    def iter_cells(self, box: BoxKey = None) -> Iterator[tuple[Coordinates, DecodedValues]]:
        """Coordinates and values of the defined elements of a box, one chunk at a time, in the memory of a few chunks.

        Raises a ConflictError if another writer commits to the file during the iteration.

        >>> s = cn.create_sparse("run.h5", "matrix", shape=(100, 100), dtype="i4")
        >>> s.write([(0, 1), (50, 2)], [5, 6])
        >>> for coords, values in s.iter_cells():
        ...     print(coords.tolist(), values.tolist())
        [[0, 1], [50, 2]] [5, 6]
        """
        state = self._consistent(lambda state: state)
        chunks = self._chunks(state, parse_box(box, state.info.space.shape), with_values=True)
        while (cells := self._next(chunks)) is not None:
            coords, values = cells
            if values is not None and len(coords):
                yield coords, values

    def iter_defined(self, box: BoxKey = None) -> Iterator[Coordinates]:
        """Coordinates of the defined elements of a box, one chunk at a time; values are not read.

        >>> s = cn.create_sparse("run.h5", "matrix", shape=(100, 100), dtype="i4")
        >>> s.write([(0, 1), (50, 2)], [5, 6])
        >>> [coords.tolist() for coords in s.iter_defined()]
        [[[0, 1], [50, 2]]]
        """
        state = self._consistent(lambda state: state)
        chunks = self._chunks(state, parse_box(box, state.info.space.shape), with_values=False)
        while (cells := self._next(chunks)) is not None:
            if len(cells[0]):
                yield cells[0]

    def to_coo(self, box: BoxKey = None) -> Coo:
        """Coordinates (rank, n), values, shape and fill of a box; coordinates are relative to the box.

        >>> s = cn.create_sparse("run.h5", "matrix", shape=(100, 100), dtype="i4")
        >>> s.write([(0, 1), (50, 2)], [5, 6])
        >>> coo = s.to_coo()
        >>> coo.coords.tolist(), coo.data.tolist(), coo.fill_value.item()
        ([[0, 50], [1, 2]], [5, 6], 0)
        """

        def read(state: _State) -> Coo:
            wanted = parse_box(box, state.info.space.shape)
            coords, values = self._cells(state, wanted)
            return Coo(
                wanted.inner(coords).T, values, wanted.shape, decode_fill_value(state.info.fill, state.info.type)
            )

        return self._consistent(read)

    def to_scipy(self, format: ScipyFormat = "csr", box: BoxKey = None) -> Any:  # noqa: A002 - SciPy's own word
        """A box as a SciPy sparse array. One dimension is always "coo"; more than two are not supported.

        >>> s = cn.create_sparse("run.h5", "matrix", shape=(100, 100), dtype="i4")
        >>> s.write([(0, 1), (50, 2)], [5, 6])
        >>> s.to_scipy("csr").sum().item()
        11
        """
        if format not in ("csr", "csc", "coo"):
            raise UsageError(f"format must be 'csr', 'csc' or 'coo', not {format!r}")
        try:
            from scipy import sparse
        except ImportError:
            raise UsageError("to_scipy needs the package scipy (pip install scipy)") from None
        rows = self._consistent(lambda state: self._csr(state, box)) if format == "csr" else None
        if rows is not None:
            return sparse.csr_array(rows[0], shape=rows[1])
        coo = self.to_coo(box)
        if len(coo.shape) > 2 or coo.data.ndim > 1:
            raise UsageError(f"SciPy has no sparse array for {len(coo.shape)} dimensions: use to_coo")
        if coo.fill_value is None or coo.data.dtype.kind not in "biufc" or coo.fill_value != 0:
            raise UsageError(
                f"SciPy's sparse arrays hold numbers and are 0 elsewhere, not {coo.fill_value!r}: use to_coo"
            )
        native = coo.data.astype(coo.data.dtype.newbyteorder("="), copy=False)
        matrix = sparse.coo_array((native, tuple(coo.coords)), shape=coo.shape)
        return matrix.asformat(format) if len(coo.shape) == 2 else matrix

    # -- changes, one commit each --

    def write(self, coords: object, values: Iterable[object]) -> None:
        """Define elements, or replace defined ones: coordinates (n, rank), values (n, ...).

        >>> s = cn.create_sparse("run.h5", "matrix", shape=(100, 100), dtype="i4")
        >>> s.write([(0, 1), (50, 2)], [5, 6])
        >>> s[50, 2].item()
        6
        """
        write_cells(self._file, self.name, coords, values, self._n_threads)

    def erase(self, what: object) -> None:
        """Make elements undefined: those in a box, or at coordinates (n, rank).

        >>> s = cn.create_sparse("run.h5", "matrix", shape=(100, 100), dtype="i4")
        >>> s.write([(0, 1), (50, 2)], [5, 6])
        >>> s.erase([(0, 1)])
        >>> s.erase((slice(40, 60), ...))
        >>> s.n_defined
        0
        """
        if isinstance(what, (tuple, slice, int, EllipsisType)):
            parts = list(self.iter_defined(what))
            what = np.concatenate([np.empty((0, self.ndim), dtype=np.int64), *parts])
        erase_cells(self._file, self.name, what, self._n_threads)

    def resize(self, shape: Sequence[int]) -> None:
        """Change the shape, up to `max_shape`. Elements outside the new shape are erased; new ones are undefined.

        >>> s = cn.create_sparse("run.h5", "matrix", shape=(10, 10), dtype="i4", max_shape=(None, 10))
        >>> s.resize((20, 10))
        >>> s.shape
        (20, 10)
        """
        resize_array(self._file, self.name, shape, self._n_threads)

    def close(self) -> None:
        """Close the file.

        >>> s = cn.create_sparse("run.h5", "matrix", shape=(100, 100), dtype="i4")
        >>> s.write([(0, 1), (50, 2)], [5, 6])
        >>> s.close()
        """
        self._file.close()

    def __enter__(self) -> SparseArray:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    # -- implementation --

    def _consistent(self, read: Callable[[_State], T]) -> T:
        return self._file.consistent(lambda source: read(self._look(source)))

    def _look(self, source: ByteSource) -> _State:
        """The state of the dataset, described again if the file has changed."""
        if self._state is None or self._state.generation != self._file.generation:
            based, root = open_root(source)
            messages = find_object(based, root, self.name)
            self._state = _State(based, describe(based, messages, self.name), messages, self._file.generation)
        return self._state

    def _next(self, chunks: Iterator[T]) -> T | None:
        """The next result of an iteration over chunks, None at the end; raises if the file has changed meanwhile."""
        try:
            result = next(chunks, None)
        except ColonnadeError:
            self._require_current()
            raise
        self._require_current()
        return result

    def _require_current(self) -> None:
        if not self._file.is_current():
            raise ConflictError(f"{self._file.name} was changed while it was read", path=self._file.name)

    def _chunks(
        self, state: _State, box: ArrayBox, with_values: bool
    ) -> Iterator[tuple[Coordinates, DecodedValues | None]]:
        """Coordinates and values of the defined elements of a box, chunk by chunk."""

        def work(record: ChunkRecord) -> tuple[Coordinates, DecodedValues | None]:
            return _chunk_cells(state, record, box, with_values)

        return in_order(work, _records(state, box), self._n_threads)

    def _cells(self, state: _State, box: ArrayBox) -> tuple[Coordinates, DecodedValues]:
        if suits_rows(state.info, box):
            ends, minor, values = self._rows(state, box)
            coords = np.empty((len(minor), 2), dtype=np.int64)
            coords[:, 0] = np.repeat(np.arange(box.low[0], box.high[0], dtype=np.int64), np.diff(ends))
            coords[:, 1] = minor
            return coords, values
        parts = [(coords, values) for coords, values in self._chunks(state, box, True) if values is not None]
        coords = _joined([part for part, _ in parts], _no_coords(state))
        values = _joined([part for _, part in parts], _no_values(state))
        order = _row_major(coords, state.info.space.shape)
        return (coords, values) if order is None else (coords[order], values[order])

    def _rows(self, state: _State, box: ArrayBox) -> tuple[Ends, Minor, DecodedValues]:
        """The defined elements of a box by rows; column numbers are relative to the array."""

        def work(record: ChunkRecord) -> RowCells:
            return read_rows(state.source, state.info, record, box)

        parts = list(in_order(work, _records(state, box), self._n_threads))
        return join_rows(parts, box, _no_values(state))

    def _csr(self, state: _State, key: BoxKey) -> tuple[tuple[DecodedValues, Minor, Minor], tuple[int, int]] | None:
        """Values, indices and indptr of a box for SciPy's CSR; None if the box cannot be read by rows."""
        box, info = parse_box(key, state.info.space.shape), state.info
        if info.type.kind not in _SUMMABLE or any(info.fill or b"") or not suits_rows(info, box):
            return None
        ends, minor, values = self._rows(state, box)
        native = values.astype(values.dtype.newbyteorder("="), copy=False)
        minor = minor - box.low[1] if box.low[1] else minor
        kind = np.int32 if max(len(minor), *box.shape) < 1 << 31 else np.int64
        return (native, minor.astype(kind, copy=False), ends.astype(kind)), (box.shape[0], box.shape[1])

    def _dense(self, state: _State, box: ArrayBox) -> Any:
        empty = _no_values(state)
        elements = np.empty((prod(box.shape), *empty.shape[1:]), dtype=empty.dtype)
        elements[...] = _fill_items(state, empty)
        for coords, values in self._chunks(state, box, True):
            elements[_linear(box.inner(coords), box.shape)] = values
        dense = elements.reshape((*box.kept_shape, *empty.shape[1:]))
        return dense if dense.ndim else dense[()]

    def _defined(self, state: _State, box: ArrayBox) -> Booleans:
        mask = np.zeros(prod(box.shape), dtype=bool)
        for coords, _ in self._chunks(state, box, False):
            mask[_linear(box.inner(coords), box.shape)] = True
        return mask.reshape(box.kept_shape)


def _whole(state: _State) -> ArrayBox:
    return parse_box(None, state.info.space.shape)


def _records(state: _State, box: ArrayBox) -> Iterator[ChunkRecord]:
    """Records of the stored chunks that overlap a box."""
    chunk = state.info.layout.chunk
    low = tuple(at // size for at, size in zip(box.low, chunk, strict=True))
    high = tuple(-(-at // size) for at, size in zip(box.high, chunk, strict=True))
    if not prod(box.shape):
        return iter(())
    return chain.from_iterable(state.chunk_map.read(low, high))


def _chunk_cells(
    state: _State, record: ChunkRecord, box: ArrayBox, with_values: bool
) -> tuple[Coordinates, DecodedValues | None]:
    """The defined elements of one chunk that are in a box."""
    info = state.info
    cells = read_cells(state.source, info, record, with_values)
    start = origin(info, record)
    coords = coordinates(cells.places, info.layout.chunk)
    coords += np.array(start, dtype=np.int64)
    stop = tuple(min(at + size, end) for at, size, end in zip(start, info.layout.chunk, info.space.shape, strict=True))
    if box.holds(start, stop):
        return coords, cells.values
    inside = box.mask(coords)
    return coords[inside], cells.values[inside] if cells.values is not None else None


def _count_defined(state: _State) -> int:
    """The number of defined elements, from the records alone. Chunks that store all their elements are read at the
    edges, because elements outside the dataset do not count."""
    count = 0
    for record in _records(state, _whole(state)):
        check_record(state.source, state.info, record)
        count += count_values(state.source, state.info, record)
        if not state.info.layout.is_sparse and is_edge(state.info, record):
            count -= state.info.layout.chunk_elements - len(read_cells(state.source, state.info, record, False).places)
    return count


def _no_coords(state: _State) -> Coordinates:
    return np.empty((0, len(state.info.space.shape)), dtype=np.int64)


def _no_values(state: _State) -> DecodedValues:
    return np.empty(0, dtype=value_dtype(state.info.type))


def _joined(parts: list[DecodedValues], like: DecodedValues) -> DecodedValues:
    """Concatenate arrays into exactly the dtype of `like`: np.concatenate would change byte order and offsets."""
    joined = np.empty((sum(len(part) for part in parts), *like.shape[1:]), dtype=like.dtype)
    at = 0
    for part in parts:
        joined[at : at + len(part)] = part
        at += len(part)
    return joined


def _fill_items(state: _State, empty: DecodedValues) -> Any:
    fill = decode_fill_value(state.info.fill, state.info.type)
    if fill is None and empty.dtype.names:  # a compound with variable-length members, which become None
        return np.zeros(1, dtype=empty.dtype)[0]
    return fill


def _linear(coords: Coordinates, shape: tuple[int, ...]) -> Int64s:
    """Row-major positions in a dense array of this shape."""
    places = np.zeros(len(coords), dtype=np.int64)
    for axis, size in enumerate(shape):
        places *= size
        places += coords[:, axis]
    return places


def _row_major(coords: Coordinates, shape: tuple[int, ...]) -> Int64s | None:
    """The permutation that sorts these coordinates in row-major order; None if they are sorted already."""
    if prod(shape) > _MOST_PLACES:
        return np.lexsort(coords.T[::-1])
    places = _linear(coords, shape)
    return ordered(places)
