"""Whether threads help: two threads that decode the chunks of two columns, against two processes that do the same.

    python -m bench.threads [--rows 10_000_000] [--times 5]

Each of the two reads every second part of the rows, of a column with filters and of one without. Processes share
nothing, so they never wait for each other: the additional wall-clock time of threads is spent waiting (for the lock of
HDF5, for the interpreter). Exits 1 when the ratio is over the limit.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import colonnade as cn
from bench.timing import Took, print_table, print_verdict, run_in_turns, timed
from bench.workload import SCHEMA, Workload

WORKERS = 2
PART_ROWS = 524_288
FILTERS = {"ts": "shuffle+deflate", "energy": "none"}
COLUMNS = tuple(FILTERS)
Sums = tuple[float, ...]


def decode(path: Path, worker: int) -> Sums:
    """Read the parts of one worker; the sums show that all rows were read.

    The file is opened again, because an open file may cache decoded chunks.
    """
    totals = [0.0] * len(COLUMNS)
    with cn.open(path) as file:
        table = file["events"]
        for start in range(worker * PART_ROWS, len(table), WORKERS * PART_ROWS):
            for place, name in enumerate(COLUMNS):
                totals[place] += pc.sum(table[[name]][start : start + PART_ROWS].to_arrow().column(0)).as_py()
    return tuple(totals)


def serve(path: Path, worker: int, pipe: Connection) -> None:
    """One process: decodes on request, and sends back the sums and its CPU time."""
    while pipe.recv():
        took = Took()
        with timed(took):
            sums = decode(path, worker)
        pipe.send((sums, took.cpu))


class Processes:
    """Two processes that are started and warm before anything is measured."""

    def __init__(self, path: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipes, self.children = [], []
        for worker in range(WORKERS):
            ours, theirs = context.Pipe()
            child = context.Process(target=serve, args=(path, worker, theirs), daemon=True)
            child.start()
            self.pipes.append(ours)
            self.children.append(child)

    def run(self) -> tuple[Took, list[Sums]]:
        took = Took()
        with timed(took):
            for pipe in self.pipes:
                pipe.send(True)
            answers = [pipe.recv() for pipe in self.pipes]
        return Took(sum(cpu for _, cpu in answers), took.wall), [sums for sums, _ in answers]

    def end(self) -> None:
        for pipe, child in zip(self.pipes, self.children, strict=True):
            pipe.send(False)
            child.join()


def run_threads(path: Path, pool: ThreadPoolExecutor) -> tuple[Took, list[Sums]]:
    took = Took()
    with timed(took):
        answers = list(pool.map(partial(decode, path), range(WORKERS)))
    return took, answers


def run_alone(path: Path) -> tuple[Took, list[Sums]]:
    took = Took()
    with timed(took):
        answers = [decode(path, worker) for worker in range(WORKERS)]
    return took, answers


def checked(run: Callable[[], tuple[Took, list[Sums]]], expected: list[Sums]) -> Took:
    took, sums = run()
    if sums != expected:
        raise SystemExit(f"what was decoded differs: sums {sums} instead of {expected}")
    return took


def write(path: Path, rows: int) -> None:
    schema = pa.schema([SCHEMA.field(name) for name in COLUMNS])
    reader = pa.RecordBatchReader.from_batches(schema, Workload(rows).batches(COLUMNS))
    cn.write(path, reader, table="events", columns={name: cn.column(filters=how) for name, how in FILTERS.items()})


def compare(path: Path, times: int, limit: float) -> bool:
    """Decode sequentially, in two threads, and in two processes."""
    processes = Processes(path)
    expected = run_alone(path)[1]
    with ThreadPoolExecutor(WORKERS) as pool:
        actions = {
            "one thread": partial(checked, partial(run_alone, path), expected),
            "two threads": partial(checked, partial(run_threads, path, pool), expected),
            "two processes": partial(checked, processes.run, expected),
        }
        for action in actions.values():
            action()  # warm up
        runs = run_in_turns(actions, times)
    processes.end()
    print_table("decoding the same chunks", runs, {"two threads": "two processes", "one thread": "two processes"})
    ratio = runs["two threads"].best_wall / runs["two processes"].best_wall
    return print_verdict(f"two threads take {ratio:.2f} times as long as two processes, limit {limit}", ratio <= limit)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.threads", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the table, 16 bytes each")
    parser.add_argument("--times", type=int, default=5, help="runs of each; the best one counts")
    parser.add_argument(
        "--limit", type=float, default=1.18, help="wall-clock time of two threads to two processes, 1/0.85"
    )
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.h5"
        write(path, asked.rows)
        met = compare(path, asked.times, asked.limit)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
