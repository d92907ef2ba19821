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
    assert len(planned.repairs) >= 9
    assert all(one.action.startswith("the index is built anew: ") for one in planned.repairs)
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
    assert ran.stdout.count("would mend  A15 /obs/_search_indexes/x__") == 4
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
    assert [one.action for one in cn.fix(path).repairs] == ["the index is built anew: sorted_rows of 'x'"]
    assert cn.check(path, deep=True) == []
