"""The cost of a small query, from start to end: `colonnade where` against DuckDB and Polars on Parquet.

    python -m bench.startup [--rows 1_000_000] [--times 5]

Each runs in a separate process that loads what it needs and shows ts and energy of the rows in which ts is between 100
and 200. Every contender first prints the rows as CSV, which must agree. That run also compiles the modules, as in an
installation. Exits 1 unless colonnade takes less CPU time than each of the others.
"""

from __future__ import annotations

import argparse
import csv
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import colonnade as cn
from bench.timing import Runs, Took, print_table, print_verdict, run_in_turns

LOW, HIGH = 100, 200
PREDICATE = f"ts between {LOW} and {HIGH}"
SQL = f"select ts, energy from 'x.parquet' where {PREDICATE}"
POLARS = (
    "import polars as pl\n"
    f"found = pl.scan_parquet('x.parquet').filter(pl.col('ts').is_between({LOW}, {HIGH}))"
    ".select('ts', 'energy').collect()\n"
)
OWN = "colonnade where"
Rows = list[tuple[int, float]]


@dataclass(frozen=True)
class Contender:
    """Two commands for the same query: one shows the rows to a reader, one prints all of them as CSV."""

    shows: list[str]
    counts: list[str]


def in_python(before: str, shows: str, counts: str) -> Contender:
    return Contender([sys.executable, "-c", before + shows], [sys.executable, "-c", before + counts])


def contenders() -> dict[str, Contender]:
    """The installed contenders; colonnade first."""
    own = [_beside_python("colonnade") or "colonnade", "where", "x.h5", PREDICATE, "--columns", "ts,energy"]
    found = {OWN: Contender(own, [*own, "--format", "csv"])}
    if find_spec("duckdb") is not None:
        asked = f'import duckdb\nfound = duckdb.sql("{SQL}")\n'
        found["duckdb in Python"] = in_python(asked, "found.show()", "found.write_csv('/dev/stdout')")
    if find_spec("polars") is not None:
        found["polars in Python"] = in_python(POLARS, "print(found)", "print(found.write_csv())")
    command = _beside_python("duckdb") or shutil.which("duckdb")
    if command is not None:
        found["duckdb -c"] = Contender([command, "-c", SQL], [command, "-csv", "-c", SQL])
    return found


def _beside_python(name: str) -> str | None:
    return shutil.which(name, path=str(Path(sys.executable).parent))


def write(folder: Path, rows: int) -> Rows:
    """Write the table and the Parquet file; the rows that the query must return."""
    ts = np.arange(rows)
    energy = np.random.default_rng(20261115).gamma(2.0, 1.5, rows)
    table = pa.table({"ts": ts, "energy": energy})
    cn.write(folder / "x.h5", table, index={"ts": "sorted_rows"})
    parquet.write_table(table, folder / "x.parquet")
    asked = (ts >= LOW) & (ts <= HIGH)
    return list(zip(ts[asked].tolist(), energy[asked].tolist(), strict=True))


def counted_rows(command: list[str], folder: Path) -> Rows:
    run = subprocess.run(command, cwd=folder, env=_environment(folder), capture_output=True, text=True, check=True)
    _head, *lines = [line for line in csv.reader(run.stdout.splitlines()) if line]
    return [(int(ts), float(energy)) for ts, energy in lines]


def run_once(command: list[str], folder: Path) -> Took:
    """The CPU time of the child process (all threads), and the wall-clock time."""
    environment, before, start = _environment(folder), _children_cpu(), time.perf_counter()
    subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)
    return Took(_children_cpu() - before, time.perf_counter() - start)


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _environment(folder: Path) -> dict[str, str]:
    """The environment of the child: compiled modules are kept, as in an installation; receipts stay in the folder."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "COLONNADE_CACHE": str(folder / "cache")}


def verdict(runs: dict[str, Runs]) -> bool:
    """Whether colonnade takes less CPU time than each of the others."""
    met = True
    for name, peer in runs.items():
        if name != OWN:
            ratio = runs[OWN].best_cpu / peer.best_cpu
            met &= print_verdict(f"{ratio:.2f} times the CPU time of {name}", ratio < 1)
    return met


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.startup", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the table")
    parser.add_argument("--times", type=int, default=5, help="runs of each; the best one counts")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["COLONNADE_CACHE"] = str(folder / "cache")
        expected = write(folder, asked.rows)
        chosen = contenders()
        for title, one in chosen.items():
            if counted_rows(one.counts, folder) != expected:
                raise SystemExit(f"{title} gives other rows")
        actions = {title: partial(run_once, one.shows, folder) for title, one in chosen.items()}
        runs = run_in_turns(actions, asked.times)
    print_table(f"{PREDICATE}, of {asked.rows:,} rows", runs, {})
    return 0 if verdict(runs) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
