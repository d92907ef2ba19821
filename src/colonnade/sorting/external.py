"""Rows sorted by keys in bounded memory: an external merge sort of Arrow batches.

Batches are collected up to a memory limit, sorted, and written as a run: an Arrow stream in a temporary folder. At the
end the runs are merged, a batch of each at a time. The folder is removed when the sort is closed, whatever happened.

Runs are in the order of their rows and every sort is stable, so rows with equal keys stay in their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from colonnade import limits
from colonnade.selection import RowNumbers
from colonnade.sorting.keys import SortKey, sorted_positions

if TYPE_CHECKING:
    from colonnade.pager.scratch import ScratchFolder


class ExternalSort:
    """Collects tables with `add`; `tables` then gives all rows in order. The keys are their first columns."""

    def __init__(self, keys: Sequence[SortKey]) -> None:
        self._keys = keys
        self._waiting: list[pa.Table] = []
        self._n_bytes = 0
        self._folder: ScratchFolder | None = None
        self._runs: list[Path] = []
        self._n_files = 0

    def __enter__(self) -> ExternalSort:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the files, if there are any."""
        self._waiting.clear()
        if self._folder is not None:
            self._folder.close()

    def add(self, rows: pa.Table) -> None:
        """Take the next rows."""
        if not rows.num_rows:
            return
        self._waiting.append(rows)
        self._n_bytes += rows.nbytes
        if self._n_bytes >= limits.now.sorted_bytes:
            self._spill()

    def tables(self) -> Iterator[pa.Table]:
        """All rows in order, in parts."""
        if not self._runs:
            if self._waiting:
                yield self._sorted()
            return
        if self._waiting:
            self._spill()
        while len(self._runs) > limits.now.merged_runs:
            first, self._runs = self._runs[: limits.now.merged_runs], self._runs[limits.now.merged_runs :]
            self._runs.insert(0, self._write(self._merged(first)))  # before the others: equal keys stay in their order
            for path in first:
                path.unlink()
        yield from self._merged(self._runs)

    def _sorted(self) -> pa.Table:
        """The collected rows in order. None is waiting afterwards."""
        rows = _one_chunk(self._waiting)
        self._waiting, self._n_bytes = [], 0
        return rows.take(pa.array(self._order(rows)))

    def _order(self, rows: pa.Table) -> RowNumbers:
        return sorted_positions(rows.columns[: len(self._keys)], self._keys)

    def _spill(self) -> None:
        """Write the collected rows as a sorted run."""
        rows = self._sorted()
        most = max(1, rows.num_rows * (limits.now.sorted_bytes // (2 * limits.now.merged_runs)) // max(rows.nbytes, 1))
        self._runs.append(self._write(rows.slice(first, most) for first in range(0, rows.num_rows, most)))

    def _write(self, tables: Iterator[pa.Table]) -> Path:
        from colonnade.pager.scratch import ScratchFolder

        if self._folder is None:
            self._folder = ScratchFolder()
        path = self._folder.path / f"{self._n_files}.arrow"
        self._n_files += 1
        first = next(tables)
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, first.schema) as out:
            out.write_table(first)
            for table in tables:
                out.write_table(table)
        return path

    def _merged(self, paths: Sequence[Path]) -> Iterator[pa.Table]:
        """The rows of these runs in order."""
        with ExitStack() as opened:
            runs = [_Run(opened.enter_context(pa.OSFile(str(path)))) for path in paths]
            while runs := [run for run in runs if run.load()]:
                if len(runs) == 1:
                    yield runs[0].take_first(runs[0].rows.num_rows)
                else:
                    yield self._next_of(runs)

    def _next_of(self, runs: Sequence[_Run]) -> pa.Table:
        """The next rows of several runs: those up to the earliest of the last rows that were loaded of a run.

        Rows that are not loaded yet come after it: a run that holds equal keys and is before it would have loaded them.
        """
        ends = _one_chunk(
            [part for run in runs for part in (run.rows.slice(0, 1), run.rows.slice(run.rows.num_rows - 1))]
        )
        position = np.empty(2 * len(runs), dtype=np.int64)
        position[self._order(ends)] = np.arange(2 * len(runs))
        edge = int(position[1::2].min())
        taking = [run for run, first in zip(runs, position[0::2].tolist(), strict=True) if first <= edge]
        rows = _one_chunk([run.rows for run in taking])
        order = self._order(rows)
        starts = np.cumsum([0, *(run.rows.num_rows for run in taking)])
        lasts = starts[1:] - 1
        n_taken = int(np.isin(order, lasts).argmax()) + 1
        order = order[:n_taken]
        for run, begin, end in zip(taking, starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            run.take_first(int(((order >= begin) & (order < end)).sum()))
        return rows.take(pa.array(order))


class _Run:
    """A sorted run: the batch of it that is loaded, as far as it was not taken yet."""

    def __init__(self, file: pa.NativeFile) -> None:
        self._batches = pa.ipc.open_stream(file)
        self.rows: pa.Table = self._batches.schema.empty_table()

    def load(self) -> bool:
        """Whether there are rows; the next batch is loaded if all of the last one were taken."""
        while not self.rows.num_rows:
            batch = next(self._batches, None)
            if batch is None:
                return False
            self.rows = pa.Table.from_batches([batch])
        return True

    def take_first(self, n_rows: int) -> pa.Table:
        """The next rows, which are taken."""
        taken, self.rows = self.rows.slice(0, n_rows), self.rows.slice(n_rows)
        return taken


def _one_chunk(tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of several tables as one, each column in one chunk."""
    whole: pa.Table = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    return whole
