"""Tables of PyTables: what PyTables writes is read, what is appended PyTables reads, and no pickle is ever loaded."""

from __future__ import annotations

import pickle
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import colonnade as cn
from colonnade.errors import DataError, FormatError, UnsupportedError, UsageError

tables = pytest.importorskip("tables")
EPOCH = datetime(1970, 1, 1)
N = 60


def description() -> type:
    class Inner(tables.IsDescription):  # type: ignore[misc, name-defined]
        b = tables.Int32Col(pos=1)
        a = tables.Float64Col(pos=0)

    class Row(tables.IsDescription):  # type: ignore[misc, name-defined]
        z = tables.Int32Col(pos=0, dflt=7)
        a = tables.Time32Col(pos=1)
        t = tables.Time64Col(pos=2)
        e = tables.EnumCol(["red", "green", "blue"], "green", base="uint8", pos=3)
        ok = tables.BoolCol(pos=4)
        c = tables.ComplexCol(itemsize=16, pos=5)
        s = tables.StringCol(5, pos=6)
        v = tables.Float32Col(shape=(2, 3), pos=7)
        n = Inner()
        tt = tables.Time64Col(shape=(2,))

    return Row


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with tables.open_file(tmp_path / "a.h5", "w") as file:
        table = file.create_table("/", "t", description(), title="my table", chunkshape=16)
        for number in range(N):
            row = table.row
            row["z"], row["a"], row["t"], row["e"] = number, 1000 + number, 1.25e9 + number + 0.5, number % 3
            row["ok"], row["c"], row["s"] = number % 2, number + 1j, f"x{number}".encode()
            row["v"], row["n/a"], row["n/b"] = np.arange(6).reshape(2, 3) + number, number / 2, number
            row["tt"] = [number + 0.25, -1.5]
            row.append()
        table.flush()
        table.attrs.units, table.attrs.dangerous = "MeV", {"a": 1}
        table.cols.z.create_csindex()
        file.create_vlarray("/", "lists", tables.Int32Atom()).append([1, 2, 3])
        file.create_earray("/", "matrix", tables.Float64Atom(), shape=(0, 3)).append([[1, 2, 3]])
        file.create_vlarray("/", "objects", tables.ObjectAtom()).append({"x": 1})
    return tmp_path / "a.h5"


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_every_type_means_what_pytables_means(path: Path, mode: Any) -> None:
    with cn.open(path, mode) as file:
        assert file.tables() == ["/t"]
        table = file["t"]
        assert (table.layout, table.title, len(table)) == ("pytables", "my table", N)
        assert table.columns == ["z", "a", "t", "e", "ok", "c", "s", "v", "n", "tt"]
        assert table[3] == {
            "z": 3, "a": EPOCH + timedelta(seconds=1003), "t": EPOCH + timedelta(seconds=1.25e9 + 3.5), "e": "red",
            "ok": True, "c": 3 + 1j, "s": "x3", "v": [[3, 4, 5], [6, 7, 8]], "n": {"a": 1.5, "b": 3},
            "tt": [EPOCH + timedelta(seconds=3.25), EPOCH + timedelta(seconds=-1.5)],
        }  # fmt: skip
        assert table.where("ok and e == 'blue' and z < 9").to_arrow()["z"].to_pylist() == [5]
        assert table.where(cn.col("t") >= EPOCH + timedelta(seconds=1.25e9 + 58)).count() == 2


def test_pickles_are_reported_and_never_loaded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickle, "loads", lambda *_: pytest.fail("a pickle was loaded"))
    with cn.open(path) as file:
        table = file["t"]
        assert dict(table.attrs) == {"units": "MeV"}
        assert [problem.path for problem in table.problems] == ["/t/dangerous"]
        with pytest.raises(FormatError, match="pickles, which are not loaded"):
            file.table("objects", layout="pytables").to_arrow()
    assert [(finding.rule, finding.severity) for finding in cn.check(path)] == [("P5", "note")]


def test_arrays_are_tables_when_they_are_asked_for(path: Path) -> None:
    with cn.open(path) as file:
        assert file.table("lists", layout="pytables").to_arrow().to_pylist() == [{"value": [1, 2, 3]}]
        assert file.table("matrix", layout="pytables").to_arrow().to_pylist() == [{"value": [1.0, 2.0, 3.0]}]
        with pytest.raises(UsageError, match="is a dataset, not a table"):
            file["lists"]


def test_pytables_reads_what_was_appended(path: Path) -> None:
    """Its index becomes dirty, is not used by it then, and can be built again."""
    with cn.open(path, "r+") as file:
        table = file["t"]
        rows = table.to_arrow()
        table.build_index("z", "sorted_rows")
        assert table.append(rows.slice(0, 20)) == 20
        cells = {name: rows.slice(0, 1)[name] for name in rows.column_names}
        table.append({**cells, "z": pa.array([None], pa.int32()), "e": [None], "s": [None]})
        assert table[-1]["z"] == 7 and table[-1]["e"] == "green" and table[-1]["s"] == ""
        assert table.indexes[0].fresh
        with pytest.raises(DataError, match="end in 2038"):
            table.append({**cells, "t": pa.array([datetime(2040, 1, 1)], pa.timestamp("us"))})
        with pytest.raises(UnsupportedError, match=r"cn\.convert"):
            table.truncate(3)
    with tables.open_file(path, "r+") as theirs:
        table = theirs.root.t
        assert (table.nrows, int(table.attrs.NROWS), table.cols.z.index.dirty) == (N + 21, N + 21, True)
        assert table.will_query_use_indexing("z == 3") == frozenset()
        assert [row.nrow for row in table.where("z == 3")] == [3, N + 3]
        stored = table.read()
        assert stored[:20].tobytes() == stored[N : N + 20].tobytes()
        table.reindex_dirty()
        assert [row.nrow for row in table.where("z == 3")] == [3, N + 3]
        table.append(stored[:1])
    with cn.open(path) as file:
        assert not file["t"].indexes[0].fresh
        assert file["t"].where("z == 0").count() == 3
    assert [finding.rule for finding in cn.check(path).errors] == ["P3"]


