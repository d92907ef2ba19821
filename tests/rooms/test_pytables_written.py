"""New tables of PyTables: PyTables reads them equal, and what has no form in them is refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import colonnade as cn
from colonnade.errors import DataError, UnsupportedError, UsageError
from tests.conftest import SetLimits

tables = pytest.importorskip("tables")

NUMBERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "?"]
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=9)


def read_by_pytables(path: Path, where: str = "/events") -> np.ndarray:
    with tables.open_file(path) as file:
        rows: np.ndarray = file.get_node(where).read()
    return rows


@st.composite
def columns(draw: st.DrawFn) -> dict[str, Any]:
    n_rows = draw(st.integers(0, 20))
    found: dict[str, Any] = {}
    for position in range(draw(st.integers(1, 4))):
        if draw(st.booleans()):
            dtype = np.dtype(draw(st.sampled_from(NUMBERS)))
            if dtype.kind in "iuf" and draw(st.booleans()):
                found[f"c{position}"] = draw(hnp.arrays(dtype, (n_rows, 3)))
            else:
                found[f"c{position}"] = draw(hnp.arrays(dtype, n_rows))
        else:
            strings = draw(st.lists(TEXT, min_size=n_rows, max_size=n_rows))
            found[f"c{position}"] = pa.array(strings, pa.string())
    return found


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=columns())
def test_pytables_reads_what_was_written_and_converted(tmp_path: Path, data: dict[str, Any]) -> None:
    """Written, converted into a table of PyTables, and converted back: all values are the same."""
    ours, theirs, again = tmp_path / "ours.h5", tmp_path / "theirs.h5", tmp_path / "again.h5"
    for path in (ours, theirs, again):
        path.unlink(missing_ok=True)
    cn.write(ours, data, "events", title="Run")
    done = cn.convert(ours, theirs, layout="pytables")
    assert done.tables == ["/events"]
    rows = read_by_pytables(theirs)
    assert list(rows.dtype.names or ()) == list(data)
    for name, values in data.items():
        if isinstance(values, pa.Array):
            assert [text.decode() for text in rows[name].tolist()] == values.to_pylist()
        else:
            assert rows[name].dtype == values.dtype
            np.testing.assert_array_equal(rows[name], values)
    cn.convert(theirs, again, layout="hep001")
    before, after = cn.open_table(ours, "events"), cn.open_table(again, "events")
    for name in data:
        np.testing.assert_array_equal(np.asarray(before[name][:]), np.asarray(after[name][:]))
    assert cn.open_table(theirs, "events").title == "Run"
    assert cn.check(theirs) == []


@pytest.mark.parametrize("n_rows", [0, 1, 64, 65, 200_001])
def test_any_number_of_rows(tmp_path: Path, n_rows: int) -> None:
    """Empty, one row, a whole chunk, a short last chunk, and several batches."""
    path = tmp_path / "x.h5"
    numbers = np.arange(n_rows)

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, max(n_rows, 1), 70_000):
            part = numbers[start : start + 70_000]
            yield pa.record_batch({"n": pa.array(part), "s": pa.array([f"row {n}" for n in part], pa.string())})

    cn.write(path, batches(), "events", layout="pytables")
    rows = read_by_pytables(path)
    np.testing.assert_array_equal(rows["n"], numbers)
    assert rows["s"].tolist() == [f"row {n}".encode() for n in numbers]
    assert len(cn.open_table(path, "events")) == n_rows


def test_longer_strings_widen_the_table(tmp_path: Path) -> None:
    """A string that is longer than all of the first rows is kept, and so are the rows before it."""
    path = tmp_path / "x.h5"
    lengths = [1] * 150_000 + [7] * 3 + [2] * 100_000 + [5000]

    def batches() -> Iterator[dict[str, Any]]:
        for start in range(0, len(lengths), 50_000):
            part = lengths[start : start + 50_000]
            yield {
                "n": np.arange(start, start + len(part)),
                "s": ["ab"[n % 2] * n for n in part],
                "x": np.ones(len(part)),
            }

    cn.write(path, batches(), "events", layout="pytables")
    rows = read_by_pytables(path)
    assert [len(text) for text in rows["s"].tolist()] == lengths
    np.testing.assert_array_equal(rows["n"], np.arange(len(lengths)))
    assert (rows["x"] == 1).all()


def test_pytables_appends_and_queries(tmp_path: Path) -> None:
    """The table is one that PyTables changes, with the attributes that PyTables itself writes."""
    ours, theirs = tmp_path / "ours.h5", tmp_path / "theirs.h5"
    cn.write(ours, {"n": np.arange(3, dtype="i4"), "ok": [True, False, True], "s": ["a", "bb", ""]}, "grp/events",
             layout="pytables", title="Run", columns={"n": cn.column(units="MeV")})  # fmt: skip
    with tables.open_file(ours, "a") as file:
        table = file.root.grp.events
        table.append([(3, True, b"cc")])
        table.flush()
        table.cols.n.create_csindex()
        assert [row["s"] for row in table.where("n >= 2")] == [b"", b"cc"]
        assert (table.title, table.nrows, table.attrs.VERSION) == ("Run", 4, "2.7")
        file_attributes = set(file.root._v_attrs._v_attrnamessys)
        names = set(table.attrs._v_attrnamessys)
        with tables.open_file(theirs, "w") as other:
            made = other.create_table("/", "events", table.dtype)
            assert set(made.attrs._v_attrnamessys) <= names
            assert set(other.root._v_attrs._v_attrnamessys) == file_attributes
    read = cn.open_table(ours, "grp/events")
    assert (read.layout, read["n"].units, read["ok"][:].tolist()) == ("pytables", "MeV", [True, False, True, True])
    cn.write(ours, {"n": [9], "ok": [False], "s": ["d"]}, "grp/events", mode="append")
    assert read_by_pytables(ours, "/grp/events")["n"].tolist() == [0, 1, 2, 3, 9]


def test_long_values_and_many_columns(tmp_path: Path) -> None:
    """A string of 1 MB and one with NUL inside; what HDF5 cannot describe is refused."""
    path = tmp_path / "x.h5"
    texts = ["x" * (1 << 20), "a\0b", "größe"]
    cn.write(path, {"größe": texts}, "events", layout="pytables")
    assert [text.decode() for text in read_by_pytables(path)["größe"].tolist()] == texts
    assert cn.read(path, "events").to_pydict() == {"größe": texts}
    cn.write(path, {f"c{number}": [number] for number in range(1260)}, "wide", layout="pytables")
    assert cn.read(path, "wide").to_pylist() == [{f"c{number}": number for number in range(1260)}]
    with pytest.raises(DataError, match="cannot store 1,261 columns"):
        cn.write(path, {f"c{number}": [number] for number in range(1261)}, "wider", layout="pytables")
    assert cn.open(path).tables() == ["/events", "/wide"]


def test_missing_values(tmp_path: Path) -> None:
    """Floats have NaN, other columns what is asked for; otherwise the column and row are named."""
    path = tmp_path / "x.h5"
    cn.write(path, {"f": [1.0, None], "n": [None, 2]}, "events", layout="pytables", columns={"n": cn.column(fill=-1)})
    rows = read_by_pytables(path)
    assert np.isnan(rows["f"][1]) and rows["n"].tolist() == [-1, 2]
    asked = {"b": cn.column(fill=True), "f": cn.column(fill=-2.0)}
    cn.write(path, {"b": [False, None], "f": [None, 1.0]}, "more", layout="pytables", columns=asked)
    assert read_by_pytables(path, "/more").tolist() == [(False, -2.0), (True, 1.0)]
    with pytest.raises(DataError, match=r"cannot store a missing value.*: cn\.column\(fill=...\)") as caught:
        cn.write(tmp_path / "y.h5", {"n": [1, None]}, "events", layout="pytables")
    assert (caught.value.column, caught.value.row) == ("n", 1)
    assert not (tmp_path / "y.h5").exists()
    cn.write(tmp_path / "ours.h5", {"s": ["a", None]}, "events")
    with pytest.raises(DataError, match="cannot store a missing value"):
        cn.convert(tmp_path / "ours.h5", tmp_path / "y.h5", layout="pytables")
    assert not (tmp_path / "y.h5").exists()


def test_a_missing_time_that_is_appended_is_the_default_of_its_column(tmp_path: Path) -> None:
    """PyTables states it as a number of seconds, and the columns are of HDF5's time types."""
    path = tmp_path / "x.h5"
    asked = {"t": cn.column(fill=datetime(2000, 1, 1, 0, 0, 0, 250_000))}
    cn.write(path, {"t": [datetime(2020, 1, 1), None]}, "ours", layout="pytables", columns=asked)
    theirs = {
        "t32": tables.Time32Col(dflt=-5),
        "t64": tables.Time64Col(dflt=-1.5),
        "nan": tables.Time64Col(dflt=np.nan),
    }
    with tables.open_file(path, "a") as file:
        file.create_table("/", "theirs", theirs)
    none = {name: pa.array([None], pa.timestamp("us")) for name in ("t", "t64", "nan")}
    seconds = pa.array([None], pa.timestamp("s"))
    with cn.open(path, "r+") as file:
        file["ours"].append({"t": none["t"]})
        file["theirs"].append({"t32": seconds, "t64": none["t64"], "nan": pa.array([0], pa.timestamp("us"))})
        with pytest.raises(DataError, match="cannot store a missing value") as caught:
            file["theirs"].append({"t32": seconds, "t64": none["t64"], "nan": none["nan"]})
    assert caught.value.column == "nan"
    default = 946_684_800.25
    assert read_by_pytables(path, "/ours")["t"].tolist() == [1_577_836_800.0, default, default]
    assert read_by_pytables(path, "/theirs")[["t32", "t64"]].tolist() == [(-5, -1.5)]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([datetime(2020, 1, 1)], pa.timestamp("us", "UTC")),
        pa.array([1], pa.date32()),
        pa.array([[1, 2]]),
        pa.array([b"x"]),
        pa.array([{"a": 1}]),
        pa.array([None]),
        pa.array([["a"]], pa.list_(pa.string(), 1)),
    ],
    ids=lambda values: str(values.type),
)
def test_types_without_a_form_are_refused_by_name(tmp_path: Path, values: pa.Array) -> None:
    with pytest.raises(DataError, match="cannot store") as caught:
        cn.write(tmp_path / "x.h5", pa.table({"ok": [1], "odd": values}), "events", layout="pytables")
    assert caught.value.column == "odd"
    assert not (tmp_path / "x.h5").exists()


