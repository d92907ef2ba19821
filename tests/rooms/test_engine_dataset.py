"""`Table.dataset()`: no method uses a C++ object that does not exist; it answers as pyarrow does, and ends well."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

import colonnade as cn
from colonnade.engines.dataset import RowsFragment, TableDataset, TableScanner
from colonnade.errors import ConflictError
from tests.rooms.engine_rows import N_ROWS, needs_lazy, write_rows


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("dataset") / "rows.h5"
    write_rows(path)
    return path


@pytest.fixture
def table(path: Path) -> Iterator[cn.Table]:
    with cn.open(path) as file:
        yield file["rows"]


def inherited(ours: type, theirs: type) -> list[str]:
    """The members of a class of pyarrow that ours does not define."""
    names = [name for name in dir(theirs) if not name.startswith("__") or name == "__reduce__"]
    return [name for name in names if getattr(ours, name) is getattr(theirs, name)]


PAIRS = [(TableDataset, ds.Dataset), (TableScanner, ds.Scanner), (RowsFragment, ds.Fragment)]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_no_method_is_inherited(ours: type, theirs: type) -> None:
    assert inherited(ours, theirs) == []


def test_an_inherited_method_is_seen() -> None:
    class Bare(ds.Dataset):
        pass

    assert "count_rows" in inherited(Bare, ds.Dataset)


def run_alone(path: Path, code: str) -> str:
    """What code prints in a process of its own, which must end by itself."""
    head = f"import colonnade as cn; file = cn.open({str(path)!r}); t = file['rows']\n"
    run = subprocess.run(
        [sys.executable, "-c", head + textwrap.dedent(code)], capture_output=True, text=True, timeout=240, check=False
    )
    assert run.returncode == 0, run.stderr[-2000:]
    return run.stdout


def test_every_member_answers_or_raises(path: Path) -> None:
    """Called without arguments, and with arguments of several kinds."""
    code = """
    import pyarrow as pa, pyarrow.compute as pc
    d = t.dataset()
    for thing in (d, d.scanner(), next(d.get_fragments())):
        for name in dir(thing):
            if name.startswith("__"):
                continue
            for arguments in ((), (3,), (pc.field("i32") > 3,), ([1, 2],), (["rid"],), (pa.table({"i32": [3]}), "i32")):
                try:
                    member = getattr(thing, name)
                    answer = member(*arguments) if callable(member) else member
                    if hasattr(answer, "__next__"):
                        next(answer, None)
                except Exception:
                    pass
    print("alive")
    """
    assert run_alone(path, code) == "alive\n"


@needs_lazy
def test_a_limit_ends_well(path: Path) -> None:
    """An engine that stops early leaves a stream that is not read to its end."""
    code = """
    import duckdb, polars as pl
    d, r = t.dataset(), t.duckdb()
    for name in ("d", "r"):
        print(len(duckdb.sql(f"select i32 from {name} limit 1").fetchall()))
    print(t.lazy().filter(pl.col("rid") > 5).head(2).collect(engine="streaming").height)
    """
    assert run_alone(path, code).split() == ["1", "1", "2"]


def test_it_answers_as_pyarrow_does(table: cn.Table) -> None:
    dataset, memory = table.dataset(), ds.dataset(table.to_arrow())
    wanted = (pc.field("i32") > 0) & ~pc.field("k").isin(["tau"]) | pc.field("f64").is_null(nan_is_null=True)
    rows = memory.to_table(filter=wanted)["rid"].to_pylist()
    assert dataset.schema == table.schema
    assert dataset.count_rows() == N_ROWS and dataset.count_rows(filter=wanted) == len(rows)
    assert dataset.to_table(["s", "rid"], wanted)["rid"].to_pylist() == rows
    doubled = dataset.to_table(columns={"x": pc.field("rid") * 2}, filter=wanted)
    assert doubled["x"].to_pylist() == [2 * row for row in rows]
    assert dataset.head(3)["rid"].to_pylist() == [0, 1, 2] and dataset.head(0).num_rows == 0
    assert dataset.take([5, 3], columns=["rid"])["rid"].to_pylist() == [5, 3]
    narrowed = dataset.filter(pc.field("rid") < 9).filter(pc.field("rid") > 6)
    assert narrowed.to_table()["rid"].to_pylist() == [7, 8]
    assert pickle.loads(pickle.dumps(narrowed)).count_rows() == 2
    assert pa.table(dataset).num_rows == N_ROWS
    joined = dataset.filter(pc.field("rid") < 3).join(ds.dataset(pa.table({"rid": [1], "y": [7]})), "rid")
    assert sorted(joined.to_table()["y"].to_pylist(), key=str) == [7, None, None]


@needs_lazy
def test_rows_of_a_query(table: cn.Table) -> None:
    """Queries, limits, orders and computed columns are sources as tables are."""
    first = table.where("rid >= 10").head(5)
    assert first.dataset().to_table()["rid"].to_pylist() == [10, 11, 12, 13, 14]
    assert first.dataset().to_table(filter=pc.field("rid") > 12)["rid"].to_pylist() == [13, 14]
    assert first.lazy().filter(pl.col("rid") > 12).collect()["rid"].to_list() == [13, 14]
    computed = table.select("rid", twice="rid * 2")
    assert computed.dataset().to_table(filter=pc.field("twice") == 8)["rid"].to_pylist() == [4]
    assert computed.lazy().filter(pl.col("twice") == 8).collect()["rid"].to_list() == [4]
    relation = computed.duckdb()
    assert duckdb.sql("select rid from relation where twice = 8").fetchall() == [(4,)]
    backwards = table.head(5).sort_by(("rid", "descending"))
    assert backwards.dataset().to_table(filter=pc.field("rid") > 2)["rid"].to_pylist() == [4, 3]
    assert relation is not None


@needs_lazy
def test_empty_tables(tmp_path: Path) -> None:
    cn.write(tmp_path / "x.h5", {"a": pa.array([], pa.int64()), "s": pa.array([], pa.string())}, "t")
    with cn.open(tmp_path / "x.h5") as file:
        t = file["t"]
        assert t.dataset().to_table(filter=pc.field("a") > 1).schema == t.schema
        assert t.lazy().filter(pl.col("a") > 1).collect().shape == (0, 2)
        assert t.lazy().select(pl.len()).collect().item() == 0
        relation = t.duckdb()
        assert duckdb.sql("select count(*) from relation where s = 'x'").fetchall() == [(0,)]
        assert relation is not None


@needs_lazy
def test_names_that_are_not_identifiers(tmp_path: Path) -> None:
    cn.write(tmp_path / "x.h5", {"größe": [1, 2], "a b": [3, 4], "x.y": [5, 6], "or": [7, 8]}, "t")
    with cn.open(tmp_path / "x.h5") as file:
        t = file["t"]
        for name in t.columns:
            value = t[name][1]
            assert t.dataset().count_rows(filter=pc.field(name) == value) == 1
            assert t.lazy().filter(pl.col(name) == value).collect().height == 1
            relation = t.duckdb()
            assert duckdb.sql(f'select count(*) from relation where "{name}" = {value}').fetchall() == [(1,)]
            assert relation is not None


@needs_lazy
def test_a_change_in_between_is_an_error(tmp_path: Path) -> None:
    """Of a scan that has begun; the next question sees the new rows."""
    path = tmp_path / "rows.h5"
    write_rows(path, 3)
    with cn.open(path) as file:
        table = file["rows"]
        dataset, lazy = table.dataset(), table.lazy()
        batches = dataset.to_batches(batch_size=100)
        next(batches)
        with cn.open(path, "r+") as other:
            other["rows"].truncate(2000)
        with pytest.raises(ConflictError):
            list(batches)
        assert duckdb.sql("select count(*) from dataset").fetchall() == [(2000,)]
        assert lazy.select(pl.len()).collect().item() == 2000
