"""`head`: shows rows of a table side by side, or as records."""

from __future__ import annotations

from collections.abc import Iterable

from colonnade.cli.answer import FINDINGS, FINE, Facts, print_json
from colonnade.cli.choose import Access, asked_columns, asked_rows, file_facts, only_table, read_columns
from colonnade.cli.text import ReadColumn, columns_shown, say, show_side_by_side, show_unreadable
from colonnade.table import File, Query, Table
from colonnade.table.show import rows_text


def show_rows(
    file: str,
    table: str | None,
    n_rows: int | None,
    columns: tuple[str, ...],
    rows: str | None,
    as_json: bool,
    access: Access,
) -> int:
    with access.open(file) as opened:
        chosen = only_table(opened, table)
        names = asked_columns(chosen, columns)
        numbers = asked_rows(chosen.n_rows, rows, n_rows)
        columns_read = read_columns(chosen, _rows(chosen, numbers), names, strict=bool(columns))
        if not as_json:
            return show_head(chosen, len(names), numbers, columns_read)
        facts = head_facts(opened, chosen, numbers, columns_read)
    print_json(facts)
    return FINDINGS if facts["unreadable"] else FINE


def _rows(table: Table, rows: range) -> Query:
    """The given rows. A range that runs backward to row 0 has stop -1, which a slice would count from the end."""
    return table[slice(rows.start, rows.stop if rows.stop >= 0 else None, rows.step) if rows else slice(0)]


def head_facts(file: File, table: Table, rows: range, read: Iterable[ReadColumn]) -> Facts:
    """The rows as records, and which columns could not be read."""
    columns = list(read)
    good = [c for c in columns if c.problem is None]
    return {
        "file": file_facts(file),
        "table": table.path,
        "n_rows": table.n_rows,
        "columns": [
            {"name": c.column.name, "type": c.type, "units": c.column.units, "label": c.column.info.is_label}
            for c in good
        ],
        "row_numbers": list(rows),
        "rows": [{c.column.name: c.values[at] for c in good} for at in range(len(rows))],
        "unreadable": [{"column": c.column.name, "message": c.problem} for c in columns if c.problem is not None],
    }


def show_head(table: Table, n_columns: int, rows: range, read: Iterable[ReadColumn]) -> int:
    """Print the columns that fit side by side; returns the exit code."""
    n_shown, unreadable = show_side_by_side(rows, read)
    rows_shown = f"{len(rows):,} of {rows_text(table.n_rows)}"
    say(f"{rows_shown}, {columns_shown(n_shown, n_columns, len(unreadable))}")
    show_unreadable(unreadable)
    return FINDINGS if unreadable else FINE
