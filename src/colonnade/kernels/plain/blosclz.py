"""NumPy form: bytes packed by BloscLZ, the codec of Blosc's own.

A stream is a row of runs. The byte that begins a run says what it is (of the first, the lower 5 bits count): below 32,
that many bytes and one more follow as they are; else a copy of what was made before. Upper 3 bits: length, from 3 on
(the highest: more follows, bytes added up to the first that is not 255). Lower 5 bits and the byte after the length:
distance less 1, where all ones mean a far one: 2 bytes, high one first, and 8192 are the distance. The last run is no
copy.
"""

from __future__ import annotations

import numpy as np

from colonnade.kernels.plain.arguments import Readable, check_apart, open_bytes


def unpack_blosclz(source: Readable, out: Readable, /) -> None:
    """Exactly the bytes of `out`."""
    given, made = open_bytes(source, "source"), open_bytes(out, "out", writable=True)
    check_apart(given, made)
    data = given.tobytes()
    unsound = ValueError(f"source is no blosclz of {len(made)} bytes")
    done, at = bytearray(), 0
    try:
        while at < len(data):
            first = data[at] if at else data[at] & 31
            at += 1
            if first < 32:
                part, at = data[at : at + first + 1], at + first + 1
            else:
                length, distance, at = _read_copy(data, at, first)
                if distance > len(done) or length > len(made) - len(done):
                    raise unsound
                part = (bytes(done[-distance:]) * -(-length // distance))[:length]
                data[at]  # no stream ends with a copy
            done += part
            if at > len(data) or len(done) > len(made):
                raise unsound
    except IndexError as error:
        raise unsound from error
    if len(done) != len(made):
        raise unsound
    made[...] = np.frombuffer(done, dtype=np.uint8)


def _read_copy(data: bytes, at: int, first: int) -> tuple[int, int, int]:
    """Length and distance of a copy, and the place behind it."""
    length = (first >> 5) + 2
    if first >> 5 == 7:
        while data[at] == 255:
            length, at = length + 255, at + 1
        length, at = length + data[at], at + 1
    away = (first & 31) << 8 | data[at]
    if away < (31 << 8 | 255):
        return length, away + 1, at + 1
    return length, (data[at + 1] << 8 | data[at + 2]) + 8192, at + 3
