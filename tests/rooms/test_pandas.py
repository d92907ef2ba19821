"""Frames of pandas written and read back: types, index and names as they were; a stale note is never a wrong answer."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import colonnade as cn
from colonnade.errors import DataError
from tests.rooms.pandas_frames import frames

REFUSED = {"mixed values": "column 'x'", "columns of one name": "'a'"}


def _through_colonnade(frame: pd.DataFrame, folder: Path) -> pd.DataFrame:
    path = folder / "a.h5"
    path.unlink(missing_ok=True)
    cn.write(path, frame, "t")
    with cn.open(path) as file:
        return file["t"].to_pandas()


def _through_parquet(frame: pd.DataFrame, folder: Path) -> pd.DataFrame:
    frame.to_parquet(folder / "a.parquet", engine="pyarrow")
    return pd.read_parquet(folder / "a.parquet", engine="pyarrow")


def assert_same(found: pd.DataFrame, frame: pd.DataFrame) -> None:
    """Equal to the last type, name and frequency."""
    pd.testing.assert_frame_equal(
        found, frame, check_index_type=True, check_column_type=True, check_freq=True, check_exact=True
    )
    assert found.attrs == frame.attrs
    assert list(found.index.names) == list(frame.index.names)
    assert list(found.columns.names) == list(frame.columns.names)


@pytest.mark.parametrize("name", [name for name in frames() if name not in REFUSED])
def test_a_frame_comes_back_as_it_was(tmp_path: Path, name: str) -> None:
    frame = frames()[name]
    assert_same(_through_colonnade(frame, tmp_path), frame)
    assert not [one for one in cn.check(tmp_path / "a.h5", deep=True) if one.severity == "error"]


def test_big_endian_columns_come_back_in_the_byte_order_of_the_machine(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"i": [1, 2, -3], "x": [1.5, np.nan, 2], "u": [1, 2, 2**60], "c": [1j, np.nan, 2], "b": [1.0, 2, 3]}
    )
    stored = frame.astype({"i": ">i4", "x": ">f8", "u": ">u8", "c": ">c16", "b": ">f4"}).set_index("b")
    native = frame.astype({"i": "i4", "x": "f8", "u": "u8", "c": "c16", "b": "f4"}).set_index("b")
    assert_same(_through_colonnade(stored, tmp_path), native)


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_kept_is_refused_by_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=REFUSED[name]):
        _through_colonnade(frames()[name], tmp_path)
    assert not (tmp_path / "a.h5").exists()


def _trial(through: Callable[[pd.DataFrame, Path], pd.DataFrame], folder: Path) -> Counter[str]:
    count: Counter[str] = Counter()
    for frame in frames().values():
        try:
            found = through(frame, folder)
        except Exception:  # noqa: BLE001 - Parquet refuses by many names
            count["refused"] += 1
            continue
        try:
            assert_same(found, frame)
            count["equal"] += 1
        except AssertionError:
            count["changed"] += 1
    return count


def test_fewer_frames_are_changed_or_refused_than_by_parquet(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, parquet = _trial(_through_colonnade, tmp_path), _trial(_through_parquet, tmp_path)
    assert sum(ours.values()) == len(frames()) >= 53
    assert ours["changed"] == 0 < parquet["changed"], (ours, parquet)
    assert ours["refused"] == len(REFUSED) < parquet["refused"], (ours, parquet)


@pytest.mark.parametrize(
    "name", ["index of strings", "index named index", "MultiIndex", "index of integers", "RangeIndex from 5 by 2"]
)
def test_an_arrow_table_keeps_the_row_labels_for_pandas(tmp_path: Path, name: str) -> None:
    frame = frames()[name]
    cn.write(tmp_path / "a.h5", frame, "t")
    pd.testing.assert_frame_equal(cn.read(tmp_path / "a.h5").to_pandas(), frame)
    with cn.open(tmp_path / "a.h5") as file:
        pd.testing.assert_frame_equal(file["t"].to_arrow(views=True).to_pandas(), frame)


def test_row_labels_that_pandas_did_not_write_are_the_index_in_both_ways(tmp_path: Path) -> None:
    cn.write(tmp_path / "a.h5", {"x": [1.5, 2.5], "id": ["a", "b"]}, "t", labels=["id"])
    with cn.open(tmp_path / "a.h5") as file:
        frame = file["t"].to_pandas()
        assert frame.index.name == "id" and list(frame.columns) == ["x"]
        pd.testing.assert_frame_equal(cn.read(tmp_path / "a.h5").to_pandas(), frame)
        assert list(file["t"].select("x").to_pandas().columns) == ["x"]


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_complex_numbers_come_through_pyarrow_too(tmp_path: Path, dtype: str) -> None:
    """By pyarrow's own `to_pandas`, with labels and without, of columns, slices and no rows."""
    rows = pd.DataFrame(
        {"y": [1, 2], "x": np.array([1 + 2j, 3], dtype), "z": np.array([4, 5j], dtype)}, index=["a", "b"]
    )
    for frame in (rows, rows.reset_index(drop=True), rows[:0]):
        cn.write(tmp_path / "a.h5", frame, "t", mode="replace")
        table = cn.read(tmp_path / "a.h5", "t")
        pd.testing.assert_frame_equal(table.to_pandas(), frame)
        pd.testing.assert_series_equal(table["x"].to_pandas(), frame["x"].reset_index(drop=True))
        pd.testing.assert_frame_equal(table.select(["x"]).slice(1).to_pandas(ignore_metadata=True)[["x"]],
                                      frame[["x"]][1:].reset_index(drop=True))  # fmt: skip
    cn.write(tmp_path / "b.h5", pa.table({"x": pa.nulls(1, table["x"].type)}), "t")
    assert np.isnan(cn.read(tmp_path / "b.h5", "t").to_pandas()["x"][0])


