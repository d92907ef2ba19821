"""Summaries of rows: `describe`, and histograms of columns."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, SupportsIndex

import pyarrow as pa

from colonnade.columns.mapping import arrow_type
from colonnade.dataclass import dataclass
from colonnade.errors import FormatError, UnsupportedError, UsageError
from colonnade.model import ColumnInfo
from colonnade.query.requested import text_of, texts_of
from colonnade.table.show import cell_text, rows_text

if TYPE_CHECKING:
    import pandas

    from colonnade.predicate.columns import Expression
    from colonnade.query.histogram import Histogram
    from colonnade.query.requested import ColumnRequest
    from colonnade.table.rows import Query
    from colonnade.values import Cell

QUARTERS = {"25%": 0.25, "50%": 0.5, "75%": 0.75}
STATISTICS = ("count", "missing", "unique", "top", "freq", "mean", "std", "min", *QUARTERS, "max")
COLUMNS_AT_ONCE = 16  # whose rows are read together


@dataclass(frozen=True)
class Description:
    """Statistics of columns, as `describe` returns them: `d["energy"]["mean"]`.

    Every column has count and missing; numbers and times also mean, std (not of times of day and dates), min, 25%, 50%,
    75% and max; other values unique, top (the most frequent) and freq (how often it occurs). A column that cannot be
    read has only "problem".

    >>> cn.write("run.h5", {"ts": [1, 2, 3], "label": ["muon", "pion", "muon"]}, "events")
    >>> d = cn.open_table("run.h5", "events").describe()
    >>> d["ts"]["mean"], d["label"]["top"]
    (2.0, 'muon')
    >>> d
    3 rows
           count  missing  mean  std  min  25%  50%  75%  max
    ts         3        0     2    1    1  1.5    2  2.5    3
           count  missing  unique  top   freq
    label      3        0       2  muon     2
    """

    n_rows: int
    columns: Mapping[str, Mapping[str, Cell]]

    def __getitem__(self, name: str) -> Mapping[str, Cell]:
        return self.columns[name]

    def to_pandas(self) -> pandas.DataFrame:
        """One row per statistic and one column per column, as `DataFrame.describe(include="all")` has them."""
        from colonnade.exchange.frames import frame_of_cells

        names = [name for name in STATISTICS if any(name in column for column in self.columns.values())]
        return frame_of_cells(
            {name: [column.get(statistic) for statistic in names] for name, column in self.columns.items()}, names
        )

    def _blocks(self) -> list[tuple[tuple[str, ...], list[str]]]:
        """The columns that have the same statistics, together."""
        blocks: dict[tuple[str, ...], list[str]] = {}
        for name, statistics in self.columns.items():
            blocks.setdefault(tuple(statistics), []).append(name)
        return list(blocks.items())

    def _cells(self, name: str) -> list[str]:
        return [cell_text(value) for value in self.columns[name].values()]

    def __str__(self) -> str:
        lines = [rows_text(self.n_rows)]
        width = max(map(len, self.columns), default=0)
        for statistics, names in self._blocks():
            rows = [list(statistics), *(self._cells(name) for name in names)]
            widths = [max(len(row[position]) for row in rows) for position in range(len(statistics))]
            for name, row in zip(["", *names], rows, strict=True):
                cells = (
                    f"{cell:<{size}}" if statistic in ("top", "problem") else f"{cell:>{size}}"
                    for cell, size, statistic in zip(row, widths, statistics, strict=True)
                )
                lines.append(f"{name:<{width}}  {'  '.join(cells)}".rstrip())
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from html import escape

        tables = []
        for statistics, names in self._blocks():
            head = "".join(f"<th>{escape(statistic)}</th>" for statistic in statistics)
            rows = "".join(
                f"<tr><th>{escape(name)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in self._cells(name))}</tr>"
                for name in names
            )
            tables.append(f"<table><thead><tr><th></th>{head}</tr></thead><tbody>{rows}</tbody></table>")
        return f"<div>{''.join(tables)}<small>{rows_text(self.n_rows)}</small></div>"


def described(query: Query, columns: Sequence[str] | None) -> Description:
    """The description of columns (all, if none are given)."""
    names = query.columns if columns is None else [columns] if isinstance(columns, str) else list(columns)
    infos = [query._column(name) for name in names]
    statistics: dict[str, dict[str, Cell]] = {}
    for start in range(0, len(infos), COLUMNS_AT_ONCE):
        statistics |= _described(query, infos[start : start + COLUMNS_AT_ONCE])
    return Description(query.count(), statistics)


def histogram_of(
    query: Query,
    column: ColumnRequest,
    bins: SupportsIndex | Sequence[object],
    outer: tuple[object, object] | None,
    by: ColumnRequest | Sequence[ColumnRequest] | None,
) -> Histogram:
    """How many rows have values in each bin; outer: the outer edges."""
    from colonnade.query.aggregate import group_names
    from colonnade.query.grouped import GroupedRows
    from colonnade.query.histogram import binned, counts_bins, edges_at, edges_between, most_frequent

    expressions: dict[str, Expression] = {}
    name = text_of(column, expressions)
    if not isinstance(name, str):
        raise UsageError(f"a histogram is made of a column or an expression, not of {name!r}")
    reader = query._aggregated(name, expressions)
    rows = query._known_rows() if query._predicate is None else query._search()
    groups = group_names(texts_of(by, expressions))
    grouped = GroupedRows([query._aggregated(group, expressions) for group in groups], rows)
    for used in (*grouped.by, reader):
        if used.domain is None:
            raise UsageError(
                f"cannot make a histogram of column {used.column.name!r}: its values cannot be compared",
                column=used.column.name,
            )
    n_bins = _number_of(bins)
    if not counts_bins(reader.kind):
        if n_bins is None or outer is not None:
            raise UsageError(
                f"cannot divide column {name!r} of type {reader.kind} into bins: its values are counted. "
                "Give the number of the most frequent ones, and no range",
                column=name,
            )
        return most_frequent(grouped, reader, n_bins)
    if n_bins is None:
        return binned(grouped, reader, edges_at(reader, [*bins]))  # type: ignore[misc]
    low, high = outer if outer is not None else query.aggregate(a=(column, "min"), b=(column, "max")).values()
    return binned(grouped, reader, edges_between(reader, n_bins, low, high))


def _number_of(bins: SupportsIndex | Sequence[object]) -> int | None:
    """The number of bins; None if their edges are given."""
    with suppress(TypeError):
        return operator.index(bins)  # type: ignore[arg-type]
    if isinstance(bins, str) or not isinstance(bins, Iterable):
        raise UsageError(f"bins are a number, or a list of edges, not {bins!r}")
    return None


def _described(query: Query, columns: Sequence[ColumnInfo]) -> dict[str, dict[str, Cell]]:
    """The statistics of a few columns, in the order of `STATISTICS`."""
    wanted = {
        f"{statistic} {column.name}": request for column in columns for statistic, request in _wanted(column).items()
    }
    n_rows = query.count()
    try:
        values = query.aggregate(**wanted)  # type: ignore[arg-type]
    except (FormatError, UnsupportedError) as error:
        if len(columns) == 1:
            return {columns[0].name: {"problem": str(error)}}
        return {name: values for column in columns for name, values in _described(query, [column]).items()}
    described = {}
    for column in columns:
        statistics = {name: values[f"{name} {column.name}"] for name in STATISTICS if f"{name} {column.name}" in wanted}
        n_values = statistics.pop("count")
        described[column.name] = {"count": n_values, "missing": n_rows - n_values, **_top(query, column), **statistics}  # type: ignore[operator]
    return described


def _wanted(column: ColumnInfo) -> dict[str, tuple[object, ...]]:
    """The aggregates of a column, by statistic."""
    kind, name = arrow_type(column), column.name
    wanted: dict[str, tuple[object, ...]] = {"count": (name, "count")}
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if not is_number and not pa.types.is_temporal(kind):
        return wanted
    wanted["mean"] = (name, "mean")
    if is_number or pa.types.is_duration(kind):
        wanted["std"] = (name, "std")
    quarters = {statistic: (name, "quantile", q) for statistic, q in QUARTERS.items()}
    return {**wanted, "min": (name, "min"), **quarters, "max": (name, "max")}


def _top(query: Query, column: ColumnInfo) -> dict[str, Cell]:
    """The number of distinct values and the most frequent one, of a column that is neither numbers nor times."""
    reader = query._reader(column.name)
    if reader.domain is None or "mean" in _wanted(column):
        return {}
    frequent = query.histogram(column.name, 1)
    row = frequent.bins.slice(0, 1).to_pylist()
    top, freq = (row[0]["value"], row[0]["count"]) if row else (None, None)
    return {"unique": frequent.n_distinct, "top": top, "freq": freq}
