"""`check` looks at sparse arrays too, which HDF5 cannot open: findings of their own rules, and no false alarm."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

import colonnade as cn
from colonnade.sparse import verify_sparse

from .test_cli import call, call_json


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "run.h5"
    cn.write(made, {"ts": [1, 2, 3]}, table="events")
    coords = np.argwhere(np.random.default_rng(1).random((40, 50)) < 0.1)
    cn.write_sparse(made, "deep/m", (coords, np.arange(len(coords)), (40, 50)), chunks=(20, 10), filters="deflate")
    return made


def spoil(path: Path, section: int) -> None:
    with cn.open_sparse(path, "deep/m") as array:
        record = array.records()[2]
    data = bytearray(path.read_bytes())
    data[record.address + record.bounds[section] + 5] ^= 0xFF
    path.write_bytes(data)


def test_a_sound_array_is_no_finding(path: Path) -> None:
    for deep in (False, True):
        found = cn.check(path, deep=deep)
        assert found == [] and found.checked.sparse_arrays == 1 and found.checked.tables == 1
    with cn.open(path, "r+") as file:
        assert cn.check(file, deep=True) == [] and cn.fix(file).left == []
        with file.transaction():
            cn.create_sparse(file, "more", shape=(3,), dtype="i1")
            assert cn.check(file).checked.sparse_arrays == 2
    assert cn.fix(path, dry_run=True).left == []


def test_a_file_of_sparse_arrays_alone(tmp_path: Path) -> None:
    cn.create_sparse(tmp_path / "s.h5", "m", shape=(3,), dtype="i1")
    assert call("check", tmp_path / "s.h5").exit_code == 0
    assert "1 sparse array" in call("check", tmp_path / "s.h5", width=200).stdout


@pytest.mark.parametrize("section", [0, 1])
def test_a_broken_chunk_is_found_by_reading_it(path: Path, section: int) -> None:
    spoil(path, section)
    assert cn.check(path) == []  # not deep: chunks are not read
    (one,) = cn.check(path, deep=True)
    assert (one.rule, one.severity, one.path) == ("sparse.chunk", "error", "/deep/m") and one.advice
    assert verify_sparse(path) == [one]
    assert call("check", path, "--deep").exit_code == 1
    assert call_json("check", path, "--deep")["findings"][0]["rule"] == "sparse.chunk"
    said = call("check", path, "--deep", "--sarif")
    assert said.exit_code == 1 and '"sparse.chunk"' in said.stdout


def test_a_broken_map_is_found_without_reading(path: Path) -> None:
    with cn.open_sparse(path, "deep/m") as array:
        at = array.info.layout.address
    assert at is not None
    data = bytearray(path.read_bytes())
    data[at + 9] ^= 0xFF
    path.write_bytes(data)
    assert {one.rule for one in cn.check(path)} == {"sparse.map"}


def test_a_link_that_leads_nowhere_is_still_that(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        file["other"] = np.arange(4)
        where = h5py.h5o.get_info(file["other"].id).addr
    data = bytearray(path.read_bytes())
    data[where : where + 16] = b"\xff" * 16
    path.write_bytes(data)
    assert [(one.rule, one.path) for one in cn.check(path)] == [("H1", "/other")]