def test_what_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    for name in ("a/b", "_v_x"):
        with pytest.raises(UsageError, match="PyTables has no such name"):
            cn.write(path, {name: [1]}, "events", layout="pytables")
    with pytest.raises(UsageError, match="no row labels"):
        cn.write(path, {"a": [1], "b": [2]}, "events", layout="pytables", labels=["a"])
    with pytest.raises(UsageError, match="no place for description"):
        cn.write(path, {"a": [1]}, "events", layout="pytables", description="what it is")
    with pytest.raises(UnsupportedError, match="has no sparse"):
        cn.write(path, {"a": [1]}, "events", layout="pytables", columns={"a": cn.column(sparse=True)})
    two = {"a": cn.column(filters="deflate:1"), "b": cn.column(filters="deflate:2")}
    with pytest.raises(UsageError, match="cannot have the filters deflate:1 and deflate:2"):
        cn.write(path, {"a": [1], "b": [2]}, "events", layout="pytables", columns=two)
    assert not path.exists()


@pytest.mark.parametrize("filters", ["deflate:5", "shuffle+deflate:1", "shuffle+deflate:9+fletcher32"])
def test_tables_are_compressed(tmp_path: Path, filters: str) -> None:
    """One filter is for all columns, since they are one dataset; PyTables appends with it."""
    path = tmp_path / "x.h5"
    numbers = np.arange(100_000) % 7
    cn.write(path, {"n": numbers, "s": ["ab"] * len(numbers)}, "events", layout="pytables",
             columns={"n": cn.column(filters=filters)})  # fmt: skip
    assert path.stat().st_size < 200_000
    with tables.open_file(path, "a") as file:
        table = file.root.events
        asked = (table.filters.complib, table.filters.complevel, table.filters.shuffle, table.filters.fletcher32)
        level = int(filters.split("deflate:")[1][0])
        assert asked == ("zlib", level, "shuffle" in filters, "fletcher32" in filters)
        np.testing.assert_array_equal(table.col("n"), numbers)
        table.append([(9, b"new")])
    assert cn.open_table(path, "events")["n"][-1:].tolist() == [9]


