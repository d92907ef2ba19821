"""A layout is what satisfies the protocols of `layouts.contract`: one of 40 lines works through the public API."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

import colonnade as cn
from colonnade.errors import UnsupportedError, UsageError
from colonnade.layouts import LAYOUTS
from tests.rooms.toy_layout import TOY

N_ROWS = 200_000


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(LAYOUTS, "toy", TOY)
    path = tmp_path / "toy.h5"
    with h5py.File(path, "w") as h5:
        group = h5.create_group("runs/events")
        group.attrs["toy"] = "A table of a layout that only this test knows"
        group.create_dataset("energy", data=np.arange(N_ROWS) / 2, chunks=(1000,))
        group.create_dataset("id", data=np.arange(N_ROWS)[::-1], chunks=(1000,))
    return path


def test_its_tables_are_found_read_and_searched(file: Path) -> None:
    with cn.open(file) as opened:
        assert opened.tables() == ["/runs/events"]
        table = opened["runs/events"]
        assert (table.layout, len(table), table.columns) == ("toy", N_ROWS, ["energy", "id"])
        assert table.title == "A table of a layout that only this test knows"
        assert table.where("id == 3").to_arrow().to_pylist() == [{"energy": (N_ROWS - 4) / 2, "id": 3}]
        assert table["energy"][2:4].tolist() == [1.0, 1.5]
        assert table.to_arrow().num_rows == N_ROWS


def test_its_tables_can_be_indexed(file: Path) -> None:
    with cn.open(file, "r+") as opened:
        opened["runs/events"].build_index("id", "sorted_rows")
        opened["runs/events"].build_index("id", "chunk_minmax")
    with cn.open(file) as opened:
        table = opened["runs/events"]
        assert [(one.column, one.kind, one.fresh) for one in table.indexes] == [
            ("id", "chunk_minmax", True),
            ("id", "sorted_rows", True),
        ]
        query = table.where("id == 3")
        assert query.explain().chunks_read < query.explain().chunks_total
        assert query.row_numbers().tolist() == [N_ROWS - 4]
        assert table.verify_indexes() == []


def test_without_edit_it_is_read_only(file: Path) -> None:
    before = file.read_bytes()
    with cn.open(file, "r+") as opened:
        with pytest.raises(UnsupportedError, match="cannot change tables of layout 'toy': it is read-only"):
            opened["runs/events"].append({"energy": [1.0], "id": [1]})
        with pytest.raises(UnsupportedError, match="read-only"):
            opened["runs/events"].drop_column("id")
        with pytest.raises(UnsupportedError, match="read-only"):
            opened.drop("runs/events")
    with pytest.raises(UnsupportedError, match="cannot write tables of layout 'toy': it is read-only"):
        cn.write(file, {"x": [1]}, table="new", layout="toy")
    assert len(file.read_bytes()) == len(before)


def test_without_rules_it_is_counted_and_not_checked(file: Path) -> None:
    found = cn.check(file, deep=True)
    assert list(found) == []
    assert (found.checked.tables, found.checked.tables_without_rules) == (0, 1)


def test_a_layout_without_sidecars_has_no_directories(file: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="directory"):
        cn.write(tmp_path / "folder", {"x": [1]}, layout="toy", directory=True)
    assert not (tmp_path / "folder").exists()


def test_its_tables_can_be_converted(file: Path, tmp_path: Path) -> None:
    with h5py.File(file, "r+") as h5:
        h5["runs/events"].attrs["run"] = 7
        h5["runs/events/energy"].attrs["units"] = "MeV"
    done = cn.convert(file, tmp_path / "new.h5", layout="hep001")
    assert done.tables == ["/runs/events"]
    with cn.open(tmp_path / "new.h5") as opened:
        table = opened["runs/events"]
        assert (table.layout, table.attrs["run"], table["energy"].units) == ("hep001", 7, "MeV")
        assert table.to_arrow().equals(cn.read(file, "runs/events"))
        h5 = opened.h5
        assert list(h5["runs/events"]) == ["energy", "id"]
    with pytest.raises(UnsupportedError, match="cannot write tables of layout 'toy'"):
        cn.convert(tmp_path / "new.h5", tmp_path / "back.h5", layout="toy")
