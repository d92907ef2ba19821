"""What pandas stores with `to_hdf`, and whether a table reads it as pandas does."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd

import colonnade as cn

IS_3 = int(pd.__version__.split(".")[0]) >= 3
N_ROWS = 5
ZONE = "Europe/Berlin"


def store(path: Path, key: str, stored: Any, **options: Any) -> Path:
    """The frame or Series in a file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pickled objects, names that are not identifiers
        stored.to_hdf(path, key=key, **options)
    return path


def read_by_pandas(path: Path, key: str) -> pd.DataFrame:
    """The frame that pandas reads; of a Series, the frame with it as its only column."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = pd.read_hdf(path, key)
    if isinstance(found, pd.DataFrame):
        return found
    return found.to_frame("values" if found.name is None else found.name)


def assert_as_pandas_reads(path: Path, key: str) -> None:
    """Values, types, names and index are those that pandas reads. Frequencies are pickled, so they are not compared."""
    expected = read_by_pandas(path, key)
    with cn.open(path) as file:
        table = file[key]
        assert table.layout == "pandas" and len(table) == len(expected)
        found = table.to_pandas()
    pd.testing.assert_frame_equal(found, expected, check_freq=False, check_exact=True)
    assert list(found.index.names) == list(expected.index.names)
    assert list(found.columns.names) == list(expected.columns.names)


def numbers() -> pd.DataFrame:
    """A column of each type that is not a string: in several blocks, whose order is not that of the columns."""
    unit = "ns"
    frame = pd.DataFrame(
        {
            "int": np.arange(N_ROWS) - 2,
            "float": np.array([1.5, np.nan, -0.0, np.inf, -np.inf]),
            "uint": np.array([0, 1, 2, 3, 2**64 - 1], "u8"),
            "byte": np.arange(N_ROWS, dtype="i1"),
            "another int": np.arange(N_ROWS) * 10,
            "bool": np.array([True, False, True, True, False]),
            "single": np.arange(N_ROWS, dtype="f4"),
            "time": times(["2020-01-01", None, "1969-12-31T23:59:59.999", "2262-01-01", "1677-10-01"]),
            "zoned": pd.date_range("2020-03-29", periods=N_ROWS, freq="h", tz=ZONE),
            "duration": pd.to_timedelta([0, -1, None, 3, 4], unit="s"),
            "complex": np.array([1j, 2, np.nan, -1j, 0]),
            "another float": np.arange(N_ROWS) / 3,
        }
    )
    for name in ("time", "zoned", "duration"):
        frame[name] = frame[name].dt.as_unit(unit)
    return frame


def times(values: Any, **options: Any) -> pd.DatetimeIndex:
    return pd.DatetimeIndex(np.array(["NaT" if value is None else value for value in values], "M8[ns]"), **options)


def indexes() -> dict[str, pd.Index]:
    """An index of each kind that the fixed format stores without pickles."""
    letters = ["a", "b", "c", "d", "e"]
    found: dict[str, pd.Index] = {
        "a range": pd.RangeIndex(N_ROWS),
        "integers": pd.Index([5, 3, 3, -1, 0], name="row"),
        "small integers": pd.Index([5, 3, 3, 1, 0], dtype="u1"),
        "floats": pd.Index([0.5, np.nan, -1, 2, 3], name="x"),
        "booleans": pd.Index([True, False, True, False, True]),
        "strings": pd.Index(["ä", "b", "", "b", "long string"], name="label"),
        "times": times(["2020-01-01", None, "2020-01-03", "1960-01-01", "2020-01-01"], name="when"),
        "zoned times": times(["2020-01-01"] * 4 + ["2021-01-01"]).tz_localize(ZONE),
        "times in UTC": times(["2020-01-01"] * 5).tz_localize("UTC"),
        "durations": pd.TimedeltaIndex(pd.to_timedelta([1, 2, 3, None, 5], unit="s")).as_unit("ns"),
        "two levels": pd.MultiIndex.from_arrays([letters, [3, 1, 3, 1, 2]], names=["letter", None]),
        "levels of times and floats": pd.MultiIndex.from_arrays(
            [times(["2020-01-01"] * 2 + ["2021-01-01"] * 3), [0.5, 1.5, 0.5, 1.5, 2.5]], names=[None, "x"]
        ),
        "a level with missing rows": pd.MultiIndex.from_arrays([["a", None, "b", None, "a"], [1, 2, 3, 4, 5]]),
        "named like a column": pd.Index([1, 2, 3, 4, 5], name="int"),
        "named index": pd.Index([1, 2, 3, 4, 5], name="index"),
    }
    return found


def columns_axes() -> dict[str, pd.Index]:
    """Names of three columns of each kind that the fixed format stores without pickles."""
    return {
        "strings": pd.Index(["b", "ä b", "a/c"]),
        "a name": pd.Index(["b", "a", "c"], name="axis"),
        "integers": pd.Index([3, 1, 2]),
        "floats": pd.Index([0.5, 1.0, -2.5]),
        "times": times(["2020-01-01", "2020-01-02T03:04:05.006", "1960-01-01T00:00:00.000000007"]),
        "two levels": pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)], names=["x", None]),
    }


def attributes_of(path: Path, key: str) -> Any:
    """The attributes of a group, to be broken."""
    return h5py.File(path, "r+")[key].attrs
