"""A dataset of a file that is read from its bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, cast

import numpy as np

from colonnade import kernels
from colonnade.arrays import Image, Octets
from colonnade.errors import CorruptError, UnsupportedError
from colonnade.filters.chunk_reader import ChunkReader
from colonnade.filters.read_plan import MOST_AT_ONCE, ChunkForm
from colonnade.filters.undo import Pipeline
from colonnade.format.chunk_maps import RunMap, ShiftedBytes, StoredChunkMap
from colonnade.format.datatype import in_memory
from colonnade.format.elements import as_stored, decode_elements, to_memory
from colonnade.format.global_heap import GlobalHeap, reference_dtype
from colonnade.format.nodes import ByteDataset
from colonnade.format.source import UnknownToReader
from colonnade.model import DEFAULT_CHUNK_ROWS, ColumnInfo, DatasetInfo, FilterInfo, StoredType
from colonnade.nodes.chunk_source import ChunkLocator, ChunkSource
from colonnade.nodes.elements import claims_too_much, is_shown_as_stored
from colonnade.nodes.heap_source import AS_BYTES, HeapSource, check_lengths
from colonnade.stored_dtypes import LARGEST_ELEMENT

if TYPE_CHECKING:
    from colonnade.nodes import Dataset
from colonnade.reader.nodes import ReadNode, refusal

_MOST_COMPACT = 1 << 16  # bytes that a header has room for, whatever it claims
_PIECE_BYTES = 32 << 20  # of rows between those that are wanted, read at a time
_FAR_APART = 1 << 16  # bytes between rows that are not read with those between them


def _with_strings(values: np.ndarray, stored: StoredType) -> np.ndarray:
    """Values with the strings of variable length decoded: elements, or fields of them."""
    if stored.kind == "text":
        strings = np.empty(values.shape, dtype=object)
        strings.reshape(-1)[:] = [value.decode() for value in values.reshape(-1).tolist()]
        return strings
    for field in stored.fields if stored.kind == "compound" and stored.has_pointers else ():
        if field.type.kind == "text":
            values[field.name] = _with_strings(values[field.name], field.type)
    return values


def _has_unknown(stored: StoredType) -> bool:
    """Whether a part of the elements is of a datatype that is shown as raw bytes."""
    parts = [field.type for field in stored.fields] if stored.base is None else [stored.item]
    return stored.kind == "unknown" or any(_has_unknown(part) for part in parts)


class ReadDataset(ReadNode):
    """A dataset of a file."""

    node: ByteDataset
    is_dataset = True

    @property
    def shape(self) -> tuple[int, ...]:
        return self.node.shape or ()

    @property
    def is_null(self) -> bool:
        return self.node.shape is None

    @property
    def chunk_shape(self) -> tuple[int, ...] | None:
        return self.node.header.storage.chunk or None

    def describe(self) -> DatasetInfo:
        return self._info

    def _check_known(self) -> None:
        """Refuse a dataset that only libhdf5 could read; it is left to that elsewhere, if it is to be used."""
        try:
            self.node.check_known()
        except UnknownToReader as error:
            raise refusal(self.path, error) from error

    @cached_property
    def _info(self) -> DatasetInfo:
        try:
            info = self.node.info
        except CorruptError:
            if not self.node.header.type.has_pointers:
                raise
            info = replace(self.node.info_without_fill, has_lost_fill=True)
        if is_shown_as_stored(info.type):
            info = replace(info, type=replace(info.type, size=self.node.header.type.size), fill=None)
        return info

    def stored_bytes(self) -> int:
        storage = self.node.header.storage
        if storage.storage not in ("compact", "contiguous", "chunked"):
            return 0
        if storage.storage == "compact":
            return len(storage.elements)
        if storage.storage == "contiguous":
            is_stored = storage.address is not None or self.node.is_external
            return prod(self.shape) * self.node.header.type.size if is_stored else 0
        return sum(int(batch.size.sum(dtype=np.uint64)) for batch in self.node.chunk_map.read())

    def written_rows(self) -> int:
        storage, n_rows = self.node.header.storage, self.shape[0]
        if storage.storage == "chunked":
            n_chunks = sum(len(batch.size) for batch in self.node.chunk_map.read())
            return min(n_rows, n_chunks * storage.chunk[0])
        most = (
            _MOST_COMPACT if storage.storage == "compact" else 0 if storage.address is None else self.opened.bytes.size
        )
        return min(n_rows, most // max(self.node.header.type.size, 1))

    def reading(
        self, info: DatasetInfo | ColumnInfo, start: int, count: int, step: int = 1
    ) -> AbstractContextManager[Image]:
        return self._reading(info, range(start, start + count * step, step))

    @contextmanager
    def _reading(self, info: DatasetInfo | ColumnInfo, rows: range) -> Iterator[Image]:
        stored = info.type
        if len(rows) * stored.size > MOST_AT_ONCE or stored.size > LARGEST_ELEMENT:
            raise UnsupportedError(
                f"{self.path}: {len(rows)} elements of {stored.size} bytes are more than can be read at once: take "
                "fewer rows",
                feature="elements that exceed what is read at once",
                path=self.path,
            )
        owned: list[object] = []
        try:
            image = self._in_memory(self.stored_rows(rows), owned)
        except UnknownToReader as error:  # a filter that cannot be undone here after another
            with self._in_library(error).reading(info, rows.start, len(rows), rows.step) as image:
                yield image
            return
        yield image
        owned.clear()

    def _in_library(self, error: UnknownToReader) -> Dataset:
        """This dataset as libhdf5 has it; the error if libhdf5 is not to be used."""
        node = self.opened.leave(self.path, error, self.address)
        if node is None:
            raise error
        return cast("Dataset", node)

    def stored_rows(self, rows: range) -> Octets:
        """Rows as they are stored, without filters."""
        parts, n_rows = [], self._rows_of_piece(rows)
        try:
            for first in range(0, len(rows), n_rows):
                piece = rows[first : first + n_rows]
                piece_rows = self.node.read_stored([range(piece[0], piece[-1] + 1)])
                parts.append(np.ascontiguousarray(piece_rows[:: rows.step]))
        except CorruptError as error:
            text = f"the rows cannot be read: {error}"
            raise CorruptError(text, path=self.path, row=rows[0], last_row=rows[-1]) from error
        if not parts:
            return np.zeros((0, self.node.header.type.size), np.uint8)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _rows_of_piece(self, rows: range) -> int:
        """How many of these rows are read together, with the rows between them: one if they are in different chunks."""
        storage, between = self.node.header.storage, self.node.header.type.size * rows.step
        if rows.step == 1:
            return max(1, len(rows))
        apart = rows.step >= storage.chunk[0] if storage.chunk else between > _FAR_APART
        return 1 if apart else max(1, _PIECE_BYTES // between)

    def _in_memory(self, rows: Octets, owned: list[object]) -> Image:
        stored = self.node.header.type
        if is_shown_as_stored(in_memory(stored)):
            return np.ascontiguousarray(rows).view(f"V{stored.size}").reshape(len(rows))
        if stored.kind in ("text", "binary", "sequence"):
            references = rows.reshape(-1).view(reference_dtype(self.node.source.offset_size))
            check_lengths(references, stored, self.opened.bytes.size, self.path)
        values = decode_elements(rows, stored, GlobalHeap(self.node.source))
        return to_memory(values, in_memory(stored), owned)

    def chunk_source(
        self, dtype: np.dtype | None, filters: Sequence[FilterInfo], look: bytes | None = None
    ) -> ChunkSource | None:
        storage = self.node.header.storage
        if (
            self.node.is_external
            or dtype is None
            or len(self.shape) != 1
            or dtype.itemsize != self.node.header.type.size
        ):
            return None
        if storage.storage == "contiguous":
            form = ChunkForm(dtype, DEFAULT_CHUNK_ROWS, Pipeline((), 0))
            if storage.address is None or (storage.size is not None and storage.size < self.shape[0] * dtype.itemsize):
                return None
            return self._source(form, RunMap(storage.address, form), look)
        if storage.storage != "chunked" or storage.has_options:
            return None
        form = ChunkForm(dtype, storage.chunk[0], Pipeline(filters, storage.chunk[0] * dtype.itemsize))
        return self._source(form, StoredChunkMap(self.node, form), look) if form.pipeline.is_known else None

    def _source(self, form: ChunkForm, chunk_map: ChunkLocator, look: bytes | None) -> ChunkSource:
        base = self.node.source.base
        file = self.opened.bytes if not base else ShiftedBytes(self.opened.bytes, base)
        return ChunkSource(lambda: self.path, form, chunk_map, ChunkReader(form, file), look)

    def heap_source(self, stored: StoredType, filters: Sequence[FilterInfo]) -> HeapSource | None:
        source = self.node.source
        is_usual = (source.offset_size, source.length_size) == (8, 8)
        if stored.kind not in ("text", "binary") or kernels.FORM != "c" or not is_usual:
            return None
        rows = self.chunk_source(AS_BYTES, filters)
        return None if rows is None else HeapSource(rows, stored, self.opened.bytes.size)

    def matrix_shape(self) -> tuple[int, int] | None:
        stored = self.node.header.type
        if len(self.shape) != 2 or stored.kind != "integer" or stored.size != 1 or stored.signed:
            return None
        return self.shape[0], self.shape[1]

    def read_matrix(self, rows: tuple[int, int], columns: tuple[int, int]) -> Octets:
        block = self.node.read([range(*rows), range(*columns)])
        return np.ascontiguousarray(block, dtype=np.uint8)

    def follow_reference(self, row: int, column: str) -> object:
        from colonnade.reader.references import follow_reference

        try:
            return follow_reference(self, row, column)
        except UnknownToReader as error:
            return self._in_library(error).follow_reference(row, column)

    def array_dtype(self) -> np.dtype:
        if _has_unknown(self.node.header.type):
            text = f"{self.path} has a datatype that NumPy does not know: {self.node.header.type}"
            raise UnsupportedError(text, feature="datatype", path=self.path)
        is_reference = self.node.header.type.kind in ("object_reference", "region_reference")
        return np.dtype(object) if is_reference else self.node.array_dtype

    def check_readable(self, count: int) -> None:
        self._check_known()
        claimed, stored = count * self.array_dtype().itemsize, self.stored_bytes()
        if claims_too_much(claimed, stored, bool(self.node.header.filters)):
            raise UnsupportedError(
                f"{self.path} claims {claimed:,} bytes, {stored:,} are stored: it is not read",
                feature="arrays of which most was never written",
                path=self.path,
            )

    def read_array(self, part: tuple[slice, ...] = ()) -> np.ndarray:
        try:
            values = self.read_as_stored(part)
        except UnknownToReader as error:
            return self._in_library(error).read_array(part)
        try:
            return _with_strings(values, self.node.header.type)
        except UnicodeDecodeError as error:
            raise CorruptError(f"the strings cannot be read: {error}", path=self.path) from error

    def read_as_stored(self, part: tuple[slice, ...] = ()) -> np.ndarray:
        """The elements, or a box of them; strings of variable length as bytes."""
        shape = self.shape
        box = [range(*axis.indices(length)) for axis, length in zip(part, shape, strict=False)]
        box += [range(length) for length in shape[len(box) :]]
        whole = [range(axis.start, axis[-1] + 1) if axis else range(0) for axis in box]
        values = self.node.read(whole)
        if box:
            values = values[tuple(slice(None, None, axis.step) for axis in box)]
        return as_stored(values, self.array_dtype().base)
