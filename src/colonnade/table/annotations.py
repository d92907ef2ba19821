"""What describes the columns of an ArtifactDB directory, kept in sync when the directory's file is closed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from colonnade.layouts import DIRECTORY_GROUP, annotations_file, moved_rows

if TYPE_CHECKING:
    from colonnade.table.table import Table


def follow_annotations(file: Path) -> None:
    """After the columns of a directory have changed: one row of annotations per column, in their order."""
    moved = moved_rows(file)
    if moved is None:
        return
    from colonnade.table.file import open as open_file

    with open_file(annotations_file(file.parent), "r+") as annotations, annotations.transaction():
        table = annotations[DIRECTORY_GROUP]
        if not table.info.members:
            table._layout.count_rows(table._group, len(moved))
            return
        rows = _rows_of(table, moved)
        table.truncate(0)
        table.append(rows)


def _rows_of(table: Table, moved: list[tuple[str, str | None, int | None]]) -> pa.Table:
    """The annotations of these columns; row names that were the columns' own follow them."""
    rows = table.to_arrow(dictionaries=True).combine_chunks()
    rows = rows.take(pa.array([row for _, _, row in moved], pa.int64()))
    for label in table.labels:
        before = rows[label].to_pylist()
        now = [name if said in (None, old) else said for (name, old, _), said in zip(moved, before, strict=True)]
        rows = rows.set_column(rows.column_names.index(label), label, pa.array(now, rows.schema.field(label).type))
    return rows