def test_a_table_copied_through_arrow_or_parquet_keeps_all_of_it(tmp_path: Path) -> None:
    frame = (
        frames()["period[M]"]
        .assign(i=pd.array([1, None, 3], dtype="Int64"))
        .set_index(pd.Index(list("abc"), name="id"))
    )
    cn.write(tmp_path / "a.h5", frame, "t")
    cn.write(tmp_path / "b.h5", cn.read(tmp_path / "a.h5"), "t")
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "c.parquet")
    cn.write(tmp_path / "c.h5", pq.read_table(tmp_path / "c.parquet"), "t")
    for name in ("b.h5", "c.h5"):
        with cn.open(tmp_path / name) as file:
            assert file["t"].labels == ["id"]
            assert_same(file["t"].to_pandas(), frame)


# -- notes of tables that change --


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    frame = pd.DataFrame(
        {"p": pd.period_range("2020", periods=3, freq="M"), "i": pd.array([1, 2, 3], dtype="Int64")},
        index=pd.RangeIndex(10, 40, 10),
    )
    cn.write(tmp_path / "a.h5", frame, "t")
    return tmp_path / "a.h5"


def _change(path: Path, change: Callable[[Any], object]) -> pd.DataFrame:
    with cn.open(path, "r+") as file:
        change(file["t"])
    with cn.open(path) as file:
        return file["t"].to_pandas()


def test_appended_rows_keep_the_types(changed: Path) -> None:
    more = pd.DataFrame(
        {"p": pd.period_range("2021", periods=2, freq="M"), "i": pd.array([4, None], dtype="Int64")},
        index=pd.RangeIndex(40, 60, 10),
    )
    found = _change(changed, lambda t: t.append(more))
    assert str(found.dtypes["p"]) == "period[M]" and str(found["p"].iloc[4]) == "2021-02"
    assert str(found.dtypes["i"]) == "Int64" and found["i"].iloc[4] is pd.NA
    assert isinstance(found.index, pd.RangeIndex) and found.index.tolist() == [10, 20, 30, 40, 50]


def test_an_index_that_is_no_range_any_more_is_none(changed: Path) -> None:
    more = pd.DataFrame(
        {"p": pd.period_range("2021", periods=1, freq="M"), "i": [4]}, index=pd.Index([7], name="index")
    )
    found = _change(changed, lambda t: t.append(more))
    assert not isinstance(found.index, pd.RangeIndex) and found.index.tolist() == [10, 20, 30, 7]


@pytest.mark.parametrize(
    "values", [pd.period_range("2020-01-01", periods=1, freq="D"), np.array([600]), pd.interval_range(0, 1)]
)
def test_values_that_stand_for_something_else_are_refused(changed: Path, values: Any) -> None:
    before = cn.open(changed)["t"].to_pandas()
    more = pd.DataFrame({"p": values, "i": [4]}, index=pd.RangeIndex(40, 50, 10))
    with pytest.raises(DataError, match="column 'p': the column holds "):
        _change(changed, lambda t: t.append(more))
    with pytest.raises(DataError, match="column 'p'"):
        _change(changed, lambda t: t.update("p", [0], pd.Series(values)))
    with pytest.raises(DataError, match="column 'i'"):
        _change(changed, lambda t: t.update("i", [0], pd.Series(pd.period_range("2020", periods=1, freq="M"))))
    assert_same(cn.open(changed)["t"].to_pandas(), before)


def test_columns_that_are_added_renamed_replaced_and_dropped(changed: Path) -> None:
    found = _change(changed, lambda t: t.rename_column("p", "month"))
    assert str(found.dtypes["month"]) == "period[M]"
    found = _change(changed, lambda t: t.replace_column("month", [1, 2, 3]))
    assert found.dtypes["month"] == np.int64
    found = _change(changed, lambda t: t.replace_column("month", pd.Series([1.5, None, 2.5], dtype="Float64")))
    assert str(found.dtypes["month"]) == "Float64"
    found = _change(changed, lambda t: t.add_column("week", pd.period_range("2020", periods=3, freq="W-SUN")))
    assert str(found.dtypes["week"]) == "period[W-SUN]"
    found = _change(changed, lambda t: (t.drop_column("i"), t.add_column("i", [7, 8, 9])))
    assert found.dtypes["i"] == np.int64
    found = _change(changed, lambda t: t.rename_column("index", "place"))
    assert found.index.name == "place" and isinstance(found.index, pd.RangeIndex)


