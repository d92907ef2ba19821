"""`describe` and `histogram`: as pandas and NumPy have them, in short windows, with what is missing and what is odd."""

from __future__ import annotations

import datetime as dt
import math
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade import limits
from colonnade.errors import UsageError

NAN = math.nan
DAY = dt.datetime(2026, 1, 31)
SMALL = {
    "fewest_window_rows": 16, "window_bytes": 128, "gathered_bytes": 400, "counted_pairs": 10, "waiting_groups": 5,
}  # fmt: skip


@pytest.fixture
def events(tmp_path: Path) -> cn.Table:
    data = {
        "ts": pa.array([1, 2, 3, 4, 5, None]),
        "energy": pa.array([1.5, None, 2.5, 8.0, 4.0, 0.5]),
        "when": pa.array([DAY + dt.timedelta(hours=hour) for hour in range(6)], pa.timestamp("us")),
        "lasts": pa.array([dt.timedelta(seconds=s) for s in range(6)], pa.duration("ms")),
        "price": pa.array([Decimal("0.10"), Decimal("0.20"), None, None, None, None], pa.decimal128(5, 2)),
        "label": pa.array(["pion", "muon", None, "muon", "pion", "tau"]).dictionary_encode(),
        "ok": pa.array([True, False, None, True, True, False]),
        "pair": pa.array([[1, 2], [3], None, [], [4], [5]], pa.list_(pa.int8())),
        "none": pa.array([None] * 6, pa.int32()),
    }
    cn.write(tmp_path / "x.h5", data, table="t", columns={name: cn.column(chunk_rows=2) for name in data})
    return cn.open_table(tmp_path / "x.h5")


def test_statistics_by_type(events: cn.Table) -> None:
    d = events.describe()
    assert list(d.columns) == events.columns and d.n_rows == 6
    assert d["ts"] == {
        "count": 5, "missing": 1, "mean": 3.0, "std": 2.5**0.5, "min": 1, "25%": 2.0, "50%": 3.0, "75%": 4.0, "max": 5,
    }  # fmt: skip
    assert "std" not in d["when"] and d["when"]["50%"] == DAY + dt.timedelta(hours=2, minutes=30)
    assert d["lasts"]["std"] == dt.timedelta(milliseconds=1870)
    assert (d["price"]["mean"], d["price"]["max"]) == (0.15, Decimal("0.20"))
    assert d["label"] == {"count": 5, "missing": 1, "unique": 3, "top": "muon", "freq": 2}
    assert d["ok"] == {"count": 5, "missing": 1, "unique": 2, "top": True, "freq": 3}
    assert d["pair"] == {"count": 5, "missing": 1}
    assert d["none"]["count"] == 0 and set(d["none"].values()) == {0, 6, None}
    assert events[:0].describe(["label", "ts"])["label"] == {
        "count": 0, "missing": 0, "unique": 0, "top": None, "freq": None,
    }  # fmt: skip


def test_it_is_shown(events: cn.Table) -> None:
    d = events.where("ts > 1").describe(["energy", "label"])
    assert str(d) == repr(d) and "freq" in str(d) and str(d).splitlines()[0] == "4 rows"
    assert "<th>energy</th>" in d._repr_html_()
    frame = d.to_pandas()
    assert list(frame.columns) == ["energy", "label"] and frame.loc["max", "energy"] == 8.0
    assert frame.loc["top", "label"] == "muon" and frame["label"].isna()["mean"]


def test_a_column_that_cannot_be_read_is_described_as_such(tmp_path: Path) -> None:
    cn.write(tmp_path / "x.h5", {"a": [1, 2], "c": pa.array(["a", "b"]).dictionary_encode()}, table="t")
    with cn.open(tmp_path / "x.h5", "r+") as f:
        f.h5["t/c"][1] = 9
    with cn.open_table(tmp_path / "x.h5") as t:
        d = t.describe()
        assert d["a"]["mean"] == 1.5 and "row 1" in str(d["c"]["problem"])


