"""Room sparse, the writing way: what `encode_x` makes, `decode_x` reads back, and libhdf5 where it knows the form."""

from __future__ import annotations

import struct
from math import prod
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade import kernels
from colonnade.format import arrays
from colonnade.format.arrays import ExtensibleArrayHeader, FixedArrayHeader, encode_extensible_array, encode_fixed_array
from colonnade.format.btrees import TreeHeader, encode_tree, read_records, read_tree_header, tree_levels
from colonnade.format.dataspace import Dataspace, decode_dataspace, encode_dataspace
from colonnade.format.datatype import decode_datatype, encode_datatype
from colonnade.format.global_heap import decode_heap_set, encode_heap_set, encode_reference
from colonnade.format.headers import encode_header, read_messages
from colonnade.format.layout import StorageLayout
from colonnade.format.links import Link, decode_link
from colonnade.format.source import Fields, HDF5Source
from colonnade.format.values import decode_fill, encode_fill
from colonnade.model import FilterInfo, StoredField, StoredType
from colonnade.pager.sources import BufferBytes
from colonnade.sparse.chunk import encode_chunk, read_cells
from colonnade.sparse.info import SparseInfo
from colonnade.sparse.selections import choose_selections, decode_selection, encode_selection, find_places

Rows = np.ndarray[Any, np.dtype[np.uint8]]


def some_elements(n: int, size: int, density: float, seed: int = 0) -> Rows:
    generator = np.random.default_rng(seed)
    rows = generator.integers(0, 255, (n, size), dtype=np.uint8)
    empty = generator.random(n) >= density
    rows[empty, :8], rows[empty, 8:] = 0xFF, 0
    return rows


def collect(parts: Any, n: int, size: int) -> Rows:
    """Elements as read, empty where nothing was said."""
    made = np.zeros((n, size), dtype=np.uint8)
    made[:, :8] = 0xFF
    for first, data in parts:
        rows = np.frombuffer(data, dtype=np.uint8).reshape(-1, size)[: max(n - first, 0)]
        made[first : first + len(rows)] = rows
    return made


# -- chunk maps --


@pytest.mark.parametrize("density", [0.0, 0.02, 1.0])
@pytest.mark.parametrize("n", [1, 15, 16, 17, 300])
def test_fixed_arrays_both_ways(n: int, density: float) -> None:
    rows = some_elements(n, 18, density)
    header = FixedArrayHeader(0, 2, 18, 4, n, None)
    source = HDF5Source(BufferBytes(bytes(100) + encode_fixed_array(header, rows, 100)))
    assert arrays.read_fixed_header(source, 100).n_elements == n
    assert np.array_equal(collect(arrays.read_fixed_elements(source, 100, range(n)), n, 18), rows)


@pytest.mark.parametrize("density", [0.0, 0.005, 1.0])
@pytest.mark.parametrize("n", [0, 1, 4, 5, 100, 250, 5000])
def test_extensible_arrays_both_ways(n: int, density: float) -> None:
    rows = some_elements(n, 18, density)
    header = ExtensibleArrayHeader(0, 2, 18, 32, 4, 16, 4, 6, n, None)
    source = HDF5Source(BufferBytes(bytes(100) + encode_extensible_array(header, rows, 100)))
    assert arrays.read_extensible_header(source, 100).n_set == n
    assert np.array_equal(collect(arrays.read_extensible_elements(source, 100, range(n)), n, 18), rows)


@pytest.mark.parametrize("node_size", [128, 512, 2048])
@pytest.mark.parametrize("n", [0, 1, 4, 5, 60, 3000])
def test_trees_both_ways(n: int, node_size: int) -> None:
    records = [struct.pack(">I20x", number) for number in range(n)]
    header = TreeHeader(0, 12, node_size, 24, 0, 100, 40, None, 0, 0)
    source = HDF5Source(BufferBytes(bytes(100) + encode_tree(header, records, 100)))
    found = b"".join(node.data for node in read_records(source, 100))
    assert sorted(found[at : at + 24] for at in range(0, len(found), 24)) == records
    assert read_tree_header(source, 100).n_records == n


def test_nodes_count_what_is_below_them() -> None:
    """Nothing here reads these numbers, but libhdf5 does when it looks for the n-th record."""
    records = [struct.pack(">I20x", number) for number in range(3000)]
    data = encode_tree(TreeHeader(0, 12, 256, 24, 0, 100, 40, None, 0, 0), records, 0)
    header = read_tree_header(HDF5Source(BufferBytes(data)), 0)
    assert header.depth >= 2 and header.root is not None
    pointers = data[header.root + 6 + 24 * header.n_root :]
    width = 8 + 1 + tree_levels(header, 8)[header.depth].total_bytes
    totals = [
        int.from_bytes(pointers[at + 9 : at + width], "little") for at in range(0, width * (header.n_root + 1), width)
    ]
    assert sum(totals) + header.n_root == 3000


