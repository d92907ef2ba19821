"""References that go into another file are made again there, at any depth, or are refused: never copied as bytes."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

import colonnade as cn
from colonnade.errors import DataError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Record arrays whose members are references, alone, in arrays, in lists and in nested records."""
    path = tmp_path / "theirs.h5"
    with h5py.File(path, "w") as file:
        file["first"] = np.arange(10)  # so that addresses differ in a copy
        target = file.create_dataset("grp/target", data=np.arange(24).reshape(4, 6))
        reference, part = target.ref, target.regionref[1:3, ::2]
        rows = np.zeros(3, [("r", h5py.ref_dtype), ("pair", h5py.ref_dtype, (2,)), ("s", [("rr", h5py.ref_dtype)])])
        for row in range(2):  # those of the last are null
            rows["r"][row], rows["s"]["rr"][row] = reference, reference
            rows["pair"][row] = [reference, file["first"].ref]
        rows["r"][2] = rows["s"]["rr"][2] = h5py.Reference()
        rows["pair"][2] = [h5py.Reference(), h5py.Reference()]
        file["rows"] = rows
        parts = np.zeros(2, [("n", "i4"), ("part", h5py.regionref_dtype)])
        parts["part"][0], parts["part"][1] = part, h5py.RegionReference()
        file["parts"] = parts
        lists = file.create_dataset("lists", (2,), [("n", "i4"), ("v", h5py.vlen_dtype(h5py.ref_dtype))])
        some = np.zeros(1, lists.dtype)
        some["v"][0] = np.array([reference, file["first"].ref], dtype=h5py.ref_dtype)
        lists[0:1] = some
    return path


def names(file: h5py.File, references: object) -> list[str | None]:
    return [file[reference].name if reference else None for reference in np.ravel(np.asarray(references, object))]


def test_references_at_any_depth_are_kept(path: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.h5"
    done = cn.convert(path, new, layout="hep001")
    assert (sorted(done.tables), done.notes) == (["/lists", "/parts", "/rows"], [])
    with h5py.File(new) as file:
        rows = file["rows"]
        assert names(file, rows["r"][:]) == ["/grp/target", "/grp/target", None]
        assert names(file, rows["pair"][0]) == ["/grp/target", "/first"]
        assert names(file, rows["pair"][2]) == [None, None]
        assert names(file, rows["s"][:]["rr"]) == ["/grp/target", "/grp/target", None]
        assert names(file, file["lists/v"][0]) == ["/grp/target", "/first"]
        part = file["parts/part"][0]
        np.testing.assert_array_equal(file[part][part].reshape(2, 3), np.arange(24).reshape(4, 6)[1:3, ::2])
        assert not file["parts/part"][1]


@pytest.mark.parametrize(("table", "column"), [("rows", "pair"), ("rows", "s"), ("lists", "v"), ("parts", "part")])
def test_references_of_another_file_are_refused(path: Path, tmp_path: Path, table: str, column: str) -> None:
    new = tmp_path / "new.h5"
    cn.write(new, {"n": np.arange(3)}, "before")
    for layout in ("hep001", "compound"):
        with (
            cn.open(path) as file,
            pytest.raises(DataError, match="does not point to an object of this file") as caught,
        ):
            cn.write(new, file[table].select(column), "table", layout=layout)
        assert (caught.value.row, (caught.value.column or "").split(".")[0]) == (0, column)
    assert cn.open(new).tables() == ["/before"]


def test_references_are_appended_to_records(path: Path) -> None:
    """A member that is a reference takes one, or none; those in nested records too."""
    with h5py.File(path, "r+") as file:
        before = file["rows"][:]
        rows = np.empty(3, [("r", h5py.ref_dtype), ("s", [("rr", h5py.ref_dtype)])])
        rows["r"], rows["s"] = before["r"], before["s"]
        del file["rows"]
        file.create_dataset("rows", data=rows, chunks=(2,), maxshape=(None,))
    with cn.open(path, "r+") as file:
        first = cn.Reference("/first")
        assert file["rows"].append({"r": [first, None], "s": [{"rr": first}, {"rr": None}]}) == 2
    with h5py.File(path) as file:
        rows = file["rows"][3:]
        assert names(file, rows["r"]) == ["/first", None]
        assert names(file, rows["s"]["rr"]) == ["/first", None]
