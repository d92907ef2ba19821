"""H5Col, the revision of HEP001 of July 2026: NROWS, list columns, categories in a group, tokens of indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colonnade.layouts.contract import AnyRules, Create, Describe, Edit, IndexHome, Layout, refuse_version
from colonnade.layouts.h5col import names
from colonnade.layouts.revisions import is_column_table, is_july
from colonnade.nodes import Group

if TYPE_CHECKING:
    from colonnade.layouts.conversion import Conversion

__all__ = ["LAYOUT"]


def _is_table(group: Group) -> bool:
    return is_column_table(group) and is_july(group)


def _reading() -> Describe:
    from colonnade.layouts.h5col import describe

    return describe


def _create(version: object, directory: bool) -> Create:
    from colonnade.layouts.h5col import write

    refuse_version("h5col", version, directory)
    return write


def _edit() -> Edit:
    from colonnade.layouts.h5col import write

    return write


def _rules() -> AnyRules:
    from colonnade.layouts.h5col import rules

    return rules


def _indexes() -> IndexHome:
    from colonnade.layouts.h5col import search

    return search


def _conversion() -> Conversion:
    from colonnade.layouts.h5col.convert import CONVERSION

    return CONVERSION


LAYOUT = Layout(
    name="h5col",
    is_table=_is_table,
    load_reading=_reading,
    load_create=_create,
    load_edit=_edit,
    load_indexes=_indexes,
    load_rules=_rules,
    load_conversion=_conversion,
    group_attributes=names.GROUP_ATTRIBUTES,
    column_attributes=names.COLUMN_ATTRIBUTES,
    keeps_texts=True,
    keeps_pandas_notes=True,
    index_revision="july",
    parts=(names.CATEGORIES,),
    standard_references=names.REFERENCES,
)
