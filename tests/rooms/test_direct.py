"""Chunks written past HDF5's filters: what the library makes of them while it is open."""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade.errors import UsageError
from colonnade.filters.apply import Packer
from colonnade.h5 import capi
from colonnade.h5.datasets import create_matrix, resize_matrix
from colonnade.h5.row_sink import CannotSkipFilter, cut_rows, find_chunk, keeping_mask, write_chunk
from colonnade.model import FilterInfo


@pytest.mark.parametrize("n_rows", [1, 9, 10, 11, 30])
@pytest.mark.parametrize(("data", "mask"), [(bytes(range(100, 110)), 3), (zlib.compress(bytes(range(100, 110))), 1)])
def test_a_chunk_that_changes_its_mask(tmp_path: Path, n_rows: int, data: bytes, mask: int) -> None:
    """The chunk map takes the new mask, also where the size stays the same, and HDF5 forgets the old one."""
    deflated = zlib.compress(bytes(range(10)))
    expected, last = (list(range(10)) * 3)[:n_rows], (n_rows - 1) // 10 * 10
    with h5py.File(tmp_path / "x.h5", "w") as file:
        made = file.create_dataset("x", (n_rows,), "u1", chunks=(10,), maxshape=(None,), shuffle=True, compression=1)
        for first in range(0, n_rows, 10):
            write_chunk(made.id, 10, first, deflated, 0, find_chunk(made.id, first))
        assert made[...].tolist() == expected
        if n_rows < 10:
            with pytest.raises(CannotSkipFilter):
                write_chunk(made.id, 10, last, data, mask, find_chunk(made.id, last))
            assert made[...].tolist() == expected
            return
        for values, stored, skipped in ((range(100, 110), data, mask), (range(10), deflated, 0)):
            write_chunk(made.id, 10, last, stored, skipped, find_chunk(made.id, last))
            found = find_chunk(made.id, last)
            assert found is not None and found.mask == skipped
            assert made[...].tolist() == [*expected[:last], *values][:n_rows]


