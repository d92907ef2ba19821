"""Columns that are empty or all missing: of the type that was declared; where none was, later rows define it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.errors import DataError

STRINGS: dict[str, Any] = {
    "U": np.array([], "U5"),
    "StringDType": np.array([], np.dtypes.StringDType()),
    "StringDType, missing": np.array([None, None], np.dtypes.StringDType(na_object=None)),
    "S": np.array([], "S3"),
    "objects": np.array([], object),
    "objects, None": np.array([None, None], object),
    "objects, NaN": np.array([np.nan, None], object),
    "masked U": np.ma.MaskedArray(np.array(["a", "b"]), [True, True]),
    "masked objects": np.ma.MaskedArray(np.array(["a", "b"], object), [True, True]),
    "Series of objects": pd.Series([None, None], dtype=object),
    "Series of objects, empty": pd.Series([], dtype=object),
    "Series of string": pd.Series([None, None], dtype="string"),
    "Series of string, empty": pd.Series([], dtype="string"),
    "Index": pd.Index([], dtype=object),
}
UNKNOWN: dict[str, Any] = {
    "list": [],
    "list of None": [None, None],
    "Arrow null": pa.nulls(3),
    "Arrow null, empty": pa.nulls(0),
    "dictionary of null": pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int8()), pa.nulls(0)),
}


@pytest.mark.parametrize("name", STRINGS)
@pytest.mark.parametrize("way", ["write", "frame", "add_column", "replace_column", "iterator"])
def test_what_was_declared_as_strings_takes_strings(tmp_path: Path, name: str, way: str) -> None:
    values, path = STRINGS[name], tmp_path / "a.h5"
    if way == "write":
        cn.write(path, {"x": values}, "t")
    elif way == "iterator":
        cn.write(path, iter([{"x": values}, {"x": ["a"]}]), "t")
    elif way == "frame":
        cn.write(path, pd.DataFrame({"x": values if isinstance(values, pd.Series) else pd.Series(values)}), "t")
    else:
        cn.write(path, {"y": np.zeros(len(values)), "x": np.zeros(len(values))}, "t")
        with cn.open(path, "r+") as file:
            file["t"].drop_column("x" if way == "add_column" else "y")
            (file["t"].add_column if way == "add_column" else file["t"].replace_column)("x", values)
            if way == "add_column":
                file["t"].drop_column("y")
    with cn.open(path, "r+") as file:
        table = file["t"]
        assert table["x"].dtype == pa.string()
        table.append({"x": ["héllo", None]})
        assert table["x"].to_arrow().to_pylist()[-2:] == ["héllo", None]
        assert file["t"].to_arrow()["x"].null_count == len(table) - 1 - (way == "iterator")


@pytest.mark.parametrize("name", UNKNOWN)
@pytest.mark.parametrize(
    "rows",
    [["a", None], [1, None], [2.5], [True, None], [b"\xff"], [{"a": 1}], [[1, 2]], pd.Categorical(["u", "v"]),
     np.array([5], "M8[s]"), pd.array([1, None], dtype="Int8"), pd.period_range("2020", periods=2, freq="M"), [1j]],
    ids=str,
)  # fmt: skip
def test_rows_that_come_later_define_the_type(tmp_path: Path, name: str, rows: Any) -> None:
    path, values = tmp_path / "a.h5", UNKNOWN[name]
    cn.write(
        path, {"k": np.arange(len(values)), "x": values}, "t", columns={"x": cn.column(units="m", description="what")}
    )
    with cn.open(path, "r+") as file:
        file["t"].append({"k": [1] * len(values), "x": values})  # still no type
        n = 2 * len(values)
        file["t"].append({"k": np.arange(len(rows)), "x": rows})
        file["t"].append({"k": np.arange(len(rows)), "x": rows})
        found = file["t"]["x"].to_arrow()
        assert found.slice(0, n).null_count == n
    direct = tmp_path / "b.h5"
    cn.write(direct, {"x": rows}, "t")
    with cn.open(path) as file, cn.open(direct) as other:
        table, expected = file["t"], other["t"]["x"]
        assert table["x"].dtype == expected.dtype
        assert table["x"].to_arrow().to_pylist()[n:] == expected.to_arrow().to_pylist() * 2
        assert table["x"].units == "m" or "1970" in str(table["x"].units)
        assert table["x"].description == "what"
        assert str(table.to_pandas()["x"].iloc[n:].tolist()) == str(other["t"].to_pandas()["x"].tolist() * 2)
        assert not [one for one in cn.check(path, deep=True) if one.severity == "error"]


def test_an_update_defines_the_type_and_indexes_stay(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    cn.write(path, {"x": [None] * 5, "y": [1] * 5}, "t", index={"x": "chunk_minmax"})
    with cn.open(path, "r+") as file:
        table = file["t"]
        table.update("x", [1, 3], ["b", "d"])
        assert table["x"].to_arrow().to_pylist() == [None, "b", None, "d", None]
        assert [one.kind for one in table.indexes] == ["chunk_minmax"] and table.indexes[0].fresh
        assert table.where("x == 'd'").row_numbers().tolist() == [3]
        with pytest.raises(DataError, match="column 'x': the column holds string"):
            table.append({"x": [1], "y": [1]})


def test_a_refused_append_defines_nothing(tmp_path: Path) -> None:
    cn.write(tmp_path / "a.h5", {"x": [None], "y": [1]}, "t")
    with cn.open(tmp_path / "a.h5", "r+") as file:
        with pytest.raises(DataError):
            file["t"].append({"x": ["a"], "y": ["not a number"]})
        assert file["t"]["x"].dtype == pa.null()


@pytest.mark.parametrize("kind", [pa.int32(), pa.float64(), pa.string(), pa.timestamp("us"), pa.bool_()])
def test_missing_objects_can_be_appended_to_any_column(tmp_path: Path, kind: pa.DataType) -> None:
    cn.write(tmp_path / "a.h5", pa.table({"x": pa.nulls(2, kind)}), "t")
    with cn.open(tmp_path / "a.h5", "r+") as file:
        file["t"].append({"x": np.array([None], object)})
        file["t"].append(pd.DataFrame({"x": [None]}))
        file["t"].append({"x": [None]})
        file["t"].update("x", [0], [None])
        assert file["t"]["x"].dtype == kind and file["t"]["x"].to_arrow().null_count == 5


def test_a_stream_whose_first_batch_says_no_type_says_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"batch 1, column 'x': the type is string, but .*pyarrow\.nulls"):
        cn.write(tmp_path / "a.h5", iter([{"x": [None]}, {"x": ["a"]}]), "t")
