"""H5Col tables with references of the type H5T_STD_REF: written, changed, copied, repacked, converted."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import h5py
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.errors import UnsupportedError, UsageError
from tests.laws.byte_files import HAS_HDF5_2
from tests.laws.test_h5col_changes import INDEX, ROWS, SMALL_CHUNKS, shown

SAMPLES = Path(__file__).parent.parent / "golden" / "h5col"
STANDARD, USUAL = b"\x47\x12\x00\x00\x12\x00\x00\x00", b"\x17\x00\x00\x00\x08\x00\x00\x00"
"""The datatype messages of both types (facts page of H5Col, section 16)."""


def reference_attributes(path: Path) -> dict[str, list[str]]:
    """The names of the attributes of each object that h5py can, and cannot, read: of the usual and the strict type."""
    found: dict[str, list[str]] = {"usual": [], "standard": []}
    with h5py.File(path) as file:

        def look(name: str, node: h5py.Group | h5py.Dataset) -> None:
            for key in ("INDEX_COLUMNS", "CATEGORIES", "SEARCH_INDEX_LIST", "VALUES"):
                if key in node.attrs:
                    size = h5py.h5a.open(node.id, key.encode()).get_type().get_size()
                    found["usual" if size == 8 else "standard"].append(f"{name}.{key}")

        file.visititems(look)
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "t.h5"
    options = {"labels": ["s"], "index": INDEX, "columns": SMALL_CHUNKS}
    cn.write(path, ROWS, "t", layout="h5col", references="standard", **options)  # type: ignore[arg-type]
    return path


def check_standard(path: Path, rows: pa.Table) -> Iterator[str]:
    """No rule is broken, not even that of references, and rows and indexes are right."""
    yield from (str(finding) for finding in cn.check(path, deep=True))
    found = reference_attributes(path)
    yield from found["usual"]
    yield from [] if found["standard"] else ["there are no strict references"]
    with cn.open(path, library="never") as file:
        table = file["t"]
        yield from [] if shown(table.to_arrow()) == shown(rows) else ["other rows"]
        yield from (str(index) for index in table.indexes if index.state != "trusted")


def test_references_are_of_the_type_that_is_asked_for(path: Path, tmp_path: Path) -> None:
    assert list(check_standard(path, ROWS)) == []
    data = path.read_bytes()
    assert STANDARD in data and USUAL not in data
    cn.write(tmp_path / "usual.h5", ROWS, "t", layout="h5col", labels=["s"], index=INDEX)
    assert reference_attributes(tmp_path / "usual.h5")["standard"] == []
    assert {finding.rule for finding in cn.check(tmp_path / "usual.h5")} == {"JR1"}


def test_changes_keep_the_type(path: Path) -> None:
    row = {name: ROWS[name].slice(0, 1) for name in ROWS.column_names}
    with cn.open(path, "r+") as file:
        table = file["t"]
        table.append(row | {"c": pa.array(["new"]).dictionary_encode()})
        table.build_index("b", "bitmap")
        table.drop_index("i", "chunk_bloom")
        table.set_labels(["s", "i"])
        table.add_column("d", pa.array(["x", "y"] * 3).dictionary_encode())
        table.replace_column("c", pa.array(["p", "q", None] * 2).dictionary_encode())
        table.rename_column("c", "e")
        table.update("e", [0], ["later"])
        rows = table.to_arrow(dictionaries=True)
    assert list(check_standard(path, rows)) == []
    assert "t.INDEX_COLUMNS" in reference_attributes(path)["standard"]


def test_references_are_made_again_when_a_file_is_copied(path: Path, tmp_path: Path) -> None:
    with cn.open(path, "r+") as file:
        file["t"].drop_column("f")
        file.repack()
    rows = ROWS.drop_columns(["f"])
    assert list(check_standard(path, rows)) == []
    with cn.open(tmp_path / "other.h5", "w") as file:
        file.create("first", {"x": range(10_000)})
    cn.convert(path, tmp_path / "same.h5", layout="h5col")
    assert list(check_standard(tmp_path / "same.h5", rows)) == []


def test_files_of_others_with_strict_references_are_repacked(tmp_path: Path) -> None:
    path = tmp_path / "10_strict.h5"
    shutil.copy(SAMPLES / "10_strict.h5", path)
    before = reference_attributes(path)
    with cn.open(path, "r+") as file:
        rows = {name: shown(file[name].to_arrow()) for name in file.tables()}
        labels = {name: file[name].labels for name in file.tables()}
        file.repack()
    assert reference_attributes(path) == before and before["standard"]
    with cn.open(path) as file:
        assert {name: shown(file[name].to_arrow()) for name in file.tables()} == rows
        assert {name: file[name].labels for name in file.tables()} == labels


@pytest.mark.skipif(not HAS_HDF5_2, reason="it cannot remove objects that HDF5 2.0 wrote")
def test_references_into_other_files_are_not_copied(tmp_path: Path) -> None:
    shutil.copy(SAMPLES / "wrong_3_hostile.h5", tmp_path / "t.h5")
    with h5py.File(tmp_path / "t.h5", "r+") as file:
        for name in set(file) - {"std_refs"}:
            del file[name]
    before = (tmp_path / "t.h5").read_bytes()
    with cn.open(tmp_path / "t.h5", "r+") as file, pytest.raises(UnsupportedError, match="another file"):
        file.repack()
    assert (tmp_path / "t.h5").read_bytes() == before


def test_april_is_converted_to_strict_references(tmp_path: Path) -> None:
    rows = ROWS.select(["i", "s", "c", "f"])
    cn.write(tmp_path / "april.h5", rows, "t", labels=["s"], index={"c": "bitmap"})
    cn.convert(tmp_path / "april.h5", tmp_path / "july.h5", layout="h5col", references="standard")
    found = reference_attributes(tmp_path / "july.h5")
    assert found["usual"] == [] and len(found["standard"]) == 4
    cn.convert(tmp_path / "july.h5", tmp_path / "back.h5", layout="hep001")
    assert shown(cn.read(tmp_path / "back.h5", "t")) == shown(cn.read(tmp_path / "april.h5", "t"))


def test_only_a_layout_that_has_them_takes_them(tmp_path: Path) -> None:
    for layout in ("hep001", "anndata"):
        with pytest.raises(UsageError, match="has no references"):
            cn.write(tmp_path / "t.h5", {"x": [1]}, "t", layout=layout, references="standard")
    with pytest.raises(UsageError, match='"object" or "standard"'):
        cn.write(tmp_path / "t.h5", {"x": [1]}, "t", layout="h5col", references="strict")  # type: ignore[arg-type]
    assert not (tmp_path / "t.h5").exists()


def test_a_table_without_references_remembers_the_type(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    with cn.open(path, "w") as file:
        table = file.create("t", {"x": [1, 2]}, layout="h5col", references="standard")
        assert dict(table.attrs) == {}
        table.build_index("x", "sorted_rows")
    assert reference_attributes(path) == {"usual": [], "standard": ["t/x.SEARCH_INDEX_LIST"]}
    assert cn.check(path) == []
