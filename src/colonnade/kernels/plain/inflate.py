"""NumPy form: deflated bytes inflated to exactly the bytes they are said to have. By zlib, which defines the form."""

from __future__ import annotations

import zlib

import numpy as np

from colonnade.kernels.plain.arguments import Readable, check_apart, open_bytes


def inflate(source: Readable, out: Readable, /) -> None:
    """Exactly the bytes of `out`; what follows the stream does not matter."""
    given, made = open_bytes(source, "source"), open_bytes(out, "out", writable=True)
    check_apart(given, made)
    unpacker = zlib.decompressobj()
    try:
        done = unpacker.decompress(given.data, len(made) + 1)  # one byte more than wanted shows that there are too many
    except zlib.error as error:
        raise ValueError(f"source is no deflated stream of {len(made)} bytes: {error}") from error
    if not unpacker.eof or len(done) != len(made):
        raise ValueError(f"source is no deflated stream of {len(made)} bytes")
    made[...] = np.frombuffer(done, dtype=np.uint8)
