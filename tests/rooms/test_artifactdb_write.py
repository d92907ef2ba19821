"""ArtifactDB data frames written here: they come back, dolomite-base reads them, and what cannot be is refused."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.errors import DataError, FormatError, UnsupportedError, UsageError

UTC = dt.UTC
FORMS = ("1.0", "2/2", "2/1", "1/2", "1/1", "directory", "heap")
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int8": (pa.int8(), [-128, 127, 0, 1]),
    "int16": (pa.int16(), [-(2**15), 2**15 - 1, 0, 1]),
    "int32": (pa.int32(), [-(2**31), 2**31 - 1, 0, 1]),
    "int64": (pa.int64(), [-(2**31) + 1, 2**31 - 1, 0, 1]),
    "uint8": (pa.uint8(), [0, 255, 1, 2]),
    "uint16": (pa.uint16(), [0, 2**16 - 1, 1, 2]),
    "bool": (pa.bool_(), [True, False, True, False]),
    "float16": (pa.float16(), [0.5, -1.0, 2.0, 0.25]),
    "float32": (pa.float32(), [0.5, float("inf"), float("nan"), -0.0]),
    "float64": (pa.float64(), [float("-inf"), float("inf"), float("nan"), -0.0]),
    "text": (pa.string(), ["", "NA", "NA_", "größe"]),
    "long": (pa.string(), ["", "x" * 100_000, "y", "größe"]),
    "date": (pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1970, 1, 1), dt.date(2024, 2, 29)]),
    "time": (pa.timestamp("us", "UTC"), [dt.datetime(1, 1, 1, tzinfo=UTC),
                                         dt.datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
                                         dt.datetime(1970, 1, 1, tzinfo=UTC),
                                         dt.datetime(2024, 2, 29, 1, 2, 3, 500000, UTC)]),
    "seconds": (pa.timestamp("s"), [dt.datetime(2024, 2, 29, 1, 2, 3)] * 4),
    "factor": (pa.dictionary(pa.int32(), pa.string()), ["b", "", "größe", "b"]),
    "ordered": (pa.dictionary(pa.int32(), pa.string(), True), ["low", "high", "low", "low"]),
}  # fmt: skip


def array_of(name: str, missing: str) -> pa.Array:
    kind, values = VALUES[name]
    values = {"none": values, "some": [*values[:3], None, *values[3:]], "all": [None] * 3}[missing]
    if not pa.types.is_dictionary(kind):
        return pa.array(
            [None if one is None else np.float16(one) for one in values] if name == "float16" else values, kind
        )
    levels = pa.array(["high", "low"] if kind.ordered else ["b", "", "unused", "größe"])
    codes = pa.array([None if one is None else levels.to_pylist().index(one) for one in values], pa.int32())
    return pa.DictionaryArray.from_arrays(codes, levels, ordered=kind.ordered)


def write(path: Path, form: str, data: Any, **options: Any) -> Path:
    target = path / ("frame" if form in ("directory", "heap") else "frame.h5")
    how: dict[str, Any] = {"version": form}
    if form in ("directory", "heap"):
        how = {"directory": True, "version": "1.1" if form == "heap" else "1.0"}
    cn.write(target, data, "df", layout="artifactdb", **how, **options)
    return target


def shown(values: list[Any]) -> list[str]:
    return [repr(float(one)) if isinstance(one, (float, np.floating)) else str(one) for one in values]


def fits_oldest_marks(name: str) -> bool:
    """Whether hdf5_data_frame 1 has a word for all values: its integers cannot be -2147483648."""
    return name != "int32"


@pytest.mark.parametrize("missing", ["none", "some", "all"])
@pytest.mark.parametrize("name", sorted(VALUES))
@pytest.mark.parametrize("form", FORMS)
def test_a_column_comes_back(form: str, name: str, missing: str, tmp_path: Path) -> None:
    given = array_of(name, missing)
    if form.startswith("1/") and not fits_oldest_marks(name) and missing != "all":
        with pytest.raises(DataError, match="row 0"):
            write(tmp_path, form, pa.table({"x": given}))
        assert not list(tmp_path.iterdir())
        return
    target = write(tmp_path, form, pa.table({"x": given}))
    found = cn.read(target)["x"]
    assert shown(found.to_pylist()) == shown(given.to_pylist())
    if pa.types.is_dictionary(given.type):
        assert found.type.ordered == given.type.ordered
        assert found.chunk(0).dictionary.to_pylist() == given.dictionary.to_pylist()
    elif not pa.types.is_integer(given.type) and not pa.types.is_floating(given.type):
        assert found.type == given.type
    assert not [one for one in cn.check(target, deep=True) if one.severity != "note"]
    if form in ("directory", "heap"):
        dolomite = pytest.importorskip("dolomite_base")
        dolomite.validate_object(str(target))


@pytest.mark.parametrize("missing", ["none", "some"])
@pytest.mark.parametrize("form", ["directory", "heap"])
def test_dolomite_reads_what_is_written(form: str, missing: str, tmp_path: Path) -> None:
    dolomite = pytest.importorskip("dolomite_base")
    table = pa.table({name: array_of(name, missing) for name in VALUES})
    names = [f"r{row}" for row in range(len(table))]
    target = write(tmp_path, form, table, labels={"row_names": names})
    frame = dolomite.read_object(str(target))
    assert list(frame.get_column_names()) == list(VALUES) and list(frame.get_row_names()) == names
    for name in VALUES:
        theirs = [None if one is None or one is np.ma.masked else one for one in frame.get_column(name)]
        wanted = table[name].to_pylist()
        if name in ("date", "time", "seconds"):
            theirs = [None if one is None else type(wanted[0]).fromisoformat(one) for one in theirs]
            wanted = [one if one is None or name != "seconds" else one.replace(tzinfo=UTC) for one in wanted]
        assert shown(theirs) == shown(wanted), name


def test_what_dolomite_writes_reads_equal(tmp_path: Path) -> None:
    dolomite = pytest.importorskip("dolomite_base")
    import biocframe
    import biocutils

    columns = {
        "i": [1, 2, None, -(2**31)], "big": [2**40, 1, 2, 3], "b": [True, None, False, True],
        "f": [1.5, None, float("nan"), float("inf")], "s": ["a", "é", None, "NA"], "whole": ["", "b", "c", "d"],
        "fac": biocutils.Factor.from_sequence(["x", "y", None, "x"]),  # type: ignore[attr-defined, list-item]
        "np": np.arange(4, dtype="i8"), "masked": np.ma.array([1.0, 2.0, 3.0, 4.0], mask=[False, True, False, False]),
        "nested": [[1], [2], [3], "a"],
    }  # fmt: skip
    frame = biocframe.BiocFrame(columns, row_names=["r1", "r2", "r3", "r4"])
    dolomite.save_object(frame, str(tmp_path / "d"))
    found = cn.read(tmp_path / "d")
    assert found["i"].to_pylist() == [1, 2, None, -(2**31)]
    assert found["big"].to_pylist() == [2.0**40, 1.0, 2.0, 3.0]
    assert found["b"].to_pylist() == [True, None, False, True]
    assert shown(found["f"].to_pylist()) == ["1.5", "None", "nan", "inf"]
    assert found["s"].to_pylist() == ["a", "é", None, "NA"] and found["whole"].to_pylist() == ["", "b", "c", "d"]
    assert found["fac"].to_pylist() == ["x", "y", None, "x"] and found["np"].to_pylist() == [0, 1, 2, 3]
    assert found["masked"].to_pylist() == [1.0, None, 3.0, 4.0]
    assert found["row_names"].to_pylist() == ["r1", "r2", "r3", "r4"]
    with cn.open(tmp_path / "d") as f:
        assert [(one.name, one.place) for one in f["data_frame"].info.others] == [("nested", "other_columns/9")]
    assert not [one for one in cn.check(tmp_path / "d", deep=True) if one.severity == "error"]


def test_the_faults_of_dolomite_are_tolerated_with_a_finding(tmp_path: Path) -> None:
    dolomite = pytest.importorskip("dolomite_base")
    import biocframe
    import biocutils

    frame = biocframe.BiocFrame({"b": biocutils.BooleanList([True, None, False])})  # type: ignore[attr-defined]
    dolomite.save_object(frame, str(tmp_path / "d"))
    assert cn.read(tmp_path / "d")["b"].to_pylist() == [True, None, False]
    assert [one for one in cn.check(tmp_path / "d") if one.severity == "warning" and one.path.endswith("data/0")]
    heap = write(tmp_path, "heap", pa.table({"s": ["x" * 1000, "", None]}))
    (heap / "OBJECT").write_text(json.dumps({"type": "data_frame", "data_frame": {"version": "1.0"}}))
    assert cn.read(heap)["s"].to_pylist() == ["x" * 1000, "", None]
    assert [one for one in cn.check(heap) if one.severity == "warning"]


# -- what stands beside a file --


def metadata(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.with_name(f"{path.name}.json").read_text())
    return found


@pytest.mark.parametrize("form", ["1.0", "2/2", "2/1", "1/2", "1/1"])
def test_metadata_say_what_is_in_the_file(form: str, tmp_path: Path) -> None:
    table = pa.table({name: array_of(name, "some") for name in VALUES if name != "int32"})
    target = write(tmp_path, form, table, labels={"id": [f"r{row}" for row in range(5)]})
    said = metadata(target)
    assert said["md5sum"] == hashlib.md5(target.read_bytes()).hexdigest() and said["path"] == target.name
    assert said["data_frame"]["dimensions"] == [5, table.num_columns] and said["data_frame"]["row_names"] is True
    kinds = {one["name"]: one for one in said["data_frame"]["columns"]}
    assert list(kinds) == table.column_names
    old = form in ("2/1", "1/1")
    assert kinds["date"]["type"] == ("date" if old else "string") and kinds["bool"]["type"] == "boolean"
    assert kinds["ordered"]["type"] == ("ordered" if old else "factor")
    assert kinds["date"].get("format") == (None if old else "date")
    assert said["hdf5_data_frame"] == {"group": "df", "version": 3 if form == "1.0" else int(form[0])}


def test_metadata_follow_every_change(tmp_path: Path) -> None:
    target = write(tmp_path, "1.0", pa.table({"a": [1, 2], "b": ["x", "y"]}))
    with cn.open(target, "r+") as f:
        table = f["df"]
        table.append({"a": [3], "b": [None]})
        table.add_column("c", [1.5, 2.5, 3.5])
        table.drop_column("a")
        table.rename_column("b", "renamed")
    said = metadata(target)
    assert said["data_frame"]["dimensions"] == [3, 2]
    assert [(one["name"], one["type"]) for one in said["data_frame"]["columns"]] == [
        ("renamed", "string"),
        ("c", "number"),
    ]
    assert said["md5sum"] == hashlib.md5(target.read_bytes()).hexdigest()
    assert cn.read(target).to_pydict() == {"renamed": ["x", "y", None], "c": [1.5, 2.5, 3.5]}


def test_a_failed_change_leaves_file_and_metadata(tmp_path: Path) -> None:
    target = write(tmp_path, "1.0", pa.table({"a": [1, 2]}))
    before = metadata(target)
    with cn.open(target, "r+") as f, pytest.raises(DataError, match="row 2"):
        f["df"].append({"a": [2**40]})
    assert cn.read(target)["a"].to_pylist() == [1, 2]
    assert metadata(target)["data_frame"] == before["data_frame"]
    assert metadata(target)["md5sum"] == hashlib.md5(target.read_bytes()).hexdigest()


def test_a_second_frame_is_refused(tmp_path: Path) -> None:
    target = write(tmp_path, "1.0", pa.table({"a": [1, 2]}))
    with pytest.raises(UsageError, match="file of its own"):
        cn.write(target, {"a": [1]}, "other", layout="artifactdb")
    assert cn.open(target).tables() == ["/df"]


def test_a_file_without_a_path_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as h5, pytest.raises(UsageError, match="not opened from a path"):
        cn.write(h5, {"a": [1]}, layout="artifactdb")


def test_nothing_is_left_of_a_frame_that_fails(tmp_path: Path) -> None:
    for form in FORMS:
        with pytest.raises(DataError):
            write(tmp_path, form, iter([pa.record_batch({"a": [1]}), pa.record_batch({"a": [2**50]})]))
        assert [path.name for path in tmp_path.rglob("*") if path.name != "frame"] == []


# -- what is refused --


@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.list_(pa.int32()), pa.struct([("a", pa.int32())]), pa.time64("us"), pa.duration("s"),
             pa.decimal128(5, 2)]
)  # fmt: skip
def test_types_without_a_form_are_refused_by_name(kind: pa.DataType, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'odd'"):
        write(tmp_path, "1.0", pa.table({"odd": pa.nulls(2, kind)}))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("data", "options", "told"),
    [
        ({"": [1]}, {}, "empty"),
        ({"a": ["x\0y"]}, {}, "NUL"),
        ({"a": [1]}, {"labels": {"n": [7]}}, "row names are strings"),
        ({"a": [1]}, {"labels": {"n": ["x"], "m": ["y"]}}, "one array of row names"),
        ({"a": [1]}, {"title": "t"}, "title"),
        ({"a": [1]}, {"columns": {"a": {"units": "m"}}}, "units"),
        ({"a": [1]}, {"columns": {"a": {"sparse": True}}}, "sparse"),
        ({"a": [1, 2]}, {"labels": {"n": pa.array(["x", None])}}, "row 1: row names cannot be missing"),
    ],
)
def test_what_a_frame_cannot_hold_is_refused(data: Any, options: Any, told: str, tmp_path: Path) -> None:
    with pytest.raises((DataError, UsageError), match=told):
        write(tmp_path, "1.0", data, **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("version", ["3/1", "0/1", "2.0", "x", 2, (1, 3)])
def test_versions_that_are_none(version: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="version"):
        cn.write(tmp_path / "x.h5", {"a": [1]}, layout="artifactdb", version=version)


def test_version_and_directory_are_of_this_layout(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="artifactdb"):
        cn.write(tmp_path / "x.h5", {"a": [1]}, version="1.0")


# -- odd shapes --


@pytest.mark.parametrize("form", FORMS)
def test_frames_without_rows_and_without_columns(form: str, tmp_path: Path) -> None:
    for name, data in (("rows", pa.table({"a": pa.array([], pa.int32()), "s": pa.array([], pa.string())})),
                       ("columns", pa.table({}))):  # fmt: skip
        (tmp_path / name).mkdir()
        target = write(tmp_path / name, form, data)
        assert cn.read(target).column_names == data.column_names
        if form in ("directory", "heap"):
            pytest.importorskip("dolomite_base").validate_object(str(target))


@pytest.mark.parametrize("n_levels", [254, 255, 256, 65_535, 65_536])
@pytest.mark.parametrize("form", ["1.0", "directory"])
def test_codes_are_as_narrow_as_both_readers_take(form: str, n_levels: int, tmp_path: Path) -> None:
    levels = pa.array([f"level {n}" for n in range(n_levels)])
    codes = pa.array([*range(n_levels), None], pa.int32())
    target = write(tmp_path, form, pa.table({"x": pa.DictionaryArray.from_arrays(codes, levels)}))
    file = target / "basic_columns.h5" if target.is_dir() else target
    with h5py.File(file) as h5:
        dtype = h5[f"{'data_frame' if target.is_dir() else 'df'}/data/0/codes"].dtype.str
    widest = "<u4" if form == "directory" else "<i4"
    assert dtype == ("|u1" if n_levels <= 255 else "<u2" if n_levels <= 65_535 else widest)
    assert cn.read(target)["x"].to_pylist() == [*levels.to_pylist(), None]
    if form == "directory":
        pytest.importorskip("dolomite_base").validate_object(str(target))


def test_levels_grow_past_a_byte(tmp_path: Path) -> None:
    target = write(tmp_path, "directory", pa.table({"x": pa.array(["a", None]).dictionary_encode()}))
    more = [f"level {n}" for n in range(300)]
    with cn.open(target, "r+") as f:
        f["data_frame"].build_index("x", "bitmap")
        f["data_frame"].append({"x": pa.array([*more, None]).dictionary_encode()})
        assert f["data_frame"].where("x is missing").row_numbers().tolist() == [1, 302]
    pytest.importorskip("dolomite_base").validate_object(str(target))
    assert cn.read(target)["x"].to_pylist() == ["a", None, *more, None]


def test_frames_of_dolomite_are_changed(tmp_path: Path) -> None:
    dolomite = pytest.importorskip("dolomite_base")
    import biocframe
    import biocutils

    frame = biocframe.BiocFrame(
        {"f": biocutils.Factor.from_sequence(["x", None]), "b": [True, None], "s": ["NA", None]}  # type: ignore[attr-defined, list-item]
    )
    dolomite.save_object(frame, str(tmp_path / "d"))
    with cn.open(tmp_path / "d", "r+") as f:
        f["data_frame"].append({"f": ["z", None], "b": [None, False], "s": ["NA_", "longer than before"]})
    dolomite.validate_object(str(tmp_path / "d"))
    read = dolomite.read_object(str(tmp_path / "d"))
    assert list(read.get_column("f")) == ["x", None, "z", None]
    assert list(read.get_column("s")) == ["NA", None, "NA_", "longer than before"]
    assert cn.read(tmp_path / "d")["b"].to_pylist() == [True, None, None, False]


def test_nothing_is_dropped_or_added_beside_columns_kept_elsewhere(tmp_path: Path) -> None:
    dolomite = pytest.importorskip("dolomite_base")
    import biocframe

    dolomite.save_object(biocframe.BiocFrame({"nested": [[1], "a"], "a": [1, 2]}), str(tmp_path / "d"))
    with cn.open(tmp_path / "d", "r+") as f:
        table = f["data_frame"]
        with pytest.raises(UnsupportedError, match="nested"):
            table.drop_column("a")
        with pytest.raises(UnsupportedError, match="nested"):
            table.append({"a": [3]})
        table.update("a", [0], [7])
        table.add_column("b", ["x", "y"])
    dolomite.validate_object(str(tmp_path / "d"))
    assert list(dolomite.read_object(str(tmp_path / "d")).get_column_names()) == ["nested", "a", "b"]


def test_a_file_that_is_a_directory_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    with pytest.raises((FormatError, UsageError, IsADirectoryError, OSError)):
        cn.open(tmp_path / "d")


def test_several_frames_of_a_new_file_have_no_metadata(tmp_path: Path) -> None:
    with cn.open(tmp_path / "x.h5", "w") as f:
        f.create("a", {"x": [1]}, layout="artifactdb")
        f.create("b", {"x": [2]}, layout="artifactdb")
        with pytest.raises(UsageError, match="file of its own"):
            f.create("c", {"x": [2]}, layout="artifactdb", version="2/2")
    assert [path.name for path in tmp_path.iterdir()] == ["x.h5"]
    assert cn.read(tmp_path / "x.h5", "b")["x"].to_pylist() == [2]


def test_a_column_added_to_a_directory_is_one_of_a_directory(tmp_path: Path) -> None:
    """More levels than uint16 counts: today's validator takes no signed codes."""
    count = 65_536
    target = write(tmp_path, "directory", {"a": np.arange(count, dtype="i4")})
    levels = [f"level {n}" for n in range(count)]
    with cn.open(target, "r+") as f:
        f["data_frame"].add_column("k", pa.array(levels).dictionary_encode())
    pytest.importorskip("dolomite_base").validate_object(str(target))
    assert cn.read(target)["k"].to_pylist() == levels


