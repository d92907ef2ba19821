"""Columns that are parts of the elements of one dataset: members of a compound, elements of an array, or both.

The elements are fetched as they are stored, and only the part is decoded. Columns of one dataset can share what was
fetched (`elements`), so that each chunk is unpacked once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from math import prod
from typing import NamedTuple

import numpy as np

from colonnade import kernels
from colonnade.arrays import Image, Octets
from colonnade.columns.raw import Raw, cut, refuse_unreadable
from colonnade.dataclass import replace
from colonnade.errors import DataError, FormatError
from colonnade.filters.read_plan import MOST_AT_ONCE
from colonnade.format.elements import decode_elements
from colonnade.model import MICROSECONDS, SECONDS, ColumnInfo, DatasetInfo, Member, StoredType
from colonnade.nodes import Dataset
from colonnade.nodes.chunk_source import ChunkSource
from colonnade.nodes.heap_source import REFERENCE_DTYPE, HeapSource
from colonnade.selection import RowNumbers
from colonnade.stored_dtypes import memory_dtype

Path = tuple[str | int, ...]


class ElementPart(NamedTuple):
    """A part of an element: where it begins in the element, and its datatype."""

    offset: int
    type: StoredType


def part_of_element(element: StoredType, path: Path) -> ElementPart:
    """The part of an element that a path leads to; a FormatError where it leads nowhere."""
    offset, stored = 0, element
    for step in path:
        if isinstance(step, str):
            field = next((field for field in stored.fields if field.name == step), None)
            if stored.kind != "compound" or field is None:
                raise FormatError(f"elements of {stored} have no member {step!r}")
            offset, stored = offset + field.offset, field.type
            continue
        if stored.kind != "array" or not 0 <= step < stored.dims[0]:
            raise FormatError(f"elements of {stored} have no position {step}")
        inner = stored.item
        if len(stored.dims) > 1:
            dims = stored.dims[1:]
            inner = replace(stored, dims=dims, size=prod(dims) * stored.item.size)
        offset, stored = offset + step * inner.size, inner
    return ElementPart(offset, stored)


def row_type(info: DatasetInfo) -> StoredType:
    """The datatype of a row: of an element of rank 1, or of a row of a matrix, which is an array."""
    if info.shape is None or len(info.shape) == 1:
        return info.type
    return StoredType("array", info.type.size * prod(info.shape[1:]), base=info.type, dims=tuple(info.shape[1:]))


class ElementRows:
    """The rows of a dataset as they are stored, each as the bytes of one element. Of a matrix, a row is an array."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self.info = dataset.describe()
        self.type = row_type(self.info)
        self.is_matrix = self.info.shape is not None and len(self.info.shape) > 1
        stored = dataset.type_in_file()
        self.stored = None if stored is None else row_type(replace(self.info, type=stored))
        self.source: ChunkSource | None = None
        may_be_cut = self.stored is not None and self.info.storage in ("chunked", "contiguous")
        if may_be_cut and not self.is_matrix and self.stored is not None:
            self.source = dataset.chunk_source(np.dtype((np.void, self.stored.size)), self.info.filters)

    def read(self, start: int, count: int) -> Octets | None:
        """The rows from `start` on; None where the library must read them."""
        if self.is_matrix:
            return self._of_matrix(start, count)
        return None if self.source is None else self._octets(self.source.read(start, count))

    def take(self, rows: RowNumbers) -> Octets | None:
        """These rows, which increase; None where they must be read as ranges."""
        return None if self.source is None else self._octets(self.source.take(rows))

    def _octets(self, image: np.ndarray | None) -> Octets | None:
        return None if image is None else image.view(np.uint8).reshape(len(image), image.dtype.itemsize)

    def _of_matrix(self, start: int, count: int) -> Octets | None:
        if self.stored is None or self.stored.has_pointers or count * self.stored.size > MOST_AT_ONCE:
            return None
        block = self.dataset.read_array((slice(start, start + count),))
        if block.dtype.itemsize != self.stored.item.size or block.dtype.kind == "O":
            return None
        return np.ascontiguousarray(block).view(np.uint8).reshape(count, self.stored.size)


def _cut_out(elements: Octets, part: ElementPart) -> Octets:
    """The bytes of one part of each row. NumPy copies items of a few bytes ten times as fast as byte after byte."""
    columns = elements[:, part.offset : part.offset + part.type.size]
    return np.ascontiguousarray(columns.view(f"V{part.type.size}")).view(np.uint8).reshape(columns.shape)


