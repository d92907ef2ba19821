"""The rules for what pandas stores. Its format has no specification: the rules are what pandas needs to read it.

What the description has noted is reported here: an error breaks PD1, what is hidden in pickles PD2 and PD3.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType

from colonnade.dataclass import dataclass
from colonnade.errors import ColonnadeError, UnsupportedError
from colonnade.layouts import index_home
from colonnade.layouts.index_home import IndexPlan
from colonnade.layouts.named_indexes import index_breaches, index_plans, remove_planned
from colonnade.layouts.pandas.describe import describe, own_attributes
from colonnade.layouts.pandas.pickles import is_pickled
from colonnade.layouts.pandas.search import search_indexes
from colonnade.model import Breach, ColumnInfo, Repair, Rule, Severity, TableInfo
from colonnade.nodes import Group
from colonnade.nodes.paths import editable, join_path
from colonnade.nodes.protocols import Child


@dataclass
class RawStore:
    """A table as the rules check it: its description, with what that has noted. No rule reads values."""

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
        """The names of the columns whose values are to be checked."""
        return {column.name for column in self.info.members}


def _noted(severity: Severity) -> Callable[[RawStore], Iterator[Breach]]:
    """What the description has noted with this severity."""

    def noted(raw: RawStore) -> Iterator[Breach]:
        for problem in raw.info.problems:
            if problem.severity == severity:
                yield Breach(severity, problem.path, problem.message, problem.message)

    return noted


def attributes_are_plain(raw: RawStore) -> Iterator[Breach]:
    """PD3: attributes that users have set are of types that HDF5 has."""
    own = own_attributes(raw.group)
    for name in raw.group.attribute_names():
        if name not in own and is_pickled(raw.group, name):
            yield Breach("note", raw.path, f"attribute {name!r} is a pickle, which is not loaded", name)


def indexes_suit(raw: RawStore) -> Iterator[Breach]:
    """PD5: a search index names its column, refers to its dataset, and matches it."""
    yield from index_breaches(search_indexes(raw.group, raw.info), raw.info)


_AGAIN = "Read it with the version of pandas that wrote it, and write it again."

RULES: tuple[Rule, ...] = (
    Rule(
        "PD1",
        "none: pandas' own",
        "A frame has axes and blocks, or a table of records. Each column is in one block, and all have one length.",
        _AGAIN,
        (_noted("error"),),
    ),
    Rule(
        "PD2",
        "none: pandas' own",
        "Columns, and the names of columns, are stored in types of HDF5, not as pickled Python objects.",
        'Write the frame again with data_columns=True and format="table", which stores strings as strings.',
        (_noted("warning"),),
    ),
    Rule(
        "PD3",
        "none: pandas' own",
        "What columns mean (their zones, frequencies, days) is stored in types of HDF5, and so are users' attributes.",
        "Convert the file to another layout, and set what was lost there.",
        (_noted("note"), attributes_are_plain),
    ),
    Rule(
        "PD4",
        "none: pandas' own",
        "Codes are those of categories or levels, or -1; strings are UTF-8.",
        _AGAIN,
        deep=True,
    ),
    Rule(
        "PD5",
        "none: colonnade's own",
        "A search index names its column, refers to its dataset, and matches it.",
        "`colonnade fix` rebuilds or drops the index. No data is lost: an index holds none.",
        (indexes_suit,),
    ),
)  # fmt: skip
NOT_SHOWN: Mapping[str, str] = MappingProxyType({})
INDEX_HOME = index_home.HOME


def variant(_text: str) -> None:
    """pandas has one set of rules."""


def inspect(group: Group, path: str, _values: bool, _variant: object) -> RawStore:
    """The table as its rules check it."""
    return RawStore(group, path, describe(group, path))


def claims(_group: Group, _path: str, _values: bool, _variant: object) -> list[tuple[str, Breach]]:
    """A group without the attribute pandas_type is not meant as a table."""
    return []


def dataset_claim(_group: Group, _path: str, _child: Child) -> None:
    """A dataset is never meant as a table of pandas."""


def not_inspected(path: str, error: ColonnadeError) -> tuple[str, Breach]:
    """For a table that cannot be described."""
    return "H1", Breach("error", path, f"this table cannot be described: {error}", str(error), "a table of pandas")


def unreadable(raw: RawStore, column: ColumnInfo, error: ColonnadeError) -> tuple[str, Breach]:
    """For rows that could not be read: the rule this breaks, and how."""
    path = join_path(raw.path, column.name)
    if isinstance(error, UnsupportedError):
        return "PD2", Breach("note", path, f"the values are not checked: {error}", str(error))
    return "PD4", Breach("error", path, f"the rows cannot be read: {error}", str(error), "rows that can be read")


def missing_is_described(_raw: RawStore, _column: ColumnInfo) -> None:
    """Missing rows need no description."""


def repairs(_raw: RawStore, _removed_indexes: Collection[int]) -> list[Repair]:
    """Only indexes can be fixed."""
    return []


def bad_indexes(raw: RawStore, wrong: Collection[str]) -> list[IndexPlan]:
    """The indexes to remove. `wrong` are the names of those whose contents are wrong."""
    return index_plans(search_indexes(raw.group, raw.info), raw.info, "PD5", wrong)


def remove_indexes(raw: RawStore, gone: Sequence[IndexPlan]) -> None:
    """Remove indexes and their values."""
    remove_planned(editable(raw.group), search_indexes(raw.group, raw.info), gone)


def other_objects(
    _group: Group, _path: str, _values: bool, _in_table: bool
) -> Iterator[tuple[RawStore, list[tuple[str, Breach]]]]:
    """pandas has no rules for other objects."""
    yield from ()


def other_table(_group: Group, _path: str) -> Iterator[tuple[str, Breach]]:
    """A table of another layout is not one of pandas."""
    yield from ()
