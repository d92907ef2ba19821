"""Search indexes of a table of pandas, in its member group `_search_indexes`.

pandas and PyTables ignore them. A column does not refer to its indexes; several columns may be parts of one dataset, so
an index names its column and refers to the dataset.
"""

from __future__ import annotations

from colonnade.layouts.index_home import PlacedIndex, place_index, remove_index
from colonnade.layouts.named_indexes import confirm_indexes, name_index, named_indexes, rename_named
from colonnade.layouts.pandas.describe import describe, rows_of
from colonnade.model import TableInfo
from colonnade.nodes import Dataset, EditableDataset, EditableGroup, Group

detach_index = remove_index
__all__ = ["attach_index", "confirm_indexes", "detach_index", "place_index", "rename_indexes", "search_indexes"]


def search_indexes(group: Group, info: TableInfo) -> list[PlacedIndex]:
    """All search indexes of the table, sorted by name."""

    def rows(name: str) -> Dataset | None:
        column = info.by_name.get(name)
        return None if column is None else rows_of(group, column)

    return named_indexes(group, info, rows)


def attach_index(group: EditableGroup, column: str, kind_word: str, dataset: EditableDataset) -> None:
    """Mark a newly built dataset as a search index of a column."""
    described = describe(group, group.path).by_name[column]
    name_index(column, kind_word, dataset, rows_of(group, described))


def rename_indexes(group: EditableGroup, info: TableInfo, column: str, new_name: str) -> None:
    """Rename the indexes of a column to match its new name, before the column is renamed."""
    rename_named(group, search_indexes(group, info), column, new_name)
