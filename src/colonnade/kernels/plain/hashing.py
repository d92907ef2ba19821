"""NumPy form: MurmurHash3_x64_128 (the public-domain hash of Austin Appleby), and Bloom filters made of it.

Arithmetic is modulo 2**64, which unsigned NumPy arrays do of themselves. A key has h_a, the low half of its hash with
seed 0, and h_b, the high half of its hash with BLOOM_SECOND_SEED; its k bits are (h_a + i * h_b) mod 2**64 mod m
for i below k (HEP001 8.7). Bit b is bit b % 8 of byte b // 8.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from colonnade.arrays import UInt64s
from colonnade.kernels.plain.arguments import (
    KernelArray,
    KernelBytes,
    Readable,
    check_count,
    check_offsets,
    open_bytes,
    open_kind,
    open_mask,
    open_offsets,
)

Words = UInt64s
BLOOM_SECOND_SEED = 0x9E3779B9
MOST_BLOOM_HASHES = 1024  # more would only keep a reader busy
_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)


def hash_items(source: Readable, item_size: int, seed: int, low: Readable, high: Readable, /) -> None:
    """Write both halves (uint64) of the hash of each fixed-size item."""
    rows = _open_items(source, item_size)
    lows, highs = _open_halves(seed, low, high, len(rows))
    lows[...], highs[...] = _murmur(rows, seed)


def hash_strings(offsets: Readable, data: Readable, seed: int, low: Readable, high: Readable, /) -> None:
    """Write both halves of the hash of each string, given by Arrow's offsets."""
    ends, given = open_offsets(offsets), open_bytes(data, "data")
    lows, highs = _open_halves(seed, low, high, len(ends) - 1)
    check_offsets(ends, len(given))
    for places, rows in _by_length(ends, given):
        lows[places], highs[places] = _murmur(rows, seed)


def bloom_add_items(source: Readable, item_size: int, present: Readable | None, k: int, filter: Readable, /) -> None:  # noqa: A002
    """Set the k bits of each present item in a Bloom filter, which has 8 bits per byte."""
    rows = _open_items(source, item_size)
    is_present = _open_present(present, len(rows))
    bits = _open_filter(filter, k)
    _set(bits, _places(rows[is_present], k, len(bits)))


def bloom_add_strings(offsets: Readable, data: Readable, present: Readable | None, k: int, filter: Readable, /) -> None:  # noqa: A002
    """Set the k bits of each present string, given by Arrow's offsets, in a Bloom filter."""
    ends, given = open_offsets(offsets), open_bytes(data, "data")
    is_present = _open_present(present, len(ends) - 1)
    bits = _open_filter(filter, k)
    check_offsets(ends, len(given))
    for places, rows in _by_length(ends, given):
        _set(bits, _places(rows[is_present[places]], k, len(bits)))


def _open_items(source: Readable, item_size: int) -> KernelBytes:
    given = open_bytes(source, "source")
    if item_size < 1 or len(given) % item_size:
        raise ValueError(f"source has {len(given)} bytes, not a multiple of {item_size}")
    return given.reshape(-1, item_size)


def _open_halves(seed: int, low: Readable, high: Readable, count: int) -> tuple[KernelArray, KernelArray]:
    if not isinstance(seed, int) or not 0 <= seed < 2**64:
        raise ValueError("seed must be an integer from 0 to 2**64 - 1")
    lows, highs = open_kind(low, "low", "u8", writable=True), open_kind(high, "high", "u8", writable=True)
    check_count(lows, "low", count)
    check_count(highs, "high", count)
    return lows, highs


def _open_present(present: Readable | None, count: int) -> KernelArray:
    if present is None:
        return np.ones(count, dtype=bool)
    mask = open_mask(present, "present")
    check_count(mask, "present", count)
    return np.asarray(mask != 0)


def _open_filter(filter_: Readable, k: int) -> KernelBytes:
    bits = open_bytes(filter_, "filter", writable=True)
    if not len(bits) or not 1 <= k <= MOST_BLOOM_HASHES:
        raise ValueError(f"a filter has at least a byte, and 1 to {MOST_BLOOM_HASHES} hashes: not {len(bits)} and {k}")
    return bits


def _by_length(offsets: KernelArray, data: KernelBytes) -> Iterator[tuple[KernelArray, KernelBytes]]:
    """The strings grouped by length: their rows, and their bytes as a matrix."""
    lengths = np.diff(offsets.astype(np.int64))
    for length in np.unique(lengths).tolist():
        places = np.flatnonzero(lengths == length)
        yield places, data[offsets[places].astype(np.int64)[:, None] + np.arange(length)]


def _places(rows: KernelBytes, k: int, n_bytes: int) -> KernelArray:
    """The k bit positions of each row in a filter."""
    low, high = _murmur(rows, 0)[0], _murmur(rows, BLOOM_SECOND_SEED)[1]
    steps = np.arange(k, dtype=np.uint64)
    return ((low[:, None] + steps * high[:, None]) % np.uint64(8 * n_bytes)).astype(np.int64)


def _set(bits: KernelBytes, places: KernelArray) -> None:
    fresh = np.zeros(8 * len(bits), dtype=bool)
    fresh[places.reshape(-1)] = True
    bits |= np.packbits(fresh, bitorder="little")


def _murmur(rows: KernelBytes, seed: int) -> tuple[Words, Words]:
    """The low and the high half of the hash of each row of a matrix."""
    n_rows, length = rows.shape
    low: Words = np.full(n_rows, seed, dtype=np.uint64)
    high: Words = np.full(n_rows, seed, dtype=np.uint64)
    n_blocks = length // 16
    words = np.ascontiguousarray(rows[:, : n_blocks * 16]).view("<u8")
    for block in range(n_blocks):
        low ^= _mix(words[:, 2 * block].astype(np.uint64), _C1, 31, _C2)
        low = (_rotate(low, 27) + high) * np.uint64(5) + np.uint64(0x52DCE729)
        high ^= _mix(words[:, 2 * block + 1].astype(np.uint64), _C2, 33, _C1)
        high = (_rotate(high, 31) + low) * np.uint64(5) + np.uint64(0x38495AB5)
    rest = length - n_blocks * 16
    if rest:
        tail = np.zeros((n_rows, 16), dtype=np.uint8)
        tail[:, :rest] = rows[:, n_blocks * 16 :]
        last = tail.view("<u8").astype(np.uint64)
        if rest > 8:
            high ^= _mix(last[:, 1], _C2, 33, _C1)
        low ^= _mix(last[:, 0], _C1, 31, _C2)
    return _finish(low, high, length)


def _finish(low: Words, high: Words, length: int) -> tuple[Words, Words]:
    low ^= np.uint64(length)
    high ^= np.uint64(length)
    low = low + high
    high = high + low
    low, high = _scramble(low), _scramble(high)
    low = low + high
    return low, high + low


def _rotate(words: Words, by: int) -> Words:
    return (words << np.uint64(by)) | (words >> np.uint64(64 - by))


def _mix(words: Words, first: np.uint64, by: int, second: np.uint64) -> Words:
    return _rotate(words * first, by) * second


def _scramble(words: Words) -> Words:
    words = (words ^ (words >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    words = (words ^ (words >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return words ^ (words >> np.uint64(33))
