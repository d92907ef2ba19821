"""Variable-length columns after h5py's `copy` and h5repack: H5Ocopy loses a fill that lies in the global heap."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.h5.vetting import has_lost_fill


def by_h5py(source: Path, target: Path) -> None:
    with h5py.File(source) as old, h5py.File(target, "w") as new:
        for name in old:
            old.copy(name, new)


def by_h5repack(source: Path, target: Path) -> None:
    if shutil.which("h5repack") is None:
        pytest.skip("h5repack is not installed")
    subprocess.run(["h5repack", str(source), str(target)], check=True)


COPIES: dict[str, Callable[[Path, Path], None]] = {"h5py": by_h5py, "h5repack": by_h5repack}
LISTS = pa.array([["a", "b"], None, []], pa.list_(pa.string()))
TABLES: dict[str, tuple[Any, dict[str, Any]]] = {
    "text": (["a", None, "long " * 50], {"strings": "variable"}),
    "text without missing rows": (["a", "b", "long " * 50], {"strings": "variable"}),
    "text that is empty": (["", None, "b"], {"strings": "variable"}),
    "text with a fill of its own": (["a", None, "b"], {"strings": "variable", "fill": "NA"}),
    "text with a fill and nothing missing": (["a", "c", "b"], {"strings": "variable", "fill": "NA"}),
    "text with a filter": (["a", None, "b"] * 500, {"strings": "variable", "fill": "NA", "filters": "shuffle+deflate"}),
    "bytes": ([b"1", None, b"22"], {}),
    "bytes with a fill of their own": ([b"1", None, b"22"], {"fill": b"zz"}),
    "bytes that are empty": ([b"", None, b"22"], {}),
    "lists": (LISTS, {}),
}


@pytest.fixture(params=TABLES)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, dict[str, list[Any]]]:
    values, options = TABLES[request.param]
    rows = {"x": list(range(len(values))), "v": values}
    cn.write(tmp_path / "a.h5", rows, table="t", columns={"v": cn.column(description="mine", **options)})
    return tmp_path / "a.h5", {"x": rows["x"], "v": pa.array(values).to_pylist()}


@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_reads_as_the_original(table: tuple[Path, dict[str, list[Any]]], copy: str) -> None:
    path, rows = table
    COPIES[copy](path, path.with_name("b.h5"))
    with cn.open(path.with_name("b.h5")) as file:
        found = file["t"]
        assert found.to_arrow().to_pydict() == rows
        assert found["v"].description == "mine"
        assert found.take([2, 0]).to_arrow()["v"].to_pylist() == [rows["v"][2], rows["v"][0]]
        assert found.where("v is missing").count() == rows["v"].count(None)


@pytest.mark.parametrize("copy", COPIES)
@pytest.mark.parametrize("change", ["append", "truncate", "update", "repack"])
def test_a_copy_can_be_changed(table: tuple[Path, dict[str, list[Any]]], copy: str, change: str) -> None:
    """Its rows go into a dataset of their own; repacking does so too."""
    path, rows = table
    made = path.with_name("b.h5")
    COPIES[copy](path, made)
    with cn.open(made, "r+") as file:
        if change == "append":
            file["t"].append({"x": [7, 8], "v": pa.array([rows["v"][2], None], file["t"]["v"].dtype)})
            rows = {"x": [*rows["x"], 7, 8], "v": [*rows["v"], rows["v"][2], None]}
        elif change == "truncate":
            file["t"].truncate(2)
            rows = {name: values[:2] for name, values in rows.items()}
        elif change == "update":
            file["t"].update("v", [0], pa.array([None], file["t"]["v"].dtype))
            rows["v"][0] = None
        else:
            file.repack()
    assert cn.read(made, "t").to_pydict() == rows
    with h5py.File(made) as file:
        assert not has_lost_fill(file["t/v"].id)


def test_nothing_that_can_be_lost_is_written_without_need(tmp_path: Path) -> None:
    """No fill where nothing is missing, and none in the heap where the empty string marks what is."""
    path = tmp_path / "a.h5"
    rows = {"s": ["a", "b"], "m": ["a", None], "b": [b"1", b"2"]}
    columns = {name: cn.column(strings="variable") for name in "sm"}
    cn.write(path, rows, table="t", columns=columns)
    with cn.open(path) as file:
        assert [file["t"][name].fill for name in "smb"] == [None, "", None]
    with h5py.File(path) as file:
        assert file["t/s"].id.get_create_plist().fill_value_defined() == h5py.h5d.FILL_VALUE_DEFAULT
    by_h5py(path, tmp_path / "b.h5")
    with h5py.File(tmp_path / "b.h5") as file:
        assert not any(has_lost_fill(file["t"][name].id) for name in "smb")


def test_missing_rows_that_come_later(tmp_path: Path) -> None:
    """The column takes a fill when it needs one."""
    path = tmp_path / "a.h5"
    cn.write(path, {"s": ["a", ""]}, table="t", columns={"s": cn.column(strings="variable")})
    with cn.open(path, "r+") as file:
        file["t"].append({"s": ["NA", None]})
        file["t"].append({"s": ["c"]})
        assert file["t"].to_arrow().to_pydict() == {"s": ["a", "", "NA", None, "c"]}
