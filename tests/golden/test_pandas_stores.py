"""Stores that pandas 2.0 and 3.0 wrote (in `foreign/pandas`): values are held against what pandas itself read.

`pandas_stores.json` says what pandas 2.3 reads: columns, types, and a checksum per column.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import colonnade as cn
from tests.golden.test_foreign import FOLDER, checksum

STORES: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "pandas_stores.json").read_text())["files"]
FRAMES = [(file, key) for file, keys in STORES.items() for key, said in keys.items() if said["kind"] == "DataFrame"]
FIXED = [(file, key) for file, key in FRAMES if STORES[file][key]["pandas_type"] == "frame"]
TABLES = [(file, key) for file, key in FRAMES if STORES[file][key]["pandas_type"] == "frame_table"]


def as_plain(values: pd.Series, dtype: str) -> list[Any]:
    """Values as the checksums were made of: pandas 2.3 reads times and durations of pandas 3 as if they were in
    nanoseconds, and durations of the fixed format as numbers. pandas 3 reads what is asserted below."""
    if values.dtype.kind not in "mM":
        return [None if value is pd.NaT else value for value in values.tolist()]
    zone = getattr(values.dtype, "tz", None)
    numbers = (values if zone is None else values.dt.tz_convert("UTC").dt.tz_localize(None)).to_numpy().astype("i8")
    if dtype == "int64":
        return list(numbers.tolist())
    if dtype.startswith("timedelta64"):
        return [None if value is pd.NaT else value for value in values.astype("m8[ns]").tolist()]
    stamps = pd.Series(numbers.view("M8[ns]"))
    stamps = stamps if zone is None else stamps.dt.tz_localize("UTC").dt.tz_convert(zone)
    return [None if value is pd.NaT else value for value in stamps.tolist()]


def holds(values: pd.Series, dtype: str, expected: str) -> bool:
    return checksum(as_plain(values, dtype)) == expected


@pytest.mark.parametrize(("file", "key"), FIXED)
def test_values_of_the_fixed_format(file: str, key: str) -> None:
    said = STORES[file][key]
    with cn.open(FOLDER / "pandas" / file) as opened:
        assert opened.tables() == [key]
        frame = opened[key].to_pandas()
    assert list(frame.columns) == said["columns"] and list(frame.shape) == said["shape"]
    assert frame.index.name == said["index_name"]
    assert checksum(frame.index.tolist()) == said["index_checksum"]
    for name, expected in said["column_checksums"].items():
        assert holds(frame[name], said["dtypes"][name], expected), name
    if file.startswith("3"):  # pandas 2.0 stored no units
        check_units(frame)


def check_units(frame: pd.DataFrame) -> None:
    """Columns of one instant in several units hold the same instants."""
    for kind in ("datetime", "datetimetz", "timedelta"):
        same = [frame[name].dt.as_unit("ns") for name in frame.columns if name.startswith(f"{kind}_")]
        assert len(same) >= 2 and all(values.equals(same[0]) for values in same)
    assert frame["datetime_us"].iloc[0] == pd.Timestamp("2013-01-01")


@pytest.mark.parametrize(("file", "key"), TABLES)
def test_values_of_the_table_format(file: str, key: str) -> None:
    """The names of the columns are pickled: each column of the file is one of those that pandas reads."""
    said = STORES[file][key]
    with cn.open(FOLDER / "pandas" / file) as opened:
        assert opened.tables() == [key]
        frame = opened[key].to_pandas()
    assert list(frame.shape) == said["shape"]
    assert checksum(frame.index.tolist()) == said["index_checksum"]
    numbers = {name: sum_ for name, sum_ in said["column_checksums"].items() if said["dtypes"][name][:4] != "date"}
    found = [checksum(_plain(frame[name])) for name in frame.columns]
    assert {name for name, expected in numbers.items() if expected not in found} == set()


def _plain(values: pd.Series) -> list[Any]:
    return [None if value is pd.NaT else value for value in values.tolist()]


@pytest.mark.parametrize("file", [file for file, keys in STORES.items() if not keys])
def test_what_is_not_of_pandas_is_no_table_of_pandas(file: str) -> None:
    with cn.open(FOLDER / "pandas" / file) as opened:
        assert not [path for path in opened.tables() if opened[path].layout == "pandas"]