@pytest.mark.parametrize("small", [False, True])
def test_pandas_describes_the_same(tmp_path: Path, small: bool) -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "f": np.where(rng.random(999) < 0.1, NAN, rng.normal(1e6, 1.0, 999)),
            "i": rng.integers(-(2**62), 2**62, 999),
            "b": rng.integers(0, 5, 999).astype("u1"),
            "t": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 10**9, 999), "us"),
            "s": rng.choice([f"w{n}" for n in range(200)], 999),
        }
    )
    cn.write(tmp_path / "x.h5", frame, table="t", columns={str(name): cn.column(chunk_rows=50) for name in frame})
    with cn.open_table(tmp_path / "x.h5") as t, limits.override(**(SMALL if small else {})):
        for rows, peer in ((t, frame), (t.where("b >= 2"), frame[frame.b >= 2])):
            mine, theirs = rows.describe().to_pandas(), peer.describe(include="all")
            for name in ("f", "i", "b"):
                for statistic in ("count", "mean", "std", "min", "25%", "50%", "75%", "max"):
                    assert mine.loc[statistic, name] == pytest.approx(theirs.loc[statistic, name], rel=1e-12), statistic
            for statistic in ("min", "25%", "50%", "75%", "max"):
                apart: Any = mine["t"][statistic] - theirs["t"][statistic]
                assert abs(apart) <= pd.Timedelta("2us")
            assert (mine.loc["unique", "s"], mine.loc["freq", "s"]) == (peer.s.nunique(), theirs.loc["freq", "s"])


# -- histograms --


@pytest.mark.parametrize("small", [False, True])
def test_numpy_counts_the_same(tmp_path: Path, small: bool) -> None:
    rng = np.random.default_rng(2)
    data = {
        "f": rng.normal(size=500), "g": rng.normal(size=500).astype("f4"), "i": rng.integers(-100, 100, 500),
        "u": rng.integers(0, 256, 500).astype("u1"), "k": rng.integers(0, 3, 500),
    }  # fmt: skip
    cn.write(tmp_path / "x.h5", data, table="t", columns={name: cn.column(chunk_rows=50) for name in data})
    with cn.open_table(tmp_path / "x.h5") as t, limits.override(**(SMALL if small else {})):
        for name in "fgiu":
            for bins, low, high in ((7, None, None), (1, None, None), (5, -1.0, 1.0), (4, 20, 300)):
                span: Any = None if low is None else (low, high)
                got = t.histogram(name, bins, range=span)
                counts, edges = np.histogram(data[name].astype("f8"), bins, span)
                assert got.bins["count"].to_pylist() == counts.tolist(), (name, bins, span)
                assert [*got.bins["start"].to_pylist(), got.bins["stop"][-1].as_py()] == pytest.approx(edges.tolist())
                assert got.n_outside == 500 - counts.sum()
        grouped = t.where("i > 0").histogram("f", [-1, 0, 0.5, 2], by="k").bins.to_pydict()
        some = data["i"] > 0
        for k in range(3):
            counts, _ = np.histogram(data["f"][some & (data["k"] == k)], [-1, 0, 0.5, 2])
            assert [c for c, key in zip(grouped["count"], grouped["k"], strict=True) if key == k] == counts.tolist()


def test_what_is_not_in_a_bin_is_counted(tmp_path: Path) -> None:
    data = {"x": pa.array([NAN, 1.0, None, math.inf, -math.inf, 2.0, 0.3]), "n": pa.array([None] * 7, pa.int8())}
    cn.write(tmp_path / "x.h5", data, table="t", columns={"x": cn.column(chunk_rows=3)})
    with cn.open_table(tmp_path / "x.h5") as t:
        got = t.histogram("x", 2, range=(0, 2))
        assert (got.n_rows, got.n_missing, got.n_nan, got.n_outside) == (7, 1, 1, 2)
        assert got.bins["count"].to_pylist() == [1, 2]
        with pytest.raises(UsageError, match="Give range="):
            t.histogram("x")
        assert t.histogram("n", 3).bins["count"].to_pylist() == [0, 0, 0]
        assert t[:0].histogram("x", 2).bins["count"].to_pylist() == [0, 0]
        assert len(t[:0].histogram("x", 2, by="n").bins) == 0


