"""Search indexes of a group of columns, in its member group `_search_indexes`.

The index names its column and refers to the dataset of its rows. No attribute of a column changes.
"""

from __future__ import annotations

from colonnade.errors import UsageError
from colonnade.layouts.columns import names
from colonnade.layouts.columns.describe import rows_of
from colonnade.layouts.index_home import PlacedIndex, remove_index
from colonnade.layouts.index_home import place_index as place_in_home
from colonnade.layouts.named_indexes import confirm_indexes, name_index, named_indexes, rename_named
from colonnade.model import TableInfo
from colonnade.nodes import EditableDataset, EditableGroup, Group

detach_index = remove_index
__all__ = ["attach_index", "confirm_indexes", "detach_index", "place_index", "rename_indexes", "search_indexes"]


def search_indexes(group: Group, info: TableInfo) -> list[PlacedIndex]:
    """All search indexes of the table, sorted by name."""
    return named_indexes(group, info, lambda name: rows_of(group, name))


def place_index(group: EditableGroup, column: str, kind: str) -> tuple[EditableGroup, str]:
    """The group for a new index of this kind, and an unused name in it."""
    if group.path.rsplit("/", 1)[-1] in names.LOOM_GROUPS:
        raise UsageError(
            f"cannot place a search index in {group.path}: loompy takes every member of it for an attribute, and would "
            "refuse the file. Open the file for reading, and give index_file",
            column=column,
        )
    return place_in_home(group, column, kind)


def attach_index(group: EditableGroup, column: str, kind_word: str, dataset: EditableDataset) -> None:
    """Mark a newly built dataset as a search index of a column."""
    name_index(column, kind_word, dataset, rows_of(group, column))


def rename_indexes(group: EditableGroup, info: TableInfo, column: str, new_name: str) -> None:
    """Rename the indexes of a column to match its new name, before the column is renamed."""
    rename_named(group, search_indexes(group, info), column, new_name)
