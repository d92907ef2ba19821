"""`where -o` and `where --format`: writes the rows that match to a file or to stdout."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from colonnade.cli.answer import FINDINGS, FINE, print_json
from colonnade.cli.choose import Access, Question, ReadOptions, batch_rows, question_of
from colonnade.cli.progress import counting_rows, ignore_progress
from colonnade.cli.text import cell, open_console, plural, stdout_sink
from colonnade.errors import UsageError
from colonnade.model import Progress, TableText
from colonnade.row_files.known import HDF5, chosen_format, named_format
from colonnade.row_files.sinks import check_target, sink_of
from colonnade.table.exporting import export, write_new_file
from colonnade.table.show import size_text


def write_rows(file: str, given: Sequence[str], options: ReadOptions, as_json: bool, access: Access) -> int:
    if options.explain or options.row_numbers:
        raise UsageError("--explain and --row-numbers each replace the rows: give only one of them")
    chosen_format(options.form, options.out)
    with access.open(file) as opened:
        return write_matches(question_of(opened, given, options), as_json)


def write_matches(question: Question, as_json: bool) -> int:
    """Write the rows to a file, or to stdout, batch by batch; returns the exit code."""
    options = question.options
    form, out = chosen_format(options.form, options.out), options.out
    if out is None or out == "-":
        if as_json:
            raise UsageError(f"--json and --format {form} both print to stdout: choose one, or give a file with -o")
        rows_format = named_format(form)
        rows_format.fit(question.rows.schema)
        with stdout_sink(form) as sink, _counted(form, quiet=sys.stdout.isatty()) as progress:
            n_rows = export(question.rows, rows_format, sink, batch_rows=batch_rows(question), progress=progress)
        return FINE if n_rows else FINDINGS
    path = Path(out)
    if path.exists() and Path(question.file.name).exists() and path.samefile(question.file.name):
        raise UsageError(f"cannot write to {out}: it is the file that is read. Choose another one")
    check_target(path, options.force)
    with _counted(form) as progress:
        if form == HDF5:
            n_rows, notes = write_new_file(question.rows, path, progress), []
        else:
            rows_format = named_format(form)
            notes = rows_format.fit(question.rows.schema)
            about = question.table.path, TableText(question.table.title, question.table.description)
            with sink_of(path) as sink:
                n_rows = export(
                    question.rows, rows_format, sink, about=about, batch_rows=batch_rows(question), progress=progress
                )
    _tell_written(question, form, path, n_rows, notes, as_json)
    return FINE if n_rows else FINDINGS


def _counted(form: str, quiet: bool = False) -> AbstractContextManager[Progress]:
    return nullcontext(ignore_progress) if quiet else counting_rows(f"writing {form}")


def _tell_written(question: Question, form: str, path: Path, n_rows: int, notes: Sequence[str], as_json: bool) -> None:
    n_bytes = path.stat().st_size if path.is_file() else None
    if as_json:
        written = {"output": str(path), "format": form, "rows": n_rows, "bytes": n_bytes, "notes": list(notes)}
        print_json({**question.facts, **written})
        return
    size = "" if n_bytes is None else f", {size_text(n_bytes)}"
    console = open_console()
    for line in (f"{plural(n_rows, 'row')} written to {path}{size}", *(f"note: {note}" for note in notes)):
        console.print(cell(line), soft_wrap=True)
