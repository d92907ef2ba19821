"""In which format rows are written, and stdout as where they go."""

from __future__ import annotations

import sys
from codecs import getincrementaldecoder
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from colonnade.cli.answer import printable
from colonnade.errors import UsageError
from colonnade.row_files.known import HDF5, HDF5_SUFFIXES, ROW_FORMATS, format_of, known_suffixes
from colonnade.row_files.sinks import ByteStream, pipe_sink

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


@contextmanager
def stdout_sink(form: str) -> Iterator[pa.NativeFile]:
    """Where a format is printed. What is not text is refused on a terminal."""
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
