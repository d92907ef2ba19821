"""Rows read past the library are those that it reads: every filter, type and edge; what fails is left to it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pyarrow as pa
import pytest
from h5py import h5d, h5p, h5s, h5t

import colonnade as cn
from colonnade import kernels
from colonnade.filters import chunk_reader, read_plan
from colonnade.filters.codecs import new_array
from colonnade.h5 import capi, datasets
from colonnade.h5.chunks import open_source
from colonnade.h5.datasets import describe_dataset, reading
from colonnade.nodes.chunk_source import ChunkSource
from colonnade.stored_dtypes import raw_dtype

N_ROWS, CHUNK = 1003, 100
RNG = np.random.default_rng(20261115)

VALUES: dict[str, np.ndarray[Any, Any]] = {
    **{f"{order}{kind}": RNG.integers(0, 100, N_ROWS).astype(f"{order}{kind}")
       for order in "<>" for kind in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")},
    **{f"{order}{kind}": RNG.normal(size=N_ROWS).astype(f"{order}{kind}")
       for order in "<>" for kind in ("f2", "f4", "f8")},
    "near sorted": np.cumsum(RNG.integers(0, 9, N_ROWS)) - 700,
    "widest": np.array([-(2**63), 2**63 - 1] * N_ROWS)[:N_ROWS],
    "one value": np.full(N_ROWS, 7),
    "text": np.array([b"", b"a", b"abcde"] * N_ROWS, dtype="S5")[:N_ROWS],
    "flags": RNG.integers(0, 2, N_ROWS).astype(bool),
    "bytes": np.frombuffer(RNG.bytes(3 * N_ROWS), dtype="V3"),
}  # fmt: skip
FILTERS: dict[str, dict[str, Any]] = {
    "none": {},
    "shuffle": {"shuffle": True},
    "deflate": {"compression": "gzip"},
    "shuffle+deflate": {"shuffle": True, "compression": "gzip", "compression_opts": 1},
    "fletcher32": {"fletcher32": True},
    "shuffle+deflate+fletcher32": {"shuffle": True, "compression": "gzip", "fletcher32": True},
    "scale-offset": {"scaleoffset": 0},
    "scale-offset+shuffle+deflate": {"scaleoffset": 0, "shuffle": True, "compression": "gzip"},
    "zstd": hdf5plugin.Zstd(),
    "shuffle+zstd": {"shuffle": True, **hdf5plugin.Zstd()},
    "lz4": hdf5plugin.LZ4(),
    "lz4 in blocks": {"shuffle": True, **hdf5plugin.LZ4(nbytes=64)},
    "bitshuffle": hdf5plugin.Bitshuffle(cname="none"),
    "bitshuffle+lz4": hdf5plugin.Bitshuffle(cname="lz4"),
    "bitshuffle+zstd": hdf5plugin.Bitshuffle(cname="zstd"),
    "blosc": hdf5plugin.Blosc(),
    "blosc2": hdf5plugin.Blosc2(),
    "lzf": {"compression": "lzf"},
    "shuffle+lzf": {"shuffle": True, "compression": "lzf"},
    "bzip2": hdf5plugin.BZip2(),
}
IN_C_ONLY = ("scale-offset", "lz", "bitshuffle", "blosc")  # the NumPy form leaves these to the library
UNKNOWN = ("bzip2",) if kernels.FORM == "c" else ("bzip2", *IN_C_ONLY)
BITSHUFFLED = ("bitshuffle+lz4", "bitshuffle+zstd")
needs_c = pytest.mark.skipif(kernels.FORM != "c", reason="the NumPy form leaves these filters to the library")
RANGES = [(0, N_ROWS), (0, 1), (99, 2), (250, 100), (300, 100), (1000, 3), (1002, 1), (0, 0), (N_ROWS, 0)]
PLACES = [[0], [1002], [0, 1002], [5, 6, 7], [0, 99, 100, 199], list(range(0, N_ROWS, 7)), list(range(101, 199, 3)), []]


def combinations() -> Iterator[Any]:
    for name, values in VALUES.items():
        for filters, how in FILTERS.items():
            lossy = "scale-offset" in filters and values.dtype.kind not in "iu"
            if not lossy:
                yield pytest.param(values, how, not filters.startswith(UNKNOWN), id=f"{name} {filters}")


def make(path: Path, values: np.ndarray[Any, Any], how: dict[str, Any], **more: Any) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=values, chunks=(CHUNK,), maxshape=(None,), **how, **more)


def source_of(dataset: Any) -> ChunkSource | None:
    info = describe_dataset(dataset)
    return open_source(dataset, raw_dtype(info.type), info.filters)


def by_library(dataset: Any, start: int, count: int) -> np.ndarray[Any, Any]:
    with reading(dataset, describe_dataset(dataset), start, count) as image:
        return image.copy()


def assert_same(dataset: Any, source: ChunkSource) -> None:
    for start, count in RANGES:
        expected, found = by_library(dataset, start, count), source.read(start, count)
        assert found is not None
        assert found.dtype == expected.dtype
        assert found.tobytes() == expected.tobytes()
    whole = by_library(dataset, 0, N_ROWS)
    for rows in PLACES:
        found = source.take(np.array(rows, dtype=np.int64))
        assert found is not None
        assert found.tobytes() == whole[rows].tobytes()


@pytest.mark.parametrize(("values", "how", "known"), list(combinations()))
def test_the_same_rows_as_the_library(tmp_path: Path, values: Any, how: dict[str, Any], known: bool) -> None:
    """Every filter that can be undone here on every type; others are the library's."""
    path = tmp_path / "x.h5"
    make(path, values, how)
    with h5py.File(path) as file:
        source = source_of(file["x"].id)
        assert (source is not None) == known
        if source is not None and not whole_span(file["x"].id):
            assert_same(file["x"].id, source)


