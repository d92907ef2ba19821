"""What every command gives back: an exit code, one JSON object, or an error on one line.

An error is one line on stderr; with --json also {"error": ...} on stdout.
"""

from __future__ import annotations

import json
from typing import Any

import click

from colonnade.errors import ColonnadeError, UsageError

Facts = dict[str, Any]
FINE, FINDINGS, USAGE, FILE = 0, 1, 2, 3


class NoTables(ColonnadeError):
    """Nothing is wrong with the file, but there is nothing in it to show."""


def exit_code(error: ColonnadeError | OSError) -> int:
    """1 nothing there to show, 2 asked wrongly, 3 the file cannot be read or written."""
    if isinstance(error, NoTables):
        return FINDINGS
    return USAGE if isinstance(error, UsageError) else FILE


def report_error(error: ColonnadeError | OSError, as_json: bool) -> int:
    """The exit code for the error, once it has been told."""
    code = exit_code(error)
    message = printable(" ".join(str(error).split()))
    if as_json:
        print_json({"error": {"kind": type(error).__name__, "message": message, "exit_code": code}})
    click.echo(f"colonnade: {message}", err=True)
    return code


def print_json(facts: Facts) -> None:
    """One JSON object, in UTF-8 whatever the terminal speaks; bytes of a name that are no UTF-8 as \\udcXX."""
    text = json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False)
    click.echo(text.encode("utf-8", "backslashreplace"))


def printable(text: str) -> str:
    """The text on one line: control characters of a file must not reach the terminal."""
    return "".join(c if c.isprintable() or c in "\u200c\u200d" else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")
