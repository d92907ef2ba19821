"""Frames and Series in pandas' table format: members of records. What its pickles say is reported, not loaded."""

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
from tests.rooms.pandas_stores import N_ROWS, assert_as_pandas_reads, numbers, store


def rules(path: Path) -> set[tuple[str, str]]:
    return {(one.rule, one.severity) for one in cn.check(path, deep=True)}


def all_kinds() -> pd.DataFrame:
    """Columns that the table format stores: strings and categoricals too."""
    frame = numbers().drop(columns=["complex", "zoned", "uint"])  # PyTables cannot index uint64
    texts: list[Any] = ["ä", "b", None, "", "a longer string"]
    labels: list[Any] = ["q", "p", None, "q", "p"]
    return frame.assign(
        text=texts,
        category=pd.Categorical(labels, categories=["q", "unused", "p"]),
        numbered=pd.Categorical([30, 10, 30, 20, 10]),
        dated=pd.Categorical(frame["time"].astype("M8[ns]").fillna(pd.Timestamp("2000-01-01"))),
        **{"no category": pd.Categorical([None] * N_ROWS, categories=[])},
    )


def as_data_columns(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.rename(columns=lambda name: name.replace(" ", "_"))


# -- the law: what pandas reads. Data columns have their names in the records --


def test_data_columns_of_all_types(tmp_path: Path) -> None:
    frame = as_data_columns(all_kinds())
    path = store(tmp_path / "a.h5", "t", frame, format="table", data_columns=True)
    assert_as_pandas_reads(path, "t")
    with cn.open(path) as file:
        table = file["t"]
        assert table.columns == list(frame.columns) and table.info.version == "table"
        assert table["category"].categories is not None
        assert table.where("category == 'p' and int < 0").row_numbers().tolist() == [1]
        assert table.where("text == 'ä'").row_numbers().tolist() == [0]


def test_tables_are_read_through_libhdf5_with_the_same_answer(tmp_path: Path) -> None:
    """Columns of one block are parts of the elements that libhdf5 reads: their bytes are apart in memory."""
    path = store(tmp_path / "a.h5", "t", as_data_columns(all_kinds()), format="table")
    with cn.open(path) as file:
        expected = {name: file["t"][name].to_arrow().to_pylist() for name in file["t"].columns}
    with h5py.File(path, driver="core") as in_memory, cn.open(in_memory) as file:
        read = {name: file["t"][name].to_arrow().to_pylist() for name in file["t"].columns}
    assert repr(read) == repr(expected)  # NaN is not equal to itself


@pytest.mark.parametrize("name", ["x", "values", "ä b", None])
def test_series(tmp_path: Path, name: str | None) -> None:
    path = store(tmp_path / "a.h5", "s", pd.Series([1.5, np.nan, 3], index=[3, 1, 2], name=name), format="table")
    assert_as_pandas_reads(path, "s")
    store(path, "c", pd.Series(pd.Categorical(["b", "a", "b"]), name=name), format="table")
    assert_as_pandas_reads(path, "c")


@pytest.mark.parametrize(
    "index",
    [
        pd.RangeIndex(3),
        pd.Index([5, 5, -1]),
        pd.Index([0.5, np.nan, -1]),
        pd.Index(["a", "ä", ""]),
        pd.DatetimeIndex(np.array(["2020-01-01", "NaT", "1960-01-01"], "M8[ns]")),
    ],
    ids=str,
)
def test_an_index_of_each_kind(tmp_path: Path, index: pd.Index) -> None:
    path = store(tmp_path / "a.h5", "s", pd.Series([1, 2, 3], index=index, name="x"), format="table")
    assert_as_pandas_reads(path, "s")


@pytest.mark.parametrize("options", [{}, {"nan_rep": "!!"}, {"nan_rep": "missing"}], ids=str)
def test_what_stands_for_missing_strings(tmp_path: Path, options: dict[str, str]) -> None:
    texts: list[Any] = ["x", None, "na", "longer", "y"]
    frame = pd.DataFrame({"text": texts, "full": list("abcde")})
    path = store(tmp_path / "a.h5", "t", frame, format="table", data_columns=True, min_itemsize=12, **options)
    assert_as_pandas_reads(path, "t")
    with cn.open(path) as file:
        assert file["t"].where("text is missing").row_numbers().tolist() == [1]


def test_appended_and_compressed(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    frame = pd.DataFrame({"n": np.arange(20_000), "x": np.arange(20_000) / 3, "s": ["a", "bc"] * 10_000})
    for first in range(0, 20_000, 7000):
        part = frame.iloc[first : first + 7000]
        store(path, "t", part, format="table", append=True, data_columns=True, complib="zlib", complevel=3)
    assert_as_pandas_reads(path, "t")
    with cn.open(path, "r+") as file:
        table = file["t"]
        table.build_index("n", "chunk_minmax")
        table.build_index("s", "bitmap")
        assert table.where("n == 12345").row_numbers().tolist() == [12345]
        assert table.where("n == 12345").explain().indexes_used
        assert table.verify_indexes() == []
        assert [batch.num_rows for batch in table.batches(9000)] == [9000, 9000, 2000]
        assert file.tables() == ["/t"]
    assert_as_pandas_reads(path, "t")


def test_the_encoding_is_respected(tmp_path: Path) -> None:
    frame = pd.DataFrame({"text": ["ä"], "n": [1]})
    path = store(tmp_path / "a.h5", "t", frame, format="table", data_columns=True, encoding="latin-1")
    with cn.open(path) as file:
        assert file["t"]["n"][:].tolist() == [1]
        with pytest.raises(FormatError, match="in the encoding 'latin-1'; only UTF-8 is read"):
            file["t"]["text"].to_arrow()


# -- what the pickles would say --


def test_columns_of_blocks_are_called_by_their_places(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1, 2], "x": [0.5, 1.5], "b": [10, 20], "s": ["p", "q"]})
    path = store(tmp_path / "a.h5", "t", frame, format="table", data_columns=["s"])
    with cn.open(path) as file:
        table = file["t"]
        found = {tuple(table[name].to_arrow().to_pylist()): name for name in table.columns}
        assert {found[tuple(frame[name])].startswith("values_block_") for name in ("a", "x", "b")} == {True}
        assert found["p", "q"] == "s" and len(found) == 4
        [problem] = [one for one in table.problems if one.severity == "warning"]
        for name in ("non_index_axes", "values_cols", "info", "table/values_block_0_kind"):
            assert name in problem.message
        where = f"`{found[10, 20]}` > 10"
        assert table.where(where).row_numbers().tolist() == [1]
    assert rules(path) == {("PD2", "warning")}


