"""ArtifactDB data frames of every generation, made by hand from the text of the specification, read right."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.errors import CorruptError, FormatError, UnsupportedError, UsageError
from tests.rooms.artifactdb_files import TEXT, floats_of_bits, new_frame, put, r_floats, write_levels, write_metadata

MIN = -(2**31)
UTC = dt.UTC
DAYS = [dt.date(2024, 2, 29), dt.date(1, 1, 1), None]
TIMES = [dt.datetime(2024, 2, 29, 12, 30, 15, 250000, UTC), dt.datetime(1969, 12, 31, 23, 0, tzinfo=UTC), None]


@dataclass(frozen=True)
class Case:
    """A column: what is stored, the placeholder told in an attribute, what is said of it, and what it must read as."""

    stored: Any
    placeholder: Any
    says: dict[str, Any]
    reads: list[Any]
    kind: pa.DataType
    levels: list[str] | None = None


def case_of(kind: str, old_marks: bool, old_types: bool, missing: bool) -> Case:
    """A column of one type as a legacy frame has it: by its marks for missing rows, and its types."""
    last: Any = None
    mark = MIN if old_marks else None
    if kind == "boolean":
        stored = np.array([1, 0, MIN if old_marks and missing else -1 if missing else 5], "<i4")
        return Case(stored, mark or (np.int32(-1) if missing else None), {"type": kind},
                    [True, False, last if missing else True], pa.bool_())  # fmt: skip
    if kind == "integer":
        stored = np.array([7, -1, MIN if old_marks and missing else 99], "<i4")
        placeholder = None if old_marks or not missing else np.int32(99)
        return Case(stored, placeholder, {"type": kind}, [7, -1, last if missing else 99], pa.int32())
    if kind == "number":
        stored = r_floats([1.5, float("nan"), None if missing else 2.0])
        placeholder = None if old_marks or not missing else r_floats([None])[0]
        return Case(stored, placeholder, {"type": kind}, [1.5, float("nan"), last if missing else 2.0], pa.float64())
    if kind == "string":
        stored = np.array(["NA", "größe", "<missing>" if missing else ""], dtype=TEXT)
        return Case(stored, "<missing>" if missing else None, {"type": kind},
                    ["NA", "größe", last if missing else ""], pa.string())  # fmt: skip
    if kind == "date":
        stored = np.array([b"2024-02-29", b"0001-01-01", b"NA" if missing else b"9999-12-31"])
        says = {"type": "date"} if old_types else {"type": "string", "format": "date"}
        return Case(stored, "NA" if missing else None, says,
                    [*DAYS[:2], last if missing else dt.date(9999, 12, 31)], pa.date32())  # fmt: skip
    if kind == "date-time":
        stored = np.array([b"2024-02-29T12:30:15.25Z", b"1970-01-01T01:00:00+02:00", b"-" if missing else
                           b"2000-01-01T00:00:00Z"])  # fmt: skip
        says = {"type": "date-time"} if old_types else {"type": "string", "format": "date-time"}
        return Case(stored, "-" if missing else None, says,
                    [*TIMES[:2], last if missing else dt.datetime(2000, 1, 1, tzinfo=UTC)],
                    pa.timestamp("us", "UTC"))  # fmt: skip
    levels = ["low", "high", "größe"]
    says = {"type": "factor"}
    if kind == "ordered":
        says = {"type": "ordered"} if old_types else {"type": "factor", "ordered": True}  # type: ignore[dict-item]
    reads = ["größe", "low", last if missing else "high"]
    arrow = pa.dictionary(pa.int32(), pa.string(), kind == "ordered")
    if old_types:
        stored = np.array(["größe", "low", "none" if missing else "high"], dtype=TEXT)
        return Case(stored, "none" if missing else None, says, reads, arrow, levels)
    stored = np.array([2, 0, (MIN if old_marks else -1) if missing else 1], "<i4")
    placeholder = None if old_marks or not missing else np.int32(-1)
    return Case(stored, placeholder, says, reads, arrow, levels)


KINDS = ("boolean", "integer", "number", "string", "date", "date-time", "factor", "ordered")


def same(found: list[Any], wanted: list[Any]) -> bool:
    return [str(one) for one in found] == [str(one) for one in wanted] and len(found) == len(wanted)


@pytest.mark.parametrize("missing", [False, True], ids=["whole", "missing"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("frame", [None, 1, 2])
@pytest.mark.parametrize("hdf5", [None, 1, 2])
def test_legacy_columns_read_right(
    hdf5: int | None, frame: int | None, kind: str, missing: bool, tmp_path: Path
) -> None:
    path = tmp_path / "simple.h5"
    case = case_of(kind, hdf5 != 2, frame != 2, missing)
    file, data = new_frame(path, ["x"])
    with file:
        put(data, 0, case.stored, None if hdf5 != 2 and case.levels is None and kind in KINDS[:3] else case.placeholder)
    says = dict(case.says)
    if case.levels is not None:
        says["levels"] = write_levels(tmp_path, "levels", case.levels, "vector" if frame == 2 else "frame")
    place = write_metadata(path, [{"name": "x", **says}], 3, hdf5, frame)
    for target in (path, place):
        found = cn.read(target)
        assert found.schema.field("x").type == case.kind
        assert same(found["x"].to_pylist(), case.reads)
    with cn.open(path, "r+") as f:
        table = f["df"]
        for index in ("sorted_rows", "bitmap", "chunk_minmax", "chunk_bloom"):
            if case.levels is not None and frame != 2:  # text whose levels lie in another file, and may change there
                with pytest.raises(UsageError, match="cannot have a search index"):
                    table.build_index("x", index)
            else:
                table.build_index("x", index)
        assert table.where("x is missing").row_numbers().tolist() == [r for r, v in enumerate(case.reads) if v is None]
        assert len(table.where("x is not missing")) == 3 - case.reads.count(None)
        assert [one for one in table.verify_indexes() if one.severity == "error"] == []
    assert same(cn.read(path)["x"].to_pylist(), case.reads)  # metadata follow the file


def test_metadata_follow_an_index(tmp_path: Path) -> None:
    import hashlib

    path = tmp_path / "simple.h5"
    file, data = new_frame(path, ["x"])
    with file:
        put(data, 0, np.arange(5, dtype="i4"))
    place = write_metadata(path, [{"name": "x", "type": "integer"}], 5)
    with cn.open(path, "r+") as f:
        f["df"].build_index("x", "sorted_rows")
    assert json.loads(place.read_text())["md5sum"] == hashlib.md5(path.read_bytes()).hexdigest()


PAYLOADS = [0x7FF8000000000000, 0x7FF80000000007A2, 0x7FF00000000007A2, 0xFFF8000000000001, 0x7FF8DEADBEEF0000]


@pytest.mark.parametrize("mark", PAYLOADS)
def test_nan_of_any_payload_is_missing_where_the_group_says_its_version(mark: int, tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    with new_frame(path, ["x"])[0] as file:
        file["df"].attrs["version"] = "1.0"
        file["df"].attrs["row-count"] = np.uint64(6)
        dataset = put(file["df/data"], 0, floats_of_bits([*PAYLOADS, 0x3FF0000000000000]), type="number")
        dataset.attrs.create("missing-value-placeholder", floats_of_bits([mark])[0])
    assert cn.read(path)["x"].to_pylist() == [None] * 5 + [1.0]


@pytest.mark.parametrize("mark", PAYLOADS)
def test_nan_is_missing_bit_by_bit_by_hdf5_version_2(mark: int, tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    file, data = new_frame(path, ["x"])
    with file:
        put(data, 0, floats_of_bits([*PAYLOADS, 0x3FF0000000000000])).attrs.create(
            "missing-value-placeholder", floats_of_bits([mark])[0]
        )
    write_metadata(path, [{"name": "x", "type": "number"}], 6, 2, 2)
    found = cn.read(path)["x"]
    assert [one is None for one in found.to_pylist()] == [bits == mark for bits in PAYLOADS] + [False]


def test_only_r_na_is_missing_by_hdf5_version_1(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    file, data = new_frame(path, ["x", "narrow"])
    with file:
        put(data, 0, floats_of_bits([*PAYLOADS, 0x3FF0000000000000]))
        put(data, 1, np.array([np.nan] * 6, "<f4"))
    write_metadata(path, [{"name": name, "type": "number"} for name in ("x", "narrow")], 6)
    found = cn.read(path)
    assert [one is None for one in found["x"].to_pylist()] == [False, True, True, False, False, False]
    assert found["narrow"].null_count == 0


def versioned(path: Path, n_rows: int, names: list[str], fill: Callable[[h5py.Group], None]) -> None:
    file, data = new_frame(path, names)
    with file:
        file["df"].attrs["version"] = "1.0"
        file["df"].attrs["row-count"] = np.uint32(n_rows)
        fill(data)


@pytest.mark.parametrize("dtype", ["i1", "u1", "<i2", ">i2", "<u2", "<i4", ">i4"])
@pytest.mark.parametrize("kind", ["integer", "boolean", "number"])
def test_integers_of_every_width(dtype: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    values = np.array([0, 1, 100, 2], dtype)

    def fill(data: h5py.Group) -> None:
        put(data, 0, values, placeholder=np.array(100, dtype)[()], type=kind)

    versioned(path, 4, ["x"], fill)
    found = cn.read(path)["x"]
    wanted = {"integer": [0, 1, None, 2], "boolean": [False, True, None, True], "number": [0.0, 1.0, None, 2.0]}[kind]
    assert found.to_pylist() == wanted and [type(one) for one in found.to_pylist()] == [type(one) for one in wanted]
    assert cn.read(path, where="x == 1")["x"].to_pylist() == ([True, True] if kind == "boolean" else [1])


@pytest.mark.parametrize("codes", ["u1", "i1", "<u2", ">i4", "<u4"])
def test_factors_with_codes_of_every_width(codes: str, tmp_path: Path) -> None:
    path = tmp_path / "x.h5"

    def fill(data: h5py.Group) -> None:
        factor = data.create_group("0")
        factor.attrs["type"] = "factor"
        factor.attrs["ordered"] = np.int8(1)
        factor["levels"] = np.array([b"b", b"a", b""])
        factor["codes"] = np.array([2, 1, 0, 3], codes)
        factor["codes"].attrs.create("missing-value-placeholder", 3, dtype=codes)

    versioned(path, 4, ["x"], fill)
    found = cn.read(path)["x"]
    assert found.to_pylist() == ["", "a", "b", None] and found.type.ordered
    assert found.chunk(0).dictionary.to_pylist() == ["b", "a", ""]


def test_a_placeholder_inside_the_levels_marks_missing_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"

    def fill(data: h5py.Group) -> None:
        factor = data.create_group("0")
        factor.attrs["type"] = "factor"
        factor["levels"] = np.array([b"b", b"a"])
        factor["codes"] = np.array([0, 1], "u1")
        factor["codes"].attrs.create("missing-value-placeholder", np.uint8(1))

    versioned(path, 2, ["x"], fill)
    assert cn.read(path)["x"].to_pylist() == ["b", None]


def test_a_code_of_no_level_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"

    def fill(data: h5py.Group) -> None:
        factor = data.create_group("0")
        factor.attrs["type"] = "factor"
        factor["levels"] = np.array([b"b", b"a"])
        factor["codes"] = np.array([0, -1], "i1")

    versioned(path, 2, ["x"], fill)
    with pytest.raises(CorruptError, match="row 1"):
        cn.read(path)


@pytest.mark.parametrize("dtype", ["S8", TEXT], ids=["fixed", "variable"])
@pytest.mark.parametrize("mark", [b"NA", "NA", np.bytes_(b"NA\0\0x")])
def test_text_placeholders_compare_up_to_nul(dtype: Any, mark: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.h5"

    def fill(data: h5py.Group) -> None:
        dataset = data.create_dataset("0", data=np.array([b"NA", b"NAN", b""], dtype=dtype))
        dataset.attrs["type"] = "string"
        dataset.attrs.create("missing-value-placeholder", mark)

    versioned(path, 3, ["x"], fill)
    assert cn.read(path)["x"].to_pylist() == [None, "NAN", ""]


def test_row_names_and_columns_kept_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "df" / "simple.h5"
    path.parent.mkdir()
    file, data = new_frame(path, ["a", "nested", "b"])
    with file:
        put(data, 0, np.array([1, 2], "i4"))
        put(data, 2, np.array([3, 4], "i4"))
        file["df/row_names"] = np.array([b"r1", b"r1"])
    resource = {"resource": {"type": "local", "path": "df/nested/simple.csv.gz"}}
    claims = [{"name": "a", "type": "integer"}, {"name": "nested", "type": "other", **resource},
              {"name": "b", "type": "integer"}]  # fmt: skip
    write_metadata(path, claims, 2, 2, 2, row_names=True)  # type: ignore[arg-type]
    with cn.open(path) as f:
        table = f["df"]
        assert table.columns == ["a", "b"] and table.labels == ["row_names"]
        assert [(one.name, one.place) for one in table.info.others] == [("nested", "df/nested/simple.csv.gz")]
        assert table.to_arrow().to_pydict() == {"row_names": ["r1", "r1"], "a": [1, 2], "b": [3, 4]}
    with cn.open(path, "r+") as f, pytest.raises(UnsupportedError, match="legacy"):
        f["df"].append({"a": [1], "b": [2], "row_names": ["x"]})


def test_levels_are_found_from_the_folder_that_paths_begin_at(tmp_path: Path) -> None:
    home = tmp_path / "project" / "df"
    home.mkdir(parents=True)
    file, data = new_frame(home / "simple.h5", ["x"])
    with file:
        put(data, 0, np.array([1, 0], "i4"))
    (home / "levels").mkdir()
    write_levels(home / "levels", "x", ["a", "b"])
    claim = {"name": "x", "type": "factor", "levels": {"resource": {"type": "local", "path": "df/levels/x.csv.gz"}}}
    place = write_metadata(home / "simple.h5", [claim], 2, 2, 2)
    document = json.loads(place.read_text())
    place.write_text(json.dumps({**document, "path": "df/simple.h5"}))
    assert cn.read(place)["x"].to_pylist() == ["b", "a"]


def test_levels_outside_the_folder_are_not_read(tmp_path: Path) -> None:
    home = tmp_path / "df"
    home.mkdir()
    write_levels(tmp_path, "secret", ["a", "b"])
    file, data = new_frame(home / "simple.h5", ["x"])
    with file:
        put(data, 0, np.array([1, 0], "i4"))
    claim = {"name": "x", "type": "factor", "levels": {"resource": {"type": "local", "path": "../secret.csv.gz"}}}
    write_metadata(home / "simple.h5", [claim], 2, 2, 2)
    with pytest.raises(FormatError, match="outside the folder"):
        cn.read(home / "simple.h5")
    assert cn.read(home / "simple.h5", links="any")["x"].to_pylist() == ["b", "a"]


def test_levels_in_an_hdf5_data_frame(tmp_path: Path) -> None:
    file, data = new_frame(tmp_path / "levels.h5", ["values"])
    with file:
        put(data, 0, np.array([b"a", b"b"]))
    write_metadata(tmp_path / "levels.h5", [{"name": "values", "type": "string"}], 2)
    file, data = new_frame(tmp_path / "x.h5", ["x"])
    with file:
        put(data, 0, np.array([b"b", b"a", b"b"]))
    claim = {"name": "x", "type": "ordered", "levels": {"resource": {"type": "local", "path": "levels.h5"}}}
    write_metadata(tmp_path / "x.h5", [claim], 3)
    assert cn.read(tmp_path / "x.h5")["x"].to_pylist() == ["b", "a", "b"]


def test_metadata_that_were_given_and_not_found(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    file, data = new_frame(path, ["x"])
    with file:
        put(data, 0, np.array([1, 2], "i4"))
    with cn.open(path) as f:
        assert f.tables() == []
    place = write_metadata(path, [{"name": "x", "type": "boolean"}], 2).rename(tmp_path / "about.json")
    assert cn.read(place)["x"].to_pylist() == [True, True]


@pytest.mark.parametrize(
    ("said", "error"),
    [("not json", "not a JSON document"), ("[]", "does not hold a JSON object"), ("{}", "does not describe"),
     ("[" * 100_000, "not a JSON document"),
     ('{"hdf5_data_frame": {"group": "df"}, "path": "gone.h5"}', "does not exist"),
     ('{"hdf5_data_frame": {"group": "df"}}', "does not name its file")],
)  # fmt: skip
def test_metadata_that_are_none(said: str, error: str, tmp_path: Path) -> None:
    place = tmp_path / "x.h5.json"
    place.write_text(said)
    with pytest.raises(FormatError, match=error):
        cn.open(place)


@pytest.mark.parametrize("version", ["2.0", "99.0"])
def test_a_later_version_is_refused(version: str, tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    versioned(path, 1, ["x"], lambda data: None)
    with h5py.File(path, "r+") as file:
        file["df"].attrs["version"] = version
    with cn.open(path) as f, pytest.raises(UnsupportedError, match=version):
        f["df"]


def test_a_claim_of_2_to_the_60_rows_allocates_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"

    def fill(data: h5py.Group) -> None:
        data.create_dataset("0", shape=(2**60,), dtype="i4", chunks=(1024,)).attrs["type"] = "integer"
        data.parent.create_dataset("row_names", shape=(2**60,), dtype="S8", chunks=(1024,))

    versioned(path, 1, ["x"], fill)
    with cn.open(path) as f:
        assert f["df"].n_rows == 2**60
        assert f["df"][:2].to_arrow()["x"].to_pylist() == [0, 0]


def test_column_names_that_claim_too_much(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    versioned(path, 1, ["x"], lambda data: None)
    with h5py.File(path, "r+") as file:
        del file["df/column_names"]
        file["df"].create_dataset("column_names", shape=(2**40,), dtype="S8", chunks=(1024,))
    with cn.open(path) as f:
        assert f["df"].columns == [] and "cannot be read" in f["df"].problems[0].message


def test_hdf5_version_3_by_metadata_has_columns_that_say_their_types(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    file, data = new_frame(path, ["kind", "flag"])
    with file:
        factor = data.create_group("0")
        factor.attrs["type"] = "factor"
        factor["levels"] = np.array([b"b", b"a"])
        factor["codes"] = np.array([1, 0, 2], "u1")
        factor["codes"].attrs.create("missing-value-placeholder", 2, dtype="u1")
        put(data, 1, np.array([1, 0, 5], "i1"), type="boolean")
    write_metadata(path, [{"name": "kind", "type": "factor"}, {"name": "flag", "type": "boolean"}], 3, 3, 2)
    assert cn.read(path).to_pydict() == {"kind": ["a", "b", None], "flag": [True, False, True]}
    assert [one for one in cn.check(path, deep=True) if one.severity == "error"] == []


def test_a_count_of_more_rows_than_there_can_be(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    versioned(path, 1, [], lambda data: None)
    with h5py.File(path, "r+") as file:
        file["df"].attrs["row-count"] = np.uint64(2**64 - 1)
    with cn.open(path) as f:
        assert len(f["df"]) == 2**63 - 1


def test_names_that_are_claimed_and_were_never_written_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    cn.write(path, {"x": [1, 2]}, table="data_frame", layout="artifactdb")
    with h5py.File(path, "r+") as file:
        group = file["data_frame"]
        del group["column_names"]
        group.create_dataset("column_names", (1 << 23,), "S6", chunks=(64,))[0] = b"x"
    with cn.open(path) as opened:
        problems = [problem.message for problem in opened["data_frame"].problems]
        assert "its column names cannot be read" in problems
        found = list(cn.check(opened))
        assert [(one.rule, one.message) for one in found if one.rule == "DG4"] == [
            ("DG4", "the column names cannot be read")
        ]
        with pytest.raises(UnsupportedError, match="claims 536,870,912 bytes"):
            cn.read_element(opened.h5["data_frame/column_names"])


def test_names_that_are_all_the_same_are_told_apart_in_linear_time(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    cn.write(path, {"x": [1, 2]}, table="data_frame", layout="artifactdb")
    with h5py.File(path, "r+") as file:
        group = file["data_frame"]
        del group["column_names"]
        group["column_names"] = np.array([b"x", b"x_2", b"", b"x", *[b"x"] * 30_000, b"column_2"])
        for position in range(1, 5):
            group["data"].copy("0", str(position))
    with cn.open(path) as opened:
        assert opened["data_frame"].columns == ["x", "x_2", "column_3", "x_3", "x_4"]


def test_a_damaged_heap_is_told_by_its_column(tmp_path: Path) -> None:
    path = tmp_path / "a"
    cn.write(path, {"x": ["some", "words" * 50, "here"] * 9}, layout="artifactdb", version="1.1", directory=True)
    with h5py.File(path / "basic_columns.h5", "r+") as file:
        (heap,) = [node for node in _datasets(file) if node.name.endswith("/heap")]
        parent, data = heap.parent, heap[()]
        del parent["heap"]
        made = parent.create_dataset("heap", data=data, chunks=(len(data),), compression="gzip")
        made.id.write_direct_chunk((0,), b"no deflated stream")
    with cn.open(path) as opened:
        (name,) = opened.tables()
        with pytest.raises(CorruptError, match=r"column 'x \(heap\)'") as caught:
            opened[name].take([26, 25, 0]).to_arrow()
        assert caught.value.column == "x (heap)"


def _datasets(group: Any) -> list[Any]:
    found: list[Any] = []
    group.visititems(lambda _name, node: found.append(node) if isinstance(node, h5py.Dataset) else None)
    return found
