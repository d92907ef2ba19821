"""Changes of sparse arrays and sparse columns stopped at any call: the old file or the new one, whole, never between.

The same disk, trials and crashes as in `test_crashes`; what is compared is every cell, attribute and column, read past
HDF5, and that every checksum and place of the arrays is right.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.errors import ColonnadeError
from colonnade.sparse import find_sparse, verify_sparse
from tests.conftest import SetLimits
from tests.faults.changes import Act, Change
from tests.faults.states import State, tables_state
from tests.faults.test_crashes import (
    SPILL,
    Trial,
    World,
    check_following_write,
    check_kills,
    check_power_cuts,
    fresh_world,
    full_disk,
    opened,
    used_bytes,
)

LIMITS: dict[str, tuple[int | None, ...]] = {"one": (40, 30), "two": (None, 30), "three": (None, None)}


def cells(seed: int, density: float) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    coords = np.argwhere(random.random((40, 30)) < density)
    return coords, random.random(len(coords))


def make_sparse_file(path: Path) -> None:
    """Arrays of each kind of map, some of whose space was left behind; a table with a sparse column; other arrays."""
    few = pa.array([None if number % 7 else number * 0.5 for number in range(60)])
    columns = {"s": cn.column(sparse=True, chunk_rows=16, description="few")}
    cn.write(path, {"n": np.arange(60), "s": few}, table="t", columns=columns, index={"n": "sorted_rows"})
    for number, (name, limits) in enumerate(LIMITS.items()):
        filters = "shuffle+deflate" if number else None
        with cn.create_sparse(
            path, name, shape=(40, 30), dtype="<f8", chunks=(10, 10), max_shape=limits, filters=filters, attrs={"n": 1}
        ) as array:
            array.write(*cells(number, 0.3))
            array.erase((slice(0, 20), slice(0, 20)))
    with cn.create_sparse(path, "text", shape=(50,), dtype=str, chunks=(20,)) as array:
        array.write([1, 30], ["a", "bc"])
    with h5py.File(path, "r+") as h5:
        h5["image"] = np.arange(2500.0)


def array_state(path: Path, name: str) -> State:
    with cn.open_sparse(path, name) as array:
        coords, values = array.cells()
        return {"shape": array.shape, "cells": (coords.tolist(), values.tolist()), "attrs": dict(array.attrs)}


def sparse_state(path: Path) -> State:
    """Everything in a file; the arrays must be right in every byte that a checksum or a place covers."""
    assert verify_sparse(path) == []
    with h5py.File(path, "r", locking=False) as h5:
        beside = h5["image"][...].tolist() if "image" in h5 else None
        links = {name: sorted(h5[name]) if isinstance(h5.get(name), h5py.Group) else None for name in sorted(h5)}
    arrays = {name: array_state(path, name) for name in find_sparse(path)}
    return {"tables": tables_state(path), "arrays": arrays, "beside": beside, "links": links}


@dataclass
class SparseWorld(World):
    """The same folder with another file in it."""

    def _state(self, path: Path) -> State | str:
        cn.open(path).close()  # puts right what a crash left
        content = used_bytes(path)
        if content not in self.known:
            self.known[content] = sparse_state(path)
        return self.known[content]


@pytest.fixture(scope="session")
def sparse_file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("sparse") / "run.h5"
    make_sparse_file(path)
    return path.read_bytes()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_limits: SetLimits, sparse_file: bytes) -> SparseWorld:
    return fresh_world(SparseWorld, tmp_path, monkeypatch, set_limits, {"run.h5": sparse_file})


def create(file: cn.File) -> None:
    cn.create_sparse(file, "deep/new", shape=(20, 20), dtype="i4", attrs={"units": "m"})


def write_new(file: cn.File) -> None:
    cn.write_sparse(file, "whole", (cells(9, 0.2)[0], cells(9, 0.2)[1], (40, 30)), chunks=(10, 10))


def rewrite(name: str) -> Change:
    return lambda file: cn.open_sparse(file, name).write(*cells(5, 0.5))


def erase(file: cn.File) -> None:
    cn.open_sparse(file, "two").erase((slice(20, 40), slice(0, 30)))


def resize(file: cn.File) -> None:
    cn.open_sparse(file, "three").resize((25, 33))


def set_attributes(file: cn.File) -> None:
    cn.open_sparse(file, "one").attrs.update({"n": 2, "long": "x" * 2000})


def write_text(file: cn.File) -> None:
    cn.open_sparse(file, "text").write([1, 2, 49], ["", "longer " * 30, "z"])


def append(file: cn.File) -> None:
    file["t"].append({"n": np.arange(30), "s": pa.array([1.5, None] * 15)})


def update(file: cn.File) -> None:
    file["t"].update("s", [0, 1, 2, 50], pa.array([None, 3.5, 4.5, 5.5]))


def change_columns(file: cn.File) -> None:
    with file.transaction():
        table = file["t"]
        table.truncate(40)
        table.add_column("b", pa.array([None, True] * 20), sparse=True)
        table.rename_column("s", "r")
        cn.open_sparse(file, "one").write([[0, 0]], [9.0])
        table.append({"n": [1], "r": [2.5], "b": [None]})


def drop_column(file: cn.File) -> None:
    file["t"].drop_column("s")


def drop_table(file: cn.File) -> None:
    file.drop("t")


CHANGES: dict[str, Change] = {
    "create": create,
    "write new": write_new,
    "rewrite fixed array": rewrite("one"),
    "rewrite extensible array": rewrite("two"),
    "rewrite b-tree": rewrite("three"),
    "erase": erase,
    "resize": resize,
    "attributes": set_attributes,
    "text": write_text,
    "append": append,
    "update": update,
    "transaction": change_columns,
    "drop column": drop_column,
    "drop table": drop_table,
}


@pytest.mark.parametrize("name", CHANGES)
def test_killed_at_every_call(world: SparseWorld, name: str) -> None:
    check_kills(Trial.of(world, opened(CHANGES[name])))


@pytest.mark.parametrize("name", CHANGES)
def test_power_cut_at_every_call(world: SparseWorld, name: str) -> None:
    check_power_cuts(Trial.of(world, opened(CHANGES[name])), n_random=2)


@pytest.mark.parametrize("name", ["rewrite extensible array", "transaction"])
def test_pages_written_early(world: SparseWorld, name: str, set_limits: SetLimits) -> None:
    """More pages changed than may be held: also then what lies in places that are used again comes back."""
    set_limits(held_page_bytes=SPILL // 4)
    trial = Trial.of(world, opened(CHANGES[name]))
    check_kills(trial)
    check_power_cuts(trial, n_random=1)


@pytest.mark.parametrize("name", CHANGES)
def test_disk_error_at_every_call(world: SparseWorld, name: str) -> None:
    """One call fails, the process lives on: an error is raised, and the file is the old or the new one."""
    trial = Trial.of(world, opened(CHANGES[name]))
    for k in range(trial.n_calls):
        world.reset()
        with pytest.raises((OSError, RuntimeError, ColonnadeError)):
            world.run(trial.act, k, full_disk)
        found = world.state()
        assert found in (trial.old, trial.new), f"error in call {k}"
        assert found == trial.old or k >= trial.moment, f"error in call {k}: there before it was committed"
        check_following_write(world, found)


def repack_act(path: Path) -> None:
    with cn.open(path, "r+") as file:
        cn.open_sparse(file, "one").write([[0, 0]], [9.0])
        file.repack()


def test_repack_killed_at_every_call(world: SparseWorld) -> None:
    """Two commits: the write, and the new file in the place of the old one, which holds the same."""
    old = world.state()
    act: Act = repack_act
    disk = world.run(act)
    new = world.state()
    assert old != new
    trial = Trial(world, act, old, new, disk)
    for k in range(trial.n_calls + 1):
        trial.check(disk.after_kill(k), True, True, f"killed before call {k}")


def test_space_is_used_again_below_the_old_end(world: SparseWorld) -> None:
    """The tests above are about something: a rewrite puts chunks into places that were left behind."""
    length = world.path.stat().st_size
    disk = Trial.of(world, opened(CHANGES["erase"])).disk
    journals = {call.node for call in disk.calls if call.kind == "create"}
    below = [call for call in disk.calls if call.kind == "write" and call.node not in journals and call.offset < length]
    assert below
