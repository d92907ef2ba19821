"""Search indexes of most layouts: each names its column and refers to its rows; columns cannot refer back.

Name and reference must agree, because another program may have replaced the dataset of a column.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from colonnade import writing
from colonnade.errors import FormatError
from colonnade.indexes import KINDS, kind_in_file, refusal
from colonnade.indexes.base import BAD_INDEX
from colonnade.layouts.index_home import (
    HOME,
    INDEXED_COLUMNS,
    KIND,
    IndexPlan,
    PlacedIndex,
    index_datasets,
    place_index,
    remove_index,
    rename_placed,
)
from colonnade.model import Breach, TableInfo, shown_name
from colonnade.nodes import Dataset, EditableDataset, EditableGroup, Group, attributes
from colonnade.nodes.paths import editable, join_path

COLUMN = "column"
RowsOf = Callable[[Group, str, TableInfo | None], Dataset | None]
"""The dataset that holds the rows of a column of a table, with the description of the table if it is known."""


class NamedIndexes:
    """The search indexes of a layout, in the member group `_search_indexes` of each table: its `IndexHome`."""

    def __init__(self, rows_of: RowsOf) -> None:
        self._rows_of = rows_of

    def search_indexes(self, group: Group, info: TableInfo) -> list[PlacedIndex]:
        """All search indexes of the table, sorted by name."""

        def rows(column: str) -> Dataset | None:
            return self._rows_of(group, column, info)

        return [_placed(name, dataset, info, rows) for name, dataset in index_datasets(group).items()]

    def place_index(self, group: EditableGroup, column: str, kind: str) -> tuple[EditableGroup, str]:
        """The group for a new index of this kind, and an unused name in it."""
        return place_index(group, column.replace("/", "_"), kind)

    def attach_index(self, group: EditableGroup, column: str, kind_word: str, dataset: EditableDataset) -> None:
        """Mark a newly built dataset as a search index of a column: KIND, its name and a reference to its rows."""
        rows = self._rows_of(group, column, None)
        if rows is None:
            raise FormatError(f"column {column!r} is no longer in the file", column=column)
        writing.write_text(dataset, KIND, kind_word, "ascii")
        writing.write_text(dataset, COLUMN, column)
        writing.write_references(dataset, INDEXED_COLUMNS, [editable(rows)])

    def detach_index(self, group: EditableGroup, index: PlacedIndex) -> None:
        """Remove a search index and its values."""
        remove_index(group, index)

    def rename_indexes(self, group: EditableGroup, info: TableInfo, column: str, new_name: str) -> None:
        """Rename the indexes of a column to match its new name, before the column is renamed."""
        for index in self.search_indexes(group, info):
            if index.column == column:
                writing.write_text(editable(index.dataset), COLUMN, new_name)
                rename_placed(group, index, column, new_name)

    def confirm_indexes(self, _group: EditableGroup, _indexes: Sequence[PlacedIndex]) -> None:
        """Nothing to declare: an index that is kept is kept in sync."""


def _placed(name: str, dataset: Dataset, info: TableInfo, rows_of: Callable[[str], Dataset | None]) -> PlacedIndex:
    kind = attributes.read_text(dataset, KIND) or ""
    named = attributes.read_text(dataset, COLUMN)
    column = named if named in info.by_name else None
    listed = dataset.reference_addresses(INDEXED_COLUMNS)
    rows = rows_of(column) if column is not None else None
    problem = None
    if not kind:
        problem = "it does not declare its kind"
    elif column is None:
        problem = "it does not name a column of the table"
    elif rows is None or listed != [rows.address]:
        problem = "it does not refer to the rows of its column, which may have been replaced"
    return PlacedIndex(name, kind, column, dataset, problem)


# -- checking and fixing --
# The index kind itself decides whether an index matches its column, so that the checker and the queries agree.


def index_breaches(indexes: Sequence[PlacedIndex], info: TableInfo) -> Iterator[Breach]:
    """Indexes that do not declare their kind and column, refer to other rows, or do not match them."""
    for index in indexes:
        path = _path(index, info)
        if index.kind and kind_in_file(index.kind) is None:
            message = "an index of an unknown kind: it is kept, but not used"
            yield Breach("note", path, message, repr(index.kind), f"one of {', '.join(KINDS)}")
            continue
        problem = _problem_of(index, info)
        if problem is not None:
            yield Breach("error", path, f"the index is not used: {problem}", problem, "an index of this column")


def _path(index: PlacedIndex, info: TableInfo) -> str:
    return join_path(join_path(info.path, HOME), index.name)


def _problem_of(index: PlacedIndex, info: TableInfo) -> str | None:
    """Why an index cannot be used, by its header and attributes; None when it can."""
    if index.problem is not None or index.column is None:
        return index.problem
    column, kind = info.by_name[index.column], kind_in_file(index.kind)
    if kind is None:
        return f"its kind, {index.kind}, is unknown"
    try:
        return refusal(column) or kind.open(index.dataset, column, None, "april").problem()
    except BAD_INDEX as error:
        return str(error)


def index_plans(
    indexes: Sequence[PlacedIndex], info: TableInfo, rule: str, wrong: Collection[str], may_build: bool = True
) -> list[IndexPlan]:
    """The indexes to remove because of this rule or because their contents are wrong. Unknown kinds are kept."""
    found = []
    for index in indexes:
        kind = kind_in_file(index.kind)
        rules = [] if _problem_of(index, info) is None else [rule]
        rules += ["S8"] if index.name in wrong else []
        if rules and kind is not None:
            path = _path(index, info)
            can = may_build and index.column is not None and refusal(info.by_name[index.column]) is None
            fixes = tuple((one, shown_name(path)) for one in rules)
            found.append(
                IndexPlan(index.name, path, index.dataset.address, kind.word, index.column if can else None, fixes)
            )
    return found


def remove_planned(group: EditableGroup, indexes: Sequence[PlacedIndex], gone: Sequence[IndexPlan]) -> None:
    """Remove indexes and their values."""
    lost = {plan.address for plan in gone}
    for index in indexes:
        if index.dataset.address in lost:
            remove_index(group, index)
