"""Search indexes that name their column and refer to its rows, where columns cannot refer back: for layouts of others.

Both must agree: where a dataset was replaced, another may have its place. `rows_of` gives the dataset that holds the
rows of a column of the table, or None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from colonnade.errors import FormatError
from colonnade.h5 import attributes
from colonnade.h5.links import address
from colonnade.layouts.index_home import COLUMNS_LIST, KIND, PlacedIndex, index_datasets, rename_placed
from colonnade.model import TableInfo

COLUMN = "column"
RowsOf = Callable[[str], Any]


def named_indexes(group: Any, info: TableInfo, rows_of: RowsOf) -> list[PlacedIndex]:
    """Every search index of the table, in the order of their names."""
    datasets = index_datasets(group)
    return [_placed(name, dataset, info, rows_of) for name, dataset in datasets.items()]


def _placed(name: str, dataset: Any, info: TableInfo, rows_of: RowsOf) -> PlacedIndex:
    kind = attributes.read_text(dataset, KIND) or ""
    named = attributes.read_text(dataset, COLUMN)
    column = named if named in info.by_name else None
    listed = attributes.read_addresses(dataset, COLUMNS_LIST)
    rows = rows_of(column) if column is not None else None
    problem = None
    if not kind:
        problem = "it does not say its kind"
    elif column is None:
        problem = "it does not name a column of the table"
    elif rows is None or listed != [address(rows)]:
        problem = "it does not refer to the rows of its column, which others may have replaced"
    return PlacedIndex(name, kind, column, dataset, problem)


def name_index(column: str, kind_word: str, dataset: Any, rows: Any) -> None:
    """Make a dataset that was just built a search index of a column: KIND, and a reference to its rows."""
    if rows is None:
        raise FormatError(f"column {column!r} is not in the file any more", column=column)
    attributes.write_text(dataset, KIND, kind_word, "ascii")
    attributes.write_text(dataset, COLUMN, column)
    attributes.write_references(dataset, COLUMNS_LIST, [rows])


def rename_named(group: Any, indexes: list[PlacedIndex], column: str, new_name: str) -> None:
    """Give the indexes of a column that is about to be renamed names that go with it."""
    for index in indexes:
        if index.column == column:
            attributes.write_text(index.dataset, COLUMN, new_name)
            rename_placed(group, index, column, new_name)