class PartRows:
    """A part of the rows, as the source of strings of variable length wants them: references into the heap."""

    def __init__(self, rows: ElementRows, source: ChunkSource, part: ElementPart) -> None:
        self._rows = rows
        self._part = part
        self.path = source.path
        self.load = source.load

    def read(self, start: int, count: int) -> np.ndarray | None:
        return self.cut(self._rows.read(start, count))

    def take(self, rows: RowNumbers) -> np.ndarray | None:
        return self.cut(self._rows.take(rows))

    def cut(self, elements: Octets | None) -> np.ndarray | None:
        if elements is None:
            return None
        references = _cut_out(elements, self._part)
        return references.view(np.dtype((np.void, self._part.type.size))).reshape(len(references))


# -- parts that a layout sees as another datatype than the file has: times as numbers, bits as booleans --


def _is_seen_as_stored(stored: StoredType, seen: StoredType) -> bool:
    if stored.kind != seen.kind:
        return False
    if stored.base is not None and seen.base is not None and not _is_seen_as_stored(stored.base, seen.base):
        return False
    types = {field.name: field.type for field in stored.fields}
    return all(_is_seen_as_stored(types[field.name], field.type) for field in seen.fields)


def as_seen(image: Image, stored: StoredType, seen: StoredType) -> Image:
    """Elements of a datatype of the file, in memory form, as those of the datatype that a layout sees."""
    if _is_seen_as_stored(stored, seen):
        return image
    if seen in (SECONDS, MICROSECONDS):
        numbers = _time_numbers(image, stored)
        if seen == SECONDS:
            return numbers.astype(np.int64)
        return (numbers >> 32) * 1_000_000 + (numbers & 0xFFFF_FFFF).astype(np.uint32).view(np.int32)
    if stored.kind == "array":
        items = as_seen(image.reshape(-1, *image.shape[1 + len(stored.dims) :]), stored.item, seen.item)
        return items.reshape(len(image), *stored.dims, *items.shape[1:])
    if stored.kind == "compound":
        structs: Image = np.empty(len(image), dtype=memory_dtype(seen))
        types = {field.name: field.type for field in stored.fields}
        for field in seen.fields:
            structs[field.name] = as_seen(image[field.name], types[field.name], field.type)
        return structs
    return image.astype(memory_dtype(seen))


def _time_numbers(image: Image, stored: StoredType) -> np.ndarray:
    order = ">" if stored.order == "big" else "<"
    numbers = np.ascontiguousarray(image).reshape(-1).view(f"{order}i{stored.size}")
    return numbers.astype(f"i{stored.size}")


def as_stored(image: Image, seen: StoredType, stored: StoredType, name: str) -> Image:
    """The inverse of `as_seen`; a DataError for times that the file's datatype cannot hold."""
    if _is_seen_as_stored(stored, seen):
        return image
    if seen in (SECONDS, MICROSECONDS):
        seconds, rest = _whole_seconds(image) if seen == MICROSECONDS else (image, np.zeros_like(image))
        late = np.flatnonzero((seconds < -(1 << 31)) | (seconds >= 1 << 31))
        if len(late):
            why = "its times are stored as seconds of 32 bits, which end in 2038"
            raise DataError(f"cannot store this time in column {name!r}: {why}", column=name, row=int(late[0]))
        numbers = seconds if seen == SECONDS else (seconds << 32) | (rest & 0xFFFF_FFFF)
        order = ">" if stored.order == "big" else "<"
        return numbers.astype(f"{order}i{stored.size}").view(f"V{stored.size}")
    if stored.kind == "array":
        flat = image.reshape(-1, *image.shape[1 + len(stored.dims) :])
        items = as_stored(flat if len(flat.shape) > 1 else flat.reshape(-1), seen.item, stored.item, name)
        return items.reshape(len(image), *stored.dims, *items.shape[1:])
    if stored.kind == "compound":
        structs: Image = np.empty(len(image), dtype=memory_dtype(stored))
        types = {field.name: field.type for field in seen.fields}
        for field in stored.fields:
            structs[field.name] = as_stored(image[field.name], types[field.name], field.type, name)
        return structs
    return image.astype(memory_dtype(stored))


def _whole_seconds(image: Image) -> tuple[np.ndarray, np.ndarray]:
    """Microseconds as seconds and the rest of the same sign, as PyTables divides them."""
    seconds = np.abs(image) // 1_000_000 * np.sign(image)
    return seconds, image - seconds * 1_000_000


