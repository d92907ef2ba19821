"""Rows that point to arrays of the same file give back the arrays, or the slabs of them, one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest

import colonnade as cn

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
        with pytest.raises(cn.errors.UsageError, match="group"):
            list(query.dereference("bad"))
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
