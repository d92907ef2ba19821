"""Read rows from files of other formats, batch by batch: CSV, Parquet, Arrow, JSON lines.

To add a format, write a function from path and requested types to an Arrow stream, and add its endings to FILE_FORMATS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from colonnade.errors import DataError, UsageError

Types = dict[str, pa.DataType]
"""The requested types of columns, for formats that do not store types."""


@contextmanager
def rows_of(path: Path, types: Types, missing: Sequence[str] = ()) -> Iterator[object]:
    """The rows of a file in a form that `colonnade.write` accepts; the file name's ending determines the format.

    missing: strings that mean a missing value in CSV and TSV, in addition to the empty field.
    """
    ending = next((ending for ending in FILE_FORMATS if path.name.lower().endswith(ending)), None)
    if ending is None:
        raise UsageError(f"{path}: rows are read from files that end in {', '.join(FILE_FORMATS)}, or .h5")
    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    if missing and ending not in TEXT_FORMATS:
        raise UsageError(f"{path}: only in {', '.join(TEXT_FORMATS)} files can a string mean a missing value")
    wanted = {name: _values_type(kind) for name, kind in types.items()}
    try:
        stream = FILE_FORMATS[ending](path, wanted) if not missing else TEXT_FORMATS[ending](path, wanted, missing)
        try:
            yield stream
        finally:
            if hasattr(stream, "close"):
                stream.close()
    except (pa.ArrowInvalid, pa.ArrowKeyError, pa.ArrowNotImplementedError) as error:
        raise DataError(str(error), path=str(path)) from error


def _values_type(kind: pa.DataType) -> pa.DataType:
    """The type to parse a string as: the value type of a categorical; timestamps at least in microseconds."""
    if pa.types.is_dictionary(kind):
        return _values_type(kind.value_type)
    if pa.types.is_timestamp(kind) and kind.unit in ("s", "ms"):
        return pa.timestamp("us", kind.tz)
    return kind


def _read_csv(path: Path, types: Types, missing: Sequence[str] = (), delimiter: str = ",") -> object:
    """Read CSV. An empty field is missing, a quoted empty field is an empty string; "NA" and "nan" are plain values."""
    from pyarrow import csv

    return csv.open_csv(
        path,
        parse_options=csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            column_types=types, null_values=["", *missing], strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )


def _read_tsv(path: Path, types: Types, missing: Sequence[str] = ()) -> object:
    return _read_csv(path, types, missing, "\t")


def _read_parquet(path: Path, _types: Types) -> object:
    from pyarrow import parquet

    file = parquet.ParquetFile(path)
    return pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())


def _read_arrow(path: Path, _types: Types) -> object:
    from pyarrow import ipc

    try:
        file = ipc.open_file(pa.memory_map(str(path)))
    except pa.ArrowInvalid:
        return ipc.open_stream(pa.memory_map(str(path)))
    batches = (file.get_batch(number) for number in range(file.num_record_batches))
    return pa.RecordBatchReader.from_batches(file.schema, batches)


def _read_json_lines(path: Path, types: Types) -> object:
    from pyarrow import json

    schema = pa.schema(list(types.items())) if types else None
    return json.open_json(path, parse_options=json.ParseOptions(explicit_schema=schema))


TEXT_FORMATS: dict[str, Callable[..., object]] = {".csv": _read_csv, ".csv.gz": _read_csv, ".tsv": _read_tsv}
FILE_FORMATS: dict[str, Callable[[Path, Types], object]] = {
    **TEXT_FORMATS,
    ".parquet": _read_parquet,
    ".arrow": _read_arrow,
    ".feather": _read_arrow,
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
}
