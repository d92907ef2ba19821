"""The data frames of AnnData (encoding-type "dataframe", 0.2.0 and 0.1.0) as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colonnade.layouts.anndata import names
from colonnade.layouts.contract import AnyRules, Create, Describe, Edit, IndexHome, Layout, refuse_version
from colonnade.nodes import Group, attributes

if TYPE_CHECKING:
    from colonnade.layouts.conversion import Conversion

__all__ = ["LAYOUT"]


def _is_table(group: Group) -> bool:
    """Whether the group declares itself a data frame, of any version."""
    return attributes.read_text(group, names.ENCODING_TYPE) == names.DATAFRAME


def _reading() -> Describe:
    from colonnade.layouts.anndata import describe

    return describe


def _create(version: object, directory: bool) -> Create:
    from colonnade.layouts.anndata import write

    refuse_version("anndata", version, directory)
    return write


def _edit() -> Edit:
    from colonnade.layouts.anndata import write

    return write


def _indexes() -> IndexHome:
    from colonnade.layouts.anndata import search

    return search


def _rules() -> AnyRules:
    from colonnade.layouts.anndata import rules

    return rules


def _check_lengths(root: Group, table: str) -> None:
    from colonnade.layouts.anndata.axes import check_axes

    check_axes(root, table)


def _conversion() -> Conversion:
    from colonnade.layouts.anndata.convert import CONVERSION

    return CONVERSION


LAYOUT = Layout(
    name="anndata",
    is_table=_is_table,
    load_reading=_reading,
    load_create=_create,
    load_edit=_edit,
    load_indexes=_indexes,
    load_rules=_rules,
    load_conversion=_conversion,
    check_lengths=_check_lengths,
    group_attributes=names.GROUP_ATTRIBUTES,
    column_attributes=names.COLUMN_ATTRIBUTES,
    unnamed_labels=names.UNNAMED,
    needs_labels=True,
    keeps_masks=True,
)
