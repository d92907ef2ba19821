"""H5Col tables: what is written is read back, changes equal the same in memory, and rules hold throughout."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.errors import DataError, UnsupportedError, UsageError

ROWS = pa.table(
    {
        "i": pa.array([1, 2, None, 4, -5], pa.int16()),
        "u": pa.array([0, 2**64 - 2, None, 7, 9], pa.uint64()),
        "f": pa.array([0.5, float("nan"), None, -0.0, float("inf")]),
        "s": pa.array(["a", "b", None, "dddd", "é" * 9]),
        "b": pa.array([True, None, False, True, None]),
        "sure": pa.array([True, False, True, True, False]),
        "c": pa.array(["u", "v", None, "u", "w"]).dictionary_encode(),
        "t": pa.array([1, 2, None, 4, 5], pa.timestamp("us", "UTC")),
        "z": pa.array([b"ab", b"cd", None, b"xx", b"\0\0"], pa.binary(2)),
        "p": pa.array([{"x": 1.5, "y": 2}] * 5, pa.struct({"x": pa.float64(), "y": pa.int8()})),
        "ints": pa.array([[1, 2], None, [], [3, None], [2**15 - 1]], pa.list_(pa.int16())),
        "texts": pa.array([["a", None, ""], [], None, ["é"], ["x" * 99]], pa.list_(pa.string())),
        "flags": pa.array([[True], [False, True], None, [], [True]], pa.list_(pa.bool_())),
        "times": pa.array([[1], [2, None], None, [], [3]], pa.list_(pa.timestamp("us"))),
        "deep": pa.array([[[1], None, []], None, [], [[2, 3]], [[]]], pa.list_(pa.list_(pa.int64()))),
        "deep_texts": pa.array([[["x"]], None, [], [None, ["y", None]], [[], [""]]], pa.list_(pa.list_(pa.string()))),
    }
)
INDEX = {"i": ["sorted_rows", "chunk_bloom"], "f": ["chunk_minmax", "bitmap"], "c": "bitmap", "s": ["chunk_bloom"]}
SMALL_CHUNKS = {name: {"chunk_rows": 4} for name in ROWS.column_names}


def shown(table: pa.Table) -> dict[str, str]:
    """All rows, with -0.0 and NaN as they are."""
    return {name: repr(table[name].to_pylist()) for name in table.column_names}


def check(path: Path, rows: pa.Table) -> None:
    """The file holds these rows, breaks no rule but that of references, and its indexes are right and trusted."""
    assert {f"{one.rule} {one.path}: {one.message}" for one in cn.check(path, deep=True) if one.rule != "JR1"} == set()
    with cn.open(path) as file:
        table = file["t"]
        assert shown(table.to_arrow()) == shown(rows)
        assert {index.state for index in table.indexes} <= {"trusted"}
        assert table.info.n_rows == len(rows)


def written(path: Path, rows: pa.Table = ROWS, **options: Any) -> Path:
    cn.write(path, rows, "t", layout="h5col", columns=SMALL_CHUNKS, **options)
    return path


@pytest.mark.parametrize("n_rows", [0, 1, 5])
def test_every_type_is_read_back(tmp_path: Path, n_rows: int) -> None:
    rows = ROWS.slice(0, n_rows)
    path = written(tmp_path / "t.h5", rows)
    with cn.open(path, library="never") as file:
        assert shown(file["t"].to_arrow()) == shown(rows)
    check(path, rows)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_lists_come_from_frames(tmp_path: Path, kind: str) -> None:
    rows = ROWS.select(["ints", "texts", "deep"]).slice(0, 2)
    pytest.importorskip(kind)
    data: object = None
    if kind == "polars":
        import polars

        data = polars.from_arrow(rows)
    else:
        import pandas

        data = rows.to_pandas(types_mapper=pandas.ArrowDtype)
    cn.write(tmp_path / "t.h5", data, "t", layout="h5col")
    with cn.open(tmp_path / "t.h5") as file:
        found = file["t"].to_arrow()
        assert {name: found[name].to_pylist() for name in rows.column_names} == rows.to_pydict()


def test_the_file_is_stored_as_the_standard_says(tmp_path: Path) -> None:
    path = written(tmp_path / "t.h5", index=INDEX, labels=["s"], title="T")
    with h5py.File(path) as file:
        table = file["t"]
        assert table.attrs.get_id("CLASS").dtype.itemsize == 13
        assert (table.attrs["NROWS"], table.attrs["GENERATION"]) == (5, 0)
        assert table.attrs.get_id("NROWS").dtype == np.dtype("<u8")
        assert [file[one].name for one in table.attrs["INDEX_COLUMNS"]] == ["/t/s"]
        assert table["ints/OFFSETS"][:].tolist() == [0, 2, 2, 2, 4, 5] and table["ints/OFFSETS"].dtype == "u8"
        assert table["ints/MASK"][:].tolist() == [True, False, True, True, True]
        assert file[table["c"].attrs["CATEGORIES"]].name == "/t/CATEGORIES/c__CATEGORIES"
        assert h5py.check_enum_dtype(table["b"].dtype) == {"FALSE": 0, "TRUE": 1, "MISSING": 2}
        bloom = table["SEARCH_INDEXES/i__chunk_bloom"].attrs
        assert bloom["hash_family"] == b"murmur3_x64_128_double" and bloom["seed"].dtype == np.dtype("<u4")
        assert bloom["m_bits"] & (bloom["m_bits"] - 1) == 0
        for index in table["SEARCH_INDEXES"].values():
            if "KIND" in index.attrs:
                assert (index.attrs["SOURCE_GENERATION"], index.attrs["SOURCE_NROWS"]) == (0, 5)
                assert "chunk_shape" not in index.attrs


def append(table: cn.Table, rows: pa.Table, chance: random.Random) -> pa.Table:
    more = ROWS.take(pa.array([chance.randrange(5) for _ in range(chance.randrange(7))], pa.int64()))
    table.append(more)
    return pa.concat_tables([rows, more.cast(rows.schema)]).unify_dictionaries()


def truncate(table: cn.Table, rows: pa.Table, chance: random.Random) -> pa.Table:
    n_rows = chance.randrange(len(rows) + 1)
    table.truncate(n_rows)
    return rows.slice(0, n_rows)


def delete(table: cn.Table, rows: pa.Table, chance: random.Random) -> pa.Table:
    gone = {row for row in range(len(rows)) if chance.random() < 0.3}
    table.delete(sorted(gone))
    return rows.take(pa.array([row for row in range(len(rows)) if row not in gone], pa.int64()))


def update(table: cn.Table, rows: pa.Table, chance: random.Random) -> pa.Table:
    name = chance.choice(rows.column_names)
    numbers = sorted(row for row in range(len(rows)) if chance.random() < 0.4)
    source = ROWS[name].combine_chunks()
    values = source.take(pa.array([chance.randrange(5) for _ in numbers], pa.int64()))
    table.update(name, numbers, values)
    cells = rows[name].to_pylist()
    for number, value in zip(numbers, values.to_pylist(), strict=True):
        cells[number] = value
    kind = rows.schema.field(name).type
    new = (
        pa.array(cells, kind.value_type).dictionary_encode() if pa.types.is_dictionary(kind) else pa.array(cells, kind)
    )
    return rows.set_column(rows.column_names.index(name), name, new)


CHANGES: list[Callable[[cn.Table, pa.Table, random.Random], pa.Table]] = [append, truncate, delete, update]


@pytest.mark.parametrize("seed", range(6))
def test_changes_equal_the_same_in_memory(tmp_path: Path, seed: int) -> None:
    """Rules hold and indexes are right after every change."""
    chance = random.Random(seed)
    path, rows = written(tmp_path / "t.h5", index=INDEX), ROWS
    for _ in range(6):
        with cn.open(path, "r+") as file:
            rows = chance.choice(CHANGES)(file["t"], rows, chance)
        check(path, rows)


def test_several_appends_to_one_open_file(tmp_path: Path) -> None:
    path, rows = written(tmp_path / "t.h5", index=INDEX), [ROWS]
    with cn.open(path, "r+") as file:
        for _ in range(4):
            file["t"].append(ROWS)
            rows.append(ROWS)
    check(path, pa.concat_tables(rows))


def test_columns_are_added_renamed_replaced_and_dropped(tmp_path: Path) -> None:
    path = written(tmp_path / "t.h5", index=INDEX, labels=["s"])
    rows = ROWS.select([name for name in ROWS.column_names if name != "s"] + ["s"])
    with cn.open(path, "r+") as file:
        table = file["t"]
        table.add_column("new", pa.array([[0.5], None, [], [1.5], [2.5]]))
        rows = rows.append_column("new", pa.array([[0.5], None, [], [1.5], [2.5]]))
        table.rename_column("c", "kind")
        rows = rows.rename_columns(["kind" if name == "c" else name for name in rows.column_names])
        table.replace_column("f", ["x", None, "y", "z", "x"])
        rows = rows.set_column(rows.column_names.index("f"), "f", pa.array(["x", None, "y", "z", "x"]))
        table.replace_column("ints", pa.array([[b] for b in range(5)], pa.list_(pa.int8())))
        rows = rows.set_column(
            rows.column_names.index("ints"), "ints", pa.array([[b] for b in range(5)], pa.list_(pa.int8()))
        )
        table.drop_column("deep")
        table.drop_column("b")
        rows = rows.drop_columns(["deep", "b"])
        assert table.info.label_names == ["s"]
    check(path, rows)
    with h5py.File(path) as file:
        assert set(file["t/CATEGORIES"]) == {"kind__CATEGORIES"}
        assert file["t"].attrs["GENERATION"] > 0


def test_dropping_a_label_and_setting_others(tmp_path: Path) -> None:
    path = written(tmp_path / "t.h5", labels=["s"])
    with cn.open(path, "r+") as file:
        file["t"].set_labels(["i", "c"])
    with cn.open(path, "r+") as file:
        assert file["t"].info.label_names == ["i", "c"] and "s" in file["t"].info.column_names
        file["t"].drop_column("i")
    with cn.open(path) as file:
        assert file["t"].info.label_names == ["c"]


def test_rows_after_a_truncation_by_others_are_overwritten(tmp_path: Path) -> None:
    """Spare rows, also of lists, mean nothing and are not shown."""
    path = written(tmp_path / "t.h5", index=INDEX)
    with h5py.File(path, "r+") as file:
        file["t"].attrs["NROWS"] = np.uint64(3)
    with cn.open(path) as file:
        assert shown(file["t"].to_arrow()) == shown(ROWS.slice(0, 3))
        assert {index.state for index in file["t"].indexes} == {"stale"}
    with cn.open(path, "r+") as file:
        file["t"].append(ROWS)
        assert {index.state for index in file["t"].indexes} == {"stale"}
        cn.fix(file)
    check(path, pa.concat_tables([ROWS.slice(0, 3), ROWS]))


def test_generation_begins_again_at_0(tmp_path: Path) -> None:
    path = written(tmp_path / "t.h5", index=INDEX)
    with h5py.File(path, "r+") as file:
        for node in (file["t"], *file["t/SEARCH_INDEXES"].values()):
            for name in ("GENERATION", "SOURCE_GENERATION"):
                if name in node.attrs:
                    node.attrs[name] = np.uint64(2**64 - 1)
    with cn.open(path, "r+") as file:
        file["t"].append(ROWS)
    check(path, pa.concat_tables([ROWS, ROWS]))
    with h5py.File(path) as file:
        assert file["t"].attrs["GENERATION"] == 0


def test_what_h5col_has_no_form_for_is_refused(tmp_path: Path) -> None:
    for rows, error in (
        ({"TITLE": [1]}, DataError),
        ({"..": [1]}, DataError),
        ({"x": pa.array([[b"ab"]], pa.list_(pa.binary()))}, UsageError),
        ({"x": pa.array([[{"a": "text"}]])}, UsageError),
    ):
        with pytest.raises(error):
            cn.write(tmp_path / "no.h5", rows, "t", layout="h5col")
    with pytest.raises(UsageError, match="sparse"):
        cn.write(tmp_path / "no.h5", {"x": [1]}, "t", layout="h5col", columns={"x": {"sparse": True}})
    with pytest.raises(UsageError, match="lists"):
        cn.write(tmp_path / "no.h5", {"x": [[1]], "y": [1]}, "t", layout="h5col", labels=["x"])


def test_a_table_of_a_draft_is_not_changed(tmp_path: Path) -> None:
    folder = Path(__file__).parents[1] / "golden" / "h5col"
    path = tmp_path / "drafts.h5"
    path.write_bytes((folder / "14_drafts.h5").read_bytes())
    with cn.open(path, "r+") as file, pytest.raises(UnsupportedError, match="draft"):
        file["d0512"].append({"x": [1], "c": ["a"], "lab": [1]})


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("length(ints) > 1", [0, 3]),
        ("length(ints) == 0", [2]),
        ("ints is missing", [1]),
        ("length(texts) >= 1 and i > 0", [0, 3]),
        ("not (length(deep) > 0)", [2]),
    ],
)
def test_rows_are_found_by_the_length_of_lists(tmp_path: Path, where: str, rows: list[int]) -> None:
    path = written(tmp_path / "t.h5")
    with cn.open(path, library="never") as file:
        assert file["t"].where(where).row_numbers().tolist() == rows
