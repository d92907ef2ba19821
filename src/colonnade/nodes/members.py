"""The groups and datasets in a group that hard links lead to; soft and external links are not followed."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from colonnade.errors import CorruptError, FormatError, UnsupportedError
from colonnade.nodes.damage import hdf5_errors
from colonnade.nodes.protocols import Dataset, Group

if TYPE_CHECKING:
    GroupMember = Group | Dataset
    """A group or a dataset."""
else:
    GroupMember = object


def is_group(member: GroupMember | None) -> TypeGuard[Group]:
    """Whether this is a group."""
    return member is not None and not member.is_dataset


def is_array(member: GroupMember | None) -> TypeGuard[Dataset]:
    """Whether this is a dataset."""
    return member is not None and member.is_dataset


def member_names(group: Group) -> list[str]:
    """The names of the groups and datasets in a group, including those that cannot be opened: none is left out."""
    return [child.name for child in group.children() if child.kind in ("group", "dataset", "broken")]


def find_member(group: Group, name: str) -> GroupMember | None:
    """The group or dataset of this name; None if there is none, or it cannot be opened."""
    if name in ("", ".") or "/" in name or "\0" in name:
        return None
    kind = group.hard_kind(name)
    try:
        if kind == "dataset":
            return group.open_dataset(name)
        return group.open_group(name) if kind == "group" else None
    except hdf5_errors(CorruptError, UnsupportedError):
        return None


def open_member(group: Group, name: str) -> GroupMember:
    """The group or dataset of this name; a FormatError if there is none, or it cannot be opened."""
    member = find_member(group, name)
    if member is None:
        raise FormatError(f"{group.path} has no member {name!r} that can be opened", path=group.path)
    return member
