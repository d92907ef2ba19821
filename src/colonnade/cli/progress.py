"""Bars that follow work of more than a second on stderr, and go when it is done; nothing where that is no terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, ProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as ProgressBar

from colonnade.cli.answer import printable
from colonnade.cli.text import open_console
from colonnade.model import Progress

SHOWN_AFTER = 1.0  # seconds


@contextmanager
def counting_rows(doing: str, n_rows: int | None = None) -> Iterator[Progress]:
    """A bar that counts rows, or other things."""
    with _bar(doing, [MofNCompleteColumn()], n_rows) as progress:
        yield progress


@contextmanager
def counting_bytes(doing: str) -> Iterator[Progress]:
    """A bar that counts bytes."""
    with _bar(doing, [DownloadColumn()], None) as progress:
        yield progress


@contextmanager
def waiting(doing: str) -> Iterator[None]:
    """A bar for work that does not say how far it is."""
    with _bar(doing, [], None):
        yield


@contextmanager
def _bar(doing: str, counter: list[ProgressColumn], total: int | None) -> Iterator[Progress]:
    console = open_console(stderr=True)
    look = (TextColumn("{task.description}", markup=False), BarColumn(), *counter, TimeElapsedColumn())
    off = not console.is_interactive
    bar = ProgressBar(*look, console=console, transient=True, disable=off, redirect_stdout=False, redirect_stderr=False)
    task = bar.add_task(printable(doing), total=total)
    with _shown_when_slow(bar) as stop:

        def advance(done: int, of: int | None) -> None:
            bar.update(task, completed=done, total=of if of is not None else total)
            if total is not None and done >= total:
                stop()

        yield advance


@contextmanager
def _shown_when_slow(bar: ProgressBar) -> Iterator[Callable[[], None]]:
    """Start the bar when a second has passed; what is given stops it for good."""
    timer = Timer(SHOWN_AFTER, bar.start)
    timer.daemon = True

    def stop() -> None:
        timer.cancel()
        bar.stop()

    if not bar.disable:
        timer.start()
    try:
        yield stop
    finally:
        timer.cancel()
        if timer.ident is not None:
            timer.join()
        bar.stop()
