"""Tables of PyTables: datasets of a compound type with its attributes; arrays of it when they are asked for."""

from __future__ import annotations

from colonnade.layouts.contract import Candidate, Layout, in_folders
from colonnade.layouts.records import tables as record_tables
from colonnade.nodes import Group, attributes

__all__ = ["LAYOUT"]


def _is_table(group: Group) -> bool:
    """Whether a dataset is a table of PyTables: it counts its rows in an attribute, as tables of H5TB do not."""
    if not record_tables.is_record_table(group) or group.attribute_storage(record_tables.NROWS) is None:
        return False
    return attributes.read_text(group, record_tables.CLASS) == record_tables.TABLE


def _could_be(group: Group) -> Candidate | None:
    """An array of PyTables as a table with one column."""
    from colonnade.layouts.pytables.arrays import candidate

    return candidate(group)


def _further_attributes(group: Group) -> tuple[str, ...]:
    from colonnade.layouts.pytables.pickled import pickled_names

    return (*record_tables.own_attributes(group), *pickled_names(group))


LAYOUT = Layout(
    name="pytables",
    is_table=_is_table,
    find=in_folders(__name__, "colonnade.layouts.records"),
    creates_in="create",
    could_be=_could_be,
    is_of_datasets=True,
    group_attributes=record_tables.PYTABLES_ATTRIBUTES,
    further_attributes=_further_attributes,
    names_are_links=False,
    keeps_texts=True,
)
