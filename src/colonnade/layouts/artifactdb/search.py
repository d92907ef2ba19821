"""Search indexes of an ArtifactDB data frame, in the group `_search_indexes` next to its `data`.

ArtifactDB readers ignore the group: they read `data`, `column_names` and `row_names` only.
"""

from __future__ import annotations

from colonnade.layouts.artifactdb.describe import describe, rows_of
from colonnade.layouts.index_home import PlacedIndex, remove_index
from colonnade.layouts.index_home import place_index as place_in_home
from colonnade.layouts.named_indexes import confirm_indexes, name_index, named_indexes, rename_named
from colonnade.model import TableInfo
from colonnade.nodes import EditableDataset, EditableGroup, Group

detach_index = remove_index
__all__ = ["attach_index", "confirm_indexes", "detach_index", "place_index", "rename_indexes", "search_indexes"]


def search_indexes(group: Group, info: TableInfo) -> list[PlacedIndex]:
    """All search indexes of the frame, sorted by name."""
    return named_indexes(group, info, lambda name: rows_of(group, info.by_name[name]))


def place_index(group: EditableGroup, column: str, kind: str) -> tuple[EditableGroup, str]:
    """The group for a new index of this kind, and an unused name in it."""
    return place_in_home(group, column.replace("/", "_"), kind)


def attach_index(group: EditableGroup, column: str, kind_word: str, dataset: EditableDataset) -> None:
    """Turn a dataset that was just built into a search index of a column."""
    found = describe(group, group.path).by_name.get(column)
    name_index(column, kind_word, dataset, None if found is None else rows_of(group, found))


def rename_indexes(group: EditableGroup, info: TableInfo, column: str, new_name: str) -> None:
    """Rename the indexes of a column that is about to be renamed."""
    rename_named(group, search_indexes(group, info), column, new_name)
