"""Where a HEP001 table keeps its search indexes: the child group `_search_indexes`, references both ways (S1-S3).

Found by reference, never by name: an index lists its column in `_columns_list`, the column lists it in
`_search_indexes`. Written as `<column>__<kind>`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from colonnade.errors import UsageError
from colonnade.h5 import attributes
from colonnade.h5.attributes import BROKEN
from colonnade.h5.links import (
    address,
    children,
    create_group,
    dereference,
    exists,
    is_dataset,
    open_dataset,
    open_group,
    rename,
    unlink,
)
from colonnade.layouts.hep001 import names
from colonnade.model import TableInfo

KIND = "KIND"


@dataclass(frozen=True)
class PlacedIndex:
    """A search index where it is kept. `column` is None when it leads to none; `problem` says what is wrong."""

    name: str
    kind: str
    column: str | None
    dataset: Any
    problem: str | None = None


def search_indexes(group: Any, info: TableInfo) -> list[PlacedIndex]:
    """Every search index of the table, in the order of their names."""
    home = open_group(group, names.SEARCH_INDEXES) if exists(group, names.SEARCH_INDEXES) else None
    if home is None:
        return []
    columns = _Columns(group, info)
    datasets = {child.name: open_dataset(home, child.name) for child in children(home) if child.kind == "dataset"}
    opened = {name: dataset for name, dataset in datasets.items() if dataset is not None}
    values = {address(node) for dataset in opened.values() for node in _values_of(dataset)}
    return [_placed(name, node, columns) for name, node in opened.items() if address(node) not in values]


class _Columns:
    """The columns of a table by their addresses, and which indexes each refers to."""

    def __init__(self, group: Any, info: TableInfo) -> None:
        nodes = {member.name: open_dataset(group, member.name) for member in info.members}
        self.by_address = {address(node): name for name, node in nodes.items() if node is not None}
        self.referring: dict[int | None, list[str]] = {}
        for name, node in nodes.items():
            for index in _references(node) if node is not None else ():
                self.referring.setdefault(address(index), []).append(name)


def _values_of(dataset: Any) -> list[Any]:
    """The values dataset of a bitmap, if it is one."""
    listed = attributes.read_references(dataset, "_values") or []
    return [node for reference in listed if (node := dereference(dataset, reference)) is not None]


def _placed(name: str, dataset: Any, columns: _Columns) -> PlacedIndex:
    kind = attributes.read_text(dataset, KIND) or ""
    listed = attributes.read_references(dataset, names.COLUMNS_LIST) or []
    targets = [columns.by_address.get(address(node)) for ref in listed if (node := dereference(dataset, ref))]
    referring = columns.referring.get(address(dataset), [])
    column = targets[0] if targets and targets[0] is not None else (referring[0] if referring else None)
    problem = None
    if not kind:
        problem = "it does not say its kind"
    elif len(listed) != 1 or targets[:1] in ([], [None]):
        problem = "it does not refer to exactly one column of the table"
    elif referring != [column]:
        problem = "its column does not refer back to it, or others do"
    return PlacedIndex(name, kind, column, dataset, problem)


def _references(column: Any) -> list[Any]:
    """The index datasets that a column refers to; those that lead nowhere are left out."""
    listed = attributes.read_references(column, names.SEARCH_INDEXES) or []
    nodes = (dereference(column, reference) for reference in listed)
    return [node for node in nodes if node is not None and is_dataset(node)]


def place_index(group: Any, column: str, kind: str) -> tuple[Any, str]:
    """The group for a new index of this kind, and a name that is free in it."""
    home = open_group(group, names.SEARCH_INDEXES) if exists(group, names.SEARCH_INDEXES) else None
    if home is None and exists(group, names.SEARCH_INDEXES):
        raise UsageError(
            f"something that is no group has the name {names.SEARCH_INDEXES}, which is for search indexes: rename it",
            column=column,
        )
    if home is None:
        home = create_group(group, names.SEARCH_INDEXES)
    name = base = f"{column}__{kind}"
    number = 2
    while exists(home, name) or exists(home, f"{name}__values"):
        name = f"{base}_{number}"
        number += 1
    return home, name


def discard_index(group: Any, name: str) -> None:
    """Remove what there is of an index that was placed and could not be built."""
    home = open_group(group, names.SEARCH_INDEXES)
    if home is None:
        return
    for ending in ("", "__values"):
        if exists(home, name + ending):
            unlink(home, name + ending)
    if not children(home):
        unlink(group, names.SEARCH_INDEXES)


def attach_index(group: Any, column: str, kind_word: str, dataset: Any) -> None:
    """Make a dataset that was just built a search index of a column: KIND, and references both ways."""
    attributes.write_text(dataset, KIND, kind_word, "ascii")
    source = open_dataset(group, column)
    attributes.write_references(dataset, names.COLUMNS_LIST, [source])
    known = [node for node in _references(source) if address(node) != address(dataset)]
    attributes.write_references(source, names.SEARCH_INDEXES, [*known, dataset])


def detach_index(group: Any, index: PlacedIndex) -> None:
    """Remove a search index, its values, and the references to it."""
    home = open_group(group, names.SEARCH_INDEXES)
    values = attributes.read_references(index.dataset, "_values") or []
    targets = {address(node) for reference in values if (node := dereference(index.dataset, reference))}
    gone = address(index.dataset)
    unlink(home, index.name)
    for child in children(home):
        if child.kind == "dataset" and child.address in targets:
            unlink(home, child.name)
    source = open_dataset(group, index.column) if index.column is not None else None
    if source is not None:
        left = [node for node in _references(source) if address(node) != gone]
        if left:
            attributes.write_references(source, names.SEARCH_INDEXES, left)
        else:
            attributes.delete(source, names.SEARCH_INDEXES)
    if not children(home):
        unlink(group, names.SEARCH_INDEXES)


def rename_indexes(group: Any, info: TableInfo, column: str, new_name: str) -> None:
    """Give the indexes of a column that is about to be renamed names that go with it."""
    home = open_group(group, names.SEARCH_INDEXES) if exists(group, names.SEARCH_INDEXES) else None
    for index in search_indexes(group, info):
        if index.column != column or not index.name.startswith(f"{column}__"):
            continue
        wanted = new_name + index.name[len(column) :]
        for ending in ("", "__values"):
            if exists(home, index.name + ending) and not exists(home, wanted + ending):
                rename(home, index.name + ending, wanted + ending)


def stored_bytes(index: PlacedIndex) -> int:
    """Bytes that an index takes in the file, without its values."""
    try:
        return int(index.dataset.get_storage_size())
    except BROKEN:
        return 0
