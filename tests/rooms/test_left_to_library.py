"""What our own reader does not know is read by libhdf5, visibly; or refused, if libhdf5 is not to be used."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest
from h5py import h5d, h5p, h5s, h5t, h5z

import colonnade as cn
from colonnade.cli import main
from colonnade.errors import UnsupportedError
from colonnade.nodes.paths import dataset_at

FEATURES = {
    "/t/out": "external storage",
    "/t/view": "virtual storage",
    "/t/packed": "the filters bzip2",
    "/t/short": "the filters n-bit",
}


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        group = file.create_group("t")
        group.attrs["CLASS"], group.attrs["VERSION"] = np.bytes_(b"COLUMN_TABLE"), np.bytes_(b"1.0")
        group["x"] = np.arange(4)
        group.create_dataset("packed", data=np.arange(4), chunks=(2,), **hdf5plugin.BZip2())
        creation = h5p.create(h5p.DATASET_CREATE)
        creation.set_chunk((2,))
        creation.set_filter(h5z.FILTER_NBIT, h5z.FLAG_OPTIONAL, ())
        short = h5t.STD_I16LE.copy()
        short.set_precision(12)
        h5py.Dataset(h5d.create(group.id, b"short", short, h5s.create_simple((4,)), dcpl=creation))[()] = np.arange(4)
        group.create_dataset("out", data=np.arange(4), external=[("raw", 0, 32)])
        layout = h5py.VirtualLayout((4,), "<i8")
        layout[:] = h5py.VirtualSource(".", "t/x", (4,))
        group.create_virtual_dataset("view", layout)
    cn.write(tmp_path / "a.h5", {"x": [1]}, "other")
    return tmp_path / "a.h5"


def test_info_and_explain_show_what_libhdf5_reads(path: Path) -> None:
    with cn.open(path) as file:
        table = file["t"]
        assert {left.path: left.why for left in table.info.left_to_library} == FEATURES
        plan = table.where("out > 1").explain()
        assert {left.path: left.why for left in plan.left_to_library} == FEATURES
        assert "by libhdf5  /t/view" in str(plan) and "virtual storage" in str(plan)
        assert "by libhdf5" in plan._repr_html_()
        assert table.where("out > 1").to_arrow()["view"].to_pylist() == [2, 3]
        assert file["other"].info.left_to_library == ()
        assert "libhdf5" not in str(file["other"].where("x > 0").explain())
    with cn.open(path, "r+") as file:
        assert file["t"].info.left_to_library == ()


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with suppress(SystemExit):
        main(list(arguments))
    return capsys.readouterr().out


def test_the_command_line_shows_it(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = [{"path": name, "why": why} for name, why in FEATURES.items()]
    facts: Any = json.loads(answer(capsys, "info", str(path), "--json"))
    by_path = {table["path"]: table["left_to_library"] for table in facts["tables"]}
    assert sorted(by_path["/t"], key=str) == sorted(expected, key=str) and by_path["/other"] == []
    text = answer(capsys, "info", str(path))
    assert text.count("by libhdf5") == len(FEATURES) and "/t/out: external storage" in text
    plan = json.loads(answer(capsys, "where", str(path), "t", "x > 1", "--explain", "--json"))["plan"]
    assert sorted(plan["left_to_library"], key=str) == sorted(expected, key=str)
    assert "by libhdf5" in answer(capsys, "where", str(path), "t", "x > 1", "--explain")


def test_without_libhdf5_the_error_names_the_feature_and_the_way_out(path: Path) -> None:
    with cn.open(path, library="never") as file:
        table = file["t"]
        assert table["x"].to_numpy().tolist() == [0, 1, 2, 3]
        assert table.info.left_to_library == ()
        for name, feature in FEATURES.items():
            column = name.rpartition("/")[2]
            with pytest.raises(cn.errors.ColonnadeError, match=feature) as caught:
                table[column].to_numpy()
            assert "library='auto'" in str(caught.value) and name in str(caught.value)
        with pytest.raises(UnsupportedError) as refused:
            dataset_at(file._handle.root, "t/out").check_readable(4)
        assert refused.value.feature == "external storage" and refused.value.path == "/t/out"
        with pytest.raises(UnsupportedError, match="library='never'"):
            file.h5.close()


def test_a_file_of_a_form_that_only_libhdf5_knows(tmp_path: Path) -> None:
    """A driver of several files is seen when the file is opened."""
    path = tmp_path / "driver.h5"
    cn.write(path, {"x": [1, 2]}, "t")
    data = bytearray(path.read_bytes())
    assert data[8] == 0
    data[48:56] = bytes(8)  # the address of the driver information block
    path.write_bytes(bytes(data))
    with pytest.raises(UnsupportedError, match=r"a file driver of several files.*library='auto'"):
        cn.open(path, library="never")


@pytest.mark.parametrize("library", ["auto", "never"])
def test_a_file_that_is_not_there(tmp_path: Path, library: Any) -> None:
    with pytest.raises(FileNotFoundError):
        cn.open(tmp_path / "absent.h5", library=library)
    (tmp_path / "empty.h5").touch()
    with pytest.raises(cn.errors.FormatError, match="empty"):
        cn.open(tmp_path / "empty.h5", library=library)
