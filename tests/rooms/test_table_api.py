"""The public face of a table: open, look, take columns and rows, hand them on."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import duckdb
import fsspec
import h5py
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade import limits
from colonnade.errors import ColumnNotFound, UsageError
from colonnade.h5.handles import LibraryDataset
from colonnade.h5.vetting import open_file_of

N = 25
TS = np.arange(N, dtype="i8") * 10
ENERGY = np.linspace(0, 1, N).astype("f4")
NAMES = [None if number % 4 == 1 else f"n{number}" for number in range(N)]
COUNTS = [None if number % 5 == 2 else number for number in range(N)]
LABELS = [["muon", "pion", None][number % 3] for number in range(N)]
IDS = np.arange(1000, 1000 + N, dtype="u8")
COLUMNS = ["ts", "energy", "name", "count", "label"]
EXPECTED = pa.table(
    {
        "ts": TS,
        "energy": ENERGY,
        "name": NAMES,
        "count": pa.array(COUNTS, pa.int32()),
        "label": LABELS,
        "id": IDS,
    }
)


def events() -> pa.Table:
    label = pa.array(LABELS, pa.string()).dictionary_encode()
    return EXPECTED.set_column(4, "label", label)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "run.h5"
    options = {
        "ts": cn.column(units="s", description="When.", chunk_rows=4, filters="shuffle+deflate:3"),
        "count": cn.column(fill=-5, chunk_rows=7),
    }
    cn.write(path, events(), table="events", title="Run <42>", columns=options, labels=["id"])
    with h5py.File(path, "r+") as h5:
        h5["image"] = np.zeros((2, 2))
        h5["events"].attrs["operator"] = "me"
        h5["events"].attrs["numbers"] = [1, 2]
    return path


@pytest.fixture
def table(path: Path) -> Iterator[cn.Table]:
    with cn.open_table(path, "events") as table:
        yield table


def same(found: pa.Table, expected: pa.Table) -> None:
    """Equal values, whatever the chunks and whether text is by categories."""
    assert found.column_names == expected.column_names
    assert found.num_rows == expected.num_rows
    for name in expected.column_names:
        assert found.column(name).to_pylist() == expected.column(name).to_pylist(), name


def with_none(array: Any) -> list[Any]:
    """The values of an array that may be masked, None where masked."""
    pairs = zip(np.ma.getdata(array).tolist(), np.ma.getmaskarray(array).tolist(), strict=True)
    return [None if gone else value for value, gone in pairs]


# -- opening --


def test_read(path: Path) -> None:
    """cn.read gives an Arrow table; the name may be left out where there is one table."""
    same(cn.read(path, "events"), EXPECTED)
    same(cn.read(path), EXPECTED)
    same(cn.read(str(path), "/events"), EXPECTED)


@pytest.mark.parametrize("columns", [["ts"], ["count", "ts"], ["id"], ["label", "id", "name"], []])
def test_read_columns(path: Path, columns: list[str]) -> None:
    """Columns by name, labels among them, in the order asked for."""
    found = cn.read(path, "events", columns=columns)
    assert found.column_names == columns
    for name in columns:
        assert found.column(name).to_pylist() == EXPECTED.column(name).to_pylist()


@pytest.mark.parametrize(
    "rows", [slice(3, 9), slice(None, None, -3), slice(-4, None), slice(9, 3), slice(0, 1000), slice(2, 20, 5)], ids=str
)
def test_read_a_slice(path: Path, rows: slice) -> None:
    """Rows by slice, as Python cuts a list."""
    numbers = list(range(N))[rows]
    same(cn.read(path, "events", rows=rows), EXPECTED.take(pa.array(numbers, pa.int64())))


@pytest.mark.parametrize("rows", [[5, 3, 9], [0, 0, -1, 24, -25], np.array([7], "u1"), (1, 2), []], ids=str)
def test_read_rows_by_number(path: Path, rows: Any) -> None:
    """Rows by number, in any order, with repeats and from the end."""
    numbers = [int(row) % N for row in rows]
    same(cn.read(path, "events", rows=rows), EXPECTED.take(pa.array(numbers, pa.int64())))


def test_read_columns_and_rows(path: Path) -> None:
    """Both together."""
    found = cn.read(path, "events", columns=["name", "ts"], rows=slice(1, 4))
    assert found.to_pydict() == {"name": NAMES[1:4], "ts": [10, 20, 30]}


def test_open_everything_that_can_be_opened(path: Path) -> None:
    """A path, a text, an h5py.File, a group, a file object, bytes in memory, a URL."""
    data = path.read_bytes()
    with fsspec.open("memory://colonnade/run.h5", "wb") as stream:
        stream.write(data)
    with h5py.File(path) as h5, path.open("rb") as binary:
        targets = [path, str(path), h5, h5["/"], binary, io.BytesIO(data), "memory://colonnade/run.h5"]
        for target in targets:
            with cn.open(target) as file:
                assert file.tables() == ["/events"]
                same(file["events"].to_arrow(), EXPECTED)
        assert h5["image"].shape == (2, 2), "an h5py.File that was given stays open"


def test_open_a_url_that_is_not_there() -> None:
    """A URL that leads nowhere is a FileNotFoundError."""
    with pytest.raises(FileNotFoundError):
        cn.open("memory://colonnade/none.h5")


def test_a_url_cannot_be_written() -> None:
    """Files behind a URL can only be read."""
    with pytest.raises(UsageError, match="read"):
        cn.write("memory://colonnade/new.h5", {"x": [1]})


def test_write_into_memory() -> None:
    """A BytesIO is a file as well."""
    memory = io.BytesIO()
    cn.write(memory, {"x": [1, 2]}, table="t")
    cn.write(memory, {"y": [3]}, table="u")
    with h5py.File(io.BytesIO(memory.getvalue())) as h5:
        assert h5["t/x"][...].tolist() == [1, 2]
        assert h5["u/y"][...].tolist() == [3]


def test_write_into_an_h5py_file(tmp_path: Path) -> None:
    """An open h5py.File is written into and stays open."""
    with h5py.File(tmp_path / "f.h5", "w") as h5:
        cn.write(h5, {"x": [1, 2]}, table="deep/t")
        assert h5["deep/t/x"][...].tolist() == [1, 2]
        assert cn.read(h5, "deep/t").column("x").to_pylist() == [1, 2]


def test_a_group_is_a_place_of_its_own(tmp_path: Path) -> None:
    """Written and read below a group that was given, paths count from that group."""
    with h5py.File(tmp_path / "f.h5", "w") as h5:
        sub = h5.create_group("sub")
        cn.write(sub, {"x": [1, 2]}, table="t")
        assert sorted(h5) == ["sub"]
        assert h5["sub/t/x"][...].tolist() == [1, 2]
        file = cn.open(sub)
        assert file["t"]["x"][:].tolist() == [1, 2]
        assert [file[name].columns for name in file.tables()] == [["x"]]


def test_a_table_of_a_group_knows_its_path(tmp_path: Path) -> None:
    """The path is the one in the file, so that a pickled table finds itself again."""
    path = tmp_path / "f.h5"
    cn.write(path, {"x": [1, 2]}, table="sub/t")
    with h5py.File(path) as h5:
        table = cn.open(h5["sub"])["t"]
        assert table.path == "/sub/t"
        assert pickle.loads(pickle.dumps(table))["x"][:].tolist() == [1, 2]


def test_a_pickled_table_is_opened_as_it_was(tmp_path: Path) -> None:
    """Trust, links and threads decide what is read and how: none of them may become the default."""
    path = tmp_path / "f.h5"
    cn.write(path, {"x": [1, 2]}, table="t")
    file = cn.open(path, "r+", trust="never", links="any", n_threads=3, timeout=2.5, locking="none")
    for pickled in (file["t"], file["t"].where("x > 1")):
        again = pickle.loads(pickle.dumps(pickled))._file
        assert (again._trust, again._n_threads, open_file_of(again.h5.id).links) == ("never", 3, "any")
        assert again._asked == file._asked and not again._handle.writable
        twice = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(pickled))))
        assert twice._file._asked == file._asked
        assert pickle.loads(pickle.dumps(pickled)).to_arrow() == pickled.to_arrow()


def test_threads_that_were_not_asked_for_are_those_of_the_machine_that_unpickles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cn.write(tmp_path / "f.h5", {"x": [1, 2]}, table="t")
    pickled = pickle.dumps(cn.open_table(tmp_path / "f.h5"))
    monkeypatch.setenv("COLONNADE_THREADS", "7")
    assert pickle.loads(pickled)._file._n_threads == 7


def test_a_relative_path_is_pickled_as_an_absolute_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cn.write(tmp_path / "f.h5", {"x": [1, 2]}, table="t")
    monkeypatch.chdir(tmp_path)
    with h5py.File("f.h5") as h5:
        pickled = pickle.dumps(cn.open(h5)["t"])
    monkeypatch.chdir("/")
    assert pickle.loads(pickled)["x"][:].tolist() == [1, 2]


def test_a_table_of_a_file_object_cannot_be_pickled(tmp_path: Path) -> None:
    cn.write(tmp_path / "f.h5", {"x": [1, 2]}, table="t")
    table = cn.open(io.BytesIO((tmp_path / "f.h5").read_bytes()))["t"]
    for pickled in (table, table.head(1)):
        with pytest.raises(cn.errors.UsageError, match="cannot pickle table '/t'"):
            pickle.dumps(pickled)


def test_open_a_group_that_is_the_table(path: Path) -> None:
    """cn.open on the table group itself: the table is at "/" of what was opened, or the only one."""
    with h5py.File(path) as h5:
        same(cn.read(h5["events"]), EXPECTED)
        assert cn.open_table(h5["events"]).columns == COLUMNS


def test_file_modes(tmp_path: Path) -> None:
    """w makes anew, a makes or changes, r+ changes, r reads."""
    path = tmp_path / "f.h5"
    with cn.open(path, "a") as file:
        file.create("a", {"x": [1]})
    with cn.open(path, "r+") as file:
        file.create("b", {"x": [2]})
    with cn.open(path, "a") as file:
        file.create("c", {"x": [3]})
        assert file.tables() == ["/a", "/b", "/c"]
    with cn.open(path, "w") as file:
        assert file.tables() == []
        file.create("d", {"x": [4]})
    assert cn.open(path).tables() == ["/d"]


def test_tables_everywhere(tmp_path: Path) -> None:
    """Many tables, nested, beside arrays and links that lead nowhere or around in circles."""
    path = tmp_path / "many.h5"
    with cn.open(path, "w") as file:
        for name in ("b", "a", "deep/er/c", "deep/d"):
            file.create(name, {"x": [1]})
        file.h5["array"] = np.arange(3)
        file.h5["deep/loop"] = file.h5["/"]
        file.h5["dangling"] = h5py.SoftLink("/nowhere")
        file.h5["away"] = h5py.ExternalLink("other.h5", "/t")
        file.h5.create_group("empty")
    with cn.open(path) as file:
        assert sorted(file.tables()) == ["/a", "/b", "/deep/d", "/deep/er/c"]
        assert sorted(file) == sorted(file.tables())
        assert len(file) == 4
        assert "deep/d" in file
        assert "/deep/d" in file
        assert "deep" not in file
        assert "array" not in file
        assert "none" not in file
        assert isinstance(file.h5, h5py.File)
        assert file.h5["array"][...].tolist() == [0, 1, 2]
        assert file.name == str(path)
        assert "4 tables" in repr(file)


def test_root_table(tmp_path: Path) -> None:
    """The root may be the table."""
    path = tmp_path / "root.h5"
    cn.write(path, {"x": [1, None], "c": pa.array(["a", "b"]).dictionary_encode()}, table="/", title="Root")
    with cn.open(path) as file:
        assert file.tables() == ["/"]
        assert (file["/"].path, file["/"].title, file["/"].columns) == ("/", "Root", ["x", "c"])
    assert cn.read(path).to_pydict() == {"x": [1, None], "c": ["a", "b"]}
    with h5py.File(path) as h5:
        assert h5.attrs["CLASS"] == b"COLUMN_TABLE"


# -- what a table says --


def test_table_facts(table: cn.Table) -> None:
    """Names, lengths, texts."""
    assert table.columns == COLUMNS
    assert [row["ts"] for row in table] == TS.tolist() and "ts" in table and "nothing" not in table
    assert table.labels == ["id"]
    assert (len(table), table.n_rows) == (N, N)
    assert (table.path, table.layout, table.title, table.description) == ("/events", "hep001", "Run <42>", None)
    assert "ts" in table
    assert "id" in table
    assert "none" not in table
    assert table.problems == ()


def test_table_attrs(table: cn.Table) -> None:
    """attrs holds the user's attributes and none of the layout's."""
    assert set(table.attrs) == {"operator", "numbers"}
    assert table.attrs["operator"] == "me"
    assert np.asarray(table.attrs["numbers"]).tolist() == [1, 2]


def test_schema(table: cn.Table) -> None:
    """The Arrow schema has columns, then labels; units and descriptions are in the metadata."""
    schema = table.schema
    assert schema.names == [*COLUMNS, "id"]
    assert schema.types[:4] == [pa.int64(), pa.float32(), pa.string(), pa.int32()]
    assert pa.types.is_dictionary(schema.field("label").type)
    assert schema.field("ts").metadata == {b"units": b"s", b"description": b"When."}
    assert table.to_arrow().schema.equals(schema, check_metadata=True)
    assert pa.schema(table).equals(schema)  # type: ignore[arg-type]


def test_column_facts(table: cn.Table) -> None:
    """What a column says without reading a row."""
    ts, count, label = table["ts"], table["count"], table["label"]
    assert (ts.name, ts.dtype, ts.units, ts.description) == ("ts", pa.int64(), "s", "When.")
    assert (ts.chunk_rows, ts.filters, ts.labels) == (4, "shuffle+deflate:3", ("id",))
    assert (len(ts), ts.n_rows) == (N, N)
    assert ts.units_vocabulary is None
    assert ts.categories is None
    assert (count.fill, count.chunk_rows, count.units) == (-5, 7, None)
    assert str(ts.stored_type) == "int64"
    assert label.categories is not None
    assert label.categories.to_pylist() == ["muon", "pion"]
    assert (label.ordered, label.fill) == (False, -1)
    assert table["id"].dtype == pa.uint64()
    assert "ts" in repr(ts)
    assert "[s]" in repr(ts)


# -- values of a column --


@pytest.mark.parametrize(
    "item",
    [
        slice(None),
        slice(3, 9),
        slice(-5, None),
        slice(None, None, 3),
        slice(None, None, -1),
        slice(20, 2, -4),
        slice(9, 3),
    ],
    ids=str,
)
def test_column_slices(table: cn.Table, item: slice) -> None:
    """column[a:b:c] is NumPy, masked where rows are missing."""
    assert np.array_equal(table["ts"][item], TS[item])
    assert table["ts"][item].dtype == TS.dtype
    assert np.array_equal(table["energy"][item], ENERGY[item])
    assert with_none(table["count"][item]) == COUNTS[item]
    assert with_none(table["name"][item]) == NAMES[item]


@pytest.mark.parametrize("item", [[5, 3, 9], [-1, 0, 0], np.array([24, 1]), (2, 3), []], ids=str)
def test_column_by_numbers(table: cn.Table, item: Any) -> None:
    """column[[...]] takes rows in that order."""
    assert table["ts"][item].tolist() == [int(TS[row]) for row in item]


@pytest.mark.parametrize("row", [0, 1, 2, 24, -1, -25, np.int64(3), np.uint8(4)])
def test_column_one_value(table: cn.Table, row: Any) -> None:
    """column[5] is a Python value, None where missing."""
    assert table["ts"][row] == TS[row]
    assert table["name"][row] == NAMES[row]
    assert table["count"][row] == COUNTS[row]
    assert table["label"][row] == LABELS[row]


@pytest.mark.parametrize("row", [25, -26, 10**12])
def test_rows_out_of_range(table: cn.Table, row: int) -> None:
    """A row that is not there is a UsageError that names it, on every way."""
    for attempt in (
        lambda: table["ts"][row],
        lambda: table["ts"][[0, row]],
        lambda: table[row],
        lambda: table.take([0, row]),
    ):
        with pytest.raises(UsageError, match=str(row)):
            attempt()


@pytest.mark.parametrize("item", [1.5, None, "ts"], ids=repr)
def test_column_wrong_items(table: cn.Table, item: Any) -> None:
    """What is no row."""
    with pytest.raises(UsageError):
        table["ts"][item]


@pytest.mark.parametrize("rows", [[1.5], ["a"], [[1, 2]], 5, [True, False]], ids=repr)
def test_take_wrong_rows(table: cn.Table, rows: Any) -> None:
    """Row numbers are integers in a list; a list of truth values is not one."""
    with pytest.raises(UsageError):
        table.take(rows)


def test_np_asarray(table: cn.Table) -> None:
    """np.asarray works where NumPy can show every row, and refuses where it would make values up."""
    assert np.array_equal(np.asarray(table["ts"]), TS)
    assert np.asarray(table["ts"], dtype="f8").dtype == np.dtype("f8")
    assert np.asarray(table["name"]).tolist() == NAMES
    with pytest.raises(UsageError) as caught:
        np.asarray(table["count"])
    assert caught.value.column == "count"
    with pytest.raises(ValueError, match="copy"):
        np.array(table["ts"], copy=False)


def test_np_asarray_of_missing_floats_and_times(tmp_path: Path) -> None:
    """A missing float is NaN, a missing time NaT."""
    data = {
        "f": pa.array([1.5, None], pa.float32()),
        "t": pa.array([1, None], pa.timestamp("ms")),
        "d": pa.array([1, None], pa.duration("s")),
        "z": [1j, None],
    }
    cn.write(tmp_path / "m.h5", data)
    with cn.open_table(tmp_path / "m.h5") as table:
        found = {name: np.asarray(table[name]) for name in "ftdz"}
    assert found["f"].dtype == np.dtype("f4")
    assert np.isnan(found["f"]).tolist() == [False, True]
    assert np.isnat(found["t"]).tolist() == [False, True]
    assert found["t"][0] == np.datetime64(1, "ms")
    assert np.isnat(found["d"]).tolist() == [False, True]
    assert np.isnan(found["z"]).tolist() == [False, True]


def test_column_to_arrow_and_iteration(table: cn.Table) -> None:
    """Column.to_arrow and iteration give every row."""
    assert table["name"].to_arrow().to_pylist() == NAMES
    assert list(table["count"]) == COUNTS
    assert table["label"].to_arrow().to_pylist() == LABELS


# -- rows of a table --


@pytest.mark.parametrize(
    "item", [slice(10, 20), slice(-5, None), slice(None, None, -3), slice(None, 0), slice(5, 2), slice(0, 99)], ids=str
)
def test_table_slices(table: cn.Table, item: slice) -> None:
    """t[a:b:c] is a Query over these rows."""
    numbers = list(range(N))[item]
    query = table[item]
    assert (len(query), query.count()) == (len(numbers), len(numbers))
    assert query.row_numbers().tolist() == numbers
    same(query.to_arrow(), EXPECTED.take(pa.array(numbers, pa.int64())))


def test_slices_of_slices(table: cn.Table) -> None:
    """Queries narrow further, rows counted from what is left."""
    numbers = list(range(N))[3:20][::-2][1:4]
    assert table[3:20][::-2][1:4].row_numbers().tolist() == numbers
    same(table[3:20][::-2][1:4].to_arrow(), EXPECTED.take(numbers))
    assert table.take([9, 4, 7])[1:].take([-1, 0]).row_numbers().tolist() == [7, 4]
    assert table[::2].take([3, 3, -1]).row_numbers().tolist() == [6, 6, 24]
    assert table.take([9, 4, 7])[::-1].to_arrow().column("ts").to_pylist() == [70, 40, 90]


def test_take(table: cn.Table) -> None:
    """take: any order, repeats, from the end."""
    numbers = [5, 3, 3, -1, 0, -25, 24]
    same(table.take(numbers).to_arrow(), EXPECTED.take([number % N for number in numbers]))
    assert table.take([]).to_arrow().num_rows == 0


@pytest.mark.parametrize("n", [0, 1, 5, 25, 100, -3])
def test_head(table: cn.Table, n: int) -> None:
    """The first rows, as many as there are."""
    same(table.head(n).to_arrow(), EXPECTED.slice(0, max(n, 0)))


def test_one_row(table: cn.Table) -> None:
    """t[5] is a row as a dict."""
    assert table[5] == {name: EXPECTED.column(name)[5].as_py() for name in EXPECTED.column_names}
    assert table[-1]["ts"] == TS[-1]
    assert table[["ts", "name"]][1] == {"ts": 10, "name": None}


def test_select(table: cn.Table) -> None:
    """Columns by name, as arguments, a list, or an index."""
    for query in (table.select("name", "ts"), table.select(["name", "ts"]), table[["name", "ts"]]):
        assert query.columns == ["name", "ts"]
        assert query.schema.names == ["name", "ts"]
        same(query.to_arrow(), EXPECTED.select(["name", "ts"]))
    assert table.select("ts", "name").select("name").columns == ["name"]
    assert table[2:4][["id"]].to_arrow().to_pydict() == {"id": [1002, 1003]}


def test_select_nothing(table: cn.Table) -> None:
    """No column at all keeps the number of rows of the query."""
    assert table.select().columns == []
    assert len(table.select()) == N


def test_select_what_is_not_selected(table: cn.Table) -> None:
    """A narrowed query offers what the table has, and refuses what it has not."""
    with pytest.raises(ColumnNotFound) as caught:
        table.select("ts").select("enrgy")
    assert caught.value.nearest[0] == "energy"


def test_an_unknown_column_in_a_predicate_names_the_columns_in_their_order(tmp_path: Path) -> None:
    names = ["delta", "alpha", "gamma", "beta", "zeta", "eta", "theta", "kappa"]
    cn.write(tmp_path / "t.h5", {name: [1] for name in names}, table="t")
    with cn.open(tmp_path / "t.h5") as f, pytest.raises(ColumnNotFound) as caught:
        f["t"].where("xxxxxxxxxx == 1").count()
    assert f"There are: {', '.join(map(repr, names))}" in str(caught.value)


@pytest.mark.parametrize("item", [1.5, None, {"ts"}], ids=repr)
def test_table_wrong_items(table: cn.Table, item: Any) -> None:
    """What is neither rows nor columns."""
    with pytest.raises(UsageError):
        table[item]


@pytest.mark.parametrize("rows", [1, 4, 7, 25, 1000])
def test_batches(table: cn.Table, rows: int) -> None:
    """Batches of at most so many rows, all rows in order."""
    batches = list(table.batches(rows=rows))
    assert all(isinstance(batch, pa.RecordBatch) for batch in batches)
    assert all(0 < batch.num_rows <= rows for batch in batches)
    same(pa.Table.from_batches(batches), EXPECTED)


def test_batches_of_a_query(table: cn.Table) -> None:
    """The same on some rows in another order."""
    batches = list(table.take([9, 1, 1, 20]).select("ts").batches(rows=3))
    assert [batch.num_rows for batch in batches] == [3, 1]
    assert pa.Table.from_batches(batches).column("ts").to_pylist() == [90, 10, 10, 200]


def test_batches_of_no_rows(table: cn.Table) -> None:
    """A batch must have a row."""
    with pytest.raises(UsageError, match="at least one row"):
        table.batches(rows=0)


# -- to other libraries --


def test_to_pandas(table: cn.Table) -> None:
    """Labels become the index, categories stay categories, missing text is missing."""
    frame = table.to_pandas()
    assert list(frame.columns) == COLUMNS
    assert frame.index.name == "id"
    assert frame.index.tolist() == IDS.tolist()
    assert frame["ts"].tolist() == TS.tolist()
    assert isinstance(frame["label"].dtype, pd.CategoricalDtype)
    assert [None if pd.isna(value) else value for value in frame["label"]] == LABELS
    assert [None if pd.isna(value) else value for value in frame["name"]] == NAMES
    assert frame["count"].isna().tolist() == [value is None for value in COUNTS]


def test_to_pandas_without_the_label(table: cn.Table) -> None:
    """A query without the label has pandas' own index."""
    frame = table.select("ts", "count").head(3).to_pandas()
    assert list(frame.columns) == ["ts", "count"]
    assert isinstance(frame.index, pd.RangeIndex)


