"""JSON lines: one object per row. Types that are not given are those of the first rows, whose keys are the columns."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pyarrow as pa

from colonnade import limits
from colonnade.dataclass import dataclass
from colonnade.errors import DataError
from colonnade.exchange.sources import RowStream
from colonnade.row_files.base import COMPRESSED_SUFFIXES, Batches, TextOptions, plain_forms, read_errors, text_notes
from colonnade.row_files.plain import FLOAT_WORDS, from_plain, plain_records

Record = dict[str, object]
BATCH_BYTES = 16 << 20
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.(\d{1,9}))?)?(Z|[+-]\d\d:?\d\d)?")
_json_line = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


@dataclass(frozen=True)
class JsonLines:
    """Rows as JSON objects, one per line."""

    name: str = "jsonl"
    suffixes: tuple[str, ...] = (".jsonl", ".ndjson")
    is_text: bool = True
    magic: bytes = b""

    @contextmanager
    def open(self, path: Path, options: TextOptions) -> Iterator[RowStream]:
        with (
            read_errors(path),
            pa.input_stream(str(path), compression=COMPRESSED_SUFFIXES.get(path.suffix.lower())) as raw,
        ):
            lines = io.TextIOWrapper(io.BufferedReader(cast("io.RawIOBase", raw), 1 << 20), "utf-8-sig")
            parts = _record_parts(path, lines)
            first = next(parts, (1, []))
            schema = _schema(path, first[1], options)
            yield RowStream(schema, _read_batches(path, first, parts, schema))

    def fit(self, schema: pa.Schema) -> list[str]:
        return text_notes(schema, self.name, plain_forms(schema))

    def write(self, sink: pa.NativeFile, schema: pa.Schema, batches: Batches, _options: TextOptions) -> None:
        for batch in batches:
            text = "".join(_json_line(record) + "\n" for record in plain_records(batch, schema.names))
            sink.write(text.encode("utf-8", "backslashreplace"))


JSON_LINES = JsonLines()


def _record_parts(path: Path, lines: io.TextIOWrapper) -> Iterator[tuple[int, list[Record]]]:
    """The records of a file in parts, each with the number of its first line."""
    records: list[Record] = []
    begin, n_bytes = 1, 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"line {number} is not JSON: {error}", path=str(path)) from error
        if not isinstance(record, dict):
            raise DataError(f"line {number} is not a JSON object: every line must be a row", path=str(path))
        records.append(record)
        n_bytes += len(line)
        if len(records) >= limits.now.json_batch_rows or n_bytes >= BATCH_BYTES:
            yield begin, records
            records, begin, n_bytes = [], number + 1, 0
    if records:
        yield begin, records


def _schema(path: Path, records: Sequence[Record], options: TextOptions) -> pa.Schema:
    """The columns of the first records, in the order in which they appear."""
    names = list(dict.fromkeys(key for record in records for key in record))
    if records and not names:
        raise DataError("the records have no keys, so there are no columns", path=str(path))
    names += [name for name in options.types if name not in names and not records]
    kinds = {name: options.types.get(name) or _column_type(path, name, records) for name in names}
    return pa.schema(list(kinds.items()))


def _read_batches(
    path: Path, first: tuple[int, list[Record]], parts: Iterator[tuple[int, list[Record]]], schema: pa.Schema
) -> Batches:
    names = set(schema.names)
    yield _batch(path, first[1], schema)
    with read_errors(path):
        for begin, records in parts:
            odd = next((key for record in records for key in record if key not in names), None)
            if odd is not None:
                raise DataError(
                    f"the key {odd!r} appears after line {begin:,} for the first time: columns are those of the first "
                    "rows. Put a row that has it first, with null as its value",
                    path=str(path),
                )
            yield _batch(path, records, schema)


def _batch(path: Path, records: Sequence[Record], schema: pa.Schema) -> pa.RecordBatch:
    try:
        columns = [from_plain([record.get(f.name) for record in records], f.type, f.name) for f in schema]
    except DataError as error:
        error.path = str(path)
        raise
    return pa.record_batch(columns, schema=schema)


# -- types from values --


def _column_type(path: Path, name: str, records: Sequence[Record]) -> pa.DataType:
    try:
        return inferred_type([record.get(name) for record in records])
    except TypeError as error:
        message = f"{error}: give the type of the column (--types {name}=string)"
        raise DataError(message, path=str(path), column=name) from error


def inferred_type(values: Sequence[object]) -> pa.DataType:
    """The Arrow type of plain values. ISO dates and times are dates and timestamps; raises TypeError for a mixture."""
    present = [value for value in values if value is not None]
    kinds = {type(value) for value in present}
    if not kinds:
        return pa.null()
    if kinds == {bool}:
        return pa.bool_()
    if kinds <= {int, float, str} and kinds & {int, float}:
        return _number_type(present, kinds)
    if kinds == {str}:
        return _string_type([value for value in present if isinstance(value, str)])
    if kinds == {list}:
        return pa.list_(inferred_type([item for value in present if isinstance(value, list) for item in value]))
    if kinds == {dict}:
        records = [value for value in present if isinstance(value, dict)]
        keys = dict.fromkeys(str(key) for record in records for key in record)
        return pa.struct([(key, inferred_type([record.get(key) for record in records])) for key in keys])
    words = {bool: "booleans", int: "numbers", float: "numbers", str: "strings", list: "lists", dict: "objects"}
    raise TypeError(f"it holds {' and '.join(sorted({words[kind] for kind in kinds}))}")


def _number_type(present: Sequence[object], kinds: set[type]) -> pa.DataType:
    words = next((value for value in present if isinstance(value, str) and value not in FLOAT_WORDS), None)
    if words is not None:
        raise TypeError(f"it holds numbers and the string {words!r}")
    whole = [value for value in present if isinstance(value, int)]
    if kinds == {int}:
        low, high = min(whole), max(whole)
        if low >= -(2**63) and high < 2**63:
            return pa.int64()
        if low >= 0 and high < 2**64:
            return pa.uint64()
    if any(abs(value) > 2**53 and (abs(value) >= 2**1024 or int(float(value)) != value) for value in whole):
        raise TypeError("it holds integers that no number of 64 bits holds exactly")
    return pa.float64()


def _string_type(present: Sequence[str]) -> pa.DataType:
    if all(_DATE.fullmatch(text) for text in present):
        return pa.date32() if _are_valid(present, pa.date32()) else pa.string()
    moments = [_MOMENT.fullmatch(text) for text in present]
    if not all(moments):
        return pa.string()
    digits = max(len(moment[1] or "") for moment in moments if moment)
    zones = {moment[2] is not None for moment in moments if moment}
    kind = pa.timestamp("us" if digits <= 6 else "ns", "UTC" if zones == {True} else None)
    return kind if len(zones) == 1 and _are_valid(present, kind) else pa.string()


def _are_valid(strings: Sequence[str], kind: pa.DataType) -> bool:
    try:
        pa.array(strings, pa.string()).cast(kind)
    except pa.ArrowInvalid:
        return False
    return True
