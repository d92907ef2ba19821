"""What a format of row files is: the protocol that each satisfies, and what all share."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, field
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from colonnade.dataclass import dataclass
from colonnade.errors import DataError
from colonnade.exchange.sources import RowStream
from colonnade.model import TableText
from colonnade.row_files.types import Types

Batches = Iterator[pa.RecordBatch]
COMPRESSED_SUFFIXES = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
"""Suffixes of compressed text, and Arrow's names for them."""

TABLE_KEY = b"colonnade.table"
"""The key in an Arrow schema of what HDF5 stores about a table as a whole: its path, title and description."""


@dataclass(frozen=True)
class TextOptions:
    """How text is read and written: types of columns, strings that mean a missing value, what separates fields."""

    types: Types = field(default_factory=dict)
    missing: Sequence[str] = ()
    delimiter: str | None = None


class RowFormat(Protocol):
    """One format. `magic` are the first bytes of its files; `is_text` if it records no types."""

    @property
    def name(self) -> str: ...
    @property
    def suffixes(self) -> tuple[str, ...]: ...
    @property
    def is_text(self) -> bool: ...
    @property
    def magic(self) -> bytes: ...

    def open(self, path: Path, options: TextOptions) -> AbstractContextManager[RowStream]:
        """The rows of a file, batch by batch."""

    def fit(self, schema: pa.Schema) -> list[str]:
        """Notes on what is written in another form. Raises a DataError that names a column that cannot be written."""

    def write(self, sink: pa.NativeFile, schema: pa.Schema, batches: Batches, options: TextOptions) -> None:
        """Write the rows, batch by batch."""


class BatchWriter(Protocol):
    """A writer of Arrow's: CSV, IPC or Parquet."""

    def write_batch(self, batch: pa.RecordBatch) -> None: ...
    def close(self) -> None: ...


def feed(writer: BatchWriter, sink: pa.NativeFile, batches: Batches) -> None:
    """Give all batches to a writer. After an error the writer must not end its file as if it were complete."""
    try:
        for batch in batches:
            writer.write_batch(batch)
    except BaseException:
        sink.close()
        with suppress(Exception):
            writer.close()
        raise
    writer.close()


def read_errors(path: Path, advice: str = "") -> AbstractContextManager[None]:
    """Errors of Arrow while a file is read, as errors of ours that name the file."""
    return _ReadErrors(path, advice)


class _ReadErrors:
    def __init__(self, path: Path, advice: str) -> None:
        self._path, self._advice = path, advice

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (pa.ArrowInvalid, pa.ArrowKeyError, pa.ArrowNotImplementedError, UnicodeDecodeError)):
            advice = self._advice if "onversion error" in str(error) else ""
            raise DataError(f"{error}{advice}", path=str(self._path)) from error


def with_table(schema: pa.Schema, path: str, text: TableText) -> pa.Schema:
    """The schema, with what HDF5 stores about the table as a whole."""
    about = {"path": path, **asdict(text)}
    stored = json.dumps({key: value for key, value in about.items() if value}, ensure_ascii=False)
    return schema.with_metadata({**(schema.metadata or {}), TABLE_KEY: stored.encode("utf-8", "surrogatepass")})


def table_of(schema: pa.Schema) -> tuple[str | None, TableText]:
    """The path and the text of the table that a schema came from; the path is None if it does not tell."""
    try:
        about = json.loads((schema.metadata or {}).get(TABLE_KEY, b"{}"))
        strings = {key: value for key, value in about.items() if isinstance(value, str)}
    except (ValueError, AttributeError, RecursionError):
        strings = {}
    return strings.get("path"), TableText(
        strings.get("title"), strings.get("description"), strings.get("units_vocabulary")
    )


def text_notes(schema: pa.Schema, word: str, forms: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Notes on columns that text holds in another form, and on what it has no place for."""
    notes = [f"{_listed(names)}: {form}" for form, names in forms if names]
    described = [field.name for field in schema if _is_described(field)]
    if described:
        notes.append(f"{_listed(described)}: {word} has no place for units and descriptions")
    return notes


def _is_described(field: pa.Field) -> bool:
    """Whether a column has units or a description; the units of times are part of their type."""
    about = field.metadata or {}
    return b"description" in about or (b"units" in about and not pa.types.is_temporal(field.type))


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")
    return f"column{'' if len(names) == 1 else 's'} {shown}"


def plain_forms(schema: pa.Schema) -> list[tuple[str, list[str]]]:
    """How text writes what it has no form of its own for, and the columns concerned."""
    forms: dict[str, list[str]] = {}
    for column in schema:
        form = _form(column.type)
        if form is not None:
            forms.setdefault(form, []).append(column.name)
    return list(forms.items())


def _form(kind: pa.DataType) -> str | None:
    if pa.types.is_dictionary(kind):
        return _form(kind.value_type) or "categories are written as plain values"
    if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):
        return "lists, records and complex numbers are written as JSON"
    if (
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or (pa.types.is_fixed_size_binary(kind) and not pa.types.is_decimal(kind))
    ):
        return "bytes are written as hex digits"
    if pa.types.is_duration(kind):
        return f"durations are written as numbers of {_UNIT_NAMES[kind.unit]}"
    if pa.types.is_timestamp(kind) and kind.tz not in (None, "UTC"):
        return f"times of the zone {kind.tz} are written in UTC"
    return None


_UNIT_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
