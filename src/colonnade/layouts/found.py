"""Tables of a file, found by walking it: groups, and datasets that are tables themselves. What a table owns is none."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator

from colonnade.errors import ColonnadeError
from colonnade.layouts import Layout, layout_of, listed_columns
from colonnade.nodes import Group
from colonnade.nodes.damage import hdf5_errors
from colonnade.nodes.dataset_tables import HOME_OF_INDEXES, DatasetTable
from colonnade.nodes.paths import join_path, walk_listed
from colonnade.nodes.protocols import Child

HOMES_OF_INDEXES = (HOME_OF_INDEXES, "SEARCH_INDEXES")
"""The groups of a table's search indexes in HEP001 of April and of July 2026."""
_OWN = (HOME_OF_INDEXES, "_i_", "_p_")
"""How the names of groups begin that hold what belongs to tables: search indexes, and what PyTables hides."""


class Everything(Container[str]):
    """The names of a table that cannot be described: all of them may be its own."""

    def __contains__(self, name: object) -> bool:
        return True


def own_names(layout: Layout, group: Group, path: str) -> Container[str]:
    """The names in a table's group that lead to parts of the table."""
    try:
        return {*HOMES_OF_INDEXES, *layout.member_names(group, layout.describe(group, path).members)}
    except hdf5_errors(ColonnadeError):
        return Everything()


def walk_tables(root: Group) -> Iterator[tuple[str, Group, Layout]]:
    """Every table in and below a group, as path, group (or dataset, as one) and layout; parents first."""
    for path, group, layout in walk_groups_and_tables(root, listed_columns):
        if layout is not None:
            yield path, group, layout


def walk_groups_and_tables(
    root: Group, without: Callable[[Group], Container[bytes]] = lambda _group: ()
) -> Iterator[tuple[str, Group, Layout | None]]:
    """Every group below (and with) this one and every dataset that is a table, with its layout if it is a table."""
    tables: dict[str, _OwnNames] = {}
    for path, group, listed in walk_listed(root, without):
        layout = layout_of(group)
        above = _owner(path, tables)
        if layout is not None:
            tables[path] = _OwnNames(layout, group, path)
        yield path, group, layout
        if above is not None and above.owns(path):
            continue
        yield from _datasets(path, group, listed, tables.get(path))


def _datasets(
    path: str, group: Group, listed: list[Child], own: _OwnNames | None
) -> Iterator[tuple[str, Group, Layout]]:
    """The datasets of a group that are tables."""
    if any(part.startswith(_OWN) for part in path.split("/")):
        return
    for child in listed:
        if child.kind != "dataset" or not group.is_compound(child.name):
            continue
        where = join_path(path, child.name)
        if own is not None and own.owns(where):
            continue
        table = dataset_table(group, child.name)
        if table is not None:
            yield where, *table


class _OwnNames:
    """What a table owns; described when a dataset in or below its group may be a table itself."""

    def __init__(self, layout: Layout, group: Group, path: str) -> None:
        self._layout, self._group, self._path = layout, group, path
        self._names: Container[str] | None = None

    def owns(self, path: str) -> bool:
        """Whether the object at a path below the table is a part of it."""
        name = path[len(self._path.rstrip("/")) + 1 :].split("/", maxsplit=1)[0]
        if name in (*HOMES_OF_INDEXES, *self._layout.further_members(self._group, ())):
            return True
        if self._names is None:
            self._names = own_names(self._layout, self._group, self._path)
        return name in self._names


def _owner(path: str, tables: dict[str, _OwnNames]) -> _OwnNames | None:
    """The nearest table above a path."""
    while path not in ("", "/"):
        path = path.rsplit("/", 1)[0] or "/"
        if path in tables:
            return tables[path]
    return None


def dataset_table(parent: Group, name: str) -> tuple[DatasetTable, Layout] | None:
    """A dataset of a group as a table, with its layout; None if it is not a table."""
    try:
        dataset = parent.open_dataset(name)
        if dataset is None:
            return None
        table = DatasetTable(parent, name, dataset)
        layout = layout_of(table)
    except hdf5_errors(ColonnadeError):
        return None
    return None if layout is None else (table, layout)


def table_at(root: Group, path: str, asked: Layout | None = None) -> tuple[Group, Layout] | None:
    """The group or dataset at an absolute path as a table, with its layout; None if there is none.

    asked: the layout to read it in, whatever it declares.
    """
    group = root.open_group(path)
    if group is not None:
        layout = asked or layout_of(group)
        is_fit = layout is not None and (asked is None or asked.can_read(group))
        return (group, layout) if is_fit and layout is not None else None
    above, _, name = path.rstrip("/").rpartition("/")
    parent = root.open_group(above or "/")
    if asked is not None:
        dataset = None if parent is None or not name else parent.open_dataset(name)
        if parent is None or dataset is None or not asked.is_of_datasets:
            return None
        table = DatasetTable(parent, name, dataset)
        return (table, asked) if asked.can_read(table) else None
    if parent is None or not name or not parent.is_compound(name) or _is_part(root, path):
        return None
    return dataset_table(parent, name)


def _is_part(root: Group, path: str) -> bool:
    """Whether the object at a path belongs to a table above it."""
    parts = path.strip("/").split("/")
    if any(part.startswith(_OWN) for part in parts[:-1]):
        return True
    for depth in range(len(parts)):
        above = "/" + "/".join(parts[:depth])
        group = root.open_group(above)
        layout = None if group is None else layout_of(group)
        if group is not None and layout is not None and parts[depth] in own_names(layout, group, above):
            return True
    return False
