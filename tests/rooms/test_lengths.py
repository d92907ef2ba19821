"""Elements of variable length that claim more than their file has: refused before the library takes memory for them."""

from __future__ import annotations

import resource
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import colonnade as cn
from colonnade import kernels
from colonnade.errors import CorruptError, UnsupportedError
from colonnade.format.headers import iter_messages
from colonnade.format.source import HDF5Source
from colonnade.h5 import attributes
from colonnade.pager.sources import BufferBytes

TEXT, NUMBERS = h5py.string_dtype(), h5py.vlen_dtype(np.dtype("f8"))
WORD = "a word of which there is one only"
LENGTH = 0x4000_0000  # bytes of a text, or eight times as many of numbers
MOST_GROWN = 64 << 20


def chunked(file: Any) -> None:
    file.create_dataset("x", data=[WORD, "b", "c"], dtype=TEXT, chunks=(2,), maxshape=(None,))


def contiguous(file: Any) -> None:
    file.create_dataset("x", data=["b", WORD], dtype=TEXT)


def scalar(file: Any) -> None:
    file.create_dataset("x", data=WORD, dtype=TEXT)


def matrix(file: Any) -> None:
    file.create_dataset("x", data=np.array([["b", "c"], ["d", WORD]], dtype=object), dtype=TEXT, chunks=(1, 2))


def contiguous_matrix(file: Any) -> None:
    file.create_dataset("x", data=np.array([["b", "c"], ["d", WORD]], dtype=object), dtype=TEXT)


def filtered(file: Any) -> None:
    file.create_dataset("x", data=[WORD, "b"], dtype=TEXT, chunks=(2,), compression="gzip")


def claim(path: Path, length: int, to: int = LENGTH) -> None:
    """Make the one element of this length claim another: the length that the address of its collection follows."""
    data = bytearray(path.read_bytes())
    heap = data.index(b"GCOL")
    reference = struct.pack("<IQ", length, heap)
    assert data.count(reference) == 1
    place = data.index(reference)
    begin = max(data.rfind(b"OHDR", 0, place), data.rfind(b"OCHK", 0, place))
    sums = [at for at in range(place, place + 2000) if begin >= 0 and _sum(data[begin:at]) == data[at : at + 4]]  # type: ignore[arg-type]
    data[place : place + 4] = struct.pack("<I", to)
    for at in sums:
        data[at : at + 4] = _sum(data[begin:at])  # type: ignore[arg-type]
    path.write_bytes(data)


def _sum(data: bytes) -> bytes:
    return kernels.lookup3(data).to_bytes(4, "little")


