"""The results of every command: an exit code, one JSON object, or an error on one line.

An error is one line on stderr; with --json also {"error": ...} on stdout. If a predicate cannot be parsed, its text
follows, with a mark under the position of the error.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeGuard

import click

from colonnade.errors import ColonnadeError, FormatError, PredicateError, UsageError
from colonnade.pager.safe_files import open_device

Facts = dict[str, Any]
FINE, FINDINGS, USAGE, FILE = 0, 1, 2, 3
INTERRUPTED, CLOSED_PIPE = 130, 141
json_line = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode  # created once: called for every row


class NoTables(ColonnadeError):
    """The file is valid, but there is nothing in it to show."""


def report_interrupt() -> int:
    """After Ctrl-C: one line, and the exit code that shells give to interrupted programs."""
    click.echo("colonnade: interrupted", err=True)
    return INTERRUPTED


def leave_pipe() -> int:
    """After the program that read the output has ended, as head does: nothing more is written. Returns the exit code of
    programs that a closed pipe ends."""
    with suppress(OSError, ValueError), open_device(Path(os.devnull)) as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
    return CLOSED_PIPE


def exit_code(error: ColonnadeError | OSError) -> int:
    """1: nothing to show; 2: wrong usage; 3: the file cannot be read or written."""
    if isinstance(error, NoTables):
        return FINDINGS
    return USAGE if isinstance(error, UsageError) else FILE


ROW_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".jsonl", ".ndjson", ".arrow", ".feather", ".arrows", ".parquet", ".pq")


def report_error(error: ColonnadeError | OSError, as_json: bool, file: str = "") -> int:
    """Print the error, and return its exit code. file: the HDF5 file that the command was given."""
    if as_json:
        print_json({"error": error_facts(error)})
    click.echo("colonnade: " + "\n".join(_error_lines(error)), err=True)
    if isinstance(error, FormatError) and file.lower().endswith(ROW_SUFFIXES):
        click.echo(printable(f"make an HDF5 file of it with: colonnade convert {file} OUT.h5"), err=True)
    return exit_code(error)


def error_facts(error: ColonnadeError | OSError) -> Facts:
    """The error as plain data; for a predicate also its text and the position of the error."""
    facts = {"kind": type(error).__name__, "message": _error_lines(error)[0], "exit_code": exit_code(error)}
    if _has_a_mark(error):
        facts |= {"text": error.text, "position": error.position}
    return facts


def _has_a_mark(error: ColonnadeError | OSError) -> TypeGuard[PredicateError]:
    return isinstance(error, PredicateError) and error.position is not None


def _error_lines(error: ColonnadeError | OSError) -> list[str]:
    """The message on one line; then the text of a predicate and the mark under it."""
    if _has_a_mark(error):
        return [printable(line) for line in str(error).split("\n")]
    return [printable(" ".join(str(error).split()))]


def print_json(facts: Facts) -> None:
    """Print one JSON object, in UTF-8 whatever the encoding of the terminal; bytes of a name that are not UTF-8 as
    \\udcXX."""
    click.echo(_encoded(json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False)))


def stream_json(facts: Facts, lists: Mapping[str, Iterable[Sequence[object]]]) -> int:
    """Print one JSON object whose lists are printed part by part, as they arrive; returns the exit code.

    An error ends the list and becomes the key `error` of the object, so that the JSON stays valid.
    """
    begin = json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False)
    click.echo(_encoded(begin.removesuffix("\n}")), nl=False)
    code = FINE
    for name, parts in lists.items():
        click.echo(_encoded(f",\n  {json.dumps(name)}: ["), nl=False)
        try:
            _stream_list(parts)
            click.echo(b"\n  ]", nl=False)
        except BrokenPipeError:
            raise
        except (ColonnadeError, OSError) as error:
            click.echo(_encoded(f'\n  ],\n  "error": {json.dumps(error_facts(error))}'), nl=False)
            code = report_error(error, as_json=False)
            break
    click.echo(b"\n}")
    return code


def _stream_list(parts: Iterable[Sequence[object]]) -> None:
    comma = ""
    for part in parts:
        lines = [json_line(item) for item in part]
        if lines:
            click.echo(_encoded(f"{comma}\n    " + ",\n    ".join(lines)), nl=False)
            comma = ","


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def printable(text: str) -> str:
    """The text on one line, safe to print: control characters in a file must not reach the terminal."""
    return "".join(c if c.isprintable() or c in "\u200c\u200d" else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")
