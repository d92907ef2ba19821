"""Completion by the shell: files, tables of a file, columns of a table. What cannot be read is not offered."""

from __future__ import annotations

from collections.abc import Callable

import click
from click.shell_completion import CompletionItem

from colonnade.errors import ColonnadeError


def files(incomplete: str) -> list[CompletionItem]:
    """The shell completes names of files itself."""
    return [CompletionItem(incomplete, type="file")]


def tables(context: click.Context, incomplete: str) -> list[CompletionItem]:
    """The tables of the file that was named before."""
    return _offered(context, incomplete, lambda: _table_paths(context))


def columns(context: click.Context, incomplete: str) -> list[CompletionItem]:
    """The columns of the table that was named, or of the only one; after a comma, and a minus, too."""
    begin, comma, word = incomplete.rpartition(",")
    before = f"{begin}{comma}{'-' if word.startswith('-') else ''}"
    return _offered(context, incomplete, lambda: [f"{before}{name}" for name in _column_names(context)])


def _offered(context: click.Context, incomplete: str, names: Callable[[], list[str]]) -> list[CompletionItem]:
    if not _arguments(context):
        return []
    try:
        return [CompletionItem(name) for name in names() if name.startswith(incomplete)]
    except (ColonnadeError, OSError):
        return []


def _arguments(context: click.Context) -> list[str]:
    """FILE and the arguments after it. click has not sorted them if an option without its value follows."""
    if not context.params.get("file"):
        return list(context.args)
    more = context.params.get("given") or [context.params.get("table")]
    return [context.params["file"], *(word for word in more if word)]


def _table_paths(context: click.Context) -> list[str]:
    from colonnade.table import open

    with open(_arguments(context)[0], library="never") as file:
        paths = file.tables()
        return [*paths, *(path.removeprefix("/") for path in paths)]


def _column_names(context: click.Context) -> list[str]:
    from colonnade.cli.choose import only_table
    from colonnade.table import open

    path, *more = _arguments(context)
    with open(path, library="never") as file:
        table = only_table(file, more[0] if more and more[0] in file else None)
        return [*(name for name in table.labels if name not in table.columns), *table.columns]
