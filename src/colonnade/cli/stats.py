"""`stats`: statistics of a table's columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from colonnade.cli.answer import FINDINGS, FINE, Facts, print_json
from colonnade.cli.choose import Access, asked_columns, file_facts, only_table
from colonnade.cli.progress import counting_rows
from colonnade.cli.text import (
    MOST_LINES,
    cell,
    cut,
    lines,
    name_cell,
    new_grid,
    open_console,
    show_columns,
    show_title,
    units_text,
    value_text,
)
from colonnade.errors import ColonnadeError
from colonnade.indexes.known import Distinct
from colonnade.query.stats import ColumnStats
from colonnade.row_files.plain import plain_value, plain_values
from colonnade.table import Column
from colonnade.table.show import rows_text, type_word

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

WIDEST_VALUE = 26
FoundStats = ColumnStats | ColonnadeError
SIGNS = {"exactly": "", "more than": "> ", "at most": "≤ "}


def print_stats(file: str, table: str | None, columns: tuple[str, ...], as_json: bool, access: Access) -> int:
    with access.open(file) as opened:
        chosen = only_table(opened, table)
        names = asked_columns(chosen, columns)
        with counting_rows("reading", chosen.n_rows * len(names)) as progress:
            by_column = chosen.stats(names, progress=progress)
        broken = next((stats for stats in by_column.values() if isinstance(stats, ColonnadeError)), None)
        if columns and broken is not None:
            raise broken
        facts: Facts = {
            "file": file_facts(opened),
            "table": chosen.path,
            "title": chosen.title,
            "description": chosen.description,
            "n_rows": chosen.n_rows,
            "columns": [_column_facts(chosen[name], stats) for name, stats in by_column.items()],
        }
    if as_json:
        print_json(facts)
    else:
        show_stats(facts)
    return FINDINGS if any(column["problem"] for column in facts["columns"]) else FINE


def print_description(file: str, table: str | None, columns: tuple[str, ...], as_json: bool, access: Access) -> int:
    with access.open(file) as opened:
        chosen = only_table(opened, table)
        described = chosen.describe(asked_columns(chosen, columns))
        facts: Facts = {"file": file_facts(opened), "table": chosen.path, "title": chosen.title}
        facts["n_rows"] = described.n_rows
    if as_json:
        facts["columns"] = [
            {"name": name, **{statistic: plain_value(value) for statistic, value in statistics.items()}}
            for name, statistics in described.columns.items()
        ]
        print_json(facts)
    else:
        console = open_console()
        show_title(console, {**facts, "description": None, "path": facts["table"], "problem": None})
        console.print(str(described), highlight=False, markup=False, soft_wrap=True)
    return FINDINGS if any("problem" in statistics for statistics in described.columns.values()) else FINE


# -- facts --


def _column_facts(column: Column, stats: FoundStats) -> Facts:
    """The statistics of one column as plain data, with every key present."""
    facts = {
        "name": column.name,
        "label": column.info.is_label,
        "type": type_word(column.dtype),
        "units": column.units,
        "n_rows": column.n_rows,
    }
    if isinstance(stats, ColonnadeError):
        empty = dict.fromkeys(("n_missing", "n_nan", "min", "max", "distinct", "distinct_is", "from"))
        return {**facts, **empty, "problem": str(stats)}
    return {
        **facts,
        "n_missing": stats.n_missing,
        "n_nan": stats.n_nan,
        "min": _plain(stats.least),
        "max": _plain(stats.greatest),
        **_distinct_facts(stats.distinct),
        "from": stats.source,
        "problem": None,
    }


def _distinct_facts(distinct: Distinct | None) -> Facts:
    if distinct is None:
        return {"distinct": None, "distinct_is": None}
    return {"distinct": distinct.count, "distinct_is": distinct.how}


def _plain(value: pa.Array | None) -> object:
    return None if value is None else plain_values(value)[0]


# -- text --


def show_stats(facts: Facts) -> None:
    """Print the statistics of each column."""
    console = open_console()
    show_title(console, {**facts, "path": facts["table"], "problem": None})
    console.print(rows_text(facts["n_rows"]))
    if facts["columns"]:
        console.print()
        _show_columns(console, facts["columns"])
    else:
        console.print("no columns", style="dim")


def _show_columns(console: Console, columns: list[Facts]) -> None:
    right = ("missing", "NaN", "distinct, from")
    grid = new_grid("column", "type", "missing", "NaN", "min, max", "distinct, from", right=right)
    for heading in grid.columns[2:]:
        heading.no_wrap = True
    show_columns(console, grid, [_column_cells(column) for column in columns[:MOST_LINES]], len(columns))


def _column_cells(column: Facts) -> tuple[Text, ...]:
    if column["problem"]:
        empty = cell("")
        return name_cell(column), lines(cell(column["type"]), cell(column["problem"], "red")), *([empty] * 4)
    return (
        name_cell(column),
        lines(cell(column["type"]), cell(units_text(column["units"]), "dim")),
        cell(f"{column['n_missing']:,}"),
        cell("" if column["n_nan"] is None else f"{column['n_nan']:,}"),
        lines(cell(_value_text(column, column["min"])), cell(_value_text(column, column["max"]))),
        lines(cell(_distinct_text(column) or "?"), cell(column["from"], "dim")),
    )


def _value_text(column: Facts, value: object) -> str:
    """A least or greatest value; a time without trailing zeros in its fraction."""
    if value is None:
        return ""
    kind = str(column["type"])
    if kind.startswith("time"):
        body, zone, _ = str(value).partition("Z")
        return (body.rstrip("0").rstrip(".") if "." in body else body) + zone
    if kind.startswith("duration"):
        return f"{value:,} {kind.removeprefix('duration[').removesuffix(']')}"
    return cut(value_text(value), WIDEST_VALUE)


def _distinct_text(column: Facts) -> str:
    if column["distinct"] is None:
        return ""
    return f"{SIGNS[column['distinct_is']]}{column['distinct']:,}"