MAPS = {
    "fixed array": ((4000,), (4000,), (3,), b"FAHD"),
    "extensible array": ((9000,), (None,), (3,), b"EAHD"),
    "b-tree": ((120, 150), (None, None), (1, 3), b"BTHD"),
}


@pytest.mark.parametrize("name", MAPS)
def test_libhdf5_reads_our_chunk_maps(tmp_path: Path, name: str) -> None:
    """Its own index of an ordinary dataset is replaced by one of ours; every chunk must be found by it."""
    shape, limits, chunk, signature = MAPS[name]
    path = tmp_path / "t.h5"
    values = np.arange(prod(shape), dtype="<i4").reshape(shape)
    with h5py.File(path, "w", libver="latest") as file:
        dataset = file.create_dataset("x", shape, "<i4", chunks=chunk, maxshape=limits)
        dataset[...] = values
        header = h5py.h5o.get_info(dataset.id).addr
        chunks = [dataset.id.get_chunk_info(number) for number in range(dataset.id.get_num_chunks())]
    data = bytearray(path.read_bytes())
    old, new = data.find(signature), len(data)
    data += _our_index(name, shape, chunk, chunks, new)
    _point_to(data, header, old, new)
    path.write_bytes(data)
    with h5py.File(path, "r+") as file:
        assert np.array_equal(file["x"][...], values)
        file["x"].resize(shape[0] + 1, axis=0) if limits[0] is None else None
        assert np.array_equal(file["x"][: shape[0]], values)


