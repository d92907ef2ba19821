"""Calls go down: in an open, a read and an append no function calls one of a higher floor, callbacks included."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pytest
from tools.architecture import SOURCE, place_of, room_of

import colonnade as cn
from colonnade import dataclass, threads
from colonnade.pager.disk import Disk
from colonnade.pager.readers import CommittedFile
from colonnade.pager.sources import BufferBytes

N_ROWS = 20_000
PACKAGE = Path(cn.__file__).parent  # not SOURCE where the tests run on an installed package (./test --oldest)
RNG = np.random.default_rng(20261118)
DATA = {
    "ts": np.cumsum(RNG.integers(0, 9, N_ROWS)),
    "id": RNG.permutation(N_ROWS).astype("i4"),
    "energy": RNG.normal(size=N_ROWS),
    "label": np.array(["electron", "muon", "pion"])[RNG.integers(0, 3, N_ROWS)],
    "name": [f"event {row}" for row in RNG.permutation(N_ROWS)],
}
INDEXES = {"ts": "chunk_minmax", "id": "sorted_rows", "energy": "chunk_bloom", "label": "bitmap", "name": "sorted_rows"}
QUERIES = [
    "ts > 100 and ts < 5000",
    "id = 77",
    "id in (5, 900) or id > 19990",
    "energy = 0.5",
    "label = 'muon'",
    "label is missing",
    "name = 'event 7'",
    "id < 50 and energy > 1 and label != 'pion'",
]
NO_FLOOR = {Path(threads.__file__), Path(dataclass.__file__)}
Calls = Counter[tuple[str, str]]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("calls") / "x.h5"
    cn.write(path, DATA, "t", columns={name: cn.column(chunk_rows=500) for name in DATA}, index=INDEXES)
    return path


@cache
def floor_of(code: CodeType) -> int | None:
    """The floor of the module that a function is in; None outside the package.

    `threads` runs what it is given for its caller, as `map` does, and `dataclass` is the constructor of other classes,
    so that they are on no floor.
    """
    path = Path(code.co_filename)
    if not path.is_relative_to(PACKAGE) or path in NO_FLOOR:
        return None
    room = room_of(SOURCE / path.relative_to(PACKAGE))
    return None if room == "__init__" else place_of(room)[0]


def name_of(code: CodeType) -> str:
    return f"{Path(code.co_filename).relative_to(PACKAGE)} {code.co_qualname}"


def calls_upward(work: Callable[[], Any]) -> Calls:
    """The calls during `work` in which a function of one floor calls one of a higher floor."""
    found: Calls = Counter()

    def note(frame: FrameType, event: str, _: Any) -> None:
        floor = floor_of(frame.f_code) if event == "call" else None
        caller = frame.f_back
        while floor is not None and caller is not None:
            below = floor_of(caller.f_code)
            if below is not None:
                if below < floor:
                    found[name_of(caller.f_code), name_of(frame.f_code)] += 1
                return
            caller = caller.f_back

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return found


def test_an_open_calls_downward(path: Path) -> None:
    def work() -> None:
        with cn.open(path) as file:
            assert file["t"].columns == list(DATA)

    assert calls_upward(work) == {}


@pytest.mark.parametrize("predicate", QUERIES)
def test_a_query_calls_downward(path: Path, predicate: str) -> None:
    with cn.open(path) as file:
        table = file["t"]
        expected = table.where(predicate).to_arrow()
        for read in (
            lambda: cn.open_table(path, "t").where(predicate).to_arrow(),
            lambda: table.where(predicate).select("ts", "name").to_arrow(),
            lambda: table.where(predicate).count(),
            lambda: table.where(predicate).explain(),
            lambda: list(table.where(predicate).batches()),
            lambda: table.where(predicate).aggregate(n="count", top=("ts", "max")),
        ):
            assert calls_upward(read) == {}
        assert table.where(predicate).to_arrow() == expected


def test_a_read_without_predicate_calls_downward(path: Path) -> None:
    with cn.open(path) as file:
        table = file["t"]
        for read in (
            table.to_arrow,
            table.to_numpy,
            table[100:9000:3].to_arrow,
            lambda: table.take([5, 19_000, 7]).to_arrow(),
            lambda: table["name"][-3:],
            lambda: table.aggregate(by="label", mean=("energy", "mean")),
            lambda: table.aggregate(top=("id", "max")),
        ):
            assert calls_upward(read) == {}


def test_an_append_calls_downward(tmp_path: Path, path: Path) -> None:
    copy = tmp_path / "x.h5"
    copy.write_bytes(path.read_bytes())
    with cn.open(copy, "r+") as file:
        table = file["t"]
        assert calls_upward(lambda: table.append({name: values[:600] for name, values in DATA.items()})) == {}
        assert len(table) == N_ROWS + 600


def test_a_call_upward_is_seen() -> None:
    """The tests above can fail: a callback from a higher floor is found, whatever is between it and its caller."""
    from colonnade.table import file as higher

    file = CommittedFile(BufferBytes(b""), "f", Disk())
    namespace: dict[str, Any] = {}
    exec(compile("def callback(source): return 7", higher.__file__, "exec"), namespace)
    found = calls_upward(lambda: file.consistent(namespace["callback"]))
    assert list(found) == [("pager/readers.py CommittedFile.consistent.<locals>.<lambda>", "table/file.py callback")]
