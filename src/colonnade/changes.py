"""Rows added to and taken from a table that is there. Each function is one change; its commit is the caller's.

What is given is checked before a byte is written: the columns' names, and that the types can stand for
each other. Values that do not fit (300 for an int8, 1.5 for an integer, one that equals the fill) are
refused by row and value when they come; the caller then rolls back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from colonnade.columns.mapping import arrow_type, plain_type
from colonnade.columns.plain import plain_array
from colonnade.columns.read import ColumnReader
from colonnade.columns.writer import ColumnWriter
from colonnade.errors import DataError, FormatError, UsageError
from colonnade.exchange.arrays import array_from
from colonnade.exchange.sources import Source, family, source_from
from colonnade.h5.datasets import resize
from colonnade.layouts import Layout
from colonnade.model import ColumnInfo, Progress, TableInfo


@dataclass(frozen=True)
class OpenTable:
    """A table in a file that is open for changes."""

    group: Any
    layout: Layout
    info: TableInfo

    def resume(self, column: ColumnInfo) -> ColumnWriter:
        """A writer for the rows behind those that a column has."""
        if column.problem is not None:
            raise FormatError(f"column {column.name!r} cannot be changed: {column.problem}", column=column.name)
        dataset, categories_dataset = self.layout.open_column(self.group, column)
        categories = None
        if column.categories is not None:
            categories = ColumnReader(column, dataset, categories_dataset).categories()
        return ColumnWriter.resume(column, self.group, dataset, categories)


def append(table: OpenTable, data: Any, progress: Progress | None = None) -> int:
    """Add rows behind those that are there; says how many."""
    source = source_from(data)
    _check_columns(table.info, source)
    writers = {column.name: table.resume(column) for column in table.info.members}
    kinds = {column.name: _input_type(column) for column in table.info.members}
    first = table.info.n_rows
    done = 0
    table.layout.drop_search_indexes(table.group, table.info)
    for batch in source.batches:
        for name, writer in writers.items():
            writer.write(_fitting(_values(batch, name, source, done), kinds[name], name, first + done))
        done += batch.num_rows
        if progress is not None:
            progress(done, source.n_rows)
    table.layout.extend(table.group, table.info, [writer.finish() for writer in writers.values()])
    return done


def _check_columns(info: TableInfo, source: Source) -> None:
    given = set(source.schema.names) | set(source.ranges)
    known = {column.name for column in info.members}
    lacking, odd = sorted(known - given), sorted(given - known)
    if lacking or odd:
        parts = [f"it lacks {', '.join(map(repr, lacking))}"] if lacking else []
        parts += [f"the table has no {', '.join(map(repr, odd))}"] if odd else []
        raise DataError(
            f"the rows do not have the columns of {info.path}: {'; '.join(parts)}", lacking=lacking, odd=odd
        )
    for field in source.schema:
        wanted = _input_type(info.by_name[field.name])
        if family(_values_type(field.type)) not in (family(_values_type(wanted)), "null"):
            raise DataError(
                f"column {field.name!r} holds {wanted}, the rows given have {field.type}: cast them first",
                column=field.name,
            )


def _values_type(kind: pa.DataType) -> pa.DataType:
    plain = plain_type(kind)
    return plain.value_type if pa.types.is_dictionary(plain) else plain


def _input_type(column: ColumnInfo) -> pa.DataType:
    return arrow_type(column)


def _values(batch: pa.RecordBatch, name: str, source: Source, done: int) -> pa.Array:
    if name in source.ranges:
        rows = source.ranges[name][done : done + batch.num_rows]
        return array_from(np.array(rows), name)
    return batch.column(batch.schema.get_field_index(name))


def _fitting(array: pa.Array, kind: pa.DataType, name: str, first_row: int) -> pa.Array:
    """The array as the column's type; a value that does not fit is a DataError with its row."""
    if pa.types.is_dictionary(kind):
        if pa.types.is_dictionary(array.type):
            return array
        kind = kind.value_type
    plain = plain_array(array, plain_type(array.type))
    if plain.type == kind:
        return plain
    try:
        return plain.cast(kind)
    except (pa.ArrowException, NotImplementedError):
        place = _first_that_does_not_fit(plain, kind)
        value = plain[place].as_py()
        raise DataError(
            f"column {name!r}, row {first_row + place}: {value!r} does not fit {kind}",
            column=name,
            row=first_row + place,
            value=value,
        ) from None


def _first_that_does_not_fit(array: pa.Array, kind: pa.DataType) -> int:
    """The first place whose value the cast refuses, by halving."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            array.slice(low, middle - low).cast(kind)
        except (pa.ArrowException, NotImplementedError):
            high = middle
        else:
            low = middle
    return low


def truncate(table: OpenTable, n_rows: int) -> None:
    """Keep the first rows only."""
    if not 0 <= n_rows <= table.info.n_rows:
        raise UsageError(f"a table of {table.info.n_rows} rows cannot be cut to {n_rows}")
    table.layout.drop_search_indexes(table.group, table.info)
    written = [table.resume(column).finish() for column in table.info.members]
    table.layout.extend(table.group, table.info, written)
    for column in written:
        resize(column.dataset, n_rows)
