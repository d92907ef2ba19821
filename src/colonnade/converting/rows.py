"""The rows of a table on their way into another layout, batch by batch; categories are there without rows too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

from colonnade.exchange.sources import Source
from colonnade.table import Table

Look = Callable[[pa.RecordBatch, int], None]
"""Called with every batch and its first row, before the batch is written: refuses what the layout cannot hold."""


def source_of(table: Table, names: Mapping[str, str], look: Look = lambda _batch, _first: None) -> Source:
    """The rows of a table under the names that its columns will have."""
    schema = pa.schema([field.with_name(names[field.name]) for field in table.schema])
    return Source(schema, _batches(table, schema, look), len(table))


def _batches(table: Table, schema: pa.Schema, look: Look) -> Iterator[pa.RecordBatch]:
    first = 0
    for batch in table.batches():
        look(batch, first)
        first += batch.num_rows
        yield pa.record_batch(batch.columns, schema=schema)
    if not len(table):
        yield pa.record_batch([_no_rows(table, field.name, field.type) for field in table.schema], schema=schema)


def _no_rows(table: Table, name: str, kind: pa.DataType) -> pa.Array:
    """An array of no rows; of a categorical with its categories."""
    if not pa.types.is_dictionary(kind):
        return pa.nulls(0, kind)
    held = table[name].categories
    categories = pa.array([] if held is None else held, kind.value_type)
    return pa.DictionaryArray.from_arrays(pa.array([], kind.index_type), categories, ordered=kind.ordered)
