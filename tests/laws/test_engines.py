"""An engine over a table answers a random filter as the same engine over the same rows in memory."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import colonnade as cn
from colonnade.engines.duckdb import duckdb_source
from colonnade.engines.polars import lazy_frame
from tests.laws.engine_predicates import arrow_filter, polars_filter, sql_filter
from tests.rooms.engine_rows import needs_lazy, recorded_supersets, write_rows

N_FILTERS = int(os.environ.get("COLONNADE_FILTERS", "300"))  # of each engine


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[pa.Table, cn.Table]]:
    path = tmp_path_factory.mktemp("engines") / "rows.h5"
    rows = write_rows(path)
    with cn.open(path) as file:
        yield rows, file["rows"]


@pytest.mark.parametrize("dictionaries", [False, True])
def test_pyarrow(opened: tuple[pa.Table, cn.Table], dictionaries: bool) -> None:
    rows, table = opened
    dataset, memory = table.dataset(dictionaries=dictionaries), ds.dataset(rows)
    rng, wrong = random.Random(2), []
    with recorded_supersets() as supersets:
        for _ in range(N_FILTERS):
            wanted = arrow_filter(rng)
            expected = memory.to_table(columns=["rid"], filter=wanted)["rid"].to_pylist()
            answer = dataset.to_table(columns=["rid"], filter=wanted)["rid"].to_pylist()
            if answer != expected or dataset.count_rows(filter=wanted) != len(expected):
                wrong.append((str(wanted), len(expected), len(answer)))
    assert not wrong, wrong[:3]
    assert sum(superset.exact for superset in supersets) > len(supersets) / 2


@pytest.mark.parametrize(
    "source", ["dataset", "dataset of dictionaries", "relation", "relation that takes all filters"]
)
def test_duckdb(opened: tuple[pa.Table, cn.Table], source: str) -> None:
    rows, table = opened
    with duckdb.connect() as con:
        con.execute("set threads=2; set timezone='UTC'")
        con.register("rows", rows)
        if source.startswith("dataset"):
            con.register("d", table.dataset(dictionaries=source != "dataset"))
        else:
            con.from_arrow(duckdb_source(table._query(), takes_all=source != "relation")).create_view("d")
        rng, wrong = random.Random(7), []
        with recorded_supersets() as supersets:
            for _ in range(N_FILTERS):
                wanted = sql_filter(rng)
                expected = sorted(con.sql(f"select rid from rows where {wanted}").fetchall())
                answer = sorted(con.sql(f"select rid from d where {wanted}").fetchall())
                if answer != expected:
                    wrong.append((wanted, len(expected), len(answer)))
        assert not wrong, wrong[:3]
        assert sum(superset.rows is not True for superset in supersets) > N_FILTERS / 3


@needs_lazy
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
@pytest.mark.parametrize("takes_all", [False, True])
def test_polars(opened: tuple[pa.Table, cn.Table], engine: str, takes_all: bool) -> None:
    rows, table = opened
    frame, lazy = pl.DataFrame(rows), lazy_frame(table._query(), takes_all=takes_all)
    rng, wrong = random.Random(3), []
    with recorded_supersets() as supersets:
        for _ in range(N_FILTERS):
            wanted = polars_filter(rng)
            expected = frame.filter(wanted)["rid"].to_list()
            answer = lazy.filter(wanted).select("rid").collect(engine=engine)["rid"].to_list()
            if answer != expected:
                wrong.append((str(wanted), len(expected), len(answer)))
    assert not wrong, wrong[:3]
    assert sum(superset.rows is not True for superset in supersets) > N_FILTERS / 3
    assert sum(superset.exact for superset in supersets) > N_FILTERS / 2
