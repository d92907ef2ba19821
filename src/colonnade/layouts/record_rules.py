"""Rules for tables that are datasets of a compound type, of the layouts `compound` and `pytables`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from colonnade.dataclass import dataclass
from colonnade.errors import ColonnadeError
from colonnade.layouts.contract import Broken
from colonnade.layouts.index_home import HOME, IndexPlan
from colonnade.layouts.named_indexes import index_breaches, index_plans, remove_planned
from colonnade.layouts.record_search import search_indexes
from colonnade.layouts.record_tables import dataset_of, field_texts
from colonnade.model import Breach, ColumnInfo, Repair, Rule, TableInfo
from colonnade.nodes import Group
from colonnade.nodes.paths import editable, join_path
from colonnade.nodes.protocols import Child


@dataclass
class RawRecords:
    """A table as its rules check it."""

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


RecordCheck = Callable[[RawRecords], Iterator[Breach]]


def names_agree(table: RawRecords) -> Iterator[Breach]:
    """FIELD_n_NAME is the name of the member n."""
    strings = field_texts(table.group)
    for position, field in enumerate(dataset_of(table.group).describe().type.fields):
        name = strings.get(position, {}).get("NAME")
        if name is not None and name != field.name:
            path = join_path(table.path, field.name)
            yield Breach("warning", path, f"FIELD_{position}_NAME is not the name of the member", name, field.name)


def indexes_suit(table: RawRecords) -> Iterator[Breach]:
    """An index declares its kind and column, refers to the dataset, and matches the column."""
    yield from index_breaches(search_indexes(table.group, table.info), table.info)


class RecordRules:
    """The rules of one of the layouts; `letter` begins the numbers of its rules."""

    INDEX_HOME = HOME

    def __init__(
        self, letter: str, clause: str, describe: Callable[[Group, str], TableInfo], more: Sequence[Rule] = ()
    ) -> None:
        self._describe = describe
        self.NOT_SHOWN: Mapping[str, str] = {}
        self._index_rule = f"{letter}3"
        self.RULES: tuple[Rule, ...] = (
            Rule(
                f"{letter}1",
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
            Rule(
                self._index_rule,
                "none: colonnade's own",
                "A search index of a compound table names its column, refers to the dataset, and matches the column.",
                "`colonnade fix` rebuilds or drops the index. No data is lost: an index holds none.",
                (indexes_suit,),
            ),
            *more,
        )
        self._value_rule = f"{letter}1"

    def variant(self, _text: str) -> object | None:
        return None

    def inspect(self, group: Group, path: str, _values: bool, _variant: object) -> RawRecords:
        return RawRecords(group, path, self._describe(group, path))

    def claims(self, _group: Group, _path: str, _values: bool, _variant: object) -> list[Broken]:
        return []

    def dataset_claim(self, _group: Group, _path: str, _child: Child) -> Broken | None:
        return None

    def not_inspected(self, path: str, error: ColonnadeError) -> Broken:
        return "H1", Breach("error", path, f"this table cannot be described: {error}", str(error), "a compound dataset")

    def unreadable(self, raw: RawRecords, column: ColumnInfo, error: ColonnadeError) -> Broken:
        path = join_path(raw.path, column.name)
        message = f"the rows cannot be read: {error}"
        return self._value_rule, Breach("error", path, message, str(error), "rows that can be read")

    def missing_is_described(self, _raw: RawRecords, _column: ColumnInfo) -> Breach | None:
        return None

    def repairs(self, _raw: RawRecords, _removed_indexes: Collection[int]) -> list[Repair]:
        return []

    def bad_indexes(self, raw: RawRecords, wrong: Collection[str]) -> list[IndexPlan]:
        return index_plans(search_indexes(raw.group, raw.info), raw.info, self._index_rule, wrong)

    def remove_indexes(self, raw: RawRecords, plans: Sequence[IndexPlan]) -> None:
        remove_planned(editable(raw.group), search_indexes(raw.group, raw.info), plans)

    def other_objects(
        self, _group: Group, _path: str, _values: bool, _in_table: bool
    ) -> Iterator[tuple[RawRecords, Sequence[Broken]]]:
        yield from ()

    def other_table(self, _group: Group, _path: str) -> Iterator[Broken]:
        yield from ()
