"""Rows updated where the table has their key, and appended where it does not: in one commit, or refused as a whole."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade import limits
from colonnade.errors import ColumnNotFound, ConflictError, DataError, UsageError

N = 200


def make(path: Path, **options: Any) -> None:
    data = {
        "id": np.arange(N)[::-1].copy(),
        "site": [f"site {row % 7}" for row in range(N)],
        "energy": [None if row % 5 == 0 else row / 2 for row in range(N)],
        "kind": pa.array([["muon", "pion", None][row % 3] for row in range(N)]).dictionary_encode(),
    }
    cn.write(path, data, "t", columns={name: {"chunk_rows": 16} for name in data}, **options)


KEYS: dict[str, tuple[pa.DataType, list[Any], list[Any]]] = {
    "int8": (pa.int8(), [1, 2, -3, None], [-3, 5, 1]),
    "uint64": (pa.uint64(), [0, 2**64 - 2, 5], [2**64 - 2, 7]),
    "float": (pa.float64(), [0.0, 1.5, float("nan"), float("inf")], [-0.0, float("inf"), 2.0]),
    "half": (pa.float16(), [np.float16(0.5), np.float16(2)], [np.float16(2), np.float16(4)]),
    "bool": (pa.bool_(), [True], [True, False]),
    "text": (pa.string(), ["", "größe", None, "a\0b"], ["größe", "b", "", "a\0b"]),
    "coded": (pa.dictionary(pa.int32(), pa.string()), ["b", "a", None], ["a", "c"]),
    "coded ints": (pa.dictionary(pa.int32(), pa.int64()), [7, 5], [5, 1]),
    "decimal": (
        pa.decimal128(9, 2),
        [decimal.Decimal("1.50"), None],
        [decimal.Decimal("1.50"), decimal.Decimal("2.25")],
    ),
    "long decimal": (
        pa.decimal128(38, 2),
        [decimal.Decimal("1.50")],
        [decimal.Decimal("1.50"), decimal.Decimal("2.25")],
    ),
    "time": (pa.timestamp("ns"), [1, 10**18 + 1], [10**18 + 1, 2]),
    "zoned": (pa.timestamp("us", "UTC"), [1, 10**15 + 1], [10**15 + 1, 2]),
    "date": (pa.date32(), [datetime.date(2026, 1, 2), None], [datetime.date(2026, 1, 2), datetime.date(1969, 1, 1)]),
    "duration": (pa.duration("s"), [5, 6], [6, 7]),
    "binary": (pa.binary(2), [b"ab", b"\0\0"], [b"\0\0", b"cd"]),
}


def array_of(kind: pa.DataType, items: list[Any]) -> pa.Array:
    return (
        pa.array(items, kind.value_type).dictionary_encode() if pa.types.is_dictionary(kind) else pa.array(items, kind)
    )


@pytest.mark.parametrize("indexed", [False, True], ids=["", "indexed"])
@pytest.mark.parametrize("name", KEYS)
def test_keys_of_every_type(tmp_path: Path, name: str, indexed: bool) -> None:
    """By value; missing keys of the table equal none. With an index the same rows are found."""
    kind, before, given = KEYS[name]
    index = {"key": "sorted_rows"} if indexed and name != "long decimal" else None  # which has none
    cn.write(tmp_path / "x.h5", {"key": array_of(kind, before), "value": [0] * len(before)}, "t", index=index)
    with cn.open_table(tmp_path / "x.h5", mode="r+") as table:
        known = [item for item in given if item in before]
        rows = {"key": array_of(kind, given), "value": list(range(10, 10 + len(given)))}
        assert table.upsert(rows, on="key") == (len(known), len(given) - len(known))
        found, keys = table["value"][:].tolist(), array_of(kind, given).to_pylist()
        values = dict(zip(keys, rows["value"], strict=True))
        old = array_of(kind, before).to_pylist()
        expected = [values.get(key, 0) if key is not None else 0 for key in old]
        expected += [values[key] for key in keys if key not in old]
        assert found == expected
        assert table.verify_indexes() == []


@pytest.mark.parametrize("form", ["pandas", "batches", "dict", "arrow"])
def test_several_keys_in_any_form(tmp_path: Path, form: str) -> None:
    make(path := tmp_path / "x.h5", index={"site": "bitmap"})
    rows = pa.table(
        {
            "site": ["site 0", "site 1", "site 9"],
            "id": [N - 1, N - 1, 3],
            "energy": [-1.0, -2.0, None],
            "kind": ["a", None, "b"],
        }
    )
    data: Any = {
        "pandas": rows.to_pandas,
        "batches": lambda: (rows.slice(at, 1).to_batches()[0] for at in range(3)),
        "dict": rows.to_pydict,
        "arrow": lambda: rows,
    }[form]()
    with cn.open_table(path, mode="r+") as table:
        assert table.upsert(data, on=["id", "site"]) == (1, 2)
        assert table[0] == {"id": N - 1, "site": "site 0", "energy": -1.0, "kind": "a"}
        assert table[-2:].to_arrow().to_pylist() == [
            {"id": N - 1, "site": "site 1", "energy": -2.0, "kind": None},
            {"id": 3, "site": "site 9", "energy": None, "kind": "b"},
        ]
        assert table.verify_indexes() == [] and all(index.trusted for index in table.indexes)


def test_columns_that_are_not_given_keep_their_values(tmp_path: Path) -> None:
    make(path := tmp_path / "x.h5")
    with cn.open_table(path, mode="r+") as table:
        before = table[N - 1 - 7]
        assert table.upsert({"id": [7], "energy": [99.0]}, on="id") == (1, 0)
        assert table[N - 1 - 7] == {**before, "energy": 99.0}
        with pytest.raises(DataError, match="they lack 'kind', 'site'"):
            table.upsert({"id": [7, N], "energy": [1.0, 2.0]}, on="id")
        assert table[N - 1 - 7]["energy"] == 99.0  # nothing of it was done


def test_it_is_one_commit(tmp_path: Path) -> None:
    make(path := tmp_path / "x.h5")
    seen: list[int] = []
    with cn.open(path, "r+") as file:
        commit = file._handle.commit
        file._handle.commit = lambda: (seen.append(1), commit())[1]  # type: ignore[method-assign]
        rows = {"id": [3, N], "site": ["a", "b"], "energy": [1.0, 2.0], "kind": ["x", "y"]}
        assert file["t"].upsert(rows, on="id") == (1, 1)
        assert seen == [1]
        assert file["t"].upsert({"id": [], "energy": []}, on="id") == (0, 0)
        assert seen == [1]
        with file.transaction():
            file["t"].upsert(rows, on="id")
            file["t"].upsert({**rows, "id": [N + 1, N + 2]}, on="id")
        assert seen == [1, 1] and len(file["t"]) == N + 3


Refusal = tuple[dict[str, Any], Any, type[Exception], str]
REFUSED: dict[str, Refusal] = {
    "a key twice": (
        {"id": [4, 5, 4], "energy": [1.0, 2.0, 3.0]}, "id", DataError, "id = 4 is given twice, in rows 0 and 2"
    ),
    "a missing key": (
        {"id": [4, None], "energy": [1.0, 2.0]}, "id", DataError, "column 'id', row 1: the key is missing"
    ),
    "a key that two rows have": (
        {"site": ["site 3"], "energy": [1.0]}, "site", DataError, "has the key site = 'site 3' twice, in rows 3 and 10"
    ),
    "NaN": ({"energy": [1.0, float("nan")], "id": [1, 2]}, "energy", DataError, "NaN cannot be a key"),
    "no key column": ({"energy": [1.0]}, "id", DataError, "the rows lack 'id'"),
    "another type": ({"id": ["4"], "energy": [1.0]}, "id", DataError, "column 'id'"),
    "a key that does not fit": ({"id": [4.5], "energy": [1.0]}, "id", DataError, "do not fit int64"),
    "a value that does not fit": ({"id": [4], "energy": ["x"]}, "id", DataError, "column 'energy'"),
    "an unknown column": ({"id": [4], "other": [1.0]}, "id", DataError, "the table has no 'other'"),
    "an unknown key": ({"id": [4]}, "other", ColumnNotFound, "no column 'other'"),
    "no key": ({"id": [4]}, [], UsageError, "`on` names the key"),
    "one key twice": ({"id": [4]}, ["id", "id"], UsageError, "`on` names the key"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_changes_nothing(tmp_path: Path, name: str) -> None:
    rows, on, error, message = REFUSED[name]
    make(path := tmp_path / "x.h5")
    before = path.read_bytes()
    with cn.open_table(path, mode="r+") as table, pytest.raises(error, match=message):
        table.upsert(rows, on=on)
    assert path.read_bytes() == before


def test_columns_that_cannot_be_keys(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as h5:
        h5["image"] = [1]
        cn.write(h5, {"list": [[1], [2]], "z": [1j, 2j], "ref": [h5["image"].ref, None], "none": pa.nulls(2)}, "t")
    with cn.open_table(path, "t", "r+") as table:
        for name in table.columns:
            with pytest.raises(UsageError, match=f"'{name}'"):
                table.upsert({name: table[name].to_arrow()}, on=name)
    with cn.open_table(path, "t") as table, pytest.raises(ConflictError):
        table.upsert({}, on="z")


def test_few_keys_are_found_by_an_index(tmp_path: Path) -> None:
    """The other chunks of the key column are not read."""
    make(path := tmp_path / "x.h5", index={"id": "sorted_rows"})
    with cn.open_table(path, mode="r+") as table, limits.override(search_chunks=1):
        rows = table._candidates(["id"], [pa.array([5, 7, 10**6])])
        assert rows is not None and rows.tolist() == [N - 1 - 7, N - 1 - 5]
        assert table._candidates(["site"], [pa.array(["site 1"])]) is None
        assert table._candidates(["id"], [pa.array(np.arange(100))]) is None


def test_labels_that_pandas_numbers_go_on(tmp_path: Path) -> None:
    """A frame of AnnData whose rows are numbered: an update leaves the numbers, new rows continue them."""
    path = tmp_path / "x.h5ad"
    cn.write(path, pd.DataFrame({"key": ["a", "b", "c"], "x": [1, 2, 3]}), "obs", layout="anndata")
    with cn.open_table(path, "obs", "r+") as table:
        assert table.upsert(pd.DataFrame({"key": ["d", "b"], "x": [40, 20]}), on="key") == (1, 1)
        assert table.to_arrow().to_pydict()["x"] == [1, 20, 3, 40]
        assert [int(label) for label in table[table.labels[0]].to_arrow().to_pylist()] == [0, 1, 2, 3]
