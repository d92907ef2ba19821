"""Tables turned into data frames of AnnData, by the writer of elements: what it cannot hold is refused beforehand.

A frame is planned as a whole, and so are its columns held in memory while they are written.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from colonnade.converting.draft import (
    ANNDATA_ORDER,
    ANNDATA_TYPE,
    UNNAMED,
    UNNAMED_LABELS,
    column_node,
    copy_texts,
    group_of,
)
from colonnade.dataclass import dataclass
from colonnade.elements import Nullable, write_element
from colonnade.elements.objects import arrow_column, refuse_broken
from colonnade.elements.plan import plan
from colonnade.errors import DataError, UsageError
from colonnade.exchange.pandas_arrays import FrameParts
from colonnade.h5 import attributes
from colonnade.model import ColumnInfo, Progress
from colonnade.table import File, Table

NOT_COPIED = (
    "CLASS", "VERSION", "column-order", "_index", "encoding-type", "encoding-version", ANNDATA_ORDER, UNNAMED_LABELS,
)  # fmt: skip


@dataclass
class AnnDataDraft:
    """A table that will be a data frame."""

    table: Table
    parts: FrameParts

    def write(self, file: File, path: str, progress: Progress | None) -> None:
        if path == "/":
            raise UsageError("a data frame cannot be the root of a file: anndata does not read it there", path=path)
        write_element(file.h5, path, self.parts)
        source, target = group_of(self.table), file.h5[path]
        attributes.copy_attributes(source.id, target.id, without=NOT_COPIED)
        for column in self.table.info.members:
            old, new = column_node(source, column.name), column_node(target, column.name)
            if old is not None and new is not None:
                copy_texts(old, new)
        if progress is not None:
            progress(len(self.table), len(self.table))


def draft_anndata(table: Table) -> AnnDataDraft:
    """Look at a table, its rows too; what AnnData cannot hold is refused with the column's path."""
    refuse_broken(table)
    info, group = table.info, group_of(table)
    if len(info.labels) > 1:
        names = ", ".join(label.name for label in info.labels)
        raise DataError(f"{table.path}: a data frame has one column of row labels, not {len(info.labels)} ({names})")
    _check_types(table)
    read = table.to_arrow()
    made = {column.name: _column(table, column, group, read[column.name]) for column in info.members}
    order = attributes.read_texts(group.id, ANNDATA_ORDER) or [column.name for column in info.columns]
    label = info.labels[0].name if info.labels else None
    index = np.arange(len(table)) if label is None else made[label]
    unnamed = label in (UNNAMED, attributes.read_text(group.id, UNNAMED_LABELS))
    parts = FrameParts([(name, made[name]) for name in order], index, None if unnamed else label)
    plan(parts, table.path)
    return AnnDataDraft(table, parts)


def _check_types(table: Table) -> None:
    """Refuse types that no data frame has before anything is read."""
    for field in table.schema:
        kind = field.type
        empty = pa.array([], kind) if not pa.types.is_dictionary(kind) else pa.array([], kind.value_type)
        arrow_column(empty, f"{table.path}/{field.name}")


def _column(table: Table, column: ColumnInfo, group: Any, read: pa.ChunkedArray) -> Any:
    """A column as the element writer takes it; nullable if it was, though no row is missing."""
    if not len(read) and pa.types.is_dictionary(read.type):  # of no rows, Arrow knows no categories
        read = pa.DictionaryArray.from_arrays(
            pa.array([], read.type.index_type), table[column.name].categories, ordered=read.type.ordered
        )
    found = arrow_column(read, f"{table.path}/{column.name}")
    node = column_node(group, column.name)
    kind = None if node is None else attributes.read_text(node.id, ANNDATA_TYPE)
    if kind is None or not kind.startswith("nullable-"):
        return found
    values, mask = (found.values, found.mask) if isinstance(found, Nullable) else (found, np.zeros(len(found), bool))
    return Nullable(values, mask, "NaN" if kind.endswith(" NaN") else "NA")
