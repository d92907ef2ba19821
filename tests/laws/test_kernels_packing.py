"""Scale-offset, BloscLZ, LZ4: both forms agree with each other and with those that pack so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.both_forms import REFUSED, Draw, agree, numbers
from tests.laws.raw_chunks import raw_chunk

INTEGERS = [f"{order}{sign}{size}" for order in "<>" for sign in "iu" for size in (1, 2, 4, 8)]


def little(fill: Any, kind: str) -> bytes:
    return np.array([fill], np.dtype(kind).newbyteorder("<")).tobytes()


def decode(chunk: Any, kind: str, n: int, fill: bytes | None, decimals: int = 0) -> Any:
    """All rows, and the same row by row: both must agree."""
    out = np.zeros(n, kind)
    if agree("decode_scaleoffset", chunk, out, fill, decimals) == REFUSED:
        return REFUSED
    rows = np.random.default_rng(n).integers(0, n, 50 if n else 0)
    some = np.zeros(len(rows), kind)
    assert agree("decode_scaleoffset_rows", chunk, n, rows, some, fill, decimals) is None
    assert some.tobytes() == out[rows].tobytes()
    return out


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("n", [1, 5, 1000])
def test_integers_of_hdf5(tmp_path: Path, kind: str, n: int) -> None:
    info = np.iinfo(kind)
    rng = np.random.default_rng(n)
    for bits in range(0, 8 * info.dtype.itemsize, 1 if n == 1000 else 7):
        low = info.min if bits % 2 else int(info.max) - (1 << bits) + 1
        rows = (rng.integers(0, 1 << bits, n, dtype="u8").astype(object) + low).astype(kind)
        for fill in (None, rows[0], 3):
            chunk = raw_chunk(tmp_path, rows, scaleoffset=0, fillvalue=fill)
            told = little(0 if fill is None else fill, kind)  # HDF5 tells the filter its default fill, 0
            if int.from_bytes(chunk[:4].tobytes(), "little") < 8 * info.dtype.itemsize:
                assert decode(chunk, kind, n, told).tobytes() == rows.tobytes()
            check_encoding(tmp_path, rows, told, chunk)


def check_encoding(folder: Path, rows: Any, told: bytes, chunk: Any) -> None:
    """What we write is what HDF5 writes, and what it reads back, unless all bits are needed."""
    native = rows.astype(rows.dtype.newbyteorder("="))
    out = np.zeros(rows.nbytes + 22, "u1")
    used = agree("encode_scaleoffset", native, out, told)
    if used == 0:
        assert int.from_bytes(chunk[:4].tobytes(), "little") == 8 * rows.dtype.itemsize
        return
    assert out[:used].tobytes() == chunk.tobytes()


def test_hdf5_reads_what_is_written(tmp_path: Path) -> None:
    rows = np.random.default_rng(1).integers(-50, 3000, 777)
    out = np.zeros(rows.nbytes + 22, "u1")
    used = agree("encode_scaleoffset", rows, out, little(0, "i8"))
    with h5py.File(tmp_path / "w.h5", "w") as file:
        made = file.create_dataset("x", (777,), "i8", chunks=(777,), scaleoffset=0)
        made.id.write_direct_chunk((0,), out[:used].tobytes())
    with h5py.File(tmp_path / "w.h5") as file:
        assert (file["x"][:] == rows).all()


@pytest.mark.parametrize("kind", ["<f4", "<f8", ">f4", ">f8"])
@pytest.mark.parametrize("decimals", [0, 2, 5])
def test_floats_of_hdf5(tmp_path: Path, kind: str, decimals: int) -> None:
    rng = np.random.default_rng(decimals)
    for n, width in ((1, 1.0), (7, 0.0), (1000, 100.0), (1000, 9000.0)):
        rows = (rng.random(n) * width - 20).round(decimals).astype(kind)
        for fill in (None, float(rows[0])):
            chunk = raw_chunk(tmp_path, rows, scaleoffset=decimals, fillvalue=fill)
            with h5py.File(tmp_path / "one.h5") as file:
                truth = file["x"][:]
            told = little(0 if fill is None else fill, kind)
            assert decode(chunk, kind, n, told, decimals).tobytes() == truth.tobytes()


@given(st.data(), st.sampled_from(INTEGERS))
def test_any_integers_and_back(data: st.DataObject, kind: str) -> None:
    rows = data.draw(numbers(kind[1:]))
    fill = data.draw(st.sampled_from([None, 0, *rows[:5].tolist()]))
    told = None if fill is None else little(fill, kind)
    out = np.zeros(rows.nbytes + 22, "u1")
    used = agree("encode_scaleoffset", rows, out, told)
    if used:
        assert (decode(out[:used].copy(), kind, len(rows), told) == rows).all()


@given(st.data(), st.sampled_from([*INTEGERS, "<f4", ">f8"]))
def test_any_chunk(data: st.DataObject, kind: str) -> None:
    """Any bytes are an answer or a refusal, in both forms."""
    size = np.dtype(kind).itemsize
    bits = data.draw(st.integers(0, 8 * size + 1))
    head = bits.to_bytes(4, "little") + bytes([data.draw(st.sampled_from([8, 8, 8, 4, 0, 255]))])
    chunk = head + data.draw(st.binary(min_size=16, max_size=16)) + data.draw(st.binary(max_size=200))
    fill = data.draw(st.sampled_from([None, bytes(size), b"\1" * size]))
    n = data.draw(st.integers(0, 60))
    if kind[1] == "f":
        chunk = chunk[:5] + np.array([1.5], kind.replace(">", "<")).tobytes().ljust(16, b"\0") + chunk[21:]
    decode(np.frombuffer(chunk, "u1"), kind, n, fill, data.draw(st.integers(-3, 9)))
    decode(np.frombuffer(chunk[: data.draw(st.integers(0, len(chunk)))], "u1"), kind, n, fill)


u8 = np.zeros(4, "u8")
MALFORMED = {
    "no head": ("decode_scaleoffset", bytes(20), u8.copy(), None, 0),
    "too many bits": ("decode_scaleoffset", b"\x41\0\0\0\x08" + bytes(99), u8.copy(), None, 0),
    "numbers cut": ("decode_scaleoffset", b"\x20\0\0\0\x08" + bytes(16 + 15), u8.copy(), None, 0),
    "fill of another size": ("decode_scaleoffset", b"\1\0\0\0\x08" + bytes(99), u8.copy(), bytes(4), 0),
    "rows below 0": ("decode_scaleoffset_rows", bytes(30), 4, np.array([-1]), u8[:1].copy(), None, 0),
    "rows beyond": ("decode_scaleoffset_rows", bytes(30), 4, np.array([4]), u8[:1].copy(), None, 0),
    "items below 0": ("decode_scaleoffset_rows", bytes(30), -1, np.array([0]), u8[:1].copy(), None, 0),
    "floats are not encoded": ("encode_scaleoffset", np.zeros(3), np.zeros(99, "u1"), None),
    "no room": ("encode_scaleoffset", u8, np.zeros(32 + 21, "u1"), None),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_input_is_refused(name: str) -> None:
    kernel, *arguments = MALFORMED[name]
    assert agree(kernel, *arguments) == REFUSED  # type: ignore[arg-type]


# -- BloscLZ and LZ4 --


def blosclz_runs(draw: Draw) -> tuple[bytes, bytes]:
    """A stream of runs, and what it unpacks to, told by the format's words alone."""
    first = draw(st.binary(min_size=1, max_size=32))
    packed, plain = bytes([len(first) - 1]) + first, first
    for _ in range(draw(st.integers(0, 12))):
        length, distance = draw(st.integers(3, 900)), draw(st.integers(1, min(len(plain), 9000)))
        plain += bytes(plain[-distance:] * (length // distance + 1))[:length]
        near = distance - 1 if distance <= 8191 else 8191
        packed += bytes([min(length - 2, 7) << 5 | near >> 8])
        if length >= 9:
            packed += b"\xff" * ((length - 9) // 255) + bytes([(length - 9) % 255])
        packed += bytes([near & 255]) + ((distance - 8192).to_bytes(2, "big") if near == 8191 else b"")
        more = draw(st.one_of(st.binary(min_size=1, max_size=32), st.just(bytes(range(32)))))
        packed, plain = packed + bytes([len(more) - 1]) + more, plain + more
    return packed, plain


@given(st.data())
def test_blosclz(data: st.DataObject) -> None:
    packed, plain = blosclz_runs(data.draw)
    out = np.zeros(len(plain), "u1")
    assert agree("unpack_blosclz", packed, out) is None
    assert out.tobytes() == plain
    for size in (len(plain) - 1, len(plain) + 1):
        assert agree("unpack_blosclz", packed, np.zeros(size, "u1")) == REFUSED
    spoiled = bytearray(packed)
    for _ in range(data.draw(st.integers(1, 3))):
        spoiled[data.draw(st.integers(0, len(spoiled) - 1))] = data.draw(st.integers(0, 255))
    for cut in (len(spoiled), data.draw(st.integers(0, len(spoiled)))):
        agree("unpack_blosclz", bytes(spoiled[:cut]), out, exact=False)


def test_a_far_copy_of_blosclz() -> None:
    """Distances from 8192 on have two more bytes."""
    plain = np.random.default_rng(1).integers(0, 256, 9056, dtype="u1").tobytes()
    packed = b"".join(bytes([31]) + plain[at : at + 32] for at in range(0, len(plain), 32))
    for distance in (8192, 9000, 9056):
        copy = b"\x3f\xff" + (distance - 8192).to_bytes(2, "big")
        out = np.zeros(len(plain) + 4, "u1")
        assert agree("unpack_blosclz", packed + copy + b"\0x", out) is None
        assert out.tobytes() == plain + plain[-distance:][:3] + b"x"
    assert agree("unpack_blosclz", packed + b"\x3f\xff" + (9057 - 8192).to_bytes(2, "big") + b"\0x", out) == REFUSED


@pytest.mark.parametrize("spread", [1, 3, 5])
def test_blosclz_is_that_of_blosc(tmp_path: Path, spread: int) -> None:
    rows = np.random.default_rng(spread).integers(0, spread, 30_000, dtype="u1")
    rows[10_000:20_000] = rows[:10_000]
    raw = raw_chunk(tmp_path, rows, **hdf5plugin.Blosc(cname="blosclz", shuffle=0))
    begin = int.from_bytes(raw[16:20].tobytes(), "little")
    assert int.from_bytes(raw[8:12].tobytes(), "little") == len(rows)  # one block
    out = np.zeros(len(rows), "u1")
    assert agree("unpack_blosclz", raw[begin + 4 :], out) is None
    assert out.tobytes() == rows.tobytes()


def lzf_runs(draw: Draw) -> tuple[bytes, bytes]:
    """A stream of LZF runs, and what it unpacks to."""
    first = draw(st.binary(min_size=1, max_size=32))
    packed, plain = bytes([len(first) - 1]) + first, first
    for _ in range(draw(st.integers(0, 12))):
        length, distance = draw(st.integers(3, 264)), draw(st.integers(1, min(len(plain), 8192)))
        plain += bytes(plain[-distance:] * (length // distance + 1))[:length]
        packed += bytes([min(length - 2, 7) << 5 | (distance - 1) >> 8])
        packed += bytes([length - 9] if length >= 9 else []) + bytes([(distance - 1) & 255])
        more = draw(st.one_of(st.just(b""), st.binary(min_size=1, max_size=32), st.just(bytes(range(32)))))
        packed, plain = packed + (bytes([len(more) - 1]) + more if more else b""), plain + more
    return packed, plain


@given(st.data())
def test_lzf(data: st.DataObject) -> None:
    packed, plain = lzf_runs(data.draw)
    out = np.zeros(len(plain), "u1")
    assert agree("unpack_lzf", packed, out) is None
    assert out.tobytes() == plain
    for size in (len(plain) - 1, len(plain) + 1):
        assert agree("unpack_lzf", packed, np.zeros(size, "u1")) == REFUSED
    spoiled = bytearray(packed)
    for _ in range(data.draw(st.integers(1, 3))):
        spoiled[data.draw(st.integers(0, len(spoiled) - 1))] = data.draw(st.integers(0, 255))
    for cut in (len(spoiled), data.draw(st.integers(0, len(spoiled)))):
        agree("unpack_lzf", bytes(spoiled[:cut]), out, exact=False)


@pytest.mark.parametrize("spread", [1, 3, 5, 200])
def test_lzf_is_that_of_h5py(tmp_path: Path, spread: int) -> None:
    rows = np.random.default_rng(spread).integers(0, spread, 30_000, dtype="u1")
    rows[10_000:20_000] = rows[:10_000]
    rows[25_000:] = rows[18_000:23_000]
    raw = raw_chunk(tmp_path, rows, compression="lzf")
    out = np.zeros(len(rows), "u1")
    assert agree("unpack_lzf", raw, out) is None
    assert out.tobytes() == rows.tobytes()


@pytest.mark.parametrize(
    "stream", [b"\0", b"\x1fab", b"\x20", b"\x20\0", b"\0a\x20", b"\0a\xe0\1", b"\0a\x20\1", b"\0a\x21\0"]
)
def test_no_stream_of_lzf(stream: bytes) -> None:
    """Cut off, or copied from before the beginning."""
    for size in (0, 1, 2, 4, 300):
        assert agree("unpack_lzf", stream, np.zeros(size, "u1")) == REFUSED


@given(st.data(), st.binary(max_size=3000), st.integers(1, 40))
def test_lz4_is_that_of_arrow(data: st.DataObject, part: bytes, repeats: int) -> None:
    plain = part * repeats
    packed = bytearray(pa.compress(plain, "lz4_raw", asbytes=True))
    out = np.zeros(len(plain), "u1")
    assert agree("unpack_lz4", bytes(packed), out) is None
    assert out.tobytes() == plain
    for size in (len(plain) - 1, len(plain) + 1, len(plain) + 100):
        assert size < 0 or agree("unpack_lz4", bytes(packed), np.zeros(size, "u1")) == REFUSED
    for _ in range(data.draw(st.integers(1, 3))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    for cut in (len(packed), data.draw(st.integers(0, len(packed)))):
        agree("unpack_lz4", bytes(packed[:cut]), out, exact=False)


@pytest.mark.parametrize("distance", [*range(1, 40), 100, 65_535])
def test_copies_of_lz4(distance: int) -> None:
    """Each distance with lengths around those that are copied at once."""
    begin = np.random.default_rng(distance).integers(0, 256, 65_600, dtype="u1").tobytes()
    for length in (4, 7, 8, 9, 15, 16, 17, 18, 19, 23, 24, 25, 31, 32, 33, 34, 273, 274, 1000):
        head = b"\xff" * ((len(begin) - 15) // 255) + bytes([(len(begin) - 15) % 255])
        more = b"\xff" * ((length - 19) // 255) + bytes([(length - 19) % 255]) if length >= 19 else b""
        token = bytes([0xF0 | min(length - 4, 15)])
        block = token + head + begin + distance.to_bytes(2, "little") + more
        copied = (begin[-distance:] * (length // distance + 1))[:length]
        for end in (b"12345", b"the last of all bytes, and more of them than are copied at once"):
            sizes = bytes([len(end) << 4]) if len(end) < 15 else b"\xf0" + bytes([len(end) - 15])
            out = np.zeros(len(begin) + length + len(end), "u1")
            assert agree("unpack_lz4", block + sizes + end, out) is None
            assert out.tobytes() == begin + copied + end


NO_LZ4 = [
    b"",
    b"\x10",
    b"\xf0",
    b"\xf0\xff",
    b"\0\1",
    b"\x10a\1\0",
    b"\x1fa\1\0\xff",
    b"\x10a\0\0\x50abcde",
    b"\x10a\2\0\x50abcde",
]


@pytest.mark.parametrize("block", NO_LZ4)
def test_no_block_of_lz4(block: bytes) -> None:
    """Cut off, a copy at the end, distances of 0 and before the beginning; the last bytes copied."""
    for size in (0, 1, 5, 10, 300):
        assert agree("unpack_lz4", block, np.zeros(size, "u1")) == REFUSED
    assert agree("unpack_lz4", b"\x10a\1\0\x40abcd", np.zeros(9, "u1")) == REFUSED
    assert agree("unpack_lz4", b"\x10a\1\0\x50abcde", np.zeros(10, "u1")) is None
