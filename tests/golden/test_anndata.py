"""Files of AnnData, MuData, CELLxGENE and 10x, from version 0.5 on: what is read is what their own libraries read.

The manifest holds the checksums of every column as anndata, mudata or scanpy gave it.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import colonnade as cn
from colonnade.cli import main
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


def run(*arguments: str) -> Any:
    result = CliRunner().invoke(main, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_the_command_line_reads_an_h5ad() -> None:
    path = str(FOLDER / "h5ad/anndataR_example.h5ad")
    assert run("info", path, "obs")["tables"][0]["layout"] == "anndata"
    assert len(run("head", path, "obs")["rows"]) == 5
    assert [row["_index"] for row in run("where", path, "obs", "IntNA is missing")["rows"]] == ["Cell000"]
    listed = {entry["path"]: entry for entry in run("ls", path)["objects"]}
    assert listed["/obs"]["layout"] == "anndata" and "/obsm/X_pca" in listed
    assert not [path for path in listed if path.startswith("/obs/")]  # the parts of a table are not beside it