def whole_span(dataset: Any) -> bool:
    """Whether it is a dataset that HDF5 itself cannot read: scale-offset over all values of a type."""
    try:
        by_library(dataset, 0, N_ROWS)
    except cn.errors.CorruptError:
        return True
    return False


@needs_c
@pytest.mark.parametrize("fill", [0, -1, 55, 2**63 - 1])
def test_scale_offset_with_a_fill(tmp_path: Path, fill: int) -> None:
    """The filter keeps the fill apart from the values."""
    values = np.arange(N_ROWS) % 60
    values[::9] = fill
    make(tmp_path / "x.h5", values, {"scaleoffset": 0}, fillvalue=fill)
    with h5py.File(tmp_path / "x.h5") as file:
        source = source_of(file["x"].id)
        assert source is not None
        assert_same(file["x"].id, source)


@needs_c
@pytest.mark.parametrize("decimals", [0, 2, 5])
@pytest.mark.parametrize("dtype", ["<f4", "<f8", ">f8"])
def test_scale_offset_of_floats(tmp_path: Path, dtype: str, decimals: int) -> None:
    """Some decimals are kept: the same ones by both ways."""
    make(tmp_path / "x.h5", (RNG.normal(size=N_ROWS) * 100).astype(dtype), {"scaleoffset": decimals})
    with h5py.File(tmp_path / "x.h5") as file:
        source = source_of(file["x"].id)
        assert source is not None
        assert_same(file["x"].id, source)


