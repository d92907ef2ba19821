"""Search indexes of an AnnData data frame, in the group `_search_indexes` beside its columns.

anndata reads only what `column-order` and `_index` name, so it passes them over; when it writes a frame anew they go.
An index names its column, and refers to the dataset that holds its rows; the column does not refer back, so that its
attributes are those that anndata writes. Both must agree: where a dataset was replaced, another may have its place.
"""

from __future__ import annotations

from typing import Any

from colonnade.errors import FormatError
from colonnade.h5 import attributes
from colonnade.h5.links import address
from colonnade.layouts.anndata.describe import rows_of
from colonnade.layouts.anndata.write import check_has_one_face
from colonnade.layouts.index_home import COLUMNS_LIST, KIND, PlacedIndex, index_datasets, rename_placed
from colonnade.layouts.index_home import place_index as place_in_home
from colonnade.model import TableInfo

COLUMN = "column"


def search_indexes(group: Any, info: TableInfo) -> list[PlacedIndex]:
    """Every search index of the frame, in the order of their names."""
    datasets = index_datasets(group)
    return [_placed(name, dataset, group, info) for name, dataset in datasets.items()]


def _placed(name: str, dataset: Any, group: Any, info: TableInfo) -> PlacedIndex:
    kind = attributes.read_text(dataset, KIND) or ""
    named = attributes.read_text(dataset, COLUMN)
    column = named if named in info.by_name else None
    listed = attributes.read_addresses(dataset, COLUMNS_LIST)
    rows = rows_of(group, column) if column is not None else None
    problem = None
    if not kind:
        problem = "it does not say its kind"
    elif column is None:
        problem = "it does not name a column of the table"
    elif rows is None or listed != [address(rows)]:
        problem = "it does not refer to the rows of its column, which others may have replaced"
    return PlacedIndex(name, kind, column, dataset, problem)


def place_index(group: Any, column: str, kind: str) -> tuple[Any, str]:
    """The group for a new index of this kind, and a name that is free in it."""
    check_has_one_face(group, "it")
    return place_in_home(group, column.replace("/", "_"), kind)


def attach_index(group: Any, column: str, kind_word: str, dataset: Any) -> None:
    """Make a dataset that was just built a search index of a column: KIND, and a reference to its rows."""
    rows = rows_of(group, column)
    if rows is None:
        raise FormatError(f"column {column!r} is not in the file any more", column=column)
    attributes.write_text(dataset, KIND, kind_word, "ascii")
    attributes.write_text(dataset, COLUMN, column)
    attributes.write_references(dataset, COLUMNS_LIST, [rows])


def rename_indexes(group: Any, info: TableInfo, column: str, new_name: str) -> None:
    """Give the indexes of a column that is about to be renamed names that go with it."""
    for index in search_indexes(group, info):
        if index.column == column:
            attributes.write_text(index.dataset, COLUMN, new_name)
            rename_placed(group, index, column, new_name)
