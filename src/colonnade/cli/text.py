"""Facts as text for people: the console, cells that are safe for a terminal, and the lines several commands share."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from colonnade.cli.answer import Facts, printable
from colonnade.show import cell_text, size_text

MOST_LINES = 500
WIDEST_CELL = 40
GAP = 2


def open_console(stderr: bool = False) -> Console:
    """A console that prints text as it is: nothing in a file's names is taken for markup."""
    stream: Any = sys.stderr if stderr else sys.stdout
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def cut(text: str, width: int = WIDEST_CELL) -> str:
    """The text in so many columns of a terminal."""
    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"


def value_text(value: Any) -> str:
    """One plain value in a cell."""
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, (bool, list, dict)) else cell_text(value)
    return cut(printable(text))


def told_units(units: str | None) -> str:
    """The units, but not those that the type of a timestamp says already."""
    return "" if units is None or " since " in units else units


def cell(text: str | None, style: str = "") -> Text:
    """Text from a file, made safe for a terminal."""
    return Text(printable(text or ""), style)


def lines(*parts: Text) -> Text:
    """Cells under each other, the empty ones left out."""
    return Text("\n").join([part for part in parts if part.plain])


def new_grid(*heads: str, right: tuple[str, ...] = ()) -> Grid:
    """An empty table of text; long cells are broken over lines."""
    grid = Grid(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold")
    for title in heads:
        grid.add_column(title, justify="right" if title in right else "left", overflow="fold")
    return grid


def show_file(console: Console, facts: Facts, tables: int, others: int | None = None) -> None:
    """The line about the file itself."""
    beside = "" if others is None else f", {plural(others, 'other object')}"
    line = cell(facts["name"], "bold")
    line.append(f"  {size_text(facts['bytes'])}, {plural(tables, 'table')}{beside}")
    console.print(line, soft_wrap=True)


def show_title(console: Console, table: Facts) -> bool:
    """Path, title and description of a table, or why it cannot be described; whether there is more to show."""
    line = cell(table["path"], "bold")
    if table["problem"]:
        console.print(line, soft_wrap=True)
        console.print(cell(table["problem"], "red"))
        return False
    if table["title"]:
        line.append_text(cell(f"  {table['title']}"))
    console.print(line, soft_wrap=True)
    if table["description"]:
        console.print(cell(table["description"], "dim"))
    return True


def show_columns(console: Console, grid: Grid, rows: Sequence[tuple[Text, ...]], n_columns: int) -> None:
    """A grid with a row for each column of a table, and how many columns were left out."""
    for row in rows:
        grid.add_row(*row)
    console.print(grid)
    if n_columns > len(rows):
        console.print(f"... and {plural(n_columns - len(rows), 'more column')}; --json shows all", style="dim")


def name_cell(column: Facts) -> Text:
    """The name of a column, and under it whether it is a label."""
    return lines(cell(column["name"]), cell("label" if column["label"] else "", "dim"))
