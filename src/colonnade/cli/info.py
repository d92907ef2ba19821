"""`info` and `schema`: how a table is stored and what is wrong with it; the types and meaning of its columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from colonnade.cli.answer import FINDINGS, FINE, Facts
from colonnade.cli.choose import print_tables
from colonnade.cli.text import (
    MOST_LINES,
    cell,
    cut,
    lines,
    name_cell,
    new_grid,
    open_console,
    plural,
    show_columns,
    show_file,
    show_title,
    units_text,
    value_text,
)
from colonnade.errors import ColonnadeError
from colonnade.model import ColumnInfo, Lists
from colonnade.pager.options import Links
from colonnade.row_files.plain import plain_value, plain_values
from colonnade.table import Column, Table
from colonnade.table.show import size_text, type_word

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


WIDEST_FILL = 20

FEW_CATEGORIES = 8
WIDEST_UNITS = 18


def print_storage(file: str, table: str | None, as_json: bool, links: Links = "folder") -> int:
    tables = print_tables(file, table, info_facts, show_info, as_json, links)
    serious = [p for t in tables for p in t["problems"] if p["severity"] != "note"]
    return FINDINGS if serious or not tables or any(t["problem"] for t in tables) else FINE


# -- facts --


def info_facts(table: Table) -> Facts:
    """How a table is stored."""
    columns = [_stored_column_facts(table[column.name]) for column in table.info.members]
    return {
        "path": table.path,
        "layout": table.layout,
        "version": table.info.version,
        "title": table.title,
        "description": table.description,
        "rows": table.n_rows,
        "labels": table.labels,
        "elsewhere": [{"name": other.name, "place": other.place} for other in table.info.others],
        "left_to_library": [{"path": left.path, "why": left.why} for left in table.info.left_to_library],
        "stored_bytes": sum(column["stored_bytes"] for column in columns),
        "raw_bytes": sum(column["raw_bytes"] for column in columns),
        "columns": columns,
        "problems": [
            {"rule": p.rule, "severity": p.severity, "path": p.path, "message": p.message} for p in table.problems
        ],
        "problem": None,
    }


def _stored_column_facts(column: Column) -> Facts:
    """How one column is stored. Raw bytes count the stored elements: for variable-length columns, the pointers."""
    stored = column.info
    return {
        "name": stored.name,
        "label": stored.is_label,
        "type": type_word(column.dtype),
        "units": stored.units,
        "fill": plain_value(column.fill),
        "masked": stored.is_masked,
        "encoding": stored.encoding,
        "storage": stored.storage,
        "chunk_rows": stored.chunk_rows,
        "filters": column.filters,
        "stored_bytes": column.stored_bytes,
        "raw_bytes": stored.n_rows * stored.type.size,
        "variable_length": stored.leads_elsewhere,
        "target": column._target_path(),
        "problem": stored.problem,
    }


# -- text --


def show_info(facts: Facts) -> None:
    """How each table is stored."""
    console = open_console()
    show_file(console, facts["file"], len(facts["tables"]))
    for table in facts["tables"]:
        console.print()
        if show_title(console, table):
            _show_table(console, table)


def _show_table(console: Console, table: Facts) -> None:
    grid = new_grid("", "")
    grid.show_header = False
    for name, value in _table_lines(table):
        grid.add_row(cell(name, "dim"), cell(value))
    console.print(grid)
    if table["columns"]:
        console.print()
        _show_stored_columns(console, table["columns"])
    if table["problems"]:
        console.print()
        _show_problems(console, table["problems"])


def _table_lines(table: Facts) -> Iterator[tuple[str, str]]:
    columns = [column for column in table["columns"] if not column["label"]]
    stored, raw = table["stored_bytes"], table["raw_bytes"]
    yield "layout", f"{table['layout']}, version {table['version'] or 'not given'}"
    yield "rows", f"{table['rows']:,}"
    yield "columns", f"{len(columns):,}"
    yield "labels", ", ".join(table["labels"]) or "none"
    for other in table["elsewhere"]:
        yield "elsewhere", f"{other['name']} in {other['place'] or 'no known place'}"
    for left in table["left_to_library"]:
        yield "by libhdf5", f"{left['path']}: {left['why']}"
    ratio = f", {raw / stored:.1f} to 1" if 0 < stored < raw else ""
    heap = any(column["variable_length"] for column in table["columns"])
    remark = "; variable-length values are stored separately and not counted" if heap else ""
    yield "size", f"{size_text(stored)} stored, {size_text(raw)} raw{ratio}{remark}"


def _show_stored_columns(console: Console, columns: list[Facts]) -> None:
    grid = new_grid("column", "type", "fill", "storage", "stored", right=("stored",))
    for heading in grid.columns[2:]:
        heading.no_wrap = True
    show_columns(console, grid, [_stored_column_cells(column) for column in columns[:MOST_LINES]], len(columns))


def _stored_column_cells(column: Facts) -> tuple[Text, ...]:
    return (
        name_cell(column),
        lines(
            cell(column["type"]),
            cell(units_text(column["units"]), "dim"),
            cell(_target_text(column["target"]), "dim"),
            cell(column["problem"], "red"),
        ),
        cell("a mask" if column["masked"] else "NA of R" if column["encoding"] == "r" else _fill_text(column["fill"])),
        lines(cell(_storage_text(column)), cell(_filters_text(column), "dim")),
        cell(size_text(column["stored_bytes"])),
    )


def _target_text(path: str | None) -> str:
    return f"row numbers of {path}" if path is not None else ""


def _fill_text(fill: object) -> str:
    if fill is None:
        return "none"
    return cut(repr(fill) if isinstance(fill, str) else value_text(fill), WIDEST_FILL)


def _storage_text(column: Facts) -> str:
    return f"chunks of {column['chunk_rows']:,}" if column["chunk_rows"] else str(column["storage"])


def _filters_text(column: Facts) -> str:
    if column["filters"] != "none":
        return str(column["filters"])
    return "no filters" if column["storage"] == "chunked" else ""


def _show_problems(console: Console, problems: list[Facts]) -> None:
    console.print(f"{plural(len(problems), 'problem')} found", style="bold")
    styles = {"error": "red", "warning": "yellow"}
    grid = new_grid("severity", "rule", "where", "what")
    for problem in problems:
        severity = cell(problem["severity"], styles.get(problem["severity"], ""))
        grid.add_row(severity, cell(problem["rule"]), cell(problem["path"]), cell(problem["message"]))
    console.print(grid)


# -- schema --


def print_columns(file: str, table: str | None, as_json: bool, links: Links = "folder") -> int:
    tables = print_tables(file, table, schema_facts, show_schema, as_json, links)
    return FINDINGS if not tables or any(t["problem"] for t in tables) else FINE


def schema_facts(table: Table) -> Facts:
    """Types, units, descriptions and categories of the columns of a table."""
    return {
        "path": table.path,
        "title": table.title,
        "description": table.description,
        "rows": table.n_rows,
        "labels": table.labels,
        "columns": [_schema_column(table[column.name]) for column in table.info.members],
        "problem": None,
    }


def _schema_column(column: Column) -> Facts:
    categories, problem = _categories(column)
    return {
        "name": column.name,
        "label": column.info.is_label,
        "type": type_word(column.dtype),
        "arrow_type": str(column.dtype),
        "hdf5_type": _stored_text(column.info),
        "units": column.units,
        "units_vocabulary": column.units_vocabulary,
        "description": column.description,
        "ordered": column.ordered,
        "target": column._target_path(),
        "categories": categories,
        "n_categories": _n_categories(column.info),
        "problem": column.info.problem or problem,
    }


def _stored_text(column: ColumnInfo) -> str:
    """How the rows are stored: the HDF5 datatype, or for lists how they are put together."""
    rows = column.row_form
    return f"lists of {_stored_text(rows.items)}" if isinstance(rows, Lists) else str(column.type)


def _n_categories(column: ColumnInfo) -> int | None:
    if column.categories is not None:
        return column.categories.n_categories
    return len(column.type.members) if column.type.kind == "enum" else None


def _categories(column: Column) -> tuple[list[object] | None, str | None]:
    """The first few categories (None for a column without), or why they cannot be read."""
    if column.info.problem is not None:
        return None, None
    try:
        categories = column.categories
    except (ColonnadeError, OSError) as error:
        return None, str(error)
    return (None if categories is None else plain_values(categories.slice(0, FEW_CATEGORIES))), None


def show_schema(facts: Facts) -> None:
    """Print the columns of each table."""
    console = open_console()
    for number, table in enumerate(facts["tables"]):
        if number:
            console.print()
        if show_title(console, table):
            _show_schema_columns(console, table["columns"])
    if not facts["tables"]:
        show_file(console, facts["file"], 0)


def _show_schema_columns(console: Console, columns: list[Facts]) -> None:
    if not columns:
        console.print("no columns", style="dim")
        return
    console.print()
    grid = new_grid("column", "type", "units", "description")
    grid.columns[2].max_width = WIDEST_UNITS
    show_columns(console, grid, [_schema_cells(column) for column in columns[:MOST_LINES]], len(columns))


def _schema_cells(column: Facts) -> tuple[Text, ...]:
    vocabulary = column["units_vocabulary"] if column["units"] else ""
    return (
        name_cell(column),
        lines(cell(column["type"]), cell(f"as {column['hdf5_type']}", "dim")),
        lines(cell(column["units"]), cell(vocabulary, "dim")),
        lines(
            cell(column["description"]),
            cell(_target_text(column["target"]), "dim"),
            cell(_categories_text(column), "dim"),
            cell(column["problem"], "red"),
        ),
    )


def _categories_text(column: Facts) -> str:
    if column["categories"] is None:
        return ""
    names = (" < " if column["ordered"] else ", ").join(value_text(value) for value in column["categories"])
    more = ", ..." if column["n_categories"] > len(column["categories"]) else ""
    return f"{plural(column['n_categories'], 'value')}: {names}{more}"