def test_to_polars(table: cn.Table) -> None:
    """polars keeps labels as columns."""
    frame = table.to_polars()
    assert frame.columns == [*COLUMNS, "id"]
    assert frame["count"].to_list() == COUNTS
    assert frame["label"].cast(pl.String).to_list() == LABELS


def test_to_numpy(table: cn.Table) -> None:
    """One array a column, masked where rows are missing."""
    found = table.to_numpy()
    assert list(found) == [*COLUMNS, "id"]
    assert np.array_equal(found["ts"], TS)
    assert not isinstance(found["ts"], np.ma.MaskedArray)
    assert isinstance(found["count"], np.ma.MaskedArray)
    assert found["count"].dtype == np.dtype("i4")
    assert np.ma.getmaskarray(found["count"]).tolist() == [value is None for value in COUNTS]


def test_complex_and_reference_columns_elsewhere(tmp_path: Path) -> None:
    """pandas has complex numbers; polars sees their two parts."""
    cn.write(tmp_path / "c.h5", {"z": np.array([1 + 2j, 3j])})
    with cn.open_table(tmp_path / "c.h5") as table:
        assert table.to_pandas()["z"].tolist() == [1 + 2j, 3j]
        assert table.to_polars()["z"].to_list() == [{"r": 1.0, "i": 2.0}, {"r": 0.0, "i": 3.0}]
        assert table["z"][:].tolist() == [1 + 2j, 3j]
        assert table["z"][1] == 3j


