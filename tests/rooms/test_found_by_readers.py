"""What people who met the library for the first time ran into; each stays mended."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.errors import DataError, UnsupportedError, UsageError


def back(path: Path, data: Any, **options: Any) -> pa.Table:
    """The data written and read again."""
    cn.write(path, data, **options)
    return cn.read(path)


@pytest.mark.parametrize(
    ("values", "fill"),
    [
        (pa.array([["a"], None], pa.list_(pa.string())), ["NA"]),
        (pa.array([{"s": "a"}, None], pa.struct([("s", pa.string())])), {"s": "NA"}),
        (pa.array([[[1]], None], pa.list_(pa.list_(pa.int64()))), [[5]]),
    ],
)
def test_a_fill_that_would_point_elsewhere_is_refused(tmp_path: Path, values: pa.Array, fill: Any) -> None:
    with pytest.raises(UsageError) as caught:
        cn.write(tmp_path / "x.h5", {"x": values}, columns={"x": cn.column(fill=fill)})
    assert caught.value.column == "x"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("names", [["a\0b", "c"], ["FALSE", "TRUE"], ["", "a"], ["MISSING", "a"]])
def test_categories_that_an_enum_would_change_are_refused(tmp_path: Path, names: list[str]) -> None:
    with pytest.raises(DataError) as caught:
        cn.write(tmp_path / "x.h5", {"x": pa.array(names).dictionary_encode()}, columns={"x": cn.column(enum=True)})
    assert caught.value.column == "x" and caught.value.value in names


def test_an_enum_without_categories_is_refused(tmp_path: Path) -> None:
    empty = pa.array([], pa.string()).dictionary_encode()
    with pytest.raises(DataError, match="member"):
        cn.write(tmp_path / "x.h5", {"x": empty}, columns={"x": cn.column(enum=True)})


@pytest.mark.parametrize(
    "index", [pd.RangeIndex(5, 8), pd.RangeIndex(0, 3, name="run"), pd.RangeIndex(0, 6, 2), pd.Index([7, 3, 9])]
)
def test_a_pandas_index_comes_back(tmp_path: Path, index: pd.Index[Any]) -> None:
    frame = pd.DataFrame({"x": [1, 2, 3]}, index=index)
    cn.write(tmp_path / "x.h5", frame)
    with cn.open_table(tmp_path / "x.h5") as table:
        found = table.to_pandas()
    assert found.index.tolist() == index.tolist() and found.index.name == index.name


def test_a_plain_range_index_makes_no_label(tmp_path: Path) -> None:
    cn.write(tmp_path / "x.h5", pd.DataFrame({"x": [1, 2, 3]}))
    with cn.open_table(tmp_path / "x.h5") as table:
        assert table.labels == []


def test_a_column_named_index_beside_an_unnamed_index(tmp_path: Path) -> None:
    cn.write(tmp_path / "x.h5", pd.DataFrame({"index": [1, 2]}, index=["a", "b"]))
    with cn.open_table(tmp_path / "x.h5") as table:
        assert (table.columns, table.labels) == (["index"], ["level_0"])


@pytest.mark.parametrize("later", [["5"], [True]])
def test_batches_of_another_family_are_refused(tmp_path: Path, later: list[Any]) -> None:
    with pytest.raises(DataError) as caught:
        cn.write(tmp_path / "x.h5", iter([{"x": [1]}, {"x": later}]))
    assert (caught.value.column, caught.value.batch) == ("x", 1)


def test_large_integers_survive_pandas(tmp_path: Path) -> None:
    large = 2**60 + 1
    cn.write(tmp_path / "x.h5", {"x": pa.array([large, None]), "b": pa.array([True, None])})
    with cn.open_table(tmp_path / "x.h5") as table:
        frame = table.to_pandas()
    assert frame["x"][0] == large and frame["x"].dtype == "Int64"
    assert frame["b"].dtype == "boolean"


def test_times_beyond_python_are_shown(tmp_path: Path) -> None:
    """A row, a value, an iteration and a notebook show them as NumPy's times."""
    far = pa.array([2**62, None], pa.timestamp("us"))
    zone = pa.array([0, 1], pa.timestamp("s", "Mars/Olympus"))
    fine = pa.array([1, 2], pa.timestamp("ns"))
    cn.write(
        tmp_path / "x.h5",
        {"far": far, "fine": fine, "zone": zone, "in": pa.array([[10**9], []], pa.list_(pa.date32()))},
    )
    with cn.open_table(tmp_path / "x.h5") as table:
        assert table[0]["far"] == np.datetime64(2**62, "us")
        assert table["far"][0] == np.datetime64(2**62, "us") and list(table["far"])[1] is None
        assert table["zone"][1] == np.datetime64(1, "s")
        assert table["in"][0] == [np.datetime64(10**9, "D")]
        first = table["fine"][0]
        assert isinstance(first, pd.Timestamp) and first.value == 1
        assert "<table" in table._repr_html_()


