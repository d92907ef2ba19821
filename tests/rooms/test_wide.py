"""Tables of many columns: cost must not grow with columns that are not touched."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import h5py
import numpy as np
import pytest
from h5py import h5a, h5f

import colonnade as cn

ROWS = 600  # enough for filters to be tried


def columns(n_columns: int) -> dict[str, Any]:
    rng = np.random.default_rng(n_columns)
    made: dict[str, Any] = {}
    for number in range(n_columns):
        name = f"c{number:05d}"
        if number % 4 == 0:
            made[name] = rng.integers(0, 1000, ROWS)
        elif number % 4 == 1:
            made[name] = rng.normal(size=ROWS)
        elif number % 4 == 2:
            made[name] = rng.choice(["muon", "pion", "kaon"], ROWS)
        else:
            made[name] = [f"row {number} {row}" for row in range(ROWS)]
    return made


def n_calls(work: Any) -> int:
    """How many functions are called, in Python or C, while `work` runs in this thread."""
    count = 0

    def note(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_a_write_opens_one_file_whatever_its_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing a file looks at every open id of the process: a scratch file per column made writing quadratic."""
    made: list[Any] = []
    create = h5f.create
    monkeypatch.setattr(h5f, "create", lambda *args, **named: (made.append(args[0]), create(*args, **named))[1])
    cn.write(tmp_path / "wide.h5", columns(40), table="t")
    assert len(made) <= 1


def test_writing_costs_in_proportion_to_columns(tmp_path: Path) -> None:
    cn.write(tmp_path / "first.h5", columns(4), table="t")  # imports what is needed
    counts = []
    for n_columns in (40, 160):
        data = columns(n_columns)
        counts.append(n_calls(lambda data=data, n=n_columns: cn.write(tmp_path / f"{n}.h5", data, table="t")))
    assert counts[1] < 4.5 * counts[0]


@pytest.mark.parametrize("filters", [None, "shuffle+deflate"])
def test_two_threads_write_two_files(tmp_path: Path, filters: str | None) -> None:
    """Filters are tried, and references turned to bytes, in a file of each thread's own."""
    together = Barrier(2)
    data = columns(8)

    def write(name: str) -> int:
        together.wait()
        for turn in range(10):
            path = tmp_path / f"{name}{turn}.h5"
            cn.write(path, data, table="t", columns={column: cn.column(filters=filters) for column in data})
        return cn.read(path, "t").num_rows

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(write, ("a", "b"))) == [ROWS, ROWS]


def test_frames_that_are_kept_do_not_stop_the_next_write(tmp_path: Path) -> None:
    """A profiler that samples frames keeps what their locals hold open, an HDF5 dataset too."""
    kept: list[Any] = []

    def sample(frame: Any, _event: str, _argument: Any) -> None:
        if "colonnade" in frame.f_code.co_filename:
            kept.append(dict(frame.f_locals))

    with h5py.File(tmp_path / "arrays.h5", "w") as file:
        references = [file.create_dataset(f"a{number}", data=[number]).ref for number in range(3)]
        sys.setprofile(sample)
        try:
            for turn in range(2):
                cn.write(file, {"x": np.arange(ROWS)}, table=f"t{turn}")
                cn.write(file, {"r": references}, table=f"r{turn}")
        finally:
            sys.setprofile(None)
    assert kept
    assert cn.read(tmp_path / "arrays.h5", "t1").num_rows == ROWS


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_attributes_are_listed_in_one_pass(tmp_path: Path, libver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """HDF5 finds an attribute by its number from the first one on: listing them so was quadratic."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w", libver=libver) as file:
        cn.write(file, {"x": [1, 2]}, table="t")
        for number in range(300):
            file["t"].attrs[f"note {number}"] = number
    opened: list[Any] = []
    open_one = h5a.open

    def spy(*args: Any, **named: Any) -> Any:
        opened.append("index" in named)
        return open_one(*args, **named)

    monkeypatch.setattr(h5a, "open", spy)
    with cn.open_table(path) as table:
        attrs = dict(table.attrs)
    assert {attrs[f"note {number}"] for number in range(300)} == set(range(300))
    assert opened and not any(opened)
