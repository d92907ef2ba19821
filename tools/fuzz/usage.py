"""What users ask of a file besides the rows of its tables, without libhdf5.

Rows as dicts with what their references lead to, plans, `ls`, groups read as tables of a layout that they do not
declare, and a file taken for the index file of another one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import colonnade as cn
from colonnade.cli.ls import ls_facts
from colonnade.columns.arrow_types import python_values
from colonnade.errors import ColonnadeError
from colonnade.layouts import LAYOUTS
from colonnade.layouts.index_files import MARK
from colonnade.nodes.attributes import read_text
from colonnade.nodes.paths import walk_groups
from colonnade.table.references import Reference, ReferencedGroup
from tools.fuzz.answers import Answers
from tools.fuzz.turns import Turn

INDEXED = "COLONNADE_FUZZ_INDEXED"
"""The environment variable with the path of the file that the index file among the seeds is of."""
MOST_GROUPS = 4  # that are read as other tables than they are
_MOST_COLUMNS = 4
_MOST_ROWS = 20_000  # that are gone through
_FIRST_ROWS = 3
_DEEPEST = 3
_MOST_ITEMS = 8
_SEARCHES = {"y": 7, "x": 50, "s": b"k4"}
"""Values that the columns of the indexed file are searched for."""


def use_table(table: Any, name: str, answers: Answers) -> None:
    """Rows as dicts, plans, and statistics, as a user asks for them."""
    answers.ask_for(f"{name} shown", lambda: (repr(table), table._repr_html_()))
    n_rows = answers.ask(f"{name} length", lambda: len(table)) or 0
    answers.ask(f"{name} dicts", lambda: [plain(row) for row in islice(iter(table), _FIRST_ROWS)])
    if n_rows:
        answers.ask(f"{name} last dict", lambda: plain(table[-1]))
    columns = list(table.columns[:_MOST_COLUMNS])
    for column in columns:
        test = ~cn.col(column).is_missing()
        answers.ask_for(f"{name} {column} plan", lambda test=test: str(table.where(test).explain()))  # type: ignore[misc]
        answers.ask(f"{name} {column} cell", lambda column=column: plain(table[column][0]) if n_rows else None)  # type: ignore[misc]
        answers.ask(f"{name} {column} attrs", lambda column=column: plain(dict(table[column].attrs)))  # type: ignore[misc]
    if columns and n_rows <= _MOST_ROWS:
        answers.ask(f"{name} distinct", lambda: table.distinct(columns[0]).num_rows)
        answers.ask(f"{name} sorted", lambda: table.sort_by(columns[-1]).head(2).to_arrow().num_rows)
        answers.ask_for(f"{name} described", lambda: str(table.describe(columns)))


def plain(value: Any, depth: int = 0) -> Any:
    """A cell as plain data; what references lead to is read."""
    if depth > _DEEPEST:
        return type(value).__name__
    if isinstance(value, Reference):
        return repr(value), _asked(lambda: plain(value.read(), depth + 1))
    if isinstance(value, ReferencedGroup):
        return [(name, _asked(lambda name=name: plain(value[name], depth + 1))) for name in islice(value, _MOST_ITEMS)]
    if isinstance(value, cn.Table):
        return value.path, value.columns, len(value)
    if isinstance(value, np.ndarray):
        return value.shape, str(value.dtype), [plain(one, depth + 1) for one in value.ravel()[:_MOST_ITEMS].tolist()]
    if isinstance(value, Mapping):
        return [(key, plain(inner, depth + 1)) for key, inner in islice(value.items(), _MOST_ITEMS)]
    if isinstance(value, (list, tuple)):
        return [plain(inner, depth + 1) for inner in value[:_MOST_ITEMS]]
    return value


def _asked(question: Any) -> Any:
    """The answer, or the name of the refusal: one reference that leads nowhere leaves the others."""
    try:
        return question()
    except ColonnadeError as error:
        return f"refused: {type(error).__name__}"


def list_objects(file: Any, answers: Answers) -> None:
    """What `colonnade ls` lists."""
    answers.ask("ls", lambda: [entry["path"] for entry in ls_facts(file)["objects"]])


def read_as_asked(file: Any, answers: Answers, turn: Turn) -> None:
    """Groups and datasets read as tables of the layout "columns", and of another one in rotation."""
    tables = answers.ask("tables to be read otherwise", file.tables) or []
    groups = answers.ask("groups", lambda: [path for path, _ in islice(walk_groups(file._handle.root), MOST_GROUPS)])
    others = list(LAYOUTS) if turn.every_layout else [list(LAYOUTS)[turn.column % len(LAYOUTS)]]
    for path in dict.fromkeys([*(groups or []), *tables[:MOST_GROUPS]]):
        for layout in dict.fromkeys(["columns", *others]):
            step = f"{path} as {layout}"
            table = answers.ask_for(step, lambda path=path, layout=layout: file.table(path, layout=layout))  # type: ignore[misc]
            if table is not None:
                _read_some(table, step, answers)


def _read_some(table: Any, step: str, answers: Answers) -> None:
    columns = answers.ask(f"{step} columns", lambda: list(table.columns)) or []
    answers.ask(f"{step} problems", lambda: len(table.problems))
    n_rows = answers.ask(f"{step} length", lambda: len(table)) or 0
    for column in columns[:_MOST_COLUMNS]:
        some = table[:40].select(column) if n_rows > _MOST_ROWS else table.select(column)
        answers.ask(f"{step} {column} values", lambda some=some: python_values(some.to_arrow().column(0)))  # type: ignore[misc]
    if columns and n_rows <= _MOST_ROWS:
        answers.ask(f"{step} where", lambda: table.where(cn.col(columns[-1]).is_missing()).count())


def is_index_file(file: Any, answers: Answers) -> bool:
    return answers.ask("mark", lambda: read_text(file._handle.root, MARK)) is not None


def search_elsewhere(path: Path, answers: Answers) -> None:
    """The indexed file searched with the file as its index file: before and after a verification, and without it."""

    def search(trust: Any, is_verified: bool, index_file: Path | None) -> list[Any]:
        indexed = os.environ[INDEXED]
        with cn.open(indexed, n_threads=1, library="never", trust=trust, index_file=index_file) as file:
            table = file.table("g", layout="columns")
            if is_verified:
                answers.ask("index file verify", lambda: len(table.verify_indexes()))
            answers.ask("index file indexes", lambda: [(one.column, one.kind, one.trusted) for one in table.indexes])
            return [table.where(cn.col(name) == value).row_numbers().tolist() for name, value in _SEARCHES.items()]

    answers.ask("index file none", lambda: search("verified", False, None))
    answers.ask("index file verified", lambda: search("verified", True, path))
    answers.ask("index file always", lambda: search("always", False, path))
    answers.agree("search", "index file none", "index file verified")
