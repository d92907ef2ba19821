"""HEP001, revision of April 2026 (VERSION "1.0"): a table is a group, a column is a dataset."""

from __future__ import annotations

from colonnade.layouts.contract import Layout, in_folders
from colonnade.layouts.hep001 import names
from colonnade.layouts.revisions import is_column_table, is_july
from colonnade.nodes import Group, attributes

__all__ = ["LAYOUT"]


def _is_table(group: Group) -> bool:
    """Whether the group is a table of this revision. Only CLASS decides, however it is stored (T1)."""
    return is_column_table(group) and not is_july(group)


def _further_members(group: Group, _columns: object) -> tuple[str, ...]:
    """What anndata reads the categories of a frame of version 0.1.0 from, if the table is one too."""
    is_frame = attributes.read_text(group, names.ENCODING_TYPE) == "dataframe"
    return (names.ANNDATA_CATEGORIES,) if is_frame else ()


LAYOUT = Layout(
    name="hep001",
    is_table=_is_table,
    find=in_folders(__name__),
    creates_in="write",
    further_members=_further_members,
    group_attributes=names.GROUP_ATTRIBUTES,
    column_attributes=names.COLUMN_ATTRIBUTES,
    keeps_texts=True,
    keeps_pandas_notes=True,
)