def test_arrow_c_stream(table: cn.Table) -> None:
    """Table and Query are read by pyarrow, polars and DuckDB without a word of ours."""
    same(pa.table(table), EXPECTED)
    same(pa.RecordBatchReader.from_stream(table[3:9]).read_all(), EXPECTED.slice(3, 6))
    assert pl.DataFrame(table.select("ts", "count"))["count"].to_list() == COUNTS
    stream = table.select("ts", "name")
    with duckdb.connect() as connection:
        connection.register("stream", stream)
        found = connection.execute("select sum(ts), count(name) from stream").fetchone()
    assert found == (int(TS.sum()), sum(name is not None for name in NAMES))


def test_a_table_is_data_to_write(path: Path, tmp_path: Path) -> None:
    """A Table or Query can be written again: units and descriptions go with it."""
    with cn.open_table(path, "events") as table:
        cn.write(tmp_path / "copy.h5", table[5:10], table="t", labels=["id"])
    same(cn.read(tmp_path / "copy.h5", "t"), EXPECTED.slice(5, 5))
    with cn.open_table(tmp_path / "copy.h5", "t") as copy:
        assert (copy["ts"].units, copy["ts"].description) == ("s", "When.")


# -- pickle, repr, closing --


def test_pickle_of_a_table(table: cn.Table) -> None:
    """A pickled table opens its file again."""
    copy = pickle.loads(pickle.dumps(table))
    assert (copy.path, copy.columns) == ("/events", COLUMNS)
    same(copy.to_arrow(), EXPECTED)


