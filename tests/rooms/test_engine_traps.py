"""What engines mean that differs from what colonnade means, one trap per test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

import colonnade as cn
from colonnade.engines.arrow_expression import CallNode, FieldNode, LiteralNode, columns_of_tree, expression_tree
from colonnade.engines.arrow_filter import ArrowFilter
from colonnade.engines.duckdb import duckdb_source
from colonnade.engines.polars import polars_superset
from colonnade.engines.superset import UNKNOWN, Superset, is_widened
from tests.rooms.engine_rows import INF, NAN, needs_lazy, recorded_supersets, write_rows


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[pa.Table, cn.Table]]:
    path = tmp_path_factory.mktemp("traps") / "rows.h5"
    rows = write_rows(path, 4)
    with cn.open(path) as file:
        yield rows, file["rows"]


def arrow_superset(rows: pa.Table, expression: Any, sql: bool = False) -> Superset:
    return ArrowFilter(expression, rows.schema, sql=sql).superset


@needs_lazy
def test_1_what_is_not_exact_is_filtered_again(opened: tuple[pa.Table, cn.Table]) -> None:
    rows, table = opened
    wanted = (pc.field("i32") > 0) & (pc.add(pc.field("i8"), 1) > 1)
    superset = arrow_superset(rows, wanted)
    assert str(superset.rows) == "i32 > 0" and not superset.exact
    expected = ds.dataset(rows).to_table(filter=wanted)["rid"]
    assert table.dataset().to_table(filter=wanted)["rid"].to_pylist() == expected.to_pylist()
    assert table.dataset().count_rows(filter=wanted) == len(expected)
    lazy = (pl.col("i32") > 0) & (pl.col("i8").cast(pl.Int16) % 2 == 1)
    assert table.lazy().filter(lazy).collect()["rid"].to_list() == pl.DataFrame(rows).filter(lazy)["rid"].to_list()


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">=", "=", "<>"])
@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "0.0", "-0.0", "1.5"])
def test_2_nan_is_greatest_in_sql(opened: tuple[pa.Table, cn.Table], operator: str, value: str) -> None:
    _, table = opened
    with duckdb.connect() as con:
        con.register("rows", opened[0])
        taken = con.from_arrow(duckdb_source(table._query(), takes_all=True))
        for wanted in (f"f64 {operator} '{value}'::double", f"not (f64 {operator} '{value}'::double)"):
            expected = con.sql(f"select rid from rows where {wanted} order by rid").fetchall()
            assert con.sql(f"select rid from taken where {wanted} order by rid").fetchall() == expected
        assert taken is not None


def test_2_nan_equals_nothing_in_pyarrow(opened: tuple[pa.Table, cn.Table]) -> None:
    rows, table = opened
    for value in (NAN, 0.1):
        for wanted in (pc.field("f64") > value, pc.field("f64") == value, pc.field("f64") != value):
            expected = ds.dataset(rows).to_table(filter=wanted)["rid"].to_pylist()
            assert table.dataset().to_table(filter=wanted)["rid"].to_pylist() == expected


@needs_lazy
@pytest.mark.parametrize("name", ["f32", "f64"])
@pytest.mark.parametrize("value", [INF, -INF, NAN, -0.0])
def test_3_infinities_and_nan_are_null_in_json_of_polars(
    opened: tuple[pa.Table, cn.Table], name: str, value: float
) -> None:
    rows, table = opened
    column, frame, lazy = pl.col(name), pl.DataFrame(rows), table.lazy()
    filters = (
        column > value, column >= value, column < value, column <= value, column == value, column != value,
        pl.lit(value) < column, column.is_between(value, 1.0), column.is_in([value, 0.1]), ~(column > value),
    )  # fmt: skip
    for wanted in filters:
        assert lazy.filter(wanted).collect()["rid"].to_list() == frame.filter(wanted)["rid"].to_list(), str(wanted)


@needs_lazy
def test_4_literals_of_float32_are_rounded(opened: tuple[pa.Table, cn.Table]) -> None:
    rows, table = opened
    frame = pl.DataFrame(rows)
    wanted = pl.col("f32") == pl.lit(0.1, pl.Float32)
    assert frame.filter(wanted).height > 0
    with recorded_supersets() as supersets:
        assert table.lazy().filter(wanted).collect().height == frame.filter(wanted).height
    assert supersets[-1].exact and "0.10000000149" in str(supersets[-1].rows)


def test_5_is_in_of_pyarrow_compares_bits_and_is_false_for_missing(opened: tuple[pa.Table, cn.Table]) -> None:
    rows, table = opened
    zeros, numbers = pa.array([0.0]), pa.array([0, None], pa.int32())
    for wanted in (
        pc.field("f64").isin(zeros), ~pc.field("f64").isin(zeros),
        pc.field("i32").isin(numbers), ~pc.field("i32").isin(numbers),
        pc.is_in(pc.field("i32"), numbers, skip_nulls=True), ~pc.is_in(pc.field("i32"), numbers, skip_nulls=True),
    ):  # fmt: skip
        expected = ds.dataset(rows).to_table(filter=wanted)["rid"].to_pylist()
        assert table.dataset().to_table(filter=wanted)["rid"].to_pylist() == expected, str(wanted)
    not_in = ~pc.field("i32").isin(pa.array([0], pa.int32()))
    assert str(arrow_superset(rows, not_in).rows) == "(not i32 in (0)) or i32 is missing"
    assert str(arrow_superset(rows, not_in, sql=True).rows) == "not i32 in (0)"
    assert arrow_superset(rows, ~pc.field("i32").isin(numbers), sql=True) == Superset(False)


def test_6_literals_that_pyarrow_cannot_cast_are_no_obstacle(opened: tuple[pa.Table, cn.Table]) -> None:
    rows, table = opened
    expected = [row for row, value in enumerate(rows["u64"].to_pylist()) if value is not None and value > 5]
    assert table.dataset().to_table(filter=pc.field("u64") > 5)["rid"].to_pylist() == expected


@needs_lazy
def test_7_when_takes_otherwise_for_an_unknown_test(opened: tuple[pa.Table, cn.Table]) -> None:
    rows, table = opened
    frame, condition = pl.DataFrame(rows), pl.col("i32") > 0
    for yes, no in ((pl.col("b"), pl.lit(False)), (pl.lit(False), pl.col("b")), (pl.col("b"), ~pl.col("b"))):
        for wanted in (pl.when(condition).then(yes).otherwise(no), ~pl.when(condition).then(yes).otherwise(no)):
            assert table.lazy().filter(wanted).collect()["rid"].to_list() == frame.filter(wanted)["rid"].to_list()


def test_9_a_constant_may_be_a_plain_scalar(opened: tuple[pa.Table, cn.Table]) -> None:
    _, table = opened
    dataset: Any = table.dataset().filter(pc.field("rid") < 7)
    for value, count in ((True, 7), (False, 0), (None, 0)):
        assert dataset.count_rows(filter=pa.scalar(value, pa.bool_())) == count
        assert dataset.count_rows(filter=pc.scalar(pa.scalar(value, pa.bool_()))) == count


def test_10_rows_without_columns_are_counted(opened: tuple[pa.Table, cn.Table]) -> None:
    _, table = opened
    assert table.dataset().to_table(columns=[], filter=pc.field("rid") < 7).num_rows == 7
    unclear = pc.add(pc.field("rid"), 1) < 8
    assert table.dataset().to_table(columns=[], filter=unclear).num_rows == 7


def test_11_fragments_are_given_the_filter_again(opened: tuple[pa.Table, cn.Table]) -> None:
    _, table = opened
    for dataset in (table.dataset(), table.dataset(sql=True)):
        wanted = pc.field("rid") < 7
        parts: Any = list(dataset.get_fragments(filter=wanted))
        rows = [row for part in parts for row in part.to_table(filter=wanted, columns=["rid"])["rid"].to_pylist()]
        assert rows == list(range(7))


def test_11_fragments_cover_every_row_once(opened: tuple[pa.Table, cn.Table], monkeypatch: pytest.MonkeyPatch) -> None:
    _, table = opened
    monkeypatch.setattr("colonnade.engines.dataset.FRAGMENT_ROWS", 100)
    monkeypatch.setattr("colonnade.engines.dataset.SCAN_ROWS", 100)
    table._file._n_threads = 7
    wanted = pc.field("i32") == 3
    dataset = table.dataset(sql=True)
    parts: Any = list(dataset.get_fragments())
    assert len(parts) > 5
    assert [row for part in parts for row in part.to_table()["rid"].to_pylist()] == list(range(len(table)))
    chosen: Any = list(dataset.get_fragments(filter=wanted))
    rows = [row for part in chosen for row in part.to_table(filter=wanted)["rid"].to_pylist()]
    assert rows == table.where("i32 = 3").row_numbers().tolist()
    assert list(dataset.get_fragments(filter=pc.field("i32") == pa.scalar(None, pa.int32()))) == []


def test_12_like_of_dictionaries(opened: tuple[pa.Table, cn.Table]) -> None:
    """pyarrow has no kernel for it: a filter that must be applied again is applied to strings."""
    rows, table = opened
    wanted = pc.match_like(pc.field("k"), "%on") & (pc.add(pc.field("i8"), 1) > 1)
    expected = ds.dataset(rows).to_table(filter=wanted)
    answer = table.dataset(dictionaries=True).to_table(filter=wanted)
    assert pa.types.is_dictionary(answer.schema.field("k").type)
    assert answer["k"].to_pylist() == expected["k"].to_pylist() and answer["rid"].equals(expected["rid"])


@needs_lazy
def test_13_wide_integers_against_floats_are_left_to_the_engine(opened: tuple[pa.Table, cn.Table]) -> None:
    rows, table = opened
    assert arrow_superset(rows, pc.field("i64") > 2.0**53) is UNKNOWN
    assert arrow_superset(rows, pc.field("f64") > 2**53 + 1) is UNKNOWN
    assert arrow_superset(rows, pc.field("i64") > 2.5).exact
    frame = pl.DataFrame(rows)
    for wanted in (pl.col("i64") > 2.0**53, pl.col("i64") == 2.0**53, pl.col("f64") >= 2**53 + 1):
        assert table.lazy().filter(wanted).collect()["rid"].to_list() == frame.filter(wanted)["rid"].to_list()


def test_14_zoned_timestamps_of_duckdb_are_microseconds(opened: tuple[pa.Table, cn.Table]) -> None:
    _, table = opened
    with duckdb.connect() as con:
        con.execute("set timezone='UTC'")
        con.register("rows", opened[0])
        taken = con.from_arrow(duckdb_source(table._query(), takes_all=True))
        for name in ("z_us", "z_ms"):
            for text in ("2020-01-01 00:00:00+00", "2020-06-01 12:00:00+00", "2020-06-01 12:00:00.0005+00"):
                wanted = f"{name} >= timestamptz '{text}'"
                expected = con.sql(f"select rid from rows where {wanted} order by rid").fetchall()
                assert con.sql(f"select rid from taken where {wanted} order by rid").fetchall() == expected
        assert taken is not None


# -- the parts --


def test_the_tree_of_an_expression() -> None:
    wanted = (pc.field("a") > 1) & pc.field("s", "x").isin([1, 2])
    tree = expression_tree(wanted)
    assert isinstance(tree, CallNode) and tree.function == "and_kleene"
    greater, among = tree.arguments
    assert isinstance(greater, CallNode) and greater.arguments[0] == FieldNode(("a",))
    assert isinstance(greater.arguments[1], LiteralNode) and greater.arguments[1].scalar.as_py() == 1
    assert isinstance(among, CallNode) and among.arguments[0] == FieldNode(("s", "x"))
    assert columns_of_tree(tree) == {"a", "s"}


def test_fields_inside_columns_and_unknown_functions_rule_out_nothing() -> None:
    schema = pa.schema({"s": pa.struct({"x": pa.int64()}), "a": pa.int64(), "t": pa.string()})
    for wanted in (
        pc.field("s", "x") > 1, pc.equal(pc.field("a"), pc.field("a")) & (pc.field("s", "x") > 1),
        pc.match_substring(pc.field("t"), "a", ignore_case=True), pc.field("missing") > 1, pc.field("a") == "text",
    ):  # fmt: skip
        assert not ArrowFilter(wanted, schema).superset.exact


def test_deep_filters_are_left_to_the_engine(opened: tuple[pa.Table, cn.Table]) -> None:
    rows, _ = opened
    wanted = pc.field("i32") > 0
    for number in range(400):
        wanted = ~wanted & (pc.field("i8") > number % 100) if number % 2 else ~wanted | (pc.field("i8") > 3)
    superset = arrow_superset(rows, wanted)
    assert superset.rows is True or isinstance(superset.rows, cn.Predicate)


def test_functions_of_python_are_left_to_polars() -> None:
    schema = pa.schema({"a": pa.int64()})
    limits = {1: 2}
    wanted = pl.col("a").map_elements(lambda x: limits.get(x, 0) > 1, return_dtype=pl.Boolean)
    assert polars_superset(wanted, schema) is UNKNOWN


@pytest.mark.parametrize(
    ("kind", "target", "same"),
    [
        (pa.int8(), pa.int64(), True), (pa.int64(), pa.int8(), False), (pa.uint8(), pa.int16(), True),
        (pa.uint8(), pa.int8(), False), (pa.int8(), pa.uint64(), False), (pa.int32(), pa.float64(), True),
        (pa.int32(), pa.float32(), False), (pa.int64(), pa.float64(), False), (pa.float32(), pa.float64(), True),
        (pa.float64(), pa.float32(), False), (pa.timestamp("s"), pa.timestamp("ns"), True),
        (pa.timestamp("ns"), pa.timestamp("s"), False), (pa.date32(), pa.timestamp("us"), True),
        (pa.string(), pa.large_string(), True), (pa.string(), pa.binary(), False),
    ],
)  # fmt: skip
def test_casts_that_change_no_value(kind: pa.DataType, target: pa.DataType, same: bool) -> None:
    assert is_widened(kind, target) is same


# -- what is read --


def test_a_filter_is_taken_where_indexes_leave_few_rows(tmp_path: Path) -> None:
    n = 20_000
    labels = np.array(["muon", "pion", "electron"])[np.arange(n) % 3]
    data = {"ts": np.arange(n), "energy": np.arange(n) / 7, "label": labels, "name": labels}
    options = {name: cn.column(chunk_rows=1000) for name in data}
    cn.write(tmp_path / "x.h5", data, "t", columns=options, index={"ts": "chunk_minmax", "name": "bitmap"})
    with cn.open(tmp_path / "x.h5") as file:
        t = file["t"]
        plans = {text: t.where(text).explain() for text in (
            "ts < 100", "ts < 15000", "energy < 3", "label = 'muon'", "label = 'muon' and energy < 3", "name = 'muon'",
            "name in ('muon', 'pion')",
        )}  # fmt: skip
        assert {text: plan.is_selective for text, plan in plans.items()} == {
            "ts < 100": True, "ts < 15000": False, "energy < 3": False, "label = 'muon'": True,
            "label = 'muon' and energy < 3": False, "name = 'muon'": True, "name in ('muon', 'pion')": False,
        }  # fmt: skip
