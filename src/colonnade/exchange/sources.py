"""Convert all kinds of data that `write` accepts to a schema and a stream of Arrow batches.

Accepted: anything with the Arrow C stream interface (pyarrow, pandas, polars, DuckDB), a dict of
arrays, a NumPy record array, and iterators of any of these. Before the first batch is requested,
only as much is read as the schema needs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import field
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from colonnade.dataclass import dataclass, replace
from colonnade.errors import DataError, UsageError
from colonnade.exchange.arrays import column_from, declares_strings
from colonnade.exchange.pandas_in import is_frame, split
from colonnade.exchange.pandas_notes import Note, notes_of_arrow, write_note

if TYPE_CHECKING:
    import pandas

SOURCE_BATCH_ROWS = 65_536
NULLABLE_TYPES = ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "boolean", "string")


@dataclass
class Source:
    """A table to be written: its schema, its rows batch by batch, and its length if known.

    `labels` are the columns, or `ranges`, that the data itself declares as row labels; `nullable` are the columns whose
    pandas type has its own mask; `notes` and `frame_note` hold the pandas properties of the columns and the frame that
    Arrow lacks. `untyped` are object columns with only missing values: in a new table they become strings.
    `is_pandas`: columns without a note have the pandas type that their Arrow type implies.
    """

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    n_rows: int | None = None
    labels: list[str] = field(default_factory=list)
    ranges: dict[str, range] = field(default_factory=dict)
    nullable: frozenset[str] = frozenset()
    notes: dict[str, str] = field(default_factory=dict)
    frame_note: str | None = None
    untyped: frozenset[str] = frozenset()
    is_pandas: bool = False


@dataclass
class RowStream:
    """Rows of a known schema, batch by batch, and how many there are if that is known: what row files are read as."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    n_rows: int | None = None


def source_from(data: object, unnamed: str = "index") -> Source:
    """The data as a Source; raises a UsageError for data that cannot be a table.

    `unnamed` is the name for a pandas index without one.
    """
    source = _source_from(data, unnamed)
    names = source.schema.names
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise DataError(f"column names must differ, but {', '.join(map(repr, twice))} occurs twice", columns=twice)
    return source


def _source_from(data: object, unnamed: str = "index") -> Source:
    if isinstance(data, Source):
        return data
    if isinstance(data, RowStream):
        schema, labels, ranges = _pandas_labels(data.schema, unnamed)
        source = Source(schema, _from_reader(data.batches, schema), data.n_rows, labels, ranges)
        return _with_arrow_notes(source, data.schema)
    if isinstance(data, pa.Table):
        return _source_from_table(data, unnamed)
    if isinstance(data, pa.RecordBatch):
        return _source_from(pa.Table.from_batches([data]), unnamed)
    if isinstance(data, Mapping):
        return _source_from_columns(data)
    if is_frame(data):
        return _source_from_frame(data, unnamed)
    if isinstance(data, np.ndarray):
        return _source_from_columns(_columns_of_records(data))
    if hasattr(data, "__arrow_c_stream__"):
        return _source_from_stream(data, unnamed)
    if hasattr(data, "__arrow_c_array__"):
        return _source_from(pa.record_batch(data), unnamed)
    if isinstance(data, Iterable) and not isinstance(data, (str, bytes)):
        return _source_from_iterator(iter(data), unnamed)
    raise UsageError(
        f"cannot write a {type(data).__name__} as a table: give an Arrow, pandas, polars or DuckDB table, a dict of "
        "arrays, a NumPy record array, or an iterator of these"
    )


def _source_from_table(table: pa.Table, unnamed: str) -> Source:
    schema, labels, ranges = _pandas_labels(table.schema, unnamed)
    source = Source(schema, _from_reader(_batches_of(table), schema), table.num_rows, labels, ranges)
    return _with_arrow_notes(source, table.schema)


def _with_arrow_notes(source: Source, schema: pa.Schema) -> Source:
    """The source, with notes from the Arrow schema's metadata of the original pandas frame."""
    given, source.frame_note = notes_of_arrow(schema)
    renamed = dict(zip(schema.names, source.schema.names, strict=True))
    source.notes = {renamed[name]: note for name, note in given.items()}
    source.nullable = frozenset(renamed[name] for name in _nullable_columns(schema) if name in renamed)
    return source


def _source_from_columns(data: Mapping[str, object]) -> Source:
    arrays: dict[str, pa.Array | pa.ChunkedArray] = {}
    notes: dict[str, Note] = {}
    for key, value in data.items():
        name = str(key)
        arrays[name], notes[name] = column_from(value, name)
    if len(arrays) != len(data):
        raise DataError("column names must be different strings")
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        (first, rows), (other, others) = _two_lengths(lengths)
        raise DataError(
            f"columns must have one length, but {first!r} has {rows} rows and {other!r} has {others}", lengths=lengths
        )
    table = pa.table(arrays)
    source = Source(table.schema, iter(_batches_of(table)), table.num_rows)
    source.notes = {name: text for name, note in notes.items() if (text := write_note(note)) is not None}
    source.untyped = frozenset(str(key) for key, value in data.items() if declares_strings(value, arrays[str(key)]))
    return source


