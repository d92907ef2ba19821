"""NumPy form: how many bytes an LZ4 block unpacks to, without unpacking it.

A block is a row of sequences: a byte whose upper half is the number of bytes that follow as they are, and whose lower
half is the length of a copy less 4 (15: more follows, bytes added up to the first that is not 255); those bytes; the
distance of the copy (2). The last sequence has no copy.
"""

from __future__ import annotations

from colonnade.kernels.plain.arguments import Readable, open_bytes


def lz4_size(source: Readable, /) -> int:
    """The bytes of all sequences. Distances are not looked at."""
    data, size, at = open_bytes(source, "source").tobytes(), 0, 0
    unsound = ValueError("source is no block of LZ4")
    try:
        while at < len(data):
            token = data[at]
            literals, at = _length(data, at + 1, token >> 4)
            size, at = size + literals, at + literals
            if at == len(data):
                return size
            copied, at = _length(data, at + 2, token & 15)
            size += copied + 4
    except IndexError as error:
        raise unsound from error
    raise unsound


def _length(data: bytes, at: int, half: int) -> tuple[int, int]:
    """A length that half a byte begins, and the place behind it."""
    if half < 15:
        return half, at
    while data[at] == 255:
        half, at = half + 255, at + 1
    return half + data[at], at + 1