def test_n_bit_is_read_by_the_library_where_it_packs(tmp_path: Path) -> None:
    """An integer of 12 bits; and one of all bits, where the filter does nothing."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for name, bits in (("packed", 12), ("whole", 16)):
            kind = h5t.STD_I16LE.copy()
            kind.set_precision(bits)
            creation = h5p.create(h5p.DATASET_CREATE)
            creation.set_chunk((CHUNK,))
            creation.set_filter(5, 1, ())
            made = h5d.create(file.id, name.encode(), kind, h5s.create_simple((N_ROWS,)), dcpl=creation)
            made.write(h5s.ALL, h5s.ALL, np.arange(N_ROWS, dtype="i2") - 500)
    with h5py.File(tmp_path / "x.h5") as file:
        assert source_of(file["packed"].id) is None
        source = source_of(file["whole"].id)
        assert source is not None
        assert_same(file["whole"].id, source)


def test_a_chunk_that_skipped_a_filter(tmp_path: Path) -> None:
    """Its mask says so."""
    make(tmp_path / "x.h5", np.arange(N_ROWS), {"shuffle": True, "compression": "gzip"})
    with h5py.File(tmp_path / "x.h5", "r+") as file:
        plain = np.arange(100) + 5000
        file["x"].id.write_direct_chunk((200,), plain.tobytes(), filter_mask=3)
        file["x"].id.write_direct_chunk((300,), plain.view("u1").reshape(-1, 8).T.tobytes(), filter_mask=2)
    with h5py.File(tmp_path / "x.h5") as file:
        source = source_of(file["x"].id)
        assert source is not None
        assert_same(file["x"].id, source)
        assert file["x"][200] == file["x"][300] == 5000


def test_partial_chunks_without_filters(tmp_path: Path) -> None:
    """A storage in which the last chunk is not filtered: the library knows."""
    creation = h5p.create(h5p.DATASET_CREATE)
    creation.set_chunk((CHUNK,))
    creation.set_shuffle()
    assert capi._LIBRARY.H5Pset_chunk_opts(ctypes.c_int64(creation.id), ctypes.c_uint(2)) >= 0
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_libver_bounds(h5py.h5f.LIBVER_LATEST, h5py.h5f.LIBVER_LATEST)
    with h5py.File(h5py.h5f.create(bytes(tmp_path / "x.h5"), fapl=access)) as file:
        made = h5d.create(file.id, b"x", h5t.NATIVE_INT64, h5s.create_simple((N_ROWS,)), dcpl=creation)
        made.write(h5s.ALL, h5s.ALL, np.arange(N_ROWS))
    with h5py.File(tmp_path / "x.h5") as file:
        assert source_of(file["x"].id) is None


def test_contiguous_rows_are_read_past_the_library(tmp_path: Path) -> None:
    """As if they were chunks, one behind the other; where there is nothing in the file yet, by the library."""
    values = np.arange(200_000, dtype="i4") * 7
    rows = np.array([0, 5, 65_535, 65_536, 131_071, 150_000, 199_999])
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = values
        file.create_dataset("unwritten", shape=(5,), dtype="i8")
    with h5py.File(tmp_path / "x.h5") as file:
        source = source_of(file["x"].id)
        assert source is not None
        for start, count in ((0, 200_000), (65_530, 12), (199_999, 1), (7, 0)):
            assert np.array_equal(source.read(start, count), values[start : start + count])  # type: ignore[arg-type]
        assert np.array_equal(source.take(rows), values[rows])  # type: ignore[arg-type]
        unwritten = source_of(file["unwritten"].id)
        assert unwritten is None or unwritten.read(0, 5) is None


def test_other_storages_are_read_by_the_library(tmp_path: Path) -> None:
    """Compact, virtual, a user block, a file in memory."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["contiguous"] = np.arange(5)
        layout = h5py.VirtualLayout((5,), "i8")
        layout[:] = h5py.VirtualSource(".", "contiguous", (5,))
        file.create_virtual_dataset("virtual", layout)
        assert source_of(file["virtual"].id) is None
    with h5py.File(tmp_path / "block.h5", "w", userblock_size=512) as file:
        file.create_dataset("x", data=np.arange(N_ROWS), chunks=(CHUNK,))
        assert source_of(file["x"].id) is None
    with h5py.File("memory", "w", driver="core", backing_store=False) as file:
        file.create_dataset("x", data=np.arange(N_ROWS), chunks=(CHUNK,))
        assert source_of(file["x"].id) is None