def with_strings(source: Source) -> Source:
    """The source for a new table: object columns with only missing values become strings."""
    if not source.untyped:
        return source
    fields = [f.with_type(pa.string()) if f.name in source.untyped else f for f in source.schema]
    schema = pa.schema(fields, source.schema.metadata)
    batches = (batch.cast(schema) for batch in source.batches)
    return replace(source, schema=schema, batches=batches, untyped=frozenset())


def _two_lengths(lengths: dict[str, int]) -> tuple[tuple[str, int], tuple[str, int]]:
    items = list(lengths.items())
    return items[0], next(item for item in items if item[1] != items[0][1])


def _columns_of_records(data: np.ndarray) -> dict[str, object]:
    if data.dtype.names is None or data.ndim != 1:
        raise UsageError(
            f"a NumPy array of dtype {data.dtype} and shape {data.shape} is not a table: give a 1-D record array, or a "
            "dict of arrays"
        )
    masks: np.ndarray | None = np.ma.getmaskarray(data) if isinstance(data, np.ma.MaskedArray) else None
    columns: dict[str, object] = {}
    for name in data.dtype.names:
        values = np.asarray(data[name])
        columns[name] = values if masks is None else np.ma.MaskedArray(values, masks[name])
    return columns


def _source_from_stream(data: object, unnamed: str) -> Source:
    # Read the length before opening the stream, and only where that is free: a DuckDB relation would run the query.
    counts_itself = type(data).__module__.split(".")[0] in ("pandas", "polars", "pyarrow")
    n_rows = len(data) if counts_itself and isinstance(data, Sized) else None
    try:
        reader = pa.RecordBatchReader.from_stream(data)
    except (ValueError, TypeError, pa.ArrowException) as error:
        raise DataError(f"this {type(data).__name__} cannot be read as an Arrow table: {error}") from error
    schema, labels, ranges = _pandas_labels(reader.schema, unnamed)
    return _with_arrow_notes(Source(schema, _from_reader(reader, schema), n_rows, labels, ranges), reader.schema)


def _source_from_frame(frame: pandas.DataFrame, unnamed: str) -> Source:
    parts = split(frame, unnamed)
    batches: Iterator[pa.RecordBatch]
    if parts.columns:
        table = pa.table(parts.columns)
        schema, batches = table.schema, iter(_batches_of(table))
    else:  # Arrow has no row count without columns
        schema, batches = pa.schema([]), iter(())
    untyped = frozenset(column.name for column in schema if pa.types.is_null(column.type))
    return Source(
        schema, batches, len(frame), parts.labels, parts.ranges, parts.nullable, parts.notes, parts.frame_note, untyped,
        is_pandas=True,
    )  # fmt: skip


def _batches_of(table: pa.Table) -> list[pa.RecordBatch]:
    """The rows in batches; a table without rows gives one empty batch, because its dictionaries hold the categories."""
    batches: list[pa.RecordBatch] = table.to_batches(max_chunksize=SOURCE_BATCH_ROWS)
    if batches:
        return batches
    arrays = [column.chunk(0) if column.num_chunks else pa.nulls(0, column.type) for column in table.columns]
    return [pa.RecordBatch.from_arrays(arrays, schema=table.schema)]


