"""The way in which chunks are deflated: by runs where nothing else repeats, by matches where that is shorter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import colonnade as cn
from colonnade.filters.apply import TRIED_EVERY, Packer
from tests.conftest import SetLimits

ROWS = 8192  # of a chunk


def noise(n: int) -> Any:
    """Numbers whose bytes follow no others."""
    return np.random.default_rng(1).normal(size=n).astype("f4").astype("f8")


def periodic(n: int) -> Any:
    """Numbers that repeat after some hundred rows: no runs, and all matches."""
    return np.tile(np.random.default_rng(2).normal(size=500), -(-n // 500))[:n]


def stored_bytes(path: Path, values: Any, filters: str) -> int:
    columns = {"x": cn.column(filters=filters, chunk_rows=ROWS)}
    cn.write(path, {"x": values}, columns=columns, mode="replace")
    with h5py.File(path) as file:  # what others read
        np.testing.assert_array_equal(file["table/x"][:], values)
        return int(file["table/x"].id.get_storage_size())


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each chunk that was packed, whether it was by runs."""
    seen: list[bool] = []
    before = Packer.pack

    def pack(self: Packer, data: Any, runs: bool = False) -> Any:
        seen.append(runs)
        return before(self, data, runs)

    monkeypatch.setattr(Packer, "pack", pack)
    return seen


def test_noise_is_deflated_by_runs(tmp_path: Path, ways: list[bool], set_limits: SetLimits) -> None:
    n = 40 * ROWS
    by_either = stored_bytes(tmp_path / "x.h5", noise(n), "shuffle+deflate")
    assert sum(ways) > 35  # the others are the first, and the 33rd, which are tried both ways
    assert len(ways) - sum(ways) == 2
    set_limits(quick_level=0)
    assert by_either <= 1.04 * stored_bytes(tmp_path / "y.h5", noise(n), "shuffle+deflate")


def test_what_repeats_is_deflated_by_matches(tmp_path: Path, ways: list[bool]) -> None:
    n = 40 * ROWS
    assert stored_bytes(tmp_path / "x.h5", periodic(n), "shuffle+deflate") < 8 * n * 0.36
    assert sum(ways) == 2


def test_data_may_change_on_the_way(tmp_path: Path) -> None:
    """What suits the first chunks is not kept for ever."""
    n = (2 * TRIED_EVERY + 8) * ROWS
    values = np.concatenate((noise(ROWS), periodic(n - ROWS)))
    kept = stored_bytes(tmp_path / "x.h5", values, "shuffle+deflate")
    always, never = 8 * n * 0.9, stored_bytes(tmp_path / "y.h5", periodic(n), "shuffle+deflate")
    assert 1.5 * never < kept < 0.7 * always


def test_higher_levels_search_for_matches(tmp_path: Path, ways: list[bool]) -> None:
    stored_bytes(tmp_path / "x.h5", noise(5 * ROWS), "shuffle+deflate:4")
    assert not any(ways)


def test_the_same_rows_are_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many threads pack them."""
    made = []
    for threads in ("1", "4", "4"):
        monkeypatch.setenv("COLONNADE_THREADS", threads)
        columns = {"x": cn.column(filters="shuffle+deflate", chunk_rows=65_536)}
        path = tmp_path / "x.h5"
        path.unlink(missing_ok=True)
        cn.write(path, {"x": np.concatenate((noise(300_000), periodic(200_000)))}, columns=columns)
        made.append(path.read_bytes())
    assert made[0] == made[1] == made[2]
