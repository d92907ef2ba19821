"""Changes that move no rows: the order of columns, and which of them are labels. The caller commits them."""

from __future__ import annotations

from collections.abc import Sequence

from colonnade.edit.change import OpenTable
from colonnade.errors import ColumnNotFound, UsageError
from colonnade.layouts.anndata_view import follow_face
from colonnade.nodes.paths import encode_name


def reorder_columns(table: OpenTable, names: Sequence[str]) -> None:
    """Put the columns into this order, which names each of them once."""
    info = table.info
    wanted = _names(names, "columns")
    unknown = next((name for name in wanted if name not in info.column_names), None)
    if unknown is not None and unknown in info.label_names:
        raise UsageError(
            f"cannot reorder the columns of {info.path}: {unknown!r} is a label. Leave it out, or see set_labels",
            column=unknown,
        )
    if unknown is not None:
        raise ColumnNotFound(unknown, info.path, list(info.column_names))
    lacking = [name for name in info.column_names if name not in wanted]
    if lacking:
        raise UsageError(
            f"cannot reorder the columns of {info.path}: {', '.join(map(repr, lacking))} would be lost. Name every "
            "column, or see drop_column",
            column=lacking[0],
        )
    if wanted != list(info.column_names):
        table = _with_room_for_names(table)
        table.layout.edit.reorder_columns(table.group, info, wanted)
        _follow(table)


def set_labels(table: OpenTable, names: Sequence[str]) -> None:
    """Make these members the labels of the table, in this order."""
    info = table.info
    wanted = _names(names, "labels")
    for name in wanted:
        if name not in info.by_name:
            raise ColumnNotFound(name, info.path, list(info.by_name))
        column = info.by_name[name]
        if column.problem is not None:
            raise table.unreadable(column)
        if column.storage == "sectioned":
            raise UsageError(
                f"cannot make column {name!r} a label: it is sparse, and columns cannot refer to it. Replace it "
                f"first: replace_column({name!r}, ...)",
                column=name,
            )
    if wanted != info.label_names:
        table = _with_room_for_names(table)
        table.layout.edit.set_labels(table.group, info, wanted)
        _follow(table)


def _names(names: Sequence[str], what: str) -> list[str]:
    """Different names, as they were given."""
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise UsageError(f"{what} are given as a list of names, not as {names!r}")
    given = list(names)
    twice = next((name for name in given if given.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"the {what} name {twice!r} twice", column=twice)
    return given


def _with_room_for_names(table: OpenTable) -> OpenTable:
    """The table in a group with room for the names of all members."""
    longest = max(map(len, map(encode_name, table.info.by_name)), default=0)
    n_names = len(table.info.by_name)
    return table.with_room(f"the names of {n_names:,} columns", longest, n_names)


def _follow(table: OpenTable) -> None:
    """Update the AnnData view to the current table."""
    if table.face is not None:
        follow_face(table.face, table.group, table.layout, table.info, {})