def test_times_that_may_have_a_zone_are_noted(tmp_path: Path) -> None:
    frame = pd.DataFrame({"t": pd.date_range("2020-01-01", periods=2, tz="Europe/Berlin")})
    path = store(tmp_path / "a.h5", "t", frame, format="table", data_columns=True)
    with cn.open(path) as file:
        utc = frame["t"].dt.tz_convert("UTC").dt.tz_localize(None)
        assert file["t"].to_pandas()["t"].astype("M8[ns]").tolist() == utc.astype("M8[ns]").tolist()
        assert [one.path for one in file["t"].problems if "zone" in one.message and one.severity == "note"] == ["/t/t"]


def test_no_pickle_is_loaded(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    path = store(tmp_path / "a.h5", "t", numbers(), format="table")
    bomb = np.bytes_(f"cbuiltins\nopen\n(V{trap}\nVw\ntR.".encode())
    with h5py.File(path, "r+") as h5:
        for node in (h5["t"], h5["t/table"]):
            pickled = [name for name, value in node.attrs.items() if isinstance(value, bytes) and value.endswith(b".")]
            assert pickled
            for name in pickled:
                node.attrs[name] = bomb
        h5["t"].attrs["mine"] = bomb
    with cn.open(path) as file:
        table = file["t"]
        assert len(table.to_pandas().columns) == len(numbers().columns)
        assert dict(table.attrs) == {} and dict(table[table.columns[0]].attrs) == {}
    cn.check(path, deep=True)
    cn.convert(path, tmp_path / "new.h5", layout="hep001")
    assert not trap.exists()


# -- a table like any other --


def test_categories_are_not_tables(tmp_path: Path) -> None:
    path = store(tmp_path / "a.h5", "t", as_data_columns(all_kinds()), format="table", data_columns=True)
    with cn.open(path) as file:
        assert file.tables() == ["/t"]
    assert cn.check(path).checked.tables == 1


def test_one_row_that_was_never_written(tmp_path: Path) -> None:
    """Its value may stand anywhere in the row: the search for missing times needs it where the processor does."""
    frame = pd.DataFrame({"flag": [True, False], "when": pd.to_datetime(["2020-01-01", "NaT"])})
    path = store(tmp_path / "a.h5", "x", frame, format="table", data_columns=True)
    with h5py.File(path, "r+") as h5:
        assert h5["x/table"].dtype.fields["when"][1] == 9
        h5["x/table"].resize((2**60,))
    for opened in (cn.open(path, library="never"), cn.open(path), cn.open(path, "r+")):
        with opened as file:
            table = file["x"]
            assert table.take([0, 2**60 - 1]).to_arrow()["when"].to_pylist()[0] is not None
            assert table[2**60 - 1 :].select("when").to_arrow().num_rows == 1


def test_it_is_converted(tmp_path: Path) -> None:
    frame = as_data_columns(all_kinds())
    path = store(tmp_path / "a.h5", "t", frame, format="table", data_columns=True)
    with cn.open(path, "r+") as file:
        file["t"].build_index("int", "sorted_rows")
    done = cn.convert(path, tmp_path / "new.h5", layout="hep001")
    doubt = "whether they have a zone is in a pickle; those that have are in UTC"
    times = [name for name in frame if str(frame[name].dtype).startswith("datetime")]
    assert (done.tables, done.indexes) == (["/t"], 1)
    assert times and sorted(done.notes) == sorted(f"/t: column {name!r}: {doubt}" for name in times)
    with cn.open(tmp_path / "new.h5") as file, cn.open(path) as source:
        pd.testing.assert_frame_equal(file["t"].to_pandas(), source["t"].to_pandas())
        assert dict(file["t"].attrs) == {} and dict(file["t"]["int"].attrs) == {}
        assert file.tables() == ["/t"]


def test_what_only_pickles_say_is_noted_when_a_table_is_converted(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1, 2], "x": [0.5, 1.5], "s": ["p", "q"], **{f"c{n}": [n, n] for n in range(9)}})
    path = store(tmp_path / "a.h5", "t", frame, format="table", data_columns=["s"])
    [note] = cn.convert(path, tmp_path / "new.h5", layout="hep001").notes
    assert note.startswith("/t: the names of 11 columns are pickles, which are not loaded: they are called by their")
    assert "'values_block_0[0]'" in note and note.endswith(", ...") and "'s'" not in note
    plain = store(tmp_path / "b.h5", "t", frame, format="table", data_columns=True)
    assert cn.convert(plain, tmp_path / "plain.h5", layout="hep001").notes == []
    cn.convert(plain, tmp_path / "again.h5", layout="pandas")
    assert cn.convert(tmp_path / "again.h5", tmp_path / "back.h5", layout="hep001").notes == []