def test_names_that_were_numbers_stay_with_names_that_are_not(tmp_path: Path) -> None:
    cn.write(tmp_path / "a.h5", pd.DataFrame(np.zeros((2, 2))), "t")
    found = _change(tmp_path / "a.h5", lambda t: t.add_column("b", [1, 2]))
    assert found.columns.tolist() == [0, 1, "b"]
    found = _change(tmp_path / "a.h5", lambda t: t.rename_column("b", "2"))
    assert found.columns.tolist() == [0, 1, 2]
    found = _change(tmp_path / "a.h5", lambda t: t.rename_column("2", "02"))
    assert found.columns.tolist() == [0, 1, "02"]


def test_a_column_that_others_replaced_is_what_it_is(changed: Path) -> None:
    with h5py.File(changed, "r+") as file:
        attributes = {name: file["t/p"].attrs[name] for name in ("_indexes",)}
        del file["t/p"]
        made = file["t"].create_dataset("p", data=np.array([1, 2, 3]), chunks=(3,), maxshape=(None,))
        for name, value in attributes.items():
            made.attrs.create(name, value, dtype=h5py.ref_dtype)
    assert cn.open(changed)["t"].to_pandas().dtypes["p"] == np.int64


def test_repacking_keeps_the_types(changed: Path) -> None:
    before = cn.open(changed)["t"].to_pandas()
    with cn.open(changed, "r+") as file:
        file.repack(filters="none")
    assert_same(cn.open(changed)["t"].to_pandas(), before)


_NOTES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.sampled_from(
        ["period[M]", "period[", "interval", "right", "Sparse", "object", "category", "pyarrow", "range", "tz", "Int64",
         "string[python]", "str[pyarrow]", "NaN", "UTC", "D", "int64", "large_string", "datetime64[ns]", "(0, 1]", ""]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["dtype", "name", "closed", "fill", "step", "freq", "categories", "type", "tz", "na", "left",
                         "right", "subtype", "columns", "values", "attrs", "ordered"]), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(notes=st.lists(_NOTES, min_size=6, max_size=6))
def test_any_note_can_be_read(tmp_path_factory: pytest.TempPathFactory, notes: list[Any]) -> None:
    """What stands in a file is never trusted: a note that means nothing changes nothing."""
    path = tmp_path_factory.mktemp("notes") / "a.h5"
    data = {
        "i": [1, None, 3],
        "f": [1.5, 2.5, None],
        "s": ["a", None, "c"],
        "t": np.array([1, 2, 3], "M8[us]"),
        "l": [7, 8, 9],
    }
    cn.write(path, data, "t", labels=["l"], columns={"s": cn.column(categories=True)})
    with h5py.File(path, "r+") as file:
        for name, note in zip(["t/i", "t/f", "t/s", "t/t", "t/l", "t"], notes, strict=True):
            file[name].attrs["pandas_metadata"] = json.dumps(note)
    with cn.open(path) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = file["t"].to_pandas()
        assert len(found) == 3
        assert file["t"].to_arrow().to_pydict()["i"] == [1, None, 3]
        cn.read(path).to_pandas()


# -- attrs, and what is large --


def test_attrs_that_cannot_be_kept_are_named(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": [1]})
    frame.attrs = {"good": 1, "bad": object(), "pair": (1, 2)}
    with pytest.warns(UserWarning, match="'bad', 'pair'"):
        cn.write(tmp_path / "a.h5", frame, "t")
    assert cn.open(tmp_path / "a.h5")["t"].to_pandas().attrs == {"good": 1}


def test_a_note_of_more_than_64_kib(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": [1]}, columns=pd.Index(["x"], name="n" * 70_000))
    frame.attrs = {"text": "ü" * 80_000}
    assert_same(_through_colonnade(frame, tmp_path), frame)
    found = _change(tmp_path / "a.h5", lambda t: t.append({"x": [2]}))
    assert found.attrs == frame.attrs and len(found) == 2


def test_the_note_is_no_attribute_of_the_user(changed: Path) -> None:
    assert cn.open(changed)["t"].attrs == {}


def test_frames_in_parts(tmp_path: Path) -> None:
    parts = [pd.DataFrame({"a": pd.array([i, i + 1], dtype="Int64")}, index=pd.RangeIndex(i, i + 2)) for i in (0, 2)]
    cn.write(tmp_path / "a.h5", iter(parts), "t")
    expected = pd.DataFrame({"a": pd.array([0, 1, 2, 3], dtype="Int64")})
    assert_same(cn.open(tmp_path / "a.h5")["t"].to_pandas(), expected)


@pytest.mark.parametrize("layout", ["anndata", "artifactdb"])
@pytest.mark.parametrize("name", ["period[M]", "interval of integers"])
def test_layouts_that_have_no_place_for_it_refuse_what_would_change(tmp_path: Path, layout: str, name: str) -> None:
    with pytest.raises(DataError, match=f"'x'.*{layout}"):
        cn.write(tmp_path / "a.h5", frames()[name], "t", layout=layout)