class _NoHeap:
    """Stands for the global heap where no part of an element leads there."""

    def read(self, reference: bytes, item_size: int) -> tuple[int, memoryview]:
        raise AssertionError("an element without pointers was followed")


class MemberFetcher:
    """A part of each row of a dataset."""

    source = None  # single parts cannot be read without their elements

    def __init__(self, column: ColumnInfo, form: Member, dataset: Dataset, n_threads: int = 1) -> None:
        self.column = column
        self._path = form.path
        self._dataset = dataset
        is_direct = column.problem is None and self.rows.source is not None
        self.n_threads = n_threads if is_direct else 1  # libhdf5 serves one thread at a time

    @cached_property
    def rows(self) -> ElementRows:
        """The rows of the dataset; described when the first is read."""
        refuse_unreadable(self.column)
        return ElementRows(self._dataset)

    @property
    def address(self) -> int | None:
        """The address of the dataset, which no other dataset has."""
        return self._dataset.address

    @cached_property
    def _stored_part(self) -> ElementPart | None:
        return None if self.rows.stored is None else part_of_element(self.rows.stored, self._path)

    @cached_property
    def _references(self) -> PartRows | None:
        """The part of the rows, if it leads to strings or bytes that can be read past the library."""
        part, source = self._stored_part, self.rows.source
        if part is None or source is None or kernels.FORM != "c" or part.type.kind not in ("text", "binary"):
            return None
        return PartRows(self.rows, source, part) if part.type.size == REFERENCE_DTYPE.itemsize else None

    @cached_property
    def _heap(self) -> HeapSource | None:
        file = self._dataset.file_bytes()
        if self._references is None or file is None:
            return None
        return HeapSource(self._references, self.column.type, file.size)

    def fetch(self, start: int, count: int) -> Raw | None:
        elements = self.elements(start, count)
        return None if elements is None else self.of_elements(elements)

    def elements(self, start: int, count: int) -> Octets | None:
        """Whole rows as they are stored, which `of_elements` of all columns of the dataset take their parts from."""
        return self.rows.read(start, count) if self.is_cut else None

    def taken_elements(self, rows: RowNumbers) -> Octets | None:
        """Scattered rows as they are stored; None if they must be read as ranges."""
        if not self.is_cut or (len(rows) and int(rows[-1]) - int(rows[0]) + 1 == len(rows)):
            return None
        return self.rows.take(rows)

    @cached_property
    def is_cut(self) -> bool:
        """Whether the part is decoded from rows as they are stored, and not by whoever reads the dataset."""
        part = self._stored_part
        return part is not None and (not part.type.has_pointers or self._heap is not None)

    def of_elements(self, elements: Octets) -> Raw | None:
        """The part of these rows."""
        part = self._stored_part
        if part is None:
            return None
        if self._heap is not None and self._references is not None:
            return self._heap.follow(self._references.cut(elements))
        data = _cut_out(elements, part)
        return as_seen(decode_elements(data.reshape(-1).data, part.type, _NoHeap()), part.type, self.column.type)

    @contextmanager
    def by_library(self, start: int, count: int, step: int = 1) -> Iterator[Raw]:
        info = self.rows.info
        stored = part_of_element(self.rows.type, self._path).type
        if self.rows.is_matrix:
            yield self._of_matrix(slice(start, start + count * step, step))
            return
        with self._dataset.reading(info, start, count, step) as image:
            part: Image = image
            for at in self._path:
                part = part[at] if isinstance(at, str) else part[:, at]
            yield as_seen(np.require(part, requirements=["C", "ALIGNED"]), stored, self.column.type)

    def _of_matrix(self, rows: slice) -> Image:
        positions = tuple(slice(at, at + 1) for at in self._path if isinstance(at, int))
        block = self._dataset.read_array((rows, *positions))
        return np.ascontiguousarray(block.reshape(len(block), *block.shape[1 + len(positions) :]))

    def take(self, rows: RowNumbers) -> Raw | None:
        elements = self.taken_elements(rows)
        return None if elements is None else self.of_elements(elements)

    def pieces(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        return cut(start, stop, self.column.grid.chunk_rows, self.rows.type)

    @property
    def stored_bytes(self) -> int:
        """The part's share of what the dataset takes in the file."""
        return self._dataset.stored_bytes() * self.column.type.size // max(self.rows.type.size, 1)

    def written_rows(self) -> int:
        return self._dataset.written_rows()
