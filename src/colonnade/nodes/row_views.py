"""Views: datasets whose rows are made of what other datasets store, for layouts that keep rows in another form.

A view has the type and the length of the rows that it shows. What it does not show in another form (attributes, the
address, the bytes in the file) is that of the dataset that it was made of. Rows are made a piece at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import numpy as np

from colonnade import limits
from colonnade.arrays import Image, Int64s, Octets
from colonnade.errors import CorruptError, UnsupportedError
from colonnade.filters.codecs import new_array
from colonnade.model import ColumnInfo, DatasetInfo, FilterInfo, StoredType
from colonnade.nodes.chunk_source import ChunkSource
from colonnade.nodes.heap_source import HeapSource, Strings
from colonnade.nodes.protocols import Attribute, Dataset, FileContext, Node, ReferenceKind, ReferenceTarget
from colonnade.pager.sources import ByteSource
from colonnade.selection import RowNumbers
from colonnade.stored_dtypes import SEQUENCE_DTYPE, memory_dtype

D = TypeVar("D")
MOST_STEP = 16  # rows apart that are read with those between them
_BYTES = StoredType("binary", 16, "none", base=StoredType("opaque", 1, "none"))
_MOST_OFFSET = 2**31 - 1  # in an Arrow string array


def stored_parts(dataset: D) -> tuple[D | Dataset, ...]:
    """The datasets of a file that hold what a dataset shows: those of a view, or itself."""
    return dataset.sources if isinstance(dataset, RowView) else (dataset,)


class RowView(ABC):
    """Rows made of those of `sources`, the first of which has their attributes."""

    is_dataset = True
    is_null = False
    chunk_shape: tuple[int, ...] | None = None

    def __init__(self, stored: StoredType, n_rows: int, sources: Sequence[Dataset], chunk_rows: int | None) -> None:
        self.sources = tuple(sources)
        self._base = sources[0]
        infos = [source.describe() for source in sources]
        elsewhere = (info.storage for info in infos if info.storage in ("external", "virtual"))
        storage = next(elsewhere, infos[0].storage)
        self._info = DatasetInfo(stored, (n_rows,), storage, chunk_rows, infos[0].filters, None)
        self._vetted = -1  # the most elements that may be read

    @abstractmethod
    def image(self, start: int, count: int, owned: list[object]) -> Image:
        """These rows, in memory form; `owned` is what pointers in them lead to."""

    # -- as a dataset --

    @property
    def shape(self) -> tuple[int, ...]:
        return self._info.shape or ()

    def describe(self) -> DatasetInfo:
        return self._info

    def type_in_file(self) -> StoredType | None:
        """None: rows are made, and no part of one can be cut out of the bytes of the file."""
        return None

    def stored_bytes(self) -> int:
        return sum(source.stored_bytes() for source in self.sources)

    def written_rows(self) -> int:
        return self.shape[0]

    @contextmanager
    def reading(self, _info: DatasetInfo | ColumnInfo, start: int, count: int, step: int = 1) -> Iterator[Image]:
        owned: list[object] = []
        if step == 1 or count <= 1:
            yield self.image(start, count, owned)
        elif step <= MOST_STEP:
            yield np.ascontiguousarray(self.image(start, (count - 1) * step + 1, owned)[::step])
        else:
            images = [self.image(row, 1, owned) for row in range(start, start + count * step, step)]
            yield np.concatenate(images)
        owned.clear()

    def chunk_source(
        self, _dtype: np.dtype | None, _filters: Sequence[FilterInfo], _look: bytes | None = None
    ) -> ChunkSource | None:
        return None

    def heap_source(self, _stored: StoredType, _filters: Sequence[FilterInfo]) -> HeapSource | None:
        return None

    def matrix_shape(self) -> tuple[int, int] | None:
        return None

    def read_matrix(self, _rows: tuple[int, int], _columns: tuple[int, int]) -> Octets:
        raise UnsupportedError(f"{self.path} is not a matrix of bytes", feature="matrices of views", path=self.path)

    def array_dtype(self) -> np.dtype:
        return memory_dtype(self._info.type)

    def check_readable(self, count: int) -> None:
        self._base.check_readable(count)

    def read_array(self, part: tuple[slice, ...] = ()) -> np.ndarray:
        rows = range(self.shape[0])[part[0] if part else slice(None)]
        if self._info.type.has_pointers:
            raise UnsupportedError(f"{self.path} is read by rows", feature="arrays of strings", path=self.path)
        with self.reading(self._info, rows.start, len(rows), rows.step) as image:
            return image

    def _read(self, *part: slice) -> np.ndarray:
        """A box of the first dataset, unless it claims what was never written."""
        return self._read_of(self._base, *part)

    def _read_of(self, dataset: Dataset, *part: slice) -> np.ndarray:
        count = int(np.prod([slice_.stop - slice_.start for slice_ in part], dtype=object))
        if count > self._vetted:
            dataset.check_readable(count)
            self._vetted = count
        return dataset.read_array(part)

    # -- as the object that the first dataset is --

    @property
    def path(self) -> str:
        return self._base.path

    @property
    def address(self) -> int | None:
        return self._base.address

    @property
    def is_shared(self) -> bool:
        return self._base.is_shared

    @property
    def file(self) -> FileContext:
        return self._base.file

    def file_bytes(self) -> ByteSource | None:
        return self._base.file_bytes()

    def attribute_names(self) -> list[str]:
        return self._base.attribute_names()

    def read_attribute(self, name: str) -> object:
        return self._base.read_attribute(name)

    def attribute_storage(self, name: str) -> tuple[StoredType, tuple[int, ...]] | None:
        return self._base.attribute_storage(name)

    def inspect_attribute(self, name: str) -> Attribute | None:
        return self._base.inspect_attribute(name)

    def attribute_element(self, name: str) -> bytes | None:
        return self._base.attribute_element(name)

    def reference_addresses(self, name: str) -> list[int]:
        return self._base.reference_addresses(name)

    def in_library(self) -> Node:
        return self._base.in_library()

    def dereference(self, reference: object) -> Node | None:
        return self._base.dereference(reference)

    def find_target(self, kind: ReferenceKind, data: bytes) -> ReferenceTarget | None:
        return self._base.find_target(kind, data)

    def full_path(self) -> str | None:
        return self._base.full_path()


class OffsetStrings(RowView):
    """Strings in an array of bytes: row i is bytes[offsets[i]:offsets[i + 1]], as in Arrow."""

    def __init__(self, offsets: Dataset, content: Dataset) -> None:
        info, n_bytes = offsets.describe(), content.shape[0]
        self._n_bytes, self._content = n_bytes, content
        super().__init__(_BYTES, max(offsets.shape[0] - 1, 0), (offsets, content), info.chunk_rows)

    def image(self, start: int, count: int, owned: list[object]) -> Image:
        strings = self.strings(start, count)
        image = np.zeros(count, dtype=SEQUENCE_DTYPE)
        image["length"] = np.diff(strings.offsets)
        if len(strings.data):
            owned.append(strings.data)
            image["pointer"] = strings.data.ctypes.data + strings.offsets[:-1].astype(np.int64)
        return image

    def strings(self, start: int, count: int) -> Strings:
        """These rows, in Arrow's form; the offsets are checked before any byte is read."""
        if not count:
            return Strings(np.zeros(1, np.int32), new_array(0, np.dtype("u1")))
        offsets: Int64s = self._read(slice(start, start + count + 1)).astype(np.int64)
        wrong = (offsets[:-1] < 0) | (offsets[1:] < offsets[:-1]) | (offsets[1:] > self._n_bytes)
        if wrong.any():
            at = int(np.argmax(wrong))
            span = f"bytes {offsets[at]} to {offsets[at + 1]}"
            expected = f"increasing offsets of at most {self._n_bytes}"
            raise CorruptError(
                f"found {span!r}, expected {expected}", path=self.path, row=start + at, expected=expected, found=span
            )
        first, total = int(offsets[0]), int(offsets[-1] - offsets[0])
        if total > min(limits.now.heap_row_bytes, _MOST_OFFSET):
            raise UnsupportedError(
                f"{self.path}: {count} rows of {total:,} bytes are more than can be read at once: take fewer",
                feature="more bytes than are read at once",
                path=self.path,
            )
        data = new_array(total, np.dtype("u1"))
        if total:
            data[:] = np.ascontiguousarray(self._read_of(self._content, slice(first, first + total))).view("u1")
        return Strings((offsets - first).astype(np.int32), data)

    def heap_source(self, _stored: StoredType, _filters: Sequence[FilterInfo]) -> HeapSource | None:
        return _OffsetSource(self)