def test_chunks_that_were_never_written(tmp_path: Path) -> None:
    """They are the fill: of few chunks the library says so."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        made = file.create_dataset("x", shape=(N_ROWS,), dtype="i8", chunks=(CHUNK,), fillvalue=3)
        made[250:260] = 9
    with h5py.File(tmp_path / "x.h5") as file:
        source = source_of(file["x"].id)
        assert source is not None
        assert source.read(0, 300) is None
        assert source.read(210, 60).tolist() == file["x"][210:270].tolist()
        assert source.take(np.array([5, 255])) is None


@pytest.mark.parametrize("kind", ["<i4", ">i4", "<f8", ">f4", "u1", "?", "S3"])
@pytest.mark.parametrize("fill", [None, 7])
def test_many_chunks_that_were_never_written(tmp_path: Path, kind: str, fill: int | None) -> None:
    """A file may claim millions: those that were not written are the fill, without the library."""
    path, n_rows = tmp_path / "x.h5", 16 * 4000
    with h5py.File(path, "w") as file:
        fillvalue = None if fill is None else np.array(fill).astype(kind)[()]
        made = file.create_dataset("x", (n_rows,), kind, chunks=(16,), compression=1, fillvalue=fillvalue)
        for first in (0, 9000, 9040, 9056):  # chunks that follow each other, and some that do not
            made[first : first + 20] = np.ones(20, kind)
        expected = made[:]
    with h5py.File(path) as file:
        source = source_of(file["x"].id)
        assert source is not None
        found = [source.read(start, 8000) for start in range(0, n_rows, 8000)]
        for start, one in zip(range(0, n_rows, 8000), found, strict=True):
            assert one is not None and one.dtype.isnative
            np.testing.assert_array_equal(one, expected[start : start + 8000])


def test_the_library_is_asked_for_few_chunks_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes memory for each, whether it was written or not."""
    path, n_rows = tmp_path / "x.h5", 16 * 300_000
    kind = np.dtype([("a", "i4"), ("b", "S3")])  # which is never read past it
    with h5py.File(path, "w") as file:
        made = file.create_dataset("x", (n_rows,), kind, chunks=(16,), compression=1)
        made[n_rows - 20 :] = np.ones(20, kind)
    asked: list[int] = []
    read = capi.read

    def count(dataset: Any, in_memory: Any, space: Any, selected: Any, address: int) -> None:
        asked.append(selected.get_select_npoints())
        read(dataset, in_memory, space, selected, address)

    monkeypatch.setattr(capi, "read", count)
    with h5py.File(path) as file:
        info = describe_dataset(file["x"].id)
        with reading(file["x"].id, info, 7, 100_000, 40) as image:
            np.testing.assert_array_equal(image, file["x"][7:4_000_007:40])
        with reading(file["x"].id, info, n_rows - 500_000, 500_000) as image:
            assert image["a"].sum() == 20
    assert max(asked) == datasets.MOST_CHUNKS * 16 and len(asked) == 62 + 8 and sum(asked) == 600_000


def test_rows_that_nobody_fills_are_left_to_the_library(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (64_000,), "i4", chunks=(16,), fill_time="never")
    with h5py.File(path) as file:
        source = source_of(file["x"].id)
        assert source is not None and source.read(0, 64_000) is None


def test_more_rows_than_fit_are_refused_before_memory_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file may claim any number of rows, hardly any of them written."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", shape=(2**60,), dtype="i8", chunks=(CHUNK,))[0] = 7

    def refuse(*_: Any) -> None:
        raise AssertionError("memory was asked for")

    with h5py.File(tmp_path / "x.h5") as file:
        source, most = source_of(file["x"].id), read_plan.MOST_AT_ONCE // 8
        assert source is not None
        with monkeypatch.context() as patch:
            patch.setattr(chunk_reader, "new_array", refuse)
            for count in (2**60, most + 1):
                assert source.read(0, count) is None
                with pytest.raises(cn.errors.UnsupportedError, match="more than can be read at once"):
                    by_library(file["x"].id, 0, count)
            assert source.take(np.lib.stride_tricks.as_strided(np.zeros(1, "i8"), (most + 1,), (0,))) is None
            with pytest.raises(AssertionError, match="memory was asked for"):
                source.read(0, 1)


