"""H5Col, the revision of HEP001 of July 2026: NROWS, list columns, categories in a group, tokens of indexes."""

from __future__ import annotations

from colonnade.layouts.contract import Layout, in_folders
from colonnade.layouts.h5col import names
from colonnade.layouts.revisions import is_column_table, is_july
from colonnade.nodes import Group

__all__ = ["LAYOUT"]


def _is_table(group: Group) -> bool:
    return is_column_table(group) and is_july(group)


LAYOUT = Layout(
    name="h5col",
    is_table=_is_table,
    find=in_folders(__name__),
    creates_in="write",
    group_attributes=names.GROUP_ATTRIBUTES,
    column_attributes=names.COLUMN_ATTRIBUTES,
    keeps_texts=True,
    keeps_pandas_notes=True,
    index_revision="july",
    further_members=lambda _group, _columns: (names.CATEGORIES,),
)
