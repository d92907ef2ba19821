"""Real SIGINTs at random moments of open, change and close: `python -m tests.faults.interrupted [signals] [seed]`.

Another process sends one signal per round, after a random delay. Whatever the signal strikes, the file must hold
the rows from before the change or those from after it, a change that returned must be there, the open file must
take the next change, and no lock may be left.
"""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

import colonnade as cn
from colonnade.pager.locks import lock_path

Columns = dict[str, list[Any]]
Model = dict[str, Columns]
Act = Callable[[cn.File], object]
Step = tuple[str, Act, Model]
KINDS = ["append", "update", "truncate", "column", "replace", "index", "attribute", "repack", "create", "transaction"]

SENDER = """
import os, signal, struct, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
while len(asked := os.read(0, 8)) == 8:
    time.sleep(struct.unpack("<d", asked)[0])
    os.kill(int(sys.argv[1]), signal.SIGINT)
    os.write(1, b"!")
"""


class Sender:
    """A process that sends this one SIGINT, `delay` seconds after it was asked to."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", SENDER, str(os.getpid())], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        self._is_armed = False
        self._before = signal.signal(signal.SIGINT, self._raise)

    def _raise(self, *_signal: object) -> None:
        if self._is_armed:
            self._is_armed = False
            raise KeyboardInterrupt

    def during(self, act: Callable[[], object], delay: float) -> float:
        """One signal strikes in `act`, which lets a KeyboardInterrupt out, or comes too late; the seconds it took."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(struct.pack("<d", delay))
        begun = time.perf_counter()
        try:
            self._is_armed = True
            act()
        finally:
            self._is_armed = False
            self.spent = time.perf_counter() - begun
            self._process.stdout.read(1)  # the signal was sent
        return self.spent

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        signal.signal(signal.SIGINT, self._before)
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


def some_rows(random: Random, n_rows: int) -> Columns:
    return {
        "x": [random.randrange(10**9) for _ in range(n_rows)],
        "name": [None if random.random() < 0.2 else "n" * random.randrange(30) for _ in range(n_rows)],
    }


