"""Columns whose datatype cannot be encoded from caller data: they are carried along while the table changes.

In: raw elements (as such a column is read), or nothing. Out: the same dataset, longer, or a chunked copy of it with
the identical datatype. Rows without a given value hold the column's fill, or zeros if the column has no fill.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from colonnade.arrays import Image, Int64s
from colonnade.columns.encode import ElementForm
from colonnade.columns.mapping import arrow_type
from colonnade.columns.raw import cut
from colonnade.columns.writer import WrittenColumn
from colonnade.errors import DataError, UnsupportedError
from colonnade.filters.names import known_filters
from colonnade.h5.attributes import copy_attributes
from colonnade.h5.datasets import DatasetPlan
from colonnade.h5.handles import create_dataset
from colonnade.h5.links import rename, unlink
from colonnade.h5.row_sink import RowSink, can_column_grow, resize, write_rows
from colonnade.model import ColumnInfo, ColumnOptions, Plain, StoredType
from colonnade.nodes import EditableDataset, EditableGroup
from colonnade.nodes.elements import default_chunk_rows, is_shown_as_stored
from colonnade.selection import Selection
from colonnade.stored_dtypes import memory_dtype


def is_carried(column: ColumnInfo) -> bool:
    """Whether the column's datatype cannot be encoded from values that a caller passes."""
    return column.form == Plain() and not _can_be_encoded(column.type)


def _can_be_encoded(stored: StoredType) -> bool:
    if stored.kind == "unknown":
        return False
    if stored.kind in ("integer", "bitfield", "float"):
        return memory_dtype(stored).kind != "V"
    if stored.kind in ("sequence", "array"):
        return _can_be_encoded(stored.item)
    return all(_can_be_encoded(field.type) for field in stored.fields)


class CarriedWriter:
    """Appends to or changes a carried column. Call in this order: construct, write or overwrite, finish."""

    def __init__(self, column: ColumnInfo, group: EditableGroup, dataset: EditableDataset) -> None:
        self.name = column.name
        self._column, self._dataset = column, dataset
        self._n_rows = column.n_rows
        self._replaced = False
        if not can_column_grow(column, dataset):
            self._copy_into_chunks(group)

    def _copy_into_chunks(self, group: EditableGroup) -> None:
        """Replace the dataset by a chunked one that can grow, with the elements copied unchanged."""
        column, old = self._column, self._dataset
        if is_shown_as_stored(column.type):
            raise UnsupportedError(
                f"cannot change the number of rows: column {self.name!r} is of type {column.type}, which cannot be "
                "copied into chunks. Drop it, or store it in chunks with h5py",
                feature=str(column.type),
                column=self.name,
            )
        link = column.link or column.name
        chunk_rows = column.chunk_rows or default_chunk_rows(column.n_rows, column.type)
        plan = DatasetPlan(column.type, chunk_rows, known_filters(column.filters), column.fill)
        new = create_dataset(group, f"{link}\x01aside", plan, self._n_rows, old.get_type())
        for start, stop in cut(0, self._n_rows, chunk_rows, column.type):
            with old.reading(column, start, stop - start) as image:
                write_rows(new, column.type, start, image, stop - start)
        copy_attributes(old, new)
        self._dataset, self._replaced = new, True
        unlink(group, link)
        rename(group, f"{link}\x01aside", link)

    def write(self, array: pa.Array) -> None:
        """Add rows: raw elements, or nulls, which become the fill."""
        image = self._image(array, range(self._n_rows, self._n_rows + len(array)))
        resize(self._dataset, self._n_rows + len(array))
        if image is not None:  # otherwise HDF5 fills the new rows itself
            write_rows(self._dataset, self._column.type, self._n_rows, image, len(array))
        self._n_rows += len(array)

    def overwrite(self, rows: Int64s, array: pa.Array) -> None:
        """Overwrite existing rows, given in increasing order, with raw elements."""
        if array.null_count and (self._column.fill is None or self._column.type.has_pointers):
            raise DataError("cannot make a row missing: no value of this column marks it", column=self.name)
        image = self._image(array, rows)
        if image is not None:
            sink = RowSink(self._dataset, self._column.type)
            sink.write_at(rows, image)
            sink.drain()

    def truncate(self, n_rows: int) -> None:
        """Keep only the first `n_rows` rows."""
        resize(self._dataset, n_rows)
        self._n_rows = n_rows

    def remove(self, rows: Selection) -> None:
        """Remove these rows: those after them move up, as they are stored."""
        RowSink(self._dataset, self._column.type).close_gaps(rows, self._n_rows)
        self.truncate(self._n_rows - rows.count)

    def finish(self) -> WrittenColumn:
        column = self._column
        return WrittenColumn(
            name=self.name,
            stored=self._dataset,
            form=ElementForm(column.type, arrow_type(column), column.fill),
            options=ColumnOptions(description=column.description),
            units=column.units,
            arrow_type=None,
            has_missing=False,
            n_rows=self._n_rows,
            kind=arrow_type(column),
            replaced=self._replaced,
        )

    def _image(self, array: pa.Array, rows: Sequence[int] | Int64s) -> Image | None:
        """Elements of rows, with the fill or zeros for nulls. None if all are null and only HDF5 can make them."""
        storage = array.storage if isinstance(array, pa.ExtensionArray) else array
        column, dtype = self._column, memory_dtype(self._column.type)
        present = array.is_valid().to_numpy(zero_copy_only=False)
        is_raw = dtype.kind == "V" and not dtype.names and storage.type == pa.binary(dtype.itemsize)
        if present.any() and not is_raw:
            row = int(rows[int(np.argmax(present))])
            raise UnsupportedError(
                f"cannot write column {self.name!r}, row {row}: values cannot be encoded as {self._column.type}. Leave "
                "the column out, and its new rows hold its fill value, or write them with h5py",
                feature=str(self._column.type),
                column=self.name,
            )
        if column.type.has_pointers:
            return None
        image = np.zeros(len(array), dtype=dtype)
        if column.fill is not None:
            image[...] = np.frombuffer(column.fill, dtype=dtype)[0]
        if present.any():
            image[present] = np.frombuffer(b"".join(storage.drop_null().to_pylist()), dtype=dtype)
        return image
