"""The filter scale-offset keeps every integer, and of floats the decimals asked for, NaN, infinities, missing rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest

import colonnade as cn

WIDE = np.array([0, 5, 7, 300, 2**40, -(2**62), 2**62], "i8")


def _rows(path: Path) -> list[Any]:
    """The rows as we read them; h5py must agree, up to missing ones."""
    found = cn.read(path, "t")["x"]
    with h5py.File(path) as h5:
        stored = h5["t/x"][...]
    there = found.is_valid().to_numpy()
    assert np.array_equal(stored[there], found.drop_null().to_numpy(), equal_nan=stored.dtype.kind == "f")
    values: list[Any] = found.to_pylist()
    return values


@pytest.mark.parametrize("text", ["scale-offset:3", "scale-offset", "scale-offset:64", "scale-offset:3+deflate"])
def test_no_bit_of_an_integer_is_lost(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.h5"
    cn.write(path, {"x": WIDE}, "t", columns={"x": {"filters": text}})
    assert _rows(path) == WIDE.tolist()
    cn.write(path, {"x": WIDE, "y": WIDE / 4}, "t", mode="replace")
    with cn.open(path, "r+") as file:
        file.repack(filters="scale-offset:3", chunk_rows=2)
    assert _rows(path) == WIDE.tolist()
    with cn.open(path, "r+") as file:
        file.repack(filters="scale-offset:3", chunk_rows=100)  # its only chunk, not filled, cannot skip the filter
    assert _rows(path) == WIDE.tolist()


def test_a_column_that_was_told_its_bits_is_changed(tmp_path: Path) -> None:
    """h5py wrote it with three bits a value: HDF5 would cut off all others, also when rows are cut."""
    path = tmp_path / "x.h5"
    cn.write(path, {"x": np.arange(8, dtype="i8") + 1000}, "t")
    with h5py.File(path, "r+") as h5:
        attributes = dict(h5["t/x"].attrs)
        del h5["t/x"]
        made = h5["t"].create_dataset(
            "x", data=np.arange(8, dtype="i8") + 1000, chunks=(4,), maxshape=(None,), scaleoffset=3
        )
        for name, value in attributes.items():
            made.attrs[name] = value
    with cn.open(path, "r+") as file:
        file["t"].truncate(7)
        assert file["t"]["x"].to_arrow().to_pylist() == list(range(1000, 1007))
        file["t"].append({"x": WIDE})
        file["t"].update("x", [0], [-1])
    assert _rows(path) == [-1, *range(1001, 1007), *WIDE.tolist()]


def test_a_small_table_whose_numbers_no_longer_fit(tmp_path: Path) -> None:
    """HDF5 would remember wrongly that the only chunk was packed: rows go into a dataset with other filters."""
    noise = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, 20)
    for change in ("append", "update", "truncate"):
        path, rows = tmp_path / f"{change}.h5", np.arange(50)
        cn.write(path, {"x": rows}, "t", columns={"x": {"filters": "scale-offset", "chunk_rows": 60}})
        with cn.open(path, "r+") as file:
            table, held = file["t"], file.h5["t/x"]
            if change == "append":
                table.append({"x": noise[:9]})
                rows = np.append(rows, noise[:9])
            elif change == "update":
                rows[10:30] = noise
                table.update("x", range(10, 30), noise)
            else:
                table.append({"x": np.resize(noise, 60)})
                table.update("x", range(20), noise)
                table.truncate(40)
                rows = np.append(noise, rows[20:40])
            assert file.h5["t/x"][...].tolist() == rows.tolist() == table["x"].to_arrow().to_pylist()
            assert held.shape  # held all the while
        assert _rows(path) == rows.tolist()
        assert cn.check(path, deep=True) == []


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("fill", ["auto", None, -999.25])
@pytest.mark.parametrize("chunk_rows", [3, 50, 500])
def test_floats_keep_what_is_no_number(tmp_path: Path, kind: str, fill: Any, chunk_rows: int) -> None:
    """And values next to the fill, which HDF5 takes for it, and values that are too far apart for it."""
    path, rng = tmp_path / "x.h5", np.random.default_rng(chunk_rows)
    values = rng.normal(0, 1000, 200).astype(kind)
    values[[5, 60, 61, 190]] = [np.nan, np.inf, -np.inf, 1e30]
    values[[7, 150]] = [-999.251, -999.249]
    missing = np.zeros(200, bool) if fill is None else np.arange(200) % 13 == 9
    options: dict[str, Any] = {"filters": "scale-offset:2", "chunk_rows": chunk_rows}
    if fill != "auto":
        options["fill"] = fill
    cn.write(path, {"x": pa.array(values[:170], mask=missing[:170])}, "t", columns={"x": options})
    with cn.open(path, "r+") as file:
        for first in (170, 171, 185):
            last = {170: 171, 171: 185, 185: 200}[first]
            file["t"].append({"x": pa.array(values[first:last], mask=missing[first:last])})
        file["t"].update("x", [3, 100], pa.array([np.inf, 0.125], pa.from_numpy_dtype(np.dtype(kind))))
        file["t"].truncate(199)
    values[[3, 100]], missing[[3, 100]] = [np.inf, 0.125], False
    values, missing = values[:199], missing[:199]
    found = cn.read(path, "t")["x"].combine_chunks()
    assert found.is_null().to_numpy(zero_copy_only=False).tolist() == missing.tolist()
    rows = found.to_numpy(zero_copy_only=False)[~missing].astype("f8")
    expected = values[~missing].astype("f8")
    finite = np.isfinite(expected)
    assert np.array_equal(rows[~finite], expected[~finite], equal_nan=True)
    step = 0.005 + 8 * float(np.spacing(np.dtype(kind).type(5000)))  # of the smallest value, to which all are added
    wrong = np.abs(rows[finite] - expected[finite]) > step
    assert (rows[finite][wrong].tolist(), expected[finite][wrong].tolist()) == ([], [])
    with h5py.File(path) as h5:
        stored = h5["t/x"][...][~missing].astype("f8")
    assert np.array_equal(stored, rows, equal_nan=True)


def test_floats_that_are_packed_again_stay(tmp_path: Path) -> None:
    """HDF5 rounds to steps from the smallest value of a chunk: with each smaller one, all others would move."""
    path, rng = tmp_path / "x.h5", np.random.default_rng(1)
    cn.write(path, {"x": rng.normal(0, 1, 20)}, "t", columns={"x": {"filters": "scale-offset:1", "chunk_rows": 100}})
    first = np.array(_rows(path))
    with cn.open(path, "r+") as file:
        for number in range(40):
            file["t"].append({"x": np.array([-0.037 * number])})
        assert [step.name for step in file["t"].info.by_name["x"].filters] == ["scale-offset"]
    assert np.abs(np.array(_rows(path))[:20] - first).max() < 1e-12


def test_portable_columns_have_filters_that_every_reader_has(tmp_path: Path) -> None:
    """By default scale-offset is used; as portable ones shuffle and deflate, in new columns and by `repack`."""
    path, rng = tmp_path / "x.h5", np.random.default_rng(0)
    rows: dict[str, Any] = {
        "sorted": np.arange(20_000),
        "small": rng.integers(0, 100, 20_000).astype("i4"),
        "byte": rng.integers(0, 9, 20_000).astype("u1"),
        "words": np.array(["one", "two", "three"])[rng.integers(0, 3, 20_000)],
        "long words": [f"a word of its own {number}" for number in range(20_000)],
        "float": np.round(rng.normal(0, 1, 20_000), 1),
        "noise": rng.integers(-(2**63), 2**63 - 1, 20_000),
        "flag": rng.random(20_000) < 0.5,
    }

    def used(file: cn.File) -> dict[str, tuple[str, ...]]:
        return {column.name: tuple(step.name for step in column.filters) for column in file["t"].info.columns}

    cn.write(path, rows, "t", columns={name: {"filters": "portable"} for name in rows})
    with cn.open(path) as file:
        chosen = used(file)
    assert {name for steps in chosen.values() for name in steps} == {"shuffle", "deflate"}
    assert chosen["noise"] == () and chosen["sorted"] and chosen["words"]
    path.unlink()
    cn.write(path, rows, "t")
    with cn.open(path, "r+") as file:
        assert ("scale-offset",) in used(file).values()
        file.repack(filters="portable")
        assert {name for steps in used(file).values() for name in steps} == {"shuffle", "deflate"}
        file["t"].append({name: values[:10] for name, values in rows.items()})
        assert {name for steps in used(file).values() for name in steps} == {"shuffle", "deflate"}
    assert cn.check(path, deep=True) == []
