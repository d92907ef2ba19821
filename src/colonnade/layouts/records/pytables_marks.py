"""The attributes by which PyTables knows a dataset as its table, for the layouts `pytables` and `pandas`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from colonnade import writing
from colonnade.dataclass import replace
from colonnade.errors import UsageError
from colonnade.h5.attributes import write_element
from colonnade.layouts.records import tables as record_tables
from colonnade.layouts.records.create import NewMember
from colonnade.model import MICROSECONDS, SECONDS, StoredType
from colonnade.nodes import EditableDataset, EditableGroup
from colonnade.stored_dtypes import memory_dtype

BITS = StoredType("bitfield", 1, precision=8)
"""What PyTables stores booleans as."""
_RESERVED = ("_v_", "_f_", "_g_", "_i_")
_OF_ROOT = (("CLASS", "GROUP"), ("PYTABLES_FORMAT_VERSION", "2.1"), ("TITLE", ""), ("VERSION", "1.0"))
_TABLE_VERSION = "2.7"


def check_member_name(name: str) -> None:
    """Refuse a name that PyTables does not give to columns."""
    if not name or "/" in name or "\0" in name or name.startswith(_RESERVED):
        raise UsageError(
            f"column {name!r}: PyTables has no such name: it is not empty, has no '/' or NUL, and does not begin "
            f"with {', '.join(_RESERVED)}",
            column=name,
        )


def mark_table(dataset: EditableDataset, members: Sequence[NewMember], n_rows: int) -> None:
    """Make a dataset a table of PyTables: the names of its columns, and what a row holds without a value."""
    writing.write_text(dataset, record_tables.VERSION, _TABLE_VERSION)
    writing.write_text(dataset, record_tables.TITLE, "")
    for position, member in enumerate(members):
        writing.write_text(dataset, f"FIELD_{position}_NAME", member.member)
        _write_fill(dataset, f"FIELD_{position}_FILL", member)
    writing.write_values(dataset, {record_tables.NROWS: np.int64(n_rows)})
    writing.write_text(dataset, record_tables.CLASS, record_tables.TABLE)


def _write_fill(dataset: EditableDataset, name: str, member: NewMember) -> None:
    if member.seen in (SECONDS, MICROSECONDS):
        number = int(np.frombuffer(member.fill or bytes(8), np.int64)[0])
        value = np.int32(number) if member.seen == SECONDS else np.float64(number / 1e6)
        writing.write_values(dataset, {name: value})
        return
    stored = member.stored.item if member.stored.kind == "array" else member.stored
    fill = member.fill or b""
    if stored.kind == "string":  # as PyTables stores no bytes
        stored = replace(stored, size=max(len(fill), 1), charset="ascii")
    write_element(dataset, name, stored, fill.ljust(memory_dtype(stored).itemsize, b"\0"))


def mark_root(root: EditableGroup) -> None:
    """The attributes of a file of PyTables, unless it has some of them."""
    if all(root.attribute_storage(attribute) is None for attribute, _ in _OF_ROOT):
        for attribute, value in _OF_ROOT:
            writing.write_text(root, attribute, value)
