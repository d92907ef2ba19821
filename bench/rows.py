"""The rows of the results table: the query that every peer runs, and its correct answer."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.peers import Peer
from bench.timing import Took, timed
from bench.workload import (
    COUNTED_LABEL,
    ENERGY_OVER,
    FIRST_TS,
    SCHEMA,
    SEARCHED_LABEL,
    SEARCHES,
    TS_DISORDER,
    TS_STEP,
    Range,
    Workload,
)

RANGE_COLUMNS = ("ts", "energy", "id")
ID_COLUMNS = ("ts", "energy", "id")
NAME_COLUMNS = ("ts", "energy", "name")
BOTH_COLUMNS = ("ts", "energy")


@dataclass(frozen=True)
class Row:
    """One row of the results table. key: its name on the command line."""

    key: str
    title: str

    def heading(self, workload: Workload) -> str:
        """The title, with the amount of work where that depends on the workload."""
        return self.title

    def expected(self, workload: Workload) -> list[Any]:
        """The correct answers, computed from the workload: one per variant of the query, in the order they run."""
        raise NotImplementedError

    def once(self, peer: Peer, workload: Workload, turns: range, took: Took) -> Any:
        """The answer to the last of several calls, whose times are added to `took`; None when the peer cannot do it."""
        raise NotImplementedError


@dataclass(frozen=True)
class Question(Row):
    """Reads rows or a number from an existing table; every call is the same."""

    ask: Callable[[Peer, Workload], Any]
    expect: Callable[[Workload], Any]

    def expected(self, workload: Workload) -> list[Any]:
        return [self.expect(workload)]

    def once(self, peer: Peer, workload: Workload, turns: range, took: Took) -> Any:
        with timed(took):
            for _ in turns:
                answer = self.ask(peer, workload)
        return answer


@dataclass(frozen=True)
class Search(Row):
    """Searches a few rows of an existing table; each call uses another value, so that no answer can be cached."""

    ask: Callable[[Peer, Workload, int], Any]
    expect: Callable[[Workload], list[Any]]

    def expected(self, workload: Workload) -> list[Any]:
        return self.expect(workload)

    def once(self, peer: Peer, workload: Workload, turns: range, took: Took) -> Any:
        with timed(took):
            for turn in turns:
                answer = self.ask(peer, workload, turn % SEARCHES)
        return answer


@dataclass(frozen=True)
class Writing(Row):
    """Writes a new table without search indexes. Reading it back and removing it are not timed."""

    store: Callable[[Peer, Workload, Path], Any]
    rows: Callable[[Workload], pa.Table]
    words: Callable[[Workload], str]

    def heading(self, workload: Workload) -> str:
        return self.words(workload)

    def expected(self, workload: Workload) -> list[Any]:
        return [self.rows(workload)]

    def once(self, peer: Peer, workload: Workload, turns: range, took: Took) -> Any:
        path = peer.made.folder.parent / f"{peer.name}-written"
        answer = None
        for _ in turns:
            _remove(path)
            with timed(took):
                done = self.store(peer, workload, path)
        if done is not None:
            answer = peer.read_back(path)
        _remove(path)
        return answer


@dataclass(frozen=True)
class Size(Row):
    """Bytes on disk; nothing is timed."""

    def expected(self, workload: Workload) -> list[Any]:
        return []


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    for left in path.parent.glob(f"{path.name}*"):  # also locks and logs next to it
        left.unlink()


# -- correct answers --


def _matching(workload: Workload, columns: tuple[str, ...], mask: Any) -> pa.Table:
    return pa.table({name: workload.column(name).filter(mask) for name in columns}).combine_chunks()


def _in_ranges(workload: Workload, ranges: Sequence[Range]) -> list[pa.Table]:
    """The rows of each range. `ts` is nearly sorted, so only rows near the expected position are examined."""
    rows = pa.table({name: workload.column(name) for name in RANGE_COLUMNS})
    near = TS_DISORDER // TS_STEP + 1
    found = []
    for asked in ranges:
        first = max(0, (asked.low - FIRST_TS) // TS_STEP - near)
        about = rows.slice(first, (asked.high - asked.low) // TS_STEP + 2 * near)
        ts = about.column("ts")
        matches = about.filter(pc.and_(pc.greater_equal(ts, asked.low), pc.less(ts, asked.high)))
        found.append(matches.combine_chunks())
    return found


def _with_values(workload: Workload, column: str, values: Sequence[int | str], columns: tuple[str, ...]) -> list[Any]:
    among = pc.is_in(workload.column(column), value_set=pa.array(values, SCHEMA.field(column).type))
    rows = _matching(workload, columns, among)
    return [rows.filter(pc.equal(rows.column(column), value)) for value in values]


def _both(workload: Workload) -> pa.Table:
    over = pc.greater(workload.column("energy"), ENERGY_OVER)
    return _matching(workload, BOTH_COLUMNS, pc.and_(over, pc.equal(workload.column("label"), SEARCHED_LABEL)))


def _mean(workload: Workload) -> float:
    return float(np.mean(workload.column("energy").to_numpy()))


def _means(workload: Workload) -> dict[str, float]:
    labels = workload.column("label").combine_chunks().dictionary_encode()
    codes, energy = labels.indices.to_numpy(), workload.column("energy").to_numpy()
    sums, counts = np.bincount(codes, energy), np.bincount(codes)
    return dict(zip(labels.dictionary.to_pylist(), (sums / counts).tolist(), strict=True))


def _count(workload: Workload) -> int:
    return int(pc.sum(pc.equal(workload.column("label"), COUNTED_LABEL)).as_py())


# -- the rows --


def _scan(key: str, title: str, column: str) -> Question:
    return Question(key, title, lambda peer, _workload: peer.scan(column), lambda workload: workload.column(column))


def _range(key: str, share: float, places: int) -> Search:
    """Ranges at n positions, evenly spread over the table."""

    def asked(workload: Workload, place: int) -> Range:
        return workload.ts_range(share, (place % places + 0.5) / places)

    def ask(peer: Peer, workload: Workload, turn: int) -> Any:
        wanted = asked(workload, turn)
        return peer.between("ts", wanted.low, wanted.high, RANGE_COLUMNS)

    def expect(workload: Workload) -> list[pa.Table]:
        return _in_ranges(workload, [asked(workload, place) for place in range(places)])

    return Search(key, f"ts range {share * 100:g} %, 3 columns", ask, expect)


ROWS: tuple[Row, ...] = (
    _scan("scan-ts", "scan ts", "ts"),
    _scan("scan-energy", "scan energy", "energy"),
    _scan("scan-name", "scan name as strings", "name"),
    Question(
        "scan-name-dictionary",
        "scan name as dictionary",
        lambda peer, _workload: peer.scan_dictionary("name"),
        lambda workload: workload.column("name"),
    ),
    Question("mean", "mean(energy)", lambda peer, _workload: peer.mean("energy"), _mean),
    _range("range-0.001", 0.00001, SEARCHES),
    _range("range-1", 0.01, 16),
    _range("range-50", 0.5, 1),
    Search(
        "id",
        "id = v, 3 columns",
        lambda peer, workload, turn: peer.equal("id", workload.searched_ids[turn], ID_COLUMNS),
        lambda workload: _with_values(workload, "id", workload.searched_ids, ID_COLUMNS),
    ),
    Search(
        "name",
        "name = v, 3 columns",
        lambda peer, workload, turn: peer.equal("name", workload.searched_names[turn], NAME_COLUMNS),
        lambda workload: _with_values(workload, "name", workload.searched_names, NAME_COLUMNS),
    ),
    Question("count", "count(label = x)", lambda peer, _workload: peer.count("label", COUNTED_LABEL), _count),
    Question(
        "both",
        "energy > a and label = b, 2 columns",
        lambda peer, _workload: peer.over_and_equal(("energy", ENERGY_OVER), ("label", SEARCHED_LABEL), BOTH_COLUMNS),
        _both,
    ),
    Question("mean-by", "mean(energy) by label", lambda peer, _workload: peer.mean_by("energy", "label"), _means),
    Writing(
        "write",
        "write 1M rows",
        lambda peer, workload, path: peer.write(workload.written, path),
        lambda workload: workload.written,
        lambda workload: f"write {_short(workload.written.num_rows)} rows",
    ),
    Writing(
        "append",
        "append 100 x 10k rows",
        lambda peer, workload, path: peer.append(workload.appended, path),
        lambda workload: pa.Table.from_batches(workload.appended),
        lambda workload: f"append {len(workload.appended)} x {_short(workload.appended[0].num_rows)} rows",
    ),
    Size("size", "size, MB (+ indexes)"),
)


def _short(number: int) -> str:
    for unit, word in ((1_000_000, "M"), (1_000, "k")):
        if number >= unit and number % unit == 0:
            return f"{number // unit}{word}"
    return f"{number:,}"