@pytest.mark.parametrize("how", ["slice", "take", "select"])
def test_pickle_of_a_query(table: cn.Table, how: str) -> None:
    """A pickled query holds its rows and columns."""
    query = {"slice": table[3:20:4], "take": table.take([4, 4, 1]), "select": table.select("name")}[how]
    copy = pickle.loads(pickle.dumps(query))
    assert copy.columns == query.columns
    assert copy.row_numbers().tolist() == query.row_numbers().tolist()
    same(copy.to_arrow(), EXPECTED.select(query.columns).take(query.row_numbers()))


def test_repr(table: cn.Table) -> None:
    """One line a column, with type and units."""
    text = repr(table)
    assert text.startswith("<Table /events (hep001): 25 rows, 5 columns, 1 label>")
    lines = text.splitlines()
    assert len(lines) == 7
    assert [line.split()[0] for line in lines[1:]] == [*COLUMNS, "id"]
    assert "int64" in lines[1]
    assert lines[1].endswith(" s")
    assert "categories of string" in text
    assert repr(table[2:4]).startswith("<Query on /events (hep001): 2 rows")


def test_repr_reads_no_rows(path: Path) -> None:
    """repr works where the values cannot be read at all."""
    with h5py.File(path) as h5:
        offset = h5["events/ts"].id.get_chunk_info(0).byte_offset
    with path.open("r+b") as stream:
        stream.seek(offset)
        stream.write(b"\xff" * 8)
    with cn.open_table(path, "events") as table:
        assert "ts" in repr(table)
        assert table["ts"].units == "s"
        with pytest.raises(cn.errors.CorruptError) as caught:
            table["ts"][:]
        assert caught.value.path == "/events/ts"


