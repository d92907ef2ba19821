"""Elements of files that are damaged or lead elsewhere: refused, nothing lost unsaid. Boxes are read as h5py does."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from h5py import h5d, h5p, h5s, h5t

import colonnade as cn
from colonnade.anndata.parts import read_cells
from colonnade.converting.sparse_matrices import convert
from colonnade.errors import ColonnadeError, CorruptError, FormatError, UnsupportedError
from colonnade.h5.handles import LibraryDataset
from colonnade.nodes.arrays import read_part

KEPT = Path(__file__).resolve().parents[1] / "faults" / "kept"


def read_part_of(dataset: Any, part: tuple[slice, ...] = ()) -> Any:
    """A box of a dataset of h5py."""
    return read_part(LibraryDataset.of(dataset.id), part)


def read_cells_of(dataset: Any, *cells: Any) -> Any:
    """Rows and columns of a dataset of h5py."""
    return read_cells(LibraryDataset.of(dataset.id), *cells)


def test_a_member_that_cannot_be_opened_is_not_left_out_unsaid() -> None:
    with cn.open(KEPT / "100-9-foreign.h5") as file, pytest.raises(FormatError, match="'compact'"):
        cn.read_element(file.h5["t"])


def external(path: Path, target: Path) -> None:
    """The name is put into the finished file: h5py never writes one that names a file of the machine."""
    stand_in = "@" * len(str(target))
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (8,), "i1", external=[(stand_in, 0, 8)])
    path.write_bytes(path.read_bytes().replace(stand_in.encode(), str(target).encode()))


def virtual(path: Path, target: Path) -> None:
    layout = h5py.VirtualLayout((8,), "i1")
    layout[:] = h5py.VirtualSource(str(target), "data", (8,))
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("x", layout)


@pytest.mark.parametrize("make", [external, virtual])
def test_elements_lead_to_no_other_folder(tmp_path: Path, make: Any) -> None:
    (tmp_path / "in").mkdir()
    secret = tmp_path / "secret"
    if make is virtual:
        with h5py.File(secret, "w") as file:
            file["data"] = np.frombuffer(b"SECRET__", "i1")
    else:
        secret.write_bytes(b"SECRET__")
    make(tmp_path / "in" / "a.h5", secret)
    with cn.open(tmp_path / "in" / "a.h5") as file, pytest.raises(UnsupportedError, match="not followed"):
        cn.read_element(file.h5["x"])
    with cn.open(tmp_path / "in" / "a.h5") as file, pytest.raises(UnsupportedError, match="not followed"):
        read_cells_of(file.h5["x"], np.array([1, 5]))
    with cn.open(tmp_path / "in" / "a.h5", links="any") as file:
        assert cn.read_element(file.h5["x"]).tobytes() == b"SECRET__"
        assert read_cells_of(file.h5["x"], np.array([1, 5])).tobytes() == b"ET"


@pytest.mark.parametrize("storage", [{}, {"external": [("none.raw", 0, 2**50)]}])
def test_what_was_never_written_is_not_allocated(tmp_path: Path, storage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where HDF5 looks for external storage
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (2**50,), "i1", **storage)
    with cn.open(path) as file, pytest.raises(UnsupportedError, match="claims"):
        cn.read_element(file.h5["x"])


def test_one_chunk_of_very_many_is_not_read_as_all_of_them(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (2**28,), "u8", chunks=(2**17,))[:5] = 1
        file.create_dataset("y", (2**16,), "u8", chunks=(2**10,))[:5] = 1
    with cn.open(path) as file:
        with pytest.raises(UnsupportedError, match="claims"):
            cn.read_element(file.h5["x"])
        assert cn.read_element(file.h5["y"]).sum() == 5


FILTERS: list[dict[str, Any]] = [
    {"compression": 4},
    {"compression": 4, "shuffle": True},
    {"fletcher32": True},
    {"compression": "lzf"},
    {"compression": 4, "shuffle": True, "fletcher32": True},
]


@pytest.mark.parametrize("filters", FILTERS, ids=str)
@pytest.mark.parametrize("kind", ["<i4", ">f8", "S5", "?", "i1,f4"])
def test_a_box_is_what_h5py_reads(tmp_path: Path, filters: dict[str, Any], kind: str) -> None:
    chance = np.random.default_rng(7)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for shape, chunks in (((37,), (8,)), ((9, 11), (4, 5)), ((3, 7, 5), (2, 3, 5)), ((4, 4), (9, 9))):
            data = chance.integers(0, 2 if kind == "?" else 99, shape)
            one = data.astype("i1").astype(kind) if "," not in kind else np.zeros(shape, kind)
            file.create_dataset(f"{shape}", data=one, chunks=tuple(map(min, chunks, shape)), **filters)
            some = file.create_dataset(f"{shape} part", shape, kind, chunks=tuple(map(min, chunks, shape)), **filters)
            some[:2] = one[:2]
        for node in file.values():
            for _ in range(6):
                low = [int(chance.integers(0, n)) for n in node.shape]
                part = tuple(slice(a, int(chance.integers(a, n + 1))) for a, n in zip(low, node.shape, strict=True))
                found = read_part_of(node, part)
                assert found.dtype == node.dtype
                np.testing.assert_array_equal(found, node[part])
            np.testing.assert_array_equal(read_part_of(node), node[()])


@pytest.mark.parametrize(
    ("filters", "text"), [(FILTERS[0], False), (FILTERS[1], False), (FILTERS[2], False), (FILTERS[0], True)]
)
def test_a_damaged_chunk_never_reaches_the_library(tmp_path: Path, filters: dict[str, Any], text: bool) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        if text:
            node = file.create_dataset("x", data=["word"] * 64, dtype=h5py.string_dtype(), chunks=(64,), **filters)
        else:
            node = file.create_dataset("x", data=np.zeros((8, 8), "i8"), chunks=(8, 8), **filters)
        offset = (0,) * node.ndim
        node.id.write_direct_chunk(offset, b"\x01\x02")  # shorter than any of them may be
    with cn.open(path) as file, pytest.raises(CorruptError, match="the chunk at"):
        cn.read_element(file.h5["x"])


def test_some_rows_of_a_short_chunk_are_refused_too(tmp_path: Path) -> None:
    """The library gives what lies in memory behind the bytes that there are."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        node = file.create_dataset("x", (4000, 2), "f8", chunks=(4000, 2), compression=4)
        node.id.write_direct_chunk((0, 0), zlib.compress(b"\1" * 64))
    with cn.open(path) as file:
        for columns in (None, np.array([1])):
            with pytest.raises(CorruptError, match="the chunk at"):
                read_cells_of(file.h5["x"], np.array([2000, 3000]), columns)


