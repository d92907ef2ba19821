"""NumPy form: blocks of LZ4, unpacked to exactly the bytes they are said to have.

A block is a row of sequences: a byte whose upper half is the number of bytes that follow as they are, and whose lower
half is the length of a copy less 4 (15: more follows, bytes added up to the first that is not 255); those bytes; the
distance of the copy (2). The last sequence has no copy, and makes the last 5 bytes at least.
"""

from __future__ import annotations

import numpy as np

from colonnade.kernels.plain.arguments import Readable, check_apart, open_bytes

_LAST = 5


def unpack_lz4(source: Readable, out: Readable, /) -> None:
    """Exactly the bytes of `out`."""
    given, made = open_bytes(source, "source"), open_bytes(out, "out", writable=True)
    check_apart(given, made)
    unsound = ValueError(f"source is no LZ4 of {len(made)} bytes")
    try:
        done = _unpack(given.tobytes(), len(made))
    except IndexError as error:
        raise unsound from error
    if done is None or len(done) != len(made):
        raise unsound
    made[...] = np.frombuffer(done, dtype=np.uint8)


def _unpack(data: bytes, room: int) -> bytearray | None:
    """What the block unpacks to; None where that is too much, or the block is cut off."""
    done, at = bytearray(), 0
    while at < len(data):
        token = data[at]
        literals, at = _length(data, at + 1, token >> 4)
        done += data[at : at + literals]
        at += literals
        if at >= len(data) or len(done) > room:
            return done if at == len(data) else None
        distance = data[at] | data[at + 1] << 8
        copied, at = _length(data, at + 2, (token & 15))
        copied += 4
        if not 0 < distance <= len(done) or copied > room - len(done) - _LAST:
            return None
        done += (bytes(done[-distance:]) * -(-copied // distance))[:copied]
    return None


def _length(data: bytes, at: int, half: int) -> tuple[int, int]:
    """A length that half a byte begins, and the place behind it."""
    if half < 15:
        return half, at
    while data[at] == 255:
        half, at = half + 255, at + 1
    return half + data[at], at + 1
