"""Frames and Series that pandas stores with `HDFStore` and `to_hdf`, in the fixed and in the table format."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from colonnade.layouts.contract import AnyRules, Create, Describe, IndexHome, Layout, refuse_version
from colonnade.layouts.pandas import names
from colonnade.nodes import Group, attributes

if TYPE_CHECKING:
    from collections.abc import Collection

    from colonnade.layouts.conversion import Conversion

__all__ = ["LAYOUT"]

_CATEGORIES = re.compile(r".+/meta/[^/]+/meta")


def _is_table(group: Group) -> bool:
    """Whether the group is a frame or Series, and not the categories of a column, which are stored as a Series."""
    kind = attributes.read_text(group, names.PANDAS_TYPE)
    return kind in names.PANDAS_TYPES and not (kind == names.TABLE_SERIES and _CATEGORIES.fullmatch(group.path))


def _reading() -> Describe:
    from colonnade.layouts.pandas import describe

    return describe


def _create(version: object, directory: bool) -> Create:
    from colonnade.layouts.pandas.create import NewStore

    refuse_version("pandas", version, directory)
    return NewStore()


def _indexes() -> IndexHome:
    from colonnade.layouts.pandas import search

    return search


def _rules() -> AnyRules:
    from colonnade.layouts.pandas import rules

    return rules


def _conversion() -> Conversion:
    from colonnade.layouts.pandas.convert import CONVERSION

    return CONVERSION


def _find_parts(group: Group) -> Collection[str]:
    from colonnade.layouts.pandas.describe import own_arrays

    return own_arrays(group)


def _further_attributes(group: Group) -> tuple[str, ...]:
    """Attributes of axes, and pickles, which are not loaded."""
    from colonnade.layouts.pandas.pickles import is_pickled

    listed = group.attribute_names()
    return tuple(name for name in listed if name.endswith(names.ITEM_SUFFIXES) or is_pickled(group, name))


LAYOUT = Layout(
    name="pandas",
    is_table=_is_table,
    load_reading=_reading,
    load_create=_create,
    load_indexes=_indexes,
    load_rules=_rules,
    load_conversion=_conversion,
    group_attributes=names.GROUP_ATTRIBUTES,
    column_attributes=names.COLUMN_ATTRIBUTES,
    further_attributes=_further_attributes,
    parts=(names.TABLE, names.META, names.THEIR_INDEXES),
    find_parts=_find_parts,
    names_are_links=False,
    needs_labels=True,
)
