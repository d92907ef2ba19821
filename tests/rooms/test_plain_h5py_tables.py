"""Tables as plain h5py writes them, after the examples 11.1 and 11.2 of HEP001: every change works on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import colonnade as cn

N = 10
KINDS = ("chunk_minmax", "sorted_rows", "bitmap", "chunk_bloom")


def references(*datasets: h5py.Dataset) -> Any:
    return np.array([dataset.ref for dataset in datasets], dtype=h5py.ref_dtype)


def make_example(path: Path, chunk_rows: int | None = None, code: str = "i1") -> None:
    """Example 11.1; contiguous where no chunk length is given, as h5py stores what it is not told to chunk."""
    storage: dict[str, Any] = {} if chunk_rows is None else {"chunks": (chunk_rows,), "maxshape": (None,)}
    with h5py.File(path, "w") as file:
        group = file.create_group("my_table")
        group.attrs["CLASS"], group.attrs["VERSION"] = np.bytes_("COLUMN_TABLE"), np.bytes_("1.0")
        group.attrs["TITLE"], group.attrs["column-order"] = "Sample run", ["ts", "energy", "label"]
        group.attrs["_index"] = "row_id"
        columns = [
            group.create_dataset("ts", data=np.arange(N, dtype="i8"), **storage),
            group.create_dataset("energy", data=np.linspace(0, 1, N, dtype="f4"), **storage),
            group.create_dataset("label", data=(np.arange(N) % 3).astype(code), **storage),
        ]
        categories = group.create_dataset("label_categories", data=["a", "b", "c"], dtype=h5py.string_dtype())
        categories.attrs["encoding-type"], categories.attrs["ordered"] = "categorical", False
        columns[2].attrs["_categories"] = categories.ref
        labels = group.create_dataset("row_id", data=np.arange(N, dtype="u8"), **storage)
        for column in columns:
            column.attrs["_indexes"] = references(labels)
        labels.attrs["_columns_list"] = references(*columns)


STORAGES: dict[str, dict[str, Any]] = {
    "contiguous index": {},
    "index of one length": {"chunks": True},
    "deflated index": {"chunks": True, "compression": "gzip", "maxshape": "unlimited"},
}


def add_indexes(path: Path, storage: str = "contiguous index") -> None:
    """Example 11.2, with an index of every kind on `ts`, as plain h5py stores them."""

    def create(name: str, data: Any) -> h5py.Dataset:
        options = dict(STORAGES[storage])
        if "maxshape" in options:
            options["maxshape"] = (None,) * data.ndim
        return indexes.create_dataset(name, data=data, **options)

    with h5py.File(path, "r+") as file:
        group, column = file["my_table"], file["my_table/ts"]
        step = column.chunks[0] if column.chunks else N
        entry = [("min", "i8"), ("max", "i8"), ("nan_count", "u8"), ("fill_count", "u8"), ("n", "u8")]
        starts = range(0, N, step)
        entries = [(a, min(a + step, N) - 1, 0, 0, min(step, N - a)) for a in starts]
        indexes = group.create_group("_search_indexes")
        made = create("ts__chunk_minmax", np.array(entries, entry))
        made.attrs["chunk_shape"] = np.array([step], "u8")
        made = create("ts__sorted_rows", np.arange(N, dtype="u8"))
        made.attrs["nan_tail_length"] = made.attrs["fill_tail_length"] = np.uint64(0)
        made.attrs["ordered"] = True
        bits = np.packbits(np.eye(N, dtype=bool), axis=1, bitorder="little")
        made = create("ts__bitmap", bits)
        made.attrs["ordered"] = True
        values = create("ts__bitmap__values", np.arange(N, dtype="i8"))
        made.attrs["_values"] = values.ref
        for kind in ("chunk_minmax", "sorted_rows", "bitmap"):
            indexes[f"ts__{kind}"].attrs["KIND"] = np.bytes_(kind.upper())
            indexes[f"ts__{kind}"].attrs["_columns_list"] = references(column)
        column.attrs["_search_indexes"] = references(*(indexes[f"ts__{kind}"] for kind in KINDS[:3]))


def row(label: str | None) -> dict[str, list[Any]]:
    return {"ts": [3], "energy": [0.5], "label": [label], "row_id": [99]}


CHANGES: dict[str, Callable[[cn.Table], Any]] = {
    "append": lambda table: table.append(row("a")),
    "truncate": lambda table: table.truncate(5),
    "truncate to nothing": lambda table: table.truncate(0),
    "update": lambda table: table.update("ts", [2], [77]),
    "update another": lambda table: table.update("energy", [2], [77.0]),
    "add a column": lambda table: table.add_column("x", np.arange(N)),
    "build an index": lambda table: table.build_index("ts", "sorted_rows"),
}


@pytest.mark.parametrize("chunk_rows", [None, 4], ids=["contiguous column", "chunked column"])
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("change", CHANGES)
def test_indexes_of_plain_h5py_follow_every_change(
    tmp_path: Path, chunk_rows: int | None, storage: str, change: str
) -> None:
    path = tmp_path / "x.h5"
    make_example(path, chunk_rows)
    add_indexes(path, storage)
    with cn.open(path, "r+") as file:
        assert file["my_table"].verify_indexes() == []
        CHANGES[change](file["my_table"])
    with cn.open(path, trust="always") as file:
        table = file["my_table"]
        assert {index.kind: index.fresh for index in table.indexes} == dict.fromkeys(KINDS[:3], True)
        assert table.verify_indexes() == []
        for value in (3, 77):
            assert table.where(f"ts == {value}").count() == list(table["ts"][:]).count(value)
    assert [str(finding) for finding in cn.check(path, deep=True) if finding.severity == "error"] == []


# -- legal indexes that are not ours --


def test_an_unknown_kind_is_not_wrong(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    make_example(path)
    add_indexes(path)
    with h5py.File(path, "r+") as file:
        file["my_table/_search_indexes/ts__sorted_rows"].attrs["KIND"] = np.bytes_("KD_TREE")
    with cn.open(path) as file:
        findings = file["my_table"].verify_indexes()
    assert [finding.severity for finding in findings] == ["note"] and "KD_TREE" in findings[0].message
    assert not [finding for finding in cn.check(path, deep=True) if finding.severity == "error"]


@pytest.mark.parametrize("stride", [1, 3, 4, N, 100])
def test_a_column_without_chunks_may_be_indexed_in_any_stride(tmp_path: Path, stride: int) -> None:
    path = tmp_path / "x.h5"
    make_example(path)
    with cn.open(path, "r+") as file:
        file["my_table"].build_index("ts", ["chunk_minmax", "chunk_bloom"])
    with h5py.File(path, "r+") as file:  # as if somebody else had built them in this stride
        home = file["my_table/_search_indexes"]
        whole = home["ts__chunk_minmax"], home["ts__chunk_bloom"]
        entries = [(a, min(a + stride, N) - 1, 0, 0, min(stride, N - a)) for a in range(0, N, stride)]
        whole[0].resize((len(entries),))
        whole[0][:] = np.array(entries, whole[0].dtype)
        whole[1].resize((len(entries), whole[1].shape[1]))
        whole[1][1:] = 0xFF
        for dataset in whole:
            dataset.attrs.modify("chunk_shape", np.array([stride], "u8"))
    with cn.open(path, trust="always") as file:
        table = file["my_table"]
        assert {index.kind: index.problem for index in table.indexes} == {"chunk_minmax": None, "chunk_bloom": None}
        for low in range(-1, N + 1):
            assert table.where(f"ts >= {low} and ts < {low + 2}").to_arrow()["ts"].to_pylist() == [
                value for value in range(N) if low <= value < low + 2
            ]
        wrong = table.verify_indexes()
    assert not [finding for finding in wrong if "minmax" in finding.path]
    assert stride >= N or [finding for finding in wrong if "bloom" in finding.path]


def make_bitmap_of_some(path: Path, held: list[str]) -> None:
    """A BITMAP of `label` that has a line for these categories only."""
    make_example(path, 4)
    with h5py.File(path, "r+") as file:
        column, home = file["my_table/label"], file["my_table"].create_group("_search_indexes")
        codes = ["abc".index(value) for value in held]
        lines = np.array([column[:] == code for code in codes], dtype=bool).reshape(len(codes), N)
        bits = np.packbits(lines, axis=1, bitorder="little")
        made = home.create_dataset("label__bitmap", data=bits, chunks=(1, 2), maxshape=(None, None))
        values = home.create_dataset("values", data=np.array(codes, "i1"), chunks=(4,), maxshape=(None,))
        made.attrs["KIND"], made.attrs["ordered"], made.attrs["_values"] = np.bytes_("BITMAP"), False, values.ref
        made.attrs["_columns_list"] = references(column)
        column.attrs["_search_indexes"] = references(made)


@pytest.mark.parametrize("verified", [True, False])
@pytest.mark.parametrize("held", [[], ["b"], ["c", "a"]])
def test_a_bitmap_of_some_values_is_right_and_stays_so(tmp_path: Path, held: list[str], verified: bool) -> None:
    path = tmp_path / "x.h5"
    make_bitmap_of_some(path, held)

    def check(n_rows: int) -> None:
        for trust in ("verified", "always"):
            with cn.open(path, trust=trust) as file:
                table = file["my_table"]
                labels = table["label"][:].tolist()
                assert len(labels) == n_rows
                stats = table.stats(["label"])["label"]
                assert stats.n_missing == 0 and stats.distinct.count >= len(set(labels))
                for value in "abcd":
                    assert table.where(cn.col("label") == value).count() == labels.count(value)
                    assert table.where(cn.col("label") != value).count() == n_rows - labels.count(value)

    check(N)
    if verified:
        with cn.open(path, "r+") as file:
            assert file["my_table"].verify_indexes() == []
        check(N)
    with cn.open(path, "r+") as file:
        table = file["my_table"]
        table.append({"ts": [1, 2], "energy": [0.0, 0.0], "label": ["a", "d"], "row_id": [1, 2]})
        table.update("label", [0], ["b"])
    check(N + 2)
    with cn.open(path) as file:
        assert file["my_table"].verify_indexes() == []
        assert [index.trusted for index in file["my_table"].indexes] == [True]
    check(N + 2)
    assert not [finding for finding in cn.check(path, deep=True) if finding.severity == "error"]


# -- categories --


@pytest.mark.parametrize("fill", [None, 0, -1, -7], ids=str)
@pytest.mark.parametrize("chunk_rows", [None, 4], ids=["contiguous", "chunked"])
@pytest.mark.parametrize("code", ["i1", ">i4", "u1"])
def test_a_missing_category_can_be_appended_and_set(
    tmp_path: Path, code: str, chunk_rows: int | None, fill: int | None
) -> None:
    """6.6: -1 is a missing category of signed codes, whether a fill is set or not, and whatever it is."""
    path = tmp_path / "x.h5"
    make_example(path, chunk_rows, code)
    expected = [*"abcabcabca"]
    if fill is not None and np.dtype(code).kind == "i":
        with h5py.File(path, "r+") as file:
            old = file["my_table/label"]
            storage: dict[str, Any] = {} if chunk_rows is None else {"chunks": (chunk_rows,), "maxshape": (None,)}
            new = file["my_table"].create_dataset("new", data=old[:], fillvalue=fill, **storage)
            for name, value in old.attrs.items():
                new.attrs[name] = value
            del file["my_table/label"]
            file.move("my_table/new", "my_table/label")
            file["my_table/row_id"].attrs["_columns_list"] = references(
                *(file["my_table"][name] for name in ("ts", "energy", "label"))
            )
    with cn.open(path, "r+") as file:
        table = file["my_table"]
        table.append(row(None))
        table.append(row("b"))
        table.update("label", [0, 4], [None, "c"])
        table.update("label", [0], ["b"])
        table.update("label", [1], [None])
    expected[0], expected[1], expected[4] = "b", None, "c"
    with cn.open(path) as file:
        assert file["my_table"].to_arrow()["label"].to_pylist() == [*expected, None, "b"]
    with h5py.File(path) as file:
        assert file["my_table/label"][1] == file["my_table/label"][N] == -1
    assert [str(finding) for finding in cn.check(path, deep=True) if finding.severity == "error"] == []