def test_tables_of_pytables_can_be_written_and_converted(path: Path, tmp_path: Path) -> None:
    with cn.open(path) as file:
        rows = file["t"].to_arrow().to_pylist()
    with tables.open_file(path) as theirs:
        cn.write(tmp_path / "new.h5", theirs.root.t, "t")
        with pytest.raises(UsageError, match="layout='pytables'"):
            cn.write(tmp_path / "new.h5", theirs.root.matrix, "u")
    assert cn.read(tmp_path / "new.h5", "t").to_pylist() == rows
    done = cn.convert(path, tmp_path / "whole.h5", layout="hep001")
    assert ["dangerous" in note for note in done.notes] == [True]
    with cn.open(tmp_path / "whole.h5") as file:
        assert (file["t"].to_arrow().to_pylist(), file["t"].title) == (rows, "my table")
        assert dict(file["t"].attrs) == {"units": "MeV"}
        assert set(file.h5) == {"t", "lists", "matrix", "objects"}
    assert list(cn.check(tmp_path / "whole.h5", deep=True)) == []


ATOMS = {
    "Int8Col": "i1", "UInt16Col": "u2", "Int64Col": "i8", "UInt64Col": "u8", "Float32Col": "f4", "Float64Col": "f8",
    "BoolCol": "?", "ComplexCol": "c16",
}  # fmt: skip


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_tables_at_random_are_read_as_pytables_reads_them(tmp_path: Path, data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(sorted(ATOMS)), min_size=1, max_size=4))
    n_rows = data.draw(st.sampled_from([0, 1, 5, 70]))
    order = data.draw(st.sampled_from(["little", "big"]))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    fields = {
        f"c{number}": getattr(tables, kind)(**({"itemsize": 16} if kind == "ComplexCol" else {}), pos=number)
        for number, kind in enumerate(kinds)
    }
    rows = np.zeros(n_rows, [(name, ATOMS[kind]) for name, kind in zip(fields, kinds, strict=True)])
    for name, kind in zip(fields, kinds, strict=True):
        dtype = np.dtype(ATOMS[kind])
        drawn = rng.integers(0, 256, n_rows * dtype.itemsize, dtype="u1")
        rows[name] = rng.integers(0, 2, n_rows) if kind == "BoolCol" else drawn.view(dtype)
    path = tmp_path / "random.h5"
    with tables.open_file(path, "w") as file:
        table = file.create_table("/", "t", fields, byteorder=order, chunkshape=16)
        table.append(rows)
    for mode in ("r", "r+"):
        with cn.open(path, mode) as opened:
            read = opened["t"].to_numpy()
            for name in fields:
                assert np.array_equal(np.asarray(read[name]), rows[name], equal_nan=rows[name].dtype.kind in "fc")
    with cn.open(path, "r+") as opened:
        opened["t"].append(opened["t"].to_arrow())
    with tables.open_file(path) as file:
        twice = file.root.t.read()
        for name in fields:
            expected = np.concatenate([rows[name], rows[name]])
            assert np.array_equal(twice[name], expected, equal_nan=expected.dtype.kind in "fc")


def test_missing_values_are_the_defaults_of_the_leaves(tmp_path: Path) -> None:
    """PyTables numbers the attributes FIELD_n_FILL by leaves: those of nested columns come after all others."""

    class Inner(tables.IsDescription):  # type: ignore[name-defined, misc]
        _v_pos = 1
        low = tables.Int16Col(dflt=-11, pos=0)
        word = tables.StringCol(4, dflt=b"in", pos=1)

    class Row(tables.IsDescription):  # type: ignore[name-defined, misc]
        first = tables.Int32Col(dflt=-1, pos=0)
        inner = Inner()
        last = tables.Float64Col(dflt=0.25, pos=2)
        word = tables.StringCol(6, dflt=b"none", pos=3)
        ok = tables.BoolCol(dflt=True, pos=4)
        big = tables.Int64Col(dflt=1 << 40, pos=5)
        pair = tables.Int16Col(dflt=3, shape=(2,), pos=6)

    path = tmp_path / "x.h5"
    with tables.open_file(path, "w") as file:
        table = file.create_table("/", "t", Row)
        table.row.append()
        table.flush()
        default = table.read()[0].item()
    missing = {name: pa.array([None], kind) for name, kind in
               (("first", pa.int32()), ("last", pa.float64()), ("word", pa.string()), ("ok", pa.bool_()),
                ("big", pa.int64()))}  # fmt: skip
    present = {"inner": [{"low": 5, "word": "yes"}], "pair": pa.array([[3, 3]], pa.list_(pa.int16(), 2))}
    with cn.open(path, "r+") as file:
        assert file["t"].append(pa.table({**missing, **present})) == 1
    with tables.open_file(path) as file:
        read = file.root.t.read()[1].item()
    assert read[:1] + read[2:6] == default[:1] + default[2:6] == (-1, 0.25, b"none", True, 1 << 40)
    assert read[1] == (5, b"yes")
    with cn.open(path, "r+") as file, pytest.raises(DataError, match="cannot store a missing value") as caught:
        file["t"].append(pa.table({**missing, **present, "inner": pa.array([None], pa.struct(
            [("low", pa.int16()), ("word", pa.string())]))}))  # fmt: skip
    assert (caught.value.column, caught.value.row) == ("inner", 2)
    assert len(cn.open_table(path, "t")) == 2
