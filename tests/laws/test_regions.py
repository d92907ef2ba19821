"""Law: a region reference selects what libhdf5 selects, in the shape that NumPy gives it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from h5py import h5r, h5s

import colonnade as cn

from ..rooms.new_references import write_references

DTYPES = ("<f8", ">f8", "<i4", ">i2", "S5", "u1")
N_REGIONS = 60


def random_slab(chance: random.Random, length: int) -> tuple[int, int, int, int]:
    """Start, count, stride and block of a regular hyperslab along a dimension."""
    block = chance.randint(1, max(1, length // 3))
    stride = chance.randint(block, block + 4)
    start = chance.randrange(max(1, length - block + 1))
    count = chance.randint(1, 1 + (length - start - block) // stride)
    return start, count, stride, block


def random_space(chance: random.Random, shape: tuple[int, ...]) -> tuple[Any, str]:
    space: Any = h5s.create_simple(shape)
    form = chance.choice(["slab", "slab", "box", "union", "points", "rows", "all"])
    if form == "points":
        space.select_elements([[chance.randrange(length) for length in shape] for _ in range(chance.randint(1, 8))])
    elif form == "all":
        space.select_all()
    elif form == "rows":  # a grid, in several operations
        rows = sorted(chance.sample(range(shape[0]), chance.randint(1, shape[0])))
        for number, row in enumerate(rows):
            operation = h5s.SELECT_OR if number else h5s.SELECT_SET
            space.select_hyperslab((row, *[0] * (len(shape) - 1)), (1, *shape[1:]), op=operation)
    else:
        for number in range(chance.randint(2, 4) if form == "union" else 1):
            axes = [random_slab(chance, length) for length in shape]
            if form == "box":
                axes = [(start, 1, 1, block) for start, _, _, block in axes]
            start, count, stride, block = zip(*axes, strict=True)
            space.select_hyperslab(start, count, stride, block, h5s.SELECT_OR if number else h5s.SELECT_SET)
    return space, form


def mask_of(space: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Which elements libhdf5 selects."""
    with h5py.File("memory", "w", driver="core", backing_store=False) as h5:
        numbers = h5.create_dataset("x", data=np.arange(np.prod(shape)).reshape(shape))
        chosen = np.zeros(space.get_select_npoints(), dtype="i8")
        numbers.id.read(h5s.create_simple(chosen.shape), space, chosen)
    return chosen


def expected(array: np.ndarray, chosen: np.ndarray, is_points: bool) -> np.ndarray:
    """The selected elements: in the shape of the grid if they are one, else in a row."""
    if is_points:
        return array.reshape(-1)[chosen]
    along = [np.unique(positions) for positions in np.unravel_index(chosen, array.shape)]
    if np.prod([len(positions) for positions in along]) == len(chosen):
        return array[np.ix_(*along)]
    return array.reshape(-1)[np.sort(chosen)]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("version", ["earliest", "latest"])
@pytest.mark.parametrize("is_new", [False, True], ids=["old", "new"])
def test_regions(tmp_path: Path, seed: int, version: str, is_new: bool) -> None:
    chance = random.Random(seed)
    shape = tuple(chance.randint(1, 12) for _ in range(chance.randint(1, 4)))
    array = np.arange(np.prod(shape)).reshape(shape).astype(DTYPES[seed % len(DTYPES)])
    spaces = [random_space(chance, shape) for _ in range(N_REGIONS)]
    path = tmp_path / "x.h5"
    with h5py.File(path, "w", libver=version) as h5:
        h5.create_dataset("image", data=array, chunks=tuple(max(1, length // 2) for length in shape))
        group = h5.create_group("t")
        group.attrs["CLASS"], group.attrs["VERSION"] = np.bytes_(b"COLUMN_TABLE"), np.bytes_(b"1.0")
        if is_new:
            write_references(h5, "t/r", [("image", space) for space, _ in spaces])
        else:
            rows = h5.create_dataset("t/r", len(spaces), h5py.regionref_dtype)
            for number, (space, _) in enumerate(spaces):
                rows[number] = h5r.create(h5.id, b"image", h5r.DATASET_REGION, space)
    modes: list[dict[str, Any]] = [{"library": "never"}, {"mode": "r+"}]
    for options in modes:
        with cn.open(path, **options) as file:
            cells: list[Any] = list(file["t"]["r"])
            for number, (cell, (space, form)) in enumerate(zip(cells, spaces, strict=True)):
                values, chosen = cell.read(), mask_of(space, shape)
                wanted = expected(array, chosen, form == "points")
                assert values.dtype == wanted.dtype and values.shape == wanted.shape, (number, form, shape)
                assert np.array_equal(values, wanted), (number, form)
                assert np.array_equal(array[cell.selection], wanted), (number, form)
    if not is_new:  # what was read can be written again, and selects the same
        with cn.open(path, "r+") as file:
            file["t"].add_column("again", list(file["t"]["r"]))
            pairs: Any = zip(file["t"]["r"], file["t"]["again"], strict=True)
            for cell, again in pairs:
                assert np.array_equal(cell.read(), again.read()) and cell.read().shape == again.read().shape
