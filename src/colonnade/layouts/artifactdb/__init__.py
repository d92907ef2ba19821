"""Data frames of ArtifactDB in all their generations; docs/decisions.md lists where we differ from others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from colonnade.layouts.artifactdb import names
from colonnade.layouts.contract import AnyRules, Create, Describe, Edit, IndexHome, Layout, Sidecars
from colonnade.nodes import Group

if TYPE_CHECKING:
    from colonnade.layouts.conversion import Conversion

__all__ = ["LAYOUT", "is_table"]


def is_table(group: Group) -> bool:
    """Whether the group is a data frame: it has the members of one, and its attributes or a sidecar file declare it."""
    if group.hard_kind(names.COLUMN_NAMES) != "dataset" or group.hard_kind(names.DATA) != "group":
        return False
    if any(group.attribute_storage(name) is not None for name in names.GROUP_ATTRIBUTES):
        return True
    from colonnade.layouts.artifactdb.metadata import directory_of, metadata_of

    return metadata_of(group, group.path) is not None or directory_of(group) is not None


def _reading() -> Describe:
    from colonnade.layouts.artifactdb import describe

    return describe


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
    is_table=is_table,
    load_reading=_reading,
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
