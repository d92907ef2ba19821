"""Data frames of ArtifactDB in all their generations; docs/decisions.md lists where we differ from others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colonnade.layouts.artifactdb import describe, names
from colonnade.layouts.contract import AnyRules, Create, Edit, IndexHome, Layout, Sidecars

if TYPE_CHECKING:
    from colonnade.layouts.conversion import Conversion

__all__ = ["LAYOUT"]


def _create(version: object, directory: bool) -> Create:
    from colonnade.layouts.artifactdb.publish import Publisher, asked_generation

    return Publisher(asked_generation(version, directory))


def _edit() -> Edit:
    from colonnade.layouts.artifactdb import write

    return write


def _indexes() -> IndexHome:
    from colonnade.layouts.artifactdb import search

    return search


def _rules() -> AnyRules:
    from colonnade.layouts.artifactdb import rules

    return rules


def _sidecars() -> Sidecars:
    from colonnade.layouts.artifactdb import sidecars

    return sidecars


def _conversion() -> Conversion:
    from colonnade.layouts.artifactdb.convert import CONVERSION

    return CONVERSION


LAYOUT = Layout(
    name="artifactdb",
    reading=describe,
    load_create=_create,
    load_edit=_edit,
    load_indexes=_indexes,
    load_rules=_rules,
    load_conversion=_conversion,
    load_sidecars=_sidecars,
    group_attributes=names.GROUP_ATTRIBUTES,
    column_attributes=names.COLUMN_ATTRIBUTES,
    unnamed_labels=names.ROW_NAMES,
    parts=(names.DATA, names.COLUMN_NAMES),
    names_are_links=False,
)
