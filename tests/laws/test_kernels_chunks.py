"""Several chunks in one call: both forms agree, and with what one chunk after the other gives."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from colonnade.kernels import plain
from tests.laws.both_forms import REFUSED, agree, call, native


@given(st.integers(1, 5), st.integers(0, 300), st.sampled_from(["i1", "<i4", ">i4", "u8", "<f8"]))
def test_chunks_of_scale_offset(n_chunks: int, n_rows: int, kind: str) -> None:
    rng = np.random.default_rng(n_rows)
    packed = []
    for number in range(n_chunks):
        values = rng.integers(0, 1 + 3**number, n_rows).astype("i4")
        out = np.zeros(values.nbytes + 22, "u1")
        packed.append(out[: plain.encode_scaleoffset(values, out, None)].tobytes())
    sizes = np.array([len(chunk) for chunk in packed])
    whole = np.zeros(n_chunks * n_rows, kind)
    answer = agree("decode_scaleoffset_chunks", b"".join(packed), sizes, whole, None, 2, None)
    expected = np.zeros(n_chunks * n_rows, kind)
    refused = False
    for number, chunk in enumerate(packed):
        share = expected[number * n_rows : (number + 1) * n_rows]
        refused |= call(plain, "decode_scaleoffset", [chunk, share, None, 2]) == REFUSED
    assert (answer == REFUSED) == refused
    assert refused or whole.tobytes() == expected.tobytes()
    for look in (whole[-1:].tobytes(), np.array([77], kind).tobytes()) if len(whole) and not refused else ():
        again = np.zeros(n_chunks * n_rows, kind)
        found = agree("decode_scaleoffset_chunks", b"".join(packed), sizes, again, None, 2, look)
        assert found == (look in {whole[at : at + 1].tobytes() for at in range(len(whole))})
        assert again.tobytes() == whole.tobytes()
    wrong = bytes(whole.itemsize * 2 if whole.itemsize < 8 else 4)
    assert agree("decode_scaleoffset_chunks", b"".join(packed), sizes, whole, None, 2, wrong) == REFUSED


WRONG_SIZES = [[-1, 21], [1 << 62, 1 << 62], [2**63 - 1, 21], [5], [10, 11, 1], [], [0, 20]]


@pytest.mark.parametrize("sizes", WRONG_SIZES)
def test_sizes_that_do_not_fit(sizes: list[int]) -> None:
    chunk = bytes(20)
    claimed = np.array(sizes, dtype="i8")
    assert agree("decode_scaleoffset_chunks", chunk, claimed, np.zeros(4, "i4"), None, 0, None) == REFUSED


def test_nothing_at_all() -> None:
    none = np.zeros(0, "i8")
    assert agree("decode_scaleoffset_chunks", b"", none, np.zeros(0, "i4"), None, 0, None) is None


def test_pieces_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "bytes"
    content = np.random.default_rng(1).integers(0, 256, 10_000, dtype="u1").tobytes()
    path.write_bytes(content)
    file = os.open(path, os.O_RDONLY)
    try:
        addresses, sizes = np.array([9_000, 0, 17, 17, 5_000]), np.array([1_000, 1, 0, 3, 4_000])
        out = np.zeros(sizes.sum(), "u1")
        assert agree("read_pieces", file, addresses, sizes, out, None) is None
        expected = b"".join(content[at : at + n] for at, n in zip(addresses, sizes, strict=True))
        assert out.tobytes() == expected
        for size in (1, 2, 4, 8):
            items = (
                {expected[at : at + size] for at in range(0, len(expected), size)} if not len(expected) % size else None
            )
            for look in (expected[-size:], bytes(size), content[9_000 + 3 * size :][:size]):
                again = np.zeros(sizes.sum(), "u1")
                found = agree("read_pieces", file, addresses, sizes, again, look)
                assert found == (REFUSED if items is None else look in items)
        assert agree("read_pieces", file, addresses, sizes, out, b"abc") == REFUSED
        for at, n, room in (
            (9_999, 2, 2),
            (10_000, 1, 1),
            (-1, 1, 1),
            (0, -1, 0),
            (0, 5, 4),
            (0, 5, 6),
            (2**63 - 1, 5, 5),
        ):
            given_out = np.zeros(room, "u1")
            arguments = [file, np.array([at]), np.array([n]), given_out, None]
            for form in (native, plain):
                with pytest.raises((ValueError, OSError)):
                    form.read_pieces(*arguments)
    finally:
        os.close(file)
    for form in (native, plain):
        with pytest.raises(OSError, match=r"[Bb]ad file"):
            form.read_pieces(file, addresses, sizes, out, None)


def packed_chunks(
    rng: np.random.Generator, widths: list[int], n_rows: int
) -> tuple[bytes, list[int], list[int], list[bytes]]:
    """A file of scale-offset chunks of any numbers; of each its address, its size, its bytes."""
    content, addresses, chunks = bytearray(b"behind this"), [], []
    for bits in widths:
        head = bits.to_bytes(4, "little") + bytes([8]) + rng.bytes(8) + bytes(8)
        addresses.append(len(content))
        chunks.append(head + rng.bytes(-(-bits * n_rows // 8)))
        content += chunks[-1]
    return bytes(content), addresses, [len(chunk) for chunk in chunks], chunks


@given(st.data(), st.sampled_from(["i1", "<u2", ">i4", "u8", "<f8"]), st.integers(1, 70))
def test_single_rows_of_packed_chunks_in_a_file(data: st.DataObject, kind: str, n_rows: int) -> None:
    """Each row is that of its chunk, unpacked whole; chunks, places and fills that make no sense are refused."""
    rng = np.random.default_rng(n_rows)
    size = np.dtype(kind).itemsize
    widths = data.draw(st.lists(st.integers(0, 8 * size), min_size=1, max_size=6))
    content, addresses, sizes, chunks = packed_chunks(rng, widths, n_rows)
    fill = rng.bytes(size) if data.draw(st.booleans()) else None
    which = rng.integers(0, len(chunks), 40)
    places = rng.integers(0, n_rows, 40)
    out = np.zeros(40, kind)
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        where = [np.array(addresses)[which], np.array(sizes)[which], places]
        assert agree("read_packed_rows", file.fileno(), *where, n_rows, out, fill, 2) is None
        for row, (chunk, place) in enumerate(zip(which.tolist(), places.tolist(), strict=True)):
            whole = np.zeros(n_rows, kind)
            plain.decode_scaleoffset(chunks[chunk], whole, fill, 2)
            assert out[row : row + 1].tobytes() == whole[place : place + 1].tobytes()
        for spoiled, value in ((0, -1), (0, 2**62), (1, 20), (1, -1), (2, -1), (2, n_rows)):
            wrong = [one.copy() for one in where]
            wrong[spoiled][-1] = value
            assert agree("read_packed_rows", file.fileno(), *wrong, n_rows, out, fill, 2) == REFUSED
        assert agree("read_packed_rows", file.fileno(), *where, n_rows, out, bytes(3), 2) == REFUSED
        file.truncate(len(content) - 1)
        last = [np.array([addresses[-1]]), np.array([sizes[-1]]), np.array([n_rows - 1])]
        cut = agree("read_packed_rows", file.fileno(), *last, n_rows, out[:1].copy(), fill, 2)
        assert cut == REFUSED


def places_in(rng: np.random.Generator, n_chunks: int, n_rows: int) -> tuple[Any, Any]:
    """Of some of so many chunks some rows, in increasing order: where those of each end, and their places."""
    each = [np.flatnonzero(rng.random(n_rows) < rng.choice([0, 0.1, 1])) for _ in range(n_chunks)]
    return np.cumsum([len(one) for one in each]), np.concatenate(each)


@given(st.integers(0, 6), st.integers(1, 70), st.sampled_from([1, 2, 3, 4, 8, 16, 19]), st.integers(0, 2**32))
def test_rows_picked_from_chunks_in_a_file(n_chunks: int, n_rows: int, size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    content = rng.bytes(11 + n_chunks * n_rows * size)
    addresses = 11 + rng.permutation(n_chunks) * n_rows * size
    ends, places = places_in(rng, n_chunks, n_rows) if n_chunks else (np.zeros(0, "i8"), np.zeros(0, "i8"))
    out = np.zeros(len(places) * size, "u1")
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        where = [addresses, ends, places]
        assert agree("pick_rows", file.fileno(), *where, n_rows, size, out) is None
        firsts = np.repeat(addresses, np.diff(ends, prepend=0)) + places * size
        assert out.tobytes() == b"".join(content[at : at + size] for at in firsts.tolist())
        for spoiled, value in ((0, -1), (0, 2**63 - 1), (1, -1), (1, len(places) + 1), (2, -1), (2, n_rows)):
            wrong = [one.copy() for one in where]
            if len(wrong[spoiled]) and len(places):
                wrong[spoiled][-1] = value
                assert agree("pick_rows", file.fileno(), *wrong, n_rows, size, out) == REFUSED
        assert agree("pick_rows", file.fileno(), *where, n_rows, 0, out) == REFUSED
        assert agree("pick_rows", file.fileno(), *where, n_rows, size, np.zeros(len(out) + 1, "u1")) == REFUSED
        last = [np.array([11]), np.array([2]), np.array([1, 0])]  # not in order
        assert agree("pick_rows", file.fileno(), *last, 2, 1, np.zeros(2, "u1")) == REFUSED
        file.truncate(5)
        assert agree("pick_rows", file.fileno(), np.array([4]), np.array([1]), np.array([1]), 2, 1, out[:1]) == REFUSED


@given(st.data(), st.sampled_from(["i1", "<u2", ">i4", "u8", "<f8"]), st.integers(1, 70))
def test_rows_picked_from_packed_chunks_in_a_file(data: st.DataObject, kind: str, n_rows: int) -> None:
    rng = np.random.default_rng(n_rows)
    size = np.dtype(kind).itemsize
    widths = data.draw(st.lists(st.integers(0, 8 * size), min_size=1, max_size=6))
    content, addresses, sizes, chunks = packed_chunks(rng, widths, n_rows)
    fill = rng.bytes(size) if data.draw(st.booleans()) else None
    ends, places = places_in(rng, len(chunks), n_rows)
    out = np.zeros(len(places), kind)
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        where = [np.array(addresses), np.array(sizes), ends, places]
        assert agree("pick_packed_rows", file.fileno(), *where, n_rows, out, fill, 2) is None
        for chunk, begin, end in zip(chunks, [0, *ends[:-1]], ends, strict=True):
            whole = np.zeros(n_rows, kind)
            plain.decode_scaleoffset(chunk, whole, fill, 2)
            assert out[begin:end].tobytes() == whole[places[begin:end]].tobytes()
        for spoiled, value in ((0, -1), (0, 2**62), (1, 20), (1, -1), (2, len(places) + 1), (3, -1), (3, n_rows)):
            wrong = [one.copy() for one in where]
            if len(wrong[spoiled]):
                wrong[spoiled][-1] = value
                assert agree("pick_packed_rows", file.fileno(), *wrong, n_rows, out, fill, 2) == REFUSED
        assert agree("pick_packed_rows", file.fileno(), *where, n_rows, out, bytes(3), 2) == REFUSED
        assert agree("pick_packed_rows", file.fileno(), *where, -1, out, fill, 2) == REFUSED