def grown(work: Callable[[], object]) -> int:
    """Bytes by which the most memory that the process ever held grew."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    work()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10


@pytest.mark.parametrize("make", [chunked, contiguous, scalar, matrix, contiguous_matrix])
def test_an_element_of_anndata_is_refused(tmp_path: Path, make: Callable[[Any], None]) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        make(file)
    with cn.open(path) as file:  # type: ignore[assignment]
        assert WORD in np.asarray(cn.read_element(file.h5["x"])).ravel().tolist()  # type: ignore[attr-defined]
    claim(path, len(WORD))

    def read() -> None:
        with cn.open(path) as file, pytest.raises(CorruptError, match=r"1,073,741,824 bytes, more than the file has"):
            cn.read_element(file.h5["x"])

    assert grown(read) < MOST_GROWN


def test_a_filtered_chunk_is_looked_into_too(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        filtered(file)
        mask, packed = file["x"].id.read_direct_chunk((0,))
        assert mask == 0
        rows = struct.pack("<I", LENGTH) + zlib.decompress(packed)[4:]
        file["x"].id.write_direct_chunk((0,), zlib.compress(rows))
    with cn.open(path) as opened, pytest.raises(CorruptError, match="more than the file has"):
        cn.read_element(opened.h5["x"])


@pytest.mark.parametrize("chunks", [None, (2,)])
def test_rows_that_only_the_library_reads_are_refused(tmp_path: Path, chunks: tuple[int] | None) -> None:
    path = tmp_path / "a.h5"
    cn.write(path, {"n": [1, 2]}, table="t")
    with h5py.File(path, "r+") as file:
        made = file["t"].create_dataset("x", (2,), NUMBERS, chunks=chunks)
        made[0], made[1] = np.arange(7.0), np.arange(3.0)
        file["t"].attrs["column-order"] = np.array(["n", "x"], dtype=file["t"].attrs["column-order"].dtype)
    with cn.open(path) as opened:
        assert opened["t"]["x"].to_arrow().to_pylist() == [[*range(7)], [0, 1, 2]]
    claim(path, 7)

    def read() -> None:
        with cn.open(path) as opened, pytest.raises(CorruptError, match=r"8,589,934,592 bytes, more than the file has"):
            opened["t"]["x"].to_arrow()

    assert grown(read) < MOST_GROWN


def test_rows_without_columns_take_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        group = file.create_group("data_frame")
        group.create_group("data")
        group.attrs["version"] = "1.0"
        group.attrs["row-count"] = np.uint64(2**62)
        group.create_dataset("column_names", data=np.array([], dtype=object), dtype=TEXT)
    with cn.open(path) as opened:
        table = opened["data_frame"]
        assert grown(table.to_arrow) < MOST_GROWN
        assert table.to_arrow().num_rows == len(table) == 2**62


@pytest.mark.parametrize("storage", ["virtual", "external", "external, absent"])
def test_rows_that_nobody_wrote_are_not_read_whole(tmp_path: Path, storage: str) -> None:
    path = tmp_path / "a.h5"
    (tmp_path / "raw").write_bytes(bytes(100))
    cn.write(path, {"n": [1]}, table="t")
    with h5py.File(path, "r+") as file:
        group = file["t"]
        del group["n"]
        if storage == "virtual":
            layout = h5py.VirtualLayout((2**32,), "i4")
            layout[:] = h5py.VirtualSource(".", "/nothing", (2**32,), "i4")
            group.create_virtual_dataset("n", layout)
        else:
            place = str(tmp_path / ("raw" if storage == "external" else "nothing"))
            group.create_dataset("n", (2**32,), "i4", external=[(place, 0, 2**34)])
    with cn.open(path) as opened:
        with pytest.raises(cn.errors.UsageError, match="never written"):
            opened["t"].to_arrow()
        if storage != "external, absent":  # which is an error of the library
            assert opened["t"][2**32 - 2 :].to_arrow()["n"].to_pylist() == [0, 0]
        with pytest.raises(UnsupportedError, match="it is not read"):
            cn.read_element(opened.h5["t/n"])


@pytest.mark.parametrize("name", ["said", "größe"], ids=["version 1", "version 3"])
@pytest.mark.parametrize("attribute", [WORD, ["b", WORD, "c"]], ids=["one", "several"])
@pytest.mark.parametrize("form", ["earliest", "latest"])
def test_an_attribute_is_refused(tmp_path: Path, name: str, attribute: Any, form: str) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver=form) as file:
        file.create_group("g").create_group("apart").attrs["padding"] = range(50)  # the header goes on elsewhere
        for number in range(6 if form == "latest" else 20):
            file["g"].attrs[f"before {number}"] = range(20)
        file["g"].attrs[name] = attribute
    with cn.open(path) as opened:
        assert attributes.read_stored(opened.h5["g"].id, name) == attribute
    claim(path, len(WORD))
    found: list[object] = []

    def read() -> None:
        with cn.open(path) as opened:
            found.append(attributes.read_stored(opened.h5["g"].id, name))
            found.append(attributes.inspect_stored(opened.h5["g"].id, name))

    assert grown(read) < MOST_GROWN
    assert found[0] is None
    assert "more bytes than the file has" in str(found[1])


@pytest.mark.parametrize("form", ["earliest", "latest"])
def test_what_was_an_attribute_once_is_none_of_a_header(tmp_path: Path, form: str) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver=form) as file:
        file.create_group("g").attrs["kind"] = "short"
        file.create_group("h").attrs["kind"] = WORD  # behind it, in nearby bytes
    claim(path, len(WORD))
    with cn.open(path) as opened:
        assert attributes.read_stored(opened.h5["g"].id, "kind") == "short"
        assert attributes.read_stored(opened.h5["h"].id, "kind") is None


def test_a_header_that_goes_on_in_itself_ends() -> None:
    """A block of a header that is continued in itself is read once more, and then refused."""
    block = struct.pack("<BBHIII", 1, 0, 1, 1, 1 << 16, 0) + struct.pack("<HHBxxxQQ", 0x10, 16, 0, 16, 1 << 16)
    data = block + bytes(1 << 16)
    read: list[int] = []

    class Counted(BufferBytes):
        def read_at(self, offset: int, n_bytes: int) -> bytes:
            read.append(n_bytes)
            return super().read_at(offset, n_bytes)

    source = HDF5Source(Counted(data, "a header"))
    with pytest.raises(CorruptError, match="in the same bytes again"):
        list(iter_messages(source, 0))
    assert sum(read) < 1 << 18
    with pytest.raises(CorruptError):
        list(iter_messages(HDF5Source(BufferBytes(b"", "empty")), 0))
    with pytest.raises(CorruptError, match="signature"):
        list(iter_messages(source, 3))  # no header begins there
