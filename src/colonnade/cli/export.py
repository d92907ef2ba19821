"""`where -o` and `where --format`: writes the rows that match to a file or to stdout."""

from __future__ import annotations

import sys
from codecs import getincrementaldecoder
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pyarrow as pa

from colonnade.cli.answer import FINDINGS, FINE, print_json, printable
from colonnade.cli.choose import Access, Question, ReadOptions, batch_rows, question_of
from colonnade.cli.progress import counting_rows, ignore_progress
from colonnade.cli.text import cell, open_console, plural
from colonnade.errors import UsageError
from colonnade.model import Progress, TableText
from colonnade.row_files.known import HDF5, HDF5_SUFFIXES, ROW_FORMATS, format_of, known_suffixes, named_format
from colonnade.row_files.sinks import ByteStream, check_target, pipe_sink, sink_of
from colonnade.table.exporting import export, write_new_file
from colonnade.table.show import size_text

NOT_FOR_A_TERMINAL = ("arrow", "arrows", "parquet")


def chosen_format(form: str | None, out: str | None) -> str:
    """The format given by --format, or by the suffix of --output; "table" when neither is given."""
    if form == "table" and out is not None:
        raise UsageError(f"the format table cannot be written to a file: choose {', '.join([HDF5, *ROW_FORMATS])}")
    if form == HDF5 and out in (None, "-"):
        raise UsageError("an HDF5 file cannot be written to stdout: give a file with -o")
    if form is not None or out is None:
        return form or "csv"
    known = format_of(Path(out))
    if known is not None:
        return known.name
    if Path(out).suffix.lower() in HDF5_SUFFIXES:
        return HDF5
    endings = ", ".join([*HDF5_SUFFIXES[:1], *known_suffixes()])
    raise UsageError(f"{out!r} ends in none of {endings}: give the format with --format")


def write_rows(file: str, given: Sequence[str], wish: ReadOptions, as_json: bool, access: Access) -> int:
    if wish.explain or wish.row_numbers:
        raise UsageError("--explain and --row-numbers each replace the rows: give only one of them")
    chosen_format(wish.form, wish.out)
    with access.open(file) as opened:
        return write_matches(question_of(opened, given, wish), as_json)


def write_matches(question: Question, as_json: bool) -> int:
    """Write the rows to a file, or to stdout, batch by batch; returns the exit code."""
    wish = question.wish
    form, out = chosen_format(wish.form, wish.out), wish.out
    if out is None or out == "-":
        if as_json:
            raise UsageError(f"--json and --format {form} both print to stdout: choose one, or give a file with -o")
        rows_format = named_format(form)
        rows_format.fit(question.rows.schema)
        with _stdout(form) as sink, _counted(form, quiet=sys.stdout.isatty()) as progress:
            n_rows = export(question.rows, rows_format, sink, batch_rows=batch_rows(question), progress=progress)
        return FINE if n_rows else FINDINGS
    path = Path(out)
    if path.exists() and Path(question.file.name).exists() and path.samefile(question.file.name):
        raise UsageError(f"cannot write to {out}: it is the file that is read. Choose another one")
    check_target(path, wish.force)
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


@contextmanager
def _stdout(form: str) -> Iterator[pa.NativeFile]:
    terminal = sys.stdout.isatty()
    if terminal and form in NOT_FOR_A_TERMINAL:
        raise UsageError(f"cannot write {form} to a terminal: give a file with -o, or pipe it to a program")
    stream = sys.stdout.buffer
    with pipe_sink(_Terminal(stream) if terminal else stream) as sink:
        yield sink


class _Terminal:
    """A terminal: control characters in the output do not reach it raw."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._decoder = getincrementaldecoder("utf-8")("backslashreplace")

    def write(self, data: bytes) -> None:
        text = self._decoder.decode(bytes(data))
        safe = "".join(char if char in "\n\t" else printable(char) for char in text)
        self._stream.write(safe.encode(sys.stdout.encoding or "utf-8", "backslashreplace"))

    def flush(self) -> None:
        self._stream.flush()
