"""NumPy form: deflate bytes with literals and runs of one byte only, by zlib's strategy Z_RLE."""

from __future__ import annotations

import zlib

import numpy as np

from colonnade.kernels.plain.arguments import Readable, check_apart, open_bytes


def deflate(source: Readable, out: Readable, /) -> int:
    """Write a zlib stream to the beginning of `out`; return its length, or 0 if it does not fit. Forms differ in it."""
    given, target = open_bytes(source, "source"), open_bytes(out, "out", writable=True)
    check_apart(given, target)
    packer = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, zlib.Z_RLE)
    stream = packer.compress(given.data) + packer.flush()
    if len(stream) > len(target):
        return 0
    target[: len(stream)] = np.frombuffer(stream, dtype=np.uint8)
    return len(stream)


def deflate_even(source: Readable, out: Readable, /) -> int:
    """Like `deflate`, for bytes of one distribution: one set of codes is used for long stretches."""
    return deflate(source, out)
