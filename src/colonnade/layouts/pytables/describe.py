"""A table of PyTables described: members are columns, in the order of its description (`_v_pos`)."""

from __future__ import annotations

from math import prod

from colonnade.dataclass import replace
from colonnade.layouts.pytables.arrays import describe_array
from colonnade.layouts.pytables.pickled import pickled_names
from colonnade.layouts.records.tables import (
    TITLE,
    dataset_of,
    member_columns,
    n_rows_of,
    open_column,
)
from colonnade.model import MICROSECONDS, SECONDS, Finding, StoredType, TableInfo
from colonnade.nodes import Group, attributes
from colonnade.nodes.paths import join_path

__all__ = ["describe", "open_column"]

_BYTE = StoredType("integer", 1, precision=8)
_BOOLEAN = StoredType("boolean", 1, base=_BYTE, members=(("FALSE", 0), ("TRUE", 1)))


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


def seen_type(stored: StoredType) -> StoredType:
    """What PyTables means by a datatype: bits of a byte are booleans, and HDF5's times are its own."""
    if stored.kind == "bitfield" and stored.size == 1:
        return _BOOLEAN
    if stored.kind == "unknown" and stored.tag == "time" and stored.size in (4, 8):
        return SECONDS if stored.size == 4 else MICROSECONDS
    if stored.kind == "array":
        item = seen_type(stored.item)
        return replace(stored, base=item, size=item.size * prod(stored.dims))
    if stored.kind == "compound":
        return replace(stored, fields=tuple(replace(field, type=seen_type(field.type)) for field in stored.fields))
    return stored
