"""One file read without libhdf5; every answer as a digest, every refusal by its name.

An error of ours is a right answer to a spoiled file. Any other exception is a bug of ours, as is an answer that another
way of reading the same file contradicts. Nothing here may load h5py: a crash in a process that never did is ours.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

import colonnade as cn
from colonnade.columns.arrow_types import python_values
from colonnade.nodes.paths import is_dataset, join_path
from tools.fuzz.answers import Answers
from tools.fuzz.beside import read_sparse
from tools.fuzz.turns import ALL, Turn
from tools.fuzz.usage import is_index_file, list_objects, plain, read_as_asked, search_elsewhere, use_table

MOST_ROWS = 20_000  # of a table that is read whole; of a longer one, some rows
MOST_COLUMNS = 12
_MOST_OBJECTS, _MOST_ATTRIBUTES = 40, 20
_MOST_ELEMENTS = 1 << 16  # of an array that is read whole
_DEEPEST = 60  # groups


def read_plainly(path: Path, turn: Turn = ALL) -> Answers:
    """What a file answers that libhdf5 never sees: its tables, its objects one by one, its sparse arrays."""
    answers = Answers()
    had_h5py = "h5py" in sys.modules

    def read() -> None:
        with cn.open(path, n_threads=1, library="never") as file:
            answers.columns.extend(read_tables(file, answers, turn))
            if turn.other_layouts:
                read_as_asked(file, answers, turn)
            if turn.check_plainly:
                answers.ask("check plainly", lambda: len(cn.check(file, deep=turn.deep)))
            if turn.as_users:
                list_objects(file, answers)
            if turn.walk:
                answers.ask("objects", lambda: _objects(file, answers) and None)
            if is_index_file(file, answers):
                search_elsewhere(path, answers)
            if turn.walk_sparse:
                read_sparse(file, path, answers, turn)

    answers.ask("open", read)
    if "h5py" in sys.modules and not had_h5py:
        answers.bugs.append("h5py was loaded by a reader that was told never to use it")
    return answers


def read_tables(file: Any, answers: Answers, turn: Turn) -> Iterator[tuple[str, str]]:
    """Ask every table; the columns that were read, each with its table."""
    names = answers.ask("tables", file.tables) or []
    first = 0 if len(names) <= turn.most_tables else turn.column % (len(names) - turn.most_tables + 1)
    for name in names[first : first + turn.most_tables]:
        table = answers.ask_for(f"{name} open", lambda name=name: file[name])  # type: ignore[misc]
        if table is not None:
            yield from ((name, column) for column in _table(table, name, answers, turn))


def _objects(file: Any, answers: Answers) -> int:
    """Ask every object for its attributes and elements, whether it belongs to a table or not."""
    root = file._handle.root
    pending, seen = [root], {root.address}
    while pending and len(seen) <= _MOST_OBJECTS:
        group = pending.pop()
        _attributes(group, answers)
        for child in answers.ask(f"{group.path} children", group.children) or []:
            if child.kind not in ("group", "dataset", "soft link") or child.address in seen:
                continue
            seen.add(child.address)
            node = answers.ask_for(f"{join_path(group.path, child.name)} node", lambda: _node(group, child.name))  # noqa: B023 - asked at once
            if node is None or len(node.path) > 2 * _DEEPEST:
                continue
            if is_dataset(node):
                _attributes(node, answers)
                _elements(node, answers)
            elif child.kind == "group":
                pending.append(node)
    return len(seen)


def _node(group: Any, name: str) -> Any:
    return group.open_dataset(name) or group.open_group(name)


def _attributes(node: Any, answers: Answers) -> None:
    for name in (answers.ask(f"{node.path} attributes", node.attribute_names) or [])[:_MOST_ATTRIBUTES]:
        answers.ask(f"{node.path} {name} inspected", lambda name=name: node.inspect_attribute(name))  # type: ignore[misc]
        answers.ask(f"{node.path} {name} value", lambda name=name: _plain(node.read_attribute(name)))  # type: ignore[misc]
        answers.ask(f"{node.path} {name} storage", lambda name=name: node.attribute_storage(name))  # type: ignore[misc]


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def _elements(node: Any, answers: Answers) -> None:
    answers.ask(f"{node.path} described", lambda: (node.describe(), node.stored_bytes(), node.is_shared))
    part = tuple(slice(0, 40) for _ in node.shape) if answers.ask(f"{node.path} shape", lambda: node.shape) else ()
    if not node.is_null and prod(min(size, 40) for size in node.shape) <= _MOST_ELEMENTS:
        answers.ask(f"{node.path} array", lambda: _array(node, part))


def _array(node: Any, part: tuple[slice, ...]) -> Any:
    if prod(node.shape) <= _MOST_ELEMENTS:
        part = ()
    node.check_readable(prod(node.shape) if not part else prod(min(size, 40) for size in node.shape))
    values = node.read_array(part)
    return values.shape, str(values.dtype), values.tolist()


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
    if turn.as_users:
        use_table(table, name, answers)
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
    if not isinstance(array, np.ndarray):
        return plain(array)
    return array.shape, str(array.dtype), np.asarray(array).tobytes()[:64]


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
