"""Room sparse: sectioned datasets in every form, from files that `sparse_files` puts together byte by byte."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import colonnade as cn
from colonnade.errors import ConflictError, CorruptError, FormatError, UnsupportedError, UsageError
from colonnade.format.layout import Dialect, StorageLayout, decode_layout, encode_layout
from colonnade.format.pipelines import decode_pipelines, encode_pipelines
from colonnade.format.records import RecordForm, decode_records, encode_records
from colonnade.format.source import Fields, HDF5Source
from colonnade.model import FilterInfo
from colonnade.pager.marks import journal_path
from colonnade.pager.sources import BufferBytes
from colonnade.sparse import find_sparse
from colonnade.sparse.selections import (
    CellSelection,
    SelectionKind,
    count_cells,
    decode_selection,
    encode_selection,
    find_places,
)

from .sparse_files import DIES_IN_COMMIT, EA, FLOAT64, INT32, SparseFile, object_header, some_cells, summed

DIALECTS: tuple[Dialect, ...] = ("sectioned", "structured", "structured, short", "prototype")
MAPS = ("single", "fixed array", "extensible array", "b-tree")
FILTERS: dict[str, dict[int, list[tuple[int, tuple[int, ...]]]]] = {
    "none": {},
    "deflate both": {0: [(1, (6,))], 1: [(1, (6,))]},
    "shuffle+deflate, values": {1: [(2, (4,)), (1, (1,))]},
    "shuffle+deflate, selection": {0: [(2, (2,)), (1, (9,))]},
    "fletcher32": {1: [(3, ())]},
    "shuffle+zstd both": {0: [(2, (2,)), (32015, (3,))], 1: [(2, (4,)), (32015, (3,))]},
}


def expect(file: SparseFile, dtype: str = "<i4") -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    places = sorted(file.cells)
    values = np.frombuffer(b"".join(file.cells[place] for place in places), dtype=dtype)
    return np.array(places, dtype=np.int64).reshape(len(places), len(file.shape)), values


def check(data: bytes | Path, file: SparseFile, name: str = "sparse", dtype: str = "<i4") -> None:
    coords, values = expect(file, dtype)
    with cn.open_sparse(data, name) as array:
        found, read = array.cells()
        assert np.array_equal(found, coords) and read.tobytes() == values.tobytes()
        assert array.shape == file.shape and array.chunks == file.chunk and array.n_defined == len(values)
        assert array.info.layout.dialect == file.dialect and array.info.layout.map == file.map
        dense = np.zeros(file.shape, dtype=dtype)
        dense[tuple(coords.T)] = values
        assert np.array_equal(array[...], dense)


def file_for(chunk_map: str, rank: int = 2, **options: Any) -> SparseFile:
    """A dataset that libhdf5 would give this chunk map."""
    shape = (11, 13, 9, 5)[:rank]
    chunk = shape if chunk_map == "single" else (4, 5, 3, 2)[:rank]
    limits: dict[str, tuple[int | None, ...] | None] = {
        "extensible array": tuple(None if axis == rank - 1 else size for axis, size in enumerate(shape)),
        "b-tree": (None,) * rank,
    }
    cells = options.pop("cells", None) or some_cells(shape, 0.15, rank)
    return SparseFile(shape, chunk, cells, map=chunk_map, max_shape=limits.get(chunk_map), **options)


# -- forms --


@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize("chunk_map", MAPS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_and_map_and_filter(dialect: str, chunk_map: str, filters: str) -> None:
    for version in (0, 1):
        file = file_for(chunk_map, dialect=dialect, filters=FILTERS[filters], index_version=version)
        check(file.in_new_file(), file)


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
@pytest.mark.parametrize("chunk_map", MAPS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_rank(dialect: str, chunk_map: str, rank: int) -> None:
    file = file_for(chunk_map, rank, dialect=dialect)
    check(file.in_new_file(), file)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("size", [1, 3, 255, 256, 300, 70_000])
def test_dialects_are_told_apart_whatever_the_chunk(dialect: str, size: int) -> None:
    """The sizes of a chunk are the bytes by which dialects could be mistaken."""
    for shape, chunk in (((size,), (size,)), ((2 * size, 8), (size, 8)), ((3, 2, size), (1, 2, size))):
        cells = {tuple(at - 1 for at in shape): b"\1\2\3\4", (0,) * len(shape): b"\5\6\7\x08"}
        for chunk_map in ("single", "fixed array", "b-tree"):
            whole = shape if chunk_map == "single" else chunk
            limits = (None,) * len(shape) if chunk_map == "b-tree" else None
            selection = "blocks 3" if size < 1 << 16 else "blocks 3 wide"
            file = SparseFile(
                shape, whole, cells, map=chunk_map, max_shape=limits, dialect=dialect, selection=selection
            )
            data = file.in_new_file()
            with cn.open_sparse(data, "sparse") as array:
                assert array.info.layout.dialect == dialect
                assert array.cells()[1].tobytes() == b"".join(cells[place] for place in sorted(cells))


def test_the_type_may_be_0_and_zeros_may_follow() -> None:
    """As the prototype writes (facts 10.1, 10.6)."""
    file = file_for("fixed array", dialect="prototype", type=0, trailing=5)
    check(file.in_new_file(), file)


SELECTIONS = ["blocks 1", "blocks 3", "blocks 3 wide", "blocks 3 widest", "points 1", "points 2", "points 3"]


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("selection", SELECTIONS)
def test_every_selection(selection: str, rank: int) -> None:
    file = file_for("fixed array", rank, selection=selection)
    check(file.in_new_file(), file)
    file = file_for("fixed array", rank, selection=selection, old_space=True)
    check(file.in_new_file(), file)


@pytest.mark.parametrize("selection", ["regular 2", "regular 3"])
def test_regular_selections(selection: str) -> None:
    cells = {
        (row, column): struct.pack("<i", row * 100 + column) for row in range(1, 12, 3) for column in range(0, 20, 2)
    }
    file = SparseFile((12, 20), (12, 20), cells, map="single", selection=selection)
    check(file.in_new_file(), file)


def test_all_and_points_out_of_order() -> None:
    whole = {(row, column): struct.pack("<i", row * 10 + column) for row in range(8) for column in range(10)}
    file = SparseFile((8, 10), (4, 5), whole, selection="all")
    check(file.in_new_file(), file)
    cells = some_cells((8, 10), 0.4)
    turned = dict(reversed(list(cells.items())))
    file = SparseFile((8, 10), (4, 5), turned, selection="points 2")
    check(file.in_new_file(), file)
    with cn.open_sparse(file.in_new_file(), "sparse") as array:
        for coords, values in array.iter_cells():
            assert coords.tolist() == sorted(coords.tolist())
            assert values.tobytes() == b"".join(cells[tuple(place)] for place in coords.tolist())


def test_blocks_in_any_order_have_values_row_by_row() -> None:
    """Two blocks of 2 x 2 side by side: row 0 of both, then row 1 of both (facts 3.4)."""
    cells = {(r, c): struct.pack("<i", 10 * r + c) for r in (0, 1) for c in (0, 1, 3, 4)}

    class Backwards(SparseFile):
        def blocks(self, inside: Any) -> Any:
            return list(reversed(super().blocks(inside)))

    file = Backwards((4, 5), (4, 5), cells, map="single")
    assert len(file.blocks(sorted(cells))) == 2
    check(file.in_new_file(), file)


def test_nothing_written() -> None:
    for chunk_map in MAPS:
        file = replace(file_for(chunk_map), cells={})
        check(file.in_new_file(), file)


@pytest.mark.parametrize("node_size", [128, 256, 2048])
def test_b_trees_of_every_depth(node_size: int) -> None:
    cells = some_cells((60, 60), 0.2)
    file = SparseFile((60, 60), (2, 3), cells, map="b-tree", max_shape=(None, None), node_size=node_size)
    data = file.in_new_file()
    check(data, file)
    with cn.open_sparse(data, "sparse") as array:
        assert np.array_equal(array[17:40, 5:9], array[...][17:40, 5:9])


def test_a_b_tree_is_not_read_whole_for_a_few_rows() -> None:
    cells = some_cells((60, 60), 0.2)
    file = SparseFile((60, 60), (2, 3), cells, map="b-tree", max_shape=(None, None), node_size=256)
    data, n_read = file.in_new_file(), []

    class Counted(io.BytesIO):
        def read(self, n: int | None = -1, /) -> bytes:
            n_read.append(n)
            return super().read(n)

    with cn.open_sparse(Counted(data), "sparse", n_threads=1) as array:
        array.defined(slice(0, 2))
        few = len(n_read)
        array.defined()
        assert few < (len(n_read) - few) / 4


def test_paged_arrays() -> None:
    """Pages that were never written hold anything; they are not looked at."""
    cells = {(row,): struct.pack("<i", row) for row in (0, 5, 900, 901, 2999)}
    file = SparseFile((3000,), (2,), cells, page_bits=4)
    check(file.in_new_file(), file)
    small = EA | {"page_bits": 6}
    cells = {(row,): struct.pack("<i", row) for row in (0, 7, 9, 300, 5000, 5001, 7000, 19_999)}
    file = SparseFile((20_000,), (2,), cells, map="extensible array", max_shape=(None,), ea=small)
    data = file.in_new_file()
    assert b"EASB" in data and b"\x5a" * 100 in data
    check(data, file)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_unlimited_dimension_may_be_any(axis: int) -> None:
    shape = (7, 8, 9)
    limits = tuple(None if one == axis else size + 3 for one, size in enumerate(shape))
    file = SparseFile(shape, (2, 3, 4), some_cells(shape, 0.2), map="extensible array", max_shape=limits)
    check(file.in_new_file(), file)


def test_edge_chunks_may_be_left_unfiltered() -> None:
    """Flags bit 0: chunks that reach beyond the dataset have no filters, and their masks do not say so (facts 3.5)."""
    file = file_for("fixed array", filters=FILTERS["deflate both"], flags=1)
    check(file.in_new_file(), file)


def test_filters_that_were_skipped() -> None:
    file = file_for("fixed array", filters=FILTERS["shuffle+deflate, values"], skip={1: 2})
    check(file.in_new_file(), file)


# -- types --

COMPOUND = (
    b"\x36\x02\x00\x00" + struct.pack("<I", 12) + b"a\0\x00" + INT32 + b"b\0\x04" + FLOAT64
)  # version 3: offsets of one byte
TYPES: dict[str, tuple[bytes, str]] = {
    "int32": (INT32, "<i4"),
    "int32 big": (bytes.fromhex("100900000400000000002000"), ">i4"),
    "uint8": (bytes.fromhex("100000000100000000000800"), "u1"),
    "int64": (bytes.fromhex("100800000800000000004000"), "<i8"),
    "float64": (FLOAT64, "<f8"),
    "float32": (bytes.fromhex("11201f000400000000002000170800177f000000"), "<f4"),
    "float16": (bytes.fromhex("11200f0002000000000010000a05000a0f000000"), "<f2"),
    "string": (bytes.fromhex("1311000005000000"), "S5"),
    "compound": (COMPOUND, "<i4,<f8"),
    "opaque": (bytes.fromhex("1508000003000000") + b"tag\0\0\0\0\0", "V3"),
    "array": (b"\x3a\0\0\0" + struct.pack("<IBII", 24, 2, 2, 3) + INT32, "(2,3)<i4"),
    "odd integer": (bytes.fromhex("100800000300000000001800"), "V3"),
    "complex": (b"\x36\x02\0\0" + struct.pack("<I", 16) + b"r\0\x00" + FLOAT64 + b"i\0\x08" + FLOAT64, "<c16"),
}


@pytest.mark.parametrize("name", TYPES)
def test_every_type_of_fixed_size(name: str) -> None:
    datatype, text = TYPES[name]
    dtype = np.dtype(text)
    generator = np.random.default_rng(5)
    size = dtype.itemsize
    cells = {place: generator.integers(0, 127, size, dtype="u1").tobytes() for place in some_cells((11, 13), 0.2)}
    fill = generator.integers(1, 100, size, dtype="u1").tobytes()
    file = SparseFile(
        (11, 13), (4, 5), cells, datatype=datatype, element_size=size, fill=b"\x03\x2b" + struct.pack("<I", size) + fill
    )
    with cn.open_sparse(file.in_new_file(), "sparse") as array:
        coords, values = array.cells()
        assert values.tobytes() == b"".join(cells[tuple(place)] for place in coords.tolist())
        assert values.dtype == dtype.base or name == "compound"
        dense = array[...]
        assert dense.shape == (11, 13, *dtype.shape)
        where = next((r, c) for r in range(11) for c in range(13) if (r, c) not in cells)
        assert np.array(dense[where], dtype=dtype.base).tobytes() == fill
        assert np.array(array.fill, dtype=dtype.base).tobytes() == fill


def test_booleans() -> None:
    base = bytes.fromhex("100800000100000000000800")
    datatype = b"\x38\x02\0\0" + struct.pack("<I", 1) + base + b"FALSE\0TRUE\0" + b"\0\1"
    file = SparseFile((9,), (4,), {(1,): b"\1", (5,): b"\0", (8,): b"\1"}, datatype=datatype, element_size=1)
    with cn.open_sparse(file.in_new_file(), "sparse") as array:
        assert array.dtype == bool and array.cells()[1].tolist() == [True, False, True]
        assert array[...].tolist() == [False, True, False, False, False, False, False, False, True]
        assert array.defined().sum() == 3


def heap_of(objects: list[bytes]) -> bytes:
    """A heap section with one collection (facts 3.6)."""
    body = b""
    for index, data in enumerate(objects, 1):
        body += struct.pack("<HHIQ", index, 1, 0, len(data)) + data.ljust(-(-len(data) // 8) * 8, b"\0")
    collection = b"GCOL\1\0\0\0" + struct.pack("<Q", 16 + len(body)) + body
    return b"HGLS\1\0\0\0" + struct.pack("<IQQ", 1, 28, len(collection)) + collection


def reference(count: int, index: int) -> bytes:
    return struct.pack("<IHH8x", count, 0, index)


TEXT = bytes.fromhex("1901010010000000") + bytes.fromhex("100000000100000000000800")
SEQUENCE = bytes.fromhex("1900000010000000") + INT32


@pytest.mark.parametrize("filters", [{}, {0: [(1, (6,))], 1: [(1, (6,))], 2: [(1, (6,))]}])
@pytest.mark.parametrize("chunk_map", ["single", "fixed array", "b-tree"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_variable_length(dialect: str, chunk_map: str, filters: Any) -> None:
    """One heap for all chunks here: each has all objects, and refers to some."""
    words = [b"muon", b"", "\N{GREEK SMALL LETTER PI}".encode()]
    cells = {(1, 1): reference(4, 1), (2, 3): reference(0, 2), (7, 8): reference(2, 3), (9, 9): bytes(16)}
    for kind in (3,) if dialect != "prototype" else (0, 1, 3):
        file = file_for(chunk_map, cells=cells, dialect=dialect, type=kind, datatype=TEXT, filters=filters)
        file = replace(file, element_size=16, heap=heap_of(words))
        with cn.open_sparse(file.in_new_file(), "sparse") as array:
            coords, values = array.cells()
            assert values.tolist() == ["muon", "", "\N{GREEK SMALL LETTER PI}", ""]
            assert coords.tolist() == [[1, 1], [2, 3], [7, 8], [9, 9]]
            assert array[1, 0:3].tolist() == ["", "muon", ""] and array.n_defined == 4


def test_variable_length_sequences() -> None:
    numbers = [np.arange(3, dtype="<i4"), np.empty(0, "<i4"), np.arange(7, 9, dtype="<i4")]
    cells = {(0,): reference(3, 1), (3,): reference(0, 2), (4,): reference(2, 3)}
    heap = heap_of([one.tobytes() for one in numbers])
    file = SparseFile((6,), (6,), cells, datatype=SEQUENCE, element_size=16, type=3, heap=heap, map="single")
    with cn.open_sparse(file.in_new_file(), "sparse") as array:
        assert [one.tolist() for one in array.cells()[1]] == [[0, 1, 2], [], [7, 8]]
    wrong = replace(file, cells={(0,): reference(4, 1)})
    with pytest.raises(CorruptError, match="no object 1 of 16 bytes"):
        cn.open_sparse(wrong.in_new_file(), "sparse").cells()


def test_dense_variable_length() -> None:
    """Type 2: section 0 holds every element of the chunk, section 1 the heap (RFC 3.4)."""
    cells = {(place,): reference(1, place % 2 + 1) for place in range(8)}
    file = SparseFile((7,), (4,), cells, datatype=TEXT, element_size=16, type=2, heap=heap_of([b"a", b"b"]))
    with cn.open_sparse(file.in_new_file(), "sparse") as array:
        assert array[...].tolist() == list("abababa") and array.n_defined == 7
        assert array.defined().all()


# -- where in the file --


def h5_file(path: Path, libver: str, names: list[str], userblock: int = 0) -> tuple[bytes, int]:
    """A file with ordinary objects; the header of the dataset at the last name is to be replaced."""
    bounds: Any = {"earliest": ("earliest", "latest"), "v108": ("v108", "v108"), "latest": ("latest", "latest")}[libver]
    with h5py.File(path, "w", libver=bounds, userblock_size=userblock) as file:
        for name in names:
            file.create_dataset(name, data=np.arange(10), chunks=(5,), maxshape=(None,))
        address = h5py.h5o.get_info(file[names[-1]].id).addr
    return path.read_bytes(), address


@pytest.mark.parametrize("userblock", [0, 512, 2048])
@pytest.mark.parametrize("n_beside", [0, 5, 40, 3000])
@pytest.mark.parametrize("libver", ["earliest", "v108", "latest"])
def test_datasets_anywhere(tmp_path: Path, libver: str, n_beside: int, userblock: int) -> None:
    """Old groups, compact and dense ones, also behind a user block; libhdf5 still reads what is beside."""
    if userblock and n_beside > 40:
        return
    beside = [f"deep/er/beside number {number}" for number in range(n_beside)]
    data, address = h5_file(tmp_path / "t.h5", libver, [*beside, "deep/er/matrix"], userblock)
    file = file_for("fixed array")
    (tmp_path / "t.h5").write_bytes(file.in_h5_file(data, address, userblock))
    check(tmp_path / "t.h5", file, "deep/er/matrix")
    assert find_sparse(tmp_path / "t.h5") == ["/deep/er/matrix"]
    with pytest.raises(UsageError, match="Nearest: 'matrix'"):
        cn.open_sparse(tmp_path / "t.h5", "deep/er/matrx")


def test_soft_links_and_other_objects(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    _, address = h5_file(path, "earliest", ["a/b", "a/matrix"])
    with h5py.File(path, "r+") as opened:
        opened["soft"] = h5py.SoftLink("/a/also")
        opened["a/also"] = h5py.SoftLink("matrix")
        opened["round"] = h5py.SoftLink("/round")
        opened["out"] = h5py.ExternalLink("other.h5", "/x")
        opened["twice"] = opened["a"]
    file = file_for("b-tree")
    path.write_bytes(file.in_h5_file(path.read_bytes(), address))
    for name in ("soft", "/a/also", "a/matrix", "twice/matrix/", "./a/./matrix"):
        check(path, file, name)
    assert len(find_sparse(path)) == 1
    for name, error, text in (
        ("round", FormatError, "cycle"),
        ("out", UnsupportedError, "out of the file"),
        ("a", UsageError, "a group"),
        ("a/b", UsageError, "HDF5 itself can read"),
        ("a/b/c", UsageError, "no object"),
    ):
        with pytest.raises(error, match=text):
            cn.open_sparse(path, name)
    with h5py.File(path) as opened:
        assert opened["a/b"][3] == 3 and "matrix" in opened["a"]


def test_a_committed_datatype(tmp_path: Path) -> None:
    file = file_for("fixed array")
    out = bytearray(48)
    messages = file.write(out)
    kind = len(out)
    out += object_header([(0x03, INT32)])
    shared = [one if one[0] != 0x03 else (0x03, b"\x03\x02" + struct.pack("<Q", kind)) for one in messages]
    body = b"".join(struct.pack("<BHB", number, len(data), 2 if number == 3 else 0) + data for number, data in shared)
    header = len(out)
    out += summed(b"OHDR\x02\x01" + struct.pack("<H", len(body)) + body)
    root = len(out)
    out += object_header([(0x06, b"\x01\x00\x06sparse" + struct.pack("<Q", header))])
    lead = b"\x89HDF\r\n\x1a\n\x02\x08\x08\x00" + bytes(8) + b"\xff" * 8 + struct.pack("<QQ", len(out), root)
    out[:48] = summed(lead)
    check(bytes(out), file)


# -- what users see --


def test_keys() -> None:
    file = file_for("fixed array", 3)
    with cn.open_sparse(file.in_new_file(), "sparse") as array:
        dense = array[...]
        steps = (slice(None, None, 3), 5, slice(1, 8, 2))
        keys: list[Any] = [3, (3, -1), (slice(2, 9), 4), (..., 2), (1, ..., 2), steps, (3, 4, 5), (-11, -13, -9)]
        keys += [slice(5, 2), slice(-3, None)]
        for key in keys:
            assert np.array_equal(array[key], dense[key]) and np.shape(array[key]) == np.shape(dense[key]), key
        for key in (None, 11, -12, (0, 0, 0, 0), slice(None, None, -1), "a", 1.5, (..., ...), True, [1, 2], slice("a")):
            with pytest.raises(UsageError):
                array[key]


def test_cells_chunk_by_chunk() -> None:
    file = file_for("fixed array")
    with cn.open_sparse(file.in_new_file(), "sparse") as array:
        parts = list(array.iter_cells((slice(2, 10),)))
        assert len(parts) == len({(r // 4, c // 5) for r, c in file.cells if 2 <= r < 10}) == 8
        coords = np.concatenate([part for part, _ in parts])
        values = np.concatenate([part for _, part in parts])
        order = np.lexsort(coords.T[::-1])
        whole = array.cells((slice(2, 10),))
        assert np.array_equal(coords[order], whole[0]) and np.array_equal(values[order], whole[1])


def test_scipy_and_coo() -> None:
    pytest.importorskip("scipy")
    file = file_for("fixed array")
    with cn.open_sparse(file.in_new_file(), "sparse") as array:
        for form in ("csr", "csc", "coo"):
            made = array.to_scipy(form)
            assert made.format == form and np.array_equal(made.toarray(), array[...])
        part = array.to_scipy("csr", (slice(2, 9), slice(3, 11)))
        assert np.array_equal(part.toarray(), array[2:9, 3:11])
        coo = array.to_coo()
        assert coo.coords.shape == (2, len(file.cells)) and coo.shape == (11, 13) and coo.fill_value == 0
        with pytest.raises(UsageError, match="format"):
            array.to_scipy("dia")  # type: ignore[arg-type]
    flat = file_for("fixed array", 1)
    with cn.open_sparse(flat.in_new_file(), "sparse") as array:
        assert np.array_equal(array.to_scipy().toarray(), array[...])
    with cn.open_sparse(file_for("fixed array", 3).in_new_file(), "sparse") as array, pytest.raises(UsageError):
        array.to_scipy()
    filled = file_for("fixed array", fill=b"\x03\x2b\x04\0\0\0\x01\0\0\0")
    with cn.open_sparse(filled.in_new_file(), "sparse") as array, pytest.raises(UsageError, match="to_coo"):
        array.to_scipy()


def test_what_can_be_opened(tmp_path: Path) -> None:
    file = file_for("fixed array")
    data = file.in_new_file()
    path = tmp_path / "t.h5"
    path.write_bytes(data)
    for target in (path, str(path), data, bytearray(data), memoryview(data), io.BytesIO(data)):
        with cn.open_sparse(target, "sparse") as array:
            assert array.n_defined == len(file.cells)
    with path.open("rb") as stream, cn.open_sparse(stream, "sparse") as array:
        assert array.n_defined == len(file.cells)
    with pytest.raises(UsageError, match="closed"):
        array[...]
    for target, error in ((tmp_path, FormatError), (b"", FormatError), (b"no HDF5 file", FormatError), (3, UsageError)):  # type: ignore[assignment]
        with pytest.raises(error):
            cn.open_sparse(target, "sparse")
    with pytest.raises(FileNotFoundError):
        cn.open_sparse(tmp_path / "none.h5", "sparse")


def test_reading_needs_no_hdf5_library() -> None:
    """h5py is loaded by the room below, but no file is opened with it."""
    code = (
        "import h5py\n"
        "h5py.File.__init__ = h5py.h5f.open = None\n"
        "import colonnade as cn, sys\n"
        "print(cn.open_sparse(sys.stdin.buffer.read(), 'sparse').n_defined)\n"
    )
    file = file_for("b-tree")
    done = subprocess.run([sys.executable, "-c", code], input=file.in_new_file(), capture_output=True, check=True)
    assert int(done.stdout) == len(file.cells)


# -- others write meanwhile --


def test_a_journal_left_behind_is_rolled_back_first(tmp_path: Path) -> None:
    """A writer that died in the middle of a commit: what it overwrote is put back, as `open` does."""
    path = tmp_path / "t.h5"
    cn.write(path, {"x": [1, 2, 3]}, table="t")
    file = file_for("fixed array")
    with h5py.File(path, "r+") as opened:
        opened.create_dataset("sparse", data=np.arange(10), chunks=(5,), maxshape=(None,))
        address = h5py.h5o.get_info(opened["sparse"].id).addr
    path.write_bytes(file.in_h5_file(path.read_bytes(), address))
    whole = path.read_bytes()
    code = DIES_IN_COMMIT + "cn.open(sys.argv[1], 'r+')['t'].append({'x': [4, 5]})\n"
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == 7
    assert journal_path(path).exists() and path.read_bytes() != whole
    check(path, file)
    assert not journal_path(path).exists() and path.read_bytes() == whole


def test_a_commit_of_others_is_seen_and_one_during_an_iteration_told(tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    one, other = file_for("fixed array"), file_for("fixed array", cells=some_cells((11, 13), 0.3, 9))
    path.write_bytes(one.in_new_file())
    with cn.open_sparse(path, "sparse", n_threads=1) as array:
        assert array.n_defined == len(one.cells)
        aside = tmp_path / "aside.h5"
        aside.write_bytes(other.in_new_file())
        aside.replace(path)
        assert array.n_defined == len(other.cells)
        parts = array.iter_cells()
        next(parts)
        path.write_bytes(one.in_new_file())
        with pytest.raises(ConflictError, match="changed while"):
            list(parts)
        parts = array.iter_cells()
        next(parts)
        aside.write_bytes(other.in_new_file())
        aside.replace(path)  # the file that was opened is still whole
        with pytest.raises(ConflictError, match="changed while"):
            list(parts)


# -- bytes that lie --


class _Lying(SparseFile):
    """Sections, records or messages are changed before their checksums are made."""

    def section_0(self, inside: Any) -> bytes:
        return self.lie(super().section_0(inside))

    def lie(self, section: bytes) -> bytes:
        raise NotImplementedError


def lying(change: Any, **options: Any) -> bytes:
    made = type("Lying", (_Lying,), {"lie": lambda self, section: change(section)})
    file = made((8, 10), (8, 10), some_cells((8, 10), 0.3), map="single", **options)
    return bytes(file.in_new_file())


def put(at: int, value: bytes) -> Any:
    return lambda section: section[:at] + value + section[at + len(value) :]


P = 7 + 8 + 32  # where the selection begins
LIES = {
    "another extent": (put(15, b"\x09"), "blocks 3", "is for chunks of"),
    "unknown selection": (put(P, b"\x07"), "blocks 3", "not known"),
    "unknown version": (put(P + 4, b"\x09"), "blocks 3", "not known"),
    "more blocks than bytes": (put(P + 14, b"\xff\xff"), "blocks 3", "are needed"),
    "more points than bytes": (put(P + 13, b"\xff\xff"), "points 2", "are needed"),
    "width": (put(P + 9, b"\x03"), "blocks 3", "numbers of 3 bytes"),
    "rank": (put(P + 10, b"\x01"), "blocks 3", "rank 1"),
    "a block outside": (put(P + 20, b"\x09\x00"), "blocks 3", "an invalid number"),
    "a point outside": (put(P + 17, b"\x0a\x00"), "points 2", "outside the chunk"),
    "a point twice": (lambda s: s[:-4] + s[-8:-4], "points 2", "twice"),
    "too few": (
        lambda s: s[: P + 13] + struct.pack("<H", len(s[P + 15 :]) // 4 - 1) + s[P + 15 : -4],
        "points 2",
        "values",
    ),
    "bytes behind": (lambda s: s + b"\0", "blocks 3", "bytes after"),
    "extent too long": (put(3, b"\xff\xff\xff\x7f"), "blocks 3", "are needed"),
    "length": (put(P + 12, b"\x01"), "blocks 1", "bytes follow"),
    "flags": (put(P + 8, b"\x02"), "blocks 3", "flags"),
}


@pytest.mark.parametrize("name", LIES)
def test_selections_that_lie(name: str) -> None:
    change, selection, text = LIES[name]
    with pytest.raises(CorruptError, match=text):
        cn.open_sparse(lying(change, selection=selection), "sparse").cells()


def test_blocks_that_overlap() -> None:
    class Overlapping(SparseFile):
        def blocks(self, inside: Any) -> Any:
            return [((0, 0), (1, 1)), ((1, 1), (2, 2))]

    file = Overlapping(
        (4, 5), (4, 5), {(0, c): b"abcd" for c in range(4)} | {(1, c): b"abcd" for c in range(4)}, map="single"
    )
    with pytest.raises(CorruptError, match="overlap"):
        cn.open_sparse(file.in_new_file(), "sparse").cells()


REGULAR = {"beyond": (0, 3, 9, 1), "overlapping": (0, 1, 3, 2), "huge": (0, 1, 1 << 40, 1 << 40)}


@pytest.mark.parametrize("name", REGULAR)
def test_regular_selections_that_lie(name: str) -> None:
    """The count fits the values where it can, so that only the geometry is wrong."""
    start, stride, count, block = REGULAR[name]
    n = min(count * block, 16)
    cells = {(place,): struct.pack("<i", place) for place in range(n)}

    class Lying(SparseFile):
        def section_0(self, inside: Any) -> bytes:
            lead = super().section_0(inside)[: 7 + 8 + 16]
            return lead + struct.pack("<IIBII4Q", 2, 2, 1, 36, 1, start, stride, count, block)

    file = Lying((16,), (16,), cells, map="single")
    with pytest.raises(CorruptError, match=r"blocks of|selects"):
        cn.open_sparse(file.in_new_file(), "sparse").cells()


def test_cells_outside_the_dataset_are_refused() -> None:
    file = SparseFile((5,), (4,), {(1,): b"abcd", (7,): b"efgh"})
    with pytest.raises(CorruptError, match="outside the dataset"):
        cn.open_sparse(file.in_new_file(), "sparse").cells()


def test_unknown_filters_are_named() -> None:
    file = file_for("fixed array", filters={1: [(32013, (2, 2))]})
    with cn.open_sparse(file.in_new_file(), "sparse") as array:
        assert array.defined().sum() == len(file.cells)
        with pytest.raises(UnsupportedError, match="zfp"):
            array.cells()


def test_a_chunk_that_unpacks_to_more_than_it_says() -> None:
    """The size in the record is the most that is made."""

    class Bomb(SparseFile):
        def filtered(self, number: int, data: bytes, edge: bool) -> bytes:
            return super().filtered(number, data + bytes(10_000_000) if number else data, edge)

    file = Bomb((8, 10), (8, 10), some_cells((8, 10), 0.3), map="single", filters=FILTERS["deflate both"])
    with pytest.raises(CorruptError, match="cannot be unpacked"):
        cn.open_sparse(file.in_new_file(), "sparse").cells()


def test_lengths_are_checked_before_memory_is_taken() -> None:
    """A dataset of 2^61 elements in one chunk, and a section that says it has 2^50 bytes."""
    shape = (1 << 59,)
    file = SparseFile(shape, shape, {(5,): b"abcd"}, map="single", selection="points 3")
    check_huge = cn.open_sparse(file.in_new_file(), "sparse")
    assert check_huge.cells()[0].tolist() == [[5]] and check_huge.n_defined == 1
    everything = replace(file, selection="all")
    with pytest.raises(CorruptError, match="values"):
        cn.open_sparse(everything.in_new_file(), "sparse").cells()

    class Long(SparseFile):
        def write_chunks(self, out: bytearray) -> Any:
            records = super().write_chunks(out)
            return {
                place: (head, tail[:16] + struct.pack("<Q", 1 << 50) + tail[24:])
                for place, (head, tail) in records.items()
            }

    long = Long((8, 10), (4, 5), some_cells((8, 10), 0.3), filters=FILTERS["deflate both"])
    with pytest.raises((CorruptError, UnsupportedError)):
        cn.open_sparse(long.in_new_file(), "sparse").cells()


# -- structures, both ways --


def test_the_layout_message_of_the_facts_page() -> None:
    """13 x 10 of int32 in chunks of 4 x 5, a fixed array at 0x1aa6: the four dialects byte for byte."""
    worked = {
        "structured": "05 04 00 0100 00 03 01 04 05 04 03 0a a61a000000000000 0800000000000000 02 01 00",
        "structured, short": "05 04 00 0100 00 03 01 04 05 04 03 0a a61a000000000000 08 02 01 00",
        "sectioned": "05 04 00 0100 00 02 01 00 0800000000000000 00 03 01 04 05 04 03 0a a61a000000000000",
        "prototype": "05 04 00 0100 00 03 01 04 05 04 08 02 01 00 03 0a a61a000000000000",
    }
    source = HDF5Source(BufferBytes(b""))
    for dialect in DIALECTS:
        data = bytes.fromhex(worked[dialect].replace(" ", ""))
        expected = StorageLayout(dialect, 1, 0, (4, 5), 4, 2, (0,), "fixed array", (10,), b"", 0x1AA6)
        assert decode_layout(source, data, 0, 2, 4) == expected
        assert encode_layout(expected) == data
        for wrong in (data[:-1], data + b"\1", data[:2] + b"\1" + data[3:]):
            with pytest.raises(CorruptError):
                decode_layout(source, wrong, 0, 2, 4)


def test_the_filter_message_of_the_facts_page() -> None:
    worked = "03 02 00 01 0a00 0100 0100 0100 06000000 01 01 0a00 0100 0100 0100 06000000"
    data = bytes.fromhex(worked.replace(" ", ""))
    step = FilterInfo(1, "deflate", (6,), True)
    assert decode_pipelines(Fields(data, "message"), 3) == {0: (step,), 1: (step,)}
    assert encode_pipelines({0: (step,), 1: (step,)}) == data
    named = {1: (FilterInfo(32015, "zstd", (3,), True), step)}
    assert decode_pipelines(Fields(encode_pipelines(named), "message"), 3) == named


P_4X5 = "0100082800000001020100000000000400000000000000050000000000000004000000000000000500000000000000"
SELECTED: dict[str, tuple[SelectionKind, int, Any, str, list[int]]] = {
    "all": ("all", 1, [], "03000000 01000000 00000000 00000000", list(range(20))),
    "none": ("none", 1, [], "00000000 01000000 00000000 00000000", []),
    "block, version 1": (
        "blocks", 1, [[[2, 2], [3, 4]]],
        "02000000 01000000 00000000 18000000 02000000 01000000 02000000 02000000 03000000 04000000",
        [12, 13, 14, 17, 18, 19],
    ),
    "block, regular": (
        "regular", 3, [[2, 1, 1, 2], [2, 1, 1, 3]],
        "02000000 03000000 01 02 02000000 0200 0100 0100 0200 0200 0100 0100 0300",
        [12, 13, 14, 17, 18, 19],
    ),
    "blocks": (
        "blocks", 3, [[[0, 0], [1, 1]], [[0, 3], [1, 4]], [[3, 1], [3, 1]]],
        "02000000 03000000 00 02 02000000 0300 0000 0000 0100 0100 0000 0300 0100 0400 0300 0100 0300 0100",
        [0, 1, 3, 4, 5, 6, 8, 9, 16],
    ),
    "points": (
        "points", 2, [[3, 1], [0, 2]], "01000000 02000000 02 02000000 0200 0300 0100 0000 0200", [16, 2],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SELECTED)
def test_the_selections_of_the_facts_page(name: str) -> None:
    kind, version, numbers, text, places = SELECTED[name]
    data = bytes.fromhex(P_4X5) + bytes.fromhex(text.replace(" ", ""))
    found = decode_selection(Fields(data, "section 0"), (4, 5))
    assert (found.kind, found.version) == (kind, version) and found.numbers.tolist() == numbers
    assert count_cells(found) == len(places)
    assert find_places(found, len(places), Fields(b"", "section 0")).tolist() == places
    made = CellSelection((4, 5), kind, version, np.array(numbers, dtype=np.uint64))
    assert encode_selection(made) == data


def test_records_both_ways() -> None:
    for filtered in (False, True):
        for rank in (0, 2):
            form = RecordForm(8, 2, rank, 2, filtered)
            assert form.length == (42 if filtered else 18) + 8 * rank
            data = np.random.default_rng(3).integers(0, 60, 5 * form.length, dtype="u1").tobytes()
            assert encode_records(decode_records(data, form), form) == data
