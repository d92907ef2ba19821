"""The rules C6 and C8, which need the values of a column, and the rules broken when values cannot be read.

The checker reads the values; the functions here turn its results into breaches.
"""

from __future__ import annotations

from colonnade.columns.decode import missing_line
from colonnade.errors import ColonnadeError, CorruptError, UnsupportedError
from colonnade.layouts.hep001 import names
from colonnade.layouts.hep001.raw import RawHep001Table
from colonnade.layouts.hep001.rules_attributes import text_of
from colonnade.model import Breach, ColumnInfo
from colonnade.nodes.paths import join_path


def missing_is_described(table: RawHep001Table, column: ColumnInfo) -> Breach | None:
    """C6, for a column with missing rows: `description` should name the fill value that marks them."""
    if column.fill is None or (column.categories is not None and column.type.signed):
        return None  # -1 needs no description: the standard defines it
    one = table.datasets[column.name]
    text = text_of(one.attributes.get(names.DESCRIPTION)) or ""
    fill = missing_line(column.type, column.fill).removeprefix("Missing value: ").removesuffix(".")
    if fill in text or any(word in text.lower() for word in ("missing", "fill")):
        return None
    message = "rows are missing, but the description does not state which value marks them"
    return Breach("warning", one.path, message, repr(text) if text else "no description", f"a mention of {fill}")


def unreadable(table: RawHep001Table, column: ColumnInfo, error: ColonnadeError) -> tuple[str, Breach]:
    """For rows that could not be read: the rule this breaks, and how."""
    path = join_path(table.path, column.name)
    if isinstance(error, UnsupportedError):
        return "C5", Breach("note", path, f"the rows are not checked: {error}", str(error), "available filters")
    if column.categories is not None and isinstance(error, CorruptError) and isinstance(error.found, int):
        found = f"row {error.row}: {error.found}"
        return "C8", Breach("error", path, f"a code is outside the categories: {error}", found, str(error.expected))
    return "H1", Breach("error", path, f"the rows cannot be read: {error}", str(error), "rows that can be read")
