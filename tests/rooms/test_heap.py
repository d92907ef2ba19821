"""Strings and bytes of variable length read past the library are those that it reads; damaged ones are left to it.

Damaged references and collections are given to our own function alone: the library may crash on them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pyarrow as pa
import pytest
from h5py import h5s

import colonnade as cn
from colonnade import kernels
from colonnade.errors import CorruptError, UnsupportedError
from colonnade.h5 import capi
from colonnade.h5.chunks import open_heap
from colonnade.h5.datasets import describe_dataset, reading
from colonnade.h5.handles import LibraryDataset
from colonnade.nodes import heap_source as heap_room
from colonnade.nodes.elements import follow_pointers
from colonnade.nodes.heap_source import REFERENCE_DTYPE, HeapSource
from tests.conftest import SetLimits

pytestmark = pytest.mark.skipif(kernels.FORM != "c", reason="the NumPy form leaves the heap to the library")
CHUNK = 100
TEXT, BINARY = h5py.string_dtype(), h5py.vlen_dtype(np.dtype("V1"))
FILTERS: dict[str, dict[str, Any]] = {
    "none": {},
    "shuffle+deflate": {"shuffle": True, "compression": "gzip"},
    "zstd": hdf5plugin.Zstd(),
    "lz4": hdf5plugin.LZ4(),
    "bitshuffle+lz4": hdf5plugin.Bitshuffle(),
}
ROWS: dict[str, list[bytes]] = {
    "short": [b"row %d" % row for row in range(1003)],
    "empty among others": [b"", b"a", b"", b"abc", b""] * 50,
    "all empty": [b""] * 130,
    "beyond ascii": ["größe, 日本, 🏛".encode()] * 101,
    "one megabyte": [b"x" * (1 << 20), b"", b"y" * ((1 << 20) + 1), b"z"],
    "many collections": [b"%06d" % row * 120 for row in range(3000)],
    "one row": [b"alone"],
    "none": [],
}


def put(dataset: Any, start: int, rows: list[bytes]) -> None:
    """Rows into a dataset of texts, or of sequences of bytes: h5py does not write those as they are."""
    if h5py.check_string_dtype(dataset.dtype) is not None:
        dataset[start : start + len(rows)] = np.array(rows, dtype=object)
        return
    kept = [ctypes.create_string_buffer(row, max(len(row), 1)) for row in rows]
    image = np.zeros(len(rows), dtype=[("length", "u8"), ("pointer", "u8")])
    image["length"], image["pointer"] = [len(row) for row in rows], [ctypes.addressof(buffer) for buffer in kept]
    space = dataset.id.get_space()
    space.select_hyperslab((start,), (len(rows),))
    capi.write(dataset.id, dataset.id.get_type(), h5s.create_simple((len(rows),)), space, image.ctypes.data)


def make(path: Path, rows: list[bytes], dtype: Any = TEXT, **how: Any) -> None:
    with h5py.File(path, "w") as file:
        made = file.create_dataset("x", (len(rows),), dtype, chunks=(CHUNK,), maxshape=(None,), **how)
        if rows:
            put(made, 0, rows)


def source_of(dataset: Any) -> HeapSource:
    info = describe_dataset(dataset)
    source = open_heap(dataset, info.type, info.filters)
    assert source is not None
    return source


def ours(found: Any) -> list[bytes] | None:
    if found is None:
        return None
    data = found.data.tobytes()
    return [data[begin:end] for begin, end in zip(found.offsets[:-1], found.offsets[1:], strict=True)]


def by_library(dataset: Any, start: int, count: int) -> list[bytes]:
    info = describe_dataset(dataset)
    with reading(dataset, info, start, count) as image:
        return [follow_pointers(element, info.type) for element in image]


def assert_same(path: Path, expected: list[bytes] | None = None) -> None:
    """Every way to the rows gives what the library gives."""
    with h5py.File(path) as file:
        dataset = file["x"].id
        source, n_rows = source_of(dataset), dataset.shape[0]
        whole = by_library(dataset, 0, n_rows)
        assert expected is None or whole == expected
        for start, stop in {(0, n_rows), (0, 0), (n_rows // 3, n_rows), (n_rows // 2, n_rows // 2 + 1)}:
            stop = min(stop, n_rows)
            assert ours(source.read(start, stop - start)) == whole[start:stop]
        for rows in (range(0, n_rows, 7), range(n_rows // 2, n_rows), range(0)):
            assert ours(source.take(np.array(rows, dtype=np.int64))) == [whole[row] for row in rows]


@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize("dtype", [TEXT, BINARY], ids=["text", "binary"])
@pytest.mark.parametrize("rows", ROWS)
def test_the_same_rows_as_the_library(tmp_path: Path, rows: str, dtype: Any, filters: str) -> None:
    """Filters act on the references alone; what they lead to is not filtered."""
    make(tmp_path / "x.h5", ROWS[rows], dtype, **FILTERS[filters])
    assert_same(tmp_path / "x.h5", ROWS[rows])


@pytest.mark.parametrize("order", ["as written", "backwards in parts", "shuffled"])
def test_collections_are_followed_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_limits: SetLimits, order: str
) -> None:
    """Rows that lie together are followed in parts; others, whose collections would be read over and over, at once."""
    rows = [b"" if row % 11 == 0 else b"%06d" % row * (1 + row % 90) for row in range(3000)]
    make(tmp_path / "x.h5", rows)
    with h5py.File(tmp_path / "x.h5", "r+") as file:
        image = file["x"][:]
        places = np.arange(3000)
        if order == "backwards in parts":
            places = places.reshape(30, 100)[::-1].reshape(-1)
        elif order == "shuffled":
            places = np.random.default_rng(5).permutation(3000)
        move_references(file["x"].id, places)
        assert sorted(file["x"][:].tolist()) == sorted(image.tolist())
    set_limits(heap_collections=3)
    followed: list[int] = []
    original = HeapSource._resolve

    def seen(self: HeapSource, image: Any) -> Any:
        followed.append(len(image))
        return original(self, image)

    monkeypatch.setattr(HeapSource, "_resolve", seen)
    assert_same(tmp_path / "x.h5", [rows[place] for place in places])
    whole = [n for n in followed if n == 3000]
    assert (max(followed) < 1000) == (order != "shuffled")
    assert bool(whole) == (order == "shuffled")


def test_rows_of_too_many_bytes_are_refused_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_limits: SetLimits
) -> None:
    """A short file may lead many rows to one long text; the library would be given what we do not read."""
    rows = [b"x" * 100] * 3000
    make(tmp_path / "x.h5", rows)
    set_limits(heap_collections=3, heap_row_bytes=100_000)
    monkeypatch.setattr(HeapSource, "_resolve", lambda self, image: pytest.fail("rows were read"))
    with h5py.File(tmp_path / "x.h5") as file:
        with pytest.raises(UnsupportedError, match="300,000 bytes are more than can be read at once"):
            source_of(file["x"].id).read(0, 3000)
        with pytest.raises(UnsupportedError, match="more than can be read at once"):
            source_of(file["x"].id).take(np.arange(0, 3000, 2))


def move_references(dataset: Any, places: Any) -> None:
    """Put the references of a dataset in another order, chunk by chunk; what they lead to stays."""
    raw = b"".join(dataset.read_direct_chunk((first,))[1] for first in range(0, 3000, CHUNK))
    references = np.frombuffer(raw, REFERENCE_DTYPE)[places]
    for first in range(0, 3000, CHUNK):
        dataset.write_direct_chunk((first,), references[first : first + CHUNK].tobytes())


@pytest.mark.parametrize(("dtype", "expected"), [(TEXT, b"ab"), (BINARY, b"ab\0cd")], ids=["text", "binary"])
def test_nul_ends_a_text_and_is_a_byte_of_binary(tmp_path: Path, dtype: Any, expected: bytes) -> None:
    """h5py writes no such text, but other tools do."""
    path = tmp_path / "x.h5"
    make(path, [b"ab!cd", b"next", b"!"], dtype)
    path.write_bytes(path.read_bytes().replace(b"ab!cd", b"ab\0cd").replace(b"!" + bytes(7), bytes(8)))
    assert_same(path, [expected, b"next", b"" if dtype is TEXT else b"\0"])


@pytest.mark.parametrize("dtype", [TEXT, BINARY], ids=["text", "binary"])
def test_null_references(tmp_path: Path, dtype: Any) -> None:
    """All zero, as HDF5 writes where there is no value: empty."""
    path = tmp_path / "x.h5"
    make(path, [b"abc"] * 250, dtype)
    with h5py.File(path, "r+") as file:
        _, chunk = file["x"].id.read_direct_chunk((100,))
        file["x"].id.write_direct_chunk((100,), bytes(50 * 16) + chunk[50 * 16 :])
    assert_same(path, [b"abc"] * 100 + [b""] * 50 + [b"abc"] * 100)


def test_rows_that_came_in_several_sessions(tmp_path: Path) -> None:
    """Chunks whose rows lie in collections of several ages, some of them freed and used again."""
    path = tmp_path / "x.h5"
    rows = [b"first %d" % row for row in range(150)]
    make(path, rows)
    for session in range(4):
        more = [b"session %d, row %d" % (session, row) * (1 + row % 9) for row in range(137)]
        with h5py.File(path, "r+") as file:
            file["x"].resize((len(rows) + len(more),))
            put(file["x"], len(rows), more)
            put(file["x"], 10 * session, [b"again " * session] * 5)
        rows += more
        rows[10 * session : 10 * session + 5] = [b"again " * session] * 5
    assert_same(path, rows)


@pytest.mark.parametrize("fill", ["none", "", None])
def test_chunks_that_were_never_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fill: str | None) -> None:
    """They are the fill, by way of the library; rows beside them are ours."""
    path = tmp_path / "x.h5"
    columns = {"x": cn.column(strings="variable", chunk_rows=CHUNK, fill=fill)}
    cn.write(path, {"x": [f"row {row}" for row in range(150)]}, "t", columns=columns)
    with h5py.File(path, "r+") as file:
        file["t/x"].resize((420,))
    with h5py.File(path) as file:
        source = source_of(file["t/x"].id)
        assert source.read(150, 100) is None
        assert source.take(np.array([3, 419])) is None
        assert ours(source.read(20, 30)) == [b"row %d" % row for row in range(20, 50)]
    found = cn.read(path)
    for kind in (LibraryDataset,):
        monkeypatch.setattr(kind, "heap_source", lambda *_: None)
    assert cn.read(path) == found
    assert found["x"].to_pylist()[149:] == ["row 149"] + [{"none": None, "": None, None: ""}[fill]] * 270


def test_rows_that_are_not_committed(tmp_path: Path) -> None:
    """Read through the journal: new collections, changed ones and old ones."""
    path = tmp_path / "x.h5"
    rows = [f"row {row}" for row in range(250)]
    cn.write(path, {"x": rows}, "t", columns={"x": cn.column(strings="variable", chunk_rows=CHUNK)})
    with cn.open(path, "r+") as file, file.transaction():
        file["t"].append({"x": ["new", "newer" * 1000]})
        file["t"].update("x", [5, 150], ["changed", ""])
        expected = [*rows, "new", "newer" * 1000]
        expected[5], expected[150] = "changed", ""
        assert file["t"]["x"][:].tolist() == expected


# -- damage --

OBJECTS = [b"first", b"second one", b"", b"the fourth of them"]


def collection(objects: list[bytes], size: int | None = None, signature: bytes = b"GCOL\1") -> bytes:
    """A collection of the global heap, its objects numbered from 1."""
    body = b""
    for index, data in enumerate(objects, 1):
        body += index.to_bytes(2, "little") + b"\1" + bytes(5) + len(data).to_bytes(8, "little")
        body += data.ljust(-(-len(data) // 8) * 8, b"\0")
    body += bytes(16)
    return signature.ljust(8, b"\0") + (16 + len(body) if size is None else size).to_bytes(8, "little") + body


def crafted(path: Path, heap: bytes, references: Callable[[int], list[tuple[int, int, int]]]) -> Any:
    """What our function gives for references into a heap of our own making, which lies at an address."""
    with h5py.File(path, "w") as file:
        made = file.create_dataset("heap", data=np.frombuffer(heap, dtype="u1"))
        rows = np.array(references(made.id.get_offset()), dtype=REFERENCE_DTYPE)  # type: ignore[arg-type]
        strings = file.create_dataset("x", (len(rows),), TEXT, chunks=(len(rows),))
        strings.id.write_direct_chunk((0,), rows.tobytes())
    with h5py.File(path) as file:
        source = source_of(file["x"].id)
        taken = source.take(np.arange(len(rows)))
        found = ours(source.read(0, len(rows)))
        assert ours(taken) == found
        return found


def test_a_crafted_heap_is_read(tmp_path: Path) -> None:
    """The damage below is the only thing wrong with it."""
    sound = collection(OBJECTS)
    found = crafted(
        tmp_path / "x.h5",
        sound + sound,
        lambda at: [(5, at, 1), (18, at + len(sound), 4), (0, at, 3), (0, 0, 0), (10, at, 2), (0, 2**64 - 1, 9)],
    )
    assert found == [b"first", b"the fourth of them", b"", b"", b"second one", b""]


def test_collections_that_lie_far_apart(tmp_path: Path) -> None:
    """Each is read on its own, and those between are not."""
    heap = b"".join(collection([b"number %d" % n]).ljust(gap, b"?") for n, gap in enumerate((0, 200_000, 70_000, 0)))
    places = [place for place in range(len(heap)) if heap.startswith(b"GCOL", place)]
    found = crafted(tmp_path / "x.h5", heap, lambda at: [(8, at + places[n], 1) for n in (3, 0, 2, 0, 1)])
    assert found == [b"number 3", b"number 0", b"number 2", b"number 0", b"number 1"]


SOUND = collection(OBJECTS)
SECOND = 16 + 16 + 8  # where the head of the second object is
HEAPS = {
    "signature": collection(OBJECTS, signature=b"GCOX\1"),
    "version": collection(OBJECTS, signature=b"GCOL\2"),
    "size 0": collection(OBJECTS, size=0),
    "size below a head": collection(OBJECTS, size=15),
    "size of a head": collection(OBJECTS, size=16),
    "size that ends inside the second object": collection(OBJECTS, size=SECOND + 20),
    "size far beyond the file": collection(OBJECTS, size=1 << 29),
    "size beyond what is held": collection(OBJECTS, size=1 << 40),
    "size of all bits": collection(OBJECTS, size=2**64 - 1),
    "size of the highest bit": collection(OBJECTS, size=2**63),
    "object of index 0": SOUND[:SECOND] + bytes(2) + SOUND[SECOND + 2 :],
    "object of another index": SOUND[:SECOND] + b"\x77\0" + SOUND[SECOND + 2 :],
    "object of one byte more": SOUND[: SECOND + 8] + b"\x0b" + SOUND[SECOND + 9 :],
    "object of one byte fewer": SOUND[: SECOND + 8] + b"\x09" + SOUND[SECOND + 9 :],
    "object longer than the collection": SOUND[: SECOND + 8] + b"\xff\xff" + SOUND[SECOND + 10 :],
    "object of all bits": SOUND[: SECOND + 8] + b"\xff" * 8 + SOUND[SECOND + 16 :],
    "object of nearly all bits": SOUND[: SECOND + 8] + b"\xf8" + b"\xff" * 7 + SOUND[SECOND + 16 :],
    "zeros": bytes(len(SOUND)),
}


@pytest.mark.parametrize("damage", HEAPS)
def test_damaged_collections_are_left_to_the_library(tmp_path: Path, damage: str) -> None:
    assert crafted(tmp_path / "x.h5", HEAPS[damage], lambda at: [(5, at, 1), (10, at, 2)]) is None


REFERENCES: dict[str, Callable[[int], tuple[int, int, int]]] = {
    "index 0": lambda at: (5, at, 0),
    "unknown index": lambda at: (5, at, 5),
    "index of all bits": lambda at: (5, at, 2**32 - 1),
    "index beyond 16 bits": lambda at: (5, at, 65536 + 1),
    "longer than the object": lambda at: (6, at, 1),
    "shorter than the object": lambda at: (4, at, 1),
    "longest": lambda at: (2**32 - 1, at, 1),
    "address of no collection": lambda at: (5, at + 8, 1),
    "address 0": lambda at: (5, 0, 1),
    "address near the end": lambda at: (5, at + 100_000, 1),
    "address beyond the file": lambda at: (5, 1 << 40, 1),
    "address of 62 bits": lambda at: (5, 1 << 62, 1),
    "address of 63 bits": lambda at: (5, 2**63 - 1, 1),
    "address of the highest bit": lambda at: (5, 2**63, 1),
    "address beyond the highest bit": lambda at: (5, 2**63 + at, 1),
    "address of all bits": lambda at: (5, 2**64 - 1, 1),
}


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("damage", REFERENCES)
def test_damaged_references_are_left_to_the_library(tmp_path: Path, damage: str, place: int) -> None:
    """Alone, or among sound ones."""

    def references(at: int) -> list[tuple[int, int, int]]:
        return [*[(5, at, 1), (10, at, 2)][:place], REFERENCES[damage](at)]

    if damage == "longest":  # more than the library is to take
        with pytest.raises(CorruptError, match="more than the file has"):
            crafted(tmp_path / "x.h5", SOUND, references)
        return
    assert crafted(tmp_path / "x.h5", SOUND, references) is None


def test_collections_that_claim_far_more_objects_than_they_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of 32 bytes says that it has 65,535 objects: no table is made of them."""
    tiny = collection([b""], size=32)[:32]
    tiny = tiny[:16] + b"\xff\xff" + tiny[18:]
    asked: list[int] = []
    honest = heap_room.new_array  # type: ignore[attr-defined]

    def noted(count: int, dtype: np.dtype[Any]) -> Any:
        asked.append(count * dtype.itemsize)
        assert asked[-1] < 1 << 24
        return honest(count, dtype)

    monkeypatch.setattr(heap_room, "new_array", noted)
    n_tiny = 1500
    assert (
        crafted(tmp_path / "x.h5", tiny * n_tiny, lambda at: [(1, at + 32 * n, 65535) for n in range(n_tiny)]) is None
    )
    assert asked


