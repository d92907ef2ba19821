"""Parquet. What its types cannot express (categories, seconds) is recorded in the metadata of the columns."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from itertools import chain
from pathlib import Path

import pyarrow as pa

from colonnade import compute as pc
from colonnade.dataclass import dataclass
from colonnade.errors import DataError, UsageError
from colonnade.exchange.sources import SOURCE_BATCH_ROWS, RowStream
from colonnade.row_files.arrow import GrowingDictionaries
from colonnade.row_files.base import Batches, TextOptions, feed, read_errors
from colonnade.row_files.plain import from_plain, plain_values
from colonnade.row_files.types import named_type

TYPE_KEY, CATEGORIES_KEY = b"colonnade.type", b"colonnade.categories"
MOST_CATEGORY_BYTES = 32 << 20
"""The most bytes of categories that are recorded; more than that come back in the order in which they appear."""


@dataclass(frozen=True)
class Parquet:
    """Rows as column chunks of row groups."""

    name: str = "parquet"
    suffixes: tuple[str, ...] = (".parquet", ".pq")
    is_text: bool = False
    magic: bytes = b"PAR1"

    @contextmanager
    def open(self, path: Path, _options: TextOptions) -> Iterator[RowStream]:
        from pyarrow import parquet

        with read_errors(path):
            file = parquet.ParquetFile(path)
        with file:
            recorded = [_Recorded.of(field) for field in file.schema_arrow]
            fields = [column.field for column in recorded]
            schema = pa.schema(fields, file.schema_arrow.metadata)
            batches = _read_batches(path, file.iter_batches(SOURCE_BATCH_ROWS), recorded, schema)
            yield RowStream(schema, batches, file.metadata.num_rows)

    def fit(self, schema: pa.Schema) -> list[str]:
        """Refuse a column that Parquet has no type for."""
        try:
            _write_none(schema)
        except (pa.ArrowException, NotImplementedError, OSError):
            for field in schema:
                try:
                    _write_none(pa.schema([field]))
                except (pa.ArrowException, NotImplementedError, OSError) as error:
                    raise DataError(f"Parquet cannot store {field.type}: {error}", column=field.name) from error
            raise
        return []

    def write(self, sink: pa.NativeFile, schema: pa.Schema, batches: Batches, _options: TextOptions) -> None:
        from pyarrow import parquet

        first = next(batches, None)
        recorded = _recorded_schema(schema, first)
        whole = batches if first is None else chain((first,), batches)
        feed(parquet.ParquetWriter(sink, recorded), sink, (pa.record_batch(b.columns, schema=recorded) for b in whole))


PARQUET = Parquet()


def _write_none(schema: pa.Schema) -> None:
    """Write a table without rows, to see whether Parquet has these types."""
    from pyarrow import parquet

    sink = BytesIO()
    parquet.write_table(schema.empty_table(), sink)


def _recorded_schema(schema: pa.Schema, first: pa.RecordBatch | None) -> pa.Schema:
    """The schema, with what Parquet does not keep in the metadata of the fields."""
    fields = []
    for position, field in enumerate(schema):
        kind, more = field.type, {}
        if pa.types.is_dictionary(kind):
            more[CATEGORIES_KEY] = _categories_text(kind, None if first is None else first.column(position).dictionary)
        elif _is_changed(kind):
            more[TYPE_KEY] = b64encode(pa.schema([pa.field("", kind)]).serialize().to_pybytes())
        fields.append(field.with_metadata({**(field.metadata or {}), **more}) if more else field)
    return pa.schema(fields, schema.metadata)


def _is_changed(kind: pa.DataType) -> bool:
    """Whether Parquet gives a type back as another one that holds the same values."""
    if pa.types.is_struct(kind):
        return any(_is_changed(kind.field(position).type) for position in range(kind.num_fields))
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return _is_changed(kind.value_type)
    in_seconds = (pa.types.is_timestamp(kind) or pa.types.is_time(kind)) and kind.unit == "s"
    return in_seconds or bool(pa.types.is_date64(kind))


def _categories_text(kind: pa.DataType, values: pa.Array | None) -> bytes:
    stored: dict[str, object] = {"type": str(kind.value_type), "index": str(kind.index_type), "ordered": kind.ordered}
    if values is not None and values.nbytes <= MOST_CATEGORY_BYTES:
        stored["values"] = plain_values(values)
    return json.dumps(stored, ensure_ascii=False, allow_nan=False).encode("utf-8", "surrogatepass")


@dataclass(frozen=True)
class _Recorded:
    """A column to be read: the field it had when it was written, and its categories."""

    field: pa.Field
    categories: pa.Array | None = None

    @classmethod
    def of(cls, field: pa.Field) -> _Recorded:
        """What is recorded about a column; a record that makes no sense is left alone."""
        metadata = {**(field.metadata or {})}
        kind, values = metadata.pop(TYPE_KEY, None), metadata.pop(CATEGORIES_KEY, None)
        from pyarrow import ipc

        plain = field.with_metadata(metadata)
        try:
            if kind is not None:
                stored_schema = ipc.read_schema(pa.py_buffer(b64decode(kind)))
                return cls(plain.with_type(stored_schema.field(0).type))
            if values is not None:
                stored = json.loads(values)
                value_type, index = named_type(stored["type"]), named_type(stored["index"])
                listed = from_plain(stored.get("values", []), value_type, field.name)
                return cls(plain.with_type(pa.dictionary(index, value_type, bool(stored["ordered"]))), listed)
        except (ValueError, LookupError, TypeError, UsageError, OSError):
            return cls(field)
        return cls(plain)


def _read_batches(path: Path, batches: Batches, recorded: list[_Recorded], schema: pa.Schema) -> Batches:
    known = {position: column.categories for position, column in enumerate(recorded) if column.categories is not None}
    growing, n_batches = GrowingDictionaries(schema, known), 0
    with read_errors(path):
        for batch in batches:
            columns = [_restored(array, field) for array, field in zip(batch.columns, schema, strict=True)]
            yield growing.extend(pa.record_batch(columns, schema=schema))
            n_batches += 1
    if not n_batches:
        yield growing.extend(pa.record_batch([pa.nulls(0, field.type) for field in schema], schema=schema))


def _restored(array: pa.Array, field: pa.Field) -> pa.Array:
    """A column with the type it had when it was written."""
    kind = field.type
    if array.type == kind:
        return array
    if pa.types.is_dictionary(kind):
        coded = array if pa.types.is_dictionary(array.type) else array.cast(kind.value_type).dictionary_encode()
        codes = coded.indices.cast(kind.index_type)
        return pa.DictionaryArray.from_arrays(codes, coded.dictionary, ordered=kind.ordered)
    if array.null_count and pa.types.is_temporal(array.type):  # Arrow 21 looks at what happens to be in missing rows
        known = pc.fill_null(array, pa.scalar(0, array.type)).cast(kind)
        return pc.if_else(array.is_valid(), known, pa.scalar(None, kind))
    return array.cast(kind)
