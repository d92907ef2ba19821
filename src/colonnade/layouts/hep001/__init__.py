"""HEP001, revision of April 2026 (VERSION "1.0"): a table is a group, a column is a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colonnade.layouts.contract import AnyRules, Create, Describe, Edit, IndexHome, Layout, refuse_version
from colonnade.layouts.hep001 import names
from colonnade.layouts.revisions import is_column_table, is_july
from colonnade.nodes import Group

if TYPE_CHECKING:
    from colonnade.layouts.conversion import Conversion

__all__ = ["LAYOUT"]


def _is_table(group: Group) -> bool:
    """Whether the group is a table of this revision. Only CLASS decides, however it is stored (T1)."""
    return is_column_table(group) and not is_july(group)


def _reading() -> Describe:
    from colonnade.layouts.hep001 import describe

    return describe


def _create(version: object, directory: bool) -> Create:
    from colonnade.layouts.hep001 import write

    refuse_version("hep001", version, directory)
    return write


def _edit() -> Edit:
    from colonnade.layouts.hep001 import write

    return write


def _indexes() -> IndexHome:
    from colonnade.layouts.hep001 import search

    return search


def _rules() -> AnyRules:
    from colonnade.layouts.hep001 import rules

    return rules


def _conversion() -> Conversion:
    from colonnade.layouts.hep001.convert import CONVERSION

    return CONVERSION


LAYOUT = Layout(
    name="hep001",
    is_table=_is_table,
    load_reading=_reading,
    load_create=_create,
    load_edit=_edit,
    load_indexes=_indexes,
    load_rules=_rules,
    load_conversion=_conversion,
    group_attributes=names.GROUP_ATTRIBUTES,
    column_attributes=names.COLUMN_ATTRIBUTES,
    keeps_texts=True,
    keeps_pandas_notes=True,
)