def test_a_chunk_that_another_program_stored_without_a_filter(tmp_path: Path) -> None:
    """The only chunk of a dataset, not filled by its rows: HDF5 forgets it when it is removed first."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        made = file.create_dataset("x", (4,), "u1", chunks=(10,), maxshape=(None,), compression=1)
        made.id.write_direct_chunk((0,), bytes(10), filter_mask=1)
    with h5py.File(tmp_path / "x.h5", "r+") as file:
        made = file["x"]
        assert made[...].tolist() == [0] * 4
        write_chunk(made.id, 10, 0, zlib.compress(bytes(range(10))), 0, find_chunk(made.id, 0))
        assert made[...].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("n_rows", [3, 13])
def test_rows_are_cut_without_the_library(tmp_path: Path, n_rows: int) -> None:
    """The last chunk is what was given, not what the library makes of it; a cached chunk does not come back."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        made = file.create_dataset("x", data=bytearray(range(25)), chunks=(10,), maxshape=(None,), compression=1)
        assert made[...].tolist() == list(range(25))
        edge = zlib.compress(bytes([50] * 10))
        cut_rows(made.id, 10, n_rows, edge, 0)
        assert made[...].tolist() == [*range(n_rows // 10 * 10), *[50] * 3]
        assert made.id.read_direct_chunk((n_rows // 10 * 10,)) == (0, edge)


def test_chunks_that_the_library_filters_keep_their_size_and_skip_another_filter(tmp_path: Path) -> None:
    """Blosc skips noise, or packs it to just as many bytes: HDF5 then leaves the old mask in the chunk map."""
    pytest.importorskip("hdf5plugin")
    path, rng = tmp_path / "x.h5", np.random.default_rng(0)
    rows = np.zeros(3 * 256, "i4")
    cn.write(path, {"x": rows}, "t", columns={"x": {"chunk_rows": 256, "filters": "blosc:lz4"}})
    for _ in range(20):
        with cn.open(path, "r+", durability="fast") as file:
            for _ in range(10):
                places = np.arange(256, 512)
                rows[places] = rng.integers(-(2**31), 2**31 - 1, 256)
                rows[256 : 256 + int(rng.integers(20))] = 7
                file["t"].update("x", places, rows[places])
        assert np.array_equal(cn.read(path, "t")["x"].to_numpy(), rows)
        with h5py.File(path) as h5:
            assert np.array_equal(h5["t/x"][...], rows)


def test_zstandard_is_as_long_as_it_says() -> None:
    """Arrow shortens its buffer and tells the shape of before: checksums and sizes would be those of other bytes."""
    packed, _ = Packer([FilterInfo(32015, "zstd", (1,), True)]).pack(np.zeros(4096, np.uint8))
    assert len(packed) == len(bytes(packed)) == np.asarray(packed).size < 100


def nearly_noise(n_bytes: int, n_equal: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Blosc (LZ4) packs noise with so many equal bytes at its end to a few bytes more or less than it has."""
    rows = np.random.default_rng(n_equal).integers(0, 256, n_bytes).astype("u1")
    rows[n_bytes - n_equal :] = 0
    return rows


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("n_rows", [256, 300, 768])
def test_mask_of_a_chunk_that_the_library_writes_is_in_the_chunk_map(tmp_path: Path, n_rows: int, cached: bool) -> None:
    plugin = pytest.importorskip("hdf5plugin")
    access = h5py.h5p.create(h5py.h5p.DATASET_ACCESS)
    if not cached:
        access.set_chunk_cache(0, 0, 0.0)  # as if the chunk were larger than the cache
    noise, n_kept = nearly_noise(256, 0), 0
    for n_equal in range(30, 60):
        path = tmp_path / f"{n_equal}.h5"
        with h5py.File(path, "w") as h5:
            filters = plugin.Blosc("lz4", clevel=1, shuffle=plugin.Blosc.NOSHUFFLE)
            made = h5.create_dataset("x", (n_rows,), "u1", chunks=(256,), maxshape=(None,), **filters)
            made[:256] = nearly_noise(256, n_equal)
        with h5py.File(path, "r+") as h5:
            dataset = h5py.h5d.open(h5.id, b"x", access)
            before = find_chunk(dataset, 0)
            with keeping_mask(dataset, 0):
                h5py.Dataset(dataset)[:256] = noise
            after = find_chunk(dataset, 0)
            assert before is not None
            assert after is not None
            n_kept += (before.size, before.mask) == (after.size, 1 - after.mask)
            assert np.array_equal(h5["x"][:256], noise)
        with h5py.File(path) as h5:
            assert np.array_equal(h5["x"][:256], noise)
            assert not h5["x"][256:].any()
    assert n_kept  # the case is among these


@pytest.mark.parametrize("n_chunks", [1, 3])
@pytest.mark.parametrize("kind", ["integer", "array", "compound"])
def test_rows_of_any_type_that_the_library_filters(tmp_path: Path, kind: str, n_chunks: int) -> None:
    """Of arrays, compounds and the like, every chunk is written by HDF5."""
    pytest.importorskip("hdf5plugin")
    noise = nearly_noise(256, 0).view(np.dtype("i8"))

    def in_arrow(rows: Any) -> pa.Array:
        if kind == "array":
            return pa.FixedSizeListArray.from_arrays(pa.array(rows.view("u1")), 8)
        if kind == "compound":
            return pa.StructArray.from_arrays([pa.array(rows.view("i4")[at::2].copy()) for at in (0, 1)], ["a", "b"])
        return pa.array(rows)

    for n_equal in range(30, 60):
        path = tmp_path / f"{n_equal}.h5"
        rows = np.tile(nearly_noise(256, n_equal).view("i8"), n_chunks)
        options: dict[str, Any] = {"chunk_rows": 32, "filters": "blosc:lz4:1:noshuffle"}
        cn.write(path, {"x": in_arrow(rows)}, "t", columns={"x": options})
        with cn.open(path, "r+", durability="fast") as file:
            file["t"].update("x", np.arange(32), in_arrow(noise))
            rows[:32] = noise
            file["t"].truncate(len(rows) - 3)
            assert file["t"]["x"].to_arrow().combine_chunks().to_pylist() == in_arrow(rows[:-3]).to_pylist()
            file["t"].append({"x": in_arrow(noise[:5])})
        rows = np.concatenate([rows[:-3], noise[:5]])
        assert cn.read(path, "t")["x"].combine_chunks().to_pylist() == in_arrow(rows).to_pylist()
        with h5py.File(path) as h5:
            assert h5["t/x"][...].tobytes() == rows.tobytes()


def test_bitmaps_that_the_library_may_leave_unfiltered_are_built_anew(tmp_path: Path) -> None:
    """Another program may have filtered them with anything; where `resize_matrix` cannot, an index is built again."""
    pytest.importorskip("hdf5plugin")
    with h5py.File(tmp_path / "x.h5", "w") as h5:
        for filters in ("none", "deflate", "blosc:lz4"):
            made = create_matrix(h5.id, filters, (3, 5), (1, 5), filters)
            assert resize_matrix(made, (4, 5)) == (filters != "blosc:lz4")


@pytest.mark.parametrize("filters", ["blosc:lz4+blosc:zstd", "blosc2+shuffle+blosc2", "bitshuffle+bitshuffle"])
def test_a_plugin_named_twice_is_refused(tmp_path: Path, filters: str) -> None:
    """It killed the process: only the first of them is told the size of a row."""
    pytest.importorskip("hdf5plugin")
    with pytest.raises(UsageError, match="twice"):
        cn.write(tmp_path / "x.h5", {"x": [1, 2]}, "t", columns={"x": {"filters": filters}})
    assert not (tmp_path / "x.h5").exists()


class _Unlocked:
    """A dataset as h5py 3.12 has it: chunks are stored and read without h5py's lock."""

    locked: list[bool]

    def __init__(self) -> None:
        self.locked = []

    def read_direct_chunk(self, _first: tuple[int, ...]) -> tuple[int, bytes]:
        self.locked.append(capi.HDF5_LOCK.is_owned())
        return 0, b"rows"

    def write_direct_chunk(self, _first: tuple[int, ...], _data: bytes, filter_mask: int = 0) -> None:
        self.locked.append(capi.HDF5_LOCK.is_owned() and not filter_mask)


def test_chunks_are_stored_and_read_under_the_lock() -> None:
    """Else two threads are inside HDF5 at once, which then fails in every later call of the process."""
    dataset = _Unlocked()
    capi.write_stored_chunk(dataset, (0,), b"rows")  # type: ignore[arg-type]
    assert capi.read_stored_chunk(dataset, (0,)) == (0, b"rows")  # type: ignore[arg-type]
    assert dataset.locked == [True, True]
    assert not capi.HDF5_LOCK.is_owned()


def test_no_other_module_stores_chunks_without_the_lock() -> None:
    root = Path(cn.__file__).parent
    users = {path.name for path in root.rglob("*.py") if re.search(r"\.\w+_direct_chunk\(", path.read_text())}
    assert users == {"capi.py"}
