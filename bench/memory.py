"""Peak memory of writing a table that is larger than memory, and of a filtered scan over one.

    python -m bench.memory [--work write,filter] [--gigabytes 2 --limit 400] [--filter-gigabytes 4 --filter-limit 500]

write: rows come from an iterator, batch by batch. filter: the rows that satisfy a predicate without a usable index
are read batch by batch and summed; their number and sum must be those of the rows that were written. Each runs in a
child process, so that the peak is that of the work alone (interpreter and libraries included). Prints one line of JSON
for each; exits 1 when a peak is over its limit in MB, or an answer is wrong.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

BATCH_ROWS = 100_000
WORDS = np.array(["muon", "electron", "photon", "proton", "pion", "kaon", "neutron", "tau"])
OVER = 1.0
Found = dict[str, float]


def batches(n_bytes: int) -> Iterator[pa.RecordBatch]:
    """Batches of mixed columns, until this number of bytes of Arrow data has been produced."""
    rng = np.random.default_rng(1)
    given = number = 0
    while given < n_bytes:
        start = number * BATCH_ROWS
        batch = pa.record_batch(
            {
                "ts": pa.array(np.arange(start, start + BATCH_ROWS) * 1000 + rng.integers(0, 900, BATCH_ROWS)),
                "energy": rng.normal(size=BATCH_ROWS),
                "id": rng.integers(0, 2**31 - 1, BATCH_ROWS, dtype=np.int32),
                "price": rng.integers(0, 10_000, BATCH_ROWS).astype("f4") / 100,
                "flag": rng.random(BATCH_ROWS) < 0.3,
                "label": pa.array(WORDS[rng.integers(0, 8, BATCH_ROWS)]).dictionary_encode(),
                "name": pa.array([f"event-{value:08x}" for value in rng.integers(0, 2**32, BATCH_ROWS)]),
            }
        )
        given += batch.nbytes
        number += 1
        yield batch


def add(found: Found, rows: pa.RecordBatch) -> None:
    found["rows"] += rows.num_rows
    found["energy"] += pc.sum(rows.column("energy"), min_count=0).as_py()


def noted(source: Iterator[pa.RecordBatch], found: Found) -> Iterator[pa.RecordBatch]:
    """Pass the batches through unchanged, and sum up the rows that the filter must find."""
    for batch in source:
        wanted = pc.and_(pc.greater(batch["energy"], OVER), pc.equal(batch["label"].cast(pa.string()), "muon"))
        add(found, batch.filter(wanted))
        yield batch


def write_table(path: str, n_bytes: int, answers: Any) -> None:
    """Write the table in this process, and report the peak memory."""
    import colonnade as cn

    found: Found = {"rows": 0, "energy": 0.0}
    started = time.process_time(), time.perf_counter()
    cn.write(path, noted(batches(n_bytes), found), table="events")
    answers.put(used_since(started) | {"found": found})


def filter_table(path: str, _n_bytes: int, answers: Any) -> None:
    """Sum the rows that a predicate finds in this process, and report the peak memory."""
    import colonnade as cn

    found: Found = {"rows": 0, "energy": 0.0}
    started = time.process_time(), time.perf_counter()
    with cn.open(path) as file:
        wanted = (cn.col("energy") > OVER) & (cn.col("label") == "muon")
        for batch in file["events"].where(wanted).select("ts", "energy", "name").batches():
            add(found, batch)
    answers.put(used_since(started) | {"found": found})


def used_since(started: tuple[float, float]) -> dict[str, Any]:
    cpu, wall = time.process_time() - started[0], time.perf_counter() - started[1]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"peak_mb": round(peak), "cpu_s": round(cpu, 1), "wall_s": round(wall, 1)}


def in_child(work: Callable[[str, int, Any], None], path: Path, n_bytes: int) -> dict[str, Any]:
    """The report of a separate process."""
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    child = context.Process(target=work, args=(str(path), n_bytes, answers))
    child.start()
    child.join()
    if child.exitcode != 0:
        raise SystemExit(1)
    answer: dict[str, Any] = answers.get()
    return answer


def report(work: str, result: dict[str, Any], gigabytes: float, path: Path, limit: int) -> bool:
    facts = {"work": work, **result, "arrow_gb": gigabytes, "file_mb": round(path.stat().st_size / 1e6)}
    facts["within_limit"] = result["peak_mb"] < limit
    print(json.dumps(facts), flush=True)
    return bool(facts["within_limit"])


def measure_writing(gigabytes: float, limit: int) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.h5"
        return report("write", in_child(write_table, path, int(gigabytes * 1e9)), gigabytes, path, limit)


def measure_filtering(gigabytes: float, limit: int) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.h5"
        there = in_child(write_table, path, int(gigabytes * 1e9))["found"]
        result = in_child(filter_table, path, 0)
        found = result["found"]
        if found["rows"] != there["rows"] or not math.isclose(found["energy"], there["energy"], rel_tol=1e-9):
            raise SystemExit(f"the filter found {found} instead of {there}")
        return report("filter", result, gigabytes, path, limit)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.memory", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--work", default="write,filter", help="what to measure (default: write,filter)")
    parser.add_argument("--gigabytes", type=float, default=2.0, help="Arrow data that is written")
    parser.add_argument("--limit", type=int, default=400, help="MB, for writing")
    parser.add_argument("--filter-gigabytes", type=float, default=4.0, help="Arrow data of the table that is filtered")
    parser.add_argument("--filter-limit", type=int, default=500, help="MB, for the filtered scan")
    asked = parser.parse_args(arguments)
    met = []
    for work in asked.work.split(","):
        if work == "write":
            met.append(measure_writing(asked.gigabytes, asked.limit))
        elif work == "filter":
            met.append(measure_filtering(asked.filter_gigabytes, asked.filter_limit))
        else:
            parser.error(f"--work takes write and filter, not {work!r}")
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
