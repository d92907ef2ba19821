"""Search indexes of a HEP001 table: the references between columns and their indexes (S1-S3).

Indexes are found by reference, never by name: an index lists its column in `_columns_list`, and the column lists the
index in `_search_indexes`.
"""

from __future__ import annotations

from collections.abc import Sequence

from colonnade import writing
from colonnade.layouts import index_home
from colonnade.layouts.hep001 import names
from colonnade.layouts.index_home import KIND, PlacedIndex, index_datasets, remove_index, rename_placed
from colonnade.model import TableInfo
from colonnade.nodes import Dataset, EditableDataset, EditableGroup, Group, attributes
from colonnade.nodes.paths import dataset_at, editable, is_dataset

place_index = index_home.place_index


def search_indexes(group: Group, info: TableInfo) -> list[PlacedIndex]:
    """All search indexes of the table, sorted by name."""
    datasets = index_datasets(group)
    if not datasets:
        return []
    likely = {_named_after(name, info) for name in datasets} - {None}
    columns = _Columns(group, [name for name in likely if name is not None])
    if not all(columns.by_address.keys() >= set(_listed(node)) for node in datasets.values()):
        columns = _Columns(group, list(info.by_name))
    return [_placed(name, node, columns) for name, node in datasets.items()]


def _named_after(index: str, info: TableInfo) -> str | None:
    """The column that an index is named after (`<column>__<kind>`), if there is one."""
    column = index.rpartition("__")[0]
    return column if column in info.by_name else None


def _listed(dataset: Dataset) -> list[int]:
    return dataset.reference_addresses(names.COLUMNS_LIST)


class _Columns:
    """The columns of a table by address, and the indexes that each refers to."""

    def __init__(self, group: Group, columns: Sequence[str]) -> None:
        nodes = {name: group.open_dataset(name) for name in columns}
        self.by_address = {node.address: name for name, node in nodes.items() if node is not None}
        self.referring: dict[int | None, list[str]] = {}
        for name, node in nodes.items():
            for index in _references(node) if node is not None else ():
                self.referring.setdefault(index.address, []).append(name)


def _placed(name: str, dataset: Dataset, columns: _Columns) -> PlacedIndex:
    kind = attributes.read_text(dataset, KIND) or ""
    listed = _listed(dataset)
    targets = [columns.by_address.get(where) for where in listed]
    referring = columns.referring.get(dataset.address, [])
    column = targets[0] if targets and targets[0] is not None else (referring[0] if referring else None)
    problem = None
    if not kind:
        problem = "it does not declare its kind"
    elif len(listed) != 1 or targets[:1] in ([], [None]):
        problem = "it does not refer to exactly one column of the table"
    elif referring != [column]:
        problem = "its column does not refer back to it, or others do"
    return PlacedIndex(name, kind, column, dataset, problem)


def _references(column: Dataset) -> list[Dataset]:
    """The index datasets that a column refers to. Broken references are left out."""
    listed = attributes.read_references(column, names.SEARCH_INDEXES) or []
    nodes = (column.dereference(reference) for reference in listed)
    return [node for node in nodes if node is not None and is_dataset(node)]


def attach_index(group: EditableGroup, column: str, kind_word: str, dataset: EditableDataset) -> None:
    """Mark a newly built dataset as a search index of a column: KIND, and references in both directions."""
    writing.write_text(dataset, KIND, kind_word, "ascii")
    source = dataset_at(group, column)
    writing.write_references(dataset, names.COLUMNS_LIST, [source])
    known = [node for node in _references(source) if node.address != dataset.address]
    writing.write_references(source, names.SEARCH_INDEXES, [*(editable(node) for node in known), dataset])


def detach_index(group: EditableGroup, index: PlacedIndex) -> None:
    """Remove a search index, its values, and the references to it."""
    gone = index.dataset.address
    remove_index(group, index)
    source = group.open_dataset(index.column) if index.column is not None else None
    if source is not None:
        left = [node for node in _references(source) if node.address != gone]
        if left:
            writing.write_references(source, names.SEARCH_INDEXES, [editable(node) for node in left])
        else:
            writing.delete_attribute(source, names.SEARCH_INDEXES)


def rename_indexes(group: EditableGroup, info: TableInfo, column: str, new_name: str) -> None:
    """Rename the indexes of a column to match its new name, before the column is renamed."""
    for index in search_indexes(group, info):
        if index.column == column:
            rename_placed(group, index, column, new_name)


def confirm_indexes(_group: EditableGroup, _indexes: Sequence[PlacedIndex]) -> None:
    """Nothing to declare: an index that is kept is kept in sync."""
