"""`cn.sql` and `colonnade sql`: tables, arrays and attached files by name; only what a query needs is opened."""

from __future__ import annotations

import decimal
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import colonnade as cn
from colonnade.connect.array_rows import boxes
from colonnade.errors import ColumnNotFound, CorruptError, TableNotFound, UsageError
from tests.rooms.test_cli import call, call_json

N_ROWS = 1000
needs_sources = pytest.mark.skipif(importlib.util.find_spec("duckdb._sources") is None, reason="needs DuckDB 2.0")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "run.h5"
    data = {"ts": range(N_ROWS), "energy": np.arange(N_ROWS) / 10, "label": ["muon", "pion"] * (N_ROWS // 2)}
    cn.write(path, data, "events", index={"ts": "chunk_minmax"}, columns={"ts": cn.column(chunk_rows=100)})
    cn.write(path, {"id": [1, 2]}, "first/hits")
    cn.write(path, {"id": [3]}, "second/hits")
    cn.write(path, {"id": [4]}, "second/Notes")
    with h5py.File(path, "a") as file:
        file["image"] = np.arange(6.0).reshape(2, 3)
        file["big_endian"] = np.arange(3, dtype=">i4")
        file["it's"] = np.array([True, False])
        file["words"] = ["a", "é"]
        file["fixed"] = np.array([b"ab", b"c"])
        file["scalar"] = 5
        file["empty"] = np.zeros((0, 3))
        file["complex"] = np.zeros(2, complex)
    return path


@pytest.fixture
def other(tmp_path: Path) -> Path:
    cn.write(tmp_path / "other.h5", {"ts": [5, 6, 2000], "word": ["x", "y", "z"]}, "events")
    with h5py.File(tmp_path / "other.h5", "a") as file:
        file["image"] = np.array([7.0])
    return tmp_path / "other.h5"


def rows(query: str, *arguments: Any, **options: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in cn.sql(query, *arguments, **options).to_pylist()]


def test_a_table_is_named_by_its_path(path: Path) -> None:
    query = "select label, avg(energy) as mean from events where ts between 10 and 20 group by label order by label"
    assert cn.sql(query, path).to_pydict() == {"label": ["muon", "pion"], "mean": [1.5, 1.5]}
    for name in ("first/hits", "/first/hits", "FIRST/Hits"):
        assert rows(f'select id from "{name}" order by id', path) == [(1,), (2,)]
    assert rows("select id from notes", path) == [(4,)]  # only one table has it as the last part
    with pytest.raises(UsageError, match=r"'hits' is the name of several tables.*: /first/hits, /second/hits"):
        cn.sql("select * from hits", path)


def test_a_table_at_the_root(tmp_path: Path) -> None:
    cn.write(tmp_path / "root.h5", {"x": [1, 2]}, "/")
    assert rows("select sum(x) from root", tmp_path / "root.h5") == [(3,)]


def test_joins_subqueries_and_names_inside_a_query(path: Path) -> None:
    query = """with late as (select * from events where ts >= 998)
               select l.ts, h.id from late l join "first/hits" h on l.ts - 997 = h.id
               where l.ts in (select ts from events) order by 1"""
    assert rows(query, path) == [(998, 1), (999, 2)]


def test_files_are_attached_by_name(path: Path, other: Path) -> None:
    query = "select e.ts, o.word from events e join b.events o using (ts) order by ts"
    assert rows(query, path, attach={"b": other}) == [(5, "x"), (6, "y")]
    with cn.open(other) as file:
        assert rows("select count(*) from B.events", attach={"b": file}) == [(3,)]
        assert len(file["events"]) == 3  # it is still open
    assert rows("select value from b.array('image')", path, attach={"b": other}) == [(7.0,)]
    for name in ("main", "TEMP", ""):
        with pytest.raises(UsageError, match="cannot attach a file as"):
            cn.sql("select 1", path, attach={name: other})
    with pytest.raises(UsageError, match="differ only in case"):
        cn.sql("select 1", attach={"b": other, "B": other})


def test_an_array_has_a_column_for_each_dimension(path: Path) -> None:
    assert cn.sql("select * from array('/image')", path).to_pydict() == {
        "i0": [0, 0, 0, 1, 1, 1], "i1": [0, 1, 2, 0, 1, 2], "value": [0, 1, 2, 3, 4, 5],
    }  # fmt: skip
    assert rows("select i0, sum(value) from array('image') where i1 > 0 group by i0 order by i0", path) == [
        (0, 3),
        (1, 9),
    ]
    assert rows("select value from array('big_endian') order by i0", path) == [(0,), (1,), (2,)]
    assert rows("select value from Array ( 'it''s' ) order by i0", path) == [(True,), (False,)]
    assert rows("select value from array('words') order by i0", path) == [("a",), ("é",)]
    assert rows("select value from array('fixed') order by i0", path) == [("ab",), ("c",)]
    assert rows("select value from array('scalar')", path) == [(5,)]
    assert rows("select count(*) from array('empty')", path) == [(0,)]
    assert rows("select a.value from array('image') a, array('/image') b where a.value = b.value and a.i0 = 0", path)
    with pytest.raises(UsageError, match="there is no array 'nothing' in"):
        cn.sql("select * from array('nothing')", path)
    with pytest.raises(UsageError, match=r"no array 'events' in .*: it is a table, which is named without array"):
        cn.sql("select * from array('events')", path)
    with pytest.raises(cn.errors.UnsupportedError, match="complex: an array of complex128 cannot be rows of a query"):
        cn.sql("select * from array('complex')", path)
    with pytest.raises(UsageError, match="no file is attached as 'c'"):
        cn.sql("select * from c.array('image')", path)


def test_array_inside_strings_and_comments_is_text(path: Path) -> None:
    query = """select 'array(''/x'')' as a, "array('/y')" as b -- array('/z')
               from (select 1 as "array('/y')") /* array('/q') */"""
    assert rows(query, path) == [("array('/x')", 1)]
    assert rows("select $$array('/x')$$, e'\\' array(''/x'')'", path) == [("array('/x')", "' array('/x')")]


@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (7, 1, 4), (3, 5, 2), (0, 2), (1, 1)])
@pytest.mark.parametrize("most", [1, 2, 5, 8, 1000])
def test_boxes_cover_an_array_in_order(shape: tuple[int, ...], most: int) -> None:
    array = np.arange(int(np.prod(shape))).reshape(shape)
    parts = [array[box] for box in boxes(shape, most)]
    assert all(part.size <= max(most, 1) for part in parts)
    assert [value for part in parts for value in part.reshape(-1).tolist()] == array.reshape(-1).tolist()


