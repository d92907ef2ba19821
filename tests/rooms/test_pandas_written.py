"""New frames in pandas' table format (`layout="pandas"`): pandas reads, searches and appends to them as to its own."""

from __future__ import annotations

import ast
import pickle
from datetime import datetime
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.errors import DataError, UnsupportedError, UsageError
from colonnade.layouts.pandas.pickles_written import Literal, pickled

pytest.importorskip("tables")

ROOM = Path(cn.__file__).parent


def frame() -> pd.DataFrame:
    zoned = pd.DatetimeIndex(["2020-01-01", "NaT", "2020-07-01"], tz="Europe/Berlin").as_unit("ns")
    return pd.DataFrame(
        {
            "i": np.arange(3, dtype="i4"),
            "u": np.array([0, 1, 2**64 - 1], "u8"),
            "f": [1.0, np.nan, -0.0],
            "b": [True, False, True],
            "s": ["a", np.nan, "größe"],
            "e": ["", "nan", " x "],
            "t": np.array(["2020-01-01T01:02:03.000000004", "NaT", "1960-01-01"], "M8[ns]"),
            "z": zoned,
            "d": np.array([10**9, np.iinfo("i8").min, -2 * 10**9]).view("m8[ns]"),
            "c": pd.Categorical(["x", "y", None], categories=["y", "x", "unused"]),
            "o": pd.Categorical([30, 5, 30], categories=[30, 5], ordered=True),
            "c16": np.array([1, 2j, 3]),
        },
        index=pd.Index([5, 6, 7], name="nr"),
    )


def read_by_pandas(path: Path, key: str, **options: Any) -> pd.DataFrame:
    read = pd.read_hdf(path, key, **options)
    assert isinstance(read, pd.DataFrame)
    return read


def assert_same(one: pd.DataFrame, other: pd.DataFrame) -> None:
    """Whether two frames are equal; strings that are missing are None or NaN."""
    strings = ["s"]
    pd.testing.assert_frame_equal(one.drop(columns=strings), other.drop(columns=strings))
    for name in strings:
        assert one[name].fillna("missing").tolist() == other[name].fillna("missing").tolist()