class _OffsetSource(HeapSource):
    """Rows of offset strings, in Arrow's form."""

    def __init__(self, view: OffsetStrings) -> None:
        self._view = view

    def read(self, start: int, count: int) -> Strings | None:
        return self._view.strings(start, count)

    def take(self, _rows: RowNumbers) -> Strings | None:
        return None  # they are read as ranges


class ValidityMask(RowView):
    """A bit per row, from the lowest of each byte, that is 0 for a missing row, as a mask that is TRUE for it."""

    def __init__(self, bits: Dataset, n_rows: int, boolean: StoredType) -> None:
        super().__init__(boolean, n_rows, (bits,), None)

    def image(self, start: int, count: int, _owned: list[object]) -> Image:
        first, last = start // 8, -(-(start + count) // 8)
        packed = self._read(slice(first, max(first, last))).view("u1")
        bits = np.unpackbits(packed, bitorder="little")[start - 8 * first :][:count]
        missing: Image = (bits == 0).astype(memory_dtype(self._info.type))
        return missing


class MatrixRows(RowView):
    """The rows of a matrix, each as one element: a number if they have one item, otherwise a list of one length.

    axis: 0 if the first index counts the rows, 1 if the second does.
    """

    def __init__(self, matrix: Dataset, axis: int, is_list: bool) -> None:
        info = matrix.describe()
        n_rows, self._width = matrix.shape[axis], matrix.shape[1 - axis]
        self._axis, self._is_list = axis, is_list
        stored = info.type
        if is_list:
            stored = StoredType("array", max(1, stored.size * self._width), base=stored, dims=(self._width,))
        chunk = matrix.chunk_shape
        super().__init__(stored, n_rows, (matrix,), None if chunk is None else chunk[axis])

    def image(self, start: int, count: int, _owned: list[object]) -> Image:
        rows, width = slice(start, start + count), slice(0, self._width)
        matrix = self._read(rows, width) if self._axis == 0 else self._read(width, rows).T
        image = np.empty(count, dtype=memory_dtype(self._info.type))
        image[...] = matrix if self._is_list else matrix[:, 0]
        return image


