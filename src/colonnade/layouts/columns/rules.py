"""The rules for groups of columns. They are checked of vaex's tables, and of groups for which the layout is asked for.

To add a rule, add a function and an entry here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from colonnade.errors import ColonnadeError
from colonnade.layouts.columns import names
from colonnade.layouts.columns.describe import describe
from colonnade.layouts.columns.search import PART as INDEXES
from colonnade.layouts.contract import Broken
from colonnade.layouts.table_rules import DescribedTable, TableRules, index_rule
from colonnade.model import Breach, ColumnInfo, Rule
from colonnade.nodes import Group
from colonnade.nodes.paths import join_path


class RawColumns(DescribedTable):
    """A group of columns as its rules check it."""

    @property
    def n_attributes(self) -> int:
        return sum(self.group.attribute_storage(name) is not None for name in names.GROUP_ATTRIBUTES)


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
    index_rule("G4", "A search index names its column, refers to its rows, and matches them.", INDEXES),
)


class ColumnsRules(TableRules[RawColumns]):
    NOT_SHOWN: Mapping[str, str] = MappingProxyType(
        {
            "csr_matrix": "a column of vaex that is a sparse matrix is not read, and so not checked",
        }
    )

    def inspect(self, group: Group, path: str, _values: bool, _variant: object) -> RawColumns:
        return RawColumns(group, path, describe(group, path))

    def not_inspected(self, path: str, error: ColonnadeError) -> Broken:
        return "G1", Breach("error", path, f"this table cannot be read: {error}", str(error))

    def unreadable(self, table: RawColumns, column: ColumnInfo, error: ColonnadeError) -> Broken:
        path = join_path(table.path, column.link or column.name)
        return "G3", Breach("error", path, f"its values cannot be read: {error}", str(error))


PART = ColumnsRules(RULES, INDEXES, "G4")