def test_timestamps_are_the_times_of_pytables(tmp_path: Path) -> None:
    """Seconds are Time32, others Time64: PyTables reads the seconds since 1970, whatever the sign."""
    path = tmp_path / "x.h5"
    moments = [datetime(2020, 1, 1, 1, 2, 3, 400_000), datetime(1960, 5, 5, 0, 0, 0, 1), datetime(1970, 1, 1)]
    whole = [moment.replace(microsecond=0) for moment in moments]
    units = {f"t_{unit}": pa.array(moments, pa.timestamp(unit)) for unit in ("us", "ns")}
    units |= {"t_ms": pa.array(whole, pa.timestamp("ms")), "t_s": pa.array(whole, pa.timestamp("s"))}
    cn.write(path, pa.table(units), "events", layout="pytables")
    with tables.open_file(path) as file:
        table = file.root.events
        kinds = {name: type(table.coldescrs[name]).__name__ for name in table.colnames}
        assert kinds == {"t_us": "Time64Col", "t_ns": "Time64Col", "t_ms": "Time64Col", "t_s": "Time32Col"}
        seconds = [(moment - datetime(1970, 1, 1)).total_seconds() for moment in moments]
        np.testing.assert_allclose(table.col("t_us"), seconds, rtol=0, atol=1e-6)
        assert table.col("t_s").tolist() == [(moment - datetime(1970, 1, 1)).total_seconds() for moment in whole]
    read = cn.read(path, "events")
    assert read.to_pydict() == {"t_us": moments, "t_ns": moments, "t_ms": whole, "t_s": whole}
    cn.write(path, {"t_us": moments[:1], "t_ns": moments[:1], "t_ms": whole[:1], "t_s": whole[:1]}, "events",
             mode="append")  # fmt: skip
    assert len(cn.open_table(path, "events")) == 4


