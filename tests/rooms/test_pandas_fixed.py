"""Frames and Series in pandas' fixed format: read as pandas reads them, but never by loading a pickle."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest

import colonnade as cn
from colonnade.errors import CorruptError, FormatError, UnsupportedError
from tests.rooms.pandas_stores import (
    IS_3,
    N_ROWS,
    assert_as_pandas_reads,
    columns_axes,
    indexes,
    numbers,
    read_by_pandas,
    store,
)


def rules(path: Path) -> set[tuple[str, str]]:
    return {(one.rule, one.severity) for one in cn.check(path, deep=True)}


# -- the law: what pandas reads --


def test_columns_of_all_types(tmp_path: Path) -> None:
    path = store(tmp_path / "a.h5", "f", numbers())
    assert_as_pandas_reads(path, "f")
    assert rules(path) == set()
    with cn.open(path) as file:
        assert file["f"].columns == list(numbers().columns)
        assert file["f"].info.version == "fixed"


@pytest.mark.parametrize("name", indexes())
def test_an_index_of_each_kind(tmp_path: Path, name: str) -> None:
    frame = pd.DataFrame({"int": range(N_ROWS), "x": np.arange(N_ROWS) / 2}).set_index(indexes()[name])
    path = store(tmp_path / "a.h5", "f", frame)
    assert_as_pandas_reads(path, "f")
    assert {severity for _, severity in rules(path)} <= {"note"}
    store(path, "s", frame["x"])
    assert_as_pandas_reads(path, "s")


@pytest.mark.parametrize("name", columns_axes())
def test_names_of_columns_of_each_kind(tmp_path: Path, name: str) -> None:
    frame = pd.DataFrame(np.arange(12).reshape(4, 3), columns=columns_axes()[name])
    frame.insert(1, _another(frame.columns), [0.5] * 4)
    assert_as_pandas_reads(store(tmp_path / "a.h5", "f", frame), "f")


def _another(columns: pd.Index) -> Any:
    """A name that is not among these, of their kind: its column is in another block."""
    if columns.nlevels > 1:
        return ("c", 7)
    return {"i": 99, "f": 9.25, "M": pd.Timestamp("2000-01-01")}.get(columns.dtype.kind, "another")


@pytest.mark.parametrize("name", [None, "x", "ä b", "int", 3])
def test_the_name_of_a_series(tmp_path: Path, name: Any) -> None:
    path = store(tmp_path / "a.h5", "s", pd.Series([1.5, 2.5], name=name))
    with cn.open(path) as file:
        assert file["s"].columns == ["values" if name is None else str(name)]
    assert_as_pandas_reads(path, "s")


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame(),
        pd.DataFrame({"a": np.array([], "i8"), "b": np.array([], "f4"), "c": np.array([], bool)}),
        pd.DataFrame(index=[1, 2, 3]),
        pd.DataFrame({"a": [1]}),
        pd.DataFrame({"a": [np.nan] * 3}),
        pd.DataFrame({"a": np.array([1, 2], ">i4"), "b": np.array([1, 2], ">f8")}),
    ],
    ids=["nothing", "no rows", "no columns", "one row", "all missing", "big-endian"],
)
def test_small_and_odd_frames(tmp_path: Path, frame: pd.DataFrame) -> None:
    path = store(tmp_path / "a.h5", "f", frame)
    expected = read_by_pandas(path, "f")
    with cn.open(path) as file:
        found = file["f"].to_pandas()
    if str(frame.dtypes.iloc[0] if len(frame.columns) else "").startswith(">"):
        expected = expected.astype({"a": "i4", "b": "f8"})
    pd.testing.assert_frame_equal(found, expected, check_freq=False)
    assert not [one for one in cn.check(path, deep=True) if one.severity == "error"]


def test_a_compressed_store(tmp_path: Path) -> None:
    """Blocks are then in chunks with filters."""
    frame = pd.DataFrame({f"c{number}": np.arange(50_000) * number for number in range(6)})
    frame["half"] = frame["c1"] / 2
    assert_as_pandas_reads(store(tmp_path / "a.h5", "f", frame, complib="zlib", complevel=4), "f")


def test_a_wide_frame_is_described_lazily(tmp_path: Path) -> None:
    frame = pd.DataFrame(np.arange(12_000).reshape(3, 4000), columns=[f"c{number}" for number in range(4000)])
    frame["last"] = [1.5, 2.5, 3.5]
    path = store(tmp_path / "a.h5", "f", frame)
    assert_as_pandas_reads(path, "f")
    with cn.open(path) as file:
        assert file["f"]["c3999"][:].tolist() == [3999, 7999, 11999]
        assert list(file["f"].problems) == []


# -- pickles --


def test_pickled_columns_are_refused_by_name_and_the_others_are_read(tmp_path: Path) -> None:
    mixed: Any = [1, "x", None, 2.5, ()]
    frame = numbers().assign(text=np.array(["a", "b", None, "d", "e"], object), mixed=mixed)
    path = store(tmp_path / "a.h5", "f", frame)
    with cn.open(path) as file:
        table = file["f"]
        assert table.columns == list(frame.columns)
        for name in ("text", "mixed"):
            with pytest.raises(
                FormatError, match=f"cannot read column {name!r} of /f: it holds pickled Python objects"
            ):
                table[name][:]
        rest = [name for name in table.columns if name not in ("text", "mixed")]
        expected = read_by_pandas(path, "f")[rest]
        pd.testing.assert_frame_equal(table.select(*rest).to_pandas(), expected.reset_index(drop=True))
        assert table.where("int > 0").select("byte").to_arrow()["byte"].to_pylist() == [3, 4]
    assert rules(path) == {("PD2", "warning")}
    done = cn.convert(path, tmp_path / "new.h5", layout="hep001")
    assert [note.split(" was left out")[0] for note in done.notes] == ["/f: column 'text'", "/f: column 'mixed'"]
    with cn.open(tmp_path / "new.h5") as file:
        assert file["f"].columns == rest


def test_no_pickle_is_loaded(tmp_path: Path) -> None:
    """Objects and attributes that would make a file if they were loaded."""
    trap = tmp_path / "trap"
    path = store(tmp_path / "a.h5", "f", pd.DataFrame({"n": [1, 2], "s": ["a", "b"]}))
    bomb = f"cbuiltins\nopen\n(V{trap}\nVw\ntR.".encode()
    with h5py.File(path, "r+") as h5:
        group = h5["f"]
        array = next(node for node in group.values() if node.dtype == object)
        array[0] = np.frombuffer(bomb, "u1")
        axis = group["axis1"]
        for node, name in ((group, "mine"), (axis, "freq"), (axis, "tz"), (group["axis0"], "name")):
            node.attrs[name] = np.bytes_(bomb)
    with cn.open(path) as file:
        table = file["f"]
        assert table["n"][:].tolist() == [1, 2]
        assert "mine" not in dict(table.attrs)
        table.select("n").to_pandas()
        with pytest.raises(FormatError, match="pickled"):
            table.to_arrow()
    assert ("PD3", "note") in rules(path)
    assert not trap.exists()


def test_what_pickles_hide_is_reported(tmp_path: Path) -> None:
    """Frequencies of periods, the days of dates, zones that are objects."""
    days = pd.Series([1, 2], index=pd.Index([pd.Timestamp("2020-01-01").date()] * 2))
    path = store(tmp_path / "a.h5", "days", days)
    store(path, "periods", pd.Series([1, 2], index=pd.period_range("2020-01", periods=2, freq="M")))
    store(path, "zone", pd.Series([1, 2], index=pd.date_range("2020", periods=2, tz="+02:00")))
    with cn.open(path) as file:
        assert file["days"].to_arrow()["index"].to_pylist() == [737425, 737425]
        assert file["periods"].to_arrow()["index"].to_pylist() == [600, 601]
        theirs = read_by_pandas(path, "zone").index
        assert isinstance(theirs, pd.DatetimeIndex)
        assert file["zone"].to_pandas().index.equals(theirs.tz_convert("UTC"))
        problems = [[one.message for one in file[key].problems] for key in ("days", "periods", "zone")]
    assert ["number of the day" in problems[0][0], "frequency" in problems[1][0], "UTC" in problems[2][0]] == [True] * 3
    assert rules(path) == {("PD3", "note")}


# -- a table like any other --


@pytest.fixture
def path(tmp_path: Path) -> Path:
    frame = pd.DataFrame({"n": np.arange(1000) % 7, "x": np.arange(1000) / 4, "m": np.arange(1000)[::-1]})
    return store(tmp_path / "a.h5", "folder/f", frame)


def test_it_is_found_searched_and_indexed(path: Path) -> None:
    with cn.open(path, "r+") as file:
        assert file.tables() == ["/folder/f"]
        table = file["folder/f"]
        assert table.where("n == 3 and x > 240").row_numbers().tolist() == [962, 969, 976, 983, 990, 997]
        for name in ("n", "m", "index"):  # two are columns of one block
            table.build_index(name, "sorted_rows")
        assert {(one.column, one.fresh) for one in table.indexes} == {("n", True), ("m", True), ("index", True)}
        assert table.verify_indexes() == []
    with cn.open(path) as file:
        table = file["folder/f"]
        plan = table.where("m == 10").explain()
        assert [one.name for one in table.indexes] == ["index__sorted_rows", "m__sorted_rows", "n__sorted_rows"]
        assert "sorted_rows of m" in str(plan) and table.where("m == 10").row_numbers().tolist() == [989]
        assert file.tables() == ["/folder/f"]
    assert_as_pandas_reads(path, "folder/f")
    assert rules(path) == set()


def test_a_wrong_index_is_found_and_fixed(path: Path) -> None:
    with cn.open(path, "r+") as file:
        file["folder/f"].build_index("n", "sorted_rows")
    with h5py.File(path, "r+") as h5:
        del h5["folder/f/_search_indexes/n__sorted_rows"].attrs["column"]
    assert rules(path) == {("PD5", "error")}
    cn.fix(path)
    assert rules(path) == set()


def test_it_is_read_only_and_says_how_to_convert(path: Path) -> None:
    refused = pytest.raises(UnsupportedError, match=r"layout 'pandas': it is read-only\. Convert the file")
    with cn.open(path, "r+") as file, refused:
        file["folder/f"].append({"n": [1], "x": [1.0], "m": [1]})
    with pytest.raises(UnsupportedError, match="read-only"):
        cn.write(path, {"x": [1]}, table="new", layout="pandas")


def test_it_is_converted_with_its_names_and_index(tmp_path: Path) -> None:
    levels = indexes()["two levels"]
    frame = pd.DataFrame(np.arange(15).reshape(5, 3), columns=columns_axes()["two levels"], index=levels)
    path = store(tmp_path / "a.h5", "f", frame)
    with h5py.File(path, "r+") as h5:
        h5["f"].attrs["run"] = 42
        h5["other"] = np.arange(4)
    done = cn.convert(path, tmp_path / "new.h5", layout="hep001")
    assert (done.tables, done.notes) == (["/f"], [])
    with cn.open(tmp_path / "new.h5") as file:
        pd.testing.assert_frame_equal(file["f"].to_pandas(), read_by_pandas(path, "f"))
        assert dict(file["f"].attrs) == {"run": 42}
        assert file.h5["other"][:].tolist() == [0, 1, 2, 3]
    assert not [one for one in cn.check(tmp_path / "new.h5", deep=True) if one.severity == "error"]


def test_keys_below_a_key_are_tables_of_their_own(tmp_path: Path) -> None:
    path = store(tmp_path / "a.h5", "a", pd.DataFrame({"x": [1]}))
    store(path, "a/b", pd.DataFrame({"x": [2]}))
    with cn.open(path) as file:
        assert file.tables() == ["/a", "/a/b"]
        assert [file[key]["x"][0] for key in file.tables()] == [1, 2]


# -- what is broken is a finding --


def _without(name: str) -> Callable[[h5py.Group], None]:
    def remove(group: h5py.Group) -> None:
        del group[name]

    return remove


def _set(node: str, name: str, value: Any) -> Callable[[h5py.Group], None]:
    def change(group: h5py.Group) -> None:
        group[node].attrs[name] = value

    return change


def _put(name: str, value: Any) -> Callable[[h5py.Group], None]:
    def change(group: h5py.Group) -> None:
        kept = dict(group[name].attrs)
        del group[name]
        group[name] = value
        group[name].attrs.update(kept)

    return change


BROKEN: dict[str, Callable[[h5py.Group], object]] = {
    "no column axis": _without("axis0"),
    "no row axis": _without("axis1"),
    "no values": _without("block0_values"),
    "no names of a block": _without("block0_items"),
    "a group in place of values": lambda group: [_without("block0_values")(group), group.create_group("block0_values")],
    "too many blocks": _set(".", "nblocks", 2**60),
    "a negative number of blocks": _set(".", "nblocks", -1),
    "text as the number of blocks": _set(".", "nblocks", "two"),
    "too few rows": _put("block0_values", np.zeros((2, 2), "i8")),
    "too few columns": _put("block0_values", np.zeros((5, 1), "i8")),
    "three dimensions": _put("block0_values", np.zeros((5, 2, 1), "i8")),
    "a scalar": _put("block0_values", 3),
    "names of another block": _put("block0_items", np.array([b"y", b"z"])),
    "one name twice": _put("axis0", np.array([b"a", b"a", b"x"])),
    "names that are not UTF-8": _put("axis0", np.array([b"\xff", b"b", b"x"])),
    "not transposed": _set("block0_values", "transposed", np.uint8(0)),
    "no such type of times": _set("block0_values", "value_type", np.bytes_("datetime64[parsec]")),
    "no such zone": lambda group: [
        _set("block0_values", "value_type", np.bytes_("datetime64[ns]"))(group),
        group["block0_values"].attrs.create("tz", "No/Such, Zone]", dtype=h5py.string_dtype("utf-8", 14)),
    ],
    "floats as times": _set("block1_values", "value_type", np.bytes_("datetime64[ns]")),
    "levels without a number": _set(".", "axis1_variety", np.bytes_("multi")),
    "a kind that is not known": _set("axis0", "kind", np.bytes_("poem")),
    "another encoding": _set(".", "encoding", np.bytes_("utf-7")),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_store_is_read_as_far_as_possible(tmp_path: Path, name: str) -> None:
    frame = pd.DataFrame({"a": range(5), "b": range(5), "x": np.arange(5) / 2}, index=list("abcde"))
    path = store(tmp_path / "a.h5", "f", frame)
    with h5py.File(path, "r+") as h5:
        group = h5["f"]
        blocks = {group[f"block{number}_values"].dtype.kind: number for number in (0, 1)}
        if blocks["i"] == 1:  # some versions store them the other way round
            for part in ("values", "items"):
                group.move(f"block0_{part}", "kept")
                group.move(f"block1_{part}", f"block0_{part}")
                group.move("kept", f"block1_{part}")
        BROKEN[name](group)
    if name != "no such zone":  # a zone that nobody knows is found when it is used
        assert any(severity in ("error", "warning") for _, severity in rules(path)), name
    with cn.open(path) as file:
        table = file["f"]
        for column in [*table.columns, *table.info.label_names]:
            try:
                table[column].to_arrow()
            except (FormatError, UnsupportedError, CorruptError):
                continue
        assert repr(table)


def test_codes_beyond_the_levels_are_found(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": range(N_ROWS)}, index=indexes()["two levels"])
    path = store(tmp_path / "a.h5", "f", frame)
    with h5py.File(path, "r+") as h5:
        h5["f/axis1_label1"][2] = 77
    with cn.open(path) as file:
        assert file["f"].select("x").to_arrow()["x"].to_pylist() == list(range(N_ROWS))
        with pytest.raises(CorruptError, match="level_1"):
            file["f"].to_arrow()
    assert rules(path) == {("PD4", "error")}


@pytest.mark.skipif(not IS_3, reason="pandas 3 stores categorical indexes")
def test_a_categorical_index(tmp_path: Path) -> None:
    labels: list[Any] = ["b", "a", None, "b", "c"]
    index = pd.CategoricalIndex(labels, categories=["c", "b", "a"], ordered=True, name="label")
    assert_as_pandas_reads(store(tmp_path / "a.h5", "f", pd.DataFrame({"x": range(5)}, index=index)), "f")


def test_columns_without_names_of_which_a_file_claims_any_number(tmp_path: Path) -> None:
    path = store(tmp_path / "a.h5", "x", pd.DataFrame({"a": [1, 2], "b": [3, 4], "c": [0.5, 1.5]}))
    with h5py.File(path, "r+") as h5:
        attributes = dict(h5["x/block1_values"].attrs)
        del h5["x/block1_values"], h5["x/block1_items"], h5["x/axis0"]
        h5.create_dataset("x/block1_values", (2, 2**40), "i8", chunks=(2, 512)).attrs.update(attributes)
    with cn.open(path, library="never") as file:
        table = file["x"]
        assert len(table) == 2 and table.columns == ["a", "b"]
        assert "it claims 1,099,511,627,776 columns without names" in str(table.problems)
