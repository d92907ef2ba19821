"""Search indexes of tables that are datasets, next to the dataset: in `_search_indexes/<name of the dataset>`."""

from __future__ import annotations

from colonnade.layouts.index_home import PlacedIndex, remove_index
from colonnade.layouts.index_home import place_index as place_in_home
from colonnade.layouts.named_indexes import confirm_indexes, name_index, named_indexes, rename_named
from colonnade.layouts.records.tables import dataset_of
from colonnade.model import TableInfo
from colonnade.nodes import EditableDataset, EditableGroup, Group

detach_index = remove_index
__all__ = ["attach_index", "confirm_indexes", "detach_index", "place_index", "rename_indexes", "search_indexes"]


def search_indexes(group: Group, info: TableInfo) -> list[PlacedIndex]:
    """All search indexes of the table, sorted by name."""
    return named_indexes(group, info, lambda _name: dataset_of(group))


def place_index(group: EditableGroup, column: str, kind: str) -> tuple[EditableGroup, str]:
    """The group for a new index of this kind, and an unused name in it."""
    return place_in_home(group, column.replace("/", "_"), kind)


def attach_index(group: EditableGroup, column: str, kind_word: str, dataset: EditableDataset) -> None:
    """Mark a newly built dataset as a search index of a column."""
    name_index(column, kind_word, dataset, dataset_of(group))


def rename_indexes(group: EditableGroup, info: TableInfo, column: str, new_name: str) -> None:
    """Rename the indexes of a column to match its new name, before the column is renamed."""
    rename_named(group, search_indexes(group, info), column, new_name)
