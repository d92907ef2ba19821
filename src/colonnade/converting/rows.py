"""The rows of a table to be converted, batch by batch; categories are kept even without rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

from colonnade.columns.arrow_text import parse_arrow_type
from colonnade.errors import CorruptError
from colonnade.exchange.sources import Source
from colonnade.table import Table

Look = Callable[[pa.RecordBatch, int], None]
"""Called with every batch and its first row, before the batch is written: refuses what the layout cannot hold."""


def source_of(table: Table, names: Mapping[str, str], look: Look = lambda _batch, _first: None) -> Source:
    """The rows of a table under the names that its columns will have."""
    schema = pa.schema([_as_before(table, field).with_name(names[field.name]) for field in table.schema])
    return Source(schema, _batches(table, schema, look), len(table))


def _as_before(table: Table, field: pa.Field) -> pa.Field:
    """A column of numbers in the type that it had, where ArtifactDB had a narrower one only and the wider is told."""
    told = table.info.by_name[field.name].arrow_type if table.layout == "artifactdb" else None
    kind = parse_arrow_type(told) if told is not None else None
    is_wider = kind is not None and _is_number(kind) and _is_number(field.type)
    return field.with_type(kind) if is_wider else field


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _batches(table: Table, schema: pa.Schema, look: Look) -> Iterator[pa.RecordBatch]:
    first = 0
    for batch in table.batches():
        look(batch, first)
        first += batch.num_rows
        columns = [_cast(column, field) for column, field in zip(batch.columns, schema, strict=True)]
        yield pa.record_batch(columns, schema=schema)
    if not len(table):
        empty = [_no_rows(table, old.name, new.type) for old, new in zip(table.schema, schema, strict=True)]
        yield pa.record_batch(empty, schema=schema)


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return column if column.type == field.type else column.cast(field.type)
    except pa.ArrowInvalid as error:
        raise CorruptError(
            f"column {field.name!r} holds what is no {field.type}, which its attribute arrow_type says: {error}",
            column=field.name,
        ) from error


def _no_rows(table: Table, name: str, kind: pa.DataType) -> pa.Array:
    """An array without rows; for a categorical, with its categories."""
    if not pa.types.is_dictionary(kind):
        return pa.nulls(0, kind)
    held = table[name].categories
    categories = pa.array([] if held is None else held, kind.value_type)
    return pa.DictionaryArray.from_arrays(pa.array([], kind.index_type), categories, ordered=kind.ordered)
