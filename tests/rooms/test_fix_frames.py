"""`cn.fix` on AnnData data frames that other programs changed: what can be made anew is, and no data is touched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest

import colonnade as cn
from tests.rooms.test_cli import call

KINDS = ["chunk_minmax", "sorted_rows", "bitmap", "chunk_bloom"]
N = 300


@pytest.fixture
def indexed(tmp_path: Path) -> Path:
    """A frame with every kind of index on every kind of column."""
    rows = np.arange(N)
    data = pa.table(
        {
            "x": rows % 50,
            "maybe": pa.array(rows % 20, mask=rows % 7 == 0),
            "kind": pa.array(np.array(["a", "b", "c"])[rows % 3]).dictionary_encode(),
        }
    )
    path = tmp_path / "a.h5ad"
    cn.write(path, data, table="obs", layout="anndata", index=dict.fromkeys(data.column_names, KINDS))
    return path


def test_indexes_of_what_others_changed_are_built_anew(indexed: Path) -> None:
    with h5py.File(indexed, "r+") as file:
        file["obs/x"][3] = 49
        file["obs/maybe/mask"][4] = True
        codes = file["obs/kind/codes"][()]
        attributes = dict(file["obs/kind/codes"].attrs)
        del file["obs/kind/codes"]  # as who writes a column anew
        file["obs/kind"].create_dataset("codes", data=codes[::-1]).attrs.update(attributes)
    before = indexed.read_bytes()
    planned = cn.fix(indexed, dry_run=True)
    assert planned.dry_run
    assert planned.left == []
    # Of one chunk, rows in another order have the same least, greatest and Bloom filter; 49 was in x before.
    assert {one.path.rsplit("/", 1)[-1] for one in planned.repairs} == {
        *("kind__bitmap", "kind__sorted_rows"),
        *("maybe__bitmap", "maybe__chunk_minmax", "maybe__sorted_rows"),
        *("x__bitmap", "x__sorted_rows"),
    }
    assert all(one.action.startswith("the index is rebuilt: ") for one in planned.repairs)
    assert indexed.read_bytes() == before
    assert [one.action for one in cn.fix(indexed).repairs] == [one.action for one in planned.repairs]
    assert cn.check(indexed, deep=True) == []
    with cn.open(indexed) as file:
        table = file["obs"]
        assert len(table.indexes) == 12
        assert all(one.fresh and one.trusted for one in table.indexes)
        assert 3 in table.where("x == 49").row_numbers()
        assert 4 in table.where(cn.col("maybe").is_missing()).row_numbers()
        assert table.where("kind == 'c'").row_numbers()[0] == 0
    after = indexed.read_bytes()
    assert cn.fix(indexed).repairs == []
    assert indexed.read_bytes() == after


def test_an_index_without_a_column_is_dropped(indexed: Path) -> None:
    with h5py.File(indexed, "r+") as file:
        del file["obs/x"]
        file["obs"].attrs["column-order"] = np.array(["maybe", "kind"], dtype=h5py.string_dtype())
    ran = call("fix", indexed, "--dry-run", width=200)
    assert ran.stdout.count("would repair  A15 /obs/_search_indexes/x__") == 4
    assert {one.action for one in cn.fix(indexed).repairs} == {"the index is dropped"}
    with h5py.File(indexed) as file:
        assert [name for name in file["obs/_search_indexes"] if name.startswith("x__")] == []
        assert len([name for name in file["obs/_search_indexes"] if not name.endswith("__values")]) == 8
    assert cn.check(indexed, deep=True) == []


def test_indexes_that_are_right_stay(indexed: Path) -> None:
    before = indexed.read_bytes()
    assert cn.fix(indexed).repairs == []
    assert indexed.read_bytes() == before


def test_an_index_of_an_old_frame_is_mended_too(tmp_path: Path) -> None:
    """Of version 0.1.0, which is not changed otherwise."""
    path = tmp_path / "a.h5ad"
    with h5py.File(path, "w") as file:
        made: Any = file.create_group("obs")
        made.attrs.update({"encoding-type": "dataframe", "encoding-version": "0.1.0", "_index": "_index"})
        made.attrs["column-order"] = np.array(["x"], dtype=h5py.string_dtype())
        made["_index"] = np.array(["a", "b"], dtype=h5py.string_dtype())
        made["x"] = np.array([1, 2])
    with cn.open(path, "r+") as opened:
        opened["obs"].build_index("x", "sorted_rows")
    with h5py.File(path, "r+") as file:
        file["obs/x"][:] = [2, 1]
    assert [one.action for one in cn.fix(path).repairs] == ["the index is rebuilt: sorted_rows of 'x'"]
    assert cn.check(path, deep=True) == []


@pytest.fixture
def faced(tmp_path: Path) -> Path:
    """A HEP001 table of every kind of column with the frame around it that anndata reads."""
    rows = np.arange(N)
    data = pa.table(
        {
            "n": pa.array(rows, mask=rows % 7 == 0),
            "flag": pa.array(rows % 2 == 0, mask=rows % 5 == 0),
            "text": pa.array([f"t{row}" for row in rows], mask=rows % 11 == 0),
            "kind": pa.array(np.array(["a", "b", "c"])[rows % 3]).dictionary_encode(),
            "y": rows / 3,
        }
    )
    path = tmp_path / "a.h5ad"
    cn.write(path, data, table="obs", anndata=True)
    assert cn.check(path, deep=True) == []
    return path


def _write_a_fill(file: Any) -> None:
    inner = file["obs/_hep001/n"]
    inner[3] = inner.fillvalue


def _write_a_flag(file: Any) -> None:
    file["obs/flag/values"][2] = False


def _write_a_mask(file: Any) -> None:
    file["obs/text/mask"][1] = True


def _shorten_a_mask(file: Any) -> None:
    kept = dict(file["obs/n/mask"].attrs)
    del file["obs/n/mask"]
    file["obs/n"].create_dataset("mask", data=np.zeros(N - 1, bool)).attrs.update(kept)


def _change_labels(file: Any) -> None:
    file["obs/kind/categories"][0] = "z"


CHANGES = [_write_a_fill, _write_a_flag, _write_a_mask, _shorten_a_mask, _change_labels]


@pytest.mark.parametrize("change", CHANGES)
def test_a_frame_around_a_table_is_made_to_show_it_again(change: Any, faced: Path) -> None:
    with h5py.File(faced, "r+") as file:
        change(file)
    table = cn.read(faced, "obs/_hep001")
    assert {one.rule for one in cn.check(faced, deep=True)} >= {"A16"}
    before = faced.read_bytes()
    planned = cn.fix(faced, dry_run=True)
    assert planned.left == []
    assert [one.fixes[0][0] for one in planned.repairs] == ["A16"]
    assert faced.read_bytes() == before
    assert len(cn.fix(faced).repairs) == 1
    assert cn.check(faced, deep=True) == []
    assert cn.read(faced, "obs/_hep001").equals(table)  # no data was touched
    shown = cn.read(faced, "obs")
    for name in ("n", "flag", "text", "kind", "y"):
        assert shown[name].to_pylist() == table[name].to_pylist()
    after = faced.read_bytes()
    assert cn.fix(faced).repairs == []
    assert faced.read_bytes() == after


def test_data_of_the_frame_alone_is_not_taken_away(faced: Path) -> None:
    with h5py.File(faced, "r+") as file:
        del file["obs/y"]
        file["obs"].create_dataset("y", data=np.zeros(N)).attrs.update(
            {"encoding-type": "array", "encoding-version": "0.2.0"}
        )
    mended = cn.fix(faced)
    assert mended.repairs == []
    assert [(one.rule, one.path) for one in mended.left] == [("A16", "/obs/y")]
    assert "Write the table again from the frame" in mended.left[0].advice
    assert cn.read(faced, "obs")["y"].to_pylist() == [0.0] * N
