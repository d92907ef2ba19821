"""One file read, checked and changed in ways that need libhdf5, after it was read without.

Each step is a function of its own, and most have turns: libhdf5 crashes on some files.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import h5py

import colonnade as cn
from colonnade.cli.commands import main as command_line
from tools.fuzz.answers import Answers
from tools.fuzz.elements import read_elements
from tools.fuzz.readers import read_tables, rows_of
from tools.fuzz.turns import ALL, Turn


class _TakenBackError(Exception):
    """Ends a change that is not to stay."""


def read_with_library(path: Path, aside: Path, answers: Answers, turn: Turn = ALL) -> Answers:
    """The readers whose turn it is; `answers` are those without libhdf5; `aside` is for a copy that is changed."""
    if turn.auto:
        _as_usual(path, answers)
    if turn.check:
        answers.ask("check", lambda: cn.check(path, deep=turn.deep) and None)
    if turn.elements:
        _elements(path, answers, turn)
    if turn.by_library:
        _library_way(path, answers)
    for word in turn.commands:
        name, *options = word.split()
        answers.ask(f"colonnade {word}", lambda words=[name, str(path), *options]: _run(words))  # type: ignore[misc]
    if turn.repairs:
        answers.ask("fix", lambda: cn.fix(path, dry_run=True) and None)
    if turn.change:
        shutil.copyfile(path, aside)
        _change(aside, answers)
    return answers


def _as_usual(path: Path, answers: Answers) -> None:
    """With `library="auto"`: what the file answered without libhdf5 is the same; what it refused may be answered."""
    usual = Answers()

    def read() -> None:
        with cn.open(path, n_threads=1) as file:
            usual.columns.extend(read_tables(file, usual, Turn(rest_of_table=False, as_users=False)))

    usual.ask("open", read)
    answers.bugs.extend(bug for bug in usual.bugs if bug not in answers.bugs)
    for step, answer in usual.steps.items():
        answers.steps[f"auto: {step}"] = answer
    for table, column in usual.columns:
        answers.agree("auto", f"{table} {column} read", f"auto: {table} {column} read")


def _elements(path: Path, answers: Answers, turn: Turn) -> None:
    def read() -> None:
        with cn.open(path, n_threads=1) as file:
            read_elements(file, answers, turn)

    answers.ask("open for elements", read)


def _library_way(path: Path, answers: Answers) -> None:
    """The columns once more, by the HDF5 library alone: with this driver there is no way past it."""
    with _library_file(path) as h5:
        if h5 is None:
            return

        def read() -> None:
            with cn.open(h5, n_threads=1) as file:
                tables = {name: file[name] for name in {table for table, _column in answers.columns}}
                for name, column in answers.columns:
                    if answers.steps.get(f"{name} {column} read", "refused").startswith("refused"):
                        continue  # nothing to be held against; of such a chunk the library may die
                    table, step = tables[name], f"{name} {column} by library"
                    answers.ask(step, lambda t=table, c=column: rows_of(t.select(c), len(t)))  # type: ignore[misc]
                    answers.agree("paths", f"{name} {column} read", step)

        answers.ask("open by library", read)


@contextmanager
def _library_file(path: Path) -> Iterator[Any]:
    try:
        h5 = h5py.File(path, "r", driver="core", backing_store=False)
    except (OSError, RuntimeError, ValueError, KeyError):
        h5 = None  # h5py's own refusal
    try:
        yield h5
    finally:
        if h5 is not None:
            with suppress(OSError, RuntimeError):  # of h5py, which is asked here past us
                h5.close()


def _run(words: list[str]) -> int:
    """The exit code of a command."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with redirect_stdout(out), redirect_stderr(out):
        try:
            command_line(words, standalone_mode=False)
        except SystemExit as end:
            return int(end.code or 0)
    return 0


def _change(path: Path, answers: Answers) -> None:
    """Rows appended and taken back."""

    def append() -> None:
        with cn.open(path, "r+", durability="fast", timeout=1) as file:
            for name in file.tables()[:2]:
                rows = file[name].head(2).to_arrow()
                answers.ask(f"{name} append", lambda name=name, rows=rows: _append(file, name, rows))  # type: ignore[misc]

    answers.ask("change", append)


def _append(file: Any, name: str, rows: Any) -> None:
    try:
        with file.transaction():
            file[name].append(rows)
            raise _TakenBackError
    except _TakenBackError:
        return
