"""Search indexes that name their column and refer to its rows, where columns cannot refer back: for layouts of others.

Both must agree: where a dataset was replaced, another may have its place. `rows_of` gives the dataset that holds the
rows of a column of the table, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from colonnade.errors import FormatError
from colonnade.h5 import attributes
from colonnade.h5.links import address, join_path
from colonnade.indexes import KINDS, WORDS, refusal
from colonnade.indexes.base import BAD_INDEX
from colonnade.layouts.index_home import (
    COLUMNS_LIST,
    HOME,
    KIND,
    IndexPlan,
    PlacedIndex,
    index_datasets,
    remove_index,
    rename_placed,
)
from colonnade.model import Breach, TableInfo, shown_name

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


# -- checked and mended --
# Whether an index suits its column is asked of the index kind itself, so that the checker and the queries agree.


def index_breaches(indexes: Sequence[PlacedIndex], info: TableInfo) -> Iterator[Breach]:
    """Indexes that do not say their kind and their column, refer to other rows, or do not suit them."""
    for index in indexes:
        path = _path(index, info)
        if index.kind and index.kind not in WORDS:
            message = "an index of a kind that is not known here: it is kept, and not used"
            yield Breach("note", path, message, repr(index.kind), f"one of {', '.join(KINDS)}")
            continue
        problem = _problem_of(index, info)
        if problem is not None:
            yield Breach("error", path, f"the index is not used: {problem}", problem, "an index of a column as it is")


def _path(index: PlacedIndex, info: TableInfo) -> str:
    return join_path(join_path(info.path, HOME), index.name)


def _problem_of(index: PlacedIndex, info: TableInfo) -> str | None:
    """Why an index cannot be used, by its header and attributes; None when it can."""
    if index.problem is not None or index.column is None:
        return index.problem
    column, word = info.by_name[index.column], WORDS.get(index.kind)
    if word is None:
        return f"its kind, {index.kind}, is not known here"
    try:
        return refusal(column) or KINDS[word].open(index.dataset, column, None).problem()
    except BAD_INDEX as error:
        return str(error)


def index_plans(
    indexes: Sequence[PlacedIndex], info: TableInfo, rule: str, wrong: Collection[str], may_build: bool = True
) -> list[IndexPlan]:
    """The indexes that must go, by this rule, or since their contents are wrong; those of unknown kinds stay."""
    found = []
    for index in indexes:
        word = WORDS.get(index.kind)
        rules = [] if _problem_of(index, info) is None else [rule]
        rules += ["S8"] if index.name in wrong else []
        if rules and word is not None:
            path = _path(index, info)
            can = may_build and index.column is not None and refusal(info.by_name[index.column]) is None
            mends = tuple((one, shown_name(path)) for one in rules)
            found.append(
                IndexPlan(index.name, path, address(index.dataset), word, index.column if can else None, mends)
            )
    return found


def remove_planned(group: Any, indexes: Sequence[PlacedIndex], gone: Sequence[IndexPlan]) -> None:
    """Remove indexes and their values."""
    lost = {plan.address for plan in gone}
    for index in indexes:
        if address(index.dataset) in lost:
            remove_index(group, index)