class CharacterRows(RowView):
    """The rows of a matrix of characters of one byte, each as a string."""

    def __init__(self, matrix: Dataset) -> None:
        self._width, chunk = matrix.shape[1], matrix.chunk_shape
        stored = StoredType("string", max(1, self._width), charset="utf-8", padding="null")
        super().__init__(stored, matrix.shape[0], (matrix,), None if chunk is None else chunk[0])

    def image(self, start: int, count: int, _owned: list[object]) -> Image:
        if not self._width or not count:
            return np.zeros(count, dtype=memory_dtype(self._info.type))
        block = self._read(slice(start, start + count), slice(0, self._width))
        return np.ascontiguousarray(block).view(f"S{self._width}").reshape(count)


class Utf16Columns(RowView):
    """The columns of a matrix of UTF-16 code units, each as a string without the blanks at its end."""

    def __init__(self, matrix: Dataset) -> None:
        self._width, chunk = matrix.shape[0], matrix.chunk_shape
        stored = StoredType("string", max(1, 3 * self._width), charset="utf-8", padding="null")
        super().__init__(stored, matrix.shape[1], (matrix,), None if chunk is None else chunk[1])

    def image(self, start: int, count: int, _owned: list[object]) -> Image:
        block = self._read(slice(0, self._width), slice(start, start + count)).astype("<u2").T
        image = np.zeros(count, dtype=memory_dtype(self._info.type))
        for at, units in enumerate(np.ascontiguousarray(block)):
            try:
                image[at] = units.tobytes().decode("utf-16-le").rstrip(" \0").encode()
            except UnicodeDecodeError as error:
                raise CorruptError(
                    f"found units that are not UTF-16: {error}", path=self.path, row=start + at
                ) from None
        return image
