"""Matrices by rows: the quick ways to write and read them do what the general ways do, byte for byte."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import colonnade as cn
from colonnade.converting.sparse_matrices import convert
from colonnade.edit import sparse_write
from colonnade.edit.cell_streams import CHUNK_CELLS, stream_of, usual_chunk
from colonnade.errors import DataError
from colonnade.filters import apply
from colonnade.pager.disk import Disk
from colonnade.pager.journal import JournaledFile
from colonnade.sparse import array, verify_sparse
from tests.conftest import SetLimits

from .sparse_decoder import Decoder


def scattered(rows: int, columns: int, density: float, dtype: Any = "f4", wide: bool = False) -> Any:
    made = sparse.random_array((rows, columns), density=density, random_state=np.random.default_rng(rows), format="csr")
    kind = np.int64 if wide else np.int32
    parts = (made.data * 100 + 1).astype(dtype), made.indices.astype(kind), made.indptr.astype(kind)
    return sparse.csr_array(parts, shape=made.shape)


def never(*_: object) -> bool:
    return False


def pattern(name: str) -> Any:
    """Matrices whose section 0 is smallest in each of its forms."""
    mask = np.zeros((60, 90), dtype=bool)
    if name == "blocks":
        mask[3:20, 5:40] = mask[30:33, 1:80] = True
    elif name == "regular":
        mask[::3, ::7] = True
    elif name == "regular in one row":
        mask[7, ::3] = True
    elif name == "runs":
        for row in range(60):
            mask[row, row : row + 9] = True
    elif name == "half of it runs":
        mask[:30] = np.random.default_rng(1).random((30, 90)) < 0.1
        mask[40:, 10:30] = True
    elif name == "all":
        mask[:] = True
    return sparse.csr_array(mask.astype("i2"))


CASES = {
    "scattered": scattered(200, 300, 0.02),
    "columns of 64 bits": scattered(200, 300, 0.02, wide=True),
    "dense": scattered(50, 80, 0.6),
    "booleans": scattered(50, 80, 0.1, dtype=bool),
    "complex": scattered(50, 80, 0.1, dtype="c16"),
    "many columns": scattered(9, 100_000, 0.01),
    "many cells": scattered(150, 1000, 0.5),
    **{name: pattern(name) for name in ("blocks", "regular", "regular in one row", "runs", "half of it runs", "all")},
    "nothing": sparse.csr_array((40, 30), dtype="f8"),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("filters", [None, "deflate:1", {0: "shuffle+deflate:2"}, "deflate:9"])
def test_both_ways_write_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, filters: Any
) -> None:
    """By zlib: isal was seen to make different streams of the same small sections in different runs."""
    monkeypatch.setattr(apply, "_fast_zlib", lambda: None)
    given_ = CASES[name]
    chunks: Sequence[tuple[int, int] | None] = [None, (16, 24), (7, given_.shape[1])]
    if name.startswith("many"):
        chunks = [None, (9, 70_000) if given_.shape[1] > 70_000 else (140, 1000)]
    for place, chunk in enumerate(chunks):
        quick, slow = tmp_path / f"{place}.h5", tmp_path / f"{place}-slow.h5"
        cn.write_sparse(quick, "m", given_, chunks=chunk, filters=filters).close()
        with monkeypatch.context() as patch:
            patch.setattr(sparse_write, "suits_rows", never)
            cn.write_sparse(slow, "m", given_, chunks=chunk, filters=filters).close()
        assert quick.read_bytes() == slow.read_bytes()
        assert verify_sparse(quick) == []


def test_points_are_made_the_quick_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else would tell if every matrix went the general way."""
    monkeypatch.setattr(sparse_write, "encode_chunk", None)
    cn.write_sparse(tmp_path / "a.h5", "m", CASES["scattered"]).close()
    cn.write_sparse(tmp_path / "b.h5", "m", CASES["scattered"], chunks=(60, 70), filters="deflate:1").close()
    assert len(Decoder((tmp_path / "a.h5").read_bytes(), "m").cells()) == CASES["scattered"].nnz


BOXES = st.tuples(*[st.tuples(st.integers(0, 60), st.integers(0, 60)).map(lambda ends: slice(*sorted(ends)))] * 2)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, Any]]:
    found: list[Any] = []
    folder = tmp_path_factory.mktemp("rows")
    for name in ("scattered", "blocks", "regular", "half of it runs", "dense"):
        for chunk in [(16, 24), (7, CASES[name].shape[1]), (CASES[name].shape[0], 5)]:
            path = folder / f"{len(found)}.h5"
            cn.write_sparse(path, "m", CASES[name], chunks=chunk, max_shape=(None, None)).close()
            found.append((path, CASES[name]))
    return found


@settings(max_examples=40)
@given(BOXES, st.integers(0, 14))
def test_boxes_are_read_as_scipy_slices(written: list[tuple[Path, Any]], box: Any, which: int) -> None:
    path, truth = written[which]
    with cn.open_sparse(path, "m") as opened:
        found = opened.to_scipy("csr", box)
        coords, values = opened.cells(box)
    expected = truth[box]
    assert found.shape == expected.shape and found.dtype == truth.dtype and found.has_canonical_format
    assert found.indptr.tolist() == expected.indptr.tolist() and found.indices.tolist() == expected.indices.tolist()
    assert found.data.tolist() == expected.data.tolist() == values.tolist()
    rows = np.repeat(np.arange(expected.shape[0]), np.diff(expected.indptr)) + box[0].start
    inside = coords.tolist() == np.stack((rows, expected.indices + box[1].start), axis=1).tolist()
    assert inside or not len(coords) == len(rows) == 0