def test_extreme_integers_are_compared_exactly(tmp_path: Path) -> None:
    data = {
        "i": pa.array([-(2**63), 2**63 - 1, 2**53 + 1, 2**53]),
        "u": pa.array([2**64 - 1, 0, 2**63, 2**64 - 2], pa.uint64()),
    }
    cn.write(tmp_path / "x.h5", data, table="t", columns={name: cn.column(fill=None) for name in data})
    with cn.open_table(tmp_path / "x.h5") as t:
        assert t.histogram("i", [2**53, 2**53 + 2]).bins["count"].to_pylist() == [2]
        assert t.histogram("i", [-1e30, 0, 1e30]).bins["count"].to_pylist() == [1, 3]
        assert t.histogram("u", [-5, 2**63, 2.0**64]).bins["count"].to_pylist() == [1, 3]
        assert sum(t.histogram("i").bins["count"].to_pylist()) == sum(t.histogram("u").bins["count"].to_pylist()) == 4


def test_times_have_edges_of_their_type(events: cn.Table) -> None:
    got = events.histogram("when", 2)
    assert got.bins.schema.field("start").type == pa.timestamp("us") and got.bins["count"].to_pylist() == [3, 3]
    assert got.bins["stop"].to_pylist() == [DAY + dt.timedelta(hours=2.5), DAY + dt.timedelta(hours=5)]
    edges = [DAY, DAY + dt.timedelta(hours=1), DAY + dt.timedelta(hours=2)]
    assert events.histogram("when", edges).bins["count"].to_pylist() == [1, 2]
    assert events[:1].histogram("when", 3).bins["count"].to_pylist() == [1]
    assert events.histogram("lasts", 3).bins["count"].to_pylist() == [2, 2, 2]
    assert events.histogram("price", [0.1, 0.15, 0.2]).bins["count"].to_pylist() == [1, 1]


@pytest.mark.parametrize("small", [False, True])
def test_frequent_values(tmp_path: Path, small: bool) -> None:
    rng = np.random.default_rng(5)
    words = np.array([f"w{n}" for n in rng.geometric(0.05, 900)])
    data = {"s": words, "k": rng.integers(0, 2, 900), "c": pa.array(words).dictionary_encode()}
    cn.write(tmp_path / "x.h5", data, table="t", columns={name: cn.column(chunk_rows=50) for name in data})
    truth = pd.DataFrame({"s": words, "k": data["k"]})
    totals = truth.s.value_counts()
    order = sorted(totals.index, key=lambda word: (-totals[word], word))
    with cn.open_table(tmp_path / "x.h5") as t, limits.override(**(SMALL if small else {})):
        for name in "sc":
            got = t.histogram(name, 6)
            assert got.bins["value"].to_pylist() == order[:6]
            assert got.bins["count"].to_pylist() == [totals[word] for word in order[:6]]
            assert (got.n_distinct, got.n_outside) == (len(order), 900 - totals[order[:6]].sum())
            rows = t.histogram(name, 3, by="k").bins.to_pylist()
            assert [(row["k"], row["value"], row["count"]) for row in rows] == [
                (k, word, int(((truth.k == k) & (truth.s == word)).sum())) for k in (0, 1) for word in order[:3]
            ]


@pytest.mark.parametrize(
    ("arguments", "named", "said"),
    [
        (("energy", 0), {}, "a histogram has 1 to 1,048,576 bins, not 0"),
        (("energy", [1]), {}, "2 to 1,048,577 edges, not 1"),
        (("energy", [1, 1]), {}, "must increase"),
        (("energy", [1, NAN]), {}, "finite"),
        (("ts", [1, math.inf]), {}, "finite"),
        (("energy", ["a", "b"]), {}, "an edge of a histogram of numbers is a number, not 'a'"),
        (("energy",), {"range": (3, 1)}, r"not from 3 to 1"),
        (("when",), {"range": (DAY, None)}, "is such a value"),
        (("when",), {"range": (DAY, DAY - dt.timedelta(1))}, "from low to high"),
        (("label", [1, 2]), {}, "cannot divide column 'label' of type dictionary"),
        (("label",), {"range": (1, 2)}, "its values are counted"),
        (("label", 0), {}, "1 to 1,048,576 values, not 0"),
        (("pair",), {}, "cannot make a histogram of column 'pair': its values cannot be compared"),
        (("ts",), {"by": "pair"}, "column 'pair'"),
    ],
)
def test_what_makes_no_histogram_is_refused(events: cn.Table, arguments: Any, named: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        events.histogram(*arguments, **named)


def test_without_pandas_the_error_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cn.write(tmp_path / "x.h5", {"x": [1]}, table="t")
    description = cn.open_table(tmp_path / "x.h5", "t").describe()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(cn.errors.UsageError, match="pip install pandas"):
        description.to_pandas()