def test_some_rows_of_a_chunk_that_claims_too_much(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (2**31,), "i1", chunks=(2**31,))  # never written
    with cn.open(path) as file, pytest.raises(UnsupportedError, match="claims"):
        read_cells_of(file.h5["x"], np.array([0, 2**30]))


def test_some_rows_of_texts_and_compounds(tmp_path: Path) -> None:
    kinds = np.dtype([("a", "i4"), ("b", h5py.string_dtype())])
    with h5py.File(tmp_path / "a.h5", "w") as file:
        texts = file.create_dataset("t", data=[f"ä{n}" for n in range(100)], chunks=(7,), compression=1)
        pairs = file.create_dataset("p", data=np.array([(n, f"{n}") for n in range(100)], kinds), chunks=(7,))
        rows = np.array([0, 1, 50, 98])
        assert read_cells_of(texts, rows).tolist() == [f"ä{n}" for n in rows]
        assert read_cells_of(pairs, rows).tolist() == [(n, f"{n}") for n in rows]
        assert read_cells_of(texts, rows[:0]).shape == (0,)


def test_a_float_that_numpy_does_not_know(tmp_path: Path) -> None:
    """Eight bytes of which 51 bits are in use: not the float64 that h5py widens it to."""
    kind = h5t.IEEE_F64LE.copy()
    kind.set_fields(50, 40, 10, 0, 40)
    kind.set_precision(51)
    kind.set_ebias(511)
    creation = h5p.create(h5p.DATASET_CREATE)
    creation.set_chunk((4,))
    creation.set_deflate(4)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        made = h5d.create(file.id, b"x", kind, h5s.create_simple((4,)), creation)
        made.write(h5s.ALL, h5s.ALL, np.array([1.0, 2.0, 3.0, 4.0]))
        assert read_part_of(file["x"]).tolist() == [1.0, 2.0, 3.0, 4.0]


def test_a_chunk_that_claims_more_than_the_file_has(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        node = file.create_dataset("x", data=np.arange(999), chunks=(999,), compression=1)
        size = node.id.get_chunk_info(0).size
    data = path.read_bytes()
    record = size.to_bytes(4, "little") + bytes(4)  # of the B-tree: stored bytes, filter mask
    assert data.count(record) == 1
    path.write_bytes(data.replace(record, (2**31).to_bytes(4, "little") + bytes(4)))
    with cn.open(path) as file, pytest.raises(ColonnadeError):
        cn.read_element(file.h5["x"])


def compressed(file: Any, name: str) -> Any:
    """A matrix of AnnData's, 3 x 2."""
    group = file.create_group(name)
    group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", [3, 2]
    group["data"], group["indices"], group["indptr"] = np.arange(1, 4.0), [0, 1, 0], [0, 1, 2, 3]
    return group


def test_matrices_to_convert_are_looked_for_without_end_only_once(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5ad", "w") as file:
        compressed(file, "deep/X")
        file["deep/loop"] = file["/"]
        file["deep/again"] = file["deep/X"]
    done = convert(str(tmp_path / "a.h5ad"), str(tmp_path / "b.h5"))
    assert (done.shape, done.n_cells) == ((3, 2), 3)


def test_a_matrix_to_convert_leads_to_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with h5py.File(tmp_path / "other.h5", "w") as file:
        compressed(file, "X")
        file["data"] = np.arange(5.0, 8.0)
    layout = h5py.VirtualLayout((3,), "f8")
    layout[:] = h5py.VirtualSource("../other.h5", "data", (3,))
    with h5py.File(tmp_path / "in" / "a.h5ad", "w") as file:
        group = compressed(file, "X")
        del group["data"]
        group.create_virtual_dataset("data", layout)
        file["Y"] = h5py.ExternalLink("../other.h5", "/X")
    with pytest.raises(UnsupportedError, match="not followed"):
        convert(str(tmp_path / "in" / "a.h5ad"), str(tmp_path / "b.h5"), name="X")
    with pytest.raises(ColonnadeError):
        convert(str(tmp_path / "in" / "a.h5ad"), str(tmp_path / "b.h5"), name="Y")
    assert not (tmp_path / "b.h5").exists()
