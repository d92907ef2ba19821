"""Files that other projects wrote: every dataset in them can be read as a column, none crashes a reader.

Each rank-1 dataset is hard-linked, by h5py, as the only column of a table in a copy of its file.
Values are held against the checksums of the manifest, or against what h5py or the file's bytes say.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import colonnade as cn
from colonnade.columns.arrow_types import RawType, ReferenceType
from colonnade.errors import TableNotFound, UsageError

FOLDER = Path(__file__).parent / "foreign"
MANIFEST = json.loads((FOLDER / "manifest.json").read_text())
FILES = [entry["file"] for entry in MANIFEST["files"]]
ALL = [*MANIFEST["files"], *MANIFEST["by_law"]]  # the latter are read by the laws of both readers alone
DATASETS = [
    (entry["file"], name, said) for entry in MANIFEST["files"] for name, said in (entry["expected"] or {}).items()
]
UNKNOWN = [(file, name) for file, name, said in DATASETS if "error" in said]
KNOWN = [(file, name, said) for file, name, said in DATASETS if "error" not in said]
FLAT = [(file, name) for file, name, said in KNOWN if len(said["shape"]) == 1]
DEEP = [(file, name) for file, name, said in KNOWN if len(said["shape"]) != 1]
COMPOUNDS = [(file, name) for file, name, said in KNOWN if said["dtype"].startswith("[") and len(said["shape"]) == 1]
REFERENCES = [("hdf5/trefer_obj.h5", "Dataset4"), ("hdf5/trefer_obj.h5", "Dataset6")]
SUMMED = [
    (file, name, said["checksum"])
    for file, name, said in KNOWN
    if len(said["shape"]) == 1 and (file, name) not in COMPOUNDS + REFERENCES
]


def checksum(values: list[Any]) -> str:
    """The manifest's checksum_rule: the first 32 hex digits of a SHA-256 over JSON."""
    text = json.dumps([_plain(value) for value in values], separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _plain(value: Any) -> Any:
    """Missing and NaN to null, bytes to text, whole numbers as they are, floats by repr, others by str."""
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return None
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if isinstance(value, (bool, int)):
        return value
    return repr(value) if isinstance(value, float) else str(value)


def wrap(folder: Path, file: str, dataset: str) -> Path:
    """A copy of the file in which the dataset is also the only column, `value`, of the table /wrapped."""
    path = folder / Path(file).name
    shutil.copyfile(FOLDER / file, path)
    with h5py.File(path, "r+") as h5:
        group = h5.create_group("wrapped")
        group.attrs["CLASS"] = np.bytes_(b"COLUMN_TABLE")
        group.attrs["VERSION"] = np.bytes_(b"1.0")
        h5.id.links.create_hard(b"wrapped/value", h5.id, dataset.encode())
    return path


def by_h5py(file: str, dataset: str) -> list[Any]:
    """What h5py reads, as plain Python values."""
    with h5py.File(FOLDER / file) as h5:
        return [_python(value) for value in h5[dataset][()]]


def _python(value: Any) -> Any:
    if isinstance(value, np.void) and value.dtype.names:
        return {name: _python(value[name]) for name in value.dtype.names}
    if isinstance(value, np.ndarray):
        return [_python(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8")
    return value.item() if isinstance(value, np.generic) else value


def stored_bytes(file: str, dataset: str) -> bytes:
    """The bytes of a contiguous dataset, as they lie in the file."""
    with h5py.File(FOLDER / file) as h5:
        node = h5py.h5d.open(h5.id, dataset.encode())
        offset, size = node.get_offset(), node.get_storage_size()
    return (FOLDER / file).read_bytes()[offset : offset + size]


def links(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every path below a group, with the opened object, or None for what cannot be opened."""
    for name in group.id:
        path = f"{prefix}{name.decode()}"
        try:
            node = group[name]
        except (KeyError, OSError):
            yield path, None
            continue
        yield path, node
        if isinstance(node, h5py.Group):
            yield from links(node, path + "/")


@pytest.mark.parametrize("entry", ALL, ids=lambda entry: entry["file"])
def test_the_files_are_as_their_projects_published_them(entry: dict[str, Any]) -> None:
    """Nobody changed a golden file: size and SHA-256 are those of the manifest."""
    data = (FOLDER / entry["file"]).read_bytes()
    assert len(data) == entry["bytes"]
    assert hashlib.sha256(data).hexdigest() == entry["sha256"]


def test_the_notice_names_every_file_with_source_commit_and_licence() -> None:
    """Whoever copies this folder knows where each file came from."""
    notice = (FOLDER / "NOTICE").read_text()
    for entry in ALL:
        for fact in ("file", "source_path", "commit", "licence"):
            assert entry[fact] in notice
        assert entry["source"].removeprefix("github:") in notice
    held = {path.relative_to(FOLDER).as_posix() for path in FOLDER.glob("*/*")}
    assert held == {entry["file"] for entry in ALL}


def test_the_manifest_names_every_dataset_of_the_files() -> None:
    """The tests below are made from the manifest, so it must leave nothing out."""
    for entry in MANIFEST["files"]:
        with h5py.File(FOLDER / entry["file"]) as h5:
            found = {path for path, node in links(h5) if isinstance(node, h5py.Dataset)}
        assert found == set(entry["expected"] or {})


@pytest.mark.parametrize("file", FILES)
def test_a_file_is_walked_to_its_end(file: str) -> None:
    """Opening, listing and walking a foreign file finds its compound datasets, no other table, and raises nothing."""
    expected = [f"/{name}" for path, name in COMPOUNDS if path == file]
    with cn.open(FOLDER / file) as opened:
        assert opened.tables() == expected
        assert list(opened) == expected and len(opened) == len(expected)
        assert "/" not in opened
        assert repr(opened).startswith(f"<File {FOLDER / file}: {len(expected)} table")
        assert {path for path, _ in links(opened.h5)} != set()


@pytest.mark.parametrize(("file", "name"), [one for one in FLAT + DEEP + UNKNOWN if one not in COMPOUNDS])
def test_a_dataset_asked_for_as_a_table_is_refused(file: str, name: str) -> None:
    """A dataset without members is no table, and the error says so whatever its datatype."""
    with cn.open(FOLDER / file) as opened, pytest.raises(UsageError) as caught:
        opened[name]
    assert caught.value.path == name
    assert not isinstance(caught.value, TableNotFound)


@pytest.mark.parametrize(("file", "name"), FLAT + UNKNOWN)
def test_every_flat_dataset_is_read_in_every_way(tmp_path: Path, file: str, name: str) -> None:
    """Whole, slices, chosen rows, frames and texts: nothing crashes, and all ways agree on the values."""
    with cn.open(wrap(tmp_path, file, name)) as opened:
        assert "/wrapped" in opened.tables() and "/wrapped/value" not in opened.tables()
        table = opened["wrapped"]
        assert table.columns == ["value"]
        rows = len(table)
        whole = table.to_arrow()["value"].to_pylist()
        assert len(whole) == rows == len(by_shape(file, name))
        assert table["value"].to_arrow().to_pylist() == whole
        assert table[rows // 2 :].to_arrow()["value"].to_pylist() == whole[rows // 2 :]
        assert table[::-3].to_arrow()["value"].to_pylist() == whole[::-3]
        assert table.take([-1, 0, -1]).to_arrow()["value"].to_pylist() == [whole[-1], whole[0], whole[-1]]
        if not isinstance(table[0]["value"], cn.Reference):
            assert table[0]["value"] == whole[0] and table["value"][rows - 1] == whole[-1]
        assert table[0]["value"] == table["value"][0]
        assert [row for batch in table.batches(7) for row in batch.column(0).to_pylist()] == whole
        assert len(table.to_pandas()) == rows and len(table["value"].to_numpy()) == rows
        assert table.to_polars().height == rows
        assert f"{rows:,} row" in repr(table) and "'value'" in repr(table["value"])
        assert "value" in table._repr_html_()


def by_shape(file: str, name: str) -> range:
    """The rows h5py counts."""
    with h5py.File(FOLDER / file) as h5:
        return range(h5[name].shape[0])


@pytest.mark.parametrize(("file", "name", "expected"), SUMMED)
def test_values_have_the_checksum_of_the_manifest(tmp_path: Path, file: str, name: str, expected: str) -> None:
    """What is read is what the producer's own reader read, padding taken off."""
    with cn.open(wrap(tmp_path, file, name)) as opened:
        values = opened["wrapped"]["value"].to_arrow().to_pylist()
    assert checksum(values) == expected


@pytest.mark.parametrize(("file", "name"), COMPOUNDS)
def test_deeply_nested_compounds_have_h5pys_values(tmp_path: Path, file: str, name: str) -> None:
    """Compounds in compounds with arrays and strings come as structs with every member's value."""
    with cn.open(wrap(tmp_path, file, name)) as opened:
        values = opened["wrapped"]["value"].to_arrow().to_pylist()
    assert values == by_h5py(file, name)


@pytest.mark.parametrize(("file", "name"), REFERENCES)
def test_references_are_the_bytes_of_the_file(tmp_path: Path, file: str, name: str) -> None:
    """Object and region references are handed on as they are stored."""
    kind = {"Dataset4": "object_reference", "Dataset6": "region_reference"}[name]
    with cn.open(wrap(tmp_path, file, name)) as opened:
        column = opened["wrapped"]["value"]
        assert isinstance(column.dtype, ReferenceType) and column.dtype.kind == kind
        values = column.to_arrow().to_pylist()
    assert b"".join(values) == stored_bytes(file, name)


@pytest.mark.parametrize(("file", "name"), UNKNOWN)
def test_a_datatype_h5py_does_not_know_comes_as_raw_bytes(tmp_path: Path, file: str, name: str) -> None:
    """C4: the reference of HDF5 1.12 is surfaced as bytes under its name, the same bytes in every process state."""
    path = wrap(tmp_path, file, name)
    with h5py.File(path) as h5, pytest.raises(TypeError):
        h5[name][()]
    read = []
    for _ in range(2):
        with cn.open(path) as opened:
            column = opened["wrapped"]["value"]
            assert isinstance(column.dtype, RawType)
            assert "reference" in column.dtype.hdf5_type and column.stored_type.kind == "unknown"
            read.append(column.to_arrow().to_pylist())
    assert [type(value) for value in read[0]] == [bytes]
    assert len(read[0][0]) == column.stored_type.size
    assert read[0] == read[1]


def test_reading_raw_bytes_lets_go_of_the_file(tmp_path: Path) -> None:
    """Raw references hold no handle of the file: after closing, it can be opened for writing."""
    path = wrap(tmp_path, "hdf5/trefer_obj.h5", "Dataset3")
    with cn.open(path) as opened:
        opened["wrapped"].to_arrow()
    with h5py.File(path, "r+") as h5:
        assert h5.mode == "r+"


@pytest.mark.parametrize(("file", "name"), DEEP)
def test_datasets_of_higher_rank_are_passed_over(tmp_path: Path, file: str, name: str) -> None:
    """C1: a 2-D dataset in the group is no column; it is noted and the table is read without it."""
    with cn.open(wrap(tmp_path, file, name)) as opened:
        table = opened["wrapped"]
        assert table.columns == [] and len(table) == 0
        assert [(f.rule, f.severity, f.path) for f in table.problems] == [("C1", "note", "/wrapped/value")]
        assert table.to_arrow().num_columns == 0
        assert len(table.to_pandas()) == 0


@pytest.mark.parametrize(("broken", "noted"), [("cmpnd", []), ("dataset", ["error"])])
def test_an_invalid_compound_is_a_finding_and_hides_nothing(tmp_path: Path, broken: str, noted: list[str]) -> None:
    """A dataset that makes no sense is noted, a named datatype is nobody's column; the good column beside is read."""
    with h5py.File(FOLDER / "hdf5/bad_compound.h5") as h5:
        assert dict(links(h5))[broken] is None
    path = wrap(tmp_path, "hdf5/bad_compound.h5", broken)
    with h5py.File(path, "r+") as h5:
        h5["wrapped/good"] = np.arange(3)
    with cn.open(path) as opened:
        assert opened.tables() == ["/wrapped"]
        table = opened["wrapped"]
        assert table.columns == (["good", "value"] if noted else ["good"])
        assert [f.severity for f in table.problems if f.path == "/wrapped/value"] == noted
        assert table["good"].to_arrow().to_pylist() == [0, 1, 2]
        assert "good" in repr(table)
        with pytest.raises(cn.errors.FormatError if noted else cn.errors.ColumnNotFound, match="'value'"):
            table["value"].to_arrow()
