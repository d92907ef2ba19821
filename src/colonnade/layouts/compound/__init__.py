"""Datasets of a compound type: each member is a column. h5py's record arrays, HDF5's high-level tables (H5TB)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colonnade.layouts.contract import AnyRules, Create, Describe, Edit, IndexHome, Layout, refuse_version
from colonnade.layouts.records import tables as record_tables

if TYPE_CHECKING:
    from colonnade.layouts.conversion import Conversion

__all__ = ["LAYOUT"]


def _reading() -> Describe:
    from colonnade.layouts.compound import describe

    return describe


def _indexes() -> IndexHome:
    from colonnade.layouts.records import search as record_search

    return record_search


def _create(version: object, directory: bool) -> Create:
    from colonnade.layouts.compound.create import NewCompound

    refuse_version("compound", version, directory)
    return NewCompound()


def _edit() -> Edit:
    from colonnade.layouts.records import write as record_write

    return record_write


def _conversion() -> Conversion:
    from colonnade.layouts.records.convert import RecordConversion

    return RecordConversion(record_tables.TABLE_ATTRIBUTES, ())


def _rules() -> AnyRules:
    from colonnade.layouts.compound.rules import RULES

    return RULES


LAYOUT = Layout(
    name="compound",
    is_table=record_tables.is_record_table,
    load_reading=_reading,
    load_create=_create,
    load_edit=_edit,
    load_indexes=_indexes,
    load_rules=_rules,
    load_conversion=_conversion,
    is_of_datasets=True,
    group_attributes=record_tables.TABLE_ATTRIBUTES,
    further_attributes=record_tables.own_attributes,
    names_are_links=False,
    keeps_texts=True,
)
