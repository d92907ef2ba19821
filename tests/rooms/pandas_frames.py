"""Frames of pandas of every kind, by name: what a round trip through a file must bring back as it was."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa


def _one(values: Any, **options: Any) -> pd.DataFrame:
    return pd.DataFrame({"x": values}, **options)


def _numbers() -> dict[str, pd.DataFrame]:
    return {
        "bool": _one([True, False, True]),
        "int8 to uint64": pd.DataFrame(
            {k: np.array([1, 2, 3], k) for k in ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]}
        ),
        "float16, float32, float64": pd.DataFrame({k: np.array([1.5, np.nan, -2], k) for k in ("f2", "f4", "f8")}),
        "complex64, complex128": pd.DataFrame({k: np.array([1 + 2j, np.nan, 3j], k) for k in ("c8", "c16")}),
        "Int64 without missing rows": _one(pd.array([1, 2, 3], dtype="Int64")),
        "Int64 with missing rows": _one(pd.array([1, None, 2**62 + 1], dtype="Int64")),
        "Int8 to UInt64": pd.DataFrame(
            {
                k: pd.array([1, None, 3], dtype=k)
                for k in ["Int8", "Int16", "Int32", "UInt8", "UInt16", "UInt32", "UInt64"]
            }
        ),
        "boolean": pd.DataFrame(
            {"a": pd.array([True, None, False], dtype="boolean"), "b": pd.array([True] * 3, dtype="boolean")}
        ),
        "Float64 and Float32": pd.DataFrame({k: pd.array([1.5, None, 2], dtype=k) for k in ("Float64", "Float32")}),
        "Float64 without missing rows": _one(pd.array([1.5, 2.5], dtype="Float64")),
        "Float64 with NaN and NA": _one(
            pd.arrays.FloatingArray(np.array([1.5, np.nan, 0]), np.array([False, False, True]))
        ),
        "Sparse float": _one(pd.arrays.SparseArray([0.0, np.nan, 3.5, np.nan])),
        "Sparse int": _one(pd.arrays.SparseArray([0, 0, 3, 0])),
        "Sparse bool": _one(pd.arrays.SparseArray([False, True, False])),
        "Sparse with another fill": _one(pd.arrays.SparseArray([7, 7, 3], fill_value=7)),
    }


def _strings() -> dict[str, pd.DataFrame]:
    return {
        "string[python]": _one(pd.array(["a", None, "ü"], dtype="string[python]")),
        "string[pyarrow]": _one(pd.array(["a", None, "ü"], dtype="string[pyarrow]")),
        "str": _one(pd.array(["a", None, "ü"], dtype=pd.StringDtype(na_value=np.nan))),
        "string, all missing": _one(pd.array([None, None], dtype="string[python]")),
        "strings as objects, None": _one(np.array(["a", None, "c"], dtype=object)),
        "strings as objects, NaN": _one(np.array(["a", np.nan, "c"], dtype=object)),
        "objects, all None": _one(np.array([None, None], dtype=object)),
        "objects, none": _one(np.array([], dtype=object)),
        "bytes": _one(np.array([b"a", None, b"\xff\0"], dtype=object)),
        "empty and long strings": _one(["", "x" * 3000, " ", "\n"]),
    }


def _objects() -> dict[str, pd.DataFrame]:
    return {
        "dates": _one([datetime.date(2020, 1, 1), None]),
        "times": _one([datetime.time(1, 2, 3), None]),
        "decimals": _one([Decimal("1.25"), Decimal("-3.50"), None]),
        "booleans as objects": _one(np.array([True, None, False], dtype=object)),
        "integers as objects": _one(np.array([1, None, 2**60], dtype=object)),
        "datetimes as objects": _one(np.array([datetime.datetime(2020, 1, 1, 2), None], dtype=object)),
        "complex as objects": _one(np.array([1j, None, 2 + 1j], dtype=object)),
        "lists": _one([[1, 2], [], [3]]),
        "lists of strings": _one([["a"], ["b", "c"]]),
        "tuples": _one([(1, 2), (), (3,)]),
        "sets": _one([{1, 2}, {3}]),
        "arrays": _one([np.array([1.0, 2.0]), np.array([3.0])]),
        "dicts and None": _one([{"a": 1, "b": 2.5}, None]),
        "dicts": _one([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]),
    }


def _times() -> dict[str, pd.DataFrame]:
    stamps = pd.DatetimeIndex(["2020-01-01 00:00:00.123456789", None, "1960-05-05"])
    return {
        "datetime64[ns]": _one(stamps),
        "datetime64 in s, ms, us": pd.DataFrame({u: stamps.as_unit(u) for u in ("s", "ms", "us")}),
        "datetime64 in a time zone": _one(pd.date_range("2020-03-28", periods=3, tz="Europe/Berlin")),
        "datetime64 in UTC": _one(pd.date_range("2020", periods=3, tz="UTC")),
        "datetime64 at an offset": _one(pd.date_range("2020", periods=3, tz="+02:00")),
        "timedelta64": pd.DataFrame(
            {u: pd.to_timedelta([1, None, -3], unit="s").as_unit(u) for u in ("s", "ms", "us", "ns")}
        ),
        "period[M]": _one(pd.PeriodIndex(["2020-01", None, "1969-12"], freq="M")),
        "period[D] and period[Y]": pd.DataFrame(
            {f: pd.period_range("2020", periods=3, freq=f) for f in ("D", "Y-DEC")}
        ),
        "interval of integers": _one(pd.interval_range(0, 3)),
        "interval of floats, closed left, missing": _one(
            pd.arrays.IntervalArray([pd.Interval(0.5, 1.5, "left"), np.nan], closed="left")  # type: ignore[list-item]
        ),
        "interval of times": _one(pd.interval_range(pd.Timestamp("2020"), periods=3)),
    }


def _categoricals() -> dict[str, pd.DataFrame]:
    return {
        "categories": _one(pd.Categorical(["a", None, "b", "a"], categories=["b", "a", "unused"])),
        "ordered categories": _one(pd.Categorical(["lo", "hi"], categories=["lo", "mid", "hi"], ordered=True)),
        "categories of integers": _one(pd.Categorical([3, 1, None, 3])),
        "categories of floats": _one(pd.Categorical([1.5, 0.5])),
        "categories of booleans": _one(pd.Categorical([True, False, True])),
        "categories of times": _one(pd.Categorical(pd.to_datetime(["2020-01-01", "2021-01-01"]))),
        "categories of intervals": _one(pd.cut([1.0, 5.0, 9.0], [0, 4, 10])),
        "categories of periods": _one(pd.Categorical(pd.period_range("2020", periods=2, freq="M"))),
        "categories of string[python]": _one(pd.Categorical(pd.array(["a", "b"], dtype="string[python]"))),
        "categories of Int64": _one(pd.Categorical(pd.array([1, 2], dtype="Int64"))),
        "no categories": _one(pd.Categorical([None, None], categories=[])),
        "categories without rows": _one(pd.Categorical([], categories=["a", "b"])),
    }


def _arrow() -> dict[str, pd.DataFrame]:
    def backed(values: Any, kind: pa.DataType) -> pd.DataFrame:
        return _one(pd.array(values, dtype=pd.ArrowDtype(kind)))

    return {
        "Arrow int64": backed([1, None], pa.int64()),
        "Arrow float32": backed([1.5, None], pa.float32()),
        "Arrow string": backed(["a", None], pa.string()),
        "Arrow large_string": backed(["a", None], pa.large_string()),
        "Arrow bool": backed([True, None], pa.bool_()),
        "Arrow timestamp": backed([datetime.datetime(2020, 1, 1), None], pa.timestamp("us", "UTC")),
        "Arrow date32": backed([datetime.date(2020, 1, 1), None], pa.date32()),
        "Arrow decimal": backed([Decimal("1.20"), None], pa.decimal128(5, 2)),
        "Arrow list": backed([[1, 2], None, []], pa.list_(pa.int64())),
        "Arrow dictionary": _one(pd.arrays.ArrowExtensionArray(pa.array(["a", "b", None]).dictionary_encode())),
    }


def _indexes() -> dict[str, pd.DataFrame]:
    def at(index: Any) -> pd.DataFrame:
        return pd.DataFrame({"x": [1.0, 2.0, 3.0]}, index=index)

    return {
        "RangeIndex": at(pd.RangeIndex(3)),
        "RangeIndex with a name": at(pd.RangeIndex(3, name="row")),
        "RangeIndex from 5 by 2": at(pd.RangeIndex(5, 11, 2)),
        "RangeIndex backwards": at(pd.RangeIndex(3, 0, -1)),
        "index of integers": at(pd.Index([3, 1, 2])),
        "index of strings": at(pd.Index(["a", "b", "c"], name="id")),
        "index named index": at(pd.Index(["a", "b", "c"], name="index")),
        "index named by a number": at(pd.Index([3, 1, 2], name=0)),
        "index named as a column": at(pd.Index([3, 1, 2], name="x")),
        "DatetimeIndex with a frequency": at(pd.date_range("2020", periods=3, freq="D")),
        "DatetimeIndex in a time zone": at(pd.DatetimeIndex(["2020", "2022", "2021"], tz="America/New_York")),
        "TimedeltaIndex": at(pd.timedelta_range("1h", periods=3, freq="2h")),
        "PeriodIndex": at(pd.period_range("2020", periods=3, freq="Q-DEC")),
        "IntervalIndex": at(pd.interval_range(0, 3, closed="both")),
        "CategoricalIndex": at(pd.CategoricalIndex(["b", "a", "b"], categories=["b", "a"], ordered=True)),
        "index of Int64": at(pd.Index(pd.array([1, None, 3], dtype="Int64"))),
        "MultiIndex": at(pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)], names=["k", None])),
        "MultiIndex of times and categories": at(
            pd.MultiIndex.from_arrays(
                [pd.date_range("2020", periods=3), pd.Categorical(["u", "v", "u"])], names=["t", "t2"]
            )
        ),
        "MultiIndex with equal names": at(pd.MultiIndex.from_arrays([[1, 2, 3], [4, 5, 6]], names=["n", "n"])),
    }


def _shapes() -> dict[str, pd.DataFrame]:
    def named(columns: Any) -> pd.DataFrame:
        return pd.DataFrame(np.arange(6.0).reshape(3, 2), columns=columns)

    attrs = _one([1, 2])
    attrs.attrs = {"units": "m", "history": [1, "b", None], "nested": {"a": 1.5}}
    return {
        "columns of integers": named([10, 20]),
        "columns of a range": pd.DataFrame(np.arange(6.0).reshape(3, 2)),
        "columns of times": named(pd.date_range("2020", periods=2, freq="D")),
        "columns of floats": named([0.5, 1e300]),
        "columns of integers and strings": named([1, "one"]),
        "columns with a name": named(pd.Index(["a", "b"], name="channel")),
        "columns of two levels": named(pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["letter", None])),
        "columns of categories": named(pd.CategoricalIndex(["lo", "hi"], categories=["lo", "hi"], ordered=True)),
        "columns of periods": named(pd.period_range("2020", periods=2, freq="M")),
        "no rows": pd.DataFrame(
            {"a": np.array([], "f8"), "b": pd.array([], dtype="string[python]"), "c": pd.array([], dtype="Int8")}
        ),
        "no columns": pd.DataFrame(index=pd.Index(["a", "b"], name="id")),
        "nothing": pd.DataFrame(),
        "attrs": attrs,
        "mixed values": _one(np.array([1, "a", 2.5], dtype=object)),
        "columns of one name": named(["a", "a"]),
    }


def frames() -> dict[str, pd.DataFrame]:
    """All of them."""
    parts = (_numbers(), _strings(), _objects(), _times(), _categoricals(), _arrow(), _indexes(), _shapes())
    return {name: frame for part in parts for name, frame in part.items()}
