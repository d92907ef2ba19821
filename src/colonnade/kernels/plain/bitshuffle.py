"""NumPy form: the bit transposition of the bitshuffle filter.

Items are taken in blocks of `block_items`; what is left is one more block of a multiple of 8; up to 7 items more are
copied. In a block of n items, bit i % 8 of byte (8 * b + k) * n / 8 + i / 8 is bit k of byte b of item i.
"""

from __future__ import annotations

import numpy as np

from colonnade.kernels.plain.arguments import Bytes, Readable, check_apart, open_bytes


def bit_unshuffle(source: Readable, out: Readable, item_size: int, block_items: int, /) -> None:
    """Undo the transposition. The filter's own block is the multiple of 8 below 8192 / item_size, at least 128."""
    given, made = open_bytes(source, "source"), open_bytes(out, "out", writable=True)
    check_apart(given, made)
    if item_size < 1 or len(given) % item_size:
        raise ValueError(f"source has {len(given)} bytes, no whole number of items of {item_size}")
    if block_items < 8 or block_items % 8:
        raise ValueError(f"block_items is {block_items}, expected a multiple of 8")
    if len(given) != len(made):
        raise ValueError(f"out has {len(made)} bytes, expected {len(given)}")
    at, n = 0, len(given) // item_size
    while n - at >= 8:
        some = min(block_items, (n - at) // 8 * 8)
        block = slice(at * item_size, (at + some) * item_size)
        made[block] = _join(given[block], some, item_size)
        at += some
    made[at * item_size :] = given[at * item_size :]


def _join(block: Bytes, n: int, item_size: int) -> Bytes:
    bits = np.unpackbits(block.reshape(8 * item_size, n // 8), axis=1, bitorder="little")
    return np.packbits(np.ascontiguousarray(bits.T), axis=1, bitorder="little").reshape(-1)
