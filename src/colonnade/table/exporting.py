"""Writes the rows of a query to another file: as a table of an HDF5 file, or as a row file, such as Parquet."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from colonnade.dataclass import replace
from colonnade.edit.create import TableOptions, column_options
from colonnade.errors import UsageError
from colonnade.exchange.sources import RowStream
from colonnade.model import AUTO, ColumnOptions, Plain, Progress, TableText
from colonnade.row_files.base import RowFormat, TextOptions, with_table
from colonnade.row_files.known import format_of
from colonnade.row_files.sinks import check_target, sink_of
from colonnade.table import File, open
from colonnade.table.at_once import write_with
from colonnade.table.references import cell_converter

if TYPE_CHECKING:
    from colonnade.edit.create import WriteMode
    from colonnade.pager.options import Target
    from colonnade.table.rows import QueriedTable, Query

EXPORT_ROWS = 65_536
_HDF5_ONLY = ("columns", "labels", "index", "layout", "version", "directory", "anndata", "allow_reserved", "references")


def write_query(
    query: Query, target: Target, table: str | None, mode: WriteMode | Literal["append"], given: TableOptions,
    progress: Progress | None,
) -> None:  # fmt: skip
    """Write the rows of a query as `Query.write` describes it."""
    path = Path(target) if isinstance(target, (str, os.PathLike)) else None
    row_format = None if path is None else format_of(path)
    if path is not None and row_format is not None:
        _write_row_file(query, path, row_format, mode, table, given, progress)
        return
    if path is not None and not _is_own_file(query, path):
        _refuse_references(query, path)
    name, options = table or query._table.path, options_of(query, given)
    rows = row_stream(query)
    if path is not None and _is_own_file(query, path) and query._file._handle.writable:
        if mode == "append" and name in query._file:
            query._file[name].append(rows, progress=progress)
            return
        how: WriteMode = "error" if mode == "append" else mode
        _create_table(query, query._file, name, rows, how, options, progress)
        return
    write_with(target, rows, name, mode, options, progress, lambda file: _copy_attributes(query, file, name))


def _write_row_file(
    query: Query, path: Path, row_format: RowFormat, mode: str, table: str | None, given: TableOptions,
    progress: Progress | None,
) -> None:  # fmt: skip
    default = TableOptions()
    odd = [option for option in _HDF5_ONLY if getattr(given, option) != getattr(default, option)]
    if odd or mode == "append":
        what = f"{odd[0]}=" if odd else "mode='append'"
        raise UsageError(f"cannot write {path}: {what} is for HDF5 files, not for {row_format.name}")
    if _is_own_file(query, path):
        raise UsageError(f"cannot write {path}: it is the file that is read. Choose another one")
    check_target(path, mode == "replace", "mode='replace'")
    options = options_of(query, given)
    text = TableText(options.title, options.description, options.units_vocabulary)
    with sink_of(path) as sink:
        export(query, row_format, sink, about=(table or query._table.path, text), progress=progress)


def _is_own_file(query: Query, path: Path) -> bool:
    source = query._file._handle.path
    return source is not None and path.exists() and source.exists() and path.samefile(source)


def _refuse_references(query: Query, path: Path) -> None:
    """Refuse columns with references, which would lead to other objects of another file, or nowhere."""
    for field in query.schema:
        if cell_converter(field.type, query._file) is not None:
            raise UsageError(
                f"cannot write column {field.name!r} to {path}: its references are valid only in "
                f"{query._file.name}. Leave it out with select, or copy the whole file with colonnade.copy",
                column=field.name,
            )


def write_new_file(query: Query, path: Path, progress: Progress | None) -> int:
    """Write the rows as the only table of a new file, which replaces what has its name; returns how many there were."""
    _refuse_references(query, path)
    with open(path, "w") as file:
        _create_table(query, file, query._table.path, row_stream(query), "error", options_of(query), progress)
        return file[query._table.path].n_rows


def _create_table(
    query: Query, file: File, name: str, rows: RowStream, mode: WriteMode, options: TableOptions,
    progress: Progress | None,
) -> None:  # fmt: skip
    from colonnade.edit.create import prepare

    with file.transaction():
        file._write(name, prepare(rows, options), mode, progress)
        _copy_attributes(query, file, name)


def export(
    query: Query,
    row_format: RowFormat,
    sink: pa.NativeFile,
    *,
    text_options: TextOptions | None = None,
    about: tuple[str, TableText] | None = None,
    batch_rows: int = EXPORT_ROWS,
    progress: Progress | None = None,
) -> int:
    """Write the rows to a sink, batch by batch; returns how many there were.

    about: path and text of the table, for formats that keep them.
    """
    stream = row_stream(query, batch_rows)
    schema = stream.schema if about is None or row_format.is_text else with_table(stream.schema, *about)
    row_format.fit(schema)
    n_rows = 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal n_rows
        for batch in stream.batches:
            yield batch if about is None else batch.replace_schema_metadata(schema.metadata)
            n_rows += batch.num_rows
            if progress is not None:
                progress(n_rows, stream.n_rows)

    try:
        row_format.write(sink, schema, counted(), text_options or TextOptions())
    except pa.ArrowException as error:
        raise UsageError(f"these columns cannot be written as {row_format.name}: {error}") from error
    return n_rows


def row_stream(query: Query, batch_rows: int = EXPORT_ROWS) -> RowStream:
    """The rows of a query, read as they are requested; without rows, one batch that has the categories."""
    n_rows = None if query._predicate is not None else query.count()
    return RowStream(query.schema, _batches(query, batch_rows), n_rows)


def _batches(query: Query, batch_rows: int) -> Iterator[pa.RecordBatch]:
    n_batches = 0
    for batch in query.batches(batch_rows):
        yield batch
        n_batches += 1
    if not n_batches:
        schema = query.schema
        yield pa.record_batch([no_rows(query._table, field.name, field.type) for field in schema], schema=schema)


def no_rows(table: QueriedTable, name: str, kind: pa.DataType) -> pa.Array:
    """An array without rows; for a categorical, with its categories."""
    if not pa.types.is_dictionary(kind):
        return pa.nulls(0, kind)
    stored = table[name].categories
    categories = pa.array([] if stored is None else stored, kind.value_type)
    return pa.DictionaryArray.from_arrays(pa.array([], kind.index_type), categories, ordered=kind.ordered)


# -- what is kept --


def options_of(query: Query, given: TableOptions | None = None) -> TableOptions:
    """How to write the rows of a query: as requested, and otherwise as its table has them."""
    asked, info = given or TableOptions(), query._table.info
    stored = _stored_names(query)
    labels = [name for name in info.label_names if name in stored] if asked.labels is None else asked.labels
    is_same_layout = asked.layout == query._table.layout
    own = {name: option for name in stored if is_same_layout and (option := _column_options(query, name))}
    return replace(
        asked,
        title=info.title if asked.title is None else asked.title,
        description=info.description if asked.description is None else asked.description,
        units_vocabulary=info.units_vocabulary if asked.units_vocabulary is None else asked.units_vocabulary,
        labels=labels or None,
        columns=_merged(own, asked.columns or {}),
        allow_reserved=True,
    )


def _stored_names(query: Query) -> list[str]:
    """The columns that are read as they are stored: a computed one has no options, labels or attributes of its own."""
    return [name for name in query._names if name not in query._computed and query._table._is_stored(name)]


def _column_options(query: Query, name: str) -> ColumnOptions | None:
    """How a column marks missing rows, if that is not what a new column would have."""
    column = query._table[name]
    info = column.info
    if info.storage == "sectioned":
        return ColumnOptions(sparse=True)
    is_number = pa.types.is_integer(column.dtype) or pa.types.is_floating(column.dtype)
    if info.form == Plain() and info.fill is not None and is_number:
        return ColumnOptions(fill=column.fill)
    return ColumnOptions(enum=True) if info.type.kind == "enum" and pa.types.is_dictionary(column.dtype) else None


def _merged(
    own: Mapping[str, ColumnOptions], asked: Mapping[str, ColumnOptions | Mapping[str, object]]
) -> dict[str, ColumnOptions]:
    merged = dict(own)
    for name, options in asked.items():
        given = options if isinstance(options, ColumnOptions) else column_options(name, options)
        before = own.get(name, ColumnOptions())
        merged[name] = replace(given, fill=before.fill) if given.fill is AUTO and not given.sparse else given
    return merged


def _copy_attributes(query: Query, file: File, name: str) -> None:
    """Give the new table and its columns the attributes that users gave to those that were read."""
    source, written = query._table, file[name]
    if own := dict(source.attrs):
        written.attrs.update(own)
    for column in _stored_names(query):
        if column in written and (own := dict(source[column].attrs)):
            written[column].attrs.update(own)
