"""Bars that follow long work on stderr, and go when it is done; nothing where that is no terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, ProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as ProgressBar

from colonnade.cli.text import open_console
from colonnade.model import Progress


@contextmanager
def counting_rows(doing: str, n_rows: int | None = None) -> Iterator[Progress]:
    """A bar that counts rows."""
    with _bar(doing, MofNCompleteColumn(), n_rows) as progress:
        yield progress


@contextmanager
def counting_bytes(doing: str) -> Iterator[Progress]:
    """A bar that counts bytes."""
    with _bar(doing, DownloadColumn(), None) as progress:
        yield progress


@contextmanager
def _bar(doing: str, counter: ProgressColumn, total: int | None) -> Iterator[Progress]:
    console = open_console(stderr=True)
    look = (TextColumn(doing), BarColumn(), counter, TimeElapsedColumn())
    with ProgressBar(*look, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(doing, total=total)

        def advance(done: int, of: int | None) -> None:
            bar.update(task, completed=done, total=of if of is not None else total)
            if total is not None and done >= total:
                bar.stop()

        yield advance
