"""MurmurHash3_x64_128 of many equal-length byte strings at once (the public-domain hash of Austin Appleby).

A byte string is a row of a matrix; the answer is two arrays of 64-bit halves. Arithmetic is modulo 2**64, which
unsigned NumPy arrays do of themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Words = np.ndarray[Any, np.dtype[np.uint64]]
Matrix = np.ndarray[Any, np.dtype[np.uint8]]
_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)


def murmur3_x64_128(rows: Matrix, seed: int) -> tuple[Words, Words]:
    """The low and the high half of the hash of each row."""
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
