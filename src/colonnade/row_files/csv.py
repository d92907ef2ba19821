"""CSV and TSV. They record no types: those that are not given are chosen from the first rows.

Missing and empty: an empty field is missing, a quoted empty field (`""`) is an empty string. In a file of one column,
where readers skip empty lines, a missing value is written as `""` too, and `""` is read as missing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from colonnade import limits
from colonnade.dataclass import dataclass
from colonnade.errors import DataError
from colonnade.exchange.sources import RowStream
from colonnade.row_files.base import (
    COMPRESSED_SUFFIXES,
    Batches,
    TextOptions,
    feed,
    plain_forms,
    read_errors,
    text_notes,
)
from colonnade.row_files.plain import from_plain, plain_values, times_from_text
from colonnade.row_files.types import Types

if TYPE_CHECKING:
    from pyarrow.csv import CSVStreamingReader

MOST_EXACT = 2**53  # from here on not every integer is a float64
_INTEGER = re.compile(r"[+-]?\d+")
_json_text: Callable[[object], str] = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_ADVICE = (
    ". The types of columns are chosen from the first rows: give that of this column (--types column=type), or the "
    "string that stands for missing values (--missing NA)"
)


@dataclass(frozen=True)
class DelimitedText:
    """Rows as lines of fields, with a line of column names."""

    name: str
    suffixes: tuple[str, ...]
    delimiter: str
    is_text: bool = True
    magic: bytes = b""

    @contextmanager
    def open(self, path: Path, options: TextOptions) -> Iterator[RowStream]:
        advice = _ADVICE
        with read_errors(path, advice):
            types = {**options.types}
            first = self._reader(path, options, {}, one_column=True)
            names = first.schema.names
            types |= _whole_numbers(first, lambda more: self._reader(path, options, {**types, **more}), types)
            reader = self._reader(path, options, types, one_column=len(names) == 1)
            fields = [pa.field(field.name, types.get(field.name, field.type)) for field in reader.schema]
        schema = pa.schema(fields)
        with reader:
            yield RowStream(schema, _read_batches(path, reader, schema))

    def _reader(self, path: Path, options: TextOptions, types: Types, one_column: bool = False) -> CSVStreamingReader:
        from pyarrow import csv

        parsed = {name: _parsed_type(kind) for name, kind in types.items()}
        return csv.open_csv(
            pa.input_stream(str(path), compression=COMPRESSED_SUFFIXES.get(path.suffix.lower())),
            read_options=csv.ReadOptions(block_size=limits.now.csv_block_bytes),
            parse_options=csv.ParseOptions(delimiter=options.delimiter or self.delimiter, newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types=parsed,
                null_values=["", *options.missing],
                strings_can_be_null=True,
                quoted_strings_can_be_null=one_column,
            ),
        )

    def fit(self, schema: pa.Schema) -> list[str]:
        if not schema.names:
            raise DataError(f"cannot write a table without columns as {self.name}. Use jsonl, arrow or parquet")
        forms = plain_forms(schema)
        if len(schema) == 1 and _is_text(schema[0].type):
            forms.append(("in a file of one column, a missing value reads like an empty string", schema.names))
        return text_notes(schema, self.name, forms)

    def write(self, sink: pa.NativeFile, schema: pa.Schema, batches: Batches, options: TextOptions) -> None:
        from pyarrow import csv

        written = pa.schema([pa.field(field.name, _written_type(field.type, len(schema))) for field in schema])
        settings = csv.WriteOptions(delimiter=options.delimiter or self.delimiter)
        writer = csv.CSVWriter(sink, written, write_options=settings)
        feed(writer, sink, (_text_batch(batch, written) for batch in batches))


CSV = DelimitedText("csv", (".csv",), ",")
TSV = DelimitedText("tsv", (".tsv",), "\t")


# -- reading --


def _parsed_type(kind: pa.DataType) -> pa.DataType:
    """The type that Arrow parses, from which `_column` makes the type wanted."""
    if pa.types.is_dictionary(kind):
        return _parsed_type(kind.value_type)
    is_parsed = (
        pa.types.is_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind)
        or pa.types.is_boolean(kind) or pa.types.is_null(kind)
        or (pa.types.is_decimal128(kind) and kind.scale >= 0)
    )  # fmt: skip
    return kind if is_parsed else pa.string()


def _read_batches(path: Path, reader: CSVStreamingReader, schema: pa.Schema) -> Batches:
    n_batches = 0
    with read_errors(path, _ADVICE):
        for batch in reader:
            arrays = [_column(array, field) for array, field in zip(batch.columns, schema, strict=True)]
            yield pa.record_batch(arrays, schema=schema)
            n_batches += 1
    if not n_batches:
        yield pa.record_batch([pa.nulls(0, field.type) for field in schema], schema=schema)


def _column(array: pa.Array, field: pa.Field) -> pa.Array:
    """A column of the type wanted, from what Arrow parsed."""
    kind = field.type
    if array.type == kind:
        return array
    if pa.types.is_dictionary(kind):
        coded = _column(array, field.with_type(kind.value_type)).dictionary_encode()
        return pa.DictionaryArray.from_arrays(
            coded.indices.cast(kind.index_type), coded.dictionary, ordered=kind.ordered
        )
    if _is_text(kind):
        return array.cast(kind)
    if pa.types.is_temporal(kind) and not pa.types.is_duration(kind):
        return times_from_text(array, kind)
    values = array.to_pylist()
    if pa.types.is_duration(kind):
        return from_plain([None if text is None else int(text) for text in values], kind, field.name)
    if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
        try:
            values = [None if text is None else json.loads(text) for text in values]
        except ValueError as error:
            raise DataError(f"cannot read these values as {kind}: {error}", column=field.name) from error
    if pa.types.is_floating(kind):
        return array.cast(pa.float64()).cast(kind)
    return from_plain(values, kind, field.name)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _whole_numbers(
    reader: CSVStreamingReader, read_again: Callable[[Types], CSVStreamingReader], given: Types
) -> Types:
    """The types of columns that Arrow would read as float64 although integers in them would change.

    Arrow reads integers that are too large for int64 as float64.
    """
    batch = next(iter(reader), None)
    if batch is None:
        return {}
    suspect = [
        field.name
        for field, column in zip(batch.schema, batch.columns, strict=True)
        if field.name not in given and pa.types.is_float64(field.type) and _largest(column) >= MOST_EXACT
    ]
    if not suspect:
        return {}
    strings = read_again(dict.fromkeys(suspect, pa.string())).read_next_batch()
    kinds = {name: _type_of_texts(name, strings.column(name).to_pylist()) for name in suspect}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def _largest(column: pa.Array) -> float:
    import numpy as np

    values = np.abs(column.to_numpy(zero_copy_only=False))
    return float(np.max(values[np.isfinite(values)], initial=0.0))


def _type_of_texts(name: str, strings: list[str | None]) -> pa.DataType | None:
    """uint64 for integers that need it; None where float64 changes none of them."""
    whole = [int(text) for text in strings if text is not None and _INTEGER.fullmatch(text)]
    changed = next((value for value in whole if abs(value) >= 2**1024 or int(float(value)) != value), None)
    if changed is None:
        return None
    if len(whole) == sum(text is not None for text in strings) and min(whole) >= 0 and max(whole) < 2**64:
        return pa.uint64()
    raise DataError(
        f"{changed} would be rounded, because no type of 64 bits holds all values. Give the type of the column: "
        f"--types {name}=string, or decimal128(38, 0), or float64 to have it rounded",
        column=name,
    )


# -- writing --


def _written_type(kind: pa.DataType, n_columns: int) -> pa.DataType:
    """The type a column is written from: numbers unchanged, everything else as strings. A single column is all
    strings."""
    if pa.types.is_dictionary(kind):
        return _written_type(kind.value_type, n_columns)
    if pa.types.is_float16(kind):
        kind = pa.float32()
    if pa.types.is_duration(kind):
        kind = pa.int64()
    numbers = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    return kind if n_columns > 1 and any(check(kind) for check in numbers) else pa.string()


def _text_batch(batch: pa.RecordBatch, written: pa.Schema) -> pa.RecordBatch:
    arrays = [_text_array(array, field.type) for array, field in zip(batch.columns, written, strict=True)]
    if len(arrays) == 1:  # readers would skip an empty line; a string is quoted
        arrays = [arrays[0].fill_null("")]
    return pa.RecordBatch.from_arrays(arrays, schema=written)


def _text_array(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if not pa.types.is_string(wanted) or pa.types.is_string(array.type):
        return array.cast(wanted)
    return pa.array([None if value is None else _field_text(value) for value in plain_values(array)], pa.string())


def _field_text(value: object) -> str:
    return value if isinstance(value, str) else _json_text(value)
