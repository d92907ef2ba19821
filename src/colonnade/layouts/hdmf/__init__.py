"""DynamicTables of HDMF as tables: trials, units and electrodes of NWB files, and all other types derived from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colonnade.layouts.contract import AnyRules, Describe, IndexHome, Layout
from colonnade.layouts.hdmf import names
from colonnade.model import ColumnInfo
from colonnade.nodes import Group

if TYPE_CHECKING:
    from colonnade.layouts.conversion import Conversion

__all__ = ["LAYOUT"]


def _is_table(group: Group) -> bool:
    """Whether the group is a DynamicTable: it lists columns, declares a namespace, and has identifiers of its rows.

    The type itself is not compared: extensions derive others, and a file has their specification only as a cache.
    """
    if group.attribute_storage(names.COLUMN_LIST) is None or group.attribute_storage(names.NAMESPACE) is None:
        return False
    identifiers = group.open_dataset(names.IDENTIFIERS) if group.hard_kind(names.IDENTIFIERS) == "dataset" else None
    return identifiers is not None and names.type_of(identifiers) == names.ELEMENT_IDENTIFIERS


def _reading() -> Describe:
    from colonnade.layouts.hdmf import describe

    return describe


def _indexes() -> IndexHome:
    from colonnade.layouts.hdmf import search

    return search


def _rules() -> AnyRules:
    from colonnade.layouts.hdmf import rules

    return rules


def _conversion() -> Conversion:
    from colonnade.layouts.hdmf.convert import CONVERSION

    return CONVERSION


def _row_target(group: Group, column: ColumnInfo) -> str | None:
    from colonnade.layouts.hdmf.describe import row_target

    return row_target(group, column)


LAYOUT = Layout(
    name="hdmf",
    is_table=_is_table,
    load_reading=_reading,
    load_indexes=_indexes,
    load_rules=_rules,
    load_conversion=_conversion,
    companions=names.companions,
    row_target=_row_target,
    group_attributes=names.GROUP_ATTRIBUTES,
    column_attributes=names.COLUMN_ATTRIBUTES,
    unnamed_labels=names.IDENTIFIERS,
)
