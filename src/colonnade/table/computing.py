"""Values of expressions put into a table: a new column, or cells of the rows that match, streamed in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING

import numpy as np
import pyarrow as pa

from colonnade import limits
from colonnade.columns.read import ColumnReader
from colonnade.edit.change import OpenTable, StreamedColumn, overwrite_rows
from colonnade.errors import DataError, UsageError
from colonnade.exchange.arrays import column_from
from colonnade.lists.element_tests import elements_reader
from colonnade.model import DEFAULT_CHUNK_ROWS
from colonnade.predicate.columns import Expression
from colonnade.predicate.tree import Predicate
from colonnade.query.computed import computed_reader, stored_columns_of
from colonnade.query.scan import read_column
from colonnade.selection import Rows

if TYPE_CHECKING:
    from colonnade.arrays import Int64s
    from colonnade.table.rows import Query
    from colonnade.table.table import Table


def streamed_column(table: Table, name: str, expression: Expression | Predicate) -> StreamedColumn:
    """The values of a new column, computed from the table while they are written."""
    term = table._query()._defined(name, expression)
    kind = table._query()._subject_reader(term, name).kind

    def read(opened: OpenTable) -> Iterator[pa.Array]:
        info = opened.info
        stored = stored_columns_of(term, info.by_name, f"table {info.path}")
        columns = [info.by_name[column] for column, _ in stored.values()]
        readers = {
            column.name: ColumnReader(column, *opened.layout.open_column(opened.group, column)) for column in columns
        }
        reader = computed_reader(term, name, stored, readers, elements_reader)
        for first in range(0, info.n_rows, DEFAULT_CHUNK_ROWS):
            yield reader.read(first, min(DEFAULT_CHUNK_ROWS, info.n_rows - first))

    return StreamedColumn(kind, table.n_rows, read)


def update_matches(table: Table, where: Predicate | str | None, new: Mapping[str, object]) -> int:
    """Put new values into the rows that match; returns how many. All values are computed before the first is put."""
    if not isinstance(new, Mapping) or not new:
        raise UsageError(f"set takes {{column: value or expression}}, not {new!r}", option="set")
    table._file._check_writable()
    query = table._query() if where is None else table.where(where)
    readers, constants = dict[str, ColumnReader](), dict[str, pa.Array]()
    for name, value in new.items():
        table._column(name)
        if isinstance(value, (Expression, Predicate)):
            readers[name] = query._subject_reader(query._defined(name, value), name)
        else:
            constants[name] = _constant(value, name)
    kinds = {name: readers[name].kind if name in readers else constants[name].type for name in new}
    schema = pa.schema(list(kinds.items()))
    with SpooledTemporaryFile(max_size=limits.now.updated_bytes) as spool:
        n_rows = table._file._consistent(lambda: _compute(query, readers, spool))
        if n_rows:
            with table._file._change():
                overwrite_rows(table._opened_for_change(), schema, _parts(spool, schema, constants))
    return n_rows


def _constant(value: object, name: str) -> pa.Array:
    """A value for every row, as an array of one row."""
    array, _ = column_from([value], name)
    if len(array) != 1:
        raise DataError(f"cannot set it to {value!r}: one value is needed", column=name)
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _compute(query: Query, readers: Mapping[str, ColumnReader], spool: IO[bytes]) -> int:
    """Write the numbers of the rows and their new values into an empty file; returns the number of rows."""
    spool.seek(0)
    spool.truncate()
    columns = [("", pa.int64()), *((name, _stored_kind(reader.kind)) for name, reader in readers.items())]
    n_rows = 0
    with pa.ipc.new_stream(spool, pa.schema(columns)) as sink:
        for rows in query._row_parts(limits.now.updated_rows):
            values = [_read(reader, rows) for reader in readers.values()]
            arrays = [pa.array(np.asarray(rows, dtype=np.int64)), *values]
            sink.write_batch(pa.RecordBatch.from_arrays(arrays, schema=pa.schema(columns)))
            n_rows += len(rows)
    return n_rows


def _read(reader: ColumnReader, rows: Rows) -> pa.Array:
    values = read_column(reader, rows).combine_chunks()
    array = values if isinstance(values, pa.Array) else pa.concat_arrays(values.chunks)
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _stored_kind(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _parts(
    spool: IO[bytes], schema: pa.Schema, constants: Mapping[str, pa.Array]
) -> Iterator[tuple[Int64s, pa.RecordBatch]]:
    """The row numbers and the new rows, as they were computed."""
    spool.seek(0)
    computed = [name for name in schema.names if name not in constants]
    for batch in pa.ipc.open_stream(spool):
        numbers, *values = batch.columns
        first = pa.array(np.zeros(batch.num_rows, dtype=np.int64))
        known = dict(zip(computed, values, strict=True))
        known |= {name: value.take(first) for name, value in constants.items()}
        arrays = [_typed(known[field.name], field.type) for field in schema]
        yield numbers.to_numpy(), pa.RecordBatch.from_arrays(arrays, schema=schema)


def _typed(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind or not isinstance(kind, pa.BaseExtensionType):
        return array
    return pa.ExtensionArray.from_storage(kind, array)
