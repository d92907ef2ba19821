"""Rows appended to a table of PyTables: it counts its rows in an attribute, and its own indexes become dirty.

PyTables does not use a dirty index for queries, and sorts it again in `reindex_dirty`.
"""

from __future__ import annotations

import numpy as np

from colonnade import writing
from colonnade.errors import UnsupportedError
from colonnade.layouts.records import tables as record_tables
from colonnade.layouts.records import write as record_write
from colonnade.layouts.records.tables import CLASS, table_of
from colonnade.layouts.records.write import (
    MemberWriter,
    attach_column,
    check_can_change,
    detach_column,
    extend,
    note_pandas,
    rename_column,
    reorder_columns,
    replace_column,
    set_labels,
    set_texts,
    sparse_attributes,
)
from colonnade.model import ColumnInfo
from colonnade.nodes import EditableGroup, Group, attributes
from colonnade.nodes.paths import editable, walk_groups

__all__ = [
    "attach_column", "check_can_change", "clear", "count_rows", "detach_column", "extend", "note_pandas",
    "rename_column", "reorder_columns", "replace_column", "resume_column", "set_labels", "set_texts",
    "sparse_attributes",
]  # fmt: skip


def resume_column(group: EditableGroup, column: ColumnInfo) -> MemberWriter:
    """The writer of a column of a table; arrays are only read."""
    table = table_of(group)
    if attributes.read_text(table, CLASS) in record_tables.PYTABLES_ARRAYS:
        raise UnsupportedError(
            f"cannot append to {table.path}: it is an array of PyTables, which is only read as a table",
            feature="appending to arrays of PyTables",
            path=table.path,
        )
    return record_write.resume_column(group, column)


def count_rows(group: EditableGroup, n_rows: int) -> None:
    """Update the number of rows in the attribute, and mark PyTables' own indexes."""
    table = table_of(group)
    dataset = editable(table.dataset)
    writing.write_values(dataset, {record_tables.NROWS: np.int64(n_rows)})
    home = _own_indexes(group)
    for _, index in walk_groups(home) if home is not None else ():
        if attributes.read_text(index, CLASS) == record_tables.INDEX:
            writing.write_values(editable(index), {record_tables.DIRTY: np.int32(1)})


def _own_indexes(group: Group) -> Group | None:
    """The group of the indexes that PyTables has of a table."""
    table = table_of(group)
    name = record_tables.INDEXES_OF + table.name
    return table.parent.open_group(name) if table.parent.has_link(name) else None


def clear(group: EditableGroup) -> None:
    """Remove the search indexes of the table, ours and PyTables'."""
    record_write.clear(group)
    if _own_indexes(group) is not None:
        writing.unlink(editable(table_of(group).parent), record_tables.INDEXES_OF + table_of(group).name)
