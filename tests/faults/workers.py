"""What the other processes of the kill tests do. Each worker is forked from a server that has imported everything."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

import pyarrow as pa

import colonnade as cn
from colonnade.pager.options import Durability
from tests.faults.changes import rows

N_SLOTS = 4


def context() -> ForkServerContext:
    """Processes that start in milliseconds."""
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload([__name__, "pandas"])  # pyarrow imports pandas when it makes its first array
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


def hold_when_told(path: Path, is_ready: Any, go_on: Any, is_held: Any, release: Any) -> None:
    """The same, begun only when told: until then the process has had time to start."""
    is_ready.set()
    go_on.wait(30)
    hold(path, is_held, release)


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
