"""`_index` and `column-order` as others write them: a plain column that names the rows, categories in the order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import pyarrow as pa
import pytest

import colonnade as cn


def test_a_plain_column_that_index_names_is_the_row_label_in_pandas(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    cn.write(path, {"name": ["a", "b", "c"], "x": [1, 2, 3]}, "t")
    with h5py.File(path, "r+") as h5:
        h5["t"].attrs.create("_index", "name", dtype=h5py.string_dtype("utf-8", 4))  # HEP001 5.3
    with cn.open(path) as file:
        table = file["t"]
        for frame, names in ((table.to_pandas(), "abc"), (table.where("x > 1").to_pandas(), "bc")):
            assert (frame.index.name, list(frame.index), list(frame)) == ("name", list(names), ["x"])
        assert list(table[["x"]].to_pandas().index) == [0, 1, 2]
        assert table.columns == ["name", "x"] and table.labels == []
    assert cn.check(path, deep=True) == []


@pytest.mark.parametrize("values", [[7, 8, 9], ["p", "q", "p"], pa.array(["p", "q", "p"]).dictionary_encode()])
def test_replacing_a_categorical_leaves_no_name_behind_in_the_order(values: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    cn.write(path, pa.table({"c": pa.array(["a", "b", "a"]).dictionary_encode(), "x": [1, 2, 3]}), "t")
    with h5py.File(path, "r+") as h5:
        names = [b"c", b"c_categories", b"x"]
        h5["t"].attrs.create("column-order", names, dtype=h5py.string_dtype("utf-8", 12))  # HEP001 6.6 lets it
    with cn.open(path, "r+") as file:
        file["t"].replace_column("c", values)
        assert file["t"].columns == ["c", "x"]
    assert cn.check(path, deep=True) == []
    assert cn.read(path, "t")["c"].to_pylist() == (values if isinstance(values, list) else values.to_pylist())
