"""Rows appended to tables that are datasets of a compound type, for the layouts `compound` and `pytables`.

The values of all columns of a batch make its elements, so each column's writer hands them to one writer of elements.
Other changes are refused: they would move or rewrite every element, which converting the file does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Never

import numpy as np
import pyarrow as pa

from colonnade import writing
from colonnade.arrays import Int64s
from colonnade.columns.encode import ElementForm, encode
from colonnade.columns.mapping import arrow_type
from colonnade.columns.members import as_stored
from colonnade.columns.writer import WrittenColumn
from colonnade.errors import DataError, UnsupportedError, rows_as
from colonnade.h5.row_sink import CannotSkipFilter, RowSink, can_column_grow
from colonnade.layouts.index_home import home_of, remove_if_empty
from colonnade.layouts.records.tables import TITLE, seen_type, table_of
from colonnade.model import (
    MICROSECONDS,
    SECONDS,
    ColumnInfo,
    ColumnOptions,
    DatasetInfo,
    StoredType,
    TableInfo,
)
from colonnade.nodes import EditableDataset, EditableGroup, EditableNode, Group
from colonnade.nodes.paths import editable
from colonnade.selection import Selection
from colonnade.sparse.draft import SparseDraft
from colonnade.stored_dtypes import memory_dtype
from colonnade.threads import default_threads

_ADVICE = "Only rows can be appended. To change more, convert: cn.convert(path, 'new.h5', layout='hep001')"
_MOST_SECONDS = 1 << 31  # in the times of PyTables
_REFERENCES = ("object_reference", "region_reference")
_ALIKE = (("bitfield", "boolean"), ("integer", "enum"))  # datatypes whose elements are the same in memory


def refuse(what: str, path: str) -> Never:
    """Refuse a change that is not an append."""
    raise UnsupportedError(
        f"cannot {what} {path}: its columns are members of the elements of one dataset. {_ADVICE}",
        feature="changes of compound tables other than appending rows",
        path=path,
    )


class ElementWriter:
    """Appends elements to a dataset. Takes the columns of each batch in any order, and writes when it has all."""

    def __init__(self, group: EditableGroup, columns: Sequence[str], fills: Mapping[str, bytes] | None = None) -> None:
        """fills: what missing rows hold; by default what the attributes of the table state."""
        table = table_of(group)
        self._path = table.path
        self._dataset: EditableDataset = editable(table.dataset)
        self._info: DatasetInfo = self._dataset.describe()
        self._fields = {field.name: field.type for field in self._info.type.fields}
        if fills is None:
            fills = {name: fill for name in columns if (fill := _fill_of(group, self._info, name)) is not None}
        self._fills = fills
        self._names = list(columns)
        self._waiting: dict[str, tuple[np.ndarray, object]] = {}
        self._sink = RowSink(self._dataset, self._info.type, default_threads())
        self.n_rows = self._info.shape[0] if self._info.shape else 0

    @property
    def dataset(self) -> EditableDataset:
        return self._dataset

    def put(self, column: ColumnInfo, array: pa.Array) -> None:
        """The values of one column for the next rows."""
        self._waiting[column.name] = self._encoded(column, array)
        if len(self._waiting) == len(self._names):
            self._write()

    def _encoded(self, column: ColumnInfo, array: pa.Array) -> tuple[np.ndarray, object]:
        with rows_as(lambda position: self.n_rows + position):
            fill = self._fills.get(column.name)
            if fill is None and column.type.kind in _REFERENCES:
                fill = bytes(column.type.size)  # the null reference
            if array.null_count and fill is None:
                row = int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))
                why = (
                    "its table has no mark for missing values, and no value to store instead: cn.column(fill=...) of a "
                    "new table, or the attribute FIELD_n_FILL, gives one"
                )
                raise DataError(f"cannot store a missing value: {why}", column=column.name, row=row)
            values = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
            encoded = encode(values, column.type, fill, column.name)
            return as_stored(encoded.image, column.type, self._fields[column.name], column.name), encoded

    def _write(self) -> None:
        count = len(next(iter(self._waiting.values()))[0])
        elements = np.zeros(count, dtype=memory_dtype(self._info.type))
        for name, (image, _) in self._waiting.items():
            elements[name] = image
        self._append(elements)
        self._waiting = {}

    def _append(self, elements: np.ndarray) -> None:
        count = len(elements)
        chunk_rows = self._info.chunk_rows or max(count, 1)
        at = 0
        while at < count:
            part = elements[at : at + chunk_rows - self.n_rows % chunk_rows]
            self._dataset.set_extent((self.n_rows + len(part),))
            try:
                self._sink.write(self.n_rows, part, len(part))
                self._sink.drain()  # what the elements point to is in memory until then
            except CannotSkipFilter as error:
                feature = "filters that cannot be skipped in the only chunk of a dataset"
                raise UnsupportedError(f"cannot append to {self._path}: {feature}", feature=feature) from error
            self.n_rows += len(part)
            at += len(part)

    def moved(self, group: EditableGroup, fills: Mapping[str, bytes]) -> ElementWriter:
        """The writer of a new table of the same columns in wider datatypes, with a copy of all rows."""
        writer = ElementWriter(group, self._names, fills)
        step = self._info.chunk_rows or max(self.n_rows, 1)
        now = self._dataset.describe()
        for start in range(0, self.n_rows, step):
            with self._dataset.reading(now, start, min(step, self.n_rows - start), 1) as image:
                elements = np.zeros(len(image), dtype=memory_dtype(writer._info.type))
                for name in self._names:
                    elements[name] = image[name]
            writer._append(elements)
        writer._waiting = self._waiting
        return writer


def _fill_of(group: Group, info: DatasetInfo, name: str) -> bytes | None:
    """What attributes of H5TB and PyTables give as the value of rows for which none is given.

    They number the members that are not compounds themselves, and then those inside compounds.
    """
    plain = [field for field in info.type.fields if field.type.kind != "compound"]
    position = next((at for at, field in enumerate(plain) if field.name == name), None)
    if position is None:
        return None
    attribute, stored = f"FIELD_{position}_FILL", plain[position].type
    described = group.attribute_storage(attribute)
    if described is None:
        return None
    if seen_type(stored) in (SECONDS, MICROSECONDS):
        return _fill_of_times(group.attribute_element(attribute), described[0], stored)
    if stored.has_pointers or not _is_alike(described[0], stored):
        return None
    fill = group.attribute_element(attribute)
    return None if fill is None else fill.ljust(memory_dtype(stored).itemsize, b"\0")


def _fill_of_times(fill: bytes | None, described: StoredType, stored: StoredType) -> bytes | None:
    """What a number of seconds, as PyTables states it, is among times; None if there is no such time."""
    if fill is None or described.kind not in ("integer", "float"):
        return None
    dtype = memory_dtype(described)
    if len(fill) < dtype.itemsize:
        return None
    seconds = np.frombuffer(fill, dtype, 1)[0].item()
    if not abs(seconds) < _MOST_SECONDS:  # NaN neither
        return None
    return np.int64(round(seconds if seen_type(stored) == SECONDS else seconds * 1_000_000)).tobytes()


def _is_alike(described: StoredType, stored: StoredType) -> bool:
    """Whether the elements of two datatypes are the same in memory."""
    is_same = described.kind == stored.kind or (described.kind, stored.kind) in _ALIKE
    if described.kind == stored.kind == "string":
        return described.size <= stored.size
    return is_same and stored.kind != "unknown" and memory_dtype(described) == memory_dtype(stored)


class MemberWriter:
    """Appends the values of one column."""

    def __init__(self, column: ColumnInfo, elements: ElementWriter) -> None:
        self.name = column.name
        self._column = column
        self._elements = elements

    def write(self, array: pa.Array) -> None:
        self._elements.put(self._column, array)

    def overwrite(self, rows: Int64s, array: pa.Array) -> None:
        refuse("change rows of", self._elements.dataset.path)

    def truncate(self, n_rows: int) -> None:
        refuse("remove rows from", self._elements.dataset.path)

    def remove(self, rows: Selection) -> None:
        refuse("remove rows from", self._elements.dataset.path)

    def finish(self) -> WrittenColumn:
        column, kind = self._column, arrow_type(self._column)
        return WrittenColumn(
            name=column.name,
            stored=self._elements.dataset,
            form=ElementForm(column.type, kind, None),
            options=ColumnOptions(description=column.description),
            units=column.units,
            arrow_type=column.arrow_type,
            has_missing=False,
            n_rows=self._elements.n_rows,
            kind=kind,
        )


# -- the functions of `contract.Edit` --


def check_can_change(group: Group, info: TableInfo) -> None:
    """Any table can be opened for changes; those that cannot be made are refused one by one."""


def resume_column(group: EditableGroup, column: ColumnInfo) -> MemberWriter:
    """The writer of a column: all of a table share one that writes elements."""
    table = table_of(group)
    if table.writer is None:
        dataset = editable(table.dataset)
        if not can_column_grow(column, dataset):
            raise UnsupportedError(
                f"cannot append to {table.path}: the dataset cannot grow, because it is not stored in chunks or has a "
                "largest shape. Convert the file: cn.convert(path, 'new.h5', layout='hep001')",
                feature="appending to datasets of fixed length",
                path=table.path,
            )
        table.writer = ElementWriter(group, [field.name for field in table.dataset.describe().type.fields])
    assert isinstance(table.writer, ElementWriter)  # set here only
    return MemberWriter(column, table.writer)


def extend(group: EditableGroup, info: TableInfo, written: Sequence[WrittenColumn]) -> bool:
    return True


def count_rows(group: EditableGroup, n_rows: int) -> None:
    """The dataset counts its rows itself."""


def attach_column(group: EditableGroup, info: TableInfo, column: WrittenColumn) -> None:
    refuse("add a column to", info.path)


def detach_column(group: EditableGroup, info: TableInfo, name: str) -> None:
    refuse("remove a column from", info.path)


def rename_column(group: EditableGroup, info: TableInfo, name: str, new_name: str) -> None:
    refuse("rename a column of", info.path)


def reorder_columns(group: EditableGroup, info: TableInfo, order: Sequence[str]) -> None:
    refuse("reorder the columns of", info.path)


def set_labels(group: EditableGroup, info: TableInfo, labels: Sequence[str]) -> None:
    refuse("label the rows of", info.path)


def replace_column(group: EditableGroup, info: TableInfo, column: WrittenColumn, old: EditableDataset | None) -> None:
    refuse("replace a column of", info.path)


def set_texts(group: EditableGroup, info: TableInfo, name: str | None, strings: Mapping[str, str | None]) -> None:
    """Set the title; other strings have no position."""
    if name is not None or set(strings) != {"title"}:
        refuse("describe columns of", info.path)
    dataset = editable(table_of(group).dataset)
    if strings["title"] is None:
        writing.delete_attribute(dataset, TITLE)
    else:
        writing.write_text(dataset, TITLE, strings["title"])


def sparse_attributes(column: ColumnInfo, strings: Mapping[str, str | None]) -> dict[str, str | None]:
    return {}


def note_pandas(node: EditableNode | SparseDraft, note: str | None) -> None:
    """There are no such notes."""


def clear(group: EditableGroup) -> None:
    """Remove the search indexes of the table; the dataset itself is removed by the caller."""
    home = home_of(group)
    if home is not None:
        for child in home.children():
            writing.unlink(home, child.name)
        remove_if_empty(group, home)
