"""References in cells: where they lead, what they read, how they are written, in every mode."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import colonnade as cn
from colonnade.errors import UsageError

from .new_references import write_references

IMAGE = np.arange(60.0).reshape(6, 10)
ROIS: list[Any] = [
    ("/image", np.s_[0:2, 3:5]),
    None,
    cn.Reference("image", np.s_[::2, 1::3]),
    ("/image", np.s_[-1]),
    ("/image", (np.array([5, 0, 2]), np.array([9, 1, 3]))),
]
MODES: list[dict[str, Any]] = [{"library": "never"}, {"mode": "r"}, {"mode": "r+"}]


def in_modes(function: Any) -> Any:
    return pytest.mark.parametrize("options", MODES, ids=["never", "r", "r+"])(function)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table that refers to arrays, groups and another table, also in lists and structs."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as h5:
        h5["image"], h5["scalar"], h5["folder/inner"] = IMAGE, 7, np.arange(3)
        h5["folder"].attrs["unit"] = "mm"
    cn.write(path, {"x": [1, 2]}, "other")
    refer = cn.Reference
    data = {
        "n": range(5),
        "roi": ROIS,
        "object": [refer("/image"), refer("folder"), None, refer("/scalar"), refer("/other")],
        "list": [[("/image", np.s_[0])], [], None, [("/image", np.s_[1]), None], []],
        "struct": [{"a": 1, "r": refer("/image", np.s_[1, 1:3])}, {"a": 2, "r": None}, None, None, None],
    }
    cn.write(path, data, "t")
    return path


@in_modes
def test_cells_are_references_that_read_what_they_select(path: Path, options: Any) -> None:
    with cn.open(path, **options) as file:
        table = file["t"]
        cells: list[Any] = [table["roi"][row] for row in range(5)]
        assert cells[1] is None
        assert [cell.path for cell in cells if cell is not None] == ["/image"] * 4
        expected: list[Any] = [IMAGE[0:2, 3:5], None, IMAGE[::2, 1::3], IMAGE[5:], np.array([59.0, 1.0, 23.0])]
        for cell, values in zip(cells, expected, strict=True):
            assert cell is None or np.array_equal(cell.read(), values)
            assert cell is None or np.array_equal(IMAGE[cell.selection], values)
            assert cell is None or np.array_equal(np.asarray(cell), values)
        assert cells[2].selection == (slice(0, 5, 2), slice(1, 8, 3))
        assert table[0]["roi"] == cells[0] != cells[2]
        assert list(table["roi"]) == cells
        assert len({*cells, table[0]["roi"]}) == 5


@in_modes
def test_references_to_groups_give_the_group_or_the_table(path: Path, options: Any) -> None:
    with cn.open(path, **options) as file:
        column: Any = file["t"]["object"]
        assert column[0].selection is None and np.array_equal(column[0].read(), IMAGE)
        folder = column[1].read()
        assert isinstance(folder, cn.ReferencedGroup) and folder.path == "/folder"
        assert list(folder) == ["inner"] and len(folder) == 1 and "nothing" not in folder
        assert folder["inner"].read().tolist() == [0, 1, 2] and folder["inner"].path == "/folder/inner"
        assert folder.attrs == {"unit": "mm"}
        assert column[2] is None and column[3].read() == 7
        assert column[4].read().to_numpy()["x"].tolist() == [1, 2]
        found = list(file["t"][:].dereference("object"))
        assert found[0].tolist() == IMAGE.tolist() and found[1].path == "/folder" and found[4].path == "/other"


@in_modes
def test_a_listed_name_that_leads_to_nothing_is_refused(path: Path, options: Any) -> None:
    """It is in the group, so that it is not a KeyError: that would be an error of whoever goes through the names."""
    with h5py.File(path, "r+") as h5:
        h5["folder/nowhere"] = h5py.SoftLink("/nothing")
        h5["folder/kind"] = np.dtype("i4")
    with cn.open(path, **options) as file:
        reference: Any = file["t"]["object"][1]
        folder = reference.read()
        assert list(folder) == ["inner", "kind", "nowhere"] and "nowhere" in folder and 5 not in folder
        for name in ("kind", "nowhere"):
            with pytest.raises(UsageError, match=f"cannot open /folder/{name}: it is not an array or a group"):
                folder[name]
        with pytest.raises(KeyError):
            folder["missing"]


@in_modes
def test_references_inside_lists_and_structs(path: Path, options: Any) -> None:
    with cn.open(path, **options) as file:
        table = file["t"]
        lists: Any = [table[row]["list"] for row in range(5)]
        assert [None if cells is None else len(cells) for cells in lists] == [1, 0, None, 2, 0]
        assert np.array_equal(lists[0][0].read(), IMAGE[0:1]) and lists[3][1] is None
        structs: Any = [table["struct"][row] for row in range(5)]
        assert structs[0]["a"] == 1 and structs[0]["r"].read().tolist() == [[11.0, 12.0]]
        assert structs[1] == {"a": 2, "r": None} and structs[2:] == [None, None, None]
        arrays: Any = list(table[:].dereference("list"))
        assert arrays[3][0].shape == (1, 10) and arrays[3][1] is None and arrays[2] is None
        assert next(iter(table[:].dereference("struct")))["r"].path == "/image"
        assert len(list(table.take([3, 0, 3]).dereference("struct"))) == 3
        assert [row["n"] for row in map(table[::-1].__getitem__, range(5))] == [4, 3, 2, 1, 0]


def test_an_array_that_was_read_knows_where_it_is_from(path: Path) -> None:
    with cn.open(path) as file:
        array: Any = next(file["t"][:].dereference("roi"))
        assert isinstance(array, np.ndarray) and isinstance(array, cn.ReferencedArray)
        assert (array.path, array.selection) == ("/image", (slice(0, 2), slice(3, 5)))
        assert type(array.read()) is np.ndarray and array.read().tolist() == IMAGE[0:2, 3:5].tolist()
        more: Any = array + 1
        assert more.path is None and more[0, 0] == 4.0


def test_references_can_be_pickled(path: Path) -> None:
    with cn.open(path) as file:
        cells: list[Any] = list(file["t"]["roi"])
        for cell in cells:
            again: Any = pickle.loads(pickle.dumps(cell))
            assert again == cell and (cell is None or np.array_equal(again.read(), cell.read()))
            if cell is not None:
                again._file.close()
    unbound = pickle.loads(pickle.dumps(cn.Reference("/image", np.s_[1:2, ...])))
    assert unbound == cn.Reference("image", np.s_[1:2, ...]) and repr(unbound) == "<Reference /image[1:2, ...]>"
    with pytest.raises(cn.errors.UsageError, match="no file yet"):
        unbound.read()


def test_references_are_appended_and_updated(path: Path) -> None:
    with cn.open(path, "r+") as file:
        table = file["t"]
        held: Any = table["roi"][0]
        row = {"n": [9], "object": [("/folder/inner", None)], "list": [None], "struct": [table[0]["struct"]]}
        table.append({**row, "roi": [("/image", np.s_[2:4, 2])]})
        table.append({**row, "roi": [held]})
        table.update("roi", [1, 2], [cn.Reference("/image", np.s_[3]), None])
        table.add_column("more", [cn.Reference("/image", np.s_[:, n]) for n in range(7)])
        assert held.read().tolist() == IMAGE[0:2, 3:5].tolist()  # a commit moves no object
        shown = [repr(cell) for cell in table["roi"]]
        assert shown[1:3] == ["<Reference /image[3:4, 0:10]>", "None"]
        assert shown[5:] == ["<Reference /image[2:4, 2:3]>", "<Reference /image[0:2, 3:5]>"]
        assert repr(table[6]["struct"]["r"]) == "<Reference /image[1:2, 1:3]>"
        assert np.array_equal(np.asarray(table[6]["more"]), IMAGE[:, 6:7])
        file.repack()
        with pytest.raises(cn.errors.ConflictError, match="rewritten"):
            held.read()
        assert [repr(cell) for cell in table["roi"]] == shown
    with h5py.File(path) as h5:
        for reference in (reference for reference in h5["t/roi"][:] if reference):
            assert h5[reference].name == "/image"


BAD: dict[str, tuple[Any, str]] = {
    "path": (("/nothing", np.s_[0]), "no such object"),
    "range": (("/image", np.s_[7]), "no element 7 of 6"),
    "rank": (("/image", np.s_[0, 0, 0]), "3 parts"),
    "empty": (("/image", np.s_[3:3]), "selects nothing"),
    "step": (("/image", np.s_[::-1]), "not positive"),
    "group": (("/folder", np.s_[0]), "not an array"),
    "scalar": (("/scalar", np.s_[0]), "single value"),
    "points": (("/image", (np.array([6]), np.array([0]))), "outside"),
}


@pytest.mark.parametrize("name", BAD)
def test_references_that_cannot_be_made_are_refused_by_row(path: Path, name: str) -> None:
    bad, reason = BAD[name]
    before = path.read_bytes()
    with pytest.raises(cn.errors.DataError, match=reason) as caught:
        cn.write(path, {"r": [("/image", np.s_[0]), bad]}, "new")
    assert (caught.value.column, caught.value.row) == ("r", 1)
    assert path.read_bytes() == before
    with cn.open(path, "r+") as file, pytest.raises(cn.errors.DataError, match=reason) as caught:
        file["t"].update("roi", [3], [bad])
    assert (caught.value.column, caught.value.row) == ("roi", 3)
    with cn.open(path, "r+") as file, pytest.raises(cn.errors.DataError, match="whole objects"):
        file["t"].update("object", [0], [("/image", np.s_[0])])


def test_selections_that_are_none(path: Path) -> None:
    for bad in (1.5, True, "x", np.array([True])):
        with pytest.raises(cn.errors.UsageError, match="cannot select"):
            cn.Reference("/image", bad)
    with pytest.raises(cn.errors.UsageError, match="path"):
        cn.Reference(5)  # type: ignore[arg-type]


def test_null_references_of_other_programs_are_missing(tmp_path: Path) -> None:
    """h5py gives columns no fill, so that a null reference is all zeros."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as h5:
        h5["image"] = IMAGE
        group = h5.create_group("t")
        group.attrs["CLASS"], group.attrs["VERSION"] = np.bytes_(b"COLUMN_TABLE"), np.bytes_(b"1.0")
        both = np.dtype([("a", "i4"), ("r", h5py.regionref_dtype)])
        for name, dtype in (("o", h5py.ref_dtype), ("r", h5py.regionref_dtype), ("s", both)):
            group.create_dataset(name, (3,), dtype)
        group["o"][0], group["r"][0] = h5["image"].ref, h5["image"].regionref[1]
    for options in MODES:
        with cn.open(path, **options) as file:
            table = file["t"]
            for name in "or":
                assert [cell is None for cell in table[name]] == [False, True, True]
            assert table["s"][1] == {"a": 0, "r": None}