def test_html_is_escaped(tmp_path: Path) -> None:
    """Names, titles, units and values that look like HTML are shown, not obeyed."""
    evil = "<script>alert('x')</script>"
    name = "<b>col"
    cn.write(
        tmp_path / "h.h5",
        {name: [evil[:30], None]},
        table="<i>t",
        title=evil,
        columns={name: cn.column(units="<u>m")},
    )
    with cn.open_table(tmp_path / "h.h5") as table:
        html = table._repr_html_()
        query_html = table.head(1)._repr_html_()
    for text in (html, query_html):
        assert "<script>" not in text
        assert "<b>col" not in text
        assert "<u>m" not in text
        assert "<i>t" not in text
        assert "&lt;script&gt;" in text
        assert "&lt;b&gt;col" in text
        assert "&lt;u&gt;m" in text
    assert "2 rows" in html
    assert "1 row," in query_html


def test_html_of_a_wide_table(tmp_path: Path) -> None:
    """Many columns are cut, and the page says so."""
    cn.write(tmp_path / "w.h5", {f"c{number:03d}": [number] for number in range(100)})
    with cn.open_table(tmp_path / "w.h5") as table:
        html, text = table._repr_html_(), repr(table)
    assert "100 columns" in html
    assert "c099" not in html
    assert "and 70 more" in text


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_tables_of_a_closed_file_still_describe_themselves(path: Path, mode: Literal["r", "r+"]) -> None:
    with cn.open(path, mode) as file:
        table = file["events"]
    assert (len(table), table.columns, table.path, table.title) == (N, COLUMNS, "/events", "Run <42>")
    with pytest.raises(UsageError, match="closed"):
        table.append(events())
    with pytest.raises(UsageError, match="closed"):
        table["ts"][:2]


