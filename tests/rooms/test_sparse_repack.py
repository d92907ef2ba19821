"""`repack` of a file with sparse arrays: HDF5 cannot copy them, so nothing is touched; the error names the array."""

from __future__ import annotations

from pathlib import Path

import pytest

import colonnade as cn
from colonnade.errors import UnsupportedError
from colonnade.sparse import verify_sparse

from .test_cli import call


def test_repack_refuses_before_it_touches_anything(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    cn.write(path, {"ts": [1, 2, 3]}, table="events")
    cn.write_sparse(path, "deep/m", ([[1, 2]], [7], (20, 30)))
    with cn.open(path, "r+"):
        pass  # opening a file for changes may alter a few bytes
    before = path.read_bytes()
    with cn.open(path, "r+") as file, pytest.raises(UnsupportedError, match=r"/deep/m .*sectioned chunks"):
        file.repack()
    said = call("repack", path)
    assert said.exit_code == 3 and "/deep/m" in said.output
    assert path.read_bytes() == before and verify_sparse(path) == []
    assert sorted(one.name for one in tmp_path.iterdir() if one.suffix in (".h5", ".part")) == ["run.h5"]
    assert cn.read(path, "events").num_rows == 3
