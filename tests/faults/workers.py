"""What the other processes of the kill tests do. Each worker is forked from a server that has imported everything."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import colonnade as cn
from colonnade.h5.journal import Durability
from tests.faults.changes import rows

N_SLOTS = 4
BEGIN = 0  # what the counter of a fresh file says


def context() -> ForkServerContext:
    """Processes that start in milliseconds."""
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload([__name__])
    return made


def start(work: Any, *arguments: Any) -> ForkServerProcess:
    """Let another process do some work."""
    process = context().Process(target=work, args=arguments, daemon=True)
    process.start()
    return process


def numbered(number: int) -> pa.Table:
    """The table of one commit: its values and its length follow from its number."""
    return rows(number, 5 + number * 7 % 40)


def slot(number: int) -> str:
    """Where the table of one commit goes."""
    return f"slot{number % N_SLOTS}"


def write_for_ever(path: Path, first: int, durability: Durability, done: Any) -> None:
    """Commit after commit, each telling its number when it is done; opened anew now and then."""
    number = first
    while True:
        with cn.open(path, "r+", durability=durability) as file:
            for _ in range(3):
                file.create(slot(number), numbered(number), mode="replace", title=str(number))
                done.value = number
                number += 1


def hold(path: Path, is_held: Any, release: Any) -> None:
    """Keep the file open for changes until told to let go."""
    with cn.open(path, "r+"):
        is_held.set()
        release.wait(30)


def commit_when_told(path: Path, is_half: Any, go_on: Any, is_done: Any) -> None:
    """Write half of a table, wait, write the rest."""

    def batches() -> Iterator[pa.Table]:
        yield numbered(1)
        is_half.set()
        go_on.wait(30)
        yield numbered(2)

    with cn.open(path, "r+") as file:
        file.h5.flush()
        file.create("events", batches(), mode="replace")
        is_done.set()
        go_on.wait(30)


def commit_once(path: Path) -> None:
    """Replace a table, and be gone."""
    cn.write(path, numbered(1), "events", mode="replace")


def count_up(path: Path, who: int, until: float, told: Any) -> None:
    """Add one to the counter again and again; every tenth time leave a table behind. Tells how often."""
    n_commits, slowest = 0, 0.0
    while time.time() < until:
        begun = time.monotonic()
        with cn.open(path, "r+", durability="fast", timeout=20) as file:
            number = int(file["counter"]["n"][0])
            file.create("counter", counter(number + 1), mode="replace")
            if n_commits % 10 == 0:
                file.create(f"kept/w{who}_{n_commits}", numbered(n_commits))
        n_commits += 1
        slowest = max(slowest, time.monotonic() - begun)
        time.sleep(0.001)
    told.put(("writer", who, n_commits, slowest))


def counter(number: int) -> pa.Table:
    """A table of two columns whose length and values all say the same number."""
    n_rows = 10 + number % 50
    return pa.table({"n": np.full(n_rows, number), "minus": np.full(n_rows, -number)})


def check_counter(table: pa.Table) -> int:
    """The number of a counter that is not torn."""
    number = int(table["n"][0].as_py())
    assert table.to_pydict() == counter(number).to_pydict(), f"torn: {table}"
    return number


def read_counter(path: Path, who: int, until: float, told: Any) -> None:
    """Read the counter again and again: one reader through one open file, the other through a new one each time."""
    n_reads, slowest, last = 0, 0.0, -1
    try:
        with cn.open(path, timeout=20) as file:
            if who:
                file.close()
            while time.time() < until:
                begun = time.monotonic()
                number = check_counter(cn.read(path, "counter") if who else file["counter"].to_arrow())
                assert number >= last, f"from {last} back to {number}"
                last, n_reads = number, n_reads + 1
                slowest = max(slowest, time.monotonic() - begun)
    except BaseException as error:  # noqa: BLE001 - told to the test
        told.put(("reader failed", who, n_reads, f"{type(error).__name__}: {error}"))
        return
    told.put(("reader", who, n_reads, slowest))
