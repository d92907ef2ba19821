"""Two processes append to one table in turn, four read it at once: no torn read, no lost row, none stuck."""

from __future__ import annotations

import os
import signal
import time
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import colonnade as cn
from tests.faults.appending import (
    READINGS,
    SAFETY_NET,
    TABLE,
    Run,
    append_once,
    append_several,
    check_batches,
    make_table,
    read,
    work,
)
from tests.faults.changes import make_file
from tests.faults.states import State, objects_state
from tests.faults.workers import context, start

SECONDS = float(os.environ.get("COLONNADE_SECONDS", "4"))
N_PHASES = 4
LEAST_STEPS = 3  # of every process in every phase, however long that takes

Processes = dict[str, ForkServerProcess]


def start_all(path: Path) -> tuple[Run, Processes]:
    """Two processes that append and four that read, each at its place in the counts."""
    made = context()
    tasks = {"append once": append_once, "append several": append_several}
    tasks |= {reading.__name__: read for reading in READINGS}
    n_all = len(tasks)
    begun, done, steps, again = (made.Array("q", values, lock=False) for values in ([1, 1], [1, 1], n_all, n_all))
    run = Run(path, path.parent, made.Event(), begun, done, steps, again)
    return run, {name: start(work, run, name, place, task) for place, (name, task) in enumerate(tasks.items())}


def wait_for_all(run: Run, processes: Processes) -> list[str]:
    """Let the time pass in phases, each as long as it takes every process to get on. Names those that do not.

    The first phase ends when all are at work.
    """
    for seconds in (0, *[SECONDS / N_PHASES] * N_PHASES):
        begun, until = list(run.steps), time.monotonic() + seconds
        while time.monotonic() < until or idle_since(run, processes, begun):
            if any(not process.is_alive() for process in processes.values()):
                return []
            if time.monotonic() > until + SAFETY_NET:
                return idle_since(run, processes, begun)
            time.sleep(0.02)
    return []


def idle_since(run: Run, processes: Processes, begun: list[int]) -> list[str]:
    """The processes that have made too few steps since."""
    pairs = zip(processes, run.steps, begun, strict=True)
    return [name for name, now, before in pairs if now < before + LEAST_STEPS]


def end_all(run: Run, processes: Processes, idle: list[str]) -> list[str]:
    """Tell all to end, and say what was wrong with whom; a process that is stuck tells where."""
    ask_where(processes, idle)
    run.stop.set()
    deadline = time.monotonic() + SAFETY_NET
    for process in processes.values():
        process.join(max(deadline - time.monotonic(), 0))
    endless = [name for name, process in processes.items() if process.is_alive()]
    ask_where(processes, endless)
    for name in endless:
        processes[name].kill()
        processes[name].join()
    stuck = {*idle, *endless}
    return [
        f"{name}: {'stuck' if name in stuck else 'failed'} (exit code {process.exitcode})\n{log_of(run, name)}"
        for name, process in processes.items()
        if name in stuck or process.exitcode != 0
    ]


def ask_where(processes: Processes, names: list[str]) -> None:
    """Let processes write where they are into their logs."""
    for name in names:
        pid = processes[name].pid
        assert pid is not None  # it was started
        os.kill(pid, signal.SIGUSR1)
    time.sleep(1 if names else 0)


def log_of(run: Run, name: str) -> str:
    path = run.logs / f"{name}.log"
    return path.read_text() if path.exists() else "it wrote no log"


def told(run: Run, processes: Processes) -> str:
    """How far each process has come."""
    counts = zip(processes, run.steps, run.again, strict=True)
    return "; ".join(f"{name}: {n_steps} steps, {n_again} begun again" for name, n_steps, n_again in counts)


def beside_the_table(path: Path) -> State:
    """Everything in the file that nobody is to touch."""
    return {name: state for name, state in objects_state(path).items() if not f"{name}/".startswith((f"{TABLE}/", "/"))}


def test_two_append_and_four_read(tmp_path: Path) -> None:
    """Every read is whole batches up to a commit; every row is there in the end; all get on and end by themselves."""
    path = tmp_path / "run.h5"
    make_file(path)
    make_table(path)
    others = beside_the_table(path)
    run, processes = start_all(path)
    wrong = end_all(run, processes, wait_for_all(run, processes))
    assert not wrong, "\n".join([told(run, processes), *wrong])
    print(told(run, processes))  # seen with pytest -s
    assert check_batches(cn.read(path, TABLE)) == tuple(run.done) == tuple(run.begun)
    assert beside_the_table(path) == others
    assert {each.name for each in tmp_path.iterdir() if each.suffix != ".log"} == {path.name}
