"""Tables in other files with one row per column of a table: updated when the file of that table is closed."""

from __future__ import annotations

from pathlib import Path

from colonnade.layouts import LAYOUTS
from colonnade.layouts.contract import FollowingTable
from colonnade.nodes.paths import editable
from colonnade.nodes.protocols import Notes


def update_following_tables(file: Path, notes: Notes) -> None:
    """After the columns of a table have changed: one row per column, in their order, in the table that follows it."""
    for layout in LAYOUTS.values():
        following = layout.sidecars.following_table(file, notes) if layout.sidecars is not None else None
        if following is not None:
            _update(following)


def _update(following: FollowingTable) -> None:
    from colonnade.table.file import open as open_file

    with open_file(following.file, "r+") as file, file.transaction():
        table = file[following.table]
        if not table.info.members:
            table._layout.edit.count_rows(editable(table._group), following.n_rows)
            return
        rows = following.rows(table.to_arrow(dictionaries=True), table.labels)
        table.truncate(0)
        table.append(rows)
