"""Groups whose members are columns: vaex, loom, MATLAB structs, netCDF variables, and whatever has rows of one length.

The tables of vaex declare themselves; any other group is a table when the layout is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from colonnade.layouts.columns import names
from colonnade.layouts.contract import AnyRules, Candidate, Describe, IndexHome, Layout
from colonnade.nodes import Group

if TYPE_CHECKING:
    from colonnade.layouts.conversion import Conversion

__all__ = ["LAYOUT"]


def _reading() -> Describe:
    from colonnade.layouts.columns import describe

    return describe


def _indexes() -> IndexHome:
    from colonnade.layouts.columns import search

    return search


def _rules() -> AnyRules:
    from colonnade.layouts.columns import rules

    return rules


def _conversion() -> Conversion:
    from colonnade.layouts.columns.convert import CONVERSION

    return CONVERSION


def _could_be(group: Group) -> Candidate | None:
    from colonnade.layouts.columns.describe import candidate

    return candidate(group)


def _has_column(group: Group) -> bool:
    from colonnade.layouts.columns.describe import has_column

    return has_column(group)


LAYOUT = Layout(
    name="columns",
    is_table=names.is_vaex,
    load_reading=_reading,
    load_indexes=_indexes,
    load_rules=_rules,
    load_conversion=_conversion,
    could_be=_could_be,
    has_column=_has_column,
    group_attributes=names.GROUP_ATTRIBUTES,
    column_attributes=names.COLUMN_ATTRIBUTES,
)
