"""The data frames of AnnData (encoding-type "dataframe", 0.2.0 and 0.1.0) as tables."""

from __future__ import annotations

from colonnade.layouts.anndata import names
from colonnade.layouts.contract import Layout, in_folders
from colonnade.nodes import Group, attributes

__all__ = ["LAYOUT"]


def _is_table(group: Group) -> bool:
    """Whether the group declares itself a data frame, of any version."""
    return attributes.read_text(group, names.ENCODING_TYPE) == names.DATAFRAME


def _check_lengths(root: Group, table: str) -> None:
    from colonnade.layouts.anndata.axes import check_axes

    check_axes(root, table)


LAYOUT = Layout(
    name="anndata",
    is_table=_is_table,
    find=in_folders(__name__),
    creates_in="write",
    further_members=lambda _group, _columns: names.NO_COLUMNS,
    check_lengths=_check_lengths,
    group_attributes=names.GROUP_ATTRIBUTES,
    column_attributes=names.COLUMN_ATTRIBUTES,
    unnamed_labels=names.UNNAMED,
    needs_labels=True,
    keeps_masks=True,
)
