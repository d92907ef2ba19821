"""`tables()`, `ls`, `in` and `file[...]` agree on what a file holds; sparse arrays are listed, not called broken."""

from __future__ import annotations

import warnings
from pathlib import Path

import h5py
import numpy as np
import pytest

import colonnade as cn
from colonnade.cli.ls import ls_facts
from colonnade.errors import ColonnadeError, TableNotFound, UsageError

GOLDEN = Path(__file__).parents[1] / "golden"
SAMPLES = sorted(path for path in GOLDEN.rglob("*") if path.suffix in (".h5", ".h5ad", ".h5mu", ".hdf5"))
TENX = GOLDEN / "anndata" / "tenx" / "filtered_feature_bc_matrix.h5"
OLD = GOLDEN / "anndata" / "anndata" / "v0.5.0.h5ad"
RECORDS = ["/obsm", "/varm", "/uns/rank_genes_groups/names", "/uns/rank_genes_groups/scores"]  # of compound types


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_what_is_listed_can_be_opened_and_nothing_else(sample: Path) -> None:
    try:
        file = cn.open(sample)
    except ColonnadeError:
        pytest.skip("not a file that can be opened")
    with file:
        facts = ls_facts(file)
        assert sorted(facts["tables"]) == sorted(file.tables()) == sorted(file)
        for path in file.tables():
            assert path in file and path.lstrip("/") in file
        for entry in facts["objects"]:
            if entry["kind"] == "table" and not entry["problem"]:
                assert file[entry["path"]].n_rows == entry["rows"]
                assert len(file[entry["path"]].columns) == entry["columns"]
            elif entry["kind"] != "table":
                assert entry["path"] not in file
                with pytest.raises((TableNotFound, UsageError, ColonnadeError)):
                    file[entry["path"]]
        listed = {entry["path"] for entry in facts["objects"] if entry["kind"] == "sparse array"}
        assert listed <= set(file.sparse_arrays())


def test_there_are_samples() -> None:
    assert {TENX, OLD} <= set(SAMPLES) and len(SAMPLES) > 10


def test_frames_before_0_7_and_tables_of_10x_are_tables() -> None:
    with cn.open(OLD) as file:
        assert file.tables() == [*RECORDS, "/obs", "/var", "/raw.var"]
        obs = file["obs"]
        assert (obs.n_rows, obs.labels) == (700, ["index"])
        assert obs.where("n_genes > 1000").count() == int((obs["n_genes"].to_numpy() > 1000).sum())
        for change in (lambda: obs.truncate(1), lambda: obs.add_column("x", np.zeros(700))):
            with pytest.raises(UsageError, match="read into memory"):
                change()
    with cn.open(TENX) as file:
        assert file.tables() == ["/matrix/features", "/matrix/barcodes"]
        assert file["matrix/features"].where("feature_type == 'Gene Expression'").count() > 0
        assert file["/matrix/barcodes"].n_rows == 1107


def test_they_are_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "old.h5ad"
    path.write_bytes(OLD.read_bytes())
    for mode in ("append", "replace", "error"):
        with pytest.raises(ColonnadeError):
            cn.write(path, {"n_genes": [1]}, "obs", mode=mode)
    with h5py.File(path) as h5:
        assert h5["obs"].shape == (700,)
    cn.write(path, {"n": [1]}, "mine")
    with cn.open(path) as file:
        assert file.tables() == [*RECORDS[:2], "/mine", *RECORDS[2:], "/obs", "/var", "/raw.var"]


def test_sparse_arrays_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    cn.create_sparse(path, "cube/one", shape=(4, 5, 6), dtype="f4")
    with cn.open_sparse(path, "cube/one") as array:
        array.write([[1, 2, 3]], [0.5])
    cn.write(path, {"n": [1]}, "t")
    with cn.open(path, "r+") as file:
        assert file.sparse_arrays() == ["/cube/one"]
        cn.create_sparse(file, "two", shape=(9,), dtype="i8")
        assert sorted(file.sparse_arrays()) == ["/cube/one", "/two"]
    with cn.open(path) as file:
        found = {entry["path"]: entry for entry in ls_facts(file)["objects"]}
    assert (found["/cube/one"]["kind"], found["/cube/one"]["shape"]) == ("sparse array", [4, 5, 6])
    assert found["/cube/one"]["bytes"] > 0 and found["/two"]["problem"] is None
    with h5py.File(path) as h5, cn.open(h5["cube"]) as file:
        assert file.sparse_arrays() == ["/cube/one"]


def test_a_sparse_array_next_to_other_things_is_warned_of_once(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cn.create_sparse(tmp_path / "own.h5", "m", shape=(3,), dtype="i4")
        cn.create_sparse(tmp_path / "own.h5", "n", shape=(3,), dtype="i4")
        cn.write(tmp_path / "both.h5", {"n": [1]}, "t")
        with pytest.warns(UserWarning, match="h5dump, h5repack, visititems, netCDF4, H5Web and rhdf5"):
            cn.create_sparse(tmp_path / "both.h5", "m", shape=(3,), dtype="i4")
        cn.create_sparse(tmp_path / "both.h5", "n", shape=(3,), dtype="i4")
        cn.write(tmp_path / "file.h5", {"n": [1]}, "t")
        with cn.open(tmp_path / "file.h5", "r+") as file, pytest.warns(UserWarning, match="file of their own"):
            cn.write_sparse(file, "m", (np.array([[1]]), np.array([2]), (3,)))
