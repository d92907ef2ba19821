"""Frames and Series that pandas stores with `HDFStore` and `to_hdf`, in the fixed and in the table format."""

from __future__ import annotations

import re

from colonnade.layouts.contract import Layout, in_folders
from colonnade.layouts.pandas import names
from colonnade.nodes import Group, attributes

__all__ = ["LAYOUT"]

_CATEGORIES = re.compile(r".+/meta/[^/]+/meta")


def _is_table(group: Group) -> bool:
    """Whether the group is a frame or Series, and not the categories of a column, which are stored as a Series."""
    kind = attributes.read_text(group, names.PANDAS_TYPE)
    return kind in names.PANDAS_TYPES and not (kind == names.TABLE_SERIES and _CATEGORIES.fullmatch(group.path))


def _further_members(group: Group, _columns: object) -> tuple[str, ...]:
    from colonnade.layouts.pandas.describe import own_arrays

    return (names.TABLE, names.META, names.THEIR_INDEXES, *own_arrays(group))


def _further_attributes(group: Group) -> tuple[str, ...]:
    """Attributes of axes, and pickles, which are not loaded."""
    from colonnade.layouts.pandas.pickles import is_pickled

    listed = group.attribute_names()
    return tuple(name for name in listed if name.endswith(names.ITEM_SUFFIXES) or is_pickled(group, name))


LAYOUT = Layout(
    name="pandas",
    is_table=_is_table,
    find=in_folders(__name__),
    group_attributes=names.GROUP_ATTRIBUTES,
    column_attributes=names.COLUMN_ATTRIBUTES,
    further_attributes=_further_attributes,
    further_members=_further_members,
    names_are_links=False,
)
