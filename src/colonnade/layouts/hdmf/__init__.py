"""DynamicTables of HDMF as tables: trials, units and electrodes of NWB files, and all other types derived from them."""

from __future__ import annotations

from colonnade.layouts.contract import Layout, in_folders
from colonnade.layouts.hdmf import names
from colonnade.model import ColumnInfo
from colonnade.nodes import Group

__all__ = ["LAYOUT"]


def _is_table(group: Group) -> bool:
    """Whether the group is a DynamicTable: it lists columns, declares a namespace, and has identifiers of its rows.

    The type itself is not compared: extensions derive others, and a file has their specification only as a cache.
    """
    if group.attribute_storage(names.COLUMN_LIST) is None or group.attribute_storage(names.NAMESPACE) is None:
        return False
    identifiers = group.open_dataset(names.IDENTIFIERS) if group.hard_kind(names.IDENTIFIERS) == "dataset" else None
    return identifiers is not None and names.type_of(identifiers) == names.ELEMENT_IDENTIFIERS


def _row_target(group: Group, column: ColumnInfo) -> str | None:
    from colonnade.layouts.hdmf.describe import row_target

    return row_target(group, column)


LAYOUT = Layout(
    name="hdmf",
    is_table=_is_table,
    find=in_folders(__name__),
    further_members=lambda _group, columns: [name for column in columns for name in names.companions(column)],
    row_target=_row_target,
    group_attributes=names.GROUP_ATTRIBUTES,
    column_attributes=names.COLUMN_ATTRIBUTES,
    unnamed_labels=names.IDENTIFIERS,
)
