"""What the rules of most layouts do: it satisfies `contract.Rules`. A layout extends it where its own differ."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Generic

from colonnade.dataclass import dataclass
from colonnade.errors import ColonnadeError
from colonnade.layouts.contract import Broken, R, RawObject, RawTable
from colonnade.layouts.index_home import HOME, IndexPlan
from colonnade.layouts.named_indexes import NamedIndexes, index_breaches, index_plans, remove_planned
from colonnade.model import Breach, ColumnInfo, Repair, Rule, TableInfo
from colonnade.nodes import Group
from colonnade.nodes.paths import editable
from colonnade.nodes.protocols import Child


class TableRules(Generic[R]):
    """One set of rules, for tables only; only their search indexes can be fixed.

    index_rule: the number of the rule about search indexes.
    """

    NOT_SHOWN: Mapping[str, str] = MappingProxyType({})
    INDEX_HOME = HOME

    def __init__(self, rules: tuple[Rule, ...], indexes: NamedIndexes, index_rule: str) -> None:
        self.RULES = rules
        self._indexes, self._index_rule = indexes, index_rule

    def inspect(self, group: Group, path: str, values: bool, variant: object) -> R:
        raise NotImplementedError

    def not_inspected(self, path: str, error: ColonnadeError) -> Broken:
        raise NotImplementedError

    def unreadable(self, raw: R, column: ColumnInfo, error: ColonnadeError) -> Broken:
        raise NotImplementedError

    def variant(self, _text: str) -> object | None:
        return None

    def claims(self, _group: Group, _path: str, _values: bool, _variant: object) -> Iterable[Broken]:
        return ()

    def dataset_claim(self, _group: Group, _path: str, _child: Child) -> Broken | None:
        return None

    def missing_is_described(self, _raw: R, _column: ColumnInfo) -> Breach | None:
        return None

    def repairs(self, _raw: R, _removed_indexes: Collection[int]) -> list[Repair]:
        return []

    def bad_indexes(self, raw: R, wrong: Collection[str]) -> list[IndexPlan]:
        placed = self._indexes.search_indexes(raw.group, raw.info)
        return index_plans(placed, raw.info, self._index_rule, wrong)

    def remove_indexes(self, raw: R, plans: Sequence[IndexPlan]) -> None:
        remove_planned(editable(raw.group), self._indexes.search_indexes(raw.group, raw.info), plans)

    def other_objects(
        self, _group: Group, _path: str, _values: bool, _in_table: bool
    ) -> Iterator[tuple[RawObject, Sequence[Broken]]]:
        yield from ()

    def other_table(self, _group: Group, _path: str) -> Iterator[Broken]:
        yield from ()


@dataclass
class DescribedTable:
    """A table as rules check it that need no more than its description."""

    group: Group
    path: str
    info: TableInfo
    bytes_read: int = 0

    @property
    def n_columns(self) -> int:
        return len(self.info.members)

    @property
    def n_attributes(self) -> int:
        return len(self.group.attribute_names())

    def checked_columns(self) -> set[str]:
        return {column.name for column in self.info.members}


def index_rule(number: str, requires: str, indexes: NamedIndexes) -> Rule:
    """The rule that an index declares its kind and column, refers to the rows of the column, and matches them."""

    def indexes_suit(table: RawTable) -> Iterator[Breach]:
        yield from index_breaches(indexes.search_indexes(table.group, table.info), table.info)

    advice = "`colonnade fix` rebuilds or drops the index. No data is lost: an index holds none."
    return Rule(number, "none: colonnade's own", requires, advice, (indexes_suit,))