def test_parameters(path: Path) -> None:
    assert rows("select ts from events where ts = ?", path, parameters=[7]) == [(7,)]
    assert rows(
        "select ts from events where label = $label and ts < $most", path, parameters={"label": "pion", "most": 2}
    ) == [(1,)]


def test_what_is_not_a_select(path: Path) -> None:
    assert rows("create table few as select ts from events limit 2; select count(*) from few", path) == [(2,)]
    assert cn.sql("create table few as select ts from events limit 2", path).num_rows in (0, 1)
    assert [row[0] for row in rows("describe events", path)] == ["ts", "energy", "label"]
    assert rows("select 1 + 1") == [(2,)]
    tables = ["events", "first/hits", "second/Notes", "second/hits"]
    assert sorted(row[0] for row in rows("show tables", path)) == tables
    assert sorted(row["name"] for row in cn.sql("show all tables", path).to_pylist()) == tables


def test_errors_name_what_there_is(path: Path) -> None:
    with pytest.raises(TableNotFound, match=r"no table 'evnts' in .*Nearest: 'events'"):
        cn.sql("select * from evnts", path)
    with pytest.raises(UsageError, match=r'Parser Error: syntax error at or near "selec"$'):
        cn.sql("selec 1", path)
    with pytest.raises(UsageError, match=r'Binder Error.*"enrgy".*energy'):
        cn.sql("select enrgy from events", path)
    with pytest.raises(UsageError, match="cannot run the query: Conversion Error"):
        cn.sql("select cast(label as int) from events", path)
    events = [1, 2]
    with pytest.raises(TableNotFound):  # variables of Python are not tables
        cn.sql("select * from path", path)
    assert events


def test_arguments_of_another_type_are_refused_with_what_is_expected(path: Path, other: Path) -> None:
    query: Any = 5
    with pytest.raises(UsageError, match="the query must be a string of SQL, not 5"):
        cn.sql(query, path)
    for empty in ("", " \n"):
        with pytest.raises(UsageError, match="the query is empty"):
            cn.sql(empty, path)
    parameters: Any
    for parameters in (7, "abc", b"abc", {1, 2}):
        with pytest.raises(UsageError, match=r"parameters must be a list of the values for \?, or a dict"):
            cn.sql("select ?", path, parameters=parameters)
    assert rows("select ?", path, parameters=("abc",)) == [("abc",)]
    attach: Any
    for attach in ([other], str(other), 5):
        with pytest.raises(UsageError, match="attach must be a dict of files by name"):
            cn.sql("select 1", path, attach=attach)
    attach = {1: other}
    with pytest.raises(UsageError, match="the name of an attached file must be a string, not 1"):
        cn.sql("select 1", path, attach=attach)
    connection: Any
    for connection in (5, "run.db"):
        with pytest.raises(UsageError, match=r"con must be a connection of duckdb.connect\(\), or None"):
            cn.open_table(path, "events").duckdb(connection)


