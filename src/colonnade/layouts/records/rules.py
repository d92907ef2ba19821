"""Rules for tables that are datasets of a compound type, of the layouts `compound` and `pytables`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from colonnade.errors import ColonnadeError
from colonnade.layouts.contract import Broken
from colonnade.layouts.records.search import PART as INDEXES
from colonnade.layouts.records.tables import dataset_of, field_texts
from colonnade.layouts.table_rules import DescribedTable, TableRules, index_rule
from colonnade.model import Breach, ColumnInfo, Rule, TableInfo
from colonnade.nodes import Group
from colonnade.nodes.paths import join_path


def names_agree(table: DescribedTable) -> Iterator[Breach]:
    """FIELD_n_NAME is the name of the member n."""
    strings = field_texts(table.group)
    for position, field in enumerate(dataset_of(table.group).describe().type.fields):
        name = strings.get(position, {}).get("NAME")
        if name is not None and name != field.name:
            path = join_path(table.path, field.name)
            yield Breach("warning", path, f"FIELD_{position}_NAME is not the name of the member", name, field.name)


class RecordRules(TableRules[DescribedTable]):
    """The rules of one of the layouts; `letter` begins the numbers of its rules."""

    def __init__(
        self, letter: str, clause: str, describe: Callable[[Group, str], TableInfo], more: Sequence[Rule] = ()
    ) -> None:
        self._describe, self._value_rule = describe, f"{letter}1"
        rules = (
            Rule(
                self._value_rule,
                clause,
                "The values of all members can be read.",
                "Restore the file from a copy, or convert the other columns.",
                deep=True,
            ),
            Rule(
                f"{letter}2",
                clause,
                "The attributes FIELD_n_NAME are the names of the members, in their order.",
                "Set the attribute; readers here go by the members.",
                (names_agree,),
            ),
            index_rule(
                f"{letter}3",
                "A search index of a compound table names its column, refers to the dataset, and matches the column.",
                INDEXES,
            ),
            *more,
        )
        super().__init__(rules, INDEXES, f"{letter}3")

    def inspect(self, group: Group, path: str, _values: bool, _variant: object) -> DescribedTable:
        return DescribedTable(group, path, self._describe(group, path))

    def not_inspected(self, path: str, error: ColonnadeError) -> Broken:
        return "H1", Breach("error", path, f"this table cannot be described: {error}", str(error), "a compound dataset")

    def unreadable(self, raw: DescribedTable, column: ColumnInfo, error: ColonnadeError) -> Broken:
        path, message = join_path(raw.path, column.name), f"the rows cannot be read: {error}"
        return self._value_rule, Breach("error", path, message, str(error), "rows that can be read")
