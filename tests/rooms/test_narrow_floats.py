"""Values appended to columns of floats that hold less than the values given: nothing becomes infinite in silence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest
from h5py import h5d, h5p, h5s

import colonnade as cn
from colonnade.errors import DataError
from tests.rooms.test_foreign_storage import small_float

BFLOAT16 = (2, 8, 7, 127)
FLOAT8 = (1, 5, 2, 15)


def make_table(path: Path, size: int, exponent: int, mantissa: int, bias: int) -> None:
    """A table with a column of small floats, 1.0 and 2.0, next to a plain one."""
    cn.write(path, {"n": [1, 2], "x": np.ones(2, "f4")}, table="t")
    with h5py.File(path, "r+") as file:
        before = file["t/x"]
        creation = h5p.create(h5p.DATASET_CREATE)
        creation.set_chunk((100,))
        space = h5s.create_simple((2,), (h5s.UNLIMITED,))
        made = h5py.Dataset(
            h5d.create(file["t"].id, b"small", small_float(size, exponent, mantissa, bias), space, creation)
        )
        made.id.write(h5s.ALL, h5s.ALL, np.array([1, 2], "f4"))
        for name in before.attrs:
            made.attrs[name] = before.attrs[name]
        del file["t/x"]
        file["t"].move("small", "x")


@pytest.mark.parametrize("kind", ["float16", "float32"])
@pytest.mark.parametrize("given", [[0.1, 1e300], [0.1, -1e39], pa.array([0.1, 1e40]), np.array([0.1, 1e300])])
def test_a_finite_number_does_not_become_infinite(tmp_path: Path, kind: str, given: Any) -> None:
    cn.write(path := tmp_path / "x.h5", {"x": np.ones(2, kind)}, table="t")
    with cn.open(path, "r+") as file:
        table = file["t"]
        with pytest.raises(DataError, match=f"row 3: .* does not fit {pa.type_for_alias(kind)}") as caught:
            table.append({"x": given})
        value = given[1].as_py() if isinstance(given, pa.Array) else given[1]
        assert (caught.value.row, caught.value.value) == (3, value)
        with pytest.raises(DataError, match="row 1"):
            table.update("x", [0, 1], given)
        assert table["x"].to_numpy().tolist() == [1, 1]
        table.append({"x": [0.1, float("inf"), float("-inf"), float("nan"), None]})
        found = table["x"].to_arrow().to_pylist()
        assert found[2:5] == [np.dtype(kind).type(0.1), float("inf"), float("-inf")] and found[6] is None


def test_a_finite_number_inside_a_value_does_not_become_infinite(tmp_path: Path) -> None:
    kinds: dict[str, Callable[[pa.DataType], pa.DataType]] = {
        "list": pa.list_,
        "struct": lambda kind: pa.struct([("a", kind)]),
        "fixed": lambda kind: pa.list_(kind, 2),
    }
    rows: dict[str, list[Any]] = {
        "list": [[1.0], [1.0, 1e300]], "struct": [{"a": 1.0}, {"a": 1e300}], "fixed": [[1.0, 2.0], [1.0, 1e300]]
    }  # fmt: skip
    for name, make_type in kinds.items():
        given = pa.array(rows[name], make_type(pa.float64()))
        cn.write(path := tmp_path / f"{name}.h5", pa.table({"x": given[:1].cast(make_type(pa.float32()))}), table="t")
        with cn.open(path, "r+") as file:
            with pytest.raises(DataError, match="row 2"):
                file["t"].append({"x": given})
            assert file["t"]["x"].to_arrow().to_pylist() == rows[name][:1]


@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [
        (BFLOAT16, [0.5, -3.0, 2.0**-133, 0.0, 2.0**127, -np.inf], [0.1, 1 + 2.0**-8, 3.4e38, 2.0**-134, 1e300]),
        (FLOAT8, [0.5, -1.25, 57344.0, 2.0**-16, np.inf], [0.1, 1 + 2.0**-3, 61440.0, 2.0**-17, 70000.0]),
    ],
    ids=["bfloat16", "float8"],
)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_small_floats_take_only_what_they_hold(
    tmp_path: Path, form: tuple[int, int, int, int], good: list[float], bad: list[float], dtype: str
) -> None:
    """The column is read as float32 or float16, so values of that type must come back as they were given."""
    make_table(path := tmp_path / "x.h5", *form)
    with cn.open(path, "r+") as file:
        table = file["t"]
        table.append({"n": [0] * len(good), "x": np.array(good, dtype)})
        for value in bad:
            with pytest.raises(DataError, match="row "), np.errstate(over="ignore"):
                table.append({"n": [0, 0], "x": np.array([1, value], "f8")})
            with pytest.raises(DataError, match="row 1"):
                table.update("x", [1], [value])
        table.update("x", [0], [float("nan")])
        found = table["x"].to_arrow().to_pylist()
    assert np.isnan(found[0]) and found[1:] == [2.0, *good]
