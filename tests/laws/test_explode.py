"""`explode` equals a model on Python lists: rows, row numbers, tests, and what is computed of them."""

from __future__ import annotations

import pickle
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import colonnade as cn
from colonnade import limits
from colonnade.errors import ColumnNotFound, UsageError
from tests.laws.test_list_tests import KINDS, list_columns

Row = tuple[int, Any]
"""The number of a row, and its cell."""


def exploded_cells(rows: list[Row], keep_empty: bool) -> list[Row]:
    found: list[Row] = []
    for number, cell in rows:
        found += [(number, element) for element in cell or ()]
        if not cell and keep_empty:
            found.append((number, None))
    return found


def shown(rows: list[Row]) -> str:
    return repr(rows)


@given(st.data())
@settings(max_examples=120, deadline=None)
def test_explode_equals_the_model(data: st.DataObject) -> None:
    kind, depth, cells = data.draw(list_columns())
    stored = KINDS[kind][0]
    for _ in range(depth):
        stored = pa.list_(stored)
    keep_empty = data.draw(st.booleans())
    block, piece = data.draw(st.sampled_from([1, 3, 1 << 16])), data.draw(st.sampled_from([8, 64, 1 << 22]))
    labels = pa.array([f"r{row}" for row in range(len(cells))], pa.string()).dictionary_encode()
    given_rows = {"id": pa.array(range(len(cells)), pa.int64()), "label": labels, "x": pa.array(cells, stored)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.h5"
        cn.write(path, given_rows, "t", layout="h5col", columns={"x": {"chunk_rows": 3}, "id": {"chunk_rows": 2}})
        with cn.open(path) as file, limits.override(piece_bytes=piece, exploded_rows=block):
            query, rows = file["t"]._query(), list(enumerate(cells))
            how = data.draw(st.sampled_from(["all", "where", "taken", "reversed"]))
            if how == "where":
                query, rows = query.where("id % 2 == 1"), rows[1::2]
            elif how == "taken" and cells:
                chosen = data.draw(st.lists(st.integers(0, len(cells) - 1), max_size=5))
                query, rows = query.take(chosen), [rows[row] for row in chosen]
            elif how == "reversed":
                query, rows = query[::-1], rows[::-1]
            query, rows = query.explode("x", keep_empty=keep_empty), exploded_cells(rows, keep_empty)
            if depth == 2 and data.draw(st.booleans()):
                again = data.draw(st.booleans())
                query = query.explode("x", keep_empty=again)
                rows = [
                    (number, cell) for number, inner in rows for _, cell in exploded_cells([(number, inner)], again)
                ]
                depth = 1
            check_rows(query, rows, depth, data)


def check_rows(query: cn.Query, rows: list[Row], depth: int, data: st.DataObject) -> None:
    numbers = [number for number, _ in rows]
    table = query.to_arrow()
    assert shown(list(zip(table["id"].to_pylist(), table["x"].to_pylist(), strict=True))) == shown(rows)
    assert table["label"].to_pylist() == [f"r{number}" for number in numbers]
    assert query.row_numbers().tolist() == numbers and query.count() == len(rows)
    coded = query.to_arrow(dictionaries=True)
    assert pa.types.is_dictionary(coded["label"].type) and coded["label"].to_pylist() == table["label"].to_pylist()
    n = data.draw(st.integers(1, 7))
    batches = list(query.batches(n))
    assert all(batch.num_rows <= n for batch in batches)
    assert shown([cell for batch in batches for cell in batch["x"].to_pylist()]) == shown([cell for _, cell in rows])
    assert shown(query[::-1].to_arrow()["x"].to_pylist()) == shown([cell for _, cell in rows][::-1])
    missing = query.where("x is missing and label != 'r1'").row_numbers().tolist()
    assert missing == [number for number, cell in rows if cell is None and number != 1]
    counted = query.aggregate(by="label", n="count").to_pydict()
    assert dict(zip(counted["label"], counted["n"], strict=True)) == {f"r{x}": numbers.count(x) for x in set(numbers)}
    if depth == 1 and pa.types.is_integer(table["x"].type):
        present = sorted(cell for _, cell in rows if cell is not None)
        assert query.where("x >= 1").count() == sum(cell >= 1 for cell in present)
        assert query.sort_by("x").to_arrow()["x"].to_pylist() == present + [None] * (len(rows) - len(present))
        assert query.aggregate(s=("x", "sum"))["s"] == (sum(present) if present else None)


@pytest.fixture
def table(tmp_path: Path) -> cn.Table:
    rows = {
        "id": [1, 2, 3],
        "w": pa.array([["a", "bb"], None, []]),
        "hits": pa.array([[{"e": 1.5}], [], [{"e": 2.5}, None]], pa.list_(pa.struct({"e": pa.float64()}))),
        "pair": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int8(), 2)),
    }
    cn.write(tmp_path / "t.h5", rows, "t", layout="h5col", index={"id": "sorted_rows"}, title="T")
    return cn.open_table(tmp_path / "t.h5", "t", "r+")


