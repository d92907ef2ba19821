"""Tables of PyTables: datasets of a compound type with its attributes; arrays of it when they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colonnade.layouts.contract import AnyRules, Candidate, Create, Describe, Edit, IndexHome, Layout, refuse_version
from colonnade.layouts.records import tables as record_tables
from colonnade.nodes import Group, attributes

if TYPE_CHECKING:
    from colonnade.layouts.conversion import Conversion

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


def _reading() -> Describe:
    from colonnade.layouts.pytables import describe

    return describe


def _indexes() -> IndexHome:
    from colonnade.layouts.records import search as record_search

    return record_search


def _create(version: object, directory: bool) -> Create:
    from colonnade.layouts.pytables.create import NewTable

    refuse_version("pytables", version, directory)
    return NewTable()


def _edit() -> Edit:
    from colonnade.layouts.pytables import write

    return write


def _conversion() -> Conversion:
    from colonnade.layouts.pytables.convert import CONVERSION

    return CONVERSION


def _rules() -> AnyRules:
    from colonnade.layouts.pytables.rules import RULES

    return RULES


LAYOUT = Layout(
    name="pytables",
    is_table=_is_table,
    load_reading=_reading,
    load_create=_create,
    load_edit=_edit,
    load_indexes=_indexes,
    load_rules=_rules,
    load_conversion=_conversion,
    could_be=_could_be,
    is_of_datasets=True,
    group_attributes=record_tables.PYTABLES_ATTRIBUTES,
    further_attributes=_further_attributes,
    names_are_links=False,
    keeps_texts=True,
)
