"""The rules for what pandas stores. Its format has no specification: the rules are what pandas needs to read it.

What the description has noted is reported here: an error breaks PD1, what is hidden in pickles PD2 and PD3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from colonnade.errors import ColonnadeError, UnsupportedError
from colonnade.layouts.contract import Broken
from colonnade.layouts.pandas.describe import describe, own_attributes
from colonnade.layouts.pandas.pickles import is_pickled
from colonnade.layouts.pandas.search import PART as INDEXES
from colonnade.layouts.table_rules import DescribedTable, TableRules, index_rule
from colonnade.model import Breach, ColumnInfo, Rule, Severity
from colonnade.nodes import Group
from colonnade.nodes.paths import join_path


def _noted(severity: Severity) -> Callable[[DescribedTable], Iterator[Breach]]:
    """What the description has noted with this severity."""

    def noted(raw: DescribedTable) -> Iterator[Breach]:
        for problem in raw.info.problems:
            if problem.severity == severity:
                yield Breach(severity, problem.path, problem.message, problem.message)

    return noted


def attributes_are_plain(raw: DescribedTable) -> Iterator[Breach]:
    """PD3: attributes that users have set are of types that HDF5 has."""
    own = own_attributes(raw.group)
    for name in raw.group.attribute_names():
        if name not in own and is_pickled(raw.group, name):
            yield Breach("note", raw.path, f"attribute {name!r} is a pickle, which is not loaded", name)


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
    index_rule("PD5", "A search index names its column, refers to its dataset, and matches it.", INDEXES),
)  # fmt: skip


class PandasRules(TableRules[DescribedTable]):
    def inspect(self, group: Group, path: str, _values: bool, _variant: object) -> DescribedTable:
        return DescribedTable(group, path, describe(group, path))

    def not_inspected(self, path: str, error: ColonnadeError) -> Broken:
        return "H1", Breach("error", path, f"this table cannot be described: {error}", str(error), "a table of pandas")

    def unreadable(self, raw: DescribedTable, column: ColumnInfo, error: ColonnadeError) -> Broken:
        path = join_path(raw.path, column.name)
        if isinstance(error, UnsupportedError):
            return "PD2", Breach("note", path, f"the values are not checked: {error}", str(error))
        return "PD4", Breach("error", path, f"the rows cannot be read: {error}", str(error), "rows that can be read")


PART = PandasRules(RULES, INDEXES, "PD5")
