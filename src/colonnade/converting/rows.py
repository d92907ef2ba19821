"""The rows of a table to be converted, batch by batch; categories are kept even without rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from colonnade.errors import CorruptError
from colonnade.exchange.sources import Source
from colonnade.layouts.conversion import RowCheck
from colonnade.table import Table
from colonnade.table.exporting import no_rows


def rows_of(table: Table, names: Mapping[str, str], check: RowCheck) -> Source:
    """The rows of a table under the names that its columns will have, in the types they had before. Columns without a
    name in `names` are left out."""
    former_type = table._layout.conversion.former_type
    fields = [
        field.with_type(former_type(table.info.by_name[field.name], field.type)).with_name(names[field.name])
        for field in table.schema
        if field.name in names
    ]
    schema = pa.schema(fields)
    ordered = [name for name in table.schema.names if name in names]
    source = Source(schema, _batches(table, ordered, schema, check), len(table))
    if table._layout.conversion.carries_notes:
        notes = {names[column.name]: column.pandas for column in table.info.members if column.name in names}
        source.notes = {name: note for name, note in notes.items() if note is not None}
        source.frame_note = table.info.pandas
    return source


def _batches(table: Table, names: Sequence[str], schema: pa.Schema, check: RowCheck) -> Iterator[pa.RecordBatch]:
    first = 0
    rows = table if len(names) == len(table.schema) else table.select(*names)
    for batch in rows.batches():
        check(batch, first)
        first += batch.num_rows
        columns = [_cast(column, field) for column, field in zip(batch.columns, schema, strict=True)]
        yield pa.record_batch(columns, schema=schema)
    if not len(table):
        empty = [no_rows(table, old.name, new.type) for old, new in zip(rows.schema, schema, strict=True)]
        yield pa.record_batch(empty, schema=schema)


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return column if column.type == field.type else column.cast(field.type)
    except pa.ArrowInvalid as error:
        raise CorruptError(
            f"values are not {field.type}, as the attribute arrow_type declares: {error}",
            column=field.name,
        ) from error