def test_a_file_that_is_being_changed(tmp_path: Path) -> None:
    """What is not flushed is flushed first: in our own files and in those of the caller."""
    path = tmp_path / "x.h5"
    columns = {"x": cn.column(chunk_rows=CHUNK, filters="shuffle+deflate")}
    cn.write(path, {"x": np.arange(N_ROWS)}, "t", columns=columns)
    with cn.open(path, "r+") as ours:
        table = ours["t"]
        with ours.transaction():
            table.update("x", [5, 150], [-5, -150])
            assert table["x"][[5, 150]].tolist() == [-5, -150]
            ours.h5["t/x"][7] = -7
            assert table["x"][4:9].tolist() == [4, -5, 6, -7, 8]
            table.append({"x": [1, 2, 3]})
            assert table["x"][1000:].tolist() == [1000, 1001, 1002, 1, 2, 3]
    with h5py.File(path, "r+") as theirs:
        table = cn.open(theirs)["t"]
        assert source_of(theirs["t/x"].id) is not None
        theirs["t/x"][20] = -20
        assert table["x"][19:22].tolist() == [19, -20, 21]
        theirs["t/x"][21] = -21
        assert table["x"][19:22].tolist() == [19, -20, -21]


@pytest.mark.skipif(kernels.FORM != "c", reason="the NumPy form leaves the heap to the library")
def test_the_path_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scan of plain columns asks the library for no row."""
    path = tmp_path / "x.h5"
    cn.write(
        path,
        {
            "x": np.arange(N_ROWS),
            "y": np.arange(N_ROWS) / 3,
            "s": ["abc"] * N_ROWS,
            "v": [f"row {row}" for row in range(N_ROWS)],
            "b": [True, False, None] * 334 + [None],
        },
        columns={"v": cn.column(strings="variable")},
    )

    def refuse(*_: Any) -> None:
        raise AssertionError("the library was asked")

    for mode in ("r", "r+"):
        with cn.open(path, mode) as file:
            expected = file["table"].to_arrow()
            with monkeypatch.context() as patch:
                patch.setattr(capi, "read", refuse)
                assert file["table"].to_arrow() == expected
                assert file["table"].take([3, 900]).to_arrow() == expected.take([3, 900])
                assert file["table"].where("x > 1000 and y > 1").row_numbers().tolist() == [1001, 1002]


def damage_size(path: Path, chunk: Any) -> None:
    with path.open("r+b") as file:
        file.truncate(chunk.byte_offset + 3)


def damage_bytes(path: Path, chunk: Any) -> None:
    with path.open("r+b") as file:
        file.seek(chunk.byte_offset)
        file.write(bytes((7 * byte + 255) % 256 for byte in range(chunk.size)))


@pytest.mark.parametrize(
    "filters",
    [
        "deflate",
        "shuffle+deflate+fletcher32",
        "zstd",
        *(pytest.param(name, marks=needs_c) for name in ("scale-offset", "lz4 in blocks", *BITSHUFFLED)),
    ],
)
def test_damaged_chunks_are_refused(tmp_path: Path, filters: str) -> None:
    """Bytes that are no chunk: never an answer of ours, unless the library gives the same."""
    path = tmp_path / "x.h5"
    make(path, np.arange(N_ROWS) * 1000, FILTERS[filters])
    with h5py.File(path) as file:
        chunk = file["x"].id.get_chunk_info(3)
    damage_bytes(path, chunk)
    with h5py.File(path) as file:
        source = source_of(file["x"].id)
        assert source is not None
        try:
            found = source.read(300, 100)
        except cn.errors.CorruptError as error:
            found = None
            assert error.path == "/x" and error.row == 300
        try:
            expected = by_library(file["x"].id, 300, 100)
        except cn.errors.CorruptError:
            assert found is None or filters == "scale-offset"
        else:
            assert found is None or found.tobytes() == expected.tobytes()
        assert source.read(200, 100).tolist() == file["x"][200:300].tolist()


def test_the_rows_of_a_damaged_chunk_are_told(tmp_path: Path) -> None:
    """Chunks are unpacked many in a call: the error is about the one that is damaged."""
    path = tmp_path / "x.h5"
    make(path, np.arange(N_ROWS) * 1000, FILTERS["shuffle+deflate"])
    with h5py.File(path) as file:
        chunk, rows = file["x"].id.get_chunk_info(3), file["x"].chunks[0]
    damage_bytes(path, chunk)
    with h5py.File(path) as file:
        source = source_of(file["x"].id)
        assert source is not None
        every_other = np.arange(0, 6 * rows, 2)
        with pytest.raises(cn.errors.CorruptError, match=f"rows {3 * rows} to {4 * rows - 1}: ") as told:
            source.read(0, 6 * rows)
        assert told.value.row == 3 * rows
        with pytest.raises(cn.errors.CorruptError, match=f"rows {3 * rows} to {4 * rows - 2}: "):
            source.take(every_other)


def test_a_file_that_ends_inside_a_chunk(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    make(path, RNG.integers(0, 2**62, N_ROWS), {"compression": "gzip"})
    with h5py.File(path) as file:
        last = max((file["x"].id.get_chunk_info(n) for n in range(11)), key=lambda info: info.byte_offset)
        source = source_of(file["x"].id)
        damage_size(path, last)
        assert source is not None
        assert source.read(last.chunk_offset[0], 3) is None


def test_a_deflated_chunk_that_unpacks_to_far_more(tmp_path: Path) -> None:
    """A bomb is put out after a chunk's worth of bytes."""
    import zlib

    make(tmp_path / "x.h5", np.arange(N_ROWS), {"compression": "gzip"})
    with h5py.File(tmp_path / "x.h5", "r+") as file:
        file["x"].id.write_direct_chunk((300,), zlib.compress(bytes(60_000_000)))
    with h5py.File(tmp_path / "x.h5") as file:
        source = source_of(file["x"].id)
        assert source is not None
        with pytest.raises(cn.errors.CorruptError, match="rows 300 to 399: the rows cannot be read"):
            source.read(300, 100)  # and the library is not asked: it would read behind the end of the chunk


