"""Where tables store their search indexes: as `<column>__<kind>` in the child group `_search_indexes`.

In July's revision of HEP001 the group is `SEARCH_INDEXES`.

Each layout defines how a column and its indexes refer to each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from colonnade import writing
from colonnade.dataclass import dataclass
from colonnade.errors import CorruptError, UnsupportedError, UsageError
from colonnade.indexes.base import VALUES_NAMES, Index, IndexRevision
from colonnade.model import IndexInfo, shown_name
from colonnade.nodes import Dataset, EditableGroup, Group, Node, attributes
from colonnade.nodes.damage import hdf5_errors
from colonnade.nodes.dataset_tables import HOME_OF_INDEXES, home_place
from colonnade.nodes.paths import group_at

if TYPE_CHECKING:
    from colonnade.columns.read import ColumnReader

HOME = HOME_OF_INDEXES
HOMES: dict[IndexRevision, str] = {"april": HOME, "july": "SEARCH_INDEXES"}
KIND = "KIND"
INDEXED_COLUMNS = "_columns_list"


@dataclass(frozen=True)
class PlacedIndex:
    """A search index as stored. `column` is None if it does not refer to one; `problem` describes what is wrong.

    is_stale: whether this is only that it describes an earlier state of the table.
    """

    name: str
    kind: str
    column: str | None
    dataset: Dataset
    problem: str | None = None
    is_stale: bool = False


@dataclass(frozen=True)
class OpenIndex:
    """A search index of a table, with its receipt if it has one.

    `index` is None if it cannot be used: it is wrong, or it is legal but its kind or its column is not supported here
    (`is_foreign`).
    """

    placed: PlacedIndex
    info: IndexInfo
    index: Index | None
    is_foreign: bool = False

    def is_of(self, reader: ColumnReader) -> bool:
        """Whether this is an index of what a reader reads; a computed column may have the name of a stored one."""
        return self.info.column == reader.column.name and not reader.sources


@dataclass(frozen=True)
class IndexPlan:
    """A search index to remove because it cannot be used. It is rebuilt if its column is known and can have one."""

    name: str
    path: str
    address: int | None
    word: str
    column: str | None
    fixes: tuple[tuple[str, str], ...]

    @property
    def action(self) -> str:
        if self.column is None:
            return "the index is dropped"
        return f"the index is rebuilt: {self.word} of {shown_name(self.column)!r}"


@overload
def home_of(group: EditableGroup, revision: IndexRevision = "april") -> EditableGroup | None: ...
@overload
def home_of(group: Group, revision: IndexRevision = "april") -> Group | None: ...
def home_of(group: Group, revision: IndexRevision = "april") -> Group | None:
    """The group of a table's search indexes, if it has one."""
    return group.open_group(HOMES[revision]) if group.has_link(HOMES[revision]) else None


def index_datasets(group: Group, revision: IndexRevision = "april") -> dict[str, Dataset]:
    """The search index datasets by name, without the values datasets of bitmaps."""
    home = home_of(group, revision)
    if home is None:
        return {}
    datasets = {child.name: home.open_dataset(child.name) for child in home.children() if child.kind == "dataset"}
    opened = {name: dataset for name, dataset in datasets.items() if dataset is not None}
    values = {node.address for dataset in opened.values() for node in values_of(dataset, revision)}
    return {name: node for name, node in opened.items() if node.address not in values}


def values_of(dataset: Dataset, revision: IndexRevision = "april") -> list[Node]:
    """The values datasets of an index: one if it is a bitmap, otherwise none."""
    listed = attributes.read_references(dataset, VALUES_NAMES[revision]) or []
    return [node for reference in listed if (node := dataset.dereference(reference)) is not None]


def place_index(
    group: EditableGroup, column: str, kind: str, revision: IndexRevision = "april"
) -> tuple[EditableGroup, str]:
    """The group for a new index of this kind, and an unused name in it."""
    home = home_of(group, revision)
    if home is None:
        home = _make_home(group, column, revision)
    name = base = f"{column}__{kind}"
    number = 2
    while home.has_link(name) or home.has_link(f"{name}_{VALUES_NAMES[revision]}"):
        name = f"{base}_{number}"
        number += 1
    return home, name


def _place_of_home(group: EditableGroup, revision: IndexRevision) -> tuple[EditableGroup, str]:
    """The group that the search indexes of a table are in, as a path below a group."""
    return home_place(group) if revision == "april" else (group, HOMES[revision])


def _make_home(group: EditableGroup, column: str, revision: IndexRevision) -> EditableGroup:
    above, path = _place_of_home(group, revision)
    outer = HOMES[revision]
    for name in dict.fromkeys((outer, path)):
        if (name == outer or above.has_link(outer)) and above.has_link(name) and above.open_group(name) is None:
            message = f"cannot place a search index: {name} exists and is not a group. Rename that object."
            raise UsageError(message, column=column)
    return writing.create_group(above, path)


def discard_index(group: EditableGroup, name: str, revision: IndexRevision = "april") -> None:
    """Remove the incomplete parts of an index that could not be built."""
    home = group.open_group(HOMES[revision])
    if home is None:
        return
    for ending in _endings(revision):
        if home.has_link(name + ending):
            writing.unlink(home, name + ending)
    remove_if_empty(group, home, revision)


def remove_if_empty(group: EditableGroup, home: EditableGroup, revision: IndexRevision = "april") -> None:
    """Remove the group of a table's search indexes when it holds none, and the group that this one is in."""
    if home.children():
        return
    above, path = _place_of_home(group, revision)
    writing.unlink(above, path)
    outer = HOMES[revision]
    if path != outer and not group_at(above, outer).children():
        writing.unlink(above, outer)


def _endings(revision: IndexRevision) -> tuple[str, str]:
    """What follows the name of an index in the names of its datasets."""
    return "", f"_{VALUES_NAMES[revision]}"


def remove_index(group: EditableGroup, index: PlacedIndex, revision: IndexRevision = "april") -> None:
    """Remove a search index and its values. The layout removes the references to it."""
    home = group_at(group, HOMES[revision])
    targets = {node.address for node in values_of(index.dataset, revision)}
    writing.unlink(home, index.name)
    for child in home.children():
        if child.kind == "dataset" and child.address in targets:
            writing.unlink(home, child.name)
    remove_if_empty(group, home, revision)


def rename_placed(
    group: EditableGroup, index: PlacedIndex, column: str, new_name: str, revision: IndexRevision = "april"
) -> None:
    """Rename an index to match the new name of its column, which is about to be renamed."""
    home = home_of(group, revision)
    if home is None or not index.name.startswith(f"{column}__"):
        return
    wanted = new_name + index.name[len(column) :]
    for ending in _endings(revision):
        if home.has_link(index.name + ending) and not home.has_link(wanted + ending):
            writing.rename(home, index.name + ending, wanted + ending)


def stored_bytes(index: PlacedIndex) -> int:
    """The size of an index in the file in bytes, without its values."""
    try:
        return index.dataset.stored_bytes()
    except hdf5_errors(CorruptError, UnsupportedError):
        return 0