def test_points_in_any_order_are_read(written: list[tuple[Path, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    path, truth = written[0]
    monkeypatch.setattr("colonnade.sparse.row_cells.kernels.points_to_rows", never)
    with cn.open_sparse(path, "m") as opened:
        assert (opened.to_scipy("csr", (slice(3, 150), slice(10, 200))) != truth[3:150, 10:200]).nnz == 0


def test_rows_and_places_read_the_same(written: list[tuple[Path, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    for path, _ in written:
        with cn.open_sparse(path, "m") as opened:
            quick = opened.cells((slice(3, 50), slice(2, 70)))
            with monkeypatch.context() as patch:
                patch.setattr(array, "suits_rows", never)
                slow = opened.cells((slice(3, 50), slice(2, 70)))
        assert quick[0].tolist() == slow[0].tolist() and quick[1].tolist() == slow[1].tolist()


def write_group(path: Path, data: Any, indices: Any, indptr: Any, shape: tuple[int, int]) -> None:
    with h5py.File(path, "w") as file:
        group = file.create_group("X")
        group.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": shape})
        for name, part in (("data", data), ("indices", indices), ("indptr", indptr)):
            group[name] = np.asarray(part)


@pytest.mark.parametrize("chunks", [None, (1, 3), (2, 2), (2, 1)])
def test_rows_of_a_file_that_are_not_sorted(tmp_path: Path, chunks: Any) -> None:
    source, target = tmp_path / "a.h5ad", tmp_path / "b.h5"
    write_group(source, [1.0, 2.0, 3.0, 4.0], np.array([5, 2, 0, 1], "u4"), [0, 2, 4], (2, 6))
    convert(str(source), str(target), chunks=chunks)
    with cn.open_sparse(target, "matrix") as opened:
        assert opened[...].tolist() == [[0, 0, 2, 0, 0, 1], [3, 4, 0, 0, 0, 0]]


@pytest.mark.parametrize("indices", [[5, 2, 2, 1], [5, 6, 0, 1], [-1, 2, 0, 1]])
def test_rows_of_a_file_that_are_wrong(tmp_path: Path, indices: list[int]) -> None:
    source, target = tmp_path / "a.h5ad", tmp_path / "b.h5"
    write_group(source, [1.0, 2.0, 3.0, 4.0], indices, [0, 1, 4], (2, 6))
    with pytest.raises(DataError):
        convert(str(source), str(target))


def test_the_usual_chunk() -> None:
    def chunk(shape: tuple[int, int], n_cells: int, axis: str = "csr") -> Any:
        made = sparse.csr_array(shape, dtype="f4").asformat(axis)
        made.indptr = np.linspace(0, n_cells, len(made.indptr)).astype(np.int64)
        made.indices, made.data = np.empty(n_cells, "i4"), np.empty(n_cells, "f4")
        made.has_canonical_format = True
        return usual_chunk(stream_of(made))

    assert chunk((1000, 30_000), 300_000) == (CHUNK_CELLS // 300, 30_000)
    assert chunk((30_000, 1000), 300_000, "csc") == (30_000, CHUNK_CELLS // 300)
    assert chunk((10, 200_000), 10 * 60_000) == (3, 50_000)  # four chunks side by side
    assert chunk((100, 30), 0) == (100, 30) and chunk((0, 0), 0) == (1, 1)
    assert chunk((5, 60_000), 300_000) == (1, 60_000)
    assert usual_chunk(stream_of(([[0, 1]], [1], (2, 2)))) is None


@pytest.mark.parametrize("chunks", [None, (1, 3), (2, 2)])
@pytest.mark.parametrize("filters", [None, "deflate:9"])
@pytest.mark.parametrize("dtype", [None, "i4"])
def test_twins_are_added_up_and_rows_put_in_order(tmp_path: Path, chunks: Any, filters: Any, dtype: Any) -> None:
    given_ = sparse.csr_array(([1.5, 2.0, 4.5, 8.0, 16.0], [3, 0, 3, 5, 1], [0, 3, 4, 5]), shape=(3, 6))
    path = tmp_path / "a.h5"
    with cn.write_sparse(path, "m", given_, chunks=chunks, filters=filters, dtype=dtype) as opened:
        assert opened[...].tolist() == [[2, 0, 0, 6, 0, 0], [0, 0, 0, 0, 0, 8], [0, 16, 0, 0, 0, 0]]
    assert given_.data.tolist() == [1.5, 2, 4.5, 8, 16]  # the caller's own is as it was


class Full(Disk):
    def write_parts(self, descriptor: int, parts: Sequence[Any], offset: int) -> None:
        raise OSError("no space left")


def test_parts_that_cannot_be_written_end_the_change(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"as it was")
    with JournaledFile(path, Full()) as file:
        with pytest.raises(OSError, match="no space left"):
            file.append([b"more", b"and more"])
        with pytest.raises(OSError, match="no space left"):
            file.commit()
    assert path.read_bytes() == b"as it was"


def test_parts_are_appended_in_one_change(tmp_path: Path, set_limits: SetLimits) -> None:
    for most in (512, 1):  # as one write, and joined
        set_limits(parts_per_write=most)
        path = tmp_path / str(most)
        path.write_bytes(b"old")
        with JournaledFile(path, Disk()) as file:
            file.append([b"more", memoryview(b"and"), b"", np.arange(3, dtype="u1").data])
            file.append([b"one"])
            assert file.read_at(0, 99) == b"oldmoreand\0\1\2one" and file.written == [(3, 16)]
            file.commit()
            file.truncate(2)
            file.append([b"12", b"34"])  # below the old end
            assert file.read_at(0, 99) == b"ol1234"
            assert path.read_bytes() == b"oldmoreand\0\1\2one"  # until the commit
            file.commit()
        assert path.read_bytes() == b"ol1234"