def test_new_references_in_cells(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w", libver="v112") as h5:
        h5["image"] = IMAGE
        h5["image"].attrs["unit"] = [1, 2]
        group = h5.create_group("t")
        group.attrs["CLASS"], group.attrs["VERSION"] = np.bytes_(b"COLUMN_TABLE"), np.bytes_(b"1.0")
        write_references(h5, "t/r", ["image", ("image", "unit"), None])
    for options in MODES:
        with cn.open(path, **options) as file:
            cells: list[Any] = list(file["t"]["r"])
            whole, unit, null = cells
            assert whole.path == "/image" and whole.selection is None and np.array_equal(whole.read(), IMAGE)
            assert unit.attribute == "unit" and repr(unit) == "<Reference /image.attrs['unit']>"
            assert unit.read().tolist() == [1, 2] and null is None


def test_the_path_is_found_among_many_objects(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as h5:
        for number in range(6000):
            h5.create_group(f"g{number:04}")
        h5["last"] = IMAGE
    cn.write(path, {"r": [cn.Reference("/last", np.s_[1])]}, "t")
    with cn.open(path, library="never") as file:
        assert repr(file["t"]["r"][0]) == "<Reference /last[1:2, 0:10]>"


def test_a_large_strided_region_is_read_in_pieces(tmp_path: Path) -> None:
    """One row in 50,000 of an array of 800 MB that has few chunks: the box around them is never in memory."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as h5:
        image = h5.create_dataset("image", (1_000_000, 100), "f8", chunks=(1000, 100))
        image[::50_000] = np.arange(20.0)[:, None]
    cn.write(path, {"r": [cn.Reference("/image", np.s_[::50_000, 7:9])]}, "t")
    import tracemalloc

    with cn.open(path, library="never") as file:
        cell: Any = file["t"]["r"][0]
        tracemalloc.start()
        values = cell.read()
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert np.array_equal(values, np.repeat(np.arange(20.0), 2).reshape(20, 2))
    assert most < 150 << 20
