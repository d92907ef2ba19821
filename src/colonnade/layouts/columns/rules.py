"""The rules for groups of columns. They are checked of vaex's tables, and of groups for which the layout is asked for.

To add a rule, add a function and an entry here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from colonnade.dataclass import dataclass
from colonnade.errors import ColonnadeError
from colonnade.layouts import index_home
from colonnade.layouts.columns import names
from colonnade.layouts.columns.describe import describe
from colonnade.layouts.columns.search import search_indexes
from colonnade.layouts.index_home import IndexPlan
from colonnade.layouts.named_indexes import index_breaches, index_plans, remove_planned
from colonnade.model import Breach, ColumnInfo, Repair, Rule, TableInfo
from colonnade.nodes import Group
from colonnade.nodes.paths import editable, join_path
from colonnade.nodes.protocols import Child


@dataclass
class RawColumns:
    """A group of columns as its rules check it."""

    group: Group
    path: str
    info: TableInfo
    bytes_read: int = 0

    @property
    def n_columns(self) -> int:
        return len(self.info.members)

    @property
    def n_attributes(self) -> int:
        return sum(self.group.attribute_storage(name) is not None for name in names.GROUP_ATTRIBUTES)

    def checked_columns(self) -> set[str]:
        """The names of the columns whose values are to be checked."""
        return {column.name for column in self.info.members}


def members_are_columns(table: RawColumns) -> Iterator[Breach]:
    """G1: a member that is not a column of the table is a breach where vaex wrote it, and a note elsewhere."""
    for problem in table.info.problems:
        if not problem.message.startswith(names.ORDER):
            yield Breach(problem.severity, problem.path, problem.message)


def order_names_columns(table: RawColumns) -> Iterator[Breach]:
    """G2: column_order names columns."""
    for problem in table.info.problems:
        if problem.message.startswith(names.ORDER):
            yield Breach(problem.severity, problem.path, problem.message)


def indexes_suit(table: RawColumns) -> Iterator[Breach]:
    """G4: an index declares its kind and column, refers to the column's rows, and matches them."""
    yield from index_breaches(search_indexes(table.group, table.info), table.info)


RULES: tuple[Rule, ...] = (
    Rule(
        "G1",
        "columns",
        "Every column has the rows of the table; a mask has one item or bit per row, strings have one offset more.",
        "Write the column again. Members that are not columns are left out, and can stay.",
        (members_are_columns,),
    ),
    Rule(
        "G2",
        "columns",
        "column_order contains the names of the columns, separated by commas.",
        "Export the table again. Columns that are not named come last, in the order of their names.",
        (order_names_columns,),
    ),
    Rule(
        "G3",
        "columns",
        "The values of every column can be read: offsets of strings increase, codes have a category.",
        "Write the column again from its source.",
        deep=True,
    ),
    Rule(
        "G4",
        "none: colonnade's own",
        "A search index names its column, refers to its rows, and matches them.",
        "`colonnade index drop` removes the index, `colonnade index build` builds it again.",
        (indexes_suit,),
    ),
)

# What vaex can store and this layout does not read.
NOT_SHOWN: dict[str, str] = {
    "csr_matrix": "a column of vaex that is a sparse matrix is not read, and so not checked",
}
INDEX_HOME = index_home.HOME


def variant(_text: str) -> None:
    """There is one set of rules."""


def inspect(group: Group, path: str, _values: bool, _variant: object) -> RawColumns:
    """The group as its rules check it."""
    return RawColumns(group, path, describe(group, path))


def claims(_group: Group, _path: str, _values: bool, _variant: object) -> list[tuple[str, Breach]]:
    """A group that does not declare itself a table is not meant as one."""
    return []


def dataset_claim(_group: Group, _path: str, _child: Child) -> None:
    """A dataset is never meant as a group."""


def not_inspected(path: str, error: ColonnadeError) -> tuple[str, Breach]:
    return "G1", Breach("error", path, f"this table cannot be read: {error}", str(error))


def unreadable(table: RawColumns, column: ColumnInfo, error: ColonnadeError) -> tuple[str, Breach]:
    path = join_path(table.path, column.link or column.name)
    return "G3", Breach("error", path, f"its values cannot be read: {error}", str(error))


def missing_is_described(_table: RawColumns, _column: ColumnInfo) -> None:
    """Missing rows need no description."""


def repairs(_table: RawColumns, _removed_indexes: Collection[int]) -> list[Repair]:
    """Only indexes can be fixed."""
    return []


def bad_indexes(table: RawColumns, wrong: Collection[str]) -> list[IndexPlan]:
    """The indexes to remove. `wrong` are the names of those whose contents are wrong."""
    return index_plans(search_indexes(table.group, table.info), table.info, "G4", wrong)


def remove_indexes(table: RawColumns, gone: Sequence[IndexPlan]) -> None:
    """Remove indexes and their values."""
    remove_planned(editable(table.group), search_indexes(table.group, table.info), gone)


def other_objects(
    _group: Group, _path: str, _values: bool, _in_table: bool
) -> Iterator[tuple[RawColumns, list[tuple[str, Breach]]]]:
    """Only tables have rules."""
    yield from ()


def other_table(_group: Group, _path: str) -> Iterator[tuple[str, Breach]]:
    """A table of another layout is not checked by these rules."""
    yield from ()
