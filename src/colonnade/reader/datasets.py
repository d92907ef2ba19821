"""A dataset of a file that is read from its bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, cast

import numpy as np

from colonnade import kernels
from colonnade.arrays import Image, Octets
from colonnade.dataclass import replace
from colonnade.errors import CorruptError, FormatError, UnsupportedError
from colonnade.filters.chunk_reader import ChunkReader
from colonnade.filters.read_plan import MOST_AT_ONCE, ChunkForm
from colonnade.filters.undo import Pipeline
from colonnade.format.chunk_maps import RunMap, ShiftedBytes, StoredChunkMap
from colonnade.format.datatype import in_memory
from colonnade.format.elements import array_dtype, as_stored, check_shape, decode_array, decode_elements, to_memory
from colonnade.format.global_heap import GlobalHeap, reference_dtype
from colonnade.format.nodes import ByteDataset
from colonnade.format.source import UnknownToReader
from colonnade.model import DEFAULT_CHUNK_ROWS, ColumnInfo, DatasetInfo, FilterInfo, StoredType
from colonnade.nodes.chunk_source import FARTHEST, ChunkLocator, ChunkSource
from colonnade.nodes.elements import (
    TEXT_BYTES,
    box_of,
    check_n_rows,
    claims_too_much,
    count_of,
    cut_box,
    is_shown_as_stored,
)
from colonnade.nodes.heap_source import AS_BYTES, HeapSource, Strings, as_objects, check_lengths
from colonnade.reader.nodes import ReadNode
from colonnade.stored_dtypes import LARGEST_ELEMENT

if TYPE_CHECKING:
    from colonnade.nodes import Dataset

_MOST_COMPACT = 1 << 16  # bytes that a header has room for, whatever it claims
_PIECE_BYTES = 32 << 20  # of rows between those that are wanted, read at a time
_ARRAY_PIECE_BYTES = 4 << 20  # of an array, read at a time: what was read before is still in the processor's cache
_FAR_APART = 1 << 16  # bytes between rows that are not read with those between them


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

    @cached_property
    def _info(self) -> DatasetInfo:
        check_n_rows(self.node.shape, self.path)
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
        return self._all_stored_bytes

    @cached_property
    def _all_stored_bytes(self) -> int:
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
        self.node.info_storage()  # that it is known: a virtual dataset has no chunks
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
        is_null = None
        if stored.kind in ("text", "binary", "sequence"):
            references = rows.reshape(-1).view(reference_dtype(self.node.source.offset_size))
            check_lengths(references, stored, self.opened.bytes.size, self.path)
            is_null = references["address"] == 0
        values = decode_elements(rows, stored, GlobalHeap(self.node.source))
        return to_memory(values, in_memory(stored), owned, is_null)

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
            if (
                storage.address is None
                or storage.address > FARTHEST
                or (storage.size is not None and storage.size < self.shape[0] * dtype.itemsize)
            ):
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

    def type_in_file(self) -> StoredType:
        return self.node.header.type

    def matrix_shape(self) -> tuple[int, int] | None:
        stored = self.node.header.type
        if len(self.shape) != 2 or stored.kind != "integer" or stored.size != 1 or stored.signed:
            return None
        return self.shape[0], self.shape[1]

    def read_matrix(self, rows: tuple[int, int], columns: tuple[int, int]) -> Octets:
        block = self.node.read([range(*rows), range(*columns)])
        return np.ascontiguousarray(block, dtype=np.uint8)

    def array_dtype(self) -> np.dtype:
        try:
            return array_dtype(self.node.header.type)
        except UnknownToReader as error:
            return self._in_library(error).array_dtype()

    def check_readable(self, count: int) -> None:
        if self.is_null:
            raise FormatError(f"{self.path} holds nothing, not even an element", path=self.path)
        try:
            dtype = array_dtype(self.node.header.type)
            self.node.check_known()
        except UnknownToReader as error:
            self._in_library(error).check_readable(count)
        else:
            self._check_claims(count, dtype)

    def _check_claims(self, count: int, dtype: np.dtype) -> None:
        """Refuse to allocate memory for elements that are not in the file."""
        claimed = count * max(dtype.itemsize, TEXT_BYTES if dtype.kind in "SO" else 1)
        stored = min(self._all_stored_bytes, self.opened.bytes.size)
        if self.chunk_shape is not None and stored:  # a chunk is unpacked whole
            claimed = max(claimed, prod(self.chunk_shape) * dtype.itemsize)
        if claims_too_much(claimed, stored, bool(self.node.header.filters)):
            raise UnsupportedError(
                f"{self.path} claims {claimed:,} bytes, {stored:,} are stored: it is not read",
                feature="arrays of which most was never written",
                path=self.path,
            )

    def read_array(self, part: tuple[slice, ...] = ()) -> np.ndarray:
        box = box_of(self.shape, part)
        try:
            check_shape(tuple(map(count_of, box)), self.node.header.type, self.path)
            whole = [range(min(axis[0], axis[-1]), max(axis[0], axis[-1]) + 1) if axis else range(0) for axis in box]
            values = self._read_box(whole)
        except UnknownToReader as error:
            return self._in_library(error).read_array(part)
        return values if whole == box else values[tuple(slice(None, None, axis.step) for axis in box)]

    def _read_box(self, box: list[range]) -> np.ndarray:
        """The elements of a box, piece by piece: what they take as they are stored is not in memory at once."""
        stored = self.node.header.type
        pieces = list(cut_box(box, self.chunk_shape, stored.size, _ARRAY_PIECE_BYTES))
        if len(pieces) == 1:
            return self._read_piece(box)
        sample = decode_array(np.zeros((0, stored.size), np.uint8), stored, GlobalHeap(self.node.source), self.path)
        values = np.empty((*(len(axis) for axis in box), *sample.shape[1:]), dtype=sample.dtype)
        for piece in pieces:
            target = (slice(at.start - axis.start, at.stop - axis.start) for at, axis in zip(piece, box, strict=True))
            values[tuple(target)] = self._read_piece(piece)
        return values

    def _read_strings(self, box: list[range]) -> Strings | None:
        """Strings of variable length, read by kernels; None where they must be followed one by one."""
        source = self.heap_source(self.node.header.type, self.node.header.filters)
        try:
            return None if source is None else source.read(box[0].start, len(box[0]))
        except UnsupportedError:
            return None

    def _read_piece(self, box: list[range]) -> np.ndarray:
        stored = self.node.header.type
        strings = self._read_strings(box) if stored.kind == "text" and len(box) == 1 else None
        if strings is not None:
            return as_objects(strings, self.path)
        rows = self.node.read_stored(box).reshape(-1, stored.size)
        values = decode_array(rows, stored, GlobalHeap(self.node.source), self.path)
        shaped = values.reshape((*(len(axis) for axis in box), *values.shape[1:]))
        return shaped if shaped.flags.writeable else shaped.copy()

    def read_as_stored(self, part: tuple[slice, ...] = ()) -> np.ndarray:
        """The elements, or a box of them; strings of variable length as bytes."""
        box = box_of(self.shape, part)
        whole = [range(axis.start, axis[-1] + 1) if axis else range(0) for axis in box]
        values = self.node.read(whole)
        if box:
            values = values[tuple(slice(None, None, axis.step) for axis in box)]
        return as_stored(values, array_dtype(self.node.header.type).base)
