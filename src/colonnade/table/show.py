"""Tables and columns as text and HTML: what `repr` and notebooks show."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from colonnade.columns.arrow_types import python_values
from colonnade.columns.mapping import arrow_type
from colonnade.model import ColumnInfo, LazyColumns, TableInfo

_WIDEST = 40
_MOST_COLUMNS = 30


def type_word(kind: pa.DataType) -> str:
    """A short name for an Arrow type."""
    if pa.types.is_dictionary(kind):
        return f"{'ordered ' if kind.ordered else ''}categories of {kind.value_type}"
    if isinstance(kind, pa.BaseExtensionType):
        return str(kind.extension_name).removeprefix("colonnade.")
    return str(kind)


def column_note(column: ColumnInfo) -> str:
    """Units, label and problem of a column in one line."""
    parts = [
        column.units or "",
        "label" if column.is_label else "",
        f"cannot be read: {column.problem}" if column.problem else "",
    ]
    return ", ".join(part for part in parts if part)


def size_text(n_bytes: float) -> str:
    """A number of bytes in readable units."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(n_bytes) < 1024 or unit == "GiB":
            return f"{n_bytes:.0f} {unit}" if unit == "B" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1024
    return ""


def columns_text(info: TableInfo, columns: Sequence[ColumnInfo]) -> str:
    """How many of these columns there are, and how many labels."""
    names = set(columns.names if isinstance(columns, LazyColumns) else (column.name for column in columns))
    labels = len(names.intersection(info.label_names))
    count = len(columns) - labels
    text = f"{count:,} column" + ("" if count == 1 else "s")
    return text + (f", {labels} label" + ("" if labels == 1 else "s") if labels else "")


def rows_text(n_rows: int) -> str:
    return f"{n_rows:,} row" + ("" if n_rows == 1 else "s")


def table_text(info: TableInfo, columns: Sequence[ColumnInfo], n_rows: int, word: str = "Table") -> str:
    """The text of `repr`: one line per column."""
    head = f"<{word} {info.path} ({info.layout}): {rows_text(n_rows)}, {columns_text(info, columns)}>"
    if info.title:
        head += f"  {info.title}"
    shown = columns[:_MOST_COLUMNS]
    width = min(_WIDEST, max((len(column.name) for column in shown), default=0))
    lines = [
        f"  {column.name:<{width}}  {type_word(arrow_type(column)):<12}  {column_note(column)}".rstrip()
        for column in shown
    ]
    if len(columns) > len(shown):
        lines.append(f"  ... and {len(columns) - len(shown)} more")
    return "\n".join([head, *lines])


def cell_text(value: object) -> str:
    """One value as the text of a table cell."""
    if value is None:
        return "-"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def table_html(info: TableInfo, columns: Sequence[ColumnInfo], n_rows: str, first: pa.Table) -> str:
    """What a notebook shows: the first rows under names, types and units."""
    from html import escape

    shown = columns[:_MOST_COLUMNS]
    title = f"<b>{escape(info.path)}</b> {escape(info.title or '')}".rstrip()
    names = "".join(f"<th>{escape(column.name)}</th>" for column in shown)
    kinds = "".join(f"<td><i>{escape(type_word(arrow_type(c)))}<br>{escape(column_note(c))}</i></td>" for c in shown)
    values = [python_values(first.column(position)) for position in range(min(len(shown), first.num_columns))]
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell_text(cell))}</td>" for cell in row) + "</tr>"
        for row in zip(*values, strict=True)
    )
    more = f" (first {len(shown)} shown)" if len(columns) > len(shown) else ""
    foot = f"{escape(n_rows)}, {columns_text(info, columns)}{more}, layout {escape(info.layout)}"
    return (
        f"<div>{title}<table><thead><tr>{names}</tr><tr>{kinds}</tr></thead><tbody>{rows}</tbody></table>"
        f"<small>{foot}</small></div>"
    )
