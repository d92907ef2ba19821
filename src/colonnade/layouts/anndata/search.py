"""Search indexes of an AnnData data frame, in its member group `_search_indexes`.

anndata reads only what `column-order` and `_index` name, so it ignores the indexes; when it rewrites a frame, they are
lost. A column does not refer to its indexes, so its attributes are exactly those that anndata writes.
"""

from __future__ import annotations

from colonnade.layouts.anndata.describe import rows_of
from colonnade.layouts.anndata.names import check_has_one_face
from colonnade.layouts.index_home import PlacedIndex, remove_index
from colonnade.layouts.index_home import place_index as place_in_home
from colonnade.layouts.named_indexes import confirm_indexes, name_index, named_indexes, rename_named
from colonnade.model import TableInfo
from colonnade.nodes import EditableDataset, EditableGroup, Group

detach_index = remove_index
__all__ = ["attach_index", "confirm_indexes", "detach_index", "place_index", "rename_indexes", "search_indexes"]


def search_indexes(group: Group, info: TableInfo) -> list[PlacedIndex]:
    """All search indexes of the frame, sorted by name."""
    return named_indexes(group, info, lambda name: rows_of(group, name))


def place_index(group: EditableGroup, column: str, kind: str) -> tuple[EditableGroup, str]:
    """The group for a new index of this kind, and an unused name in it."""
    check_has_one_face(group, "it")
    return place_in_home(group, column.replace("/", "_"), kind)


def attach_index(group: EditableGroup, column: str, kind_word: str, dataset: EditableDataset) -> None:
    """Mark a newly built dataset as a search index of a column."""
    name_index(column, kind_word, dataset, rows_of(group, column))


def rename_indexes(group: EditableGroup, info: TableInfo, column: str, new_name: str) -> None:
    """Rename the indexes of a column to match its new name, before the column is renamed."""
    rename_named(group, search_indexes(group, info), column, new_name)