def test_a_closed_file(path: Path) -> None:
    """After closing, reading is a UsageError that says so; the description is still there."""
    with cn.open(path) as file:
        table = file["events"]
        column = table["ts"]
        query = table[2:5]
        assert column[0] == 0
    for attempt in (
        file.tables,
        lambda: file["events"],
        lambda: file.create("new", {"x": [1]}),
        table.to_arrow,
        query.to_arrow,
        lambda: table.where("ts > 1"),  # of a column that was read before
        lambda: table.where("energy > 1"),
        lambda: query.where("ts > 1"),
        lambda: table.select("ts"),
        lambda: table.to_arrow(views=True),
        lambda: column[0],
        lambda: column[:],
        lambda: table.attrs,
        lambda: list(table.batches()),
        lambda: np.asarray(column),
        lambda: "events" in file,
    ):
        with pytest.raises(UsageError, match="closed"):
            attempt()
    assert table.columns == COLUMNS
    assert "closed" in repr(file)
    file.close()


def test_closing_a_table_closes_its_file(path: Path) -> None:
    """open_table belongs to the table; the file can be written again afterwards."""
    with cn.open_table(path, "events") as table:
        assert len(table) == N
    with pytest.raises(UsageError, match="closed"):
        table.to_arrow()
    cn.write(path, {"x": [1]}, table="new")


