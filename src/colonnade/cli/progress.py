"""Progress bars on stderr for work of more than a second, removed when it is done; none where stderr is not a
terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, Timer
from typing import TYPE_CHECKING, Literal

from colonnade.cli.answer import printable
from colonnade.cli.text import open_console
from colonnade.model import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as ProgressBar

SHOWN_AFTER = 1.0  # seconds
Counted = Literal["rows", "bytes", "nothing"]


@contextmanager
def counting_rows(doing: str, n_rows: int | None = None) -> Iterator[Progress]:
    """A bar that counts rows, or other things."""
    with _bar(doing, "rows", n_rows) as progress:
        yield progress


@contextmanager
def counting_bytes(doing: str) -> Iterator[Progress]:
    with _bar(doing, "bytes", None) as progress:
        yield progress


@contextmanager
def waiting(doing: str) -> Iterator[None]:
    """A bar for work that does not report its progress."""
    with _bar(doing, "nothing", None):
        yield


@contextmanager
def _bar(doing: str, counted: Counted, total: int | None) -> Iterator[Progress]:
    if not sys.stderr.isatty():
        yield ignore_progress
        return
    bar = _LateBar(doing, counted, total)
    timer = Timer(SHOWN_AFTER, bar.show)
    timer.daemon = True
    timer.start()
    try:
        yield bar.advance
    finally:
        timer.cancel()
        timer.join()
        bar.stop()


def ignore_progress(_done: int, _total: int | None) -> None:
    """Used where there is no bar."""


class _LateBar:
    """A bar created only when it is shown, in the thread of a timer: quick work does not load rich."""

    def __init__(self, doing: str, counted: Counted, total: int | None) -> None:
        self._doing, self._counted, self._planned = doing, counted, total
        self._done, self._total = 0, total
        self._shown: ProgressBar | None = None
        self._over = False
        self._lock = Lock()

    def show(self) -> None:
        """Create the bar, unless the work is done."""
        bar = _new_bar(self._counted)
        with self._lock:
            if not self._over:
                bar.add_task(printable(self._doing), total=self._total, completed=self._done)
                bar.start()
                self._shown = bar

    def advance(self, done: int, total: int | None) -> None:
        """Report how much is done. The planned total, if known from the start, is the end of the bar."""
        with self._lock:
            self._done, self._total = done, total if total is not None else self._planned
            if self._shown is not None:
                self._shown.update(self._shown.task_ids[0], completed=done, total=self._total)
        if self._planned is not None and done >= self._planned:
            self.stop()

    def stop(self) -> None:
        """Remove the bar for good."""
        with self._lock:
            self._over = True
            if self._shown is not None:
                self._shown.stop()


def _new_bar(counted: Counted) -> ProgressBar:
    from rich import progress as parts

    counters: dict[Counted, list[parts.ProgressColumn]] = {
        "rows": [parts.MofNCompleteColumn()],
        "bytes": [parts.DownloadColumn()],
        "nothing": [],
    }
    console = open_console(stderr=True)
    text = parts.TextColumn("{task.description}", markup=False)
    look = (text, parts.BarColumn(), *counters[counted], parts.TimeElapsedColumn())
    off = not console.is_interactive
    return parts.Progress(
        *look, console=console, transient=True, disable=off, redirect_stdout=False, redirect_stderr=False
    )