def _from_reader(reader: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in reader:
        for start in range(0, max(batch.num_rows, 1), SOURCE_BATCH_ROWS):
            part = batch.slice(start, SOURCE_BATCH_ROWS)
            is_same = part.schema.equals(schema, check_metadata=True)
            yield part if is_same else pa.RecordBatch.from_arrays(part.columns, schema=schema)


def _pandas_labels(schema: pa.Schema, unnamed: str) -> tuple[pa.Schema, list[str], dict[str, range]]:
    """The schema with the pandas index columns renamed as reset_index would name them (`unnamed` if without a name),
    those names, and the indexes that pandas stores only as a range."""
    index = _pandas_index(schema)
    if not index:
        return schema.remove_metadata() if schema.metadata else schema, [], {}
    taken = {name for name in schema.names if name not in index}
    new_names: dict[str, str] = {}
    labels: list[str] = []
    ranges: dict[str, range] = {}
    for level, entry in enumerate(index):
        name = entry.get("name") if isinstance(entry, dict) else entry
        if name is None or str(name).startswith("__index_level_"):
            name = unnamed if len(index) == 1 and unnamed not in taken else f"level_{level}"
        if isinstance(entry, dict):
            values = range(entry["start"], entry["stop"], entry["step"])
            if entry.get("name") is None and values.start == 0 and values.step == 1:
                continue
            ranges[str(name)] = values
        else:
            new_names[entry] = str(name)
        labels.append(str(name))
    renamed = [field.with_name(new_names.get(field.name, field.name)) for field in schema]
    return pa.schema(renamed), labels, ranges


def _pandas_index(schema: pa.Schema) -> list[str | dict[str, int]]:
    """The index entries in the pandas metadata: column names or ranges."""
    try:
        described = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
        entries = described.get("index_columns", [])
    except (ValueError, AttributeError, TypeError):
        return []
    ranged = {"start", "stop", "step"}
    known = [e for e in entries if isinstance(e, (str, dict))]
    return [e for e in known if (ranged <= set(e) if isinstance(e, dict) else e in schema.names)]


def _nullable_columns(schema: pa.Schema) -> frozenset[str]:
    """The columns whose pandas type has its own mask, according to the pandas metadata."""
    try:
        described = json.loads((schema.metadata or {}).get(b"pandas", b"{}")).get("columns", [])
        names = {column["field_name"] for column in described if column["numpy_type"] in NULLABLE_TYPES}
    except (ValueError, AttributeError, TypeError, LookupError):
        return frozenset()
    return frozenset(name for name in names if isinstance(name, str))


def _source_from_iterator(batches: Iterator[object], unnamed: str) -> Source:
    first = next(batches, None)
    if first is None:
        raise UsageError("the iterator returned no batch, so the columns are unknown")
    start = with_strings(_batch_source(first, 0, unnamed))
    rest = (_batch_source(batch, number, unnamed) for number, batch in enumerate(batches, 1))
    joined = _joined(chain((start,), rest), start.schema)
    source = Source(start.schema, joined, None, start.labels, nullable=start.nullable)
    source.notes, source.frame_note, source.is_pandas = start.notes, start.frame_note, start.is_pandas
    return source


def _batch_source(batch: object, number: int, unnamed: str) -> Source:
    if isinstance(batch, Mapping) and any(_is_scalar(value) for value in batch.values()):
        raise UsageError(
            f"batch {number} is a dict of single values, a row: give dicts of arrays, or build a table of rows with "
            "pyarrow.Table.from_pylist(rows)"
        )
    if _is_scalar(batch):
        raise UsageError(
            f"batch {number} is a single value, {repr(batch)[:40]}, not a table: give values a name, {{'name': values}}"
        )
    if not _is_batch(batch):
        raise UsageError(
            f"batch {number} is a {type(batch).__name__}, not a table: give Arrow batches or dicts of arrays"
        )
    return source_from(batch, unnamed)


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, (str, bytes, int, float, complex, np.generic))


def _is_batch(value: object) -> bool:
    arrow = hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__")
    return arrow or isinstance(value, (Mapping, np.ndarray))


def _joined(sources: Iterable[Source], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for number, source in enumerate(sources):
        for batch in source.batches:
            yield _copied(_matched(batch, schema, number))


def _copied(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A copy of the batch: an iterator may reuse its arrays for the next batch while rows of this one are still
    buffered until their chunk is full."""
    arrays = [pa.concat_arrays([array, array.slice(0, 0)]) for array in batch.columns]  # two arrays: always a copy
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def _matched(batch: pa.RecordBatch, schema: pa.Schema, number: int) -> pa.RecordBatch:
    """The batch with the columns, order and types of the schema."""
    if batch.schema.equals(schema):
        return batch
    names = batch.schema.names
    if set(names) != set(schema.names):
        odd = sorted(set(names) ^ set(schema.names))
        raise DataError(
            f"the columns are not those of the first batch: {', '.join(map(repr, odd))} differ", batch=number
        )
    arrays = [_cast(batch.column(f.name), f, number) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, names=schema.names)


def family(kind: pa.DataType) -> str:
    """The family of a type: types of one family may differ between batches without changing the meaning of values."""
    checks = (
        ("null", pa.types.is_null),
        ("boolean", pa.types.is_boolean),
        ("number", lambda k: pa.types.is_integer(k) or pa.types.is_floating(k) or pa.types.is_decimal(k)),
        ("text", lambda k: pa.types.is_string(k) or pa.types.is_large_string(k) or pa.types.is_string_view(k)),
        ("time", pa.types.is_temporal),
    )
    return next((name for name, check in checks if check(kind)), f"other {kind.id}")


def _cast(array: pa.Array, wanted: pa.Field, number: int) -> pa.Array:
    if array.type == wanted.type or pa.types.is_dictionary(wanted.type):
        return array
    if pa.types.is_null(wanted.type):
        raise DataError(
            f"the type is {array.type}, but the first batch, where all values are missing, "
            f"has no type: give it one there, for example pyarrow.nulls(n, pyarrow.{array.type}())",
            batch=number,
            column=wanted.name,
        )
    if family(array.type) not in (family(wanted.type), "null"):
        raise DataError(
            f"the type is {array.type}, in the first batch it is {wanted.type}: cast it",
            batch=number,
            column=wanted.name,
        )
    try:
        return array.cast(wanted.type)
    except (pa.ArrowException, NotImplementedError) as error:
        raise DataError(
            f"{array.type} does not fit the first batch's {wanted.type}: {error}",
            batch=number,
            column=wanted.name,
        ) from error
