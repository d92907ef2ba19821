"""Rules that only the values of a column show: C6 and C8; and what it means when they cannot be read.

Who reads them (`check`) says what was seen; here is what the rules make of it.
"""

from __future__ import annotations

from colonnade.columns.fills import missing_line
from colonnade.errors import ColonnadeError, UnsupportedError
from colonnade.h5.links import join_path
from colonnade.layouts.hep001 import names
from colonnade.layouts.hep001.rules_attributes import text_of
from colonnade.layouts.hep001.seen import SeenTable
from colonnade.model import Breach, ColumnInfo


def missing_is_described(table: SeenTable, column: ColumnInfo) -> Breach | None:
    """C6, of a column that has missing rows: `description` should name the fill value that marks them."""
    if column.fill is None or (column.categories is not None and column.type.signed):
        return None  # -1 needs no word: the document names it
    one = table.datasets[column.name]
    text = text_of(one.attributes.get(names.DESCRIPTION)) or ""
    fill = missing_line(column.type, column.fill).removeprefix("Missing value: ").removesuffix(".")
    if fill in text or any(word in text.lower() for word in ("missing", "fill")):
        return None
    message = "rows are missing, and the description does not say which value marks them"
    return Breach("warning", one.path, message, repr(text) if text else "no description", f"a word on {fill}")


def unreadable(table: SeenTable, column: ColumnInfo, error: ColonnadeError) -> tuple[str, Breach]:
    """Rows that could not be read: the rule that this breaks, and how."""
    path = join_path(table.path, column.name)
    if isinstance(error, UnsupportedError):
        return "C5", Breach("note", path, f"the rows are not checked: {error}", str(error), "filters that are here")
    facts = error.facts
    if column.categories is not None and isinstance(facts.get("found"), int) and "row" in facts:
        found = f"row {facts['row']}: {facts.get('found')}"
        return "C8", Breach(
            "error", path, f"a code is outside the categories: {error}", found, str(facts.get("expected"))
        )
    return "H1", Breach("error", path, f"the rows cannot be read: {error}", str(error), "rows that can be read")
