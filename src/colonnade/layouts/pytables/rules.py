"""Rules for tables of PyTables."""

from __future__ import annotations

from collections.abc import Iterator

from colonnade.layouts.pytables.describe import describe
from colonnade.layouts.pytables.pickled import pickled_names
from colonnade.layouts.records import tables as record_tables
from colonnade.layouts.records.rules import RecordRules
from colonnade.layouts.table_rules import DescribedTable
from colonnade.model import Breach, Rule
from colonnade.nodes.paths import join_path


def rows_are_counted(table: DescribedTable) -> Iterator[Breach]:
    """NROWS is the number of rows. PyTables goes by the dataset, other programs by the attribute."""
    counted = table.group.read_attribute(record_tables.NROWS)
    if counted is not None and counted != table.info.n_rows:
        message = "NROWS is not the number of rows"
        yield Breach("warning", table.path, message, str(counted), str(table.info.n_rows))


def nothing_is_pickled(table: DescribedTable) -> Iterator[Breach]:
    """Attributes are values, not programs."""
    for name in pickled_names(table.group):
        message = "this attribute is a Python pickle, which is not loaded: a pickle may run any program"
        yield Breach("note", join_path(table.path, name), message, "a pickle", "a value of NumPy")


PART = RecordRules(
    "P",
    "PyTables, File format",
    describe,
    (
        Rule(
            "P4",
            "PyTables, File format",
            "The attribute NROWS of a table is the number of its rows.",
            "Append a row, or set the attribute.",
            (rows_are_counted,),
        ),
        Rule(
            "P5",
            "none: colonnade's own",
            "No attribute is a Python pickle.",
            "Store numbers, strings and arrays of NumPy instead.",
            (nothing_is_pickled,),
        ),
    ),
)
