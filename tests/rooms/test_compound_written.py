"""New record arrays (`layout="compound"`): h5py reads them; what would be read as something else is refused."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.errors import DataError, UsageError

ROWS: dict[str, Any] = {
    "n": np.arange(3, dtype="i2"),
    "größe": ["a", "bb", "größe"],
    "ok": [True, False, True],
    "z": np.array([1, 2j, 3], "c16"),
    "at": pa.array([datetime(2020, 1, 1), datetime(1960, 2, 2), datetime(2300, 1, 1)]),
    "day": pa.array([date(2020, 1, 1)] * 3),
    "utc": pa.array([1, 2, 3], pa.timestamp("ns", "UTC")),
    "pair": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int32(), 2)),
    "list": pa.array([[1.5], [], [2.5, 3.5]]),
    "inner": pa.array([{"a": 1, "b": "x"}, {"a": 2, "b": ""}, {"a": 3, "b": "yy"}]),
    "data": pa.array([b"", b"a\0", b"bc"]),
    "raw": pa.array([b"ab", b"cd", b"\0\0"], pa.binary(2)),
    "a/b": [1.0, None, -0.0],
}


@pytest.mark.skipif(h5py.version.version_tuple < (3, 13), reason="older h5py reads no empty list in a compound")
def test_h5py_reads_the_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    cn.write(path, ROWS, "grp/rows", layout="compound", title="Run", columns={"n": cn.column(units="MeV")})
    with h5py.File(path) as file:
        dataset = file["grp/rows"]
        rows = dataset[:]
        assert list(rows.dtype.names) == list(ROWS)
        assert sorted(dataset.attrs) == ["FIELD_0_UNITS", "FIELD_4_UNITS", "FIELD_5_UNITS", "FIELD_6_UNITS", "TITLE"]
    np.testing.assert_array_equal(rows["n"], ROWS["n"])
    np.testing.assert_array_equal(rows["z"], ROWS["z"])
    assert [text.decode() for text in rows["größe"].tolist()] == ROWS["größe"]
    assert (rows["ok"].dtype, rows["ok"].tolist()) == (bool, ROWS["ok"])
    assert rows["at"].tolist()[0] == datetime(2020, 1, 1).timestamp() * 0 + 1_577_836_800_000_000
    assert rows["pair"].tolist() == [[1, 2], [3, 4], [5, 6]]
    assert [items.tolist() for items in rows["list"]] == [[1.5], [], [2.5, 3.5]]
    assert rows["inner"]["a"].tolist() == [1, 2, 3] and rows["inner"]["b"].tolist() == [b"x", b"", b"yy"]
    assert np.isnan(rows["a/b"][1]) and np.signbit(rows["a/b"][2])


def test_every_type_is_read_back_as_it_was(tmp_path: Path) -> None:
    path, again = tmp_path / "x.h5", tmp_path / "again.h5"
    data = {name: rows for name, rows in ROWS.items() if name != "a/b"}
    cn.write(path, data, "rows", layout="compound")
    table = cn.open_table(path, "rows")
    expected = cn.read(_as_hep001(tmp_path, data), "rows")
    assert (table.layout, table.to_arrow().to_pylist()) == ("compound", expected.to_pylist())
    assert table.schema.types == expected.schema.types
    assert cn.check(path, deep=True) == []
    cn.convert(_as_hep001(tmp_path, data), again, layout="compound")
    assert cn.read(again, "rows").to_pylist() == expected.to_pylist()


def _as_hep001(folder: Path, data: dict[str, Any]) -> Path:
    path = folder / "ours.h5"
    cn.write(path, data, "rows", mode="replace")
    return path


@pytest.mark.parametrize("n_rows", [0, 1, 70_001])
def test_any_number_of_rows_in_batches(tmp_path: Path, n_rows: int) -> None:
    """Strings that grow later, and appended rows."""
    path = tmp_path / "x.h5"
    values = ["x" * (row // 20_000) for row in range(n_rows)]
    numbers, strings = np.arange(n_rows), pa.array(values, pa.string())
    batches = (
        pa.table({"n": numbers[at : at + 30_000], "s": strings[at : at + 30_000]})
        for at in range(0, max(n_rows, 1), 30_000)
    )
    cn.write(path, batches, "rows", layout="compound", columns={"n": cn.column(filters="shuffle+deflate:1")})
    cn.write(path, {"n": [-1], "s": [""]}, "rows", mode="append")
    with h5py.File(path) as file:
        rows = file["rows"][:]
        assert (file["rows"].compression, file["rows"].maxshape) == ("gzip", (None,))
    np.testing.assert_array_equal(rows["n"], [*range(n_rows), -1])
    assert [text.decode() for text in rows["s"].tolist()] == [*values, ""]


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (pa.array([timedelta(seconds=1)]), "would be read as int64"),
        (pa.array([1], pa.timestamp("us", "Europe/Berlin")), "would be read as timestamp"),
        (pa.array([1], pa.time32("s")), "would be read as int32"),
        (pa.array([1]).cast(pa.decimal128(20, 0)), "would be read as string"),
        (pa.array([None]), "would be read as int8"),
    ],
    ids=lambda value: str(getattr(value, "type", "")),
)
def test_what_would_be_read_as_something_else_is_refused(tmp_path: Path, values: pa.Array, why: str) -> None:
    with pytest.raises(DataError, match=why) as caught:
        cn.write(tmp_path / "x.h5", pa.table({"ok": [1], "odd": values}), "rows", layout="compound")
    assert caught.value.column == "odd"
    assert not (tmp_path / "x.h5").exists()


def test_missing_values_and_what_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    asked = {"n": cn.column(fill=-1), "s": cn.column(fill="none"), "b": cn.column(fill=True)}
    cn.write(path, {"n": [None, 1], "s": ["a", None], "b": [False, None], "f": [None, 2.0]}, "rows",
             layout="compound", columns=asked)  # fmt: skip
    with h5py.File(path) as file:
        rows = file["rows"][:].tolist()
    assert rows[0][:3] == (-1, b"a", False) and np.isnan(rows[0][3]) and rows[1] == (1, b"none", True, 2.0)
    for data in ({"n": [1, None]}, {"s": ["a", None]}, {"v": pa.array([[1], None])}):
        with pytest.raises(DataError, match="cannot store a missing value") as caught:
            cn.write(tmp_path / "y.h5", data, "rows", layout="compound")
        assert caught.value.row == 1
    with pytest.raises(UsageError, match="no row labels"):
        cn.write(path, {"a": [1], "b": [2]}, "more", layout="compound", labels=["a"])
    with pytest.raises(UsageError, match="no tables without columns"):
        cn.write(path, {}, "more", layout="compound")
    with pytest.raises(UsageError, match="fill= is for numbers"):
        cn.write(path, {"v": pa.array([[1]])}, "more", layout="compound", columns={"v": cn.column(fill=0)})
    assert cn.open(path).tables() == ["/rows"]


def test_references_are_stored_as_references(tmp_path: Path) -> None:
    """A column of references to objects of the file: h5py follows them."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file["target"] = np.arange(3)
    with cn.open(path, "r+") as file:
        file.create("rows", {"n": [1, 2], "to": [cn.Reference("/target"), None]}, layout="compound")
    with h5py.File(path) as file:
        rows = file["rows"][:]
        assert file[rows["to"][0]].name == "/target" and not rows["to"][1]
