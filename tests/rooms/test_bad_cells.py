"""Cells that cannot be decoded: the error names them, the other rows can be read, and what is stored can be seen."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.errors import CorruptError, UsageError

N = 1000


def strings(form: Any, path: Path, rows: list[int]) -> tuple[list[Any], list[Any]]:
    texts = [f"t{number}" for number in range(N)]
    cn.write(path, {"x": texts}, table="t", columns={"x": cn.column(strings=form)})
    stored = [text.encode() for text in texts]
    with h5py.File(path, "r+") as file:
        for row in rows:
            file["t/x"][row] = stored[row] = b"d\xe9f"
    return texts, stored


def enum(path: Path, rows: list[int]) -> tuple[list[Any], list[Any]]:
    values = [("a", "b")[number % 2] for number in range(N)]
    cn.write(path, {"x": values}, table="t", columns={"x": cn.column(categories=True, enum=True, filters="none")})
    stored = [number % 2 for number in range(N)]
    with h5py.File(path, "r+") as file:
        for row in rows:
            stored[row] = 77
        data = np.array(stored, file["t/x"].dtype)
        file["t/x"].id.write(h5py.h5s.ALL, h5py.h5s.ALL, data, mtype=file["t/x"].id.get_type())
    return values, stored


def codes(path: Path, rows: list[int]) -> tuple[list[Any], list[Any]]:
    values = [("a", "b")[number % 2] for number in range(N)]
    cn.write(path, {"x": values}, table="t", columns={"x": cn.column(categories=True)})
    stored = [number % 2 for number in range(N)]
    with h5py.File(path, "r+") as file:
        for row in rows:
            file["t/x"][row] = stored[row] = 99
    return values, stored


def dates(path: Path, rows: list[int]) -> tuple[list[Any], list[Any]]:
    from datetime import date, timedelta

    values = [date(2020, 1, 1) + timedelta(number) for number in range(N)]
    cn.write(path, {"x": values}, table="t", layout="artifactdb")
    stored = [value.isoformat().encode() for value in values]
    with h5py.File(path, "r+") as file:
        for row in rows:
            file["t/data/0"][row] = stored[row] = b"2020-13-99"
    return values, stored


def masked(path: Path, rows: list[int]) -> tuple[list[Any], list[Any]]:
    values = [None if number % 7 == 3 else f"t{number}" for number in range(N)]
    cn.write(path, {"x": values}, table="t", layout="anndata", columns={"x": cn.column(masked=True)})
    with h5py.File(path, "r+") as file:
        stored = list(file["t/x/values"][:])
        for row in rows:
            file["t/x/values"][row] = stored[row] = b"d\xe9f"
    return values, stored


KINDS: dict[str, Callable[[Path, list[int]], tuple[list[Any], list[Any]]]] = {
    "fixed": partial(strings, "fixed"), "variable": partial(strings, "variable"),
    "enum": enum, "codes": codes, "dates": dates, "masked": masked,
}  # fmt: skip
BAD = {"one": [500], "several": [0, 1, 2, 500, 999], "all": list(range(N))}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("kind", KINDS)
def test_the_other_cells_can_be_read(tmp_path: Path, kind: str, bad: str) -> None:
    values, stored = KINDS[kind](tmp_path / "a.h5", BAD[bad])
    wanted = [None if row in BAD[bad] else value for row, value in enumerate(values)]
    with cn.open(tmp_path / "a.h5") as file:
        column = file["t"]["x"]
        with pytest.raises(CorruptError, match=r"errors='missing'.*raw\[") as caught:
            column.to_arrow()
        assert (caught.value.row, caught.value.column) == (BAD[bad][0], "x")
        with pytest.raises(CorruptError):
            column.to_arrow(errors="raise")
        assert column.to_arrow(errors="missing").to_pylist() == wanted
        assert column.to_arrow(errors="missing").type == column.dtype
        assert list(column.raw[:]) == stored
        assert list(column.raw[10:3:-2]) == stored[10:3:-2]
        assert column.raw[-1] == stored[-1] and list(column.raw[[5, 0]]) == [stored[5], stored[0]]
        assert len(column.raw[3:3]) == 0


def test_a_sound_column_is_the_same_either_way(tmp_path: Path) -> None:
    rows = {"n": [1, None, 3], "s": ["a", None, "c"], "b": [True, None, False], "f": [1.5, None, float("inf")]}
    cn.write(tmp_path / "a.h5", rows, table="t")
    with cn.open(tmp_path / "a.h5") as file:
        for name, values in rows.items():
            assert file["t"][name].to_arrow(errors="missing").to_pylist() == values
        with pytest.raises(UsageError, match="errors"):
            file["t"]["n"].to_arrow(errors="ignore")  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="no row 3"):
            file["t"]["n"].raw[3]


def test_damage_is_not_a_bad_cell(tmp_path: Path) -> None:
    """A chunk that cannot be unpacked is an error whatever is asked for."""
    path = tmp_path / "a.h5"
    cn.write(path, {"x": np.arange(5000)}, table="t", columns={"x": cn.column(filters="shuffle+deflate")})
    with h5py.File(path) as file:
        where = file["t/x"].id.get_chunk_info(0)
    data = bytearray(path.read_bytes())
    data[where.byte_offset : where.byte_offset + where.size] = b"\xff" * where.size
    path.write_bytes(data)
    with cn.open(path) as file, pytest.raises(CorruptError):
        file["t"]["x"].to_arrow(errors="missing")


def test_categories_that_stand_twice_are_one_in_pandas(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    path = tmp_path / "a.h5"
    cn.write(path, {"c": ["a", "b", None, "c"]}, table="t", columns={"c": cn.column(categories=True)})
    with h5py.File(path, "r+") as file:
        (name,) = set(file["t"]) - {"c"}
        file["t"][name][...] = [b"a", b"a", b"c"]
    frame = cn.open_table(path, "t").to_pandas()
    assert frame["c"].astype(object).where(frame["c"].notna(), None).tolist() == ["a", "a", None, "c"]
    assert list(frame["c"].cat.categories) == ["a", "c"]


@pytest.mark.parametrize("layout", ["hep001", "anndata", "artifactdb"])
@pytest.mark.parametrize("arrow_kind", ["dictionary", "string"])
def test_rows_of_a_category_that_is_not_text_are_missing(tmp_path: Path, layout: Any, arrow_kind: str) -> None:
    path = tmp_path / "a.h5"
    values = ["muon", "pion", None, "kaon"] * 100
    given = pa.array(values).dictionary_encode() if arrow_kind == "dictionary" else pa.array(values)
    cn.write(path, {"c": given}, table="t", layout=layout, columns={"c": cn.column(categories=True)})
    names: list[str] = []
    with h5py.File(path, "r+") as file:
        file.visititems(lambda name, node: names.append(name) if is_categories(node) else None)
        (name,) = names
        stored = [b"p\xefon" if text == b"pion" else text for text in file[name].asstr("latin-1")[:].astype("S")]
        file[name][...] = stored
    wanted = [None if value == "pion" else value for value in values]
    with cn.open(path) as file:
        column = file["t"]["c"]
        with pytest.raises(CorruptError, match="errors='missing'"):
            column.to_arrow()
        found = column.to_arrow(errors="missing")
        assert found.to_pylist() == wanted
        assert found.null_count == wanted.count(None)
        assert found.type == column.dtype
        assert column.to_arrow(errors="missing", dictionaries=True).to_pylist() == wanted
        with pytest.raises(CorruptError):  # what is missing is not remembered
            column.to_arrow()


def is_categories(node: Any) -> bool:
    """Whether an object is the dataset of the three categories."""
    return isinstance(node, h5py.Dataset) and node.shape == (3,) and node.dtype.kind in "SO"
