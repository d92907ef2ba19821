"""Groups whose members are columns: vaex, loom, MATLAB structs, netCDF variables, and whatever has rows of one length.

The tables of vaex declare themselves; any other group is a table when the layout is asked for.
"""

from __future__ import annotations

from colonnade.layouts.columns import names
from colonnade.layouts.contract import Candidate, Layout, in_folders
from colonnade.nodes import Group

__all__ = ["LAYOUT"]


def _could_be(group: Group) -> Candidate | None:
    from colonnade.layouts.columns.describe import candidate

    return candidate(group)


LAYOUT = Layout(
    name="columns",
    is_table=names.is_vaex,
    find=in_folders(__name__),
    could_be=_could_be,
    group_attributes=names.GROUP_ATTRIBUTES,
    column_attributes=names.COLUMN_ATTRIBUTES,
)
