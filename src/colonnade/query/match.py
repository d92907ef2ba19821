"""The rows for which a predicate is true, found window by window, in increasing order.

Rows that the plan is not sure of are tested. A column is read only for rows that passed the columns before it. Memory:
the keys of one window of one column.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import numpy as np

from colonnade import limits
from colonnade.columns.keys import Numbers, passing_numbers
from colonnade.columns.read import ColumnReader
from colonnade.indexes.base import BAD_INDEX, Asking, Found
from colonnade.predicate.bound import AllOf, Bound, BoundLeaf, Key, Missing
from colonnade.query.bind import Readers, columns_of
from colonnade.query.window import window_rows
from colonnade.selection import RowNumbers, Selection
from colonnade.threads import in_order

T = TypeVar("T")
MOST_ROWS_OF_SEVERAL = 1 << 18  # smaller: after the first test every thread holds its rows as row numbers


def answered(steps: Asking[T], readers: Readers, probed: dict[str, set[int]]) -> T:
    """What planning or an index answers, after it was sent the keys that it asks for.

    The chunks that are read for them are added to `probed`. An error of reading is raised where the probe was yielded:
    a column that cannot be read there makes the index useless, not the query.
    """
    columns: dict[str, _ProbedColumn] = {}
    try:
        probe = next(steps)
        while True:
            column = columns.get(probe.column)
            if column is None:
                column = columns[probe.column] = _ProbedColumn(readers[probe.column])
            probed.setdefault(probe.column, set()).update((probe.rows // column.chunk_rows).tolist())
            try:
                keys = column.keys_at(probe.rows)
            except BAD_INDEX as error:
                probe = steps.throw(error)
            else:
                probe = steps.send(keys)
    except StopIteration as stop:
        result: T = stop.value
        return result


class _ProbedColumn:
    """A column whose keys an index asks for. Neighbours are often asked for, so the chunk unpacked last is kept."""

    def __init__(self, reader: ColumnReader) -> None:
        self._reader = reader
        self.chunk_rows = reader.column.grid.chunk_rows
        self._keeps_chunk = reader.unpacks_whole_chunks
        self._number = -1
        self._chunk: Numbers | None = None

    def keys_at(self, rows: RowNumbers) -> list[Key]:
        """The keys of these rows; none may be missing or NaN."""
        if len(rows) > 1 or not self._keeps_chunk:
            return self._reader.keys_at(rows)
        number, row = divmod(int(rows[0]), self.chunk_rows)
        if number != self._number:
            start, stop = self._reader.column.grid.bounds(number)
            self._number, self._chunk = number, self._reader.unchecked_keys(start, stop - start)
        if self._chunk is None:
            return self._reader.keys_at(rows)
        keys: list[Key] = self._chunk[row : row + 1].tolist()
        return keys


def matches(tree: Bound, found: Found, readers: Readers) -> Iterator[Selection]:
    """The rows that match, a window at a time; windows without a match are left out."""
    tested = [readers[name] for name in columns_of(tree)]
    unsure = found.may - found.sure
    for reader in tested:
        reader.check_written(unsure.span)

    def match(window: tuple[int, int]) -> Selection:
        rows, untested = found.sure.within(*window), unsure.within(*window)
        return rows | true_rows(tree, untested, readers) if untested else rows

    most = limits.now.most_window_rows if isinstance(tree, BoundLeaf) else MOST_ROWS_OF_SEVERAL
    windows = found.may.windows(window_rows([reader.column for reader in tested], most))
    width = sum(reader.column.type.size for reader in tested)
    is_worth_threads = unsure.span * width > limits.now.threaded_bytes
    n_threads = max((reader.n_threads for reader in tested), default=1) if is_worth_threads else 1
    yield from (rows for rows in in_order(match, windows, n_threads) if rows)


def true_rows(tree: Bound, rows: Selection, readers: Readers) -> Selection:
    """Those of `rows` for which the predicate is true."""
    if isinstance(tree, BoundLeaf):
        return _test(tree, rows, readers[tree.column])
    if isinstance(tree, AllOf):
        for part in tree.parts:
            if not rows:
                break
            rows = true_rows(part, rows, readers)
        return rows
    true = Selection.none()
    for part in tree.parts:
        left = rows - true
        if not left:
            break
        true = true | true_rows(part, left, readers)
    return true


def _test(leaf: BoundLeaf, rows: Selection, reader: ColumnReader) -> Selection:
    if reader.has_numbers and not isinstance(leaf.test, Missing):
        found = _test_numbers(leaf, rows, reader)
        if found is not None:
            return found
    numbers = rows.rows()
    if isinstance(leaf.test, Missing):
        missing = reader.take(numbers).is_null().to_numpy(zero_copy_only=False)
        return Selection.from_rows(numbers[missing != leaf.negated])
    truth = reader.take_keys(numbers).truth(leaf)
    if len(numbers) and int(numbers[-1]) - int(numbers[0]) + 1 == len(numbers):
        return Selection.from_mask(np.asarray(truth), int(numbers[0]))
    return Selection.from_rows(numbers[truth])


def _test_numbers(leaf: BoundLeaf, rows: Selection, reader: ColumnReader) -> Selection | None:
    """The rows that pass a test of numbers, tested as stored, without keys; None if the test is not that simple."""
    if len(rows.starts) == 1:
        start = int(rows.starts[0])
        truth = passing_numbers(*reader.numbers(start, int(rows.stops[0]) - start), leaf)
        return None if truth is None else Selection.from_mask(truth, start)
    numbers = rows.rows()
    truth = passing_numbers(*reader.take_numbers(numbers), leaf)
    return None if truth is None else Selection.from_rows(numbers[truth])
