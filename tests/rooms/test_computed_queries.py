"""Queries with computed columns in every verb of a Query: sorted, described, counted, written, pickled."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import colonnade as cn


@pytest.fixture
def table(tmp_path: Path) -> cn.Table:
    data = {"id": [3, 1, 2], "a": [1.0, None, 4.0], "label": ["x", "y", None]}
    units = {"a": cn.column(units="MeV", fill=-1.0)}
    cn.write(tmp_path / "t.h5", data, "t", columns=units, labels=["id"])
    with cn.open(tmp_path / "t.h5", "r+") as file:
        file["t"]["a"].attrs["note"] = "as stored"
    return cn.open_table(tmp_path / "t.h5", "t")


def test_sorted_by_a_computed_column(table: cn.Table) -> None:
    query = table.select("id", double=cn.col("a") * 2).sort_by(("double", "descending"))
    expected = [{"id": 2, "double": 8.0}, {"id": 3, "double": 2.0}, {"id": 1, "double": None}]
    assert query.to_arrow().to_pylist() == expected == list(query) == list(pickle.loads(pickle.dumps(query)))
    assert query.head(1).to_arrow().to_pylist() == expected[:1] == query.where("double > 5").to_arrow().to_pylist()
    assert query[1:].to_arrow().to_pylist() == expected[1:] and "double descending" in str(query.explain())


def test_described_counted_and_sampled(table: cn.Table) -> None:
    query = table.select("id", double="a * 2", upper="upper(label)")
    assert query.describe().to_pandas().loc["max", "double"] == 8.0
    assert query.histogram("double", [0, 4, 10]).bins["count"].to_pylist() == [1, 1]
    assert query.distinct("upper").to_pydict() == {"upper": ["X", "Y", None]}
    assert query.sample(3, seed=1).to_arrow().to_pylist() == query.to_arrow().to_pylist()


@pytest.mark.parametrize("suffix", [".h5", ".parquet", ".arrow", ".jsonl"])
@pytest.mark.parametrize("is_sorted", [False, True])
def test_written_to_other_files(tmp_path: Path, table: cn.Table, suffix: str, is_sorted: bool) -> None:
    query = table.select("id", "a", double=cn.col("a") * 2, upper="upper(label)")
    query = query.sort_by("double") if is_sorted else query
    query.write(tmp_path / f"out{suffix}")
    cn.convert(tmp_path / f"out{suffix}", tmp_path / "back.h5")
    with cn.open(tmp_path / "back.h5") as file:
        found = file[file.tables()[0]].to_arrow()
    assert found.select(["id", "a", "double", "upper"]).to_pylist() == query.to_arrow().to_pylist()


def test_a_computed_column_that_hides_a_stored_one_takes_none_of_its_options(tmp_path: Path, table: cn.Table) -> None:
    """Its fill, units, attributes and its role as a label belong to the column that is hidden."""
    table.select("label", a="length(label)", id="upper(label)").write(tmp_path / "out.h5", table="t")
    with cn.open(tmp_path / "out.h5") as file:
        written = file["t"]
        assert written.labels == [] and written["a"].units is None and dict(written["a"].attrs) == {}
        assert written["a"].to_arrow().to_pylist() == [1, 1, None] and pa.types.is_integer(written["a"].dtype)
        assert written["id"].to_arrow().to_pylist() == ["X", "Y", None]
    assert cn.check(tmp_path / "out.h5", deep=True) == []


def test_no_rows(tmp_path: Path, table: cn.Table) -> None:
    query = table.where("a > 100").select("label", double=cn.col("a") * 2)
    for suffix in (".h5", ".parquet"):
        query.write(tmp_path / f"none{suffix}")
    assert cn.read(tmp_path / "none.h5", "t").schema.field("double").type == pa.float64()
    assert query.sort_by("double").to_arrow().num_rows == 0 and list(query) == []


def test_many_rows_are_sorted_as_arrow_sorts_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    data = pa.table({"a": rng.normal(size=20_001), "b": rng.integers(0, 5, 20_001)})
    cn.write(tmp_path / "t.h5", data, "t")
    query = cn.open_table(tmp_path / "t.h5", "t").select("a", quotient=cn.col("a") / cn.col("b")).sort_by("quotient")
    with np.errstate(divide="ignore"):
        quotient = pa.array(data["a"].to_numpy() / data["b"].to_numpy())
    order = pc.array_sort_indices(quotient)
    assert query.to_arrow()["a"].equals(data["a"].take(order))


def test_a_file_that_exists_is_replaced_on_request(tmp_path: Path, table: cn.Table) -> None:
    query = table.select(double="a * 2")
    query.write(tmp_path / "out.csv")
    with pytest.raises(cn.errors.UsageError, match="mode='replace' replaces it"):
        query.write(tmp_path / "out.csv")
    query.write(tmp_path / "out.csv", mode="replace")


def test_columns_computed_after_sorting(table: cn.Table) -> None:
    query = table.sort_by("a").select("id", double=cn.col("a") * 2)
    expected = [{"id": 3, "double": 2.0}, {"id": 2, "double": 8.0}, {"id": 1, "double": None}]
    assert query.to_arrow().to_pylist() == expected == list(pickle.loads(pickle.dumps(query)))
    assert query.head(2).to_arrow().to_pylist() == expected[:2] == query.where("double > 1").to_arrow().to_pylist()
    assert query.sort_by("double").select("id").to_arrow()["id"].to_pylist() == [3, 2, 1]


def test_rows_stay_in_the_order_of_a_column_that_is_hidden_later(table: cn.Table) -> None:
    assert list(table.sort_by("id").select(id="-id")) == [{"id": -1}, {"id": -2}, {"id": -3}]
    twice = table.sort_by("id").select("label", id="-id").sort_by("id")
    assert list(twice.select("id")) == [{"id": -3}, {"id": -2}, {"id": -1}]


def test_an_index_of_a_column_that_is_hidden_is_not_asked(tmp_path: Path) -> None:
    data = {"x": range(1000), "k": [x % 5 for x in range(1000)]}
    cn.write(tmp_path / "t.h5", data, "t", index={"x": ["sorted_rows", "chunk_minmax"], "k": "bitmap"})
    with cn.open(tmp_path / "t.h5", trust="always") as file:
        query = file["t"].select(x="-x", k="k * 10")
        assert query.aggregate({"x": ["min", "max", "median"], "k": ["max", "count_distinct"]}) == {
            "x_min": -999, "x_max": 0, "x_median": -499.5, "k_max": 40, "k_count_distinct": 5,
        }  # fmt: skip
        assert query.sort_by("x").head(2).to_arrow()["x"].to_pylist() == [-999, -998]
        assert query.sort_by("x").row_numbers()[:2].tolist() == [999, 998]
        assert query.histogram("k", 2).bins["count"].to_pylist() == [400, 600]
        assert query.describe()["x"]["max"] == 0 and query.where("x < -997").count() == 2


def test_expressions_wherever_a_column_is_named(tmp_path: Path) -> None:
    a, pos = cn.col("a"), [{"x": 3}, {"x": 1}, {"x": 2}]
    cn.write(tmp_path / "t.h5", {"id": [3, 1, 2], "a": [1.0, None, -4.0], "label": ["x", "Y", None], "pos": pos}, "t")
    table = cn.open_table(tmp_path / "t.h5", "t")
    for key in (abs(a), "abs(a)"):
        assert table.sort_by((key, "descending")).row_numbers().tolist() == [2, 0, 1]
        assert table.sort_by(key).head(1).row_numbers().tolist() == [0]
        assert table.distinct(key).to_pydict() == {"abs(a)": [1.0, 4.0, None]}
        assert table.aggregate(by=key, n="count")["n"].to_pylist() == [1, 1, 1]
        assert table.histogram(key, [0, 2, 9], by=cn.col("label").lower()).bins["count"].to_pylist() == [
            1,
            0,
            0,
            0,
            0,
            1,
        ]
    assert (
        table.sort_by("pos.x").row_numbers().tolist()
        == table.sort_by("pos.x", "id").row_numbers().tolist()
        == [1, 2, 0]
    )
    sorted_twice = table.sort_by(cn.col("label").upper()).sort_by("abs(a)")
    assert sorted_twice.row_numbers().tolist() == [0, 2, 1] and "abs(a), upper(label)" in str(sorted_twice.explain())
    assert sum(column.column == "a" for column in sorted_twice.select("id").explain().columns) == 1
    with pytest.raises(cn.errors.ColumnNotFound, match="no column 'nosuch'"):
        table.sort_by("nosuch")
    with pytest.raises(cn.errors.ColumnNotFound, match="no column 'b'"):
        table.sort_by("a + b")


def test_distinct_takes_lists_and_columns_of_python(table: cn.Table) -> None:
    assert table.distinct(["label", "id"]).to_pydict() == {"label": ["x", "y", None], "id": [3, 1, 2]}
    assert table.distinct("label").equals(table.distinct(cn.col("label")))


def test_bins_and_seeds_that_are_none(table: cn.Table) -> None:
    assert table.histogram("a", np.int64(2)).bins.equals(table.histogram("a", 2).bins)
    for bins in (2.5, "two"):
        with pytest.raises(cn.errors.UsageError, match="a number, or a list of edges, not"):
            table.histogram("a", bins)  # type: ignore[arg-type]
    with pytest.raises(cn.errors.UsageError, match="name the columns"):
        table.distinct()
    with pytest.raises(cn.errors.UsageError, match="seed of a sample"):
        table.sample(1, seed="a")  # type: ignore[arg-type]
    with pytest.raises(cn.errors.UsageError, match="one by one: sort_by"):
        table.sort_by(["id", "a"])  # type: ignore[arg-type]
    assert str(table.describe("id")) == str(table.describe(["id"]))
