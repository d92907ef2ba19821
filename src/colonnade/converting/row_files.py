"""Converts between HDF5 files and row files (CSV, Parquet, Arrow, JSON lines), and between these, batch by batch."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from colonnade.converting.draft import LayoutOptions
from colonnade.dataclass import dataclass
from colonnade.errors import ColumnNotFound, UsageError
from colonnade.exchange.sources import RowStream
from colonnade.model import Progress, TableText
from colonnade.nodes.paths import group_at, join_path
from colonnade.pager.safe_files import check_regular, part_path
from colonnade.row_files.base import RowFormat, TextOptions, table_of
from colonnade.row_files.known import HDF5, HDF5_SUFFIXES, format_of, format_of_content, named_format
from colonnade.row_files.sinks import sink_of
from colonnade.table import File, Table
from colonnade.table import open as open_file
from colonnade.table.exporting import export

if TYPE_CHECKING:
    from colonnade.edit.create import TableOptions

MOST_LISTED_OTHERS = 5


@dataclass(frozen=True)
class RowFiles:
    """Which of the two files are row files, and how they are read and written; None stands for HDF5."""

    source: RowFormat | None
    target: RowFormat | None
    table: str | None
    text: TextOptions


def row_format(path: Path, asked: str | None, is_source: bool) -> RowFormat | None:
    """The format of a row file: as asked, else by its suffix, else by its first bytes; None for HDF5."""
    if is_source and not path.is_dir():
        check_regular(path)
    if asked is not None:
        return None if asked == HDF5 else named_format(asked)
    known = format_of(path)
    if known is not None or (path.suffix.lower() in HDF5_SUFFIXES and not is_source) or path.is_dir():
        return known
    return format_of_content(path) if is_source else None


def check_text_options(files: RowFiles) -> None:
    """Refuse options of text where no file is text."""
    given = [name for name, value in (("types", files.text.types), ("missing", files.text.missing)) if value]
    if given and not (files.source is not None and files.source.is_text):
        raise UsageError(f"{given[0]} (--{given[0]}) is for sources in CSV, TSV or JSON lines")
    if files.text.delimiter is not None and not any(
        known is not None and known.name in ("csv", "tsv") for known in (files.source, files.target)
    ):
        raise UsageError("delimiter (--delimiter) is for CSV and TSV files")


# -- from HDF5 --


def export_table(source: File, target: Path, files: RowFiles, progress: Progress | None) -> tuple[str, list[str]]:
    """Write one table as a row file; returns its path, and notes on what is not in that file."""
    assert files.target is not None  # checked by the caller
    table = _chosen_table(source, files.table, target)
    notes = [*files.target.fit(table[:].schema), *_left_out(source, [table], target)]
    _export(table, target, files.target, files.text, progress)
    return table.path, notes


def export_tables(
    source: File, folder: Path, files: RowFiles, progress: Progress | None
) -> tuple[list[str], list[str]]:
    """Write each table as a row file in a new folder, which appears when it is complete."""
    assert files.target is not None  # checked by the caller
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is a folder that is not empty: name a new one")
    tables = [source[path] for path in outer_tables(source)]
    if not tables:
        raise UsageError(f"{source.name} holds no tables; list its contents with: colonnade ls")
    notes = [note for table in tables for note in files.target.fit(table[:].schema)]
    aside = part_path(folder.resolve())
    aside.mkdir()
    try:
        for table in tables:
            file_path = aside / f"{table.path.strip('/') or 'table'}{files.target.suffixes[0]}"
            if not file_path.resolve().is_relative_to(aside.resolve()):
                raise UsageError(f"cannot write {table.path} into {folder}: its path leads out of the folder")
            file_path.parent.mkdir(parents=True, exist_ok=True)
            _export(table, file_path, files.target, files.text, progress)
        if folder.exists():
            folder.rmdir()
        aside.rename(folder)
    finally:
        if aside.exists():
            from shutil import rmtree

            rmtree(aside)
    return [table.path for table in tables], [*notes, *_left_out(source, tables, folder)]


def _export(table: Table, target: Path, known: RowFormat, text: TextOptions, progress: Progress | None) -> None:
    about = table.path, TableText(table.title, table.description, table.units_vocabulary)
    names = [*(name for name in table.labels if name not in table.columns), *table.columns]
    with sink_of(target) as sink:
        export(table.select(names), known, sink, text_options=text, about=about, progress=progress)


def outer_tables(source: File) -> list[str]:
    """The paths of the tables, without those inside another table, which are other views of it."""
    paths = source.tables()
    return [path for path in paths if not any(path.startswith(f"{other}/") for other in paths)]


def _chosen_table(source: File, asked: str | None, target: Path) -> Table:
    if asked is not None:
        return source[asked]
    paths = outer_tables(source)
    if len(paths) == 1:
        return source[paths[0]]
    if not paths:
        raise UsageError(f"{source.name} holds no tables; list its contents with: colonnade ls")
    raise UsageError(
        f"{source.name} holds {len(paths)} tables, {target.name} can hold one: choose with table= (--table) from "
        f"{', '.join(paths[:8])}; or name a folder as the target, and the format (--format {target.suffix.strip('.')})",
        tables=paths,
    )


def _left_out(source: File, tables: Collection[Table], target: Path) -> list[str]:
    """Notes on what a row file has no file_path for."""
    notes = []
    others = list(other_paths(source, [table.path for table in tables]))
    if others:
        more = f" and {len(others) - MOST_LISTED_OTHERS:,} more" if len(others) > MOST_LISTED_OTHERS else ""
        notes.append(f"{', '.join(others[:MOST_LISTED_OTHERS])}{more} of {source.name} are not in {target}")
    for table in tables:
        attributed = [name for name in (*table.labels, *table.columns) if len(table[name].attrs)]
        if len(table.attrs) or attributed:
            notes.append(f"{table.path}: attributes of the table and its columns are not in {target}")
        if table.indexes:
            notes.append(f"{table.path}: its search indexes are not in {target}")
    return notes


def other_paths(source: File, tables: Collection[str]) -> Iterator[str]:
    """The objects of a file outside of some tables, except the groups that contain these."""
    whole = {f"/{path.strip('/')}" for path in tables}
    if "/" in whole:
        return
    waiting = ["/"]
    while waiting:
        here = waiting.pop()
        for child in group_at(source._handle.library_root, here).children():
            path = join_path(here, child.name)
            if any(table.startswith(f"{path}/") for table in whole):
                waiting.append(path)
            elif path not in whole:
                yield path


# -- from row files --


def import_rows(
    source: Path, target: Path, files: RowFiles, layout: str, options: LayoutOptions, progress: Progress | None
) -> str:
    """Write a row file as the table of a new HDF5 file; returns the path of the table."""
    from colonnade.edit.create import TableOptions, prepare
    from colonnade.table.at_once import write_with

    assert files.source is not None  # checked by the caller
    with files.source.open(source, files.text) as stream:
        _check_types(source, stream, files.text)
        recorded, text = table_of(stream.schema)
        name = f"/{(files.table or recorded or _stem(source, files.source)).strip('/')}"
        wanted: TableOptions = TableOptions(
            title=text.title, description=text.description, units_vocabulary=text.units_vocabulary, layout=layout,
            allow_reserved=True, **options,
        )  # fmt: skip
        if options["directory"]:
            write_with(target, stream, name, "error", wanted, progress)
            return name
        draft = prepare(stream, wanted)
        with open_file(target, "w") as file:
            file._write(name, draft, "error", progress)
    return name


def convert_rows(source: Path, target: Path, files: RowFiles, progress: Progress | None) -> list[str]:
    """Write a row file in another format; returns notes on what is written in another form."""
    assert files.source is not None and files.target is not None  # checked by the caller
    with files.source.open(source, files.text) as stream:
        _check_types(source, stream, files.text)
        notes = files.target.fit(stream.schema)
        written = TextOptions(delimiter=files.text.delimiter if not files.source.is_text else None)
        with sink_of(target) as sink:
            try:
                files.target.write(sink, stream.schema, _counted(stream, progress), written)
            except pa.ArrowException as error:
                raise UsageError(f"these columns cannot be written as {files.target.name}: {error}") from error
    return notes


def _counted(stream: RowStream, progress: Progress | None) -> Iterator[pa.RecordBatch]:
    n_rows = 0
    for batch in stream.batches:
        yield batch
        n_rows += batch.num_rows
        if progress is not None:
            progress(n_rows, stream.n_rows)


def _check_types(source: Path, stream: RowStream, text: TextOptions) -> None:
    """Refuse types of columns that are not there."""
    for name in text.types:
        if name not in stream.schema.names:
            raise ColumnNotFound(name, f"{source} (named in types)", stream.schema.names)


def _stem(path: Path, known: RowFormat) -> str:
    """The name of a file without its suffixes."""
    name = path.name
    at = max((name.lower().rfind(suffix) for suffix in known.suffixes), default=-1)
    return name[:at] if at > 0 else path.stem


def check_differ(source: str | os.PathLike[str] | File, target: Path) -> None:
    """Refuse to convert a file into itself."""
    path = Path(source.name if isinstance(source, File) else source)
    if target.exists() and path.exists() and path.samefile(target):
        raise UsageError("a file cannot be converted into itself: name another target")
