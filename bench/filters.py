"""The cost of filters: size, write, scan and single rows of each column, by scale-offset and by shuffle and deflate.

    python -m bench.filters [--rows 2_000_000] [--times 5]

Each column of the workload that scale-offset can pack (`label` and `name` by their codes) is written with the filters
of each choice: "default", "portable" (shuffle and deflate, which readers without the HDF5 library support),
"scale-offset", and "none". Times are CPU time, the best of `--times` alternating runs; the answers are checked.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import colonnade as cn
from bench.timing import Took, run_in_turns, timed
from bench.workload import Workload

COLUMNS = ("ts", "id", "label", "name")
CHOICES = ("default", "portable", "scale-offset", "none")
PICKED = 1000  # rows far apart


def write(path: Path, name: str, values: pa.ChunkedArray, choice: str) -> Took:
    options: dict[str, Any] = {} if choice == "default" else {"filters": choice}
    if name in ("label", "name"):
        options["strings"] = "categories"
    path.unlink(missing_ok=True)
    took = Took()
    with timed(took):
        cn.write(path, pa.table({name: values}), "t", columns={name: options})
    return took


def scan(table: cn.Table, name: str) -> Took:
    took = Took()
    with timed(took):
        table[name].to_arrow(views=True) if name in ("label", "name") else table[name].to_arrow()
    return took


def pick(table: cn.Table, rows: np.ndarray[Any, np.dtype[np.int64]]) -> Took:
    took = Took()
    with timed(took):
        table.take(rows).to_arrow()
    return took


def measure(
    folder: Path, workload: Workload, name: str, times: int
) -> list[tuple[str, str, float, float, float, float]]:
    """For each choice: its filters, megabytes, and milliseconds of a write, a scan, and single rows."""
    values = workload.column(name)
    paths = {choice: folder / f"{name}-{choice}.h5" for choice in CHOICES}
    wrote = run_in_turns({choice: partial(write, paths[choice], name, values, choice) for choice in CHOICES}, times)
    tables = {choice: cn.open_table(path) for choice, path in paths.items()}
    rows = np.sort(np.random.default_rng(1).choice(workload.rows, PICKED, replace=False))
    for table in tables.values():
        assert table[name].to_arrow().cast(values.type).equals(values), name
    scanned = run_in_turns({choice: partial(scan, table, name) for choice, table in tables.items()}, times)
    picked = run_in_turns({choice: partial(pick, table, rows) for choice, table in tables.items()}, times)
    found: list[tuple[str, str, float, float, float, float]] = []
    for choice, table in tables.items():
        filters = "+".join(step.name for step in table.info.by_name[name].filters) or "none"
        spent = [1000 * runs[choice].best_cpu for runs in (wrote, scanned, picked)]
        found.append((choice, filters, paths[choice].stat().st_size / 1e6, spent[0], spent[1], spent[2]))
        table.close()
    return found


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.filters", description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--times", type=int, default=5)
    asked = parser.parse_args(arguments)
    print(f"{asked.rows:,} rows; MB, and ms of CPU time: write, scan, {PICKED} rows far apart")
    print(f"{'column':8}{'choice':14}{'filters':18}{'MB':>8}{'write':>9}{'scan':>9}{'rows':>9}")
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        for name in COLUMNS:
            for choice, filters, *figures in measure(Path(folder), Workload(asked.rows), name, asked.times):
                print(
                    f"{name:8}{choice:14}{filters:18}{figures[0]:8.2f}" + "".join(f"{one:9.1f}" for one in figures[1:])
                )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