@pytest.mark.parametrize("filters", ["zstd", *(pytest.param(name, marks=needs_c) for name in ("lz4", *BITSHUFFLED))])
def test_a_chunk_that_unpacks_to_fewer_bytes(tmp_path: Path, filters: str) -> None:
    """Arrow would leave the rest as the memory was."""
    make(tmp_path / "x.h5", np.arange(N_ROWS), FILTERS[filters])
    part = pa.compress(bytes(750), "zstd" if "zstd" in filters else "lz4_raw", asbytes=True)
    head = (800).to_bytes(8, "big") + (800 if filters == "lz4" else 768).to_bytes(4, "big")
    with h5py.File(tmp_path / "x.h5", "r+") as file:
        whole = part if filters == "zstd" else head + len(part).to_bytes(4, "big") + part + bytes(32)
        file["x"].id.write_direct_chunk((300,), whole)
    with h5py.File(tmp_path / "x.h5") as file:
        source = source_of(file["x"].id)
        assert source is not None
        with pytest.raises(cn.errors.CorruptError, match="rows 300 to 399: the rows cannot be read"):
            source.read(300, 100)  # and the library is not asked: it would read behind the end of the chunk


def test_a_closed_file_is_not_read(tmp_path: Path) -> None:
    """Its number may be another file's by now."""
    make(tmp_path / "x.h5", np.arange(N_ROWS), {})
    with h5py.File(tmp_path / "x.h5") as file:
        source = source_of(file["x"].id)
    assert source is not None
    assert source.read(0, 10) is None


def test_new_arrays_hold_what_is_put_into_them() -> None:
    made = new_array(5, np.dtype("<i4"))
    made[...] = np.arange(5)
    assert made.tolist() == [0, 1, 2, 3, 4]
    assert len(new_array(0, np.dtype("S3"))) == 0


# -- written past the library --

WRITTEN = ("none", "shuffle", "deflate", "shuffle+deflate", "fletcher32", "shuffle+deflate:9+fletcher32", "zstd:3")


