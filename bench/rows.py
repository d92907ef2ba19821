"""The rows of the results table: the query that every peer runs, and its correct answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.answers import InOrder
from bench.peers import Peer
from bench.work import Changing, ManyFiles, Moved, Question, Row, Search, Size, Writing
from bench.workload import (
    COUNTED_LABEL,
    ENERGY_OVER,
    FIRST_TS,
    MANY_IDS,
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
SORTED_BY = "energy"
SORTED_COLUMNS = ("ts", "energy")
TOP = 10
N_FILES = 50
DELETED_BELOW = 10.0  # one price in a hundred
MEAN_NAME_BYTES = 12.5
BOTH_COLUMNS = ("ts", "energy")


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


def _ordered(workload: Workload, direction: Literal["ascending", "descending"]) -> pa.Table:
    """All rows in the order of one column, whose values are distinct."""
    rows = pa.table({name: workload.column(name) for name in SORTED_COLUMNS})
    return rows.take(pc.array_sort_indices(rows[SORTED_BY], direction)).combine_chunks()


def _among(workload: Workload) -> pa.Table:
    return _matching(workload, ID_COLUMNS, pc.is_in(workload.column("id"), value_set=pa.array(workload.many_ids)))


def _not_deleted(workload: Workload) -> pa.Table:
    return workload.written.filter(pc.greater_equal(workload.written["price"], DELETED_BELOW))


def _parts(workload: Workload) -> list[Range]:
    """A hundred rows in the middle of each of the files."""
    n_rows = workload.written.num_rows // N_FILES
    lows = [FIRST_TS + TS_STEP * (number * n_rows + n_rows // 2) for number in range(N_FILES)]
    return [Range(low, low + 100 * TS_STEP) for low in lows]


def _rows_of_parts(workload: Workload) -> pa.Table:
    ts = workload.written["ts"].to_numpy()
    inside = np.zeros(len(ts), bool)
    for part in _parts(workload):
        inside |= (ts >= part.low) & (ts < part.high)
    return workload.written.select(RANGE_COLUMNS).filter(pa.array(inside)).combine_chunks()


def _read_parts(peer: Peer, workload: Workload, paths: list[Path]) -> Any:
    answers = peer.between_in_files(list(zip(paths, _parts(workload), strict=True)), "ts", RANGE_COLUMNS)
    return pa.concat_tables([pa.table(answer) for answer in answers]) if answers else None


# -- the limits --


def _returned(*names: str, share: float = 1.0) -> Callable[[Workload], Moved]:
    """Columns that are returned."""
    return lambda workload: Moved(returned=sum(_bytes(name, workload) for name in names) * share)


def _passed(*names: str) -> Callable[[Workload], Moved]:
    """Columns of which only a few numbers are returned."""
    return lambda workload: Moved(passed=sum(_bytes(name, workload) for name in names))


def _bytes(name: str, workload: Workload) -> float:
    widths = {"ts": 8, "energy": 8, "id": 4, "label": 1, "name": MEAN_NAME_BYTES + 4, "price": 4, "flag": 1}
    return float(widths[name] * workload.rows)


# -- the rows --


def _scan(key: str, title: str, column: str) -> Question:
    return Question(
        key,
        title,
        lambda peer, _workload: peer.scan(column),
        lambda workload: workload.column(column),
        _returned(column),
    )


def _range(key: str, share: float, places: int, is_cold: bool = False) -> Search:
    """Ranges at n positions, evenly spread over the table."""

    def asked(workload: Workload, place: int) -> Range:
        return workload.ts_range(share, (place % places + 0.5) / places)

    def ask(peer: Peer, workload: Workload, turn: int) -> Any:
        wanted = asked(workload, turn)
        return peer.between("ts", wanted.low, wanted.high, RANGE_COLUMNS)

    def expect(workload: Workload) -> list[pa.Table]:
        return _in_ranges(workload, [asked(workload, place) for place in range(places)])

    title = f"ts range {share * 100:g} %, 3 columns{', cold' * is_cold}"
    return Search(key, title, ask, expect, None if is_cold else _returned(*RANGE_COLUMNS, share=share), is_cold)


def _writing(key: str, how: str, store: Callable[[Peer, Workload, Path], Any]) -> Writing:
    def heading(workload: Workload) -> str:
        return f"write {_short(workload.written.num_rows)} rows{how}"

    return Writing(key, f"write 1M rows{how}", store, lambda workload: workload.written, heading)


def _appending(key: str, how: str, store: Callable[[Peer, Workload, Path], Any]) -> Writing:
    def heading(workload: Workload) -> str:
        return f"append {len(workload.appended)} x {_short(workload.appended[0].num_rows)} rows{how}"

    def rows(workload: Workload) -> pa.Table:
        return pa.Table.from_batches(workload.appended)

    return Writing(key, f"append 100 x 10k rows{how}", store, rows, heading)


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
    Question(
        "scan-name-plain",
        "scan name as plain strings",
        lambda peer, _workload: peer.scan_plain("name"),
        lambda workload: workload.column("name"),
        _returned("name"),
    ),
    Question(
        "scan-name-numpy",
        "scan name as NumPy strings or bytes",
        lambda peer, _workload: peer.scan_numpy("name"),
        lambda workload: workload.column("name"),
    ),
    Question("mean", "mean(energy)", lambda peer, _workload: peer.mean("energy"), _mean, _passed("energy")),
    _range("range-0.001", 0.00001, SEARCHES),
    _range("range-1", 0.01, 16),
    _range("range-50", 0.5, 1),
    _range("range-1-cold", 0.01, 16, is_cold=True),
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
    Question(
        "among",
        f"id in ({MANY_IDS:,} values), 3 columns",
        lambda peer, workload: peer.among("id", workload.many_ids, ID_COLUMNS),
        _among,
    ),
    Question(
        "mean-by",
        "mean(energy) by label",
        lambda peer, _workload: peer.mean_by("energy", "label"),
        _means,
        _passed("energy", "label"),
    ),
    Question(
        "sort",
        "sort by energy, 2 columns",
        lambda peer, _workload: peer.sorted_by(SORTED_BY, SORTED_COLUMNS),
        lambda workload: InOrder(_ordered(workload, "ascending")),
    ),
    Question(
        "top",
        f"top {TOP} by energy, 2 columns",
        lambda peer, _workload: peer.top(SORTED_BY, TOP, SORTED_COLUMNS),
        lambda workload: InOrder(_ordered(workload, "descending").slice(0, TOP)),
    ),
    ManyFiles("files", f"open {N_FILES} files, 100 rows of each", N_FILES, _read_parts, _rows_of_parts),
    _writing("write", "", lambda peer, workload, path: peer.write(workload.written, path)),
    _writing("write-plain", ", uncompressed", lambda peer, workload, path: peer.write_plain(workload.written, path)),
    _appending("append", "", lambda peer, workload, path: peer.append(workload.appended, path)),
    _appending(
        "append-plain", ", uncompressed", lambda peer, workload, path: peer.append_plain(workload.appended, path)
    ),
    Changing(
        "delete",
        "delete 1 % of the rows",
        lambda peer, _workload, path: peer.delete_below("price", DELETED_BELOW, path),
        _not_deleted,
    ),
    Size("size", "size, MB (+ indexes)"),
)


def _short(number: int) -> str:
    for unit, word in ((1_000_000, "M"), (1_000, "k")):
        if number >= unit and number % unit == 0:
            return f"{number // unit}{word}"
    return f"{number:,}"
