"""`schema`: shows types, units, descriptions and categories of the columns of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from colonnade.cli.answer import FINDINGS, FINE, Facts
from colonnade.cli.choose import tell_tables
from colonnade.cli.text import (
    MOST_LINES,
    cell,
    lines,
    name_cell,
    new_grid,
    open_console,
    plural,
    show_columns,
    show_file,
    show_title,
    value_text,
)
from colonnade.cli.values import plain_values
from colonnade.errors import ColonnadeError
from colonnade.h5.outside import Links
from colonnade.model import ColumnInfo
from colonnade.table import Column, Table
from colonnade.table.show import type_word

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

FEW_CATEGORIES = 8
WIDEST_UNITS = 18


def tell_columns(file: str, table: str | None, as_json: bool, links: Links = "folder") -> int:
    tables = tell_tables(file, table, schema_facts, show_schema, as_json, links)
    return FINDINGS if not tables or any(t["problem"] for t in tables) else FINE


# -- facts --


def schema_facts(table: Table) -> Facts:
    """Types, units, descriptions and categories of the columns of a table."""
    return {
        "path": table.path,
        "title": table.title,
        "description": table.description,
        "rows": table.n_rows,
        "labels": table.labels,
        "columns": [_column_facts(table[column.name]) for column in table.info.members],
        "problem": None,
    }


def _column_facts(column: Column) -> Facts:
    categories, problem = _categories(column)
    return {
        "name": column.name,
        "label": column.info.is_label,
        "type": type_word(column.dtype),
        "arrow_type": str(column.dtype),
        "hdf5_type": str(column.stored_type),
        "units": column.units,
        "units_vocabulary": column.units_vocabulary,
        "description": column.description,
        "ordered": column.ordered,
        "categories": categories,
        "n_categories": _n_categories(column.info),
        "problem": column.info.problem or problem,
    }


def _n_categories(column: ColumnInfo) -> int | None:
    if column.categories is not None:
        return column.categories.n_categories
    return len(column.type.members) if column.type.kind == "enum" else None


def _categories(column: Column) -> tuple[list[Any] | None, str | None]:
    """The first few categories (None for a column without), or why they cannot be read."""
    if column.info.problem is not None:
        return None, None
    try:
        found = column.categories
    except (ColonnadeError, OSError) as error:
        return None, str(error)
    return (None if found is None else plain_values(found.slice(0, FEW_CATEGORIES))), None


# -- text --


def show_schema(facts: Facts) -> None:
    """Print the columns of each table."""
    console = open_console()
    for number, table in enumerate(facts["tables"]):
        if number:
            console.print()
        if show_title(console, table):
            _show_columns(console, table["columns"])
    if not facts["tables"]:
        show_file(console, facts["file"], 0)


def _show_columns(console: Console, columns: list[Facts]) -> None:
    if not columns:
        console.print("no columns", style="dim")
        return
    console.print()
    grid = new_grid("column", "type", "units", "description")
    grid.columns[2].max_width = WIDEST_UNITS
    show_columns(console, grid, [_column_cells(column) for column in columns[:MOST_LINES]], len(columns))


def _column_cells(column: Facts) -> tuple[Text, ...]:
    vocabulary = column["units_vocabulary"] if column["units"] else ""
    return (
        name_cell(column),
        lines(cell(column["type"]), cell(f"as {column['hdf5_type']}", "dim")),
        lines(cell(column["units"]), cell(vocabulary, "dim")),
        lines(cell(column["description"]), cell(_categories_text(column), "dim"), cell(column["problem"], "red")),
    )


def _categories_text(column: Facts) -> str:
    if column["categories"] is None:
        return ""
    names = (" < " if column["ordered"] else ", ").join(value_text(value) for value in column["categories"])
    more = ", ..." if column["n_categories"] > len(column["categories"]) else ""
    return f"{plural(column['n_categories'], 'value')}: {names}{more}"