def test_a_file_that_ends_inside_a_collection(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    make(path, [b"abc" * 1000] * 250)
    last = path.read_bytes().rindex(b"GCOL")
    with h5py.File(path) as file:
        source = source_of(file["x"].id)
        with path.open("r+b") as plain:
            plain.truncate(last + 100)
        assert source.read(0, 250) is None


def test_mutated_bytes_never_break_our_function(tmp_path: Path) -> None:
    """Any bytes: an answer, None or a refusal, and an answer only where every length fits."""
    random = np.random.default_rng(20261115)
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        made = file.create_dataset("heap", data=np.frombuffer(SOUND * 4, dtype="u1"))
        at = made.id.get_offset()
        whole = [(len(data), at + n * len(SOUND), i + 1) for n in range(4) for i, data in enumerate(OBJECTS)]
        strings = file.create_dataset("x", (len(whole),), TEXT, chunks=(len(whole),))
        strings.id.write_direct_chunk((0,), np.array(whole, dtype=REFERENCE_DTYPE).tobytes())
        chunk = strings.id.get_chunk_info(0)
    sound = path.read_bytes()
    answers = 0
    with h5py.File(path) as file:
        source = source_of(file["x"].id)
        for _ in range(400):
            damaged = bytearray(sound)
            for _ in range(random.integers(1, 4)):
                begin, size = [(at, 4 * len(SOUND)), (chunk.byte_offset, chunk.size)][random.integers(2)]
                place = begin + int(random.integers(size))
                damaged[place] = random.choice([0, 1, 0x7F, 0x80, 0xFF, damaged[place] ^ 1 << int(random.integers(8))])
            path.write_bytes(damaged)
            with suppress(CorruptError):  # of more bytes than can be read at once
                found = None
                found = ours(source.read(0, len(whole)))
            answers += found is not None
            assert found is None or all(len(text) in (0, *map(len, OBJECTS)) or b"\0" not in text for text in found)
    assert 0 < answers < 400


def test_nested_lists_are_read_again_and_again(tmp_path: Path) -> None:
    """Each read of lists in lists walks their collections: that is not counted as looking at bytes twice."""
    rows = pa.array([[[False, False], [False, False], []]] * 8)
    cn.write(tmp_path / "x.h5", {"a": rows}, table="t", columns={"a": cn.column(chunk_rows=1)})
    with cn.open_table(tmp_path / "x.h5") as table:
        for _ in range(80):
            assert table["a"].to_arrow().to_pylist() == rows.to_pylist()