@pytest.mark.parametrize("batches", [[["NA"], [None]], [["NA_", "x" * 90], ["NA", None, "NA__"], [None]]])
def test_the_placeholder_of_a_heap_is_no_text_that_was_there_before(tmp_path: Path, batches: list[list[Any]]) -> None:
    """It is chosen when the first missing row comes, whether rows before it came with the same writer or not."""
    first, *others = (pa.table({"s": pa.array(one, pa.string())}) for one in batches)
    path, options = tmp_path / "frame", {"s": cn.column(strings="variable")}
    cn.write(path, first, layout="artifactdb", directory=True, version="1.1", columns=options)
    with cn.open(path, "r+") as f:
        table = f[f.tables()[0]]
        for one in others:
            table.append(one)
    expected = [text for one in batches for text in one]
    assert cn.read(path)["s"].to_pylist() == expected
    stream = pa.RecordBatchReader.from_batches(
        first.schema, [part for one in (first, *others) for part in one.to_batches()]
    )
    cn.write(tmp_path / "at once", stream, layout="artifactdb", directory=True, version="1.1", columns=options)
    assert cn.read(tmp_path / "at once")["s"].to_pylist() == expected


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]", b"a folder"])
def test_check_finds_metadata_that_cannot_be_read(tmp_path: Path, content: bytes) -> None:
    """Also next to a file that says by itself what it holds; a document about something else is not ours."""
    path, place = tmp_path / "a.h5", tmp_path / "a.h5.json"
    cn.write(path, {"x": [1, 2]}, layout="artifactdb")
    assert cn.check(path) == []
    place.unlink(missing_ok=True)
    place.write_bytes(content) if content != b"a folder" else place.mkdir()
    (finding,) = cn.check(path)
    assert (finding.rule, finding.severity, finding.path) == ("DJ1", "warning", "a.h5.json")
    assert cn.read(path)["x"].to_pylist() == [1, 2]
    place.unlink() if place.is_file() else place.rmdir()
    place.write_text('{"something": "else"}')
    assert cn.check(path) == []


def test_a_short_string_that_equals_the_placeholder_can_be_set(tmp_path: Path) -> None:
    """All placeholders of the width of the column are taken: the column gets wider."""
    path = tmp_path / "a.h5"
    cn.write(path, {"x": [None, "", "NA_"]}, "t", layout="artifactdb")
    with cn.open(path, "r+") as file:
        file["t"].update("x", [1], ["NA"])
    assert cn.read(path, "t").to_pydict() == {"x": [None, "NA", "NA_"]}
    assert cn.check(path, deep=True) == []


def test_a_document_under_another_name_describes_its_file_while_it_is_open(tmp_path: Path) -> None:
    """A legacy frame is a table only by its document; the document is forgotten when the file is closed."""
    target = write(tmp_path, "2/2", pa.table({"x": [1, 2, 3]}))
    document = tmp_path / "other.json"
    (tmp_path / "frame.h5.json").rename(document)
    with cn.open(document) as file:
        assert file["df"]["x"].to_arrow().to_pylist() == [1, 2, 3]
        pickled = pickle.dumps(file["df"])
    with cn.open(target) as file:
        assert file.tables() == []
    with pickle.loads(pickled) as table:
        assert table["x"].to_arrow().to_pylist() == [1, 2, 3]
