"""NumPy form: bytes deflated by literals and runs of one byte alone. By zlib, which has that way too."""

from __future__ import annotations

import zlib

import numpy as np

from colonnade.kernels.plain.arguments import Readable, check_apart, open_bytes


def deflate(source: Readable, out: Readable, /) -> int:
    """A stream of zlib, at the beginning of `out`: its bytes, or 0 where it does not fit. Forms make different ones."""
    given, target = open_bytes(source, "source"), open_bytes(out, "out", writable=True)
    check_apart(given, target)
    packer = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, zlib.Z_RLE)
    stream = packer.compress(given.data) + packer.flush()
    if len(stream) > len(target):
        return 0
    target[: len(stream)] = np.frombuffer(stream, dtype=np.uint8)
    return len(stream)


def deflate_even(source: Readable, out: Readable, /) -> int:
    """As `deflate`, for bytes that are alike throughout: one set of codes is used for many of them."""
    return deflate(source, out)
