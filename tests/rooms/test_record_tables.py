"""Datasets of a compound type are tables: found, read, searched, appended to, converted; other changes are refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.columns.members import ElementRows
from colonnade.errors import ColonnadeError, DataError, UnsupportedError, UsageError

COLOURS = h5py.enum_dtype({"red": 1, "green": 2}, "i1")
KIND = np.dtype(
    [
        ("a", "<i4"),
        ("b", ">f8"),
        ("s", "S5"),
        ("v", h5py.string_dtype()),
        ("grid", "<i2", (3, 2)),
        ("inner", [("x", "f4"), ("y", "u1")]),
        ("ok", bool),
        ("e", COLOURS),
        ("c", "c8"),
    ]
)
N = 1000


def records(n_rows: int = N) -> np.ndarray:
    rows = np.zeros(n_rows, KIND)
    rows["a"], rows["b"] = np.arange(n_rows), np.arange(n_rows) / 3
    rows["s"] = [f"x{row}".encode() for row in range(n_rows)]
    rows["v"] = [f"é{row}" for row in range(n_rows)]
    rows["grid"] = np.arange(6).reshape(3, 2)
    rows["inner"]["x"], rows["inner"]["y"] = np.arange(n_rows), 7
    rows["ok"], rows["e"] = np.arange(n_rows) % 2, np.arange(n_rows) % 2 + 1
    rows["c"] = 1j * np.arange(n_rows)
    return rows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with h5py.File(tmp_path / "a.h5", "w") as h5:
        h5.create_dataset("runs/events", data=records(), chunks=(64,), maxshape=(None,), compression="gzip")
        h5["plain"] = records()
        h5["scalar"] = records(1)[0]
        h5["null"] = h5py.Empty(KIND)
        h5["pairs"] = np.zeros(3, "c16")
        h5["matrix"] = np.zeros((2, 2), [("a", "i4")])
    return tmp_path / "a.h5"


def test_compounds_of_rank_1_are_listed_and_nothing_else(path: Path) -> None:
    """Scalars, matrices and complex numbers are compounds in HDF5 too, and not tables."""
    for mode in ("r", "r+"):
        with cn.open(path, mode) as file:
            assert file.tables() == ["/null", "/plain", "/runs/events"]
            assert "/runs/events" in file and "/pairs" not in file
            assert (file["null"].n_rows, file["null"].to_arrow().num_rows) == (0, 0)
            for name in ("scalar", "pairs", "matrix"):
                with pytest.raises(UsageError, match="is a dataset, not a table"):
                    file[name]


def test_search_indexes_of_h5col_are_not_tables(tmp_path: Path) -> None:
    """Those of one kind are datasets of records."""
    cn.write(tmp_path / "a.h5", {"n": [1, 2]}, "events", layout="h5col", index={"n": ["chunk_minmax", "bitmap"]})
    with cn.open(tmp_path / "a.h5") as file:
        assert file.h5["events/SEARCH_INDEXES/n__chunk_minmax"].dtype.names
        assert file.tables() == ["/events"]
        with pytest.raises(UsageError, match="is a dataset, not a table"):
            file["events/SEARCH_INDEXES/n__chunk_minmax"]


def test_struct_columns_and_search_indexes_are_not_tables(tmp_path: Path) -> None:
    rows = {"p": pa.array([{"x": 1.0}, {"x": 2.0}]), "n": [1, 2]}
    cn.write(tmp_path / "a.h5", rows, "events", index={"n": ["chunk_minmax", "bitmap"]})
    with h5py.File(tmp_path / "a.h5", "r+") as h5:
        assert h5["events/p"].dtype.names == ("x",)
        h5["mine"] = np.zeros(2, [("x", "i4")])
    with cn.open(tmp_path / "a.h5") as file:
        assert file.tables() == ["/mine", "/events"]
        with pytest.raises(UsageError, match="not a table"):
            file["events/p"]
    assert cn.check(tmp_path / "a.h5").checked.tables == 2


@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize("name", ["plain", "runs/events"])
def test_every_way_to_read_agrees(path: Path, mode: Any, name: str) -> None:
    expected = records()
    with cn.open(path, mode) as file:
        table = file[name]
        whole = table.to_arrow()
        assert whole["a"].to_pylist() == expected["a"].tolist()
        assert whole["b"].to_pylist() == expected["b"].tolist()
        assert whole["s"].to_pylist() == [text.decode() for text in expected["s"].tolist()]
        assert whole["v"].to_pylist() == expected["v"].tolist()
        assert whole["grid"].to_pylist() == expected["grid"].tolist()
        assert whole["inner"].to_pylist() == [{"x": x, "y": 7} for x in expected["inner"]["x"].tolist()]
        assert whole["ok"].to_pylist() == expected["ok"].tolist()
        assert whole["e"].to_pylist() == ["red", "green"] * (N // 2)
        assert [complex(c) for c in whole["c"].to_pylist()] == expected["c"].tolist()
        for column in table.columns:
            assert table[column].to_arrow().to_pylist() == whole[column].to_pylist()
        names = ["v", "a", "inner"]
        assert table[names][5::70].to_arrow() == whole.select(names).take(list(range(5, N, 70)))
        assert table[names][::-7].to_arrow() == whole.select(names).take(list(range(N - 1, -1, -7)))
        rows = [3, 4, 500, 999, 3]
        assert table[names].take(rows).to_arrow() == whole.select(names).take(rows)
        batches = pa.Table.from_batches(list(table[names].batches(77)))
        assert batches == whole.select(names)
        matching = table.where("a >= 990 and e == 'red'").to_arrow()
        assert matching["v"].to_pylist() == [f"é{row}" for row in range(990, N, 2)]
        assert table.where("v == 'é7'").count() == 1
        assert table.aggregate(total=("b", "sum"))["total"] == pytest.approx(expected["b"].sum())


def test_a_chunk_is_unpacked_once_for_all_columns(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: with `read_column` for each column in `query.scan.read_columns`, there are three times as many reads."""
    reads: list[tuple[int, int]] = []
    read = ElementRows.read

    def counted(self: ElementRows, start: int, count: int) -> Any:
        reads.append((start, count))
        return read(self, start, count)

    monkeypatch.setattr(ElementRows, "read", counted)
    with cn.open(path) as file:
        file["runs/events"][["a", "b", "s"]].to_arrow()
    assert len(reads) == len(set(reads)) > 0


