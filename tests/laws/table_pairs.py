"""A comparison of what both readers find in a file: descriptions of tables, their rows, and findings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import colonnade as cn
from colonnade import opening
from colonnade.dataclass import replace
from colonnade.errors import ColonnadeError
from colonnade.model import Finding
from colonnade.table.table import Table

MOST_ROWS = 10_000
REFERENCE = re.compile(r"ObjectReference\(address=\d+\)|<HDF5 object reference[^>]*>")
"""What the two readers give for a reference; `node_pairs` compares where they lead."""
ASKED_LAYOUT = "columns"
"""The layout of groups that do not declare it: netCDF's, loom's and MATLAB's, and any of datasets of one length."""


@contextmanager
def by_library() -> Iterator[None]:
    """Files opened in here for reading are read by libhdf5 alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "_open_to_read", lambda target, care: (None, None))
        yield


def descriptions(path: Path) -> dict[str, object]:
    """What is known about every table of a file, by the path of the table and the question."""
    found: dict[str, object] = {}
    with cn.open(path) as file:
        found["tables"] = answer(file.tables)
        found["attributes"] = answer(lambda: repr(dict(file.attrs)))
        for name in file._consistent(file._layout_tables):
            table = file[name]
            for question, ask in QUESTIONS.items():
                found[f"{name} {question}"] = answer(partial(ask, table))
        for name in file._consistent(partial(file._tables_as, ASKED_LAYOUT)):
            asked = answer(partial(file.table, name, ASKED_LAYOUT))
            if not isinstance(asked, Table):
                found[f"{name} as {ASKED_LAYOUT}"] = asked
                continue
            for question, ask in QUESTIONS.items():
                found[f"{name} as {ASKED_LAYOUT} {question}"] = answer(partial(ask, asked))
    return found


def answer(ask: Callable[[], object]) -> object:
    """An answer that can be compared; of an error, its class."""
    try:
        return ask()
    except ColonnadeError as error:
        return type(error).__name__


def _rows(table: Table) -> object:
    return {name: answer(partial(_shown_rows, table, name)) for name in table.columns if len(table) <= MOST_ROWS}


def _shown_rows(table: Table, column: str) -> str:
    rows: Any = table[column].to_arrow()
    return str(rows.to_string(window=MOST_ROWS))


QUESTIONS: dict[str, Callable[[Table], object]] = {
    "description": lambda table: replace(table.info, left_to_library=()),
    "schema": lambda table: str(table.schema),
    "attributes": lambda table: REFERENCE.sub("a reference", repr(dict(table.attrs))),
    "problems": lambda table: [shown(finding) for finding in table.problems],
    "indexes": lambda table: [
        (index.column, index.kind, index.name, index.fresh, index.bytes) for index in table.indexes
    ],
    "rows": _rows,
}


def shown(finding: Finding) -> object:
    """A finding that can be compared: the words of the two readers about damage differ."""
    facts = asdict(finding)
    is_of_damage = "cannot be read" in finding.message or "library reports" in finding.message
    return {**facts, "message": "", "found": "", "expected": ""} if is_of_damage else facts


def findings(path: Path, deep: bool, layout: str | None = None) -> list[object]:
    return [shown(finding) for finding in cn.check(path, deep=deep, layout=layout)]


def repairs(path: Path) -> object:
    fixed = cn.fix(path, dry_run=True)
    return [(repair.path, repair.action, repair.fixes) for repair in fixed.repairs]


def compare_tables(path: Path) -> int:
    """Compare what both readers find; returns the number of answers."""
    questions: list[Callable[[], object]] = [
        lambda: descriptions(path),
        lambda: findings(path, deep=False),
        lambda: findings(path, deep=True),
        lambda: findings(path, deep=True, layout=ASKED_LAYOUT),
        lambda: repairs(path),
    ]
    n_answers = 0
    for ask in questions:
        ours = answer(ask)
        with by_library():
            theirs = answer(ask)
        if isinstance(ours, dict) and isinstance(theirs, dict):
            assert ours.keys() == theirs.keys(), path
            for question in ours:
                assert ours[question] == theirs[question], f"{path}: {question}"
        assert ours == theirs, path
        n_answers += len(ours) if isinstance(ours, (dict, list)) else 1
    return n_answers
