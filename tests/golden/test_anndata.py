"""Files of AnnData, MuData, CELLxGENE and 10x, from version 0.5 on: what is read is what their own libraries read.

The manifest holds the checksums of every column as anndata, mudata or scanpy gave it.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner

import colonnade as cn
from colonnade.anndata import SparseMatrix
from colonnade.cli import main
from colonnade.errors import ColonnadeError
from tests.golden.test_foreign import checksum

FOLDER = Path(__file__).parent / "anndata"
MANIFEST = json.loads((FOLDER / "manifest.json").read_text())
EXPECTED: dict[str, dict[str, Any]] = {entry["file"]: entry["expected"] for entry in MANIFEST["files"]}
MUDATA = [file for file in EXPECTED if file.startswith("h5mu/")]
MODERN = [file for file in EXPECTED if file.startswith(("anndata/", "h5ad/")) and "v0.5.0" not in file]


def frames(file: str) -> dict[str, dict[str, Any]]:
    """The frames of a file that the manifest knows, by their paths."""
    expected = EXPECTED[file]
    found = {"/obs": expected["obs"], "/var": expected["var"]}
    if expected.get("raw"):
        found["/raw/var"] = expected["raw"]["var"]
    for path, frame in expected.get("axis_frames", {}).items():
        found[f"/{path}"] = frame
    for name, modality in expected.get("mods", {}).items():
        found |= {f"/mod/{name}/obs": modality["obs"], f"/mod/{name}/var": modality["var"]}
    return found


FRAMES = [(file, path, frame) for file in MODERN + MUDATA for path, frame in frames(file).items()]
# Of the frame that holds all modalities together, mudata makes columns while it reads: they are in no file.
MADE_BY_MUDATA = [(file, "/var") for file in MUDATA]


@pytest.mark.parametrize("entry", MANIFEST["files"], ids=lambda entry: entry["file"])
def test_the_files_are_as_their_projects_published_them(entry: dict[str, Any]) -> None:
    """Nobody changed a golden file, and the notice says where it is from."""
    data = (FOLDER / entry["file"]).read_bytes()
    assert (len(data), hashlib.sha256(data).hexdigest()) == (entry["bytes"], entry["sha256"])
    notice = (FOLDER / "NOTICE").read_text()
    assert all(entry[fact] in notice for fact in ("file", "source_path", "commit", "licence"))


@pytest.mark.parametrize(("file", "path", "frame"), FRAMES)
def test_a_frame_is_a_table_with_the_values_of_the_manifest(file: str, path: str, frame: dict[str, Any]) -> None:
    with cn.open(FOLDER / file) as opened:
        assert path in opened.tables()
        table = opened[path]
        assert table.layout == "anndata" and table.problems == ()
        assert len(table) == frame["shape"][0]
        if (file, path) not in MADE_BY_MUDATA:
            assert table.columns == frame["columns"]
            read = {name: checksum(table[name].to_arrow().to_pylist()) for name in table.columns}
            assert read == frame["column_checksums"]
        assert checksum(table[table.labels[0]].to_arrow().to_pylist()) == frame["index_checksum"]
        assert table.labels == [frame["index_name"] or "_index"]


@pytest.mark.parametrize(("file", "path", "frame"), FRAMES)
def test_categories_and_nullable_types_are_told_apart(file: str, path: str, frame: dict[str, Any]) -> None:
    """What pandas calls category is a dictionary here; missing rows are null, not NaN."""
    words = {"category": "dictionary", "object": "string", "Int64": "int64", "boolean": "bool", "float64": "double",
             "float32": "float"}  # fmt: skip
    with cn.open(FOLDER / file) as opened:
        table = opened[path]
        for name, said in frame["dtypes"].items():
            if name in table and (file, path) not in MADE_BY_MUDATA:
                assert str(table[name].dtype).startswith(words.get(said, said))


def held(value: Any) -> dict[str, Any] | None:
    """What the manifest says of a matrix, and of none."""
    if value is None:
        return None
    matrix = value.to_scipy() if isinstance(value, SparseMatrix) else value
    dense = np.ascontiguousarray(matrix.toarray() if sp.issparse(matrix) else matrix, dtype="<f8")
    return {
        "kind": type(matrix).__name__,
        "shape": list(matrix.shape),
        "dtype": str(matrix.dtype),
        "nnz": matrix.nnz if sp.issparse(matrix) else int(np.count_nonzero(dense)),
        "sum": pytest.approx(float(dense.sum())),
        "sha256_f8": hashlib.sha256(dense.tobytes()).hexdigest()[:32],
    }


@pytest.mark.parametrize("file", [*MODERN, "anndata/v0.5.0.h5ad"])
def test_the_members_of_a_file_are_those_of_the_manifest(file: str) -> None:
    """From pre-0.7 on: the matrix, the names of everything, and what raw is."""
    expected = EXPECTED[file]
    with h5py.File(FOLDER / file) as h5:
        members = cn.read_element(h5)
        assert held(members.get("X")) == expected["X"]
        for name in ("obsm", "varm", "obsp", "layers", "uns"):
            assert sorted(members.get(name, {})) == expected[name], name
        raw = members.get("raw")
        assert (raw is None) == (expected["raw"] is None)
        if raw is not None:
            assert list(raw["X"].shape) == expected["raw"]["shape"]


def test_frames_of_before_0_7_have_the_values_of_the_manifest() -> None:
    """They are compound datasets whose categories lie in uns."""
    expected = EXPECTED["anndata/v0.5.0.h5ad"]
    with h5py.File(FOLDER / "anndata/v0.5.0.h5ad") as h5:
        members, frames = cn.read_element(h5), cn.read_element(h5, pandas=True)
        pairs = [(members[name], frames[name], expected[name]) for name in ("obs", "var")]
        pairs.append((members["raw"]["var"], frames["raw"]["var"], expected["raw"]["var"]))
        for table, frame, said in pairs:
            assert table.column_names == [said["index_name"], *said["columns"]]
            assert {name: str(kind) for name, kind in frame.dtypes.items()} == said["dtypes"]
            read = {name: checksum(table[name].to_pylist()) for name in said["columns"]}
            assert read == said["column_checksums"]
            assert checksum(table[said["index_name"]].to_pylist()) == said["index_checksum"]
            assert frame.index.name == said["index_name"] and list(frame.index) == table.column(0).to_pylist()
        assert members["obsm"]["X_pca"].shape == (700, 50)
        assert members["uns"]["louvain_colors"].dtype == object


@pytest.mark.parametrize("file", MUDATA)
def test_the_modalities_of_mudata_are_anndata_elements(file: str) -> None:
    with h5py.File(FOLDER / file) as h5:
        members = cn.read_element(h5)
        assert members.kind == "MuData"
        for name, said in EXPECTED[file]["mods"].items():
            modality = members["mod"][name]
            assert modality.kind == "anndata" and held(modality["X"]) == said["X"]


def test_a_10x_matrix_is_a_sparse_matrix() -> None:
    expected = EXPECTED["tenx/filtered_feature_bc_matrix.h5"]
    with h5py.File(FOLDER / "tenx/filtered_feature_bc_matrix.h5") as h5:
        stored = cn.read_element(h5["matrix"])
        assert (type(stored).__name__, stored.format, stored.shape) == ("SparseMatrix", "csc", (507, 1107))
        matrix = sp.csr_matrix(stored.to_scipy().T.astype("f4"))
        assert (stored[:, 3:9] != stored.to_scipy()[:, 3:9]).nnz == 0
        parts = {"features": cn.read_element(h5["matrix/features"]), "barcodes": cn.read_element(h5["matrix/barcodes"])}
    assert held(matrix) == expected["X"]
    sums, features = expected["var"]["column_checksums"], parts["features"]
    assert checksum(features["id"].tolist()) == sums["gene_ids"]
    assert checksum(features["feature_type"].tolist()) == sums["feature_types"]
    assert checksum(features["genome"].tolist()) == sums["genome"]
    assert checksum(features["name"].tolist()) == expected["var"]["index_checksum"]
    assert checksum(parts["barcodes"].tolist()) == expected["obs_index_checksum"]


def read_all(value: Any) -> None:
    """Read what comes lazily."""
    if isinstance(value, SparseMatrix):
        value.to_scipy()
    elif isinstance(value, cn.Table):
        value.to_arrow()
    elif isinstance(value, Mapping):
        for name in value:
            with suppress(ColonnadeError):
                read_all(value[name])


@pytest.mark.parametrize("file", ["anndata/v0.11.4.h5ad", "anndata/v0.7.0.h5ad", "h5ad/cellxgene_example_valid.h5ad"])
def test_a_damaged_file_is_an_error_and_never_a_crash(file: str, tmp_path: Path) -> None:
    """A few bytes changed anywhere: what can be read is read, all else is one of our errors."""
    data, rng = (FOLDER / file).read_bytes(), random.Random(11)
    path = tmp_path / "damaged.h5ad"
    for _ in range(12):
        damaged = bytearray(data)
        for _ in range(rng.randrange(1, 12)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path.write_bytes(damaged)
        with suppress(ColonnadeError), cn.open(path) as opened:
            for table in opened.tables():
                with suppress(ColonnadeError):
                    opened[table].to_arrow()
            with suppress(ColonnadeError):
                read_all(cn.read_element(opened.h5))
            with suppress(ColonnadeError):
                read_all(cn.read_element(opened.h5, pandas=True))


def run(*arguments: str) -> Any:
    result = CliRunner().invoke(main, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_the_command_line_reads_an_h5ad() -> None:
    path = str(FOLDER / "h5ad/anndataR_example.h5ad")
    told = run("info", path, "obs")["tables"][0]
    assert told["layout"] == "anndata"
    assert [one["name"] for one in told["columns"] if one["masked"]] == ["IntNA", "Bool", "BoolNA"]
    assert len(run("head", path, "obs")["rows"]) == 5
    assert [row["_index"] for row in run("where", path, "obs", "IntNA is missing")["rows"]] == ["Cell000"]
    listed = {entry["path"]: entry for entry in run("ls", path)["objects"]}
    assert listed["/obs"]["layout"] == "anndata" and "/obsm/X_pca" in listed
    assert not [path for path in listed if path.startswith("/obs/")]  # the parts of a table are not beside it


def test_the_command_line_reads_files_of_before_0_7() -> None:
    path, expected = str(FOLDER / "anndata/v0.5.0.h5ad"), EXPECTED["anndata/v0.5.0.h5ad"]
    listed = {entry["path"]: entry for entry in run("ls", path)["objects"]}
    frames = [entry["path"] for entry in run("ls", path)["objects"] if entry["layout"] == "anndata before 0.7"]
    assert frames == ["/obs", "/raw.var", "/var"]
    assert {entry["layout"] for entry in listed.values()} == {None, "anndata before 0.7", "compound"}
    assert (listed["/obs"]["rows"], listed["/obs"]["columns"]) == tuple(expected["obs"]["shape"])
    assert listed["/obs"]["layout"] == "anndata before 0.7"
    told = run("info", path, "obs")["tables"][0]
    assert [one["name"] for one in told["columns"] if not one["label"]] == expected["obs"]["columns"]
    assert "read into memory" in told["title"]
    for name in ("obs", "var"):
        rows = run("head", path, name, "-n", "1000")["rows"]
        for column, wanted in expected[name]["column_checksums"].items():
            kind = expected[name]["dtypes"][column]
            if kind != "float32":  # JSON has no such numbers
                assert checksum([row[column] for row in rows]) == wanted
        assert checksum([row["index"] for row in rows]) == expected[name]["index_checksum"]
    rows = run("head", path, "obs", "-n", "1000")["rows"]
    dendritic = [row["index"] for row in rows if row["bulk_labels"] == "Dendritic" and row["n_genes"] > 1000]
    found = run("where", path, "obs", "bulk_labels == 'Dendritic' and n_genes > 1000", "-n", "1000")["rows"]
    assert [row["index"] for row in found] == dendritic != []
    assert run("count", path, "obs", "n_genes > 1000")["count"] == sum(row["n_genes"] > 1000 for row in rows)


def test_the_command_line_reads_a_10x_file() -> None:
    path, expected = str(FOLDER / "tenx/filtered_feature_bc_matrix.h5"), EXPECTED["tenx/filtered_feature_bc_matrix.h5"]
    assert run("ls", path)["tables"] == ["/matrix/barcodes", "/matrix/features"]
    rows = run("head", path, "matrix/features", "-n", "1000")["rows"]
    assert checksum([row["id"] for row in rows]) == expected["var"]["column_checksums"]["gene_ids"]
    assert checksum([row["name"] for row in rows]) == expected["var"]["index_checksum"]
    rows = run("where", path, "/matrix/features", "name like 'RP%'", "-n", "1000")["rows"]
    assert {row["name"][:2] for row in rows} == {"RP"}
    barcodes = run("head", path, "matrix/barcodes", "-n", "2000")["rows"]
    assert checksum([row["barcodes"] for row in barcodes]) == expected["obs_index_checksum"]


@pytest.mark.parametrize("file", list(EXPECTED))
def test_the_command_line_reads_every_file(file: str) -> None:
    path = str(FOLDER / file)
    tables = run("ls", path)["tables"]
    assert tables
    assert len(run("info", path)["tables"]) == len(tables)
    for table in tables:
        n_rows = run("count", path, table)["count"]
        assert len(run("head", path, table, "-n", "3")["rows"]) == min(3, n_rows)
    for table, frame in frames(file).items() if "tenx" not in file else ():
        if table in tables and (file, table) not in MADE_BY_MUDATA:
            assert run("count", path, table)["count"] == frame["shape"][0]