def test_reading_loads_no_h5py(path: Path) -> None:
    code = (
        "import sys, colonnade as cn\n"
        "with cn.open(sys.argv[1], library='never') as f:\n"
        "    for t in f.tables(): f[t].to_arrow()\n"
        "print('h5py' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_indexes_are_next_to_the_dataset_and_follow_appends(path: Path) -> None:
    with cn.open(path, "r+") as file:
        table = file["runs/events"]
        table.build_index({"a": "sorted_rows", "b": "chunk_minmax", "s": "bitmap"})
        assert set(file.h5["runs"]) == {"events", "_search_indexes"}
        assert file.tables() == ["/null", "/plain", "/runs/events"]
        assert "used" in str(table.where("a == 77").explain())
        more = table[:5].to_arrow()
        assert table.append(more) == 5
        assert all(index.fresh and index.trusted for index in table.indexes)
        assert table.where("a == 3").row_numbers().tolist() == [3, N + 3]
    with cn.open(path) as file:
        assert file["runs/events"].verify_indexes() == []
    with cn.open(path, "r+") as file:
        file["runs/events"].drop_index("a")
        file["runs/events"].drop_index("b")
        file["runs/events"].drop_index("s")
        assert set(file.h5["runs"]) == {"events"}


def test_a_group_is_not_taken_for_a_table_because_of_the_indexes_of_its_datasets(path: Path) -> None:
    with cn.open(path, "r+") as file:
        for name in file.tables():
            file[name].build_index("a", "chunk_minmax")
    assert [finding for finding in cn.check(path) if finding.rule == "T1"] == []
    with h5py.File(path, "r+") as h5:
        h5.create_group("lost/_search_indexes")["a__bitmap"] = [1]
    assert [(finding.rule, finding.path) for finding in cn.check(path)] == [("T1", "/lost")]


def test_appended_rows_are_what_h5py_reads(path: Path) -> None:
    with cn.open(path) as file:
        rows = file["runs/events"][:70].to_arrow()
    with cn.open(path, "r+") as file:
        table = file["runs/events"]
        table.append(rows)
        table.append(rows.slice(0, 0))
        table.append(rows.slice(69))
        assert len(table) == N + 71
    with h5py.File(path) as h5:
        stored = h5["runs/events"][:]
    for name in KIND.names or ():
        expected = np.concatenate([stored[name][:N], stored[name][:70], stored[name][69:70]])
        assert (stored[name] == expected).all(), name


def test_a_failed_append_leaves_the_file_as_it_was(path: Path) -> None:
    before = path.read_bytes()
    with cn.open(path, "r+") as file:
        table = file["runs/events"]
        rows = {name: table[:2].to_arrow()[name] for name in table.columns}
        with pytest.raises(DataError, match="row 1001: 'too long' is longer than 5 bytes"):
            table.append({**rows, "s": ["fits", "too long"]})
        with pytest.raises(DataError, match="missing value"):
            table.append({**rows, "a": pa.array([1, None], pa.int32())})
        assert len(table) == N
    with cn.open(path) as file:
        assert len(file["runs/events"]) == N
    assert len(path.read_bytes()) == len(before)


def test_other_changes_say_how_to_convert(path: Path) -> None:
    with cn.open(path, "r+") as file:
        table = file["runs/events"]
        for change in (
            lambda: table.truncate(1),
            lambda: table.update("a", [0], [1]),
            lambda: table.delete("a == 1"),
            lambda: table.add_column("q", np.zeros(N)),
            lambda: table.drop_column("a"),
            lambda: table.rename_column("a", "z"),
            lambda: table.replace_column("a", np.zeros(N)),
        ):
            with pytest.raises(UnsupportedError, match=r"cn\.convert"):
                change()
        with pytest.raises(UnsupportedError, match="cannot grow"):
            file["plain"].append(table[:1].to_arrow())
        table.attrs["mine"] = 5
        assert dict(table.attrs) == {"mine": 5} and dict(table["a"].attrs) == {}
        file.drop("runs/events")
        assert file.tables() == ["/null", "/plain"]


def test_field_attributes_are_units_names_and_fills(tmp_path: Path) -> None:
    """What H5TB and others store of a member: FIELD_n_FILL is what an appended row holds that has no value."""
    with h5py.File(tmp_path / "a.h5", "w") as h5:
        data = np.zeros(2, [("a", "i4"), ("b", "f8")])
        stored = h5.create_dataset("t", data=data, chunks=(8,), maxshape=(None,))
        stored.attrs.update({"CLASS": np.bytes_(b"TABLE"), "TITLE": np.bytes_(b"Run 7"), "VERSION": np.bytes_(b"3.0")})
        stored.attrs.update({"FIELD_0_NAME": np.bytes_(b"a"), "FIELD_1_UNITS": np.bytes_(b"MeV")})
        stored.attrs["FIELD_0_FILL"], stored.attrs["mine"] = np.int32(-9), 1
    with cn.open(tmp_path / "a.h5", "r+") as file:
        table = file["t"]
        assert (table.layout, table.title, table["b"].units) == ("compound", "Run 7", "MeV")
        assert dict(table.attrs) == {"mine": 1}
        table.append({"a": pa.array([None], pa.int32()), "b": [1.5]})
        assert table[-1] == {"a": -9, "b": 1.5}
    cn.convert(tmp_path / "a.h5", tmp_path / "b.h5", layout="hep001")
    with cn.open(tmp_path / "b.h5") as file:
        table = file["t"]
        assert (table.layout, table.title, table["b"].units) == ("hep001", "Run 7", "MeV")
        assert dict(table.attrs) == {"mine": 1}
    assert list(cn.check(tmp_path / "b.h5", deep=True)) == []


def test_it_is_converted_with_the_rest_of_the_file(path: Path, tmp_path: Path) -> None:
    with cn.open(path, "r+") as file:
        file["runs/events"].build_index("a", "chunk_minmax")
        rows = file["runs/events"].to_arrow()
    done = cn.convert(path, tmp_path / "new.h5", layout="hep001")
    assert (done.tables, done.indexes) == (["/null", "/plain", "/runs/events"], 1)
    with cn.open(tmp_path / "new.h5") as file:
        assert file.tables() == ["/null", "/plain", "/runs/events"]
        assert file["runs/events"].layout == "hep001"
        assert file["runs/events"].to_arrow().to_pylist() == rows.to_pylist()
        assert set(file.h5) == {"null", "plain", "runs", "scalar", "pairs", "matrix"}
        assert set(file.h5["runs"]) == {"events"}


def test_datasets_of_h5py_can_be_written(path: Path, tmp_path: Path) -> None:
    with h5py.File(path) as h5:
        cn.write(tmp_path / "new.h5", h5["plain"], "t")
        cn.write(tmp_path / "new.h5", h5["runs/events"], "t", mode="append")
        with pytest.raises(UsageError, match=r"\{'name': dataset\[:\]\}"):
            cn.write(tmp_path / "new.h5", h5["pairs"], "u")
    rows = cn.read(tmp_path / "new.h5", "t")
    assert rows["v"].to_pylist() == 2 * records()["v"].tolist()


def test_what_is_broken_is_a_finding(path: Path) -> None:
    with h5py.File(path, "r+") as h5:
        h5["runs/events"].attrs["FIELD_0_NAME"] = "other"
        offset = h5["runs/events"].id.get_chunk_info(0).byte_offset
    assert [finding.rule for finding in cn.check(path)] == ["R2"]
    with path.open("r+b") as stream:
        stream.seek(offset)
        stream.write(b"\xff" * 16)
    found = cn.check(path, deep=True)
    assert {finding.rule for finding in found.errors} == {"R1"}


def test_hostile_bytes_are_errors_of_ours(path: Path, tmp_path: Path) -> None:
    """Any byte of the first headers may be anything: no crash, no error that is not one of ours."""
    data = path.read_bytes()
    rng = np.random.default_rng(5)
    for number in range(150):
        broken = bytearray(data)
        for at in rng.integers(0, min(len(data), 8000), 3):
            broken[at] = rng.integers(0, 256)
        target = tmp_path / "broken.h5"
        target.write_bytes(broken)
        try:
            with cn.open(target, library="never") as file:
                for name in file.tables():
                    file[name][:10].to_arrow()
        except (ColonnadeError, MemoryError):
            pass
        cn.check(target)
        assert number >= 0
