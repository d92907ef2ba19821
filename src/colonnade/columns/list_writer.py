"""Columns of lists, written: their ends, and their elements in a column of their own. See `columns.lists`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from colonnade.columns.arrow_types import plain_array
from colonnade.columns.lists import ListOffsets
from colonnade.columns.mapping import plain_type
from colonnade.columns.missing import Mask
from colonnade.columns.writer import ColumnWriter, WrittenColumn
from colonnade.model import DEFAULT_CHUNK_ROWS, ColumnOptions
from colonnade.nodes import EditableGroup


class EncodedLists(NamedTuple):
    """Lists as they are stored: the end of each, their elements, and which lists are missing (these are empty)."""

    ends: ListOffsets
    values: pa.Array
    missing: Mask | None


def encode_lists(array: pa.Array, n_before: int) -> EncodedLists:
    """Lists as stored after `n_before` elements."""
    missing: Mask = array.is_null().to_numpy(zero_copy_only=False)
    lengths = np.diff(np.asarray(array.offsets)).astype(np.int64)
    lengths[missing] = 0
    return EncodedLists(n_before + np.cumsum(lengths), array.flatten(), missing if missing.any() else None)


class WrittenLists(NamedTuple):
    """The parts of a column of lists that was written."""

    offsets: WrittenColumn
    values: WrittenColumn | WrittenLists
    mask: WrittenColumn | None


class ListsWriter:
    """Writes one column of lists into a group: `<name>` for the offsets, `<name>_values`, and perhaps `<name>_mask`."""

    def __init__(self, name: str, kind: pa.DataType, options: ColumnOptions) -> None:
        self.name, self._kind = name, plain_type(kind)
        self._options = ColumnOptions(fill=None, chunk_rows=options.chunk_rows, filters=options.filters)
        self._offsets = ColumnWriter(name, pa.int64(), self._options, is_companion=True)
        item = self._kind.value_type
        writer = ListsWriter if pa.types.is_list(item) else ColumnWriter
        self._values: ListsWriter | ColumnWriter = writer(f"{name}_values", item, options)
        self._mask: ColumnWriter | None = None
        self._n_rows = self._n_values = 0

    def start(self, group: EditableGroup, sample: pa.Array, n_rows: int | None, most_rows: int) -> None:
        """Create the datasets. The parameters are those of ColumnWriter.start."""
        self._group, self._most_rows = group, most_rows
        encoded = encode_lists(plain_array(sample, self._kind), 0)
        self._offsets.start(group, pa.array(encoded.ends), n_rows, most_rows)
        self._values.start(group, encoded.values, None, most_rows)

    def write(self, array: pa.Array) -> None:
        """Take the next rows."""
        encoded = encode_lists(plain_array(array, self._kind), self._n_values)
        if encoded.missing is not None and self._mask is None:
            self._start_mask()
        self._offsets.write(pa.array(encoded.ends))
        self._values.write(encoded.values)
        if self._mask is not None:
            self._mask.write(array.is_null())
        self._n_rows += len(array)
        self._n_values += len(encoded.values)

    def finish(self) -> WrittenLists:
        """Write what is left and return how the column is stored."""
        mask = None if self._mask is None else self._mask.finish()
        return WrittenLists(self._offsets.finish(), self._values.finish(), mask)

    def _start_mask(self) -> None:
        """Begin a mask; none of the rows so far is missing."""
        self._mask = ColumnWriter(f"{self.name}_mask", pa.bool_(), self._options, is_companion=True)
        self._mask.start(self._group, pa.array([], pa.bool_()), None, self._most_rows)
        for start in range(0, self._n_rows, DEFAULT_CHUNK_ROWS):
            self._mask.write(pa.array(np.zeros(min(DEFAULT_CHUNK_ROWS, self._n_rows - start), dtype=bool)))
