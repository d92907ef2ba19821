"""Facts as text: the console, cells that are safe for a terminal, and the lines several commands share.

rich is loaded only where it is needed. Rows side by side do not need it, so `where` and `head` answer at once.
"""

from __future__ import annotations

import json
import os
import sys
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from typing import TYPE_CHECKING, TextIO

import click

from colonnade.cli.answer import Facts, printable
from colonnade.dataclass import dataclass
from colonnade.errors import UsageError
from colonnade.table.show import cell_text, size_text

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    from colonnade.row_files.sinks import ByteStream
    from colonnade.table import Column

MOST_LINES = 500
WIDEST_CELL = 40
NARROW_CELL = 8
COLUMN_GAP = 2
NUMBER_TYPES = ("int", "uint", "float", "double", "halffloat", "decimal")


def open_console(stderr: bool = False) -> Console:
    """A console that prints text as it is: names in a file are never interpreted as markup."""
    from rich.console import Console

    _escape_unknown(sys.stderr if stderr else sys.stdout)
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def _escape_unknown(stream: TextIO) -> None:
    """Escape characters that the encoding of the stream does not have."""
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")


def terminal_width() -> int:
    """The width of the terminal, found as rich does: COLUMNS if set, otherwise that of a stream that is a terminal,
    otherwise 80."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdigit():
        return int(columns)
    for stream in (sys.__stdin__, sys.__stdout__, sys.__stderr__):
        try:
            width = os.get_terminal_size(stream.fileno()).columns if stream is not None else 0
        except (OSError, ValueError):  # no terminal, or closed
            continue
        if width:
            return width
    return 80


def say(text: str) -> None:
    """Print a line about what was shown."""
    click.echo(click.style(text, dim=True))


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def cut(text: str, width: int = WIDEST_CELL) -> str:
    """The text, cut to `width` columns of a terminal."""
    if cell_len(text) <= width:
        return text
    from rich.cells import set_cell_size

    return set_cell_size(text, width - 1).rstrip() + "…"


def cell_len(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def value_text(value: object) -> str:
    """One plain value as the text of a cell."""
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, (bool, list, dict)) else cell_text(value)
    return cut(printable(text))


def units_text(units: str | None) -> str:
    """The units, unless the type of a timestamp already states them."""
    return "" if units is None or " since " in units else units


def cell(text: str | None, style: str = "") -> Text:
    """Text from a file, made safe for a terminal."""
    from rich.text import Text

    return Text(printable(text or ""), style)


def lines(*parts: Text) -> Text:
    """Cells under each other, without the empty ones."""
    from rich.text import Text

    return Text("\n").join([part for part in parts if part.plain])


def new_grid(*heads: str, right: tuple[str, ...] = ()) -> Grid:
    """An empty text table; long cells are wrapped."""
    from rich.table import Table as Grid

    grid = Grid(box=None, padding=(0, COLUMN_GAP, 0, 0), pad_edge=False, header_style="bold")
    for title in heads:
        grid.add_column(title, justify="right" if title in right else "left", overflow="fold")
    return grid


def show_file(console: Console, facts: Facts, tables: int, others: int | None = None) -> None:
    """Print the line about the file itself."""
    other_objects = "" if others is None else f", {plural(others, 'other object')}"
    line = cell(facts["name"], "bold")
    line.append(f"  {size_text(facts['bytes'])}, {plural(tables, 'table')}{other_objects}")
    console.print(line, soft_wrap=True)


def show_title(console: Console, table: Facts) -> bool:
    """Print path, title and description of a table, or why it cannot be described; returns whether there is more to
    show."""
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
    """Print a grid with one row per column of a table, and how many columns were left out."""
    for row in rows:
        grid.add_row(*row)
    console.print(grid)
    if n_columns > len(rows):
        console.print(f"... and {plural(n_columns - len(rows), 'more column')}; --json shows all", style="dim")


def name_cell(column: Facts) -> Text:
    """The name of a column, and under it whether it is a label."""
    return lines(cell(column["name"]), cell("label" if column["label"] else "", "dim"))


# -- rows side by side --


@dataclass(frozen=True)
class ReadColumn:
    """A column of some rows: its values as plain data, or why they cannot be read."""

    column: Column
    type: str
    values: list[object]
    problem: str | None = None


@dataclass(frozen=True)
class TextColumn:
    """One column of text: its title, a line under the title, its cells, all of one width."""

    title: str
    under: str
    cells: list[str]
    right: bool
    width: int

    def aligned(self, text: str) -> str:
        space = " " * (self.width - cell_len(text))
        return space + text if self.right else text + space


def show_side_by_side(numbers: Sequence[int], columns: Iterable[ReadColumn]) -> tuple[int, list[ReadColumn]]:
    """Print the columns that fit next to the row numbers; returns how many did, and which could not be read."""
    shown = [f"{row:,}" for row in numbers]
    wide = max(len(text) for text in (*shown, "row"))
    unreadable: list[ReadColumn] = []
    fitting = _fitting(columns, terminal_width() - wide - COLUMN_GAP, unreadable)
    _escape_unknown(sys.stdout)
    click.echo("\n".join(_row_lines(shown, wide, fitting)))
    return len(fitting), unreadable


def show_unreadable(columns: Sequence[ReadColumn]) -> None:
    """Print a line for each column that could not be read."""
    if not columns:
        return
    console = open_console()
    for column in columns:
        console.print(cell(f"column {column.column.name} cannot be read: {column.problem}", "red"))


def columns_shown(n_shown: int, n_columns: int, n_unreadable: int) -> str:
    """How many columns were shown, and what to do about the others."""
    left_out = n_columns - n_shown - n_unreadable
    text = f"{n_columns - left_out:,} of {plural(n_columns, 'column')}"
    return f"{text}; {left_out:,} left out, choose with --columns" if left_out else text


def _fitting(columns: Iterable[ReadColumn], room: int, unreadable: list[ReadColumn]) -> list[TextColumn]:
    """The first columns that fit into `room` characters, at least one; no column after them is read."""
    chosen: list[TextColumn] = []
    for column in columns:
        if column.problem is not None:
            unreadable.append(column)
            continue
        shown = _text_column(column)
        room -= shown.width + (COLUMN_GAP if chosen else 0)
        if room < 0 and chosen:
            break
        chosen.append(shown)
    return chosen


def _text_column(column: ReadColumn) -> TextColumn:
    return text_column(column.column.name, column.column.units, column.type, column.values)


def text_column(name: str, units: str | None, kind: str, values: Sequence[object]) -> TextColumn:
    """Values as cells of one width, under the name and the units, or the type."""
    as_text = _complex_text if kind.startswith("complex") else value_text
    cells = [as_text(value) for value in values]
    title = cut(printable(name))
    under = printable(units_text(units) or kind.removeprefix("categories of "))
    width = max(cell_len(text) for text in (*cells, title, under[:NARROW_CELL]))
    return TextColumn(title, cut(under, width), cells, kind.startswith(NUMBER_TYPES), width)


def show_rows_of(columns: Sequence[TextColumn], n_rows: int) -> int:
    """Print the columns that fit next to the row numbers, counted from 0; returns how many did."""
    numbers = [f"{row:,}" for row in range(n_rows)]
    wide = max(len(text) for text in (*numbers, "row"))
    room, n_fitting = terminal_width() - wide, 0
    for column in columns:
        room -= column.width + COLUMN_GAP
        if room < 0 and n_fitting:
            break
        n_fitting += 1
    _escape_unknown(sys.stdout)
    click.echo("\n".join(_row_lines(numbers, wide, list(columns[:n_fitting]))))
    return n_fitting


def _complex_text(value: object) -> str:
    return value_text(f"{complex(float(value['r']), float(value['i'])):.6g}" if isinstance(value, dict) else None)


def _row_lines(numbers: list[str], wide: int, columns: list[TextColumn]) -> Iterator[str]:
    """Two title lines and one line per row, aligned; without rich, which is slow on many rows."""
    gap = " " * COLUMN_GAP
    titles = [column.aligned(column.title) for column in columns]
    under = [column.aligned(column.under) for column in columns]
    yield click.style(gap.join(["row".rjust(wide), *titles]).rstrip(), bold=True)
    yield click.style(gap.join([" " * wide, *under]).rstrip(), dim=True)
    for at, number in enumerate(numbers):
        cells = [column.aligned(column.cells[at]) for column in columns]
        yield gap.join([click.style(number.rjust(wide), dim=True), *cells]).rstrip()


# -- formats for programs --

NOT_FOR_A_TERMINAL = ("arrow", "arrows", "parquet")


@contextmanager
def stdout_sink(form: str) -> Iterator[pa.NativeFile]:
    """Where a format is printed. What is not text is refused on a terminal."""
    from colonnade.row_files.sinks import pipe_sink

    terminal = sys.stdout.isatty()
    if terminal and form in NOT_FOR_A_TERMINAL:
        raise UsageError(f"cannot write {form} to a terminal: give a file with -o, or pipe it to a program")
    stream = sys.stdout.buffer
    with pipe_sink(_Terminal(stream) if terminal else stream) as sink:
        yield sink


class _Terminal:
    """A terminal: control characters in the output do not reach it raw."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._decoder = getincrementaldecoder("utf-8")("backslashreplace")

    def write(self, data: bytes) -> None:
        text = self._decoder.decode(bytes(data))
        safe = "".join(char if char in "\n\t" else printable(char) for char in text)
        self._stream.write(safe.encode(sys.stdout.encoding or "utf-8", "backslashreplace"))

    def flush(self) -> None:
        self._stream.flush()