def test_a_failed_open_table_closes_the_file(path: Path) -> None:
    """An error in open_table leaves the file free to be written."""
    with pytest.raises(cn.errors.TableNotFound):
        cn.open_table(path, "none")
    cn.write(path, {"x": [1]}, table="new")


# -- odd shapes and names --


def test_zero_rows(tmp_path: Path) -> None:
    """No rows: every way to read gives nothing, of the right type."""
    data = pa.table(
        {
            "i": pa.array([], pa.int16()),
            "s": pa.array([], pa.string()),
            "c": pa.array([], pa.dictionary(pa.int8(), pa.string())),
            "l": pa.array([], pa.list_(pa.int8())),
            "b": pa.array([], pa.bool_()),
            "t": pa.array([], pa.timestamp("us", "UTC")),
        }
    )
    cn.write(tmp_path / "z.h5", data)
    with cn.open_table(tmp_path / "z.h5") as table:
        assert (len(table), table.columns) == (0, ["i", "s", "c", "l", "b", "t"])
        found = table.to_arrow()
        assert found.num_rows == 0
        assert [found.column(name).type for name in "islbt"] == [data.column(name).type for name in "islbt"]
        assert list(table.batches()) == [] or all(batch.num_rows == 0 for batch in table.batches())
        assert table["i"][:].shape == (0,)
        assert table["i"][:].dtype == np.dtype("i2")
        assert table.head().to_arrow().num_rows == 0
        assert table[::-1].to_arrow().num_rows == 0
        assert len(table.to_pandas()) == len(table.to_polars()) == 0
        assert [len(values) for values in table.to_numpy().values()] == [0] * 6
        assert "0 rows" in repr(table)
        assert "0 rows" in table._repr_html_()
        assert pa.table(table).num_rows == 0


def test_zero_columns(tmp_path: Path) -> None:
    """A table without a column is a table."""
    cn.write(tmp_path / "z.h5", {}, table="t", title="Nothing")
    with h5py.File(tmp_path / "z.h5") as h5:
        assert h5["t"].attrs["CLASS"] == b"COLUMN_TABLE"
        assert "column-order" not in h5["t"].attrs
    with cn.open_table(tmp_path / "z.h5", "t") as table:
        assert (table.columns, len(table), table.title) == ([], 0, "Nothing")
        assert table.to_arrow().num_columns == 0
        assert list(table.to_pandas().columns) == []
        assert table.to_numpy() == {}
        assert "0 columns" in repr(table)
        assert isinstance(table._repr_html_(), str)


def test_one_row_table(tmp_path: Path) -> None:
    """One row, of it everything."""
    cn.write(tmp_path / "o.h5", {"x": [5], "s": ["a"]})
    with cn.open_table(tmp_path / "o.h5") as table:
        assert table[0] == table[-1] == {"x": 5, "s": "a"}
        assert table[::-1].to_arrow().to_pydict() == {"x": [5], "s": ["a"]}
        assert table.take([0, 0, -1]).to_arrow().column("x").to_pylist() == [5, 5, 5]
        assert "1 row," in repr(table)


