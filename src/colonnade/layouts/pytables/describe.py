"""A table of PyTables described: members are columns, in the order of its description (`_v_pos`)."""

from __future__ import annotations

from colonnade.dataclass import replace
from colonnade.layouts.pytables.arrays import describe_array
from colonnade.layouts.pytables.pickled import pickled_names
from colonnade.layouts.records.tables import (
    TITLE,
    dataset_of,
    member_columns,
    n_rows_of,
    open_column,
    seen_type,
)
from colonnade.model import Finding, TableInfo
from colonnade.nodes import Group, attributes
from colonnade.nodes.paths import join_path

__all__ = ["describe", "open_column"]


def describe(group: Group, path: str) -> TableInfo:
    info = dataset_of(group).describe()
    title = attributes.read_text(group, TITLE) or None
    problems = tuple(_pickled_note(path, name) for name in pickled_names(group))
    if info.type.kind != "compound" or not (info.shape is None or len(info.shape) == 1):
        return replace(describe_array(group, path, info, seen_type), title=title, problems=problems)
    columns = tuple(member_columns(group, info, seen_type))
    return TableInfo(path, "pytables", n_rows_of(info), columns, title=title, problems=problems)


def _pickled_note(path: str, name: str) -> Finding:
    message = f"the attribute {name!r} is a Python pickle, which is not loaded: a pickle may run any program"
    return Finding("pytables", "note", join_path(path, name), message)