def test_ordinary_times_are_pythons(tmp_path: Path) -> None:
    day = datetime.date(2024, 2, 29)
    assert back(tmp_path / "x.h5", {"x": [day]}).to_pydict() == {"x": [day]}


def test_names_that_are_not_utf8_cost_nothing_else(tmp_path: Path) -> None:
    """A column, a compound member and an enum member with such names are shown escaped."""
    path = tmp_path / "x.h5"
    cn.write(path, {"a": [1, 2], "b": [3, 4]}, table="t")
    with h5py.File(path, "r+") as file:
        file["t"].move("a", b"\xe9")
        member = h5py.h5t.create(h5py.h5t.COMPOUND, 4)
        member.insert(b"\xff", 0, h5py.h5t.STD_I32LE)
        h5py.h5d.create(file["t"].id, b"c", member, h5py.h5s.create_simple((2,)))
        enum = h5py.h5t.enum_create(h5py.h5t.STD_I8LE)
        enum.enum_insert(b"\xfe", 0)
        h5py.h5d.create(file["t"].id, b"e", enum, h5py.h5s.create_simple((2,)))
    with cn.open_table(path) as table:
        repr(table)
        found = table.to_arrow()
        assert found["b"].to_pylist() == [3, 4]
        assert found["c"].to_pylist() == [{"\\udcff": 0}] * 2
        assert found["e"].to_pylist() == ["\\udcfe"] * 2
        assert "\\udce9" in found.column_names


@pytest.mark.parametrize("kind", [pa.float16(), pa.list_(pa.int8()), pa.struct([("a", pa.int8())])])
def test_types_that_cannot_be_categories(tmp_path: Path, kind: pa.DataType) -> None:
    with pytest.raises(UsageError) as caught:
        cn.write(tmp_path / "x.h5", {"x": pa.nulls(2, kind)}, columns={"x": cn.column(categories=True)})
    assert caught.value.column == "x"


@pytest.mark.parametrize(
    "options", [{"units": 5}, {"filters": ["deflate"]}, {"chunk_rows": 1.5}, {"description": b"x"}, {"unit": "m"}]
)
def test_options_of_the_wrong_kind(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        cn.write(tmp_path / "x.h5", {"x": [1]}, columns={"x": options})
    with pytest.raises(UsageError, match="title"):
        cn.write(tmp_path / "x.h5", {"x": [1]}, title=5)  # type: ignore[arg-type]


def test_questions_of_the_wrong_kind(tmp_path: Path) -> None:
    cn.write(tmp_path / "x.h5", {"energy": [1]})
    with cn.open_table(tmp_path / "x.h5") as table:
        with pytest.raises(UsageError):
            table[[1, 2]]  # type: ignore[list-item]
        with pytest.raises(UsageError):
            table.head("x")  # type: ignore[arg-type]
    assert cn.read(tmp_path / "x.h5", columns="energy").column_names == ["energy"]


def test_labels_that_pandas_cannot_take_stay_columns(tmp_path: Path) -> None:
    half = pa.array([1, 2], pa.int8()).cast(pa.float16())
    cn.write(tmp_path / "x.h5", {"x": [1, 2], "h": half}, labels=["h"])
    with cn.open_table(tmp_path / "x.h5") as table:
        assert table.to_pandas()["x"].tolist() == [1, 2]


def huge_table(path: Path, kind: Any, n_rows: int) -> None:
    """A table of one column `x` that claims to be large and holds nothing."""
    with h5py.File(path, "w") as file:
        group = file.create_group("t")
        group.attrs["CLASS"], group.attrs["VERSION"] = np.bytes_("COLUMN_TABLE"), np.bytes_("1.0")
        storage = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        storage.set_chunk((1,))
        h5py.h5d.create(group.id, b"x", kind, h5py.h5s.create_simple((n_rows,)), dcpl=storage)


def test_what_claims_to_be_huge_allocates_nothing(tmp_path: Path) -> None:
    """10^15 rows, and elements of a gigabyte, are refused by name; a slice of the first is read."""
    huge_table(tmp_path / "x.h5", h5py.h5t.STD_I64LE, 10**15)
    with cn.open_table(tmp_path / "x.h5") as table:
        with pytest.raises(UsageError, match="memory"):
            table.to_arrow()
        assert table["x"][10**14 : 10**14 + 3].tolist() == [0, 0, 0]
        assert table.take([5, 10**15 - 1]).to_arrow()["x"].to_pylist() == [0, 0]
    huge_table(tmp_path / "y.h5", h5py.h5t.array_create(h5py.h5t.STD_U8LE, (1 << 30, 2)), 3)
    with cn.open_table(tmp_path / "y.h5") as table:
        repr(table)
        with pytest.raises(UnsupportedError, match="at once"):  # a datatype may be that large: nothing is damaged
            table["x"][0]
