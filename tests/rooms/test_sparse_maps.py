"""The chunk map of a sparse array takes space for what is stored, however large the array is said to be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import colonnade as cn

SHAPES: list[tuple[tuple[int, ...], tuple[int | None, ...] | None]] = [
    ((2**40, 2**20), None),
    ((2**40, 2**20), (None, 2**20)),
    ((2**40, 2**20), (2**40, None)),
    ((2**40, 2**20), (None, None)),
    ((2**61, 2**61), None),
    ((2**30,), None),
    ((2**30, 3, 2**30), None),
]
EVERY = pytest.mark.parametrize(("shape", "limits"), SHAPES, ids=str)


def corners(shape: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array([[0] * len(shape), [size // 2 for size in shape], [size - 1 for size in shape]])


@EVERY
@pytest.mark.parametrize("filters", [None, "deflate"])
def test_a_few_cells_of_a_vast_array_take_a_few_bytes(
    shape: tuple[int, ...], limits: Any, filters: str | None, tmp_path: Path
) -> None:
    path, places = tmp_path / "a.h5", corners(shape)
    cn.create_sparse(path, "m", shape=shape, dtype="f8", max_shape=limits, filters=filters)
    for number, place in enumerate(places):  # one commit each
        with cn.open_sparse(path, "m") as array:
            array.write([place], [number + 0.5])
    with cn.open_sparse(path, "m") as array:
        found, values = array.cells()
        assert found.tolist() == places.tolist() and values.tolist() == [0.5, 1.5, 2.5]
        assert array[tuple(slice(int(at), int(at) + 1) for at in places[1])].ravel().tolist() == [1.5]
    assert path.stat().st_size < 16 << 10
    assert cn.check(path, deep=True) == []
    with cn.open(path, "r+") as file:
        file.repack()
    assert path.stat().st_size < 16 << 10
    with cn.open_sparse(path, "m") as array:
        assert array.cells()[0].tolist() == places.tolist()


def test_the_space_of_the_map_goes_by_what_is_stored(tmp_path: Path) -> None:
    """n and 4n chunks, far apart and side by side; the map of a full array stays the one libhdf5 would choose."""
    sizes = {}
    for kind, step in (("apart", 10_007), ("together", 1)):
        for n in (1_000, 4_000):
            path = tmp_path / f"{kind}{n}.h5"
            length = n * step if kind == "together" else 2**40
            cn.create_sparse(path, "m", shape=(length,), dtype="i4", chunks=(1,))
            with cn.open_sparse(path, "m") as array:
                array.write(np.arange(n)[:, None] * step, np.arange(n))
                assert array.info.layout.map == ("fixed array" if kind == "together" else "b-tree")
            sizes[kind, n] = path.stat().st_size
        assert sizes[kind, 4_000] < 4.5 * sizes[kind, 1_000]
    assert sizes["apart", 4_000] < 3 * sizes["together", 4_000]


def test_an_array_that_was_full_and_is_emptied_is_still_read(tmp_path: Path) -> None:
    path, n = tmp_path / "a.h5", 40_000
    cn.create_sparse(path, "m", shape=(n,), dtype="i4", chunks=(1,))
    with cn.open_sparse(path, "m") as array:
        array.write(np.arange(n)[:, None], np.arange(n))
        assert array.info.layout.map == "fixed array"
        array.erase(np.arange(5, n)[:, None])
        assert array.info.layout.map == "b-tree"
        array.write([[n - 1]], [7])
        assert array.cells()[1].tolist() == [0, 1, 2, 3, 4, 7]
    assert cn.check(path, deep=True) == []


@pytest.mark.parametrize("chunk", [(2**40, 2**40), (2**32, 2**30)])
def test_a_chunk_that_nothing_could_hold_is_refused(chunk: tuple[int, int], tmp_path: Path) -> None:
    with pytest.raises(cn.errors.UsageError, match="more than 2\\^62 bytes"):
        cn.create_sparse(tmp_path / "a.h5", "m", shape=(2**40, 2**40), dtype="f8", chunks=chunk)
    assert not (tmp_path / "a.h5").exists()
