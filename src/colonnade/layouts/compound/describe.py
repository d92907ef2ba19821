"""A dataset of a compound type described as a table: its members are the columns."""

from __future__ import annotations

from colonnade.layouts.records.tables import (
    TITLE,
    dataset_of,
    member_columns,
    n_rows_of,
    open_column,
)
from colonnade.model import TableInfo
from colonnade.nodes import Group, attributes

__all__ = ["describe", "open_column"]


def describe(group: Group, path: str) -> TableInfo:
    info = dataset_of(group).describe()
    title = attributes.read_text(group, TITLE) or None
    return TableInfo(path, "compound", n_rows_of(info), tuple(member_columns(group, info)), title=title)
