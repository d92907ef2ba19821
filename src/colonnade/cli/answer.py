"""What every command gives back: an exit code, one JSON object, or an error on one line.

An error is one line on stderr; with --json also {"error": ...} on stdout. Of a predicate that cannot be read, its text
follows, with a mark under the place where it goes wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

import click

from colonnade.errors import ColonnadeError, PredicateError, UsageError

Facts = dict[str, Any]
FINE, FINDINGS, USAGE, FILE = 0, 1, 2, 3
json_line = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode  # made once: rows are many


class NoTables(ColonnadeError):
    """Nothing is wrong with the file, but there is nothing in it to show."""


def exit_code(error: ColonnadeError | OSError) -> int:
    """1 nothing there to show, 2 asked wrongly, 3 the file cannot be read or written."""
    if isinstance(error, NoTables):
        return FINDINGS
    return USAGE if isinstance(error, UsageError) else FILE


def report_error(error: ColonnadeError | OSError, as_json: bool) -> int:
    """The exit code for the error, once it has been told."""
    if as_json:
        print_json({"error": error_facts(error)})
    click.echo("colonnade: " + "\n".join(_error_lines(error)), err=True)
    return exit_code(error)


def error_facts(error: ColonnadeError | OSError) -> Facts:
    """The error as plain data; of a predicate also its text and the position in it."""
    facts = {"kind": type(error).__name__, "message": _error_lines(error)[0], "exit_code": exit_code(error)}
    if _has_a_mark(error):
        facts |= {"text": error.facts["text"], "position": error.facts["position"]}
    return facts


def _has_a_mark(error: ColonnadeError | OSError) -> TypeGuard[PredicateError]:
    return isinstance(error, PredicateError) and "position" in error.facts


def _error_lines(error: ColonnadeError | OSError) -> list[str]:
    """What, on one line; then the text of a predicate and the mark under it."""
    if _has_a_mark(error):
        return [printable(line) for line in str(error).split("\n")]
    return [printable(" ".join(str(error).split()))]


def print_json(facts: Facts) -> None:
    """One JSON object, in UTF-8 whatever the terminal speaks; bytes of a name that are no UTF-8 as \\udcXX."""
    click.echo(_encoded(json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False)))


def stream_json(facts: Facts, lists: Mapping[str, Iterable[list[Any]]]) -> int:
    """One JSON object whose lists are printed part by part, as they come; the exit code.

    An error on the way ends the list and is told as `error` of the object, which so stays whole.
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


def _stream_list(parts: Iterable[list[Any]]) -> None:
    comma = ""
    for part in parts:
        lines = [json_line(item) for item in part]
        if lines:
            click.echo(_encoded(f"{comma}\n    " + ",\n    ".join(lines)), nl=False)
            comma = ","


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def printable(text: str) -> str:
    """The text on one line: control characters of a file must not reach the terminal."""
    return "".join(c if c.isprintable() or c in "\u200c\u200d" else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")