class World:
    """One file, what must be in it, and random changes: what each does, and what must be there afterwards."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path = path
        self.random = Random(seed)
        self.model: Model = {"t": some_rows(self.random, 40)}
        cn.write(path, pa.table(self.model["t"]), "t")
        with cn.open(path, "r+") as file:
            file.h5["image"] = np.zeros(3000)

    def step(self) -> Step:
        kind = self.random.choice(KINDS)
        after = deepcopy(self.model)
        return kind, getattr(self, f"_{kind}")(after, after["t"]), after

    def _append(self, _after: Model, columns: Columns) -> Act:
        more = self._rows_like(columns, self.random.randrange(1, 60))
        for name, values in more.items():
            columns[name] += values
        return lambda file: file["t"].append(pa.table(more))

    def _update(self, _after: Model, columns: Columns) -> Act:
        rows = sorted(self.random.sample(range(len(columns["x"])), 3))
        values = [self.random.randrange(10**9) for _ in rows]
        for row, value in zip(rows, values, strict=True):
            columns["x"][row] = value
        return lambda file: file["t"].update("x", rows, values)

    def _truncate(self, after: Model, columns: Columns) -> Act:
        n_rows = max(20, len(columns["x"]) // 2)
        after["t"] = {name: values[:n_rows] for name, values in columns.items()}
        return lambda file: file["t"].truncate(n_rows)

    def _column(self, _after: Model, columns: Columns) -> Act:
        """Added, renamed, dropped, in turn."""
        if "z" in columns:
            columns["w"] = columns.pop("z")
            return lambda file: file["t"].rename_column("z", "w")
        if "w" in columns:
            del columns["w"]
            return lambda file: file["t"].drop_column("w")
        columns["z"] = values = [self.random.randrange(100) for _ in columns["x"]]
        return lambda file: file["t"].add_column("z", values)

    def _replace(self, _after: Model, columns: Columns) -> Act:
        columns["x"] = values = [self.random.randrange(10**9) for _ in columns["x"]]
        return lambda file: file["t"].replace_column("x", values)

    def _index(self, _after: Model, _columns: Columns) -> Act:
        return lambda file: file["t"].build_index("x", "sorted_rows")

    def _attribute(self, _after: Model, columns: Columns) -> Act:
        return lambda file: setattr(file["t"], "title", str(len(columns["x"])))

    def _repack(self, _after: Model, _columns: Columns) -> Act:
        return lambda file: file.repack()

    def _create(self, after: Model, _columns: Columns) -> Act:
        """Created, and dropped again."""
        if after.pop("u", None):
            return lambda file: file.drop("u")
        after["u"] = made = some_rows(self.random, self.random.randrange(1, 50))
        return lambda file: file.create("u", pa.table(made), title="u")

    def _transaction(self, after: Model, columns: Columns) -> Act:
        after["u"] = made = some_rows(self.random, 10)
        more = self._rows_like(columns, 7)
        for name, values in more.items():
            columns[name] += values

        def act(file: cn.File) -> None:
            with file.transaction():
                file.create("u", pa.table(made), mode="replace")
                file.h5["image"][:] = float(len(columns["x"]))
                file["t"].append(pa.table(more))

        return act

    def _rows_like(self, columns: Columns, n_rows: int) -> Columns:
        more = some_rows(self.random, n_rows)
        for name in columns.keys() - more.keys():
            more[name] = [self.random.randrange(100) for _ in range(n_rows)]
        return more

    def matching(self, file: cn.File, *models: Model) -> int:
        """Which of the models is in the file."""
        found = {name.lstrip("/"): file[name].to_arrow().to_pydict() for name in file.tables()}
        for number, model in enumerate(models):
            if found == model:
                return number
        raise AssertionError(f"neither the old rows nor the new ones: {short(found)}, not {list(map(short, models))}")


def short(model: Model) -> str:
    return str(
        {table: {name: (len(col), str(col[:4])) for name, col in columns.items()} for table, columns in model.items()}
    )


def do(path: Path, file: cn.File | None, act: Act) -> None:
    if file is not None:
        act(file)
    else:
        with cn.open(path, "r+", durability="fast", timeout=1) as once:
            act(once)


def interrupt(n_signals: int, seed: int, folder: Path) -> Counter[str]:
    """Send so many signals; every round is one change of a file that is open, or that is opened and closed for it."""
    world, sender, outcomes = World(folder / "run.h5", seed), Sender(), Counter[str]()
    file: cn.File | None = None
    usual = 0.01
    try:
        for number in range(n_signals):
            if world.random.random() < 0.3:
                file = toggle(world.path, file)
            kind, act, after = world.step()
            error: BaseException | None = None
            try:
                sender.during(partial(do, world.path, file, act), world.random.random() * 1.3 * usual)
            except KeyboardInterrupt as struck:
                error = struck  # kept, as an interpreter keeps its last traceback
            usual = 0.9 * usual + 0.1 * min(sender.spent, 0.5)
            try:
                is_new = look(world, file, after)
            except BaseException as reason:
                raise AssertionError(f"seed {seed}, round {number}, {kind} ({error!r}): {reason}") from reason
            if not is_new and error is None:
                raise AssertionError(f"seed {seed}, round {number}: {kind} returned, and {on_disk(world, after)}")
            outcomes[f"{kind}: {'returned' if error is None else 'new state' if is_new else 'old state'}"] += 1
            del error
            world.model = after if is_new else world.model
        if file is not None:
            file.close()
        look(world, None, world.model)
    finally:
        sender.close()
    return outcomes


def on_disk(world: World, after: Model) -> str:
    """What another process finds, where an open file does not show what it was given."""
    with cn.open(world.path) as reader:
        return ("nothing was changed", "only the open file does not show it")[
            world.matching(reader, world.model, after)
        ]


def toggle(path: Path, file: cn.File | None) -> cn.File | None:
    """Open a file that was closed, close one that was open."""
    if file is None:
        return cn.open(path, "r+", durability="fast", timeout=1)
    file.close()
    return None


def look(world: World, file: cn.File | None, after: Model) -> bool:
    """Whether the file is in the new state, or else in the old one; no lock is left if it was closed."""
    if file is not None:
        return bool(world.matching(file, world.model, after)) or world.model == after
    assert not lock_path(world.path).exists(), "a lock was left"
    with cn.open(world.path, timeout=1) as reader:
        is_new = bool(world.matching(reader, world.model, after)) or world.model == after
    with cn.open(world.path, "r+", timeout=0):
        pass
    return is_new


if __name__ == "__main__":
    n_signals = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns() % 10**6
    with TemporaryDirectory() as name:
        found = interrupt(n_signals, seed, Path(name))
    print(f"{n_signals} signals, seed {seed}")
    for word, count in sorted(found.items()):
        print(f"{count:7} {word}")
