"""Converts tables to AnnData data frames, batch by batch; marks of a former frame restore it exactly.

Names, types and categories are refused before anything is written, rows when they are reached: the partial file is then
discarded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from colonnade.converting.draft import (
    ANNDATA_ORDER,
    ANNDATA_TYPE,
    UNNAMED,
    UNNAMED_LABELS,
    TableDraft,
    draft_of,
    group_of,
    node_of,
    refuse_unfit,
)
from colonnade.converting.rows import source_of
from colonnade.errors import DataError, UsageError
from colonnade.h5 import attributes
from colonnade.model import ColumnInfo, ColumnOptions, Progress
from colonnade.stored_dtypes import memory_dtype
from colonnade.table import File, Table


class AnnDataDraft(TableDraft):
    """A table that will be a data frame."""

    def write(self, file: File, path: str, progress: Progress | None) -> None:
        if path == "/":
            raise UsageError("a data frame cannot be the root of a file: anndata does not read it there", path=path)
        super().write(file, path, progress)

    def complete(self, file: File, path: str, nodes: Mapping[str, Any]) -> None:
        """Apply the marks of a former frame, and remove them: a frame needs none."""
        order = _kept_order(self.table, self.names)
        if order is not None:
            attributes.write_variable_texts(file.h5[path].id, "column-order", order)
        for old, new in self.names.items():
            _tell_what_is_missing(nodes[new], _kept_type(self.table, old))


def draft_anndata(table: Table) -> TableDraft:
    """Check a table; what AnnData cannot hold is refused with the column's path."""
    refuse_unfit(table)
    info, names = table.info, _new_names(table)
    if len(info.labels) > 1:
        listed = ", ".join(label.name for label in info.labels)
        raise DataError(f"{table.path}: a data frame has one column of row labels, not {len(info.labels)} ({listed})")
    for column in info.members:
        _check_categories(table, column)
    options = {names[column.name]: _options(table, column) for column in info.members}
    source = source_of(table, names, _RowCheck(table))
    return draft_of(AnnDataDraft, table, source, names, columns=options, layout="anndata")


def _new_names(table: Table) -> dict[str, str]:
    """The names of all columns in the frame; labels that had no name get none again."""
    unnamed = attributes.read_text(group_of(table).id, UNNAMED_LABELS)
    labels = {label.name for label in table.info.labels}
    return {
        column.name: UNNAMED if column.name == unnamed and column.name in labels else column.name
        for column in table.info.members
    }


def _kept_order(table: Table, names: dict[str, str]) -> list[str] | None:
    """The column-order of the former frame, if recorded; columns added since come after it."""
    told = attributes.read_texts(group_of(table).id, ANNDATA_ORDER)
    if told is None:
        return None
    columns = [column.name for column in table.info.columns]
    known = [name for name in told if name in names and names[name] != UNNAMED]
    return [names[name] for name in dict.fromkeys([*known, *columns])]


def _kept_type(table: Table, name: str) -> str:
    """The type of a column in the former frame, if recorded: its encoding-type and, for strings, what a missing one
    means."""
    node = node_of(table, name)
    return (attributes.read_text(node.id, ANNDATA_TYPE) or "") if node is not None else ""


def _options(table: Table, column: ColumnInfo) -> ColumnOptions:
    """Options that make a column nullable if it was, even without missing rows, where AnnData has masks for its
    type."""
    kind = table.schema.field(column.name).type
    was_nullable = _kept_type(table, column.name).startswith("nullable-")
    return ColumnOptions(masked=True) if was_nullable and _has_masks(kind) else ColumnOptions()


def _has_masks(kind: pa.DataType) -> bool:
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return bool(is_text or pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def _is_coded(kind: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(kind))


def _tell_what_is_missing(node: Any, was: str) -> None:
    kind, _, meaning = was.partition(" ")
    if meaning in ("NA", "NaN") and attributes.read_text(node.id, "encoding-type") == kind == "nullable-string-array":
        attributes.write_variable_text(node.id, "na-value", meaning)


def _check_categories(table: Table, column: ColumnInfo) -> None:
    """Refuse categories that pandas does not take: two that are equal, or one that is missing."""
    if not _is_coded(table.schema.field(column.name).type):
        return
    held = table[column.name].categories
    values = [] if held is None else held.to_pylist()
    if None in values or any(value != value for value in values):  # noqa: PLR0124 - only NaN differs from itself
        raise DataError(f"{table.path}/{column.name}: a category is missing, or NaN", column=column.name)
    if len(set(values)) != len(values):
        raise DataError(f"{table.path}/{column.name}: a category is there twice", column=column.name)


class _RowCheck:
    """Refuses missing rows where AnnData cannot express them: it would read them as NaN, which is a value here."""

    def __init__(self, table: Table) -> None:
        self._path = table.path.rstrip("/")
        can_miss = {column.name for column in table.info.members if _marks_nan(column)}
        can_miss |= {field.name for field in table.schema if _has_masks(field.type) or _is_coded(field.type)}
        self._unfit = [name for name in table.schema.names if name not in can_miss]

    def __call__(self, batch: pa.RecordBatch, first: int) -> None:
        for name in self._unfit:
            column = batch.column(batch.schema.get_field_index(name))
            if column.null_count:
                row = first + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
                raise DataError(
                    f"{self._path}/{name}, row {row}: AnnData has no form for {column.type} with missing values: fill "
                    "them first",
                    column=name,
                    row=row,
                )


def _marks_nan(column: ColumnInfo) -> bool:
    """Whether NaN marks the missing rows of a column, so that storing them as NaN keeps their meaning."""
    if column.type.kind != "float" or column.fill is None:
        return False
    dtype = memory_dtype(column.type)
    return len(column.fill) == dtype.itemsize and bool(np.isnan(np.frombuffer(column.fill, dtype)[0]))