def _our_index(name: str, shape: Any, chunk: Any, chunks: Any, at: int) -> bytes:
    places = {tuple(o // c for o, c in zip(one.chunk_offset, chunk, strict=True)): one.byte_offset for one in chunks}
    if name == "b-tree":
        records = [struct.pack(f"<{1 + len(chunk)}Q", address, *place) for place, address in sorted(places.items())]
        return encode_tree(TreeHeader(0, 10, 2048, 8 + 8 * len(chunk), 0, 100, 40, None, 0, 0), records, at)
    n = -(-shape[0] // chunk[0])
    rows = np.array([places[number,] for number in range(n)], dtype="<u8").view(np.uint8).reshape(-1, 8)
    if name == "fixed array":
        return encode_fixed_array(FixedArrayHeader(0, 0, 8, 10, n, None), rows, at)
    return encode_extensible_array(ExtensibleArrayHeader(0, 0, 8, 32, 4, 16, 4, 10, n, None), rows, at)


def _point_to(data: bytearray, header: int, old: int, new: int) -> None:
    """The address in the layout message, the end in the superblock, and their checksums."""
    width = 1 << (data[header + 5] & 3)
    lead = 6 + (16 if data[header + 5] & 0x20 else 0)
    size = int.from_bytes(data[header + lead : header + lead + width], "little") + lead + width
    at = data.find(struct.pack("<Q", old), header, header + size)
    assert at > 0
    data[at : at + 8] = struct.pack("<Q", new)
    data[header + size : header + size + 4] = struct.pack("<I", kernels.lookup3(bytes(data[header : header + size])))
    data[28:36] = struct.pack("<Q", len(data))
    data[44:48] = struct.pack("<I", kernels.lookup3(bytes(data[:44])))


# -- messages --

INT32 = StoredType("integer", 4, signed=True, precision=32)
FLOAT64 = StoredType("float", 8, signed=True, precision=64, mantissa=52, exponent=11)
TYPES = [
    INT32,
    FLOAT64,
    StoredType("integer", 8, "big", precision=64),
    StoredType("bitfield", 2, precision=16),
    StoredType("float", 2, "big", signed=True, precision=16, mantissa=10, exponent=5),
    StoredType("string", 7, charset="utf-8", padding="space"),
    StoredType("opaque", 3, "none", tag="a tag of 17 bytes"),
    StoredType(
        "boolean", 1, base=StoredType("integer", 1, signed=True, precision=8), members=(("FALSE", 0), ("TRUE", 1))
    ),
    StoredType("enum", 4, base=INT32, members=(("a", -1), ("b", 70_000))),
    StoredType("array", 24, "none", base=INT32, dims=(2, 3)),
    StoredType("compound", 300, "none", fields=(StoredField("a", 0, INT32), StoredField("b", 280, FLOAT64))),
    StoredType("complex", 16, base=FLOAT64, fields=(StoredField("r", 0, FLOAT64), StoredField("i", 8, FLOAT64))),
    StoredType("text", 16, charset="utf-8", padding="terminated"),
    StoredType("sequence", 16, "none", base=INT32),
]


@pytest.mark.parametrize("stored", TYPES, ids=str)
def test_datatypes_both_ways(stored: StoredType) -> None:
    assert decode_datatype(Fields(encode_datatype(stored), "datatype")) == stored


def test_datatypes_of_the_facts_page() -> None:
    assert encode_datatype(INT32).hex() == "100800000400000000002000"
    assert encode_datatype(FLOAT64).hex() == "11203f000800000000004000340b0034ff030000"
    text = StoredType("text", 16, charset="utf-8", padding="terminated")
    assert encode_datatype(text)[:8].hex() == "1901010010000000"


def test_other_messages_both_ways() -> None:
    for space in (Dataspace((3, 4), (3, None)), Dataspace((7,), (7,))):
        for version in (1, 2):
            assert decode_dataspace(Fields(encode_dataspace(space, version), "dataspace")) == space
    for value in (None, b"\0\0\0\0", b"abc"):
        assert decode_fill(Fields(encode_fill(value), "fill")) == value
    assert encode_fill(b"\0\0\0\0").hex() == "032b0400000000000000" and encode_fill(None).hex() == "030b"
    assert decode_link(Fields(bytes.fromhex("01000141") + struct.pack("<Q", 5), "link")) == Link("A", 5)
    for sizes in ((), (3,), (200, 100), (40_000, 40_000)):
        messages = [(number + 20, 1, bytes(size)) for number, size in enumerate(sizes)]
        data = bytes(8) + encode_header(messages)
        found = read_messages(HDF5Source(BufferBytes(data)), 8)
        assert [(one.type, one.flags, one.data) for one in found] == messages


def test_heaps_both_ways() -> None:
    objects = [b"x" * (number % 20) for number in range(70_000)]
    data, places = encode_heap_set(objects)
    heap = decode_heap_set(Fields(data, "heap"))
    for number in (0, 1, 65_534, 65_535, 69_999):
        count = len(objects[number])
        assert bytes(heap.read(encode_reference(count, places[number]), 1)[1]) == objects[number]
    assert encode_heap_set([]) == (b"", [])


# -- chunks --


@st.composite
def some_places(draw: st.DrawFn) -> tuple[np.ndarray[Any, np.dtype[np.int64]], tuple[int, ...]]:
    """Scattered elements and rectangles of them."""
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    mask = np.zeros(shape, dtype=bool)
    for _ in range(draw(st.integers(0, 4))):
        box = [sorted((draw(st.integers(0, size)), draw(st.integers(0, size)))) for size in shape]
        mask[tuple(slice(low, high, draw(st.integers(1, 3))) for low, high in box)] = True
    for place in draw(st.lists(st.integers(0, prod(shape) - 1), max_size=5)):
        mask.reshape(-1)[place] ^= True
    return np.flatnonzero(mask), shape


@given(some_places())
def test_every_selection_chosen_is_of_the_same_elements(given: Any) -> None:
    places, shape = given
    for selection in choose_selections(places, shape):
        fields = Fields(encode_selection(selection), "section 0")
        assert find_places(decode_selection(fields, shape), len(places), fields).tolist() == places.tolist()


def test_selections_are_small() -> None:
    rectangle = np.flatnonzero(np.pad(np.ones((3, 4)), ((2, 5), (1, 5))))
    assert [one.kind for one in choose_selections(rectangle, (10, 10))] == ["regular"]
    lattice = np.flatnonzero(np.tile([[1, 0], [0, 0]], (5, 5)))
    assert [one.kind for one in choose_selections(lattice, (10, 10))] == ["regular"]
    two = np.zeros((10, 10))
    two[0:2, 0:3] = two[4:9, 5:9] = 1
    assert len(choose_selections(np.flatnonzero(two), (10, 10))[0].numbers) == 2
    scattered = np.arange(0, 100, 7)
    assert choose_selections(scattered, (10, 10))[0].kind == "points"


DEFLATE = FilterInfo(1, "deflate", (6,), True)
SHUFFLE = FilterInfo(2, "shuffle", (2,), False)


@pytest.mark.parametrize("pipelines", [((), ()), ((DEFLATE,), (DEFLATE,)), ((SHUFFLE, DEFLATE), ())], ids=str)
@pytest.mark.parametrize("density", [0.0, 0.01, 0.4, 1.0])
def test_chunks_both_ways(density: float, pipelines: Any) -> None:
    generator = np.random.default_rng(3)
    layout = StorageLayout("sectioned", 1, 0, (30, 40), 4, 2, (0,), "fixed array", (10,), b"", None)
    info = SparseInfo("x", Dataspace((300, 400), (300, 400)), INT32, None, layout, pipelines)
    places = np.flatnonzero(generator.random((30, 40)) < density)
    values = generator.integers(-9, 9, len(places)).astype("<i4")
    packed = encode_chunk(info, places, values.tobytes())
    record = packed.record((2, 3), 50)
    found = read_cells(HDF5Source(BufferBytes(bytes(50) + packed.data)), info, record)
    assert np.array_equal(found.places, places) and np.array_equal(found.values, values)  # type: ignore[arg-type]
    if density == 0.01 and not any(pipelines):
        assert packed.unfiltered == (7 + 8 + 32 + 15 + 4 * len(places) + 4, 4 * len(places))