def test_times_that_have_no_room_are_refused_by_row(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    for values, why in (
        (pa.array([0, 1001], pa.timestamp("ns")), "cannot store this time as timestamp"),
        (pa.array([datetime(2020, 1, 1), datetime(2040, 1, 1)]), "end in 2038"),
        (pa.array([datetime(2020, 1, 1), None]), "cannot store a missing value"),
    ):
        with pytest.raises(DataError, match=why) as caught:
            cn.write(path, {"t": values}, "events", layout="pytables")
        assert (caught.value.column, caught.value.row) == ("t", 1)
        assert not path.exists()
    fill = datetime(1970, 1, 1)
    cn.write(path, {"t": pa.array([datetime(2020, 1, 1), None])}, "events", layout="pytables",
             columns={"t": cn.column(fill=fill)})  # fmt: skip
    assert cn.read(path, "events").to_pydict() == {"t": [datetime(2020, 1, 1), fill]}


def test_missing_strings_hold_the_fill_that_is_asked_for(tmp_path: Path, set_limits: SetLimits) -> None:
    """Also one that is longer than all values, or that later rows make narrow; PyTables takes it as the default."""
    path = tmp_path / "x.h5"
    set_limits(first_rows=2)
    batches = [{"s": ["a", None]}] * 3 + [{"s": ["x" * 40, None, ""]}]
    cn.write(path, iter(pa.table(batch) for batch in batches), "events", layout="pytables",
             columns={"s": cn.column(fill="none given")})  # fmt: skip
    expected = ["a", "none given"] * 3 + ["x" * 40, "none given", ""]
    assert [text.decode() for text in read_by_pytables(path)["s"].tolist()] == expected
    with tables.open_file(path, "a") as file:
        row = file.root.events.row
        row.append()
        file.root.events.flush()
    assert cn.read(path, "events").to_pydict() == {"s": [*expected, "none given"]}
    cn.write(path, {"s": ["a", None]}, "empty", layout="pytables", columns={"s": cn.column(fill="")})
    assert cn.read(path, "empty").to_pydict() == {"s": ["a", ""]}
    for fill in (3, "a\0b"):
        with pytest.raises(UsageError, match="its fill is a string"):
            cn.write(path, {"s": ["a"]}, "other", layout="pytables", columns={"s": cn.column(fill=fill)})


@pytest.mark.parametrize("before", ["hep001", "pytables", "compound", "pandas"])
@pytest.mark.parametrize("layout", ["hep001", "pytables", "compound", "pandas"])
def test_a_table_replaces_another(tmp_path: Path, before: str, layout: str) -> None:
    """Whatever the layouts are; the indexes of the former table are gone with it, those of others stay."""
    path = tmp_path / "x.h5"
    cn.write(path, {"n": [1, 2, 3]}, "grp/other", layout="pytables", index={"n": "sorted_rows"})
    cn.write(path, {"n": [1, 2, 3], "old": [1, 2, 3]}, "grp/events", layout=before, index={"n": "sorted_rows"})
    if layout == "hep001" and before == "pandas":
        with pytest.raises(UnsupportedError, match="read-only"):
            cn.write(path, {"n": [7]}, "grp/events", mode="replace", layout=layout)
        assert cn.read(path, "grp/events").num_rows == 3
        return
    cn.write(path, {"n": [7], "s": ["new"]}, "grp/events", mode="replace", layout=layout, index={"n": "sorted_rows"})
    with cn.open(path) as file:
        assert sorted(file.tables()) == ["/grp/events", "/grp/other"]
        table = file["grp/events"]
        assert (table.layout, table.select("n", "s").to_arrow().to_pylist()) == (layout, [{"n": 7, "s": "new"}])
        assert [index.column for index in table.indexes] == ["n"]
        assert len(file["grp/other"].indexes) == 1
    assert cn.check(path, deep=True) == []


def test_a_group_with_other_objects_is_not_replaced_by_a_dataset(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    cn.write(path, {"n": [1]}, "events")
    with cn.open(path, "r+") as file:
        file.h5["events/theirs"] = np.zeros((2, 2))
    with pytest.raises(UsageError, match="holds theirs; a table of layout 'pytables' is a dataset"):
        cn.write(path, {"n": [2]}, "events", layout="pytables", mode="replace")
    with pytest.raises(UsageError, match="is the root of the file"):
        cn.write(tmp_path / "new.h5", {"n": [2]}, "/", layout="pytables")
    assert cn.read(path, "events").to_pydict() == {"n": [1]}
    with cn.open(path, "r+") as file:
        file.h5["array"] = np.zeros(3)
    with pytest.raises(UsageError, match="is a dataset"):
        cn.write(path, {"n": [2]}, "array", layout="pytables", mode="replace")


def test_conversion_tells_what_is_not_kept(tmp_path: Path) -> None:
    """Row labels become columns, and attributes of columns are named; those of the table are kept."""
    ours, theirs = tmp_path / "ours.h5", tmp_path / "theirs.h5"
    cn.write(ours, {"id": [5, 6], "e": [1.0, 2.0]}, "events", labels=["id"],
             columns={"e": cn.column(units="MeV", description="energy")})  # fmt: skip
    with cn.open(ours, "r+") as file:
        file["events"].attrs["detector"] = "east"
        file["events"]["e"].attrs["gain"] = 1.5
        file["events"].build_index("e", "sorted_rows")
    done = cn.convert(ours, theirs, layout="pytables")
    assert any("'gain' of column 'e' is not kept" in note for note in done.notes)
    assert any("row label 'id' becomes a column" in note for note in done.notes)
    assert len(done.notes) == 2, done.notes
    table = cn.open_table(theirs, "events")
    assert (table["e"].units, table["e"].description, table.attrs["detector"]) == ("MeV", "energy", "east")
    assert done.indexes == 1
    with tables.open_file(theirs) as file:
        assert sorted(file.root.events.colnames) == ["e", "id"]
        assert str(file.root.events.attrs.detector) == "east"