def test_pandas_reads_a_frame_of_all_types(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    cn.write(path, frame(), "grp/k", layout="pandas")
    pd.testing.assert_frame_equal(read_by_pandas(path, "grp/k"), frame())
    table = cn.open_table(path, "grp/k")
    assert (table.layout, table.problems, [label.name for label in table.info.labels]) == ("pandas", (), ["nr"])
    assert_same(table.to_pandas(), frame())
    assert cn.check(path, deep=True) == []


def test_pandas_searches_selects_and_appends(tmp_path: Path) -> None:
    """Every column is a data column: what pandas needs for that it has in pickles only."""
    path = tmp_path / "x.h5"
    data = frame().drop(columns=["u", "c16"])  # which PyTables does not index
    cn.write(path, data, "k", layout="pandas")
    found = read_by_pandas(path, "k", where="i > 0 & e == 'nan'", columns=["s", "i"])
    assert (list(found.columns), found.index.tolist()) == (["s", "i"], [6])
    assert read_by_pandas(path, "k", where="index > 5", start=0, stop=2).index.tolist() == [6]
    data.to_hdf(path, key="k", format="table", append=True, data_columns=True)
    pd.testing.assert_frame_equal(read_by_pandas(path, "k"), pd.concat([data, data]))
    read = cn.open_table(path, "k").to_pandas()
    assert (read.index.name, str(read["z"].dtype), len(read)) == ("nr", "datetime64[ns, Europe/Berlin]", 6)
    with pd.HDFStore(path) as store:
        store.create_table_index("k", columns=["i"], kind="full")
        assert len(store.select("k", "i == 2")) == 2


@pytest.mark.parametrize("label", ["i", "u", "f", "b", "t", "z", "w", None])
def test_an_index_of_each_kind(tmp_path: Path, label: str | None) -> None:
    path = tmp_path / "x.h5"
    data = frame().assign(w=["", "b", " x "])
    indexed = data.reset_index(drop=True) if label is None else data.set_index(label)
    cn.write(path, indexed, "k", layout="pandas")
    read = read_by_pandas(path, "k")
    pd.testing.assert_frame_equal(read, indexed)
    assert read.index.name == label
    assert cn.open_table(path, "k").to_pandas().index.name == label


@pytest.mark.parametrize("names", [["i", "s"], [None, "c"], [None, None]], ids=str)
def test_an_index_of_several_levels(tmp_path: Path, names: list[str | None]) -> None:
    path = tmp_path / "x.h5"
    data = frame().fillna({"s": "filled"})
    indexed = data.drop(columns=["i", "s", "c"]).set_axis(
        pd.MultiIndex.from_arrays([data["i"], data["s"]], names=names)
    )
    cn.write(path, indexed, "k", layout="pandas")
    pd.testing.assert_frame_equal(read_by_pandas(path, "k"), indexed)
    assert list(cn.open_table(path, "k").to_pandas().index.names) == names


@pytest.mark.parametrize("n_rows", [0, 1, 70_001])
def test_any_number_of_rows_in_batches(tmp_path: Path, n_rows: int) -> None:
    """Strings and categories that later batches widen; rows without labels are numbered."""
    path = tmp_path / "x.h5"
    strings = pa.array(["x" * (row // 20_000) if row % 3 else None for row in range(n_rows)], pa.string())
    codes = [f"c{row // 100}" for row in range(n_rows)]
    categories = pa.array(codes, pa.string())
    batches = (
        pa.table({"s": strings[at : at + 30_000], "c": categories[at : at + 30_000].dictionary_encode()})
        for at in range(0, max(n_rows, 1), 30_000)
    )
    cn.write(path, batches, "k", layout="pandas")
    read = read_by_pandas(path, "k")
    assert read.index.tolist() == list(range(n_rows))
    assert [None if isinstance(text, float) else text for text in read["s"]] == strings.to_pylist()
    assert read["c"].astype(object).tolist() == codes
    assert list(read["c"].cat.categories) == list(dict.fromkeys(codes))


def test_a_file_is_converted_and_back(tmp_path: Path) -> None:
    ours, theirs, again = tmp_path / "ours.h5", tmp_path / "theirs.h5", tmp_path / "again.h5"
    cn.write(ours, frame(), "k", columns={"f": cn.column(units="MeV")})
    with cn.open(ours, "r+") as file:
        file["k"].attrs["run"] = 42
        file["k"]["i"].attrs["gain"] = 1.5
        file["k"].build_index("i", "sorted_rows")
        file.h5["array"] = np.arange(4)
    done = cn.convert(ours, theirs, layout="pandas")
    assert (done.tables, done.indexes, done.layout) == (["/k"], 1, "pandas")
    kept_not = "is not kept"
    assert sorted(done.notes) == [
        f"/k: the attribute 'gain' of column 'i' {kept_not}",
        f"/k: the attribute 'units' of column 'f' {kept_not}",
    ]
    pd.testing.assert_frame_equal(read_by_pandas(theirs, "k"), frame())
    assert cn.open_table(theirs, "k").attrs["run"] == 42
    cn.convert(theirs, again, layout="hep001")
    assert_same(cn.open_table(again, "k").to_pandas(), cn.open_table(ours, "k").to_pandas())
    with h5py.File(theirs) as file:
        assert file["array"][:].tolist() == [0, 1, 2, 3]
        assert not [name for name in file["k/table"].attrs if name in ("gain", "units")]


@pytest.mark.parametrize(
    ("data", "error", "why"),
    [
        ({"index": [1]}, UsageError, "no column called 'index'"),
        ({"a/b": [1]}, UsageError, "PyTables has no such name"),
        ({}, UsageError, "no tables without columns"),
        ({"n": [1, None]}, DataError, "cannot store a missing value"),
        ({"s": ["a", "\x7f"]}, DataError, "stands for missing strings"),
        ({"v": pa.array([[1], [2]])}, DataError, "cannot store list"),
        ({"v": pa.array([b"a", b"b"])}, DataError, "cannot store binary"),
        ({"v": pa.array([{"a": 1}, {"a": 2}])}, DataError, "cannot store struct"),
        ({"v": pa.array([1, 2], pa.date32())}, DataError, "cannot store date"),
        (pd.DataFrame({"a": [1]}, index=["nan"]), DataError, "stands for missing strings"),
        (pd.DataFrame({"a": [1]}, index=[None]), DataError, "cannot store"),
        (pd.DataFrame({"a": [1]}, index=pd.to_timedelta([1], unit="s")), DataError, "durations in the index"),
        ({"t": pa.array([datetime(2020, 1, 1), datetime(2500, 1, 1)])}, DataError, "cannot store this time"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_refused(tmp_path: Path, data: Any, error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        cn.write(tmp_path / "x.h5", data, "k", layout="pandas")
    assert not (tmp_path / "x.h5").exists()


def test_options_without_a_place_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    for option in ("units", "description"):
        with pytest.raises(UsageError, match=f"cannot store {option}"):
            cn.write(path, {"a": [1]}, "k", layout="pandas", columns={"a": {option: "m"}})
    with pytest.raises(UnsupportedError, match="has no enum"):
        cn.write(path, {"a": [1]}, "k", layout="pandas", columns={"a": cn.column(enum=True)})
    with pytest.raises(UsageError, match="leave out fill"):
        cn.write(path, {"a": pa.array(["x"]).dictionary_encode()}, "k", layout="pandas",
                 columns={"a": cn.column(fill="y")})  # fmt: skip
    filled = {"n": cn.column(fill=-1), "s": cn.column(fill="none")}
    cn.write(path, {"n": [1, None], "s": ["a", None]}, "k", layout="pandas", columns=filled)
    assert read_by_pandas(path, "k").to_dict("list") == {"n": [1, -1], "s": ["a", "none"]}


@pytest.mark.parametrize("n_columns", [1, 700, 900])
def test_wide_frames(tmp_path: Path, n_columns: int) -> None:
    """The lists of columns are attributes, which may be larger than an object header holds."""
    path = tmp_path / "x.h5"
    wide = pd.DataFrame({f"column_number_{at}": [at] for at in range(n_columns)})
    cn.write(path, wide, "k", layout="pandas")
    pd.testing.assert_frame_equal(read_by_pandas(path, "k"), wide)


LITERALS: list[Literal] = [
    None, 0, -5, 2**70, True, False, "", "it's", 'a"b\\', "größe\n\r\0\x1a\t", "\U0001f600", [], (), {}, [(0, "index")],
    [1, ["a", ("b", None)]], {1: {"names": [None], "type": "Index"}, "index": {"tz": "Europe/Berlin", "ordered": True}},
]  # fmt: skip


@pytest.mark.parametrize("value", LITERALS, ids=repr)
def test_literals_are_pickled_as_pandas_unpickles_them(value: Literal) -> None:
    """The test loads what was just made; the package itself has no way to read a pickle (below)."""
    data = pickled(value)
    assert data.isascii() and data.endswith(b".") and b"\0" not in data
    assert pickle.loads(data) == value


def test_the_package_cannot_read_pickles() -> None:
    """No module imports pickle, or anything that reads one from bytes of a file."""
    for module in ROOM.rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            imported = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            imported += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {"pickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve"} & set(imported), module


def test_hostile_plain_names_are_ignored(tmp_path: Path) -> None:
    """Names that are no columns, that repeat, or that are a pickle, are not used."""
    path = tmp_path / "x.h5"
    cn.write(path, frame()[["i", "f"]], "k", layout="pandas")
    for names in (["no", "such"], ["i", "i"], [f"c{at}" for at in range(100)], b"(lp0\nVi\np1\na."):
        with h5py.File(path, "r+") as file:
            file["k/table"].attrs["index_names"] = names if isinstance(names, list) else np.bytes_(names)
        table = cn.open_table(path, "k")
        assert [label.name for label in table.info.labels] == ["index"]
        assert table.select("i").to_arrow().num_rows == 3