@pytest.mark.parametrize("filters", [*WRITTEN, "scale-offset"])
@pytest.mark.parametrize("kind", ["i1", "u1", "<i8", "<u4", "f4", "f8", "S3"])
def test_what_is_written_past_the_library_it_reads(tmp_path: Path, kind: str, filters: str) -> None:
    """Whole chunks, a short one, appends, cells: h5py reads what was meant."""
    if filters == "scale-offset" and kind[-2] not in "iu":
        pytest.skip("scale-offset keeps some decimals of floats only")
    path = tmp_path / "x.h5"
    values = (np.arange(N_ROWS) % 90 + 1).astype(kind)
    cn.write(path, {"x": values[:550]}, "t", columns={"x": cn.column(chunk_rows=CHUNK, filters=filters)})
    with cn.open(path, "r+") as file:
        file["t"].append({"x": values[550:701]})
        file["t"].append({"x": values[701:]})
        file["t"].update("x", [3, 555, 1002], values[[7, 8, 9]])
    values[[3, 555, 1002]] = values[[7, 8, 9]]
    with h5py.File(path) as file:
        assert file["t/x"][:].tolist() == values.tolist()
        assert bool(file["t/x"].id.get_create_plist().get_nfilters()) == (filters != "none")
    with cn.open(path) as file:
        expected = [value.decode() for value in values.tolist()] if kind == "S3" else values.tolist()
        assert file["t"]["x"][:].tolist() == expected


@pytest.mark.parametrize("kind", ["i1", "u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8"])
def test_scale_offset_of_integers_that_need_all_bits(tmp_path: Path, kind: str) -> None:
    """HDF5 since 1.14.4 cannot read its own chunks of these: ours skip the filter, and are read by both."""
    bounds = np.iinfo(kind)
    values = np.array([bounds.min, 3, bounds.max, 4] * 100, dtype=kind)
    path = tmp_path / "x.h5"
    columns = {"x": cn.column(chunk_rows=CHUNK, filters="scale-offset", fill=None)}
    cn.write(path, {"x": values[:350]}, "t", columns=columns)
    with cn.open(path, "r+") as file:
        file["t"].append({"x": values[350:]})
    with h5py.File(path) as file:
        assert file["t/x"][:].tolist() == values.tolist()
    assert cn.read(path).column("x").to_pylist() == values.tolist()


def test_rows_behind_a_short_chunk_are_the_fill(tmp_path: Path) -> None:
    """Another tool may make the dataset longer without writing: it must not find what we left there."""
    path = tmp_path / "x.h5"
    columns = {"x": cn.column(chunk_rows=CHUNK, filters="scale-offset", fill=-9)}
    cn.write(path, {"x": np.arange(130)}, "t", columns=columns)
    with h5py.File(path, "r+") as file:
        file["t/x"].resize((150,))
        assert file["t/x"][130:].tolist() == [-9] * 20


def test_integers_are_packed_where_it_pays(tmp_path: Path) -> None:
    """Near-sorted and small integers by scale-offset, random ones as they are, repeats of one pattern by deflate."""
    path = tmp_path / "x.h5"
    data = {
        "ts": np.cumsum(RNG.integers(0, 100, 70_000)),
        "small": RNG.integers(0, 9, 70_000),
        "random": RNG.integers(-(2**62), 2**62, 70_000),
        "pattern": np.tile(RNG.integers(-(2**62), 2**62, 7), 10_000),
    }
    cn.write(path, data, "t")
    with cn.open(path) as file:
        found = {name: [step.name for step in file["t"][name].info.filters] for name in data}
    assert found == {
        "ts": ["scale-offset"], "small": ["scale-offset"], "random": [], "pattern": ["shuffle", "deflate"]
    }  # fmt: skip


@pytest.mark.parametrize(
    ("filters", "values"),
    [
        ("deflate+lz4", ["a", "bcd", "", "e"]),
        ("zstd+shuffle+lz4", ["a", "bcd", "", "e"]),
        ("deflate+lz4", [1, 2, 3, 4]),
        ("deflate+bitshuffle", [1, 2, 3, 4]),
    ],
)
def test_a_filter_behind_another_that_packs(tmp_path: Path, filters: str, values: list[Any]) -> None:
    """How many bytes it must unpack to, only the library knows: that is no damage."""
    path = tmp_path / "x.h5"
    cn.write(path, {"x": values}, "t", columns={"x": {"filters": filters, "chunk_rows": 3}})
    with cn.open(path, "r+") as file:
        file["t"].append({"x": values})
        file["t"].truncate(5)
    assert cn.read(path, "t")["x"].to_pylist() == [*values, values[0]]
    assert cn.check(path, deep=True) == []
