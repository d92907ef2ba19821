"""Chunks of blosc and blosc2, unpacked here, are what their own plugins unpack; damaged ones never break us."""

from __future__ import annotations

import random
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest

from colonnade import kernels
from colonnade.filters.blosc import unpack_blosc, unpack_frame
from colonnade.h5.chunks import open_source
from colonnade.h5.datasets import describe_dataset
from colonnade.stored_dtypes import raw_dtype
from tests.rooms.test_chunks import by_library

pytestmark = pytest.mark.skipif(kernels.FORM != "c", reason="the NumPy form leaves blosc to the library")
RNG = np.random.default_rng(20261115)
CODECS = ("blosclz", "lz4", "lz4hc", "zlib", "zstd")
SHUFFLES = (0, 1, 2)
KINDS = {"u1": 1, "<i2": 2, ">i4": 4, "<i8": 8, "<f8": 8, "V16": 16, "V3": 3, "V20": 20}
CHUNKS = {"short": (100, 250), "odd": (1003, 1003), "of many blocks": (150_001, 150_007)}
"""Rows of a chunk and in all: the last chunk is cut short by the dataset's end, but stored whole."""


def values_of(kind: str, n_rows: int) -> np.ndarray[Any, Any]:
    """Rows that pack well, then some that hardly do, then zeros."""
    size = KINDS[kind]
    even = np.cumsum(RNG.integers(0, 3, n_rows * size // 8 + 1)).view("u1")[: n_rows * size].copy()
    middle, last = len(even) // 2, len(even) * 3 // 4
    even[middle:last] = RNG.integers(0, 256, last - middle)
    even[last:] = 0
    return even.view(kind)


def ways() -> Iterator[Any]:
    for codec in CODECS:
        for shuffle in SHUFFLES:
            yield pytest.param(hdf5plugin.Blosc(cname=codec, shuffle=shuffle), id=f"blosc {codec} {shuffle}")  # type: ignore[arg-type]
            yield pytest.param(hdf5plugin.Blosc2(cname=codec, filters=shuffle), id=f"blosc2 {codec} {shuffle}")  # type: ignore[arg-type]
    for level in (1, 9):
        yield pytest.param(hdf5plugin.Blosc(cname="blosclz", clevel=level), id=f"blosc at level {level}")
        yield pytest.param(hdf5plugin.Blosc2(cname="blosclz", clevel=level), id=f"blosc2 at level {level}")
    yield pytest.param({"shuffle": True, "fletcher32": True, **hdf5plugin.Blosc(cname="lz4")}, id="among others")


def make(path: Path, values: np.ndarray[Any, Any], chunk: int, how: dict[str, Any]) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=values, chunks=(chunk,), maxshape=(None,), **how)


def chunk_of(path: Path, values: np.ndarray[Any, Any], how: dict[str, Any]) -> bytes:
    """These values as one chunk, as the plugin stores it."""
    make(path, values, len(values), how)
    with h5py.File(path) as file:
        skipped, data = file["x"].id.read_direct_chunk((0,))
    assert not skipped
    return bytes(data)


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", list(ways()))
def test_the_same_rows_as_the_plugin(tmp_path: Path, how: dict[str, Any], kind: str, chunks: str) -> None:
    """All codecs, shuffles and sizes of items."""
    chunk, n_rows = CHUNKS[chunks]
    make(tmp_path / "x.h5", values_of(kind, n_rows), chunk, how)
    with h5py.File(tmp_path / "x.h5") as file:
        dataset = file["x"].id
        info = describe_dataset(dataset)
        source = open_source(dataset, raw_dtype(info.type), info.filters)
        assert source is not None
        whole = by_library(dataset, 0, n_rows)
        for start, count in ((0, n_rows), (n_rows - 5, 5), (chunk - 3, 2)):
            found = source.read(start, count)
            assert found is not None
            assert found.tobytes() == whole[start : start + count].tobytes()


@pytest.mark.parametrize("value", [0, 7, 0x0707070707070707, np.nan])
@pytest.mark.parametrize("plugin", [hdf5plugin.Blosc, hdf5plugin.Blosc2])
def test_one_value_alone(tmp_path: Path, plugin: Any, value: float) -> None:
    """blosc2 has short ways to say so: nothing but zeros, a stream of one byte."""
    values = np.full(5000, value)
    data, out = chunk_of(tmp_path / "x.h5", values, plugin()), np.empty(40_000, dtype="u1")
    (unpack_blosc if plugin is hdf5plugin.Blosc else unpack_frame)(memoryview(data), out)
    assert out.tobytes() == values.tobytes()


# -- damage --

SIZE = 40_000


def refused(unpack: Any, data: bytes, size: int = SIZE) -> bool:
    try:
        unpack(memoryview(data), np.empty(size, dtype="u1"))
    except ValueError:
        return True
    return False


def changed(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


HEADS: dict[str, tuple[int, bytes]] = {
    "size": (4, (SIZE + 8).to_bytes(4, "little")),
    "size of all bits": (4, b"\xff" * 4),
    "no items": (3, b"\0"),
    "no block": (8, bytes(4)),
    "block larger than the chunk": (8, (SIZE + 1).to_bytes(4, "little")),
    "blocks of one byte": (8, b"\1\0\0\0"),
    "stored size": (12, b"\xff\xff\xff\x7f"),
    "version 1": (0, b"\1"),
    "version 3": (0, b"\3"),
    "delta": (2, b"\x29"),
    "codec 7": (2, b"\xf1"),
    "codec 2, snappy": (2, b"\x41"),
    "codec 5": (2, b"\xb1"),
    "long head": (2, b"\x25"),
    "not packed": (2, b"\x23"),
    "block that begins behind the end": (16, b"\xff\xff\xff\x7f"),
    "block that begins at the end": (16, b"\xfe\xff\xff\xff"),
    "stream of no size": (20, bytes(4)),
    "stream of a negative size": (20, b"\xfe\xff\xff\xff\1"),
    "stream longer than the chunk": (20, b"\xff\xff\xff\x7f"),
}


@pytest.mark.parametrize("damage", HEADS)
def test_heads_that_make_no_sense(tmp_path: Path, damage: str) -> None:
    data = chunk_of(tmp_path / "x.h5", np.arange(SIZE // 8), hdf5plugin.Blosc(cname="lz4"))
    assert not refused(unpack_blosc, data)
    assert refused(unpack_blosc, changed(data, *HEADS[damage]))
    assert refused(unpack_blosc, data, SIZE - 8)
    assert refused(unpack_blosc, data[:-1])
    assert refused(unpack_blosc, data[:10]) and refused(unpack_blosc, b"")


FRAMES: dict[str, tuple[int, bytes]] = {
    "no frame": (2, b"c"),
    "sparse": (26, b"\1"),
    "head behind the end": (11, b"\x7f\xff\xff\xff"),
    "head of no length": (11, bytes(4)),
    "length": (16, b"\xff" * 8),
    "size": (30, b"\xff" * 8),
    "stored size": (39, b"\xff" * 8),
    "stored size of 0": (39, bytes(8)),
    "version 6": (97, b"\6"),
    "delta": (97 + 16, b"\3"),
    "two filters": (97 + 16, b"\1"),
    "filter of a plugin": (97 + 21, b"\x23"),
    "setting of a filter": (97 + 29, b"\4"),
    "dictionary": (97 + 31, b"\1"),
    "lazy": (97 + 31, b"\x08"),
    "zeros and more": (97 + 31, b"\x10"),
    "run of NaN": (97 + 31, b"\x20"),
    "codec of a plugin": (97 + 2, b"\xc5"),
}


@pytest.mark.parametrize("damage", FRAMES)
def test_frames_that_are_not_plain(tmp_path: Path, damage: str) -> None:
    data = chunk_of(tmp_path / "x.h5", np.arange(SIZE // 8), hdf5plugin.Blosc2(cname="lz4"))
    assert data[97] == 5  # where the head of the buffer is
    assert not refused(unpack_frame, data)
    assert refused(unpack_frame, changed(data, *FRAMES[damage]))


def test_a_frame_whose_first_buffer_is_not_its_own(tmp_path: Path) -> None:
    """A frame that was changed keeps its old buffer; the new one begins behind it."""
    data = chunk_of(tmp_path / "x.h5", np.arange(SIZE // 8), hdf5plugin.Blosc2())
    place = 97 + int.from_bytes(data[39:47], "big") + 32
    assert data[place : place + 8] == bytes(8)
    assert refused(unpack_frame, changed(data, place, b"\x20"))
    assert refused(unpack_frame, changed(data, place + 7, b"\x81"))


@pytest.mark.parametrize(
    ("size", "token", "is_sound"),
    [(0, 9, True), (-200, 1, True), (-200, 2, False), (-256, 1, False), (-(2**31), 1, False)],
)
def test_streams_of_one_byte(tmp_path: Path, size: int, token: int, is_sound: bool) -> None:
    """Their stored size tells the byte: up to 255, led by a minus; all zeros need no byte more."""
    data = chunk_of(tmp_path / "x.h5", np.arange(SIZE // 8), hdf5plugin.Blosc2(cname="lz4", filters=0))
    at = 97 + int.from_bytes(data[97 + 32 : 97 + 36], "little")
    assert data[97 + 2] & 16 and data[97 + 8 : 97 + 12] == SIZE.to_bytes(4, "little")  # one block, one stream
    made, out = changed(data, at, size.to_bytes(4, "little", signed=True) + bytes([token])), np.empty(SIZE, "u1")
    assert refused(unpack_frame, made) != is_sound
    if is_sound:
        unpack_frame(memoryview(made), out)
        assert out.tobytes() == bytes([-size]) * SIZE


def test_more_blocks_than_there_ever_are() -> None:
    """Each costs time: blocks of one byte are not gone through."""
    n_bytes = 1 << 20
    sizes = 16 + 8 * n_bytes
    head = b"\2\1\x20\1" + b"".join(n.to_bytes(4, "little") for n in (n_bytes, 1, sizes + 8))
    data = head + sizes.to_bytes(4, "little") * (2 * n_bytes) + b"\1\0\0\0x" + bytes(3)
    with pytest.raises(ValueError, match="too many blocks"):
        unpack_blosc(memoryview(data), np.empty(n_bytes, "u1"))


def test_a_stream_that_unpacks_to_far_more(tmp_path: Path) -> None:
    """A bomb is put out after a stream's worth of bytes."""
    data = chunk_of(tmp_path / "x.h5", np.arange(SIZE // 8), hdf5plugin.Blosc(cname="zlib", shuffle=0))
    bomb = zlib.compress(bytes(50_000_000))
    head = changed(data[:16], 12, (24 + len(bomb)).to_bytes(4, "little"))
    assert head[2] >> 5 == 3 and int.from_bytes(head[8:12], "little") == SIZE
    whole = changed(head, 2, bytes([head[2] | 16])) + (20).to_bytes(4, "little") + len(bomb).to_bytes(4, "little")
    assert refused(unpack_blosc, whole + bomb)


def mutated(chance: random.Random, data: bytes) -> bytes:
    """The same chunk cut off, or with bits and sizes changed, mostly where sizes are."""
    made = bytearray(data)
    how = chance.randrange(4)
    if how == 0:
        del made[chance.randrange(len(made)) :]
        if chance.random() < 0.7 and made[2:10] != b"b2frame\0":
            made[12:16] = len(made).to_bytes(4, "little")
    elif how == 1:
        at = chance.randrange(len(made))
        made[at : at + 4] = chance.choice([b"\xff" * 4, bytes(4), b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\1\0\0\0"])
    else:
        reach = len(made) if how == 2 else min(200, len(made))
        for _ in range(chance.randrange(1, 4)):
            made[chance.randrange(reach)] ^= 1 << chance.randrange(8)
    return bytes(made)


def unpack_mutated(folder: Path, n_times: int) -> None:
    """Run in a process of its own."""
    chance = random.Random(20261115)
    values = values_of("<i8", SIZE // 8)
    for codec in CODECS:
        for shuffle in SHUFFLES:
            for plugin, setting in ((hdf5plugin.Blosc, "shuffle"), (hdf5plugin.Blosc2, "filters")):
                data = chunk_of(folder / "x.h5", values, plugin(cname=codec, **{setting: shuffle}))  # type: ignore[arg-type]
                unpack = unpack_blosc if plugin is hdf5plugin.Blosc else unpack_frame
                for _ in range(n_times):
                    refused(unpack, mutated(chance, data))


def test_mutated_chunks_never_break_us(tmp_path: Path) -> None:
    code = "import sys, pathlib; from tests.rooms import test_blosc; "
    code += "test_blosc.unpack_mutated(pathlib.Path(sys.argv[1]), 30); print('alive')"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr
