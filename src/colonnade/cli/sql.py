"""`sql`: the result of an SQL query on the tables of a file, shown or written to a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from colonnade.cli.answer import FINDINGS, FINE, print_json, stream_json
from colonnade.cli.choose import Access
from colonnade.cli.text import cell, open_console, plural, say, show_rows_of, stdout_sink, text_column
from colonnade.connect.sql import answered
from colonnade.dataclass import dataclass
from colonnade.errors import UsageError
from colonnade.row_files.base import TextOptions
from colonnade.row_files.known import HDF5, chosen_format, named_format
from colonnade.row_files.plain import plain_records, plain_values
from colonnade.row_files.sinks import check_target, sink_of
from colonnade.table import open as open_file
from colonnade.table.show import size_text, type_word

SHOWN_RESULT_ROWS = 20
RESULT = "result"  # the table of a new HDF5 file


@dataclass(frozen=True)
class ResultOptions:
    """How a result is shown or written."""

    most: int | None
    form: str | None
    out: str | None
    force: bool
    as_json: bool


def run_query(file: str, query: str, attached: tuple[str, ...], options: ResultOptions, access: Access) -> int:
    is_shown = options.out is None and options.form in (None, "table")
    form = None if is_shown else chosen_format(options.form, options.out)
    if form is not None and options.as_json and options.out in (None, "-"):
        raise UsageError(f"--json and --format {form} both print to stdout: choose one, or give a file with -o")
    other_files = _attached_files(attached)
    if options.out not in (None, "-"):
        _check_output(Path(str(options.out)), [file, *other_files.values()], options.force)
    with (
        access.open(file) as opened,
        answered(query, opened, attach=other_files, trust=access.trust, links=access.links) as reader,
    ):
        if form is None:
            return _print_records(reader, file, query, options) if options.as_json else _show(reader, options)
        return _write(reader, form, file, query, options)


def _check_output(out: Path, sources: list[str], force: bool) -> None:
    for source in map(Path, sources):
        if out.exists() and source.exists() and out.samefile(source):
            raise UsageError(f"cannot write to {out}: it is a file that is read. Choose another one")
    check_target(out, force)


def _attached_files(attached: tuple[str, ...]) -> dict[str, str]:
    files: dict[str, str] = {}
    for name, path in map(_attached, attached):
        if name in files:
            raise UsageError(f"--attach gives two files the name {name!r}: choose another one for {path}")
        files[name] = path
    return files


def _attached(text: str) -> tuple[str, str]:
    name, separator, path = text.partition("=")
    if not separator or not name or not path:
        raise UsageError(f"--attach takes NAME=FILE, not {text!r}")
    return name, path


def _limited(reader: pa.RecordBatchReader, most: int | None) -> Iterator[pa.RecordBatch]:
    """The batches up to `most` rows."""
    left = most
    for batch in reader if left != 0 else ():
        part = batch if left is None else batch.slice(0, left)
        yield part
        left = None if left is None else left - part.num_rows
        if left == 0:
            return


def _print_records(reader: pa.RecordBatchReader, file: str, query: str, options: ResultOptions) -> int:
    names = _distinct(reader.schema.names)
    columns = [{"name": name, "type": type_word(field.type)} for name, field in zip(names, reader.schema, strict=True)]
    facts = {"file": {"name": file}, "query": query, "columns": columns}
    records = (plain_records(batch, names) for batch in _limited(reader, options.most))
    return stream_json(facts, {"rows": records})


def _distinct(names: list[str]) -> list[str]:
    """Names of columns, which a result of SQL may have twice: later ones get a number."""
    distinct: list[str] = []
    for name in names:
        numbered, number = name, 1
        while numbered in distinct:
            numbered, number = f"{name}_{number}", number + 1
        distinct.append(numbered)
    return distinct


def _show(reader: pa.RecordBatchReader, options: ResultOptions) -> int:
    most = SHOWN_RESULT_ROWS if options.most is None else options.most
    rows = pa.Table.from_batches(list(_limited(reader, most + 1)), reader.schema)
    shown = rows.slice(0, most)
    if not rows.num_rows:
        say("the result has no rows")
        return FINDINGS
    columns = [
        text_column(
            field.name, None, type_word(field.type), [v for chunk in column.chunks for v in plain_values(chunk)]
        )
        for field, column in zip(shown.schema, shown.columns, strict=True)
    ]
    n_shown = show_rows_of(columns, shown.num_rows)
    head = f"the first {plural(most, 'row')} (-n shows more)" if rows.num_rows > most else plural(rows.num_rows, "row")
    left_out = len(columns) - n_shown
    say(f"{head}, {plural(n_shown, 'column')}{f'; {left_out:,} left out, see --json' if left_out else ''}")
    return FINE


def _write(reader: pa.RecordBatchReader, form: str, file: str, query: str, options: ResultOptions) -> int:
    n_rows = 0
    schema = pa.schema(
        [field.with_name(name) for field, name in zip(reader.schema, _distinct(reader.schema.names), strict=True)]
    )

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal n_rows
        for batch in _limited(reader, options.most):
            n_rows += batch.num_rows
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)

    if options.out in (None, "-"):
        rows_format = named_format(form)
        rows_format.fit(schema)
        with stdout_sink(form) as sink:
            rows_format.write(sink, schema, counted(), TextOptions())
        return FINE if n_rows else FINDINGS
    path, notes = Path(str(options.out)), list[str]()
    if form == HDF5:
        with open_file(path, "w") as target:
            target.create(RESULT, pa.RecordBatchReader.from_batches(schema, counted()))
    else:
        rows_format = named_format(form)
        notes = rows_format.fit(schema)
        with sink_of(path) as sink:
            rows_format.write(sink, schema, counted(), TextOptions())
    n_bytes = path.stat().st_size if path.is_file() else None
    if options.as_json:
        written = {"output": str(path), "format": form, "rows": n_rows, "bytes": n_bytes, "notes": notes}
        print_json({"file": {"name": file}, "query": query, **written})
    else:
        size = "" if n_bytes is None else f", {size_text(n_bytes)}"
        for line in (f"{plural(n_rows, 'row')} written to {path}{size}", *(f"note: {note}" for note in notes)):
            open_console().print(cell(line), soft_wrap=True)
    return FINE if n_rows else FINDINGS
