"""The rows of a table to be converted, batch by batch; categories are kept even without rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from colonnade.converting.references import ReferencePaths, movable_type
from colonnade.errors import CorruptError
from colonnade.exchange.sources import Source
from colonnade.layouts.conversion import RowCheck
from colonnade.table import Table
from colonnade.table.exporting import no_rows


def rows_of(table: Table, names: Mapping[str, str], check: RowCheck) -> Source:
    """The rows of those columns of a table that have a new name in `names`, in the types they had before.

    References to objects become their paths: they are made again in the file that the rows are written to.
    """
    former_type = table._layout.conversion.former_type
    chosen = [name for name in table.info.by_name if name in names]
    fields = []
    for name in chosen:
        field = table._field(name)
        kind = movable_type(former_type(table.info.by_name[name], field.type))
        fields.append(field.with_type(kind).with_name(names[name]))
    schema = pa.schema(fields)
    return Source(schema, _batches(table, chosen, schema, check), len(table))


def _batches(table: Table, names: list[str], schema: pa.Schema, check: RowCheck) -> Iterator[pa.RecordBatch]:
    first, paths = 0, ReferencePaths(table._group)
    query = table if len(names) == len(table.info.by_name) else table.select(*names)
    for batch in query.batches():
        check(batch, first)
        moved = [paths.moved(column, name, first) for column, name in zip(batch.columns, names, strict=True)]
        columns = [_cast(column, field) for column, field in zip(moved, schema, strict=True)]
        first += batch.num_rows
        yield pa.record_batch(columns, schema=schema)
    if not len(table):
        empty = [no_rows(table, old, new.type) for old, new in zip(names, schema, strict=True)]
        yield pa.record_batch(empty, schema=schema)


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return column if column.type == field.type else column.cast(field.type)
    except pa.ArrowInvalid as error:
        raise CorruptError(
            f"values are not {field.type}, as the attribute arrow_type declares: {error}",
            column=field.name,
        ) from error
