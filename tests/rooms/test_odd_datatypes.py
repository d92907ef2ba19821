"""Columns of datatypes that NumPy or Arrow have no word for: their table changes like any other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from h5py import h5d, h5p, h5s, h5t

import colonnade as cn
from colonnade.errors import DataError, UnsupportedError
from colonnade.h5 import capi

N = 4


def integer(name: str, precision: int, offset: int = 0) -> Any:
    made = getattr(h5t, name).copy()
    made.set_precision(precision)
    made.set_offset(offset)
    return made


def enum(members: dict[str, int], base: str = "i1") -> Any:
    return h5t.py_create(h5py.enum_dtype(members, basetype=base), logical=True)


def compound_with_enum() -> Any:
    made = h5t.create(h5t.COMPOUND, 5)
    made.insert(b"n", 0, h5t.STD_I32LE)
    made.insert(b"e", 4, enum({"RED": 5, "GREEN": 1}))
    return made


# By name: the datatype, and the elements as they lie in memory in that very datatype.
TYPES: dict[str, tuple[Callable[[], Any], Any]] = {
    "enum of other numbers": (lambda: enum({"RED": 5, "GREEN": 1, "BLUE": 42}), np.array([5, 1, 42, 5], "i1")),
    "enum not in name order": (lambda: enum({"b": 0, "a": 1}, "u1"), np.array([0, 1, 1, 0], "u1")),
    "enum with a negative number": (lambda: enum({"LOW": -1, "MID": 0, "HIGH": 1}), np.array([-1, 0, 1, -1], "i1")),
    "12 bits": (lambda: integer("STD_I16LE", 12), np.array([-5 & 0xFFF, 0, 2047, 0x800], "<u2")),
    "12 bits with an offset": (lambda: integer("STD_U16BE", 12, 4), (np.array([0, 5, 4095, 7]) << 4).astype(">u2")),
    "long double": (h5t.NATIVE_LDOUBLE.copy, np.arange(N, dtype=np.longdouble)),
    "time": (h5t.UNIX_D32LE.copy, np.arange(N, dtype="<i4")),
    "compound with an enum": (
        compound_with_enum,
        np.array([(1, 5), (2, 1), (3, 5), (4, 1)], np.dtype([("n", "<i4"), ("e", "i1")])),
    ),
}
CARRIED = ["long double", "time"]


def make(path: Path, name: str, chunked: bool = True, fill: Any = None) -> None:
    type_id, elements = TYPES[name][0](), TYPES[name][1]
    with h5py.File(path, "w") as file:
        group = file.create_group("t")
        group.attrs["CLASS"], group.attrs["VERSION"] = np.bytes_("COLUMN_TABLE"), np.bytes_("1.0")
        group.attrs["column-order"] = ["x", "odd"]
        storage: dict[str, Any] = {"chunks": (2,), "maxshape": (None,)} if chunked else {}
        group.create_dataset("x", data=np.arange(N, dtype="i4"), **storage)
        creation = h5p.create(h5p.DATASET_CREATE)
        if chunked:
            creation.set_chunk((2,))
        if fill is not None:
            creation.set_fill_value(fill)
        space = h5s.create_simple((N,), (h5s.UNLIMITED,) if chunked else (N,))
        dataset = h5d.create(group.id, b"odd", type_id, space, dcpl=creation)
        elements = np.ascontiguousarray(elements)
        capi.write(dataset, type_id, h5s.create_simple((N,)), space, elements.ctypes.data)


def stored(path: Path) -> tuple[bytes, bytes]:
    """The datatype of the column, and its elements as they lie in the file."""
    with h5py.File(path) as file:
        dataset = file["t/odd"].id
        elements = np.zeros((dataset.shape[0], dataset.get_type().get_size()), np.uint8)
        space = h5s.create_simple(dataset.shape)
        capi.read(dataset, dataset.get_type(), space, dataset.get_space(), elements.ctypes.data)
        if dataset.get_type().equal(h5t.NATIVE_LDOUBLE):
            elements[:, 10:] = 0  # padding of 80 bits
        return dataset.get_type().encode(), elements.tobytes()


@pytest.mark.parametrize("chunked", [True, False], ids=["chunked", "contiguous"])
@pytest.mark.parametrize("name", TYPES)
class TestEveryType:
    def test_truncate(self, tmp_path: Path, name: str, chunked: bool) -> None:
        make(path := tmp_path / "x.h5", name, chunked)
        kind, elements = stored(path)
        with cn.open(path, "r+") as file:
            file["t"].truncate(3)
        assert stored(path) == (kind, elements[: len(elements) * 3 // N])

    def test_delete(self, tmp_path: Path, name: str, chunked: bool) -> None:
        make(path := tmp_path / "x.h5", name, chunked)
        kind, elements = stored(path)
        size = len(elements) // N
        with cn.open(path, "r+") as file:
            assert file["t"].delete([0, 2]) == 2
        assert stored(path) == (kind, elements[size : 2 * size] + elements[3 * size :])

    def test_other_columns_change(self, tmp_path: Path, name: str, chunked: bool) -> None:
        make(path := tmp_path / "x.h5", name, chunked)
        before = stored(path)
        with cn.open(path, "r+") as file:
            file["t"].update("x", [1], [77])
            file["t"].add_column("y", np.arange(N))
            file["t"].rename_column("y", "z")
            file["t"].drop_column("z")
        with cn.open(path) as file:
            assert file["t"]["x"][:].tolist() == [0, 77, 2, 3]
        assert stored(path) == before

    def test_its_own_rows_are_appended(self, tmp_path: Path, name: str, chunked: bool) -> None:
        make(path := tmp_path / "x.h5", name, chunked)
        kind, elements = stored(path)
        with cn.open(path, "r+") as file:
            rows = file["t"].to_arrow()
            file["t"].append(rows.slice(1, 2))
        size = len(elements) // N
        assert stored(path) == (kind, elements + elements[size : 3 * size])


@pytest.mark.parametrize("chunked", [True, False], ids=["chunked", "contiguous"])
@pytest.mark.parametrize("name", CARRIED)
def test_rows_without_it_hold_its_default(tmp_path: Path, name: str, chunked: bool) -> None:
    make(path := tmp_path / "x.h5", name, chunked)
    kind, elements = stored(path)
    with cn.open(path, "r+") as file:
        file["t"].append({"x": [8, 9, 10]})
        file["t"].truncate(N + 2)
        file["t"].append({"x": [11]})
    assert stored(path) == (kind, elements + bytes(3 * len(elements) // N))
    assert not [finding for finding in cn.check(path, deep=True) if finding.severity == "error"]


def test_rows_without_it_hold_its_fill(tmp_path: Path) -> None:
    make(path := tmp_path / "x.h5", "long double", fill=np.array(-1, dtype=np.longdouble))
    with cn.open(path, "r+") as file:
        file["t"].append({"x": [8, 9, 10]})
        assert file["t"].to_arrow()["odd"].null_count == 3
        file["t"].update("odd", [0], [None])
    with h5py.File(path) as file:
        assert file["t/odd"][:].tolist() == [-1, 1, 2, 3, -1, -1, -1]


def test_what_cannot_be_encoded_is_refused_by_name(tmp_path: Path) -> None:
    make(path := tmp_path / "x.h5", "long double")
    before = stored(path)
    with cn.open(path, "r+") as file:
        with pytest.raises(UnsupportedError, match="column 'odd', row 4"):
            file["t"].append({"x": [1], "odd": [1.5]})
        with pytest.raises(UnsupportedError, match="column 'odd'"):
            file["t"].update("odd", [1], [1.5])
        with pytest.raises(DataError, match="no value of this column marks it"):
            file["t"].update("odd", [1], [None])
        with pytest.raises(DataError, match="they lack 'x'"):
            file["t"].append({"odd": [None]})
    assert stored(path) == before


def test_members_of_an_enum_are_encoded_by_name(tmp_path: Path) -> None:
    make(path := tmp_path / "x.h5", "enum of other numbers")
    with cn.open(path, "r+") as file:
        table = file["t"]
        table.append({"x": [8, 9], "odd": ["BLUE", "GREEN"]})
        table.update("odd", [0], ["GREEN"])
        with pytest.raises(DataError, match=r"row 6: 'PINK' is not one of the members of its enum"):
            table.append({"x": [1], "odd": ["PINK"]})
        with pytest.raises(DataError, match="missing"):
            table.append({"x": [1], "odd": [None]})
    with h5py.File(path) as file:
        assert file["t/odd"][:].tolist() == [1, 1, 42, 5, 42, 1]


def test_a_member_with_a_negative_number_is_a_member(tmp_path: Path) -> None:
    """It was taken for the mark of missing rows: a new name made the rows that held it missing."""
    make(path := tmp_path / "x.h5", "enum with a negative number")
    with cn.open(path, "r+") as file:
        file["t"].append({"x": [8], "odd": ["LOW"]})
        with pytest.raises(DataError, match="'OTHER'"):
            file["t"].append({"x": [8], "odd": ["OTHER"]})
        assert file["t"].to_arrow()["odd"].to_pylist() == ["LOW", "MID", "HIGH", "LOW", "LOW"]


@pytest.mark.parametrize("chunked", [True, False], ids=["chunked", "contiguous"])
@pytest.mark.parametrize(
    ("name", "good", "bad"), [("12 bits", (-2048, 2047), (-2049, 2048)), ("12 bits with an offset", (0, 4095), (4096,))]
)
def test_integers_of_few_bits_are_checked(
    tmp_path: Path, name: str, good: tuple[int, ...], bad: tuple[int, ...], chunked: bool
) -> None:
    make(path := tmp_path / "x.h5", name, chunked)
    with cn.open(path, "r+") as file:
        table = file["t"]
        before = table["odd"][:].tolist()
        table.append({"x": [0] * len(good), "odd": list(good)})
        for value in bad:
            with pytest.raises(DataError, match=f"row {N + len(good) + 1}: {value} does not fit its 12 bits"):
                table.append({"x": [0, 0], "odd": [1, value]})
            with pytest.raises(DataError, match=f"row 2: {value} does not fit its 12 bits"):
                table.update("odd", [2], [value])
        table.append({"x": [0], "odd": [None]})
        assert table.to_arrow()["odd"].to_pylist() == [*before, *good, None]
