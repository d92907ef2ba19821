"""Data frames of ArtifactDB in all their generations; docs/decisions.md lists where we differ from others."""

from __future__ import annotations

from colonnade.layouts.artifactdb import names
from colonnade.layouts.contract import Layout, in_folders
from colonnade.nodes import Group

__all__ = ["LAYOUT", "is_table"]


def is_table(group: Group) -> bool:
    """Whether the group is a data frame: it has the members of one, and its attributes or a sidecar file declare it."""
    if group.hard_kind(names.COLUMN_NAMES) != "dataset" or group.hard_kind(names.DATA) != "group":
        return False
    if any(group.attribute_storage(name) is not None for name in names.GROUP_ATTRIBUTES):
        return True
    from colonnade.layouts.artifactdb.metadata import directory_of, metadata_of

    return metadata_of(group, group.path) is not None or directory_of(group) is not None


LAYOUT = Layout(
    name="artifactdb",
    is_table=is_table,
    find=in_folders(__name__),
    creates_in="publish",
    group_attributes=names.GROUP_ATTRIBUTES,
    column_attributes=names.COLUMN_ATTRIBUTES,
    unnamed_labels=names.ROW_NAMES,
    further_members=lambda _group, _columns: names.MEMBERS,
    names_are_links=False,
)
