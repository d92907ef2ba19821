"""Columns that are arrays of rank 2 or more, read: a row is all that the array has at one index of its first dimension.

Rows are fixed-size lists, one inside the other for each further dimension. Only the chunks that hold the rows are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from colonnade.columns.decode import decode
from colonnade.columns.keys import Keys, Numbers
from colonnade.columns.missing import Mask
from colonnade.columns.raw import cut, refuse_unreadable
from colonnade.errors import CorruptError
from colonnade.model import ColumnInfo, DatasetInfo, StoredType
from colonnade.nodes import Dataset
from colonnade.nodes.arrays import read_part
from colonnade.selection import RowNumbers
from colonnade.stored_dtypes import memory_dtype

_ELEMENTS = ("integer", "float", "boolean", "complex", "string", "text")
Slab = np.ndarray
"""Some rows of an array, as the array has them."""


def slab_type(info: DatasetInfo) -> StoredType | str:
    """The datatype of the rows of an array of rank 2 or more; a string that explains why it has none."""
    dims = (info.shape or ())[1:]
    if info.type.kind not in _ELEMENTS:
        return f"rows of {len(dims) + 1} dimensions of type {info.type} are not supported"
    if 0 in dims:
        return f"its rows have no elements (its shape is {info.shape})"
    n_bytes = info.type.size
    for length in dims:
        n_bytes *= length
    if n_bytes >= 1 << 31:
        return f"each of its rows has {n_bytes:,} bytes"
    return StoredType("array", n_bytes, "none", base=info.type, dims=dims)


class SlabFetcher:
    """Rows of an array of rank 2 or more."""

    source = None
    n_threads = 1

    def __init__(self, column: ColumnInfo, dataset: Dataset) -> None:
        self._column, self._dataset = column, dataset

    def fetch(self, start: int, count: int) -> Slab:
        return self._read(slice(start, start + count))

    @contextmanager
    def by_library(self, start: int, count: int, step: int = 1) -> Iterator[Slab]:
        yield self._read(slice(start, start + count * step, step))

    def take(self, _rows: RowNumbers) -> None:
        """None: scattered rows are read as ranges."""

    def pieces(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        return cut(start, stop, self._column.grid.chunk_rows, self._column.type)

    @property
    def stored_bytes(self) -> int:
        return self._dataset.stored_bytes()

    def written_rows(self) -> int:
        return self._dataset.written_rows()

    def _read(self, rows: slice) -> Slab:
        refuse_unreadable(self._column)
        return read_part(self._dataset, (rows,))


class SlabDecoder:
    """Decodes rows of an array to fixed-size lists of its elements."""

    def __init__(self, column: ColumnInfo, kind: pa.DataType) -> None:
        self._stored, self._kind = column.type.item, kind
        self._dims = column.type.dims

    def array(self, raw: Slab) -> pa.Array:
        values, n_elements = raw.reshape(-1), int(np.prod(self._dims))
        try:
            items = self._items(values)
        except CorruptError as error:
            if error.row is not None:  # of an element
                error.row //= n_elements
            raise
        for length in reversed(self._dims):
            items = pa.FixedSizeListArray.from_arrays(items, length)
        return items.cast(self._kind) if items.type != self._kind else items

    def _items(self, values: np.ndarray) -> pa.Array:
        """The elements one after the other."""
        stored = self._stored
        if stored.kind == "text":
            try:
                return pa.array(values.tolist(), pa.string())
            except (UnicodeEncodeError, pa.ArrowException) as error:
                raise CorruptError(f"strings are not UTF-8: {error}") from error
        dtype = memory_dtype(stored)
        if stored.kind == "string" and stored.padding == "space":
            values = np.char.rstrip(values, b" ")
        kind = self._kind
        for _ in self._dims:
            kind = kind.value_type
        return decode(np.ascontiguousarray(values, dtype=dtype), stored, kind)

    def part(self, raw: Slab, begin: int, end: int) -> Slab:
        return raw[begin:end]

    def numbers(self, raw: Slab) -> tuple[Numbers, Mask | None]:
        raise TypeError("lists have no numbers")

    def keys(self, raw: Slab) -> Keys:
        raise TypeError("lists have no keys")

    def key_array(self, raw: Slab) -> pa.Array:
        raise TypeError("lists have no keys")

    def values(self, keys: Keys) -> pa.Array:
        raise TypeError("lists have no keys")
