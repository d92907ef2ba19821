"""Search indexes of a DynamicTable, in the group `_search_indexes` in its group, which hdmf and pynwb ignore."""

from __future__ import annotations

from colonnade.layouts.hdmf.describe import rows_of
from colonnade.layouts.index_home import PlacedIndex, place_index, remove_index
from colonnade.layouts.named_indexes import confirm_indexes, name_index, named_indexes, rename_named
from colonnade.model import TableInfo
from colonnade.nodes import EditableDataset, EditableGroup, Group

__all__ = ["attach_index", "confirm_indexes", "detach_index", "place_index", "rename_indexes", "search_indexes"]

detach_index = remove_index


def search_indexes(group: Group, info: TableInfo) -> list[PlacedIndex]:
    """All search indexes of the table, sorted by name."""
    return named_indexes(group, info, lambda name: rows_of(group, name))


def attach_index(group: EditableGroup, column: str, kind_word: str, dataset: EditableDataset) -> None:
    """Turn a dataset that was just built into a search index of a column."""
    name_index(column, kind_word, dataset, rows_of(group, column))


def rename_indexes(group: EditableGroup, info: TableInfo, column: str, new_name: str) -> None:
    """Rename the indexes of a column that is about to be renamed."""
    rename_named(group, search_indexes(group, info), column, new_name)
