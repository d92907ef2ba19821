"""Strings as NumPy's own: the same strings as objects would be, whatever they hold and however they are stored."""

from __future__ import annotations

import pickle
import tracemalloc
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import colonnade as cn
from colonnade.errors import DataError, UsageError
from colonnade.exchange.numpy_out import to_numpy

TEXTS = st.text(st.sampled_from("aü\0 €😀") | st.characters(codec="utf-8"), max_size=20)


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(st.none() | TEXTS | st.just("x" * 3000), max_size=40),
    coded=st.booleans(),
    cut=st.integers(0, 40),
    start=st.integers(0, 5),
)
def test_the_same_strings_as_objects(rows: list[str | None], coded: bool, cut: int, start: int) -> None:
    array = pa.array(rows, pa.string())
    parts = [array.dictionary_encode() if coded else array for array in (array[:cut], array[cut:])]
    column = pa.chunked_array(parts).slice(start)
    native, objects = to_numpy(column), to_numpy(column, "objects")
    assert isinstance(native.dtype, np.dtypes.StringDType) and objects.dtype == object
    assert native.tolist() == objects.tolist() == rows[start:]
    assert isinstance(native, np.ma.MaskedArray) == (column.null_count > 0)


@pytest.mark.parametrize("coded", [False, True])
def test_bytes_of_one_length_keep_every_string_or_are_refused(coded: bool) -> None:
    def column(*rows: str | None) -> pa.ChunkedArray:
        array = pa.array(rows, pa.string())
        return pa.chunked_array([array.dictionary_encode() if coded else array])

    found = to_numpy(column("ü", None, ""), "bytes")
    assert found.dtype == "S2" and found.tolist() == ["ü".encode(), None, b""]
    assert to_numpy(column(), "bytes").dtype == "S1"
    with pytest.raises(DataError, match="one holds NUL"):
        to_numpy(column("a", "b\0"), "bytes")
    with pytest.raises(DataError, match="the longest has 1,000,000 bytes"):
        to_numpy(column("x" * 1_000_000, *[""] * 400), "bytes")


@pytest.mark.parametrize("strings", ["fixed", "variable", "categories"])
def test_every_way_to_take_them(tmp_path: Path, strings: Any) -> None:
    rows = [f"text {i % 50}" for i in range(40_000)] + ["a", "ü" * 40]
    cn.write(tmp_path / "a.h5", {"s": rows, "n": np.arange(len(rows))}, "t", columns={"s": cn.column(strings=strings)})
    with cn.open(tmp_path / "a.h5") as file:
        table = file["t"]
        for found, expected in (
            (table.to_numpy()["s"], rows),
            (table["s"].to_numpy(), rows),
            (table["s"][5:9], rows[5:9]),
            (table["s"][[3, -1]], [rows[3], rows[-1]]),
            (table.where("n >= 39990").to_numpy()["s"], rows[39990:]),
        ):
            assert isinstance(found.dtype, np.dtypes.StringDType) and found.tolist() == expected
        for found in (table.to_numpy(strings="objects")["s"], table["s"].to_numpy(strings="objects")):
            assert found.dtype == object and found.tolist() == rows
        for found in (table.to_numpy(strings="bytes")["s"], table["s"].to_numpy(strings="bytes")):
            assert found.dtype == "S80" and [text.decode() for text in found.tolist()] == rows
        with pytest.raises(UsageError, match="'numpy', 'objects' or 'bytes'"):
            table.to_numpy(strings="python")


def test_what_stays_objects(tmp_path: Path) -> None:
    """np.asarray, since other libraries call it: a missing string is None there. Strings in lists and records."""
    data = {"s": ["a", None], "l": [["a"], ["b", "c"]], "r": [{"a": "x"}, {"a": "y"}], "b": [b"a", b"\xff"]}
    cn.write(tmp_path / "a.h5", data, "t")
    with cn.open(tmp_path / "a.h5") as file:
        assert np.asarray(file["t"]["s"]).tolist() == ["a", None]
        found = file["t"].to_numpy()
        assert found["l"][1].tolist() == ["b", "c"] and found["r"].tolist() == [("x",), ("y",)]
        assert found["b"].tolist() == [b"a", b"\xff"]


def test_round_trips_to_pandas_h5py_and_colonnade(tmp_path: Path) -> None:
    rows = ["a", "ü", "", "longer than fifteen bytes"]
    cn.write(tmp_path / "a.h5", {"s": rows}, "t")
    with cn.open(tmp_path / "a.h5") as file:
        found = file["t"].to_numpy()["s"]
    assert pd.Series(found).tolist() == rows and pd.DataFrame({"s": found})["s"].str.len().tolist() == [1, 1, 0, 25]
    if h5py.version.version_tuple[:2] >= (3, 14):  # older ones do not take NumPy's strings
        with h5py.File(tmp_path / "b.h5", "w") as other:
            other["s"] = found
            assert other["s"].asstr()[:].tolist() == rows
    cn.write(tmp_path / "c.h5", {"s": found}, "t")
    assert cn.read(tmp_path / "c.h5")["s"].to_pylist() == rows
    assert pickle.loads(pickle.dumps(found)).tolist() == rows


def test_no_object_is_made_per_row() -> None:
    column = pa.chunked_array([pa.array([f"r{i}" for i in range(200_000)])])
    sizes = {}
    for strings in ("numpy", "objects"):
        tracemalloc.start()
        kept = to_numpy(column, strings)
        sizes[strings] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(kept) == 200_000
    assert sizes["numpy"] < 20 * 200_000 < sizes["objects"]


@pytest.mark.parametrize("strings", ["numpy", "objects", "bytes"])
@pytest.mark.parametrize("are_shared", [True, False])
def test_categories_of_several_chunks(strings: Any, are_shared: bool) -> None:
    """Chunks that share their categories, or have others, with missing rows and without rows."""
    words = pa.array(["muon", "pion", "électron"])
    others = words if are_shared else pa.array(["pion", "tau", "muon"])
    codes = [[0, 1, 2, 0], [], [2, None, 1], [0]]
    dictionaries = [words, words, others, others]
    chunks = [
        pa.DictionaryArray.from_arrays(pa.array(part, pa.int32()), dictionary)
        for part, dictionary in zip(codes, dictionaries, strict=True)
    ]
    column = pa.chunked_array(chunks)
    values = to_numpy(column, strings)
    expected = column.cast(pa.string()).to_pylist()
    assert np.ma.getmaskarray(values).tolist() == [word is None for word in expected]
    shown = [word.decode() if isinstance(word, bytes) else str(word) for word in np.ma.getdata(values)]
    assert [word for word, wanted in zip(shown, expected, strict=True) if wanted is not None] == [
        word for word in expected if word is not None
    ]
