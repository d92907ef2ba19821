"""How cost grows with a table ten times as long: a scan and a range, each per row, and a look-up.

    python -m bench.growth [--rows 50_000_000] [--times 5]

A scan (of energy) and a range (1 % of the rows by ts, three columns) may not cost more per returned row in the long
table than in the short one; a look-up (id = v) may grow only with the depth of its index. Every answer is checked.
Exits 1 when a limit is exceeded.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import colonnade as cn
from bench.answers import difference
from bench.timing import Runs, Took, print_table, print_verdict, run_in_turns, timed
from bench.workload import SCHEMA, Workload

TIMES_LONGER = 10
COLUMNS = ("ts", "energy", "id")
INDEXES = {"ts": "chunk_minmax", "id": ["sorted_rows", "chunk_bloom"]}
RANGE = 0.01
LOOK_UPS = 20
"""Calls in one run of a look-up: a single call is too short to measure."""


@dataclass(frozen=True)
class Work:
    """One kind of work, done on both tables."""

    title: str
    calls: int
    given: Callable[[Workload], int]
    """The number of rows that one call returns: the cost is divided by it."""
    ask: Callable[[cn.Table, Workload], Any]
    expected: Callable[[Workload], Any]
    limit: str
    """The name of the limit on the command line."""


def scan(table: cn.Table, _workload: Workload) -> pa.ChunkedArray:
    return table["energy"].to_arrow()


def in_range(table: cn.Table, workload: Workload) -> pa.Table:
    asked = workload.ts_range(RANGE)
    return table.where((cn.col("ts") >= asked.low) & (cn.col("ts") < asked.high)).to_arrow()


def look_up(table: cn.Table, workload: Workload) -> pa.Table:
    return table.where(cn.col("id") == workload.searched_ids[0]).to_arrow()


def rows_where(workload: Workload, mask: Any) -> pa.Table:
    return pa.table({name: workload.column(name).filter(mask) for name in COLUMNS}).combine_chunks()


def expected_range(workload: Workload) -> pa.Table:
    asked, ts = workload.ts_range(RANGE), workload.column("ts")
    return rows_where(workload, pc.and_(pc.greater_equal(ts, asked.low), pc.less(ts, asked.high)))


def expected_look_up(workload: Workload) -> pa.Table:
    return rows_where(workload, pc.equal(workload.column("id"), workload.searched_ids[0]))


WORK = (
    Work("scan of energy, per row", 1, lambda one: one.rows, scan, lambda one: one.column("energy"), "limit"),
    Work("1 % range of ts, per row", 1, lambda one: int(one.rows * RANGE), in_range, expected_range, "limit"),
    Work("look-up of id, total", LOOK_UPS, lambda _one: 1, look_up, expected_look_up, "look_up_limit"),
)


def write(path: Path, workload: Workload) -> None:
    schema = pa.schema([SCHEMA.field(name) for name in COLUMNS])
    batches = workload.batches(COLUMNS)
    cn.write(path, pa.RecordBatchReader.from_batches(schema, batches), table="events", index=INDEXES)


def run(work: Work, table: cn.Table, workload: Workload, expected: Any) -> Took:
    """Seconds of one call, divided by the rows that it returns."""
    took = Took()
    with timed(took):
        for _ in range(work.calls):
            answer = work.ask(table, workload)
    wrong = difference(answer, expected)
    if wrong:
        raise SystemExit(f"{work.title}, {workload.rows:,} rows: {wrong}")
    share = work.calls * max(1, work.given(workload))
    return Took(took.cpu / share, took.wall / share)


def compare(work: Work, tables: dict[Workload, cn.Table], times: int, limit: float) -> bool:
    actions = {
        f"{one.rows:,} rows": partial(run, work, table, one, work.expected(one)) for one, table in tables.items()
    }
    for action in actions.values():
        action()  # warm up
    runs = run_in_turns(actions, times)
    short, long = runs
    factor = 1 if work.given(next(iter(tables))) == 1 else 1_000_000
    shown = {name: Runs([Took(one.cpu * factor, one.wall * factor) for one in of.took]) for name, of in runs.items()}
    print_table(f"{work.title}{' (of a million)' if factor > 1 else ''}", shown, {long: short})
    ratio = runs[long].best_cpu / runs[short].best_cpu
    return print_verdict(f"{work.title}: {ratio:.2f} times the CPU time, limit {limit}", ratio <= limit)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--rows", type=int, default=50_000_000, help="rows of the long table; the short one has a tenth"
    )
    parser.add_argument("--times", type=int, default=5, help="runs of each; the best one counts")
    parser.add_argument("--limit", type=float, default=1.2, help="limit on the cost per row, long table to short")
    parser.add_argument("--look-up-limit", type=float, default=1.5, help="limit on the cost of a look-up, likewise")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        tables: dict[Workload, cn.Table] = {}
        for workload in (Workload(max(1, asked.rows // TIMES_LONGER)), Workload(asked.rows)):
            path = Path(folder) / f"{workload.rows}.h5"
            write(path, workload)
            tables[workload] = cn.open_table(path, "events")
        met = [compare(work, tables, asked.times, getattr(asked, work.limit)) for work in WORK]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
