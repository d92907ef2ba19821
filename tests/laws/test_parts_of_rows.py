"""Rows that lie apart are read in parts: by all their runs and shares, the same rows in the same order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import colonnade as cn
from colonnade import limits, threads
from colonnade.query import scan

N_ROWS = 3000
Made = tuple[cn.Table, pa.Table, Path]


@pytest.fixture(scope="module", autouse=True)
def small_parts() -> object:
    with limits.override(long_run=20, thread_rows=15):
        yield


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> object:
    path: Path = tmp_path_factory.mktemp("parts") / "x.h5"
    rng = np.random.default_rng(3)
    columns = {
        "packed": np.arange(N_ROWS),
        "plain": rng.normal(size=N_ROWS),
        "text": pa.array([None if row % 7 == 0 else f"text {row % 90}" for row in range(N_ROWS)]),
        "coded": pa.array(["a", "b", "c"] * (N_ROWS // 3)),
    }
    cn.write(path, columns, "t", columns={name: cn.column(chunk_rows=64) for name in columns})
    with cn.open(path) as file:
        yield file["t"], file["t"].to_arrow(), path


pieces = st.lists(st.tuples(st.integers(0, N_ROWS - 1), st.integers(1, 400), st.sampled_from([1, 1, 2, 9])), max_size=6)


@given(pieces, st.booleans())
def test_rows_in_any_parts(table: Made, pieces: list[tuple[int, int, int]], upward: bool) -> None:
    asked = [row for first, count, step in pieces for row in range(first, min(first + count * step, N_ROWS), step)]
    rows = np.array(sorted(set(asked)) if upward else asked, dtype=np.int64)
    part, whole, _path = table
    assert part.take(rows).to_arrow() == whole.take(pa.array(rows))


@given(st.sets(st.integers(0, 300)), st.integers(0, 300))
def test_a_run_about_a_place(of: set[int], place: int) -> None:
    rows = np.array(sorted(of), dtype=np.int64)
    place = place % max(len(rows), 1)
    low, high = scan._run_about(rows, place)
    assert (low, high) == (0, 0) if not len(rows) else low <= place < high
    if len(rows):
        assert rows[low:high].tolist() == list(range(int(rows[low]), int(rows[low]) + high - low))
        assert low == 0 or rows[low - 1] != rows[low] - 1
        assert high == len(rows) or rows[high] != rows[high - 1] + 1


@pytest.mark.parametrize(("worth", "is_used"), [(1, True), (1 << 40, False)])
def test_threads_where_they_are_worth_while(table: Made, worth: int, is_used: bool) -> None:
    _part, _whole, path = table
    asked: list[int] = []

    def pool(n_threads: int) -> object:
        asked.append(n_threads)
        return real(n_threads)

    real = threads._pool
    rows = np.arange(0, N_ROWS, 2)
    small = limits.override(threaded_bytes=worth, fewest_window_rows=64, most_window_rows=64)
    with small, pytest.MonkeyPatch.context() as patch, cn.open(path, n_threads=2) as file:
        patch.setattr(threads, "_pool", pool)
        file["t"].take(rows).to_arrow()
        assert bool(asked) == is_used
        asked.clear()
        assert len(file["t"].where("plain > 0").to_arrow()) > 1000
        assert bool(asked) == is_used
