"""SQL and Polars over a colonnade table against the same over Parquet: fourteen questions in DuckDB and in Polars.

    python -m bench.engines [--rows 5_000_000] [--times 5] [--folder FOLDER]

Parquet is written twice: as pyarrow does by default, and tuned (row groups of 65,536 rows, zstd, page index; DuckDB and
Polars skip row groups by their statistics). The three files are asked in turns. CPU milliseconds of the best run, all
threads; the answers are compared with those over the first source. A ratio above 1.2 against the better Parquet file is
marked.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow.parquet as pq

import colonnade as cn
from bench.timing import Runs, Took, run_in_turns, timed
from bench.workload import COUNTED_LABEL, ENERGY_OVER, SEARCHED_LABEL, Workload

SOURCES = ("colonnade", "parquet", "parquet tuned")
INDEXES = {"ts": "chunk_minmax", "id": "sorted_rows", "name": "sorted_rows", "label": "bitmap"}
TUNED_ROWS = 65_536
JOINED = 3
MOST_RATIO = 1.2
Ask = Callable[[Any], Any]


def answer(ask: Ask, source: Any, keep: list[Any]) -> Took:
    took = Took()
    with timed(took):
        result = ask(source)
    keep[:] = [result]
    return took


def questions(workload: Workload) -> dict[str, tuple[str, Callable[[pl.LazyFrame], pl.LazyFrame]]]:
    """For each question its SQL, with {t} for the table, and its Polars."""
    percent, half, few = (workload.ts_range(share) for share in (0.01, 0.5, 0.00001))
    number, name = workload.searched_ids[0], workload.searched_names[0]
    numbers, prefix, keys = workload.many_ids[:1000], name[:3], workload.searched_ids[:JOINED]
    listed, col = ", ".join(map(str, numbers)), pl.col
    keyed = " union all ".join(f"select {key} as id" for key in keys)
    energy = col("energy").sum()
    return {
        "count(*)": ("select count(*) from {t}", lambda t: t.select(pl.len())),
        "mean": ("select avg(energy) from {t}", lambda t: t.select(col("energy").mean())),
        "range 1 %": (
            f"select sum(energy), max(id) from {{t}} where ts between {percent.low} and {percent.high}",
            lambda t: t.filter(col("ts").is_between(percent.low, percent.high)).select(energy, col("id").max()),
        ),
        "range 0.001 %": (
            f"select sum(energy), max(id) from {{t}} where ts between {few.low} and {few.high}",
            lambda t: t.filter(col("ts").is_between(few.low, few.high)).select(energy, col("id").max()),
        ),
        "half of the rows, sum": (
            f"select sum(energy) from {{t}} where ts between {half.low} and {half.high}",
            lambda t: t.filter(col("ts").is_between(half.low, half.high)).select(energy),
        ),
        "id =": (
            f"select sum(energy), min(ts) from {{t}} where id = {number}",
            lambda t: t.filter(col("id") == number).select(energy, col("ts").min()),
        ),
        "id in (1,000 values)": (
            f"select sum(energy) from {{t}} where id in ({listed})",
            lambda t: t.filter(col("id").is_in(numbers)).select(energy),
        ),
        "name =": (
            f"select sum(energy), min(ts) from {{t}} where name = '{name}'",
            lambda t: t.filter(col("name") == name).select(energy, col("ts").min()),
        ),
        "name like 'abc%'": (
            f"select count(*) from {{t}} where name like '{prefix}%'",
            lambda t: t.filter(col("name").str.starts_with(prefix)).select(pl.len()),
        ),
        "count label =": (
            f"select count(*) from {{t}} where label = '{COUNTED_LABEL}'",
            lambda t: t.filter(col("label") == COUNTED_LABEL).select(pl.len()),
        ),
        "energy > and label =": (
            f"select sum(energy) from {{t}} where energy > {ENERGY_OVER} and label = '{SEARCHED_LABEL}'",
            lambda t: t.filter((col("energy") > ENERGY_OVER) & (col("label") == SEARCHED_LABEL)).select(energy),
        ),
        "mean by label": (
            "select label, avg(energy) from {t} group by label order by label",
            lambda t: t.group_by("label").agg(col("energy").mean()).sort("label"),
        ),
        "top 10": (
            "select ts, energy from {t} order by energy desc limit 10",
            lambda t: t.select("ts", "energy").top_k(10, by="energy"),
        ),
        "join, 3 keys": (
            f"select sum(energy) from {{t}} join ({keyed}) using (id)",
            lambda t: t.join(pl.LazyFrame({"id": keys}, schema={"id": pl.Int32}), on="id").select(energy),
        ),
    }


def write_files(folder: Path, workload: Workload) -> dict[str, Path]:
    paths = {"colonnade": folder / "x.h5", "parquet": folder / "x.parquet", "parquet tuned": folder / "tuned.parquet"}
    if not paths["colonnade"].exists():
        cn.write(paths["colonnade"], workload.reader(), "t", index=INDEXES)
    if not paths["parquet"].exists():
        rows = workload.reader().read_all()
        pq.write_table(rows, paths["parquet"])
        pq.write_table(
            rows, paths["parquet tuned"], row_group_size=TUNED_ROWS, compression="zstd", write_page_index=True
        )
    return paths


def rounded(result: Any) -> Any:
    """An answer whose sums may differ in the order in which they were added."""
    if isinstance(result, float):
        return float(f"{result:.9g}")
    return [rounded(part) for part in result] if isinstance(result, (list, tuple)) else result


def compare(engine: str, asked: dict[str, dict[str, Callable[[], Any]]], times: int) -> int:
    """Print one row per question; returns the number of wrong answers."""
    print(f"\n{engine:24}" + "".join(f"{source:>16}" for source in SOURCES) + f"{'ratio':>10}")
    n_wrong = 0
    for question, by_source in asked.items():
        answers: dict[str, list[Any]] = {source: [] for source in by_source}
        runs: dict[str, Runs] = run_in_turns(
            {source: partial(answer, lambda ask: ask(), ask, answers[source]) for source, ask in by_source.items()},
            times,
        )
        best = {source: runs[source].best_cpu * 1000 for source in SOURCES}
        ratio = best["colonnade"] / min(best["parquet"], best["parquet tuned"])
        results = [rounded(answers[source][0]) for source in SOURCES]
        is_wrong = any(result != results[0] for result in results)
        n_wrong += is_wrong
        mark = " WRONG" if is_wrong else " slower" if ratio > MOST_RATIO else ""
        print(f"{question:24}" + "".join(f"{best[source]:16.1f}" for source in SOURCES) + f"{ratio:10.2f}{mark}")
    return n_wrong


def run(folder: Path, rows: int, times: int) -> int:
    workload = Workload(rows)
    paths = write_files(folder, workload)
    asked = questions(workload)
    with cn.open(paths["colonnade"], n_threads=2) as file, duckdb.connect() as con:
        table = file["t"]
        con.execute("set threads = 2")
        table.duckdb(con).create_view("t_colonnade")
        con.execute(f"create view t_parquet as from read_parquet('{paths['parquet']}')")
        con.execute(f"create view t_tuned as from read_parquet('{paths['parquet tuned']}')")
        views = dict(zip(SOURCES, ("t_colonnade", "t_parquet", "t_tuned"), strict=True))
        frames = {
            "colonnade": table.lazy(),
            "parquet": pl.scan_parquet(paths["parquet"]),
            "parquet tuned": pl.scan_parquet(paths["parquet tuned"]),
        }

        def by_sql(text: str) -> list[Any]:
            return con.sql(text).fetchall()

        def by_polars(build: Callable[[pl.LazyFrame], pl.LazyFrame], frame: pl.LazyFrame) -> list[Any]:
            return build(frame).collect().rows()

        print(f"{rows:,} rows, CPU ms, best of {times}; DuckDB {duckdb.__version__}, Polars {pl.__version__}")
        wrong = compare(
            "DuckDB",
            {q: {s: partial(by_sql, sql.format(t=views[s])) for s in SOURCES} for q, (sql, _) in asked.items()},
            times,
        )
        wrong += compare(
            "Polars",
            {q: {s: partial(by_polars, build, frames[s]) for s in SOURCES} for q, (_, build) in asked.items()},
            times,
        )
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.engines", description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="folder of the files, kept for later runs")
    given = parser.parse_args()
    if given.folder is not None:
        given.folder.mkdir(parents=True, exist_ok=True)
        return run(given.folder, given.rows, given.times)
    with tempfile.TemporaryDirectory() as folder:
        return run(Path(folder), given.rows, given.times)


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
