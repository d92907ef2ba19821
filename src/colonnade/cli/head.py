"""`head`: rows of a table, side by side in a terminal, or as records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import click
import pyarrow as pa
from rich.cells import cell_len

from colonnade.cli.answer import FINDINGS, FINE, Facts, print_json, printable
from colonnade.cli.choose import asked_columns, asked_rows, file_facts, only_table
from colonnade.cli.text import GAP, cell, cut, open_console, plural, told_units, value_text
from colonnade.cli.values import plain_values
from colonnade.errors import FormatError, UnsupportedError
from colonnade.show import rows_text, type_word
from colonnade.table import Column, File, Table, open

READ_TOGETHER = 50
NARROW_CELL = 8
NUMBERS = ("int", "uint", "float", "double", "halffloat", "decimal")


def show_rows(
    file: str, table: str | None, n_rows: int | None, columns: tuple[str, ...], rows: str | None, as_json: bool
) -> int:
    with open(file) as opened:
        chosen = only_table(opened, table)
        names = asked_columns(chosen, columns)
        numbers = asked_rows(chosen.n_rows, rows, n_rows)
        found = read_columns(chosen, names, numbers, strict=bool(columns))
        if not as_json:
            return show_head(chosen, len(names), numbers, found)
        facts = head_facts(opened, chosen, numbers, found)
    print_json(facts)
    return FINDINGS if facts["unreadable"] else FINE


# -- reading --


@dataclass(frozen=True)
class ReadColumn:
    """One column of `head`: its values as plain data, or why they cannot be read."""

    column: Column
    type: str
    values: list[Any]
    problem: str | None = None


def read_columns(table: Table, names: list[str], rows: range, strict: bool) -> Iterator[ReadColumn]:
    """The columns in order, read some at a time when asked for; with `strict` a broken one is an error."""
    for first in range(0, len(names), READ_TOGETHER):
        yield from _read_together(table, names[first : first + READ_TOGETHER], rows, strict)


def _read_together(table: Table, names: list[str], rows: range, strict: bool) -> Iterator[ReadColumn]:
    """These columns; where one of several cannot be read, each is tried alone."""
    try:
        arrays = _read(table, names, rows).columns
    except (FormatError, UnsupportedError) as error:
        if len(names) > 1:
            for name in names:
                yield from _read_together(table, [name], rows, strict)
            return
        if strict:
            raise
        column = table[names[0]]
        yield ReadColumn(column, type_word(column.dtype), [], str(error))
        return
    for name, array in zip(names, arrays, strict=True):
        values = [value for chunk in array.chunks for value in plain_values(chunk)]
        yield ReadColumn(table[name], type_word(array.type), values)


def _read(table: Table, names: list[str], rows: range) -> pa.Table:
    """These rows; a range that runs backward to row 0 has stop -1, which a slice would count from the end."""
    chosen = slice(rows.start, rows.stop if rows.stop >= 0 else None, rows.step) if rows else slice(0)
    return table.select(names)[chosen].to_arrow()


def head_facts(file: File, table: Table, rows: range, found: Iterable[ReadColumn]) -> Facts:
    """The rows as records, and what could not be read."""
    columns = list(found)
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


# -- text --


@dataclass(frozen=True)
class TextColumn:
    """One column of text: its title, a line under that, its cells, all of one width."""

    title: str
    under: str
    cells: list[str]
    right: bool
    width: int

    def aligned(self, text: str) -> str:
        space = " " * (self.width - cell_len(text))
        return space + text if self.right else text + space


def show_head(table: Table, n_columns: int, rows: range, found: Iterable[ReadColumn]) -> int:
    """Print the columns that fit side by side; the exit code."""
    console = open_console()
    numbers = [f"{row:,}" for row in rows]
    wide = max(len(text) for text in (*numbers, "row"))
    unreadable: list[ReadColumn] = []
    fitting = _fitting(found, console.width - wide - GAP, unreadable)
    click.echo("\n".join(_head_lines(numbers, wide, fitting)))
    left_out = n_columns - len(fitting) - len(unreadable)
    console.print(_foot(table, rows, n_columns, left_out), style="dim")
    for column in unreadable:
        console.print(cell(f"column {column.column.name} cannot be read: {column.problem}", "red"))
    return FINDINGS if unreadable else FINE


def _fitting(found: Iterable[ReadColumn], room: int, unreadable: list[ReadColumn]) -> list[TextColumn]:
    """The first columns that fit into so many characters, at least one; no column after them is read."""
    chosen: list[TextColumn] = []
    for column in found:
        if column.problem is not None:
            unreadable.append(column)
            continue
        made = _text_column(column)
        room -= made.width + (GAP if chosen else 0)
        if room < 0 and chosen:
            break
        chosen.append(made)
    return chosen


def _text_column(column: ReadColumn) -> TextColumn:
    as_text = _complex_text if column.type.startswith("complex") else value_text
    cells = [as_text(value) for value in column.values]
    title = cut(printable(column.column.name))
    under = printable(told_units(column.column.units) or column.type.removeprefix("categories of "))
    width = max(cell_len(text) for text in (*cells, title, under[:NARROW_CELL]))
    return TextColumn(title, cut(under, width), cells, column.type.startswith(NUMBERS), width)


def _complex_text(value: Any) -> str:
    return value_text(None if value is None else f"{complex(float(value['r']), float(value['i'])):.6g}")


def _head_lines(numbers: list[str], wide: int, columns: list[TextColumn]) -> Iterator[str]:
    """Two lines of titles and a line a row, aligned; made by hand, since rich is slow on many rows."""
    gap = " " * GAP
    titles = [column.aligned(column.title) for column in columns]
    under = [column.aligned(column.under) for column in columns]
    yield click.style(gap.join(["row".rjust(wide), *titles]).rstrip(), bold=True)
    yield click.style(gap.join([" " * wide, *under]).rstrip(), dim=True)
    for at, number in enumerate(numbers):
        cells = [column.aligned(column.cells[at]) for column in columns]
        yield gap.join([click.style(number.rjust(wide), dim=True), *cells]).rstrip()


def _foot(table: Table, rows: range, n_columns: int, left_out: int) -> str:
    text = f"{len(rows):,} of {rows_text(table.n_rows)}, {n_columns - left_out} of {plural(n_columns, 'column')}"
    if left_out:
        text += f"; {left_out:,} left out, choose with --columns"
    return text
