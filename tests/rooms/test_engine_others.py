"""DataFusion, Ibis and narwhals over a table, where they are installed (`./test --engines` installs them)."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import colonnade as cn
from tests.laws.engine_predicates import sql_filter
from tests.rooms.engine_rows import POOLS, needs_lazy, recorded_supersets, write_rows

N_FILTERS = int(os.environ.get("COLONNADE_FILTERS", "300"))


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[pa.Table, cn.Table]]:
    path: Path = tmp_path_factory.mktemp("engines") / "rows.h5"
    rows = write_rows(path)
    with cn.open(path) as file:
        yield rows, file["rows"]


def expected_rows(rows: pa.Table) -> int:
    pairs = zip(rows["i32"].to_pylist(), rows["k"].to_pylist(), strict=True)
    return sum(1 for number, label in pairs if number is not None and number > 0 and label == "tau")


def collected(context: Any, query: str) -> list[int]:
    return sorted(row for batch in context.sql(query).collect() for row in batch.column(0).to_pylist())


@pytest.mark.parametrize("names", [["f32", "f64", "i32"], [name for name in POOLS if name not in ("f32", "f64")]])
def test_datafusion(opened: tuple[pa.Table, cn.Table], names: list[str]) -> None:
    datafusion = pytest.importorskip("datafusion")
    rows, table = opened
    context = datafusion.SessionContext()
    context.register_dataset("d", table.dataset(sql=True))
    context.from_arrow(rows, name="memory")
    rng, wrong, n_refused = random.Random(11), [], 0
    with recorded_supersets() as supersets:
        for _ in range(N_FILTERS):
            wanted = sql_filter(rng, "datafusion", names)
            try:
                expected = collected(context, f"select rid from memory where {wanted}")
            except Exception:  # noqa: BLE001 - DataFusion does not understand it
                n_refused += 1
                continue
            answer = collected(context, f"select rid from d where {wanted}")
            if answer != expected:
                wrong.append((wanted, len(expected), len(answer)))
    assert not wrong, wrong[:3]
    assert n_refused < N_FILTERS / 2
    assert sum(superset.rows is not True for superset in supersets) > N_FILTERS / 4


def test_datafusion_filters_that_are_not_exact(opened: tuple[pa.Table, cn.Table]) -> None:
    """What the file cannot answer is filtered again by the rules of SQL, not by those of pyarrow."""
    datafusion = pytest.importorskip("datafusion")
    rows, table = opened
    context = datafusion.SessionContext()
    context.register_dataset("d", table.dataset(sql=True))
    context.from_arrow(rows, name="memory")
    for wanted in (
        "i64 > 2.5e16 or f64 > 1.5", "not (i64 > 2.5e16 or f64 <= 1.5)", "i64 < 1e17 and f64 >= 'nan'::double",
        "i64 > 2.5e16 or f64 in (0.0, 'nan'::double)", "not (i64 < 1e17 and f32 in (0.1, 1.5))",
    ):  # fmt: skip
        query = "select rid from {} where " + wanted
        assert collected(context, query.format("d")) == collected(context, query.format("memory")), wanted


@needs_lazy
def test_ibis(opened: tuple[pa.Table, cn.Table]) -> None:
    ibis = pytest.importorskip("ibis")
    rows, table = opened
    with recorded_supersets() as supersets:
        events = ibis.memtable(table.dataset())
        count = ibis.duckdb.connect().execute(events.filter((events.i32 > 0) & (events.k == "tau")).rid.count())
    assert int(count) == expected_rows(rows)
    assert str(supersets[-1].rows) == "i32 > 0 and k == 'tau'"
    with recorded_supersets() as supersets:
        connection = ibis.polars.connect({"x": table.lazy()})
        events = connection.table("x")
        count = connection.execute(events.filter((events.i32 > 0) & (events.k == "tau")).rid.count())
    assert int(count) == expected_rows(rows)
    assert "i32 > 0" in str(supersets[-1].rows) and "k == 'tau'" in str(supersets[-1].rows)


@needs_lazy
def test_narwhals(opened: tuple[pa.Table, cn.Table]) -> None:
    narwhals = pytest.importorskip("narwhals")
    rows, table = opened
    lazy = narwhals.from_native(table.lazy())
    with recorded_supersets() as supersets:
        wanted = (narwhals.col("i32") > 0) & (narwhals.col("k") == "tau")
        count = lazy.filter(wanted).select(narwhals.len()).collect().item()
    assert count == expected_rows(rows)
    assert "i32 > 0" in str(supersets[-1].rows)
