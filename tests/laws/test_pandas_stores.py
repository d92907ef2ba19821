"""Law: whatever frame pandas stores, a table reads it as `pandas.read_hdf` does: values, types, names and index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import colonnade as cn
from tests.rooms.pandas_stores import assert_as_pandas_reads, store

ZONES = ["Europe/Berlin", "America/New_York", "Asia/Kathmandu"]
FIXED_TYPES = [
    "i1",
    "i2",
    "i4",
    "i8",
    "u1",
    "u2",
    "u4",
    "u8",
    "f4",
    "f8",
    "?",
    "c8",
    "c16",
    "M8[ns]",
    "m8[ns]",
    "zoned",
]
TABLE_TYPES = [*FIXED_TYPES[:11], "M8[ns]", "m8[ns]", "text", "category"]
LETTERS = st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\0")
TEXTS = st.text(LETTERS, max_size=6)
IDENTIFIERS = st.from_regex(r"[a-z][a-z0-9_]{0,7}", fullmatch=True).filter(lambda name: name not in ("index", "values"))
SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def values(draw: st.DrawFn, kind: str, n_rows: int, can_miss: bool = True) -> Any:
    """The values of a column."""
    if kind == "text":
        items: list[Any] = draw(st.lists(TEXTS | st.none() if can_miss else TEXTS, min_size=n_rows, max_size=n_rows))
        assume("nan" not in items and any(items))  # which pandas 2 reads as missing; all missing is no string
        return np.array(items, dtype=object)
    if kind == "category":
        codes = draw(arrays.arrays("i1", n_rows, elements=st.integers(-1, 2)))
        names = draw(st.lists(IDENTIFIERS.filter(lambda name: name != "nan"), min_size=3, max_size=3, unique=True))
        return pd.Categorical.from_codes(codes, names)
    if kind == "zoned":
        stamps = draw(values("M8[ns]", n_rows, can_miss))
        return pd.DatetimeIndex(stamps).tz_localize("UTC").tz_convert(draw(st.sampled_from(ZONES)))
    if kind[0] in "Mm":
        numbers = draw(arrays.arrays("i8", n_rows, elements=st.integers(-(2**62), 2**62)))
        found = numbers.view(kind)
        if can_miss:
            found[draw(arrays.arrays("?", n_rows))] = "NaT"
        return found
    return draw(arrays.arrays(kind, n_rows))


@st.composite
def indexes(draw: st.DrawFn, n_rows: int, kinds: list[str]) -> pd.Index:
    """An index of one or two levels."""
    levels = [pd.Index(draw(values(kind, n_rows, can_miss=False))) for kind in kinds]
    names: list[Any] = [draw(st.none() | IDENTIFIERS) for _ in levels]
    if len(levels) == 1:
        return levels[0].rename(names[0])
    return pd.MultiIndex.from_arrays(levels, names=names)


INDEX_KINDS = st.lists(st.sampled_from(["i8", "u2", "f8", "M8[ns]", "m8[ns]", "text"]), min_size=1, max_size=2)


@SETTINGS
@given(st.data())
def test_frames_in_the_fixed_format(tmp_path_factory: Any, data: st.DataObject) -> None:
    path = _fresh(tmp_path_factory)
    n_rows = data.draw(st.integers(1, 12))
    kinds = data.draw(st.lists(st.sampled_from(FIXED_TYPES), min_size=1, max_size=8))
    strategy = data.draw(st.sampled_from([TEXTS.filter(lambda name: name != "nan"), st.integers(-(2**60), 2**60)]))
    names = data.draw(st.lists(strategy, min_size=len(kinds), max_size=len(kinds), unique=True))
    columns = [pd.Series(data.draw(values(kind, n_rows))) for kind in kinds]
    frame = pd.concat(columns, axis=1)
    frame.columns = pd.Index(names)
    if data.draw(st.booleans()):
        frame.index = data.draw(indexes(n_rows, data.draw(INDEX_KINDS)))
    store(path, "f", frame, **({"complib": "zlib", "complevel": 1} if data.draw(st.booleans()) else {}))
    assert_as_pandas_reads(path, "f")
    assert not [one for one in cn.check(path, deep=True) if one.severity == "error"]


@SETTINGS
@given(st.data())
def test_data_columns_in_the_table_format(tmp_path_factory: Any, data: st.DataObject) -> None:
    path = _fresh(tmp_path_factory)
    n_rows = data.draw(st.integers(1, 12))
    kinds = data.draw(st.lists(st.sampled_from(TABLE_TYPES), min_size=1, max_size=6))
    names = data.draw(st.lists(IDENTIFIERS, min_size=len(kinds), max_size=len(kinds), unique=True))
    columns = {name: data.draw(values(kind, n_rows)) for name, kind in zip(names, kinds, strict=True)}
    frame = pd.DataFrame(columns)
    frame.index = data.draw(st.sampled_from([frame.index, frame.index[::-1], frame.index.astype("f8")]))
    store(path, "t", frame, format="table", data_columns=True, index=False)
    assert_as_pandas_reads(path, "t")
    assert not [one for one in cn.check(path, deep=True) if one.severity == "error"]


WRITTEN_TYPES = [kind for kind in TABLE_TYPES if kind != "u8"] + ["zoned"]
LABEL_KINDS = st.lists(st.sampled_from(["i8", "u2", "f8", "M8[ns]", "text"]), min_size=1, max_size=3)


@SETTINGS
@given(st.data())
def test_pandas_reads_what_is_written_for_it_as_its_own(tmp_path_factory: Any, data: st.DataObject) -> None:
    """A frame written with layout="pandas", or converted into it, and the frame that pandas writes, are read equal."""
    path = _fresh(tmp_path_factory)
    n_rows = data.draw(st.integers(1, 12))
    kinds = data.draw(st.lists(st.sampled_from(WRITTEN_TYPES), min_size=1, max_size=6))
    names = data.draw(st.lists(IDENTIFIERS, min_size=len(kinds), max_size=len(kinds), unique=True))
    frame = pd.DataFrame({name: data.draw(values(kind, n_rows)) for name, kind in zip(names, kinds, strict=True)})
    if data.draw(st.booleans()):
        frame.index = data.draw(indexes(n_rows, data.draw(LABEL_KINDS)))
    assume(not set(frame.index.names) & set(names))
    assume(len(set(frame.index.names) - {None}) == sum(name is not None for name in frame.index.names))
    assume(not any("nan" in frame.index.get_level_values(level) for level in range(frame.index.nlevels)))
    other, converted = path.with_name("other.h5"), path.with_name("converted.h5")
    for new in (other, converted):
        new.unlink(missing_ok=True)
    store(path, "t", frame, format="table", data_columns=True, index=False, nan_rep="\x7f")
    cn.write(other, frame, "t", layout="pandas")
    theirs = _read_by_pandas(path, "t")
    pd.testing.assert_frame_equal(_read_by_pandas(other, "t"), theirs)
    assert_as_pandas_reads(other, "t")
    assert cn.check(other, deep=True) == []
    cn.write(path, frame, "ours")
    with cn.open(path, "r+") as file:
        del file.h5["t"]
    cn.convert(path, converted, layout="pandas")
    pd.testing.assert_frame_equal(_read_by_pandas(converted, "ours"), theirs)


def _read_by_pandas(path: Path, key: str) -> pd.DataFrame:
    read = pd.read_hdf(path, key)
    assert isinstance(read, pd.DataFrame)
    return read


def _fresh(tmp_path_factory: Any) -> Path:
    path: Path = tmp_path_factory.getbasetemp() / "store.h5"
    path.unlink(missing_ok=True)
    return path