def test_twenty_thousand_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 columns of one row are written and opened; only columns that are asked for are described, each once."""
    names = [f"column {number}" for number in range(20_000)]
    cn.write(tmp_path / "w.h5", {name: [number] for number, name in enumerate(names)}, table="t")
    described: list[object] = []
    for kind in (LibraryDataset,):
        describe = kind.describe
        monkeypatch.setattr(
            kind, "describe", lambda self, describe=describe: (described.append(self), describe(self))[1]
        )
    with cn.open_table(tmp_path / "w.h5", "t") as table:
        assert table.columns == names
        assert table["column 19999"][0] == 19_999
        assert len(described) < 40
        for _ in range(2):
            for name in names[:2000]:
                assert name in table
                assert table[name].dtype == pa.int64()
        assert len(described) < 2040
        found = table.select(names[::1000]).to_arrow()
        assert [column[0].as_py() for column in found.columns] == list(range(0, 20_000, 1000))


ODD_NAMES = [
    "with space",
    " leading and trailing ",
    "dots.in.name",
    "..",
    "...",
    "größe",
    "日本語",
    "العربية",
    "Ωμέγα",
    "emoji 🙂",
    "e\u0301",
    "\u00e9",
    "a\nb",
    "tab\t",
    "quote'\"",
    "back\\slash",
    "CLASS",
    "column-order",
    "x_categories",
    "#,;:!?*[]{}()",
    "0",
    "x" * 500,
    "aside\x01",
]


@pytest.mark.parametrize("name", ODD_NAMES, ids=lambda name: ascii(name[:20]))
def test_odd_names(tmp_path: Path, name: str) -> None:
    """A column of any name is written, listed and found, its categories too."""
    path = tmp_path / "n.h5"
    data = {name: [1, None], f"{name}2": pa.array(["a", None]).dictionary_encode()}
    cn.write(path, data, table="t", labels={f"{name}3": [7, 8]})
    with cn.open_table(path, "t") as table:
        assert table.columns == list(data)
        assert table.labels == [f"{name}3"]
        assert table[name].to_arrow().to_pylist() == [1, None]
        assert table[f"{name}2"].to_arrow().to_pylist() == ["a", None]
        assert table[[name]].to_arrow().column_names == [name]
        assert isinstance(table._repr_html_(), str)
    with h5py.File(path) as h5:
        members = {item.decode() for item in h5["t"].id}
        assert {name, f"{name}2", f"{name}3"} <= members


@pytest.mark.parametrize("table", ["größe", "with space", "dots.in.name", "日本語/🙂", "a/b c/d.e"])
def test_odd_table_names(tmp_path: Path, table: str) -> None:
    """Tables of any name as well."""
    cn.write(tmp_path / "n.h5", {"x": [1]}, table=table)
    with cn.open(tmp_path / "n.h5") as file:
        assert file.tables() == [f"/{table}"]
        assert file[table].path == f"/{table}"
        assert file[table]["x"][0] == 1


def test_names_that_are_no_text_in_a_dict(tmp_path: Path) -> None:
    """Keys that are numbers are names as text."""
    cn.write(tmp_path / "n.h5", {1: [1], 2.5: [2]})
    assert cn.read(tmp_path / "n.h5").column_names == ["1", "2.5"]


def test_many_categoricals_beside_columns_of_their_names(tmp_path: Path) -> None:
    """Names of categories datasets that are taken are passed over, whatever the order of the columns."""
    data = {
        "x_categories": [1, 2],
        "x": pa.array(["a", "b"]).dictionary_encode(),
        "x_categories_2": pa.array(["c", "d"]).dictionary_encode(),
        "x_categories_categories": [3, 4],
    }
    cn.write(tmp_path / "n.h5", data)
    found = cn.read(tmp_path / "n.h5").to_pydict()
    assert found == {
        "x_categories": [1, 2],
        "x": ["a", "b"],
        "x_categories_2": ["c", "d"],
        "x_categories_categories": [3, 4],
    }


# -- rows as dicts --


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_rows_are_dicts(path: Path, mode: Any) -> None:
    """A Table and a Query give their rows in turn, in any mode; a file of many columns in small batches."""
    expected = EXPECTED.to_pylist()
    with cn.open_table(path, "events", mode) as table, limits.override(iterated_rows=3, iterated_bytes=200):
        assert list(table) == expected
        assert list(table.where("ts >= 100").select("id", "ts")) == [
            {"id": row["id"], "ts": row["ts"]} for row in expected if row["ts"] >= 100
        ]
        assert list(table.take([4, 1, 1])) == [expected[4], expected[1], expected[1]]
        assert list(table.head(0)) == []
        assert list(table.head(2).select()) == [{}, {}]
        assert next(iter(table.where("ts > 50"))) == expected[6]


def test_rows_are_read_as_they_are_asked_for(tmp_path: Path) -> None:
    cn.write(tmp_path / "x.h5", {"a": range(10_000)}, columns={"a": {"chunk_rows": 100}})
    with cn.open_table(tmp_path / "x.h5") as table, limits.override(iterated_bytes=800):
        asked: list[int] = []
        plain = table.batches
        batches = lambda rows: (asked.append(batch.num_rows) or batch for batch in plain(rows))  # noqa: E731
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cn.table.rows.Query, "batches", lambda _query, rows: batches(rows))
            rows = iter(table)
            assert [next(rows)["a"] for _ in range(150)] == list(range(150))
        assert asked == [100, 100]


def test_a_change_meanwhile_ends_the_iteration(path: Path) -> None:
    with cn.open_table(path, "events", "r+") as table, limits.override(iterated_bytes=100):
        rows = iter(table)
        next(rows)
        table.truncate(20)
        with pytest.raises(cn.errors.ConflictError, match="was changed"):
            list(rows)
        assert len(list(table)) == 20


def test_rows_that_do_not_exist_are_index_errors(table: cn.Table) -> None:
    """Integers out of range, as for a list; the error is a UsageError too, and knows the row."""
    query = table.where("ts > 100")
    for take in (
        lambda row: table[row],
        lambda row: query[row],
        lambda row: table["ts"][row],
        lambda row: table["ts"][[row]],
        lambda row: table["ts"].raw[row],
        lambda row: table.take([row]),
    ):
        for row in (10**9, -(10**9), 10**30, N, -N - 1):
            with pytest.raises(IndexError, match=f"there is no row {row}: there are ") as caught:
                take(row)
            assert isinstance(caught.value, cn.errors.RowNotFound) and caught.value.row == row


def test_columns_are_offered_by_the_tab_key(path: Path) -> None:
    with cn.open(path) as file:
        table = file["events"]
        assert file._ipython_key_completions_() == ["events"]
        assert table._ipython_key_completions_() == [*COLUMNS, "id"]
        assert table.select("ts")._ipython_key_completions_() == ["ts"]
        assert "ts" in table and "id" in table and "nothing" not in table and 3 not in table
        assert "ts" in table.select("ts") and "ts" not in table.select("id")


@pytest.mark.parametrize(
    "options",
    [
        {"index": ["a"]}, {"index": "a"}, {"index": {"a": 5}}, {"index": {"a": [5]}}, {"columns": ["a"]},
        {"labels": 5}, {"labels": ["a", 3]}, {"table": 5}, {"layout": 5}, {"title": 5}, {"mode": 5},
    ],
    ids=str,
)  # fmt: skip
def test_an_option_of_another_type_is_a_usage_error(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(cn.errors.UsageError, match=r"\S"):
        cn.write(tmp_path / "a.h5", {"a": [1]}, **{"table": "t", **options})
    assert not (tmp_path / "a.h5").exists()
