"""Paths of objects, and walks over the groups of a file.

A walk goes over links, not over objects: a file may hold objects that nothing can open, and one of them must not hide
the others. Hard links are followed once; soft links (aliases of what is found anyway) and external links (which leave
the file) are not.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast, overload

from colonnade.errors import CorruptError, FormatError
from colonnade.nodes.protocols import Child, Dataset, EditableDataset, EditableGroup, EditableNode, Group, Node

if TYPE_CHECKING:
    from typing_extensions import TypeIs


def encode_name(name: str) -> bytes:
    """A link name as HDF5 keeps it; names that are not UTF-8 survive the round trip."""
    return name.encode("utf-8", "surrogateescape")


def decode_name(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def join_path(path: str, name: str) -> str:
    return f"{path.rstrip('/')}/{name}"


def is_dataset(node: object) -> TypeIs[Dataset]:
    """Whether an object is a dataset."""
    return bool(getattr(node, "is_dataset", False))  # a committed datatype has no such attribute


@overload
def editable(node: Group) -> EditableGroup: ...
@overload
def editable(node: Dataset) -> EditableDataset: ...
@overload
def editable(node: Node) -> EditableNode: ...
def editable(node: Node) -> EditableNode:
    """The object as libhdf5 has it open, to be changed: the same one, in a file that is open for changes."""
    return cast("EditableNode", node.in_library())


@overload
def group_at(group: EditableGroup, path: str) -> EditableGroup: ...
@overload
def group_at(group: Group, path: str) -> Group: ...
def group_at(group: Group, path: str) -> Group:
    """The group at a path below `group`, where there must be one; a FormatError when it cannot be opened."""
    node = group.open_group(path)
    if node is None:
        raise FormatError(f"{join_path(group.path, path)} cannot be opened as a group", path=path)
    return node


@overload
def dataset_at(group: EditableGroup, name: str) -> EditableDataset: ...
@overload
def dataset_at(group: Group, name: str) -> Dataset: ...
def dataset_at(group: Group, name: str) -> Dataset:
    """The dataset child of this name, where there must be one; a FormatError when it cannot be opened."""
    node = group.open_dataset(name)
    if node is None:
        raise FormatError(f"{join_path(group.path, name)} cannot be opened as a dataset", path=name)
    return node


def walk_groups(
    group: Group, without: Callable[[Group], Container[bytes]] = lambda _group: ()
) -> Iterator[tuple[str, Group]]:
    """Every group below (and with) this one, each once, as path and handle; parents first.

    `without` gives the names in a group that lead to none: to look at each of 20,000 columns would cost more than the
    rest of the walk. A group whose links cannot be listed ends the walk there; if it is the first one, that is a
    CorruptError.
    """
    return ((path, node) for path, node, _ in walk_listed(group, without))


def walk_listed(
    group: Group, without: Callable[[Group], Container[bytes]] = lambda _group: ()
) -> Iterator[tuple[str, Group, list[Child]]]:
    """As `walk_groups`, each group with its links; those of the names that `without` gives are left out."""
    pending = [(group.path, group)]
    seen = {group.address}
    first = True
    while pending:
        path, node = pending.pop()
        try:
            listed = node.children(without(node))
        except CorruptError:
            if first:
                raise
            listed = []
        first = False
        yield path, node, listed
        below = []
        for child in listed:
            if child.kind != "group" or child.address in seen:
                continue
            opened = node.open_group(child.name)
            if opened is not None:
                seen.add(child.address)
                below.append((join_path(path, child.name), opened))
        pending.extend(reversed(below))


def is_within(path: Path, folder: Path) -> bool:
    """Whether a path is an ordinary file, or nothing, in this folder or below it; symbolic links are looked through."""
    try:
        target = path.resolve()
        return target.is_relative_to(folder.resolve()) and (target.is_file() or not target.exists())
    except (OSError, RuntimeError, ValueError):  # a loop of symbolic links, a name with NUL
        return False
