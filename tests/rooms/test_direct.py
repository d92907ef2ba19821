"""Chunks written past HDF5's filters: what the library makes of them while it is open."""

from __future__ import annotations

import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest

import colonnade as cn
from colonnade.h5.apply import Packer
from colonnade.h5.direct import CannotSkipFilter, cut_rows, find_chunk, write_chunk
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
