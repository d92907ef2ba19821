"""`Table.dataset()`: no method uses a C++ object that does not exist; it answers as pyarrow does, and ends well."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import h5py
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

import colonnade as cn
from colonnade.engines.dataset import RowsFragment, TableDataset, TableScanner
from colonnade.errors import ColumnNotFound, ConflictError
from tests.rooms.engine_rows import N_ROWS, needs_lazy, write_rows
from tests.rooms.test_chunks_read import Recorder, touched


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


def test_a_column_that_does_not_exist_is_refused_with_those_that_do(table: cn.Table) -> None:
    dataset = table.dataset()
    reads: list[Callable[[list[str]], object]] = [
        lambda names: dataset.to_table(columns=names),
        lambda names: dataset.scanner(columns=names),
        lambda names: dataset.head(3, columns=names),
    ]
    for read in reads:
        with pytest.raises(ColumnNotFound, match=r"no column 'rdi' in the dataset\. Nearest: 'rid'"):
            read(["i32", "rdi"])


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


@needs_lazy
@pytest.mark.parametrize("engine", ["duckdb", "polars", "pyarrow", "duckdb on the dataset"])
def test_an_engine_reads_the_chunks_of_the_rows_and_no_others(tmp_path: Path, engine: str) -> None:
    """Counted byte by byte, as in test_chunks_read."""
    path, names = tmp_path / "x.h5", ("ts", "energy", "other")
    options = {name: cn.column(chunk_rows=100, filters="none") for name in names}
    cn.write(path, {name: np.arange(1000) for name in names}, "t", columns=options, index={"ts": "chunk_minmax"})
    places: dict[str, dict[int, tuple[int, int]]] = {}
    with h5py.File(path) as h5:
        for name in names:
            infos = [h5[f"t/{name}"].id.get_chunk_info(number) for number in range(10)]
            places[name] = {
                info.chunk_offset[0] // 100: (info.byte_offset, info.byte_offset + info.size) for info in infos
            }
    stream = Recorder(path.read_bytes())
    with cn.open(stream, n_threads=1, trust="always") as file, duckdb.connect() as con:
        t = file["t"]
        sources: dict[str, Any] = {"duckdb": t.duckdb(con), "duckdb on the dataset": t.dataset()}
        source, wanted = sources.get(engine), (pc.field("ts") >= 250) & (pc.field("ts") <= 260)
        if source is not None:
            con.register("source", source) if engine != "duckdb" else source.create_view("source")
        stream.reads.clear()
        if engine == "polars":
            total = t.lazy().filter(pl.col("ts").is_between(250, 260)).select(pl.col("energy").sum()).collect().item()
        elif engine == "pyarrow":
            total = pc.sum(t.dataset().to_table(columns=["energy"], filter=wanted)["energy"]).as_py()
        else:
            total = con.sql("select sum(energy) from source where ts between 250 and 260").fetchall()[0][0]
        assert total == sum(range(250, 261))
        assert touched(stream, places) == {"ts": {2}, "energy": {2}}
