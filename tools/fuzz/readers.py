"""One file asked for everything that can be read of it; every answer as a digest, every refusal by its name.

An error of ours is a right answer to a spoiled file. Any other exception is a bug of ours, as is an answer that another
way of reading the same file contradicts.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import h5py
import numpy as np

import colonnade as cn
from colonnade.cli.commands import main as command_line
from colonnade.columns.arrow_types import python_values
from tools.fuzz.answers import Answers
from tools.fuzz.beside import read_elements, read_sparse
from tools.fuzz.turns import ALL, Turn

MOST_ROWS = 20_000  # of a table that is read whole; of a longer one, some rows
MOST_TABLES = 6
MOST_COLUMNS = 12


class _TakenBackError(Exception):
    """Ends a change that is not to stay."""


def read_everything(path: Path, aside: Path, turn: Turn = ALL) -> Answers:
    """All readers whose turn it is on the file at a path; `aside` is where a copy of it may be made and changed."""
    answers = Answers()
    names = _own_way(path, answers, turn)
    if turn.by_library:
        _library_way(path, answers, names)
    for word in turn.commands:
        name, *options = word.split()
        answers.ask(f"colonnade {word}", lambda words=[name, str(path), *options]: _run(words))  # type: ignore[misc]
    if turn.repairs:
        answers.ask("fix", lambda: cn.fix(path, dry_run=True) and None)
    if turn.change:
        shutil.copyfile(path, aside)
        _change(aside, answers)
    return answers


def _own_way(path: Path, answers: Answers, turn: Turn) -> list[tuple[str, str]]:
    """What one open file answers: its tables, the check, its elements, its sparse arrays."""
    names: list[tuple[str, str]] = []

    def read() -> None:
        with cn.open(path, n_threads=1) as file:
            for name in (answers.ask("tables", file.tables) or [])[:MOST_TABLES]:
                table = answers.ask_for(f"{name} open", lambda name=name: file[name])  # type: ignore[misc]
                if table is not None:
                    names.extend((name, column) for column in _table(table, name, answers, turn))
            answers.ask("check", lambda: cn.check(file, deep=turn.deep) and None)
            read_elements(file, answers, turn)
            if turn.walk_sparse:
                read_sparse(file, path, answers, turn)

    answers.ask("open", read)
    return names


def _table(table: Any, name: str, answers: Answers, turn: Turn) -> list[str]:
    columns = answers.ask(f"{name} describe", lambda: table.columns)
    if columns is None:
        return []
    answers.ask(f"{name} info", lambda: (table.info, table.schema, table.labels, table.attrs, table.problems))
    n_rows = answers.ask(f"{name} rows", lambda: len(table)) or 0
    if n_rows > MOST_ROWS:
        answers.ask(f"{name} whole", lambda: table.to_arrow().num_rows)
        answers.ask(f"{name} last", lambda: len(table[n_rows - 1 :].to_numpy()))
    chosen = list(columns[:MOST_COLUMNS])
    for at, column in enumerate(chosen):
        searched = turn.every_column or at == turn.column % len(chosen)
        _column(table, f"{name} {column}", column, n_rows, answers, searched, turn)
    if turn.rest_of_table:
        answers.ask(f"{name} head", lambda: [python_values(c) for c in table.head(3).to_arrow().columns])
        if n_rows <= MOST_ROWS:
            answers.ask(f"{name} verify", table.verify_indexes)
            _totals(table, name, chosen, answers)
    return chosen


def _column(table: Any, place: str, name: str, n_rows: int, answers: Answers, searched: bool, turn: Turn) -> None:
    values = answers.ask(f"{place} read", lambda: rows_of(table.select(name), n_rows))
    if searched:
        answers.ask(f"{place} column", lambda: _facts(table[name]))
        if n_rows:
            rows = [0, n_rows - 1, n_rows // 2]
            answers.ask(f"{place} take", lambda: python_values(table.select(name).take(rows).to_arrow().column(0)))
        if n_rows <= MOST_ROWS:
            _search(table, place, name, values or [], answers, turn)
            answers.ask(f"{place} min", lambda: table.aggregate(n="count", x=(name, "min")))
    if "reference" in table[name].stored_type.kind or "ref" in str(table[name].dtype):
        answers.ask(f"{place} follow", lambda: [_short(array) for array in islice(table[:6].dereference(name), 6)])


def _facts(column: Any) -> Any:
    categories = column.categories
    return column.info, column.fill, None if categories is None else python_values(categories), column.stored_bytes


def _short(array: Any) -> Any:
    return None if array is None else (array.shape, str(array.dtype), np.asarray(array).tobytes()[:64])


def rows_of(query: Any, n_rows: int) -> list[Any]:
    """The rows of a query with one column, batch by batch; of very many rows the first."""
    batches = query.batches(rows=50 if n_rows <= MOST_ROWS else 4096)
    wanted = islice(batches, None if n_rows <= MOST_ROWS else 3)
    return [python_values(batch.column(0)) for batch in wanted]


def _search(table: Any, place: str, name: str, values: list[Any], answers: Answers, turn: Turn) -> None:
    """Rows found by the indexes that were verified, by all indexes, and by none."""
    test = cn.col(name).is_missing()
    for value in values[0][:1] if values else ():
        if isinstance(value, (int, float, str, bytes)):
            test = cn.col(name) <= value
    for trust in ("verified", "never", *(("always",) if turn.rest_of_table else ())):
        answers.ask(f"{place} where {trust}", lambda trust=trust: _found(table, test, trust))  # type: ignore[misc]
    answers.agree("search", f"{place} where verified", f"{place} where never")


def _found(table: Any, test: Any, trust: Any) -> list[int]:
    """Row numbers, by indexes that are trusted so; the table's file is asked as if it had been opened with that."""
    file = table._file
    kept, file._trust = file._trust, trust
    try:
        return list(table.where(test).row_numbers().tolist())
    finally:
        file._trust = kept


def _totals(table: Any, name: str, columns: list[str], answers: Answers) -> None:
    if columns:
        answers.ask(f"{name} groups", lambda: table.aggregate(by=columns[0], n="count").num_rows)
    answers.ask(f"{name} stats", lambda: {key: str(type(value)) for key, value in table.stats().items()})


def _library_way(path: Path, answers: Answers, names: list[tuple[str, str]]) -> None:
    """The columns once more, by the HDF5 library alone: with this driver there is no way past it."""
    with _library_file(path) as h5:
        if h5 is None:
            return

        def read() -> None:
            with cn.open(h5, n_threads=1) as file:
                tables = {name: file[name] for name in {table for table, _column in names}}
                for name, column in names:
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
