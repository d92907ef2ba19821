"""Rows in the order of their keys, also when the keys do not fit into memory.

This is an external merge sort. Keys are collected up to a memory limit, then sorted and written as a run to files in a
temporary folder. At the end the runs are merged by key ranges: keys sampled from all runs are the cuts that divide
every run into the same ranges, and the parts of one range, from all runs, are sorted together. The keys equal to a cut
are a part by themselves, which needs no sorting; this helps with very frequent keys. Runs are in row order and every
sort is stable, so equal keys stay in row order.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from colonnade import limits
from colonnade.columns.keys import Keys, join, keys_of
from colonnade.columns.strings import Places

if TYPE_CHECKING:
    from colonnade.pager.scratch import ScratchFolder


class SortOrder(Protocol):
    """Rows in order: those with a value, then the missing rows, then the NaN rows."""

    n_missing: int
    n_nan: int

    def rows(self) -> Iterator[Places]: ...


class sorter:  # noqa: N801 - used like a function: `with sorter(memory) as order`
    """Collects keys with `add`; `rows` then gives all rows in order."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._waiting: list[Keys] = []
        self._firsts: list[int] = []
        self._bytes = 0
        self._tails: tuple[list[Places], list[Places]] = ([], [])
        self._runs: list[tuple[Path, Path]] = []
        self._folder: ScratchFolder | None = None
        self.n_missing = self.n_nan = 0

    def __enter__(self) -> sorter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the files, if there are any."""
        if self._folder is not None:
            self._folder.close()

    def add(self, first_row: int, keys: Keys) -> None:
        """Take the next rows."""
        for tail, which in zip(self._tails, (keys.missing, keys.nan), strict=True):
            tail.append(np.flatnonzero(which) + first_row)
        self.n_missing, self.n_nan = (sum(map(len, tail)) for tail in self._tails)
        self._waiting.append(keys)
        self._firsts.append(first_row)
        self._bytes += keys.array.nbytes + 16 * len(keys)
        if self._bytes >= self._memory // 2:
            self._spill()

    def _sorted(self) -> tuple[Keys, Places]:
        """The collected keys that can be ordered, sorted, and their rows. Nothing is waiting afterwards."""
        if not self._waiting:
            return keys_of(pa.array([], pa.int64())), np.empty(0, dtype=np.int64)
        keys = join(self._waiting)
        rows = np.concatenate([first + np.arange(len(k)) for first, k in zip(self._firsts, self._waiting, strict=True)])
        self._waiting, self._firsts, self._bytes = [], [], 0
        order = keys.ordered()
        return keys.take(order), rows[order]

    def _spill(self) -> None:
        """Write the collected keys as a sorted run."""
        if self._folder is None:
            from colonnade.pager.scratch import ScratchFolder

            self._folder = ScratchFolder()
        keys, rows = self._sorted()
        name = self._folder.path / str(len(self._runs))
        paths = name.with_suffix(".keys"), name.with_suffix(".rows")
        with pa.OSFile(str(paths[0]), "wb") as file, pa.ipc.new_file(file, pa.schema([("k", keys.array.type)])) as out:
            out.write_batch(pa.record_batch([keys.array], names=["k"]))
        rows.tofile(paths[1])
        self._runs.append(paths)

    def rows(self) -> Iterator[Places]:
        """All rows in order, in pieces."""
        if self._runs:
            if self._waiting:
                self._spill()
            yield from self._merge()
        else:
            yield self._sorted()[1]
        for tail in self._tails:
            yield from tail

    def _merge(self) -> Iterator[Places]:
        runs = [_Run(*paths) for paths in self._runs]
        cuts = _cuts(runs)
        edges = [run.edges(cuts) for run in runs]
        for part in range(2 * len(cuts) + 1):
            spans = [(int(e[part]), int(e[part + 1])) for e in edges]
            if part % 2:  # odd parts hold the keys equal to one cut
                for run, (start, stop) in zip(runs, spans, strict=True):
                    n = limits.now.order_piece
                    yield from (run.rows[a : min(a + n, stop)] for a in range(start, stop, n))
                continue
            keys = join([run.keys(start, stop) for run, (start, stop) in zip(runs, spans, strict=True)])
            rows = np.concatenate([run.rows[start:stop] for run, (start, stop) in zip(runs, spans, strict=True)])
            yield rows[keys.ordered()]


def _cuts(runs: list[_Run]) -> Keys:
    """Distinct keys that cut the runs into parts of about the same length."""
    sampled = join([run.sample() for run in runs])
    distinct, _ = sampled.distinct()
    wanted = min(len(distinct), 8 * len(runs))
    return distinct.take(np.unique(np.linspace(0, len(distinct) - 1, wanted).astype(np.int64)))


class _Run:
    """A sorted run in its files, memory-mapped."""

    def __init__(self, keys: Path, rows: Path) -> None:
        self._batch = pa.ipc.open_file(pa.memory_map(str(keys))).get_batch(0)
        self.rows: np.ndarray = np.memmap(rows, dtype=np.int64) if rows.stat().st_size else np.empty(0, dtype=np.int64)

    def keys(self, start: int, stop: int) -> Keys:
        return keys_of(self._batch.column(0).slice(start, stop - start))

    def sample(self) -> Keys:
        n = self._batch.num_rows
        n_samples = min(limits.now.order_samples, n)
        return self.keys(0, n).take(np.unique(np.linspace(0, n - 1, n_samples).astype(np.int64)))

    def edges(self, cuts: Keys) -> Places:
        """Where the keys equal to each cut start and stop in this run, between the two ends of the run."""
        whole = self.keys(0, self._batch.num_rows)
        inner = np.stack([whole.ranks(cuts, "left"), whole.ranks(cuts, "right")], axis=1).reshape(-1)
        return np.concatenate(([0], inner, [self._batch.num_rows]))
