"""Sparse arrays of a File that is open: read as it is now, made and changed inside its transactions, or refused."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import colonnade as cn
from colonnade.errors import ConflictError, UsageError
from colonnade.sparse import find_sparse, verify_sparse

from .sparse_decoder import Decoder

COORDS = np.array([[1, 2], [3, 4], [19, 29]])
VALUES = np.array([5, 6, 7], dtype="<i4")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    cn.write(tmp_path / "run.h5", {"ts": [1, 2, 3]}, table="events")
    return tmp_path / "run.h5"


def make(file: cn.File | Path, name: str = "m") -> cn.SparseArray:
    return cn.create_sparse(file, name, shape=(20, 30), chunks=(5, 7), dtype="i4", filters="deflate")


def expected() -> np.ndarray:
    dense = np.zeros((20, 30), dtype="i4")
    dense[tuple(COORDS.T)] = VALUES
    return dense


@pytest.mark.parametrize("mode", ["r+", "a", "w"])
def test_made_in_an_open_file_beside_its_tables(path: Path, mode: Any) -> None:
    with cn.open(path, mode) as file:
        array = make(file, "deep/er/m")
        array.write(COORDS, VALUES)
        assert np.array_equal(array[...], expected())
        file.create("more", {"x": [1.5]})
        assert np.array_equal(array[...], expected())
        array.write([[0, 0]], [9])
        array.erase([[0, 0]])
        assert array.n_defined == 3 and file["more"].to_arrow()["x"].to_pylist() == [1.5]
    assert verify_sparse(path) == [] and find_sparse(path) == ["/deep/er/m"]
    cells = Decoder(path.read_bytes(), "deep/er/m").cells()
    assert cells == {tuple(at): value.tobytes() for at, value in zip(COORDS.tolist(), VALUES, strict=True)}
    with cn.open(path) as file:
        assert file.tables() == (["/more"] if mode == "w" else ["/events", "/more"])


def test_a_transaction_keeps_all_or_nothing(path: Path) -> None:
    before = path.read_bytes()
    with cn.open(path, "r+") as file:
        with pytest.raises(ZeroDivisionError), file.transaction():
            make(file).write(COORDS, VALUES)
            file["events"].append({"ts": [4]})
            assert cn.open_sparse(file, "m").n_defined == 3
            1 / 0  # noqa: B018
        assert find_sparse(path) == [] and len(file["events"]) == 3
        with pytest.raises(UsageError, match="no object"):
            cn.open_sparse(file, "m")
    assert h5py.File(path, "r")["events/ts"].shape == (3,) and len(path.read_bytes()) == len(before)
    with cn.open(path, "r+") as file:
        with file.transaction():
            array = make(file)
            array.write(COORDS, VALUES)
            file["events"].append({"ts": [4]})
            assert find_sparse(path) == []  # not committed yet
        assert find_sparse(path) == ["/m"] and array.n_defined == 3
    assert verify_sparse(path) == [] and len(cn.read(path, "events")) == 4


def test_a_failed_change_inside_a_transaction_takes_all_back(path: Path) -> None:
    with cn.open(path, "r+") as file:
        with pytest.raises(UsageError, match="rolled back"), file.transaction():
            make(file)
            with pytest.raises(UsageError, match="there already"):
                make(file)
        assert find_sparse(path) == []


def test_read_through_files_open_for_reading(path: Path) -> None:
    make(path, "g/m").write(COORDS, VALUES)
    with cn.open(path) as file:
        array = cn.open_sparse(file, "g/m")
        assert np.array_equal(array[...], expected())
        with pytest.raises(ConflictError, match="open for reading"):
            array.write([[0, 0]], [1])
        with pytest.raises(ConflictError, match="open for reading"):
            make(file, "other")
        cn.open_sparse(path, "g/m").write([[0, 0]], [8])
        assert array[0, 0] == 8  # commits of others are seen
    with h5py.File(path, "r") as h5:
        for target, name in ((h5, "g/m"), (h5["g"], "m"), (cn.open(h5["g"]), "m"), (h5["events"], "/g/m")):
            array = cn.open_sparse(target, name)
            assert array.name == "/g/m" and array.n_defined == 4
            with pytest.raises(ConflictError, match="open for reading"):
                array.erase([[0, 0]])


def test_what_cannot_be_read_or_changed_safely_is_refused(path: Path) -> None:
    make(path)
    data = path.read_bytes()
    with h5py.File(path, "r+") as h5:
        for target in (h5, cn.open(h5)):
            with pytest.raises(UsageError, match="past h5py"):
                cn.open_sparse(target, "m")
            with pytest.raises(UsageError):
                make(target, "n")  # type: ignore[arg-type]
    with cn.open(io.BytesIO(data)) as file, pytest.raises(UsageError, match="file object"):
        cn.open_sparse(file, "m")
    with h5py.File(io.BytesIO(data), "r") as h5, pytest.raises(UsageError, match="past h5py"):
        cn.open_sparse(h5, "m")
    assert cn.open_sparse(io.BytesIO(data), "m").n_defined == 0
    file = cn.open(path, "r+")
    array = cn.open_sparse(file, "m")
    file.close()
    for use in (lambda: array[0, 0], lambda: array.write([[0, 0]], [1]), lambda: cn.open_sparse(file, "m")):
        with pytest.raises(UsageError, match="closed"):
            use()


def test_cells_are_not_handed_out_of_two_states(path: Path) -> None:
    with cn.open(path, "r+") as file:
        array = make(file)
        array.write(COORDS, VALUES)
        parts = array.iter_cells()
        next(parts)
        array.write([[0, 0]], [1])
        with pytest.raises(ConflictError):
            next(parts)


def test_what_h5py_did_not_write_out_yet_is_seen(path: Path) -> None:
    with cn.open(path, "r+") as file:
        make(file, "g/m").write(COORDS, VALUES)
        file.h5.move("g", "h")
        assert np.array_equal(cn.open_sparse(file, "h/m")[...], expected())
    assert find_sparse(path) == ["/h/m"]
