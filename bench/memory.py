"""Peak memory of writing a table that is larger than it: rows come from an iterator, batch by batch.

    python -m bench.memory [--gigabytes 2] [--limit 400]

A child process writes the table, so that the peak is the writer's own (interpreter and libraries
included). Prints what was done; exits 1 when the peak is over the limit in MB.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

BATCH_ROWS = 100_000
WORDS = np.array(["muon", "electron", "photon", "proton", "pion", "kaon", "neutron", "tau"])


def batches(n_bytes: int) -> Iterator[pa.RecordBatch]:
    """Batches of mixed columns until so many bytes of Arrow data have been given."""
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


def write_table(path: str, n_bytes: int, answers: Any) -> None:
    """Write the table in this process, and say how much memory that took at most."""
    import colonnade as cn

    started = time.process_time(), time.perf_counter()
    cn.write(path, batches(n_bytes), table="events")
    cpu, wall = time.process_time() - started[0], time.perf_counter() - started[1]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    answers.put({"peak_mb": round(peak), "cpu_s": round(cpu, 1), "wall_s": round(wall, 1)})


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--limit", type=int, default=400, help="MB")
    asked = parser.parse_args(arguments)
    n_bytes = int(asked.gigabytes * 1e9)
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.h5"
        answers = context.Queue()
        child = context.Process(target=write_table, args=(str(path), n_bytes, answers))
        child.start()
        child.join()
        if child.exitcode != 0:
            return 1
        result = answers.get() | {"arrow_gb": asked.gigabytes, "file_mb": round(path.stat().st_size / 1e6)}
    result["within_limit"] = result["peak_mb"] < asked.limit
    print(json.dumps(result))
    return 0 if result["within_limit"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
