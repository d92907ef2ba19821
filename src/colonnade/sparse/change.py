"""Write, erase and cut off elements of a sparse array: sorted by chunk, merged with stored cells, one commit each.

Writing defines elements, whatever their value; writing again replaces them. Erasing makes them undefined; a chunk is
removed with its last element. Shrinking erases the elements outside, so growing again shows the fill (facts 7).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from math import prod
from typing import SupportsIndex

import numpy as np

from colonnade.dataclass import replace
from colonnade.errors import DataError, UsageError
from colonnade.format.dataspace import Dataspace
from colonnade.format.headers import read_messages
from colonnade.format.links import find_address
from colonnade.format.records import ChunkRecord
from colonnade.format.source import HDF5Source
from colonnade.format.values import DecodedValues, stored_dtype, value_dtype
from colonnade.sparse.attributes import changed, encode_attributes
from colonnade.sparse.chunk import Cells, PackedChunk, encode_cells, is_inside, read_cells
from colonnade.sparse.edit import Editor, edit_file, put_chunks, put_messages
from colonnade.sparse.info import SparseInfo, chunk_map_of, describe, is_edge
from colonnade.sparse.opened import SparseFile
from colonnade.sparse.selections import Coordinates, Positions
from colonnade.sparse.values import checked_values
from colonnade.threads import in_order

ChunkChange = tuple[tuple[int, ...], Positions, DecodedValues | None]
Merge = Callable[[Cells, Positions, DecodedValues | None], Cells]


def write_cells(file: SparseFile, name: str, coords: object, values: Iterable[object], n_threads: int) -> None:
    """Define these elements, or replace the values of defined ones."""
    _change(file, name, coords, values, _overlay, n_threads)


def erase_cells(file: SparseFile, name: str, coords: object, n_threads: int) -> None:
    """Make these elements undefined; elements that are undefined already are ignored."""

    def refuse(info: SparseInfo) -> None:
        if not info.layout.is_sparse:
            raise UsageError(f"{name} is dense: all elements of a chunk that was written are defined")

    _change(file, name, coords, None, _without, n_threads, refuse)


def resize_array(file: SparseFile, name: str, shape: Iterable[SupportsIndex], n_threads: int) -> None:
    """Change the shape of the array: elements outside are erased, new elements are undefined, empty chunks removed."""

    def work(editor: Editor, header: int, info: SparseInfo) -> None:
        new = replace(info, space=Dataspace(_checked_shape(shape, info), info.space.max_shape))
        put_chunks(editor, header, new, _cut(editor.source, info, new, n_threads))

    _edit_array(file, name, work)


def change_rows(
    editor: Editor, header: int, info: SparseInfo, n_rows: int, parts: Iterator[ChunkChange], n_threads: int
) -> None:
    """Change the length of a one-dimensional array and the values of rows; parts without values are erased."""
    new = replace(info, space=Dataspace((n_rows,), info.space.max_shape))
    if n_rows < info.space.shape[0]:
        put_chunks(editor, header, new, _cut(editor.source, info, new, n_threads))
    else:
        put_chunks(editor, header, new, _merged(editor.source, new, parts, _overlay_or_erase, n_threads))


def _overlay_or_erase(old: Cells, places: Positions, values: DecodedValues | None) -> Cells:
    return _without(old, places, values) if values is None else _overlay(old, places, values)


def change_attributes(file: SparseFile, name: str, new: Mapping[str, object], without: tuple[str, ...]) -> None:
    """Set the attributes in `new`, and remove those in `without`."""
    messages = encode_attributes(new)

    def work(editor: Editor, header: int, info: SparseInfo) -> None:
        attributes = changed(info.attributes, messages, without, editor.source.name)
        put_messages(editor, header, replace(info, attributes=attributes))

    _edit_array(file, name, work, with_elements=False)


def _checked_shape(given: Iterable[SupportsIndex], info: SparseInfo) -> tuple[int, ...]:
    try:
        shape = tuple(operator.index(size) for size in given)
    except TypeError:
        raise UsageError(f"a shape consists of integers, not {given!r}") from None
    limits = info.space.max_shape
    fits = len(shape) == len(limits) and all(
        0 <= size < 1 << 62 and (limit is None or size <= limit) for size, limit in zip(shape, limits, strict=True)
    )
    if not fits:
        raise UsageError(f"cannot resize {info.name} to {shape}: its max_shape is {limits}")
    return shape


def _cut(
    source: HDF5Source, info: SparseInfo, new: SparseInfo, n_threads: int
) -> Iterator[tuple[tuple[int, ...], PackedChunk | None]]:
    """The chunks that change with the new shape; None for a chunk that becomes empty."""
    chunk_map = chunk_map_of(info, source)
    edges = (record for records in chunk_map.read_all() for record in records if is_edge(new, record))

    def work(record: ChunkRecord) -> tuple[tuple[int, ...], PackedChunk | None]:
        cells = _old_cells(source, info, record)
        assert cells.values is not None  # requested
        inside = is_inside(new, record, cells.places)
        if not inside.any():
            return record.grid, None
        return record.grid, encode_cells(new, Cells(cells.places[inside], cells.values[inside]))

    return in_order(work, edges, n_threads)


def _change(
    file: SparseFile, name: str, coords: object, values: Iterable[object] | None, merge: Merge, n_threads: int,
    check: Callable[[SparseInfo], None] = lambda info: None,
) -> None:  # fmt: skip
    def work(editor: Editor, header: int, info: SparseInfo) -> None:
        check(info)
        places = _checked_coords(coords, info)
        given = None if values is None else checked_values(values, info.type, len(places))
        put_chunks(editor, header, info, _merged(editor.source, info, _by_chunk(info, places, given), merge, n_threads))

    _edit_array(file, name, work)


def _edit_array(
    file: SparseFile, name: str, work: Callable[[Editor, int, SparseInfo], None], with_elements: bool = True
) -> None:
    """Change an array in one commit."""

    def change(editor: Editor) -> None:
        header = find_address(editor.source, editor.block.root, name)
        info = describe(editor.source, read_messages(editor.source, header), name)
        if with_elements and info.type.has_pointers and info.type.kind not in ("text", "binary", "sequence"):
            raise UsageError(f"cannot write {name}: its type {info.type} is not supported for writing")
        work(editor, header, info)

    file.change(lambda handle: edit_file(handle, change))


def _checked_coords(given: object, info: SparseInfo) -> Coordinates:
    """The coordinates as (n, rank) integers, checked to be inside the array."""
    coords = np.asarray(given)
    rank = len(info.space.shape)
    if coords.ndim == 1 and rank == 1:
        coords = coords[:, None]
    if coords.size == 0:
        return np.empty((0, rank), dtype=np.int64)
    if coords.ndim != 2 or coords.shape[1] != rank or coords.dtype.kind not in "iu":
        raise DataError(
            f"coordinates must be integers of shape (n, {rank}), not {coords.dtype} of shape {coords.shape}"
        )
    if coords.dtype.kind == "u" and coords.max() >= 1 << 62:
        raise DataError(f"coordinates lie outside the array, which has shape {info.space.shape}")
    checked: Coordinates = coords.astype(np.int64)
    outside = np.flatnonzero(((checked < 0) | (checked >= np.array(info.space.shape))).any(axis=1))
    if len(outside):
        row = int(outside[0])
        raise DataError(f"{checked[row].tolist()} lies outside the array, which has shape {info.space.shape}", row=row)
    return checked


def _by_chunk(info: SparseInfo, coords: Coordinates, values: DecodedValues | None) -> Iterator[ChunkChange]:
    """The cells of each chunk: its grid index, ascending positions in it, values. Raises for duplicates."""
    numbers, places = _numbered(info, coords)
    order = np.argsort(numbers * info.layout.chunk_elements + places) if _fits(info) else np.lexsort((places, numbers))
    numbers, places = numbers[order], places[order]
    new = numbers[1:] != numbers[:-1]
    twice = np.flatnonzero(~new & (places[1:] == places[:-1]))
    if len(twice):
        raise DataError(f"{coords[order[twice[0]]].tolist()} is given twice", row=int(order[twice[0]]))
    bounds = [0, *(np.flatnonzero(new) + 1).tolist(), len(places)]
    for start, stop in pairwise(bounds):
        if stop > start:
            part = None if values is None else values[order[start:stop]]
            grid = coords[order[start]] // np.array(info.layout.chunk)
            yield tuple(grid.tolist()), places[start:stop], part


def _numbered(info: SparseInfo, coords: Coordinates) -> tuple[Positions, Positions]:
    """The row-major number of each element's chunk in the chunk grid, and its position in the chunk."""
    numbers, places = np.zeros((2, len(coords)), dtype=np.int64)
    for axis, (size, chunk) in enumerate(zip(info.space.shape, info.layout.chunk, strict=True)):
        at, inside = np.divmod(coords[:, axis], chunk)
        numbers *= -(-size // chunk)
        numbers += at
        places *= chunk
        places += inside
    return numbers, places


def _fits(info: SparseInfo) -> bool:
    """Whether chunk number and position in the chunk fit one 64-bit number."""
    grid = (-(-size // chunk) for size, chunk in zip(info.space.shape, info.layout.chunk, strict=True))
    return prod(grid) * info.layout.chunk_elements < 1 << 62


def _merged(
    source: HDF5Source, info: SparseInfo, parts: Iterator[ChunkChange], merge: Merge, n_threads: int
) -> Iterator[tuple[tuple[int, ...], PackedChunk | None]]:
    """The new version of each chunk; None for a chunk that becomes empty."""
    chunk_map = chunk_map_of(info, source)
    stored = {record.grid: record for records in chunk_map.read_all() for record in records}

    def work(part: ChunkChange) -> tuple[tuple[int, ...], PackedChunk | None]:
        grid, places, values = part
        cells = merge(_old_cells(source, info, stored.get(grid)), places, values)
        assert cells.values is not None  # read with values
        if not len(cells.places):
            return grid, None
        return grid, encode_cells(info, cells)

    return in_order(work, parts, n_threads)


def _old_cells(source: HDF5Source, info: SparseInfo, record: ChunkRecord | None) -> Cells:
    """The cells of a chunk: values as stored, except that variable-length values are decoded."""
    dtype = value_dtype(info.type) if info.type.has_pointers else stored_dtype(info.type)
    if record is None:
        return Cells(np.empty(0, dtype=np.int64), np.empty(0, dtype=dtype))
    cells = read_cells(source, info, record)
    assert cells.values is not None  # requested
    return Cells(cells.places, cells.values.astype(dtype.base) if info.type.kind == "boolean" else cells.values)


def _overlay(old: Cells, places: Positions, values: DecodedValues | None) -> Cells:
    """The union of old and new cells; new values win."""
    assert old.values is not None and values is not None
    if not len(old.places):
        return Cells(places, values)
    keep = ~np.isin(old.places, places, assume_unique=True)
    joined = np.concatenate((old.places[keep], places))
    new_values = np.empty((len(joined), *old.values.shape[1:]), dtype=old.values.dtype)
    new_values[: keep.sum()], new_values[keep.sum() :] = old.values[keep], values
    order = np.argsort(joined, kind="stable")
    return Cells(joined[order], new_values[order])


def _without(old: Cells, places: Positions, values: DecodedValues | None) -> Cells:
    """The old cells without those at these positions."""
    assert old.values is not None
    keep = ~np.isin(old.places, places, assume_unique=True)
    return Cells(old.places[keep], old.values[keep])