def test_without_duckdb_the_error_names_the_extra(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(UsageError, match=r"SQL needs the package duckdb: pip install 'colonnade\[sql\]'"):
        cn.sql("select 1", path)
    with pytest.raises(UsageError, match=r"pip install 'colonnade\[sql\]'"):
        cn.open_table(path, "events").duckdb()
    assert call("sql", path, "select 1").exit_code == 2


def test_only_the_tables_that_are_named_are_opened(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    original = cn.File.table

    def table(self: cn.File, name: str, layout: str | None = None) -> cn.Table:
        opened.append(name)
        return original(self, name, layout)

    monkeypatch.setattr(cn.File, "table", table)
    cn.sql("select count(*) from events", path)
    assert opened == ["/events"]


@needs_sources
def test_damage_is_reported_as_such(tmp_path: Path) -> None:
    """An error while DuckDB reads is the error of the file, not its text."""
    path = tmp_path / "x.h5"
    cn.write(path, {"a": np.arange(1000), "b": np.arange(1000)}, "t", columns={"a": cn.column(filters="deflate:1")})
    with h5py.File(path, "r") as file:
        info = file["t/a"].id.get_chunk_info(0)
    damaged = bytearray(path.read_bytes())
    damaged[info.byte_offset + 10 : info.byte_offset + 40] = bytes(30)
    path.write_bytes(damaged)
    assert rows("select sum(b) from t", path) == [(499500,)]
    with pytest.raises(CorruptError):
        cn.sql("select sum(a) from t", path)


@needs_sources
def test_types_that_duckdb_cannot_read(tmp_path: Path) -> None:
    data = {
        "half": pa.array([1.5, None], pa.float16()),
        "wide": pa.array([decimal.Decimal("1.5"), None], pa.decimal256(50, 2)),
        "duration": pa.array([1, None], pa.duration("s")),
        "i": [1, 2],
    }
    cn.write(tmp_path / "x.h5", data, "t")
    assert rows("select half, wide, i from t where half > 1", tmp_path / "x.h5") == [(1.5, "1.50", 1)]
    assert rows("select count(duration), count(half), max(wide) from t", tmp_path / "x.h5") == [(1, 1, "1.50")]


# -- the command --


def test_the_command_shows_a_table(path: Path) -> None:
    result = call("sql", path, "select label, count(*) as n from events group by label order by label")
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        "row  label       n", "     string  int64", "  0  muon      500", "  1  pion      500", "2 rows, 2 columns",
    ]  # fmt: skip
    assert "the first 20 rows (-n shows more), 3 columns" in call("sql", path, "select * from events").output
    nothing = call("sql", path, "select * from events where ts < 0")
    assert nothing.exit_code == 1 and "no rows" in nothing.output
    wide = call("sql", path, "select " + ", ".join(f"ts as column_{n}" for n in range(40)) + " from events", "-n", 1)
    assert "left out, see --json" in wide.output


def test_the_command_writes_files(path: Path, tmp_path: Path) -> None:
    query = "select ts, label from events where ts < 3"
    expected = cn.sql(query, path)
    call("sql", path, query, "-o", tmp_path / "x.parquet")
    assert pq.read_table(tmp_path / "x.parquet").to_pydict() == expected.to_pydict()
    call("sql", path, query, "-o", tmp_path / "x.h5")
    assert cn.read(tmp_path / "x.h5", "result").to_pydict() == expected.to_pydict()
    assert call_json("sql", path, query, "-o", tmp_path / "x.arrow")["rows"] == 3
    with pa.OSFile(str(tmp_path / "x.arrow")) as source:
        assert pa.ipc.open_file(source).read_all().to_pydict() == expected.to_pydict()
    call("sql", path, query, "-o", tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text().splitlines()[:2] == ['"ts","label"', '0,"muon"']
    again = call("sql", path, query, "-o", tmp_path / "x.csv")
    assert again.exit_code == 2 and "already exists" in again.output
    assert call("sql", path, query, "-o", tmp_path / "x.csv", "--force", "-n", 1).exit_code == 0
    assert len((tmp_path / "x.csv").read_text().splitlines()) == 2
    assert call("sql", path, query, "-o", path, "--force").exit_code == 2  # the file that is read


def test_the_command_prints_json(path: Path, other: Path) -> None:
    query = "select ts, ts, word from b.events where ts < 6"
    answer = call_json("sql", path, query, "--attach", f"b={other}")
    assert answer["rows"] == [{"ts": 5, "ts_1": 5, "word": "x"}]
    lines = call("sql", path, "select ts from events", "--format", "jsonl", "-n", 2).stdout.splitlines()
    assert [json.loads(line) for line in lines] == [{"ts": 0}, {"ts": 1}]
    assert call("sql", path, query, "--attach", "b").exit_code == 2
    twice = call("sql", path, query, "--attach", f"b={other}", "--attach", f"b={path}")
    assert twice.exit_code == 2 and "--attach gives two files the name 'b'" in twice.output
    assert call("sql", path, "select x from events").exit_code == 2
    assert call("sql", path, "select 1", "--json", "--format", "csv").exit_code == 2
    assert call("sql", other.parent / "missing.h5", "select 1").exit_code == 3


def test_names_that_do_not_exist_are_reported_by_the_api(path: Path) -> None:
    with pytest.raises(ColumnNotFound):
        cn.open_table(path, "events").select("enrgy").duckdb()
