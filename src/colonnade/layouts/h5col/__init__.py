"""H5Col, the revision of HEP001 of July 2026: NROWS, list columns, categories in a group, tokens of indexes."""

from __future__ import annotations

from collections.abc import Iterable

from colonnade.layouts.contract import Layout, in_folders
from colonnade.layouts.h5col import names
from colonnade.layouts.revisions import is_column_table, is_july
from colonnade.model import ColumnInfo, Lists
from colonnade.nodes import Group

__all__ = ["LAYOUT"]


def _is_table(group: Group) -> bool:
    return is_column_table(group) and is_july(group)


def _further_members(group: Group, columns: Iterable[ColumnInfo]) -> Iterable[str]:
    masked = [column.name for column in columns if column.is_masked and not isinstance(column.row_form, Lists)]
    if not masked:
        return (names.CATEGORIES,)
    from colonnade.layouts.h5col.describe import mask_names

    datasets = [dataset for name in masked if (dataset := group.open_dataset(name)) is not None]
    return (names.CATEGORIES, *mask_names(group, datasets))


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
    standard_references=names.REFERENCES,
    further_members=_further_members,
)
