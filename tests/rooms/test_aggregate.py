"""Aggregation: what the results look like, what is refused, and what is not read."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade import limits
from colonnade.columns.coded import Categories
from colonnade.columns.read import ColumnReader
from colonnade.errors import ColumnNotFound, CorruptError, DataError, UsageError
from colonnade.pager.scratch import ScratchFolder

NAN = math.nan
DAY = dt.datetime(2026, 1, 31)


@pytest.fixture
def events(tmp_path: Path) -> cn.Table:
    labels = pa.array(["pion", "muon", None, "muon", "pion", "tau"]).dictionary_encode()
    grades = pa.DictionaryArray.from_arrays([1, 0, 1, None, 2, 0], ["low", "mid", "high"], ordered=True)
    data = pa.table(
        {
            "ts": pa.array([1, 2, 3, 4, 5, 6]),
            "energy": pa.array([1.5, None, 2.5, NAN, 4.0, 0.5]),
            "label": labels,
            "grade": grades,
            "ok": pa.array([True, False, None, True, True, False]),
            "when": pa.array([DAY + dt.timedelta(hours=hour) for hour in range(6)], pa.timestamp("us")),
            "lasts": pa.array([dt.timedelta(seconds=s) for s in range(6)], pa.duration("ms")),
            "price": pa.array([Decimal("0.10"), Decimal("0.20"), None, None, None, None], pa.decimal128(5, 2)),
            "name": pa.array(["b", "é", "a", "z", None, "aa"]),
            "pair": pa.array([[1, 2], [3], None, [], [4], [5]], pa.list_(pa.int8())),
            "side": pa.array(["l", "r", "l", "l", "r", None]).dictionary_encode(),
        }
    )
    cn.write(tmp_path / "x.h5", data, table="t", columns={"side": cn.column(enum=True)})
    return cn.open_table(tmp_path / "x.h5")


# -- shape --


def test_names_given_or_made(events: cn.Table) -> None:
    """Keywords give names; a mapping of columns makes them."""
    assert events.aggregate(n="count", top=("ts", "max"), mean=("ts", "mean")) == {"n": 6, "top": 6, "mean": 3.5}
    assert events.aggregate({"ts": "mean", "label": "count"}) == {"ts_mean": 3.5, "label_count": 5}
    assert events.aggregate({"ts": ["min", "max"]}, n="count") == {"ts_min": 1, "ts_max": 6, "n": 6}
    assert events.where("ts > 4").aggregate(n="count", mean=("ts", "mean")) == {"n": 2, "mean": 5.5}
    assert events.select("ts")[2:4].aggregate(low=("energy", "min")) == {"low": 2.5}
    assert events.where("ts > 1")[:2].aggregate({"ts": "sum"}) == {"ts_sum": 5}


def test_groups_are_rows_of_a_table(events: cn.Table) -> None:
    got = events.aggregate(n="count", mean=("energy", "mean"), low=("energy", "min"), by="label")
    assert isinstance(got, pa.Table) and got.column_names == ["label", "n", "mean", "low"]
    assert got["label"].to_pylist() == ["muon", "pion", "tau", None]
    assert got["n"].to_pylist() == [2, 2, 1, 1]
    assert str(got["mean"].to_pylist()) == "[nan, 2.75, 0.5, 2.5]"
    assert str(got["low"].to_pylist()) == "[nan, 1.5, 0.5, 2.5]"
    assert got.schema.field("label").type == events.schema.field("label").type
    assert [got.schema.field(name).type for name in ("n", "mean", "low")] == [pa.int64(), pa.float64(), pa.float64()]


def test_groups_of_two_columns_and_groups_alone(events: cn.Table) -> None:
    got = events.aggregate({"ts": "sum"}, by=["ok", "label"])
    rows = [tuple(row.values()) for row in got.to_pylist()]
    assert rows == [(False, "muon", 2), (False, "tau", 6), (True, "muon", 4), (True, "pion", 6), (None, None, 3)]
    assert events.aggregate(by="ok").to_pydict() == {"ok": [False, True, None]}


def test_groups_follow_the_order_of_categories_that_have_one(events: cn.Table) -> None:
    assert events.aggregate(n="count", by="grade").to_pydict() == {
        "grade": ["low", "mid", "high", None],
        "n": [2, 2, 1, 1],
    }
    assert events.aggregate(n="count", by="side").to_pydict() == {"side": ["l", "r", None], "n": [3, 2, 1]}


def test_values_are_of_the_type_of_the_column(events: cn.Table) -> None:
    assert events.aggregate({"when": ["min", "max"], "grade": "max", "ok": ["sum", "max", "mean"]}) == {
        "when_min": DAY,
        "when_max": DAY + dt.timedelta(hours=5),
        "grade_max": "high",
        "ok_sum": 3,
        "ok_max": True,
        "ok_mean": 0.6,
    }
    assert events.aggregate({"lasts": "sum", "price": ["sum", "mean"], "name": ["min", "max"], "pair": "count"}) == {
        "lasts_sum": dt.timedelta(seconds=15),
        "price_sum": Decimal("0.30"),
        "price_mean": 0.15,
        "name_min": "a",
        "name_max": "é",
        "pair_count": 5,
    }
    total = events.aggregate({"energy": "sum"})["energy_sum"]
    assert isinstance(total, float) and math.isnan(total)


def test_no_value_gives_none(events: cn.Table) -> None:
    nothing = events.where("ts > 100")
    wanted = {"energy": ["count", "min", "max", "sum", "mean"], "ts": ["sum", "mean"], "name": "min"}
    got = nothing.aggregate(wanted, n="count")
    assert got.pop("n") == got.pop("energy_count") == 0
    assert set(got.values()) == {None}
    table = nothing.aggregate(n="count", low=("energy", "min"), by=["label", "name"])
    assert len(table) == 0 and table.column_names == ["label", "name", "n", "low"]
    assert events[1:2].aggregate({"energy": ["count", "mean"]}) == {"energy_count": 0, "energy_mean": None}


def test_rows_taken_twice_count_twice(events: cn.Table) -> None:
    assert events.take([5, 0, 0]).aggregate({"ts": "sum", "name": "min"}, n="count") == {
        "ts_sum": 8,
        "name_min": "aa",
        "n": 3,
    }
    assert events.take([5, 0, 0]).aggregate(n="count", by="label").to_pydict() == {
        "label": ["pion", "tau"],
        "n": [2, 1],
    }


# -- refusals --


@pytest.mark.parametrize(
    ("column", "function", "why"),
    [
        ("label", "min", "no order"),
        ("side", "max", "no order"),
        ("pair", "min", "no order"),
        ("label", "sum", "only numbers"),
        ("grade", "mean", "only numbers"),
        ("when", "sum", "only numbers"),
        ("when", "std", "only numbers"),
        ("lasts", "var", "squared"),
        ("ok", "median", "only numbers"),
        ("grade", "quantile", "only numbers"),
        ("name", "mean", "only numbers"),
        ("energy", "any", "only booleans"),
        ("pair", "count_distinct", "cannot be compared"),
        ("name", "sum", "only numbers"),
        ("pair", "sum", "only numbers"),
    ],
)
def test_a_function_that_does_not_suit_is_refused(events: cn.Table, column: str, function: str, why: str) -> None:
    with pytest.raises(UsageError, match=why) as caught:
        events.aggregate({column: ("quantile", 0.5) if function == "quantile" else function})
    kind = str(events.schema.field(column).type)
    assert (caught.value.column, caught.value.function, caught.value.type) == (column, function, kind)
    assert repr(column) in str(caught.value) and kind in str(caught.value) and function in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "named", "said"),
    [
        ((), {}, "name what is wanted"),
        (({"ts": "mode"},), {}, "there is no function 'mode'; there are count, min, max, sum, mean, std"),
        (({"ts": "quantile"},), {}, r"quantile takes a number from 0 to 1: \('x', 'quantile', 0.9\), not None"),
        ((), {"x": ("ts", "quantile", 1.5)}, "not 1.5"),
        ((), {"x": ("ts", "quantile", NAN)}, "not nan"),
        ((), {"x": ("ts", "quantile", True)}, "not True"),
        ((), {"x": ("ts", "std", -1)}, "the ddof of std is an integer that is not negative"),
        ((), {"x": ("ts", "var", 0.5)}, "not 0.5"),
        ((), {"x": ("ts", "mean", 1)}, "mean takes no parameter, not 1; std, var and quantile do"),
        ((), {"x": ("ts", "std", 1, 2)}, "x must be"),
        ((), {"x": ("ts", "avg")}, "there is no function 'avg'"),
        ((), {"x": "mean"}, r"x must be \('column', 'function'\) or 'count', not 'mean'"),
        ((), {"x": 3}, "x must be"),
        ((), {"x": ("ts",)}, "x must be"),
        ((["ts"],), {}, "aggregate takes {'column': 'function'}"),
        (({"ts": 3},), {}, "there is no function 3"),
        ((), {"by": []}, "by must be the name of a column"),
        ((), {"by": 3}, "by must be the name of a column"),
        ((), {"by": ["ok", "ok"]}, "two columns of the result would be called 'ok'"),
        ((), {"by": "ok", "ok": "count"}, "two columns of the result would be called 'ok'"),
        (({"ts": "max"},), {"ts_max": "count"}, "two columns of the result would be called 'ts_max'"),
        ((), {"by": "pair", "n": "count"}, "by does not suit column 'pair'"),
    ],
)
def test_what_means_nothing_is_refused(events: cn.Table, arguments: Any, named: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        events.aggregate(*arguments, **named)


def test_columns_that_are_not_there(events: cn.Table) -> None:
    with pytest.raises(ColumnNotFound, match="Nearest: 'energy'"):
        events.aggregate({"enrgy": "mean"})
    with pytest.raises(ColumnNotFound):
        events.aggregate(n="count", by=["ok", "lable"])


# -- what else can be asked --


def test_spread_quantiles_and_distinct_values(events: cn.Table) -> None:
    got = events.aggregate({"ts": ["std", ("std", 0), "var", "median", ("quantile", 0.9)], "label": "count_distinct"})
    assert list(got) == ["ts_std", "ts_std_0", "ts_var", "ts_median", "ts_quantile_0.9", "label_count_distinct"]
    assert list(got.values()) == [3.5**0.5, (35 / 12) ** 0.5, 3.5, 3.5, 5.5, 3]
    assert events.aggregate({"energy": ("quantile", 0.25)}) == {"energy_quantile_0.25": 1.25}
    assert str(events.aggregate({"energy": ["std", "median"]})) == "{'energy_std': nan, 'energy_median': 2.0}"
    assert events.aggregate({"energy": "count_distinct", "price": ["median", "std"], "lasts": "std"}) == {
        "energy_count_distinct": 5,  # NaN is one of them
        "price_median": 0.15,
        "price_std": 0.005**0.5,
        "lasts_std": dt.timedelta(milliseconds=1870),
    }
    assert events.aggregate({"when": ["mean", "median"], "lasts": "mean"}) == {
        "when_mean": DAY + dt.timedelta(hours=2, minutes=30),
        "when_median": DAY + dt.timedelta(hours=2, minutes=30),
        "lasts_mean": dt.timedelta(milliseconds=2500),
    }


def test_first_last_any_and_all(events: cn.Table) -> None:
    wanted = {"label": ["first", "last"], "pair": ["first", "last"], "ok": ["any", "all"]}
    assert list(events.aggregate(wanted).values()) == ["pion", "tau", [1, 2], [5], True, False]
    assert events[::-1].aggregate({"label": ["first", "last"]}) == {"label_first": "tau", "label_last": "pion"}
    assert events[2:3].aggregate(wanted) == dict.fromkeys(events.aggregate(wanted))
    got = events.aggregate({"pair": ["first", "last"], "ok": "all"}, by="side").to_pydict()
    assert got == {
        "side": ["l", "r", None],
        "pair_first": [[1, 2], [3], [5]],
        "pair_last": [[], [4], [5]],
        "ok_all": [True, False, False],
    }


def test_std_needs_more_values_than_ddof(events: cn.Table) -> None:
    assert events[:1].aggregate({"ts": ["std", ("std", 0), "var", ("var", 5)]}) == {
        "ts_std": None,
        "ts_std_0": 0.0,
        "ts_var": None,
        "ts_var_5": None,
    }


def test_variances_lose_nothing_far_from_zero(tmp_path: Path) -> None:
    near = {
        "i": pa.array([2**62 + n for n in range(100)]),
        "f": np.arange(100) + 2.0**50,
        "u": np.arange(100) + 2.0**50,
    }
    far = pa.array([-(2**63), 2**63 - 1] * 50)
    data = {
        **near,
        "u": pa.array([2**64 - 1 - n for n in range(100)], pa.uint64()),
        "far": far,
        "k": np.arange(100) % 1,
    }
    columns = {name: cn.column(chunk_rows=7, fill=None) for name in data}
    cn.write(tmp_path / "x.h5", data, table="t", columns=columns)
    with cn.open_table(tmp_path / "x.h5") as t, limits.override(fewest_window_rows=7, window_bytes=64):
        truth = (100**2 - 1) / 12
        for got in (
            t.aggregate(dict.fromkeys("ifu", ("var", 0))),
            t.aggregate(dict.fromkeys("ifu", ("var", 0)), by="k"),
        ):
            values = got.values() if isinstance(got, dict) else [got[f"{name}_var_0"][0].as_py() for name in "ifu"]
            assert list(values) == pytest.approx([truth] * 3, rel=1e-14)
        assert t.aggregate(v=("far", "std", 0))["v"] == pytest.approx(2.0**63, rel=1e-14)


@pytest.mark.parametrize("by", [None, "k"])
def test_more_values_than_are_kept_are_read_again(tmp_path: Path, by: Any) -> None:
    """Medians from narrowed ranges, distinct values from files."""
    rng = np.random.default_rng(3)
    data = {
        "x": 100 + rng.normal(size=5000),
        "i": rng.integers(-(2**63), 2**63 - 1, 5000),
        "same": np.repeat(7, 5000),
        "s": np.array([f"n{n}" for n in rng.integers(0, 3000, 5000)]),
        "k": rng.integers(0, 3, 5000),
    }
    cn.write(tmp_path / "x.h5", data, table="t", columns={name: cn.column(chunk_rows=500) for name in data})
    wanted: Any = {
        "x": ["median", ("quantile", 0.01)],
        "i": ["median", "count_distinct"],
        "same": "median",
        "s": "count_distinct",
    }
    with cn.open_table(tmp_path / "x.h5") as t:
        truth = t.aggregate(wanted, by=by)
        small = {"gathered_bytes": 4000, "counted_pairs": 100, "waiting_groups": 50, "fewest_window_rows": 500}
        with (
            limits.override(**small, window_bytes=4000),
            patch("colonnade.pager.scratch.ScratchFolder", wraps=ScratchFolder) as folder,
        ):
            assert t.aggregate(wanted, by=by) == truth
            assert folder.call_count == 2
    assert by or truth["x_median"] == np.median(data["x"])
    assert by or (truth["i_count_distinct"], truth["s_count_distinct"]) == (5000, len(set(data["s"].tolist())))


def test_one_pass_where_the_values_are_kept(tmp_path: Path) -> None:
    cn.write(tmp_path / "x.h5", {"x": np.arange(100.0)}, table="t", columns={"x": cn.column(chunk_rows=10)})
    with cn.open(tmp_path / "x.h5", n_threads=1) as f, limits.override(fewest_window_rows=10, window_bytes=80):
        with patch.object(ColumnReader, "numbers", autospec=True, side_effect=ColumnReader.numbers) as numbers:
            assert f["t"].aggregate({"x": ["median", ("quantile", 0.9), "std", "mean"]})["x_median"] == 49.5
        assert numbers.call_count == 10


# -- exact --


def test_sums_of_whole_numbers_are_exact(tmp_path: Path) -> None:
    data = {
        "x": pa.array([2**63 - 1] * 4 + [-(2**63)] * 3 + [5]),
        "u": pa.array([2**64 - 1] * 8, pa.uint64()),
        "d": pa.array([2**62] * 8, pa.int64()).view(pa.duration("ns")),
        "p": pa.array([Decimal(10**38 - 1)] * 8, pa.decimal128(38, 0)),
        "k": pa.array([0, 0, 1, 1, 0, 0, 1, 2]),
    }
    columns = {name: cn.column(chunk_rows=3, fill=None) for name in ("x", "u", "k")}
    cn.write(tmp_path / "x.h5", data, table="t", columns=columns)
    with cn.open_table(tmp_path / "x.h5") as t:
        x = 4 * (2**63 - 1) - 3 * 2**63 + 5
        assert t.aggregate({"x": ["sum", "mean"], "u": ["sum", "mean"], "p": "sum"}) == {
            "x_sum": x,
            "x_mean": x / 8,
            "u_sum": 8 * (2**64 - 1),
            "u_mean": float(2**64 - 1),
            "p_sum": Decimal(8 * (10**38 - 1)),
        }
        assert t.aggregate({"x": "sum"}, by="k")["x_sum"].to_pylist() == [-2, 2**63 - 2, 5]
        assert t.aggregate({"x": "mean"}, by="k")["x_mean"].to_pylist() == [-0.5, (2**63 - 2) / 3, 5.0]
        assert t[:1].aggregate({"u": "sum"}, by="k")["u_sum"].to_pylist() == [2**64 - 1]
        for column in ("u", "d", "p"):
            with pytest.raises(DataError, match=f"column '{column}': the sum of") as caught:
                t.aggregate({column: "sum"}, by="k")
            assert caught.value.column == column
        with pytest.raises(DataError, match="column 'x': the sum of"):
            t[:2].aggregate({"x": "sum"}, by="k")
        with pytest.raises(DataError, match="column 'd': the sum of"):
            t.aggregate({"d": "sum"})


def test_a_mean_of_whole_numbers_is_rounded_once(tmp_path: Path) -> None:
    """The sum as a float, divided by 3, would be another float."""
    values = [665254580340503029, 933955842044160735, 81764416680803268]
    assert float(sum(values)) / 3 != sum(values) / 3
    cn.write(tmp_path / "x.h5", {"x": values, "k": [1, 1, 1]}, table="t")
    with cn.open_table(tmp_path / "x.h5") as t:
        assert t.aggregate({"x": "mean"}) == {"x_mean": sum(values) / 3}
        assert t.aggregate({"x": "mean"}, by="k")["x_mean"].to_pylist() == [sum(values) / 3]


def test_sums_of_floats_keep_what_addition_loses(tmp_path: Path) -> None:
    values = np.tile([1e16, 1.0, -1e16, 1.0], 50)
    cn.write(tmp_path / "x.h5", {"x": values}, table="t", columns={"x": cn.column(chunk_rows=7)})
    with cn.open_table(tmp_path / "x.h5") as t:
        assert t.aggregate({"x": "sum"}) == {"x_sum": 100.0}


def test_categories_that_are_equal_are_one_group(tmp_path: Path) -> None:
    """A file from elsewhere may name a category twice."""
    cn.write(tmp_path / "x.h5", {"c": pa.array(["b", "a", "c", "b"]).dictionary_encode()}, table="t")
    with cn.open_table(tmp_path / "x.h5") as t:
        twice = pa.array(["b", "a", "b"])
        with patch.object(Categories, "values", lambda self: twice):
            assert t.aggregate(n="count", by="c").to_pydict() == {"c": ["a", "b"], "n": [1, 3]}


# -- what is read --


def refuse(*_arguments: object) -> Any:
    raise AssertionError("a column is read")


def test_an_index_answers_counts_and_ends(tmp_path: Path) -> None:
    data = {
        "x": pa.array([NAN, 2.0, None, -1.0, NAN, 7.5]),
        "nan": pa.array([NAN, None] * 3),
        "none": pa.array([None] * 6, pa.int32()),
        "s": pa.array(["b", None, "a", "é", "", "z"]),
    }
    with cn.open(tmp_path / "x.h5", "w") as f:
        names = dict.fromkeys(data, "chunk_minmax")
        f.create("t", data, index=names, columns={name: cn.column(chunk_rows=2) for name in data})
    wanted = {name: ["count", "min", "max"] for name in data}
    with cn.open(tmp_path / "x.h5", trust="never") as f:
        truth = f["t"].aggregate(wanted)
    with cn.open(tmp_path / "x.h5") as f, patch.object(ColumnReader, "_read_as", refuse):
        got = f["t"].aggregate(wanted, n="count")
        assert str(got) == str({**truth, "n": 6})
        with pytest.raises(AssertionError, match="is read"):
            f["t"][1:].aggregate({"x": "max"})
    assert str([truth["x_max"], truth["nan_min"], truth["none_min"], truth["s_max"]]) == "[7.5, nan, None, 'é']"


def test_an_index_in_order_answers_quantiles(tmp_path: Path) -> None:
    data = {"x": pa.array([NAN, 2.0, None, -1.0, NAN, 7.5]), "none": pa.array([None] * 6, pa.int32())}
    with cn.open(tmp_path / "x.h5", "w") as f:
        f.create("t", data, index={name: ["sorted_rows", "chunk_minmax"] for name in data})
    wanted: Any = {"x": ["median", ("quantile", 0.9), "min", "count"], "none": ["median", "max"]}
    with cn.open(tmp_path / "x.h5", trust="never") as f:
        truth = f["t"].aggregate(wanted)
    assert list(truth.values()) == [2.0, 6.4, -1.0, 5, None, None]
    with cn.open(tmp_path / "x.h5") as f, patch.object(ColumnReader, "numbers", refuse):
        assert f["t"].aggregate(wanted) == truth
        with pytest.raises(AssertionError, match="is read"):
            f["t"][1:].aggregate({"x": "median"})
        with pytest.raises(AssertionError, match="is read"):
            f["t"].aggregate({"x": ["median", "std"]})


def test_rows_with_a_value_are_known_without_reading(tmp_path: Path) -> None:
    """The first row of a column that cannot miss values is read alone."""
    cn.write(tmp_path / "x.h5", {"x": [1, 2, 3]}, table="t", columns={"x": cn.column(fill=None)})
    with cn.open_table(tmp_path / "x.h5") as t, patch.object(ColumnReader, "numbers", refuse):
        assert t.aggregate({"x": ["first", "last"]}) == {"x_first": 1, "x_last": 3}


def test_rows_alone_are_counted_without_reading(tmp_path: Path) -> None:
    cn.write(tmp_path / "x.h5", {"x": [1, 2, 3]}, table="t", columns={"x": cn.column(fill=None)})
    with cn.open_table(tmp_path / "x.h5") as t, patch.object(ColumnReader, "_read_as", refuse):
        assert t.aggregate({"x": "count"}, n="count") == {"x_count": 3, "n": 3}


def test_a_column_is_never_whole_in_memory(tmp_path: Path) -> None:
    """Arrow's and NumPy's peaks stay far below the column."""
    n = 4_000_000
    cn.write(tmp_path / "x.h5", {"x": np.arange(n, dtype="f8"), "k": (np.arange(n) % 5).astype("i1")}, table="t")
    with cn.open(tmp_path / "x.h5", n_threads=1) as f:
        before = pa.total_allocated_bytes()
        seen: list[int] = []
        real = ColumnReader.numbers

        def watched(self: ColumnReader, start: int, count: int) -> Any:
            found = real(self, start, count)
            seen.append(pa.total_allocated_bytes() - before)
            return found

        with patch.object(ColumnReader, "numbers", watched):
            assert f["t"].aggregate({"x": "mean"}) == {"x_mean": (n - 1) / 2}
            assert f["t"].aggregate(n="count", top=("x", "max"), by="k")["n"].to_pylist() == [n // 5] * 5
        assert len(seen) > 20 and max(seen) < 6_000_000


def test_errors_in_the_file_name_their_row(tmp_path: Path) -> None:
    cn.write(tmp_path / "x.h5", {"c": pa.array(["a", "b"] * 4).dictionary_encode()}, table="t")
    with cn.open(tmp_path / "x.h5", "r+") as f:
        f.h5["t/c"][5] = 9
    with cn.open_table(tmp_path / "x.h5") as t, pytest.raises(CorruptError, match="column 'c', row 5") as caught:
        t.aggregate(n="count", by="c")
    assert caught.value.row == 5
