"""Sorting, bitmaps, hashes, Bloom filters and bitshuffle: both forms agree, and with others that compute the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hdf5plugin
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.both_forms import REFUSED, agree, bytes_of, kinds_and_numbers, masks
from tests.laws.raw_chunks import raw_chunk


@given(kinds_and_numbers(), st.sampled_from(["u4", "i8", "u8"]))
def test_argsort(values: np.ndarray[Any, Any], kind: str) -> None:
    out = np.zeros(len(values), kind)
    agree("argsort", values, out)
    rows = sorted(range(len(values)), key=lambda row: (values[row] != values[row], values[row]))  # stable
    if not (values != values).any():  # noqa: PLR0124
        assert out.tolist() == rows


def test_argsort_of_many() -> None:
    rng = np.random.default_rng(3)
    for kind in ("i8", "f8", "f4", "u2", "i4"):
        values = rng.integers(-1 << 62, 1 << 62, 100_000).view("u1")[: 100_000 * int(kind[1])].view(kind)
        agree("argsort", values, np.zeros(100_000, "i8"))


@given(st.integers(0, 300), st.integers(0, 300), st.sampled_from(["u4", "u8"]), st.integers(0, 2**32 - 1))
def test_insert_rows(n: int, n_added: int, kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, added = rng.integers(0, 2**31, n).astype(kind), rng.integers(0, 2**31, n_added).astype(kind)
    places = np.sort(rng.integers(0, n + 1, n_added))
    out = np.zeros(n + n_added, kind)
    assert agree("insert_rows", rows, places, added, out) is None
    assert out.tolist() == np.insert(rows, places, added).tolist()


@pytest.mark.parametrize("places", [[-1, 0], [0, 3], [1, 0], [2**62, 2**62]], ids=str)
def test_insert_rows_at_places_that_are_not_there(places: list[int]) -> None:
    out = np.zeros(4, "u4")
    assert agree("insert_rows", np.zeros(2, "u4"), np.array(places), np.zeros(2, "u4"), out) == REFUSED


@given(st.data(), st.integers(0, 700), st.sampled_from([1, 3, 70, 300]))
def test_code_bits(data: st.DataObject, n: int, n_values: int) -> None:
    rng = np.random.default_rng(n)
    kind = data.draw(st.sampled_from(["i2", "i4", "i8", "u2", "u8"]))
    codes = rng.integers(-1 if kind[0] == "i" else 0, n_values, n).astype(kind)
    out = np.full((n_values, -(-n // 8)), 255, "u1")
    agree("code_bits", codes, n_values, out)
    unpacked = np.unpackbits(out, axis=1, count=n, bitorder="little")
    assert (unpacked == (codes == np.arange(n_values)[:, None])).all()
    for line in out[:3]:
        check_bits(line.copy(), n)
    if n:
        codes[-1] = n_values
        assert agree("code_bits", codes, n_values, out) == REFUSED


@pytest.mark.parametrize("n_values", [1, 64, 65, 255, 256, 257])
@pytest.mark.parametrize("n", [8191, 8192, 8193, 20_000])
def test_code_bits_of_many_rows(n: int, n_values: int) -> None:
    codes = np.random.default_rng(n).integers(-1, n_values, n).astype("i2")
    out = np.full((n_values, -(-n // 8)), 255, "u1")
    agree("code_bits", codes, n_values, out)
    for value in range(n_values):
        assert np.array_equal(np.unpackbits(out[value], count=n, bitorder="little"), codes == value)
    assert n % 8 == 0 or not (out[:, -1] >> n % 8).any()
    codes[-1] = n_values
    assert agree("code_bits", codes, n_values, out) == REFUSED


@given(st.data(), st.integers(0, 700))
def test_bits(data: st.DataObject, n: int) -> None:
    mask = masks(data.draw, n)
    bits = np.packbits(mask != 0, bitorder="little")
    check_bits(bits, n)
    if n % 8:
        bits[-1] |= 128  # a bit behind the last row
        check_bits(bits, n)


def check_bits(bits: np.ndarray[Any, Any], n: int) -> None:
    rows = np.flatnonzero(np.unpackbits(bits, count=n, bitorder="little"))
    assert agree("bits_count", bits, n) == len(rows)
    count = agree("bits_range_count", bits, n)
    starts, stops = np.zeros(count, "i8"), np.zeros(count, "i8")
    assert agree("bits_ranges", bits, n, 100, starts, stops) == count
    parts = [np.arange(a, b) for a, b in zip(starts, stops, strict=True)]
    assert [row for part in parts for row in part.tolist()] == (rows + 100).tolist()
    if count:
        assert agree("bits_ranges", bits, n, 100, starts[1:].copy(), stops[1:].copy()) == REFUSED


KNOWN = {  # of the reference implementation: seed, text, digest
    (0, b""): "00000000000000000000000000000000",
    (0, b"The quick brown fox jumps over the lazy dog"): "e34bbc7bbc071b6c7a433ca9c49a9347",
    (0, b"hello"): "cbd8a7b341bd9b025b1e906a48ae1d19",
}


@pytest.mark.parametrize(("seed", "text"), KNOWN)
def test_known_hashes(seed: int, text: bytes) -> None:
    low, high = np.zeros(1, "u8"), np.zeros(1, "u8")
    agree("hash_strings", np.array([0, len(text)], "i4"), text, seed, low, high)
    assert f"{int(low[0]):016x}{int(high[0]):016x}" == KNOWN[seed, text]


@given(st.data(), st.integers(1, 40), st.integers(0, 2**64 - 1))
def test_hashes_and_filters_of_items(data: st.DataObject, size: int, seed: int) -> None:
    source = bytes_of(data.draw, 400)
    source = source[: len(source) // size * size].copy()
    n = len(source) // size
    agree("hash_items", source, size, seed, np.zeros(n, "u8"), np.zeros(n, "u8"))
    present = data.draw(st.sampled_from([None, masks(data.draw, n)]))
    k, n_bytes = data.draw(st.integers(1, 20)), data.draw(st.integers(1, 1500))
    bits = np.zeros(n_bytes, "u1")
    agree("bloom_add_items", source, size, present, k, bits)
    kept = source.reshape(n, size)[np.ones(n, bool) if present is None else present != 0]
    assert all(may_hold(bits, k, item.tobytes()) for item in kept[:20])


@given(st.data(), st.lists(st.binary(max_size=40), max_size=30), st.sampled_from(["i4", "i8"]))
def test_hashes_and_filters_of_strings(data: st.DataObject, texts: list[bytes], kind: str) -> None:
    offsets, whole = np.cumsum([0, *map(len, texts)]).astype(kind), b"".join(texts)
    n = len(texts)
    low, high = np.zeros(n, "u8"), np.zeros(n, "u8")
    agree("hash_strings", offsets, whole, 7, low, high)
    present = data.draw(st.sampled_from([None, masks(data.draw, n)]))
    bits = np.zeros(99, "u1")
    agree("bloom_add_strings", offsets, whole, present, 5, bits)
    assert all(may_hold(bits, 5, text) for row, text in enumerate(texts) if present is None or present[row])
    wrong = np.array(data.draw(st.lists(st.integers(-2, len(whole) + 2), min_size=1, max_size=5)), kind)
    n = len(wrong) - 1
    agree("hash_strings", wrong, whole, 7, np.zeros(n, "u8"), np.zeros(n, "u8"))
    agree("bloom_add_strings", wrong, whole, None, 5, bits, exact=False)


def may_hold(bits: np.ndarray[Any, Any], k: int, key: bytes) -> bool:
    """Whether all k bits of a key are set (HEP001 8.7)."""
    (low, _), (_, high) = hashed(key, 0), hashed(key, 0x9E3779B9)
    places = [(low + i * high) % 2**64 % (8 * len(bits)) for i in range(k)]
    return all(bits[place // 8] >> (place % 8) & 1 for place in places)


def hashed(key: bytes, seed: int) -> tuple[int, int]:
    low, high = np.zeros(1, "u8"), np.zeros(1, "u8")
    agree("hash_strings", np.array([0, len(key)], "i4"), key, seed, low, high)
    return int(low[0]), int(high[0])


@given(st.data(), st.sampled_from([1, 2, 3, 4, 8, 9]), st.sampled_from([8, 24, 128, 1024]))
def test_bitshuffle_and_back(data: st.DataObject, size: int, block: int) -> None:
    source = bytes_of(data.draw)
    source = source[: len(source) // size * size].copy()
    back = np.empty_like(source)
    agree("bit_unshuffle", bit_shuffled(source, size, block), back, size, block)
    assert back.tobytes() == source.tobytes()


def bit_shuffled(source: np.ndarray[Any, Any], size: int, block: int) -> np.ndarray[Any, Any]:
    """What the filter makes of items, block by block; up to 7 items at the end stay as they are."""
    shuffled, n = source.copy(), len(source) // size
    for first in range(0, n // 8 * 8, block):
        items = slice(first * size, min(first + block, n // 8 * 8) * size)
        bits = np.unpackbits(source[items].reshape(-1, size), axis=1, bitorder="little")
        shuffled[items] = np.packbits(np.ascontiguousarray(bits.T), axis=1, bitorder="little").reshape(-1)
    return shuffled


@pytest.mark.parametrize("kind", ["u1", "i2", "f4", "f8", "V6"])
@pytest.mark.parametrize("n", [5, 8, 1000, 20_011])
def test_bitshuffle_is_that_of_the_filter(tmp_path: Path, kind: str, n: int) -> None:
    size = np.dtype(kind).itemsize
    rows = np.random.default_rng(n).integers(0, 256, n * size, dtype="u1").view(kind)
    raw = raw_chunk(tmp_path, rows, **hdf5plugin.Bitshuffle(cname="none"))
    out = np.empty(len(raw), "u1")
    agree("bit_unshuffle", raw, out, size, max(8192 // size // 8 * 8, 128))
    assert out.tobytes() == rows.tobytes()


@given(st.sets(st.integers(0, 120), max_size=90), st.integers(1, 14))
def test_grow_blocks(places: set[int], width: int) -> None:
    given_ = np.array(sorted(places), "i8")
    first, last = np.zeros(len(places), "i8"), np.zeros(len(places), "i8")
    count = agree("grow_blocks", given_, width, first, last)
    blocks = list(zip(first[:count].tolist(), last[:count].tolist(), strict=True))
    covered = [place for one in blocks for place in cells_between(*one, width)]
    assert sorted(covered) == given_.tolist() and blocks == sorted(blocks)
    for low, high in blocks:  # none can be made longer downwards, or wider where it is one row high
        below = {place + width for place in cells_between(high - high % width + low % width, high, width)}
        assert not any(start <= min(below) and stop >= max(below) and {start, stop} <= below for start, stop in blocks)
        if low // width == high // width and high % width < width - 1:
            assert high + 1 not in places


def cells_between(low: int, high: int, width: int) -> list[int]:
    rows, columns = range(low // width, high // width + 1), range(low % width, high % width + 1)
    return [row * width + column for row in rows for column in columns]


def test_grow_blocks_of_far_places() -> None:
    far = np.array([0, 2**62, 2**63 - 2, 2**63 - 1], "i8")
    for width in (1, 7, 2**63 - 1):
        agree("grow_blocks", far, width, np.zeros(4, "i8"), np.zeros(4, "i8"))
    for wrong in ([2**63 - 1, -(2**63)], [-1, 0], [1, 1], [3, 2]):
        out = np.zeros(2, "i8")
        assert agree("grow_blocks", np.array(wrong, "i8"), 5, out, out.copy()) == REFUSED


u1 = np.zeros(16, "u1")
u8 = np.zeros(2, "u8")
MALFORMED = {
    "rows of another type": ("argsort", u8, np.zeros(2, "i4")),
    "rows too few": ("argsort", u8, np.zeros(1, "i8")),
    "rows of two types": ("insert_rows", u8, np.zeros(1, "i8"), np.zeros(1, "u4"), np.zeros(3, "u8")),
    "no room for added rows": ("insert_rows", u8, np.zeros(1, "i8"), np.zeros(1, "u8"), np.zeros(2, "u8")),
    "places too few": ("insert_rows", u8, np.zeros(1, "i8"), np.zeros(2, "u8"), np.zeros(4, "u8")),
    "no width": ("grow_blocks", np.arange(2), 0, np.zeros(2, "i8"), np.zeros(2, "i8")),
    "places of another type": ("grow_blocks", u8, 3, np.zeros(2, "i8"), np.zeros(2, "i8")),
    "blocks too few": ("grow_blocks", np.arange(2), 3, np.zeros(1, "i8"), np.zeros(2, "i8")),
    "lines too few": ("code_bits", np.zeros(9, "i8"), 3, np.zeros(5, "u1")),
    "codes that are floats": ("code_bits", np.zeros(8), 1, np.zeros(1, "u1")),
    "code too large": ("code_bits", np.full(8, 2**63, "u8"), 1, np.zeros(1, "u1")),
    "bits too few": ("bits_count", u1, 129),
    "rows below 0": ("bits_count", u1, -1),
    "base too large": ("bits_ranges", u1, 128, 2**63 - 5, np.zeros(128, "i8"), np.zeros(128, "i8")),
    "seed too large": ("hash_items", u1, 8, 2**64, u8.copy(), u8.copy()),
    "seed below 0": ("hash_items", u1, 8, -1, u8.copy(), u8.copy()),
    "items do not fit": ("hash_items", u1, 7, 0, u8.copy(), u8.copy()),
    "halves too few": ("hash_items", u1, 4, 0, u8.copy(), u8.copy()),
    "filter empty": ("bloom_add_items", u1, 8, None, 1, u1[:0].copy()),
    "no hash": ("bloom_add_items", u1, 8, None, 0, u1.copy()),
    "too many hashes": ("bloom_add_items", u1, 8, None, 1025, u1.copy()),
    "filter read-only": ("bloom_add_items", u1, 8, None, 1, b"abc"),
    "block of 12": ("bit_unshuffle", u1, u1.copy(), 1, 12),
    "block of 0": ("bit_unshuffle", u1, u1.copy(), 1, 0),
    "items cut": ("bit_unshuffle", u1, u1.copy(), 3, 8),
    "out too short": ("bit_unshuffle", u1, u1[:8].copy(), 2, 8),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_input_is_refused(name: str) -> None:
    kernel, *arguments = MALFORMED[name]
    assert agree(kernel, *arguments) == REFUSED  # type: ignore[arg-type]