def test_what_is_exploded_is_a_query(table: cn.Table, tmp_path: Path) -> None:
    words = table.select("id", "w").explode("w")
    assert words.where(cn.col("w").startswith("b")).to_arrow().to_pylist() == [{"id": 1, "w": "bb"}]
    assert words.to_pandas().shape == (4, 2)
    assert words.to_polars().shape == (4, 2) and words[1] == {"id": 1, "w": "bb"}
    assert table.explode("pair").select("pair").to_numpy()["pair"].tolist() == [1, 2, 3, 4, 5, 6]
    assert table.explode("hits").where("hits.e > 2").row_numbers().tolist() == [2]
    assert table.select("id", y="w").explode("y").where("y == 'a'").count() == 1
    assert table.where("id > 1").explode("w", keep_empty=False).count() == 0
    assert pickle.loads(pickle.dumps(words.where("w == 'a'"))).count() == 1
    words.write(tmp_path / "out.h5", "words")
    assert cn.read(tmp_path / "out.h5", "words").to_pydict() == words.to_arrow().to_pydict()
    assert cn.open_table(tmp_path / "out.h5", "words").title == "T"
    plan = table.where("id > 1").explode("w").where("w == 'a'").explain()
    assert plan.exploded == "2 rows of elements, where w == 'a'" and plan.predicate == "id > 1"
    assert "exploded" in str(plan) and "4 rows" in repr(words)


def test_a_change_of_the_table_is_seen(table: cn.Table) -> None:
    words = table.explode("w")
    assert words.count() == 4
    with table._file.transaction():
        table.update("w", [1], [["x", "y", "z"]])
        assert words.to_arrow()["w"].to_pylist() == ["a", "bb", "x", "y", "z", None]
        table.append({"id": [4], "w": [["q"]], "hits": [[]], "pair": pa.array([[7, 8]], pa.list_(pa.int8(), 2))})
    assert words.to_arrow()["w"].to_pylist() == ["a", "bb", "x", "y", "z", None, "q"]


def test_mistakes_are_refused(table: cn.Table) -> None:
    with pytest.raises(UsageError, match="column 'id': it holds int64, not lists"):
        table.explode("id")
    with pytest.raises(ColumnNotFound):
        table.select("id").explode("w")
    with pytest.raises(UsageError, match="name of a list column"):
        table.explode(["w"])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="exploded query"):
        table.delete(table.explode("w").where("w == 'a'"))


def test_a_list_that_is_larger_than_memory_is_read_in_parts(tmp_path: Path) -> None:
    n = 8_000_000
    cn.write(tmp_path / "t.h5", {"id": [1, 2], "x": pa.array([np.arange(n), [7]])}, "t", layout="h5col")
    with cn.open(tmp_path / "t.h5") as file:
        query = file["t"].explode("x")
        tracemalloc.start()
        before, total, n_rows = pa.total_allocated_bytes(), 0, 0
        most = before
        for batch in query.batches(100_000):
            total, n_rows = total + batch["x"].to_numpy().sum(), n_rows + batch.num_rows
            most = max(most, pa.total_allocated_bytes())
        peak = tracemalloc.get_traced_memory()[1] + most - before
        tracemalloc.stop()
    assert (n_rows, total) == (n + 1, n * (n - 1) // 2 + 7)
    assert peak < n * 8 // 2
