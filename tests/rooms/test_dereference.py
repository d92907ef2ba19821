"""Rows that point to arrays of the same file give back the arrays, or the slabs of them, one at a time."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from h5py import h5r, h5s

import colonnade as cn
from colonnade.nodes.protocols import ObjectReference
from colonnade.reader.files import ReadFile
from tests.rooms.test_cli import call

from .new_references import selected, write_references

IMAGE = np.arange(60.0).reshape(6, 10)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table whose columns hold object and region references, beside the arrays they point to."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as h5:
        h5["image"], h5["scalar"], h5["folder/inner"] = IMAGE, 7, np.arange(3)
        image = h5["image"]
        points = np.zeros(IMAGE.shape, dtype=bool)
        points[0, 1] = points[2, 3] = points[5, 9] = True
        objects = [image.ref, h5["scalar"].ref, None, h5["folder/inner"].ref, image.ref]
        slabs = [image.regionref[1:3, 2:5], image.regionref[0, :], None, image.regionref[points], image.regionref[:, 9]]
        data = {"n": np.arange(5), "whole": objects, "part": slabs, "bad": [h5["folder"].ref] * 5}
        cn.write(h5, data, "t")
    return path


def test_objects_and_slabs(path: Path) -> None:
    with cn.open(path) as file:
        whole = list(file["t"]._query().dereference("whole"))
        assert whole[0].tolist() == IMAGE.tolist() and whole[1] == 7 and whole[2] is None
        assert whole[3].tolist() == [0, 1, 2]
        parts = list(file["t"].where("n >= 0").dereference("part"))
        assert parts[0].tolist() == IMAGE[1:3, 2:5].tolist()
        assert parts[1].tolist() == IMAGE[0:1, :].tolist()
        assert parts[2] is None
        assert parts[3].tolist() == [1.0, 23.0, 59.0]
        assert parts[4].tolist() == IMAGE[:, 9:10].tolist()


def test_only_the_rows_that_match_one_at_a_time(path: Path) -> None:
    with cn.open(path) as file:
        arrays = file["t"].where("n in (3, 1)").dereference("whole")
        assert isinstance(arrays, Iterator)
        assert next(arrays) == 7
        assert next(arrays).tolist() == [0, 1, 2]
        assert next(arrays, "no more") == "no more"
        assert list(file["t"].where("n > 100").dereference("whole")) == []
        assert [None if a is None else a.shape for a in file["t"].take([4, 2]).dereference("part")] == [(6, 1), None]


def test_refused(path: Path) -> None:
    with cn.open(path) as file:
        query = file["t"].head(2)
        with pytest.raises(cn.errors.UsageError, match="no references"):
            list(query.dereference("n"))
        assert [group.path for group in query.dereference("bad")] == ["/folder", "/folder"]
        with pytest.raises(cn.errors.ColumnNotFound):
            list(query.dereference("nothing"))


def test_a_reference_that_leads_nowhere(path: Path) -> None:
    with h5py.File(path) as h5:
        where = h5["t/whole"].id.get_chunk_info(0).byte_offset + 8
    with path.open("r+b") as file:
        file.seek(where)
        file.write((2**40).to_bytes(8, "little"))
    with cn.open(path) as file, pytest.raises(cn.errors.CorruptError, match="row 1"):
        list(file["t"].head(2).dereference("whole"))


# -- every selection, in both forms of references, by both readers --

SHAPE = (6, 10)
SELECTIONS: dict[str, tuple[Any, Any]] = {
    "box": (selected(SHAPE, ((1, 2), (2, 3))), IMAGE[1:3, 2:5]),
    "strides": (selected(SHAPE, ((0, 1), (3, 4), (2, 2), (1, 1))), IMAGE[0:6:2, 1:9:2]),
    "blocks": (selected(SHAPE, ((0, 1), (2, 2), (3, 4), (2, 3))), IMAGE[np.ix_([0, 1, 3, 4], [1, 2, 3, 5, 6, 7])]),
    "two boxes": (selected(SHAPE, ((0, 0), (1, 2)), ((4, 5), (2, 3))), None),
    "element": (selected(SHAPE, ((5, 9), (1, 1))), IMAGE[5:, 9:]),
    "points": (selected(SHAPE, points=[(5, 9), (0, 1), (2, 3)]), np.array([59.0, 1.0, 23.0])),
    "many boxes": (selected(SHAPE, *[((row, row), (1, 1 + row % 2)) for row in range(6)]), None),
}


def chosen(space: Any) -> Any:
    """The selected elements, by libhdf5; those of a box in its shape."""
    with h5py.File("memory", "w", driver="core", backing_store=False) as h5:
        h5["image"] = IMAGE
        values = np.zeros(space.get_select_npoints())
        h5["image"].id.read(h5s.create_simple(values.shape), space, values)
    return values


def written(path: Path, version: str, is_new: bool) -> None:
    """A column with one reference to each selection, to an object, an attribute, and to nothing."""
    with h5py.File(path, "w", libver=version) as h5:
        h5["image"] = IMAGE
        h5["image"].attrs["unit"] = [1, 2]
        group = h5.create_group("t")
        group.attrs["CLASS"], group.attrs["VERSION"] = np.bytes_(b"COLUMN_TABLE"), np.bytes_(b"1.0")
        spaces = [space for space, _ in SELECTIONS.values()]
        if is_new:
            others = ["image", ("image", "unit"), "t", None]
            write_references(h5, "t/r", [*[("image", space) for space in spaces], *others])
        else:
            rows = h5.create_dataset("t/r", len(spaces) + 1, h5py.regionref_dtype)
            for number, space in enumerate(spaces):
                rows[number] = h5r.create(h5.id, b"image", h5r.DATASET_REGION, space)


@pytest.mark.parametrize("version", ["earliest", "v110", "v112", "latest"])
@pytest.mark.parametrize("is_new", [False, True], ids=["old", "new"])
@pytest.mark.parametrize("mode", ["never", "r", "r+"])
def test_every_selection_is_followed(tmp_path: Path, version: str, is_new: bool, mode: Any) -> None:
    written(tmp_path / "x.h5", version, is_new)
    options: Any = {"library": "never"} if mode == "never" else {"mode": mode}
    with cn.open(tmp_path / "x.h5", **options) as file:
        found = list(file["t"][: len(SELECTIONS)].dereference("r"))
        for (name, (space, expected)), values in zip(SELECTIONS.items(), found, strict=True):
            assert values.reshape(-1).tolist() == chosen(space).tolist(), name
            assert expected is None or values.shape == expected.shape, name
        rest = file["t"][len(SELECTIONS) :]
        if not is_new:
            assert list(rest.dereference("r")) == [None]
            return
        answers = rest.dereference("r")
        whole, part = next(answers), next(answers)
        assert whole is not None and part is not None
        assert np.array_equal(np.asarray(whole), IMAGE) and part.tolist() == [1, 2]
        group = next(answers)
        assert isinstance(group, cn.Table) and group.path == "/t"
        assert list(file["t"][-1:].dereference("r")) == [None]


@pytest.mark.parametrize("version", ["earliest", "v112"])
@pytest.mark.parametrize("is_new", [False, True], ids=["old", "new"])
def test_spoiled_references_are_errors_of_ours(tmp_path: Path, version: str, is_new: bool) -> None:
    written(tmp_path / "x.h5", version, is_new)
    data, chance = (tmp_path / "x.h5").read_bytes(), random.Random(7)
    heap = data.index(b"GCOL")
    refused = 0
    for _ in range(300):
        spoiled = bytearray(data)
        for _ in range(chance.choice([1, 1, 3])):
            spoiled[heap + chance.randrange(800)] = chance.choice([0, 1, 2, 3, 0x7F, 0xFF, chance.randrange(256)])
        with cn.open(io.BytesIO(bytes(spoiled)), library="never") as file:
            for row in range(len(SELECTIONS)):
                try:
                    list(file["t"][row : row + 1].dereference("r"))
                except cn.errors.ColonnadeError:
                    refused += 1
    assert refused > 20


def test_an_object_that_is_referred_to_knows_its_path(path: Path) -> None:
    with cn.open(path, library="never") as file:
        root: Any = file._handle.root
        for name in ("/folder/inner", "/t/whole", "/folder"):
            address = root.open_dataset(name) or root.open_group(name)
            assert address is not None and address.address is not None
            target = root.dereference(ObjectReference(address.address))
            assert target is not None and target.path == name
        assert ReadFile.path_of(root.opened, 1) == "?"


def test_references_are_not_written_to_another_file(path: Path, tmp_path: Path) -> None:
    """They are addresses in their file; in another one they would lead to whatever is there."""
    with cn.open(path, "r+") as file:
        query = file["t"].where("n > 0")
        for name in ("whole", "part"):
            with pytest.raises(cn.errors.UsageError, match=f"cannot write column '{name}'.*valid only in"):
                query.select("n", name).write(tmp_path / "out.h5")
        query.select("n").write(tmp_path / "out.h5")
        with pytest.raises(cn.errors.UsageError, match="valid only in"):
            query.write(tmp_path / "out.h5", mode="append")
        query.write(path, table="again")
        assert [None if slab is None else slab.tolist() for slab in file["again"][:].dereference("part")] == [
            None if slab is None else slab.tolist() for slab in query.dereference("part")
        ]
    with cn.open(path) as file:
        file["t"][:2].write(path, table="more", mode="append")
    assert next(cn.open_table(path, "more")[:].dereference("whole")).tolist() == IMAGE.tolist()


def test_the_command_line_refuses_them_too(path: Path, tmp_path: Path) -> None:
    result = call("where", path, "/t", "true", "-c", "part", "-o", tmp_path / "out.h5")
    assert result.exit_code == 2 and "are valid only in" in result.stderr and not (tmp_path / "out.h5").exists()
