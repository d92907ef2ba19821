"""A table of every type that engines filter by, with NaN, missing rows, -0.0, infinities and the ends of ranges."""

from __future__ import annotations

import datetime as dt
import decimal
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.engines import arrow_filter, duckdb, polars
from colonnade.engines.superset import Superset

N_ROWS, CHUNK_ROWS = 2500, 128
# Polars before 1.34 has no sources written in Python that it gives its filters.
needs_lazy = pytest.mark.skipif(tuple(map(int, pl.__version__.split(".")[:2])) < (1, 34), reason="needs Polars 1.34")
INF, NAN = float("inf"), float("nan")


def moment(year: int, month: int, day: int, hour: int = 0) -> dt.datetime:
    return dt.datetime(year, month, day, hour, tzinfo=dt.UTC)


POOLS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i8": (pa.int8(), [-128, -1, 0, 1, 5, 127]),
    "i32": (pa.int32(), [-(2**31), -7, 0, 3, 2**24 + 1, 2**31 - 1]),
    "i64": (pa.int64(), [-(2**63) + 1, -5, 0, 2**53, 2**53 + 1, 2**63 - 1]),
    "u64": (pa.uint64(), [0, 1, 2**53 + 1, 2**63 + 1, 2**64 - 2]),
    "f32": (pa.float32(), [NAN, -0.0, 0.0, 0.1, 1.5, INF, -INF, 16777216.0]),
    "f64": (pa.float64(), [NAN, -0.0, 0.0, 0.1, 1.5, INF, -INF, 2.0**53]),
    "b": (pa.bool_(), [True, False]),
    "s": (pa.string(), ["", "a", "ab", "abc", "b", "é", "zz", "A", "%", "a_b", "a\\b"]),
    "k": (pa.string(), ["muon", "pion", "kaon", "tau"]),
    "d": (pa.date32(), [dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2020, 2, 29), dt.date(2262, 1, 1)]),
    "t_s": (
        pa.timestamp("s"),
        [dt.datetime(1969, 12, 31, 23, 59, 59), dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 0, 0, 1)],
    ),
    "t_us": (
        pa.timestamp("us"),
        [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 0, 0, 0, 1), dt.datetime(2021, 5, 5, 5, 5, 5, 555555)],
    ),
    "t_ns": (pa.timestamp("ns"), [np.datetime64(n, "ns") for n in (1577836800000000001, 1577836800000000002, 0)]),
    "z_us": (pa.timestamp("us", "UTC"), [moment(2020, 1, 1), moment(2020, 6, 1, 12)]),
    "z_ms": (pa.timestamp("ms", "Europe/Berlin"), [moment(2020, 1, 1), moment(2020, 6, 1, 12)]),
    "dec": (pa.decimal128(10, 2), [decimal.Decimal(text) for text in ("-1.25", "0.00", "0.10", "99999999.99")]),
    "tm": (pa.time64("us"), [dt.time(0), dt.time(12, 30), dt.time(23, 59, 59, 999999)]),
    "bin": (pa.binary(), [b"", b"a", b"\x00\xff", b"zz"]),
}

INDEXES = {
    "i32": ["chunk_minmax", "sorted_rows"], "i64": "chunk_minmax", "u64": "chunk_minmax",
    "f64": ["chunk_minmax", "sorted_rows"], "f32": "chunk_minmax", "k": "bitmap", "s": ["sorted_rows", "chunk_bloom"],
    "d": "chunk_minmax", "t_us": "chunk_minmax", "t_ns": "chunk_minmax", "z_us": ["chunk_minmax", "sorted_rows"],
    "z_ms": "chunk_minmax", "t_s": "sorted_rows", "b": "bitmap",
}  # fmt: skip


def random_rows(seed: int) -> pa.Table:
    """Rows in runs, so that chunks differ and indexes rule some of them out."""
    rng = random.Random(seed)
    columns = {"rid": pa.array(range(N_ROWS), pa.int64())}
    for name, (kind, pool) in POOLS.items():
        values: list[Any] = []
        while len(values) < N_ROWS:
            drawn = rng.sample(pool, rng.randint(1, len(pool))) + ([None] if rng.random() < 0.6 else [])
            values += [rng.choice(drawn) for _ in range(rng.choice((5, 60, 200)))]
        columns[name] = pa.array(values[:N_ROWS], kind)
    return pa.table(columns)


def write_rows(path: Path, seed: int = 1) -> pa.Table:
    """Writes the rows with indexes, and returns them."""
    rows = random_rows(seed)
    options = {
        name: cn.column(chunk_rows=CHUNK_ROWS, strings="categories" if name == "k" else "auto")
        for name in rows.column_names
    }
    cn.write(path, rows, table="rows", columns=options, index=INDEXES)
    return rows


@contextmanager
def recorded_supersets() -> Iterator[list[Superset]]:
    """What each filter that an engine gives was translated to, from now on."""
    supersets: list[Superset] = []
    owners: tuple[Any, ...] = (arrow_filter.ArrowTranslator, duckdb.NodeTranslator, polars.PolarsTranslator)
    translate = [owner.superset for owner in owners]
    depth = 0

    def recorder(original: Any) -> Any:
        def superset(self: Any, tree: Any, negated: bool = False) -> Superset:
            nonlocal depth
            depth += 1
            try:
                answer: Superset = original(self, tree, negated)
            finally:
                depth -= 1
            if not depth:
                supersets.append(answer)
            return answer

        return superset

    for owner, original in zip(owners, translate, strict=True):
        owner.superset = recorder(original)
    try:
        yield supersets
    finally:
        for owner, original in zip(owners, translate, strict=True):
            owner.superset = original