def test_it_is_read_only(tmp_path: Path) -> None:
    path = store(tmp_path / "a.h5", "t", pd.DataFrame({"x": [1]}), format="table")
    with cn.open(path, "r+") as file, pytest.raises(UnsupportedError, match="it is read-only"):
        file["t"].truncate(0)


# -- what is broken is a finding --


def _records(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[h5py.Group], object]:
    """Put other records in the place of the table."""

    def put(group: h5py.Group) -> None:
        rows, attributes = group["table"][:], dict(group["table"].attrs)
        del group["table"]
        group["table"] = change(rows)
        for name, value in attributes.items():
            group["table"].attrs[name] = value

    return put


def _attribute(node: str, name: str, value: Any) -> Callable[[h5py.Group], object]:
    def change(group: h5py.Group) -> None:
        group[node].attrs[name] = value

    return change


def _without(name: str) -> Callable[[h5py.Group], object]:
    def remove(group: h5py.Group) -> None:
        del group[name]

    return remove


CATEGORIES = "meta/c/meta/table"
BROKEN: dict[str, tuple[Callable[[h5py.Group], object], set[tuple[str, str]]]] = {
    "no table": (_without("table"), {("PD1", "error")}),
    "a matrix": (_records(lambda rows: np.zeros((3, 3))), {("PD1", "error")}),
    "one record": (_records(lambda rows: rows[0]), {("PD1", "error")}),
    "a code beyond the categories": (_records(lambda rows: _with(rows, "c", 7)), {("PD4", "error")}),
    "strings that are not UTF-8": (_records(lambda rows: _with(rows, "s", b"\xff")), {("PD4", "error")}),
    "floats as codes": (_attribute("table", "x_meta", np.bytes_("category")), {("PD1", "error")}),
    "floats as times": (_attribute("table", "x_dtype", np.bytes_("datetime64[ns]")), {("PD1", "error")}),
    "no such unit": (_attribute("table", "n_dtype", np.bytes_("timedelta64[h]")), {("PD1", "error")}),
    "categories that are no table": (
        lambda group: [_without(CATEGORIES)(group), group.create_dataset(CATEGORIES, data=[1, 2])],
        {("PD1", "error")},
    ),
    "categories that are never written": (
        lambda group: [
            _without(CATEGORIES)(group),
            group.create_dataset(CATEGORIES, (2**40,), [("index", "i8"), ("values", "i8")], chunks=(1000,)),
        ],
        {("PD2", "note")},
    ),
    "categories without values": (
        lambda group: [_without(CATEGORIES)(group), group.create_dataset(CATEGORIES, data=np.zeros(2, [("v", "i8")]))],
        {("PD1", "error")},
    ),
}


def _with(rows: np.ndarray, name: str, value: object) -> np.ndarray:
    rows[name][1] = value
    return rows


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_table_is_read_as_far_as_possible(tmp_path: Path, name: str) -> None:
    frame = pd.DataFrame({"n": [1, 2, 3], "x": [0.5, 1.5, 2.5], "s": list("abc"), "c": pd.Categorical(list("pqp"))})
    path = store(tmp_path / "a.h5", "t", frame, format="table", data_columns=True, index=False)
    assert rules(path) == {("PD2", "warning")}
    change, found = BROKEN[name]
    with h5py.File(path, "r+") as h5:
        change(h5["t"])
    assert rules(path) - {("PD2", "warning")} == found
    with cn.open(path) as file:
        table = file["t"]
        for column in [*table.columns, *table.info.label_names]:
            try:
                table[column].to_arrow()
            except (FormatError, UnsupportedError, CorruptError):
                continue
        assert repr(table)
