"""NumPy form: HDF5's shuffle and checksum filters, and the checksum of its metadata."""

from __future__ import annotations

import numpy as np

from colonnade.kernels.plain.arguments import (
    KernelBytes,
    Readable,
    check_apart,
    check_count,
    check_item_size,
    open_bytes,
    open_kind,
)

_WORD = 0xFFFFFFFF


def _open_pair(source: Readable, out: Readable, item_size: int) -> tuple[KernelBytes, KernelBytes]:
    given, target = open_bytes(source, "source"), open_bytes(out, "out", writable=True)
    check_apart(given, target)
    check_item_size(item_size)
    if len(given) != len(target):
        raise ValueError(f"out has {len(target)} bytes, expected {len(given)}")
    return given, target


def shuffle(source: Readable, out: Readable, item_size: int, /) -> None:
    """Write byte 0 of every item, then byte 1, and so on; bytes after the last item are copied (HDF5 filter 2)."""
    given, target = _open_pair(source, out, item_size)
    whole = len(given) // item_size * item_size
    target[:whole].reshape(item_size, -1)[...] = given[:whole].reshape(-1, item_size).T
    target[whole:] = given[whole:]


def unshuffle(source: Readable, out: Readable, item_size: int, /) -> None:
    """Undo `shuffle`."""
    given, target = _open_pair(source, out, item_size)
    whole = len(given) // item_size * item_size
    target[:whole].reshape(-1, item_size)[...] = given[:whole].reshape(item_size, -1).T
    target[whole:] = given[whole:]


def fletcher32(source: Readable, /) -> int:
    """The checksum of HDF5's filter 3: sums over big-endian 16-bit words, an odd last byte as the high one."""
    given = open_bytes(source, "source")
    if len(given) % 2:
        given = np.append(given, np.uint8(0))
    words = given.view(">u2").astype(np.uint64)
    first = second = 0
    for start in range(0, len(words), 1 << 16):
        block = words[start : start + (1 << 16)]
        weighted = int((block * np.arange(len(block), 0, -1, dtype=np.uint64)).sum())
        second = _fold(second + first * len(block) + weighted)
        first = _fold(first + int(block.sum()))
    return second << 16 | first


def _fold(total: int) -> int:
    """The sum modulo 65535, except that only a sum of 0 becomes 0."""
    return (total - 1) % 65535 + 1 if total else 0


def lookup3(source: Readable, /) -> int:
    """The checksum of HDF5's metadata: Bob Jenkins' lookup3 (hashlittle) with the initial value 0."""
    given = open_bytes(source, "source")
    size = len(given)
    padded = np.zeros(max(-(-size // 12), 1) * 12, dtype=np.uint8)
    padded[:size] = given
    words: list[int] = padded.view("<u4").tolist()
    a = b = c = (0xDEADBEEF + size) & _WORD
    if not size:
        return c
    for at in range(0, len(words) - 3, 3):
        a, b, c = a + words[at] & _WORD, b + words[at + 1] & _WORD, c + words[at + 2] & _WORD
        a, c = (a - c & _WORD) ^ _turn(c, 4), c + b & _WORD
        b, a = (b - a & _WORD) ^ _turn(a, 6), a + c & _WORD
        c, b = (c - b & _WORD) ^ _turn(b, 8), b + a & _WORD
        a, c = (a - c & _WORD) ^ _turn(c, 16), c + b & _WORD
        b, a = (b - a & _WORD) ^ _turn(a, 19), a + c & _WORD
        c, b = (c - b & _WORD) ^ _turn(b, 4), b + a & _WORD
    a, b, c = a + words[-3] & _WORD, b + words[-2] & _WORD, c + words[-1] & _WORD
    c = (c ^ b) - _turn(b, 14) & _WORD
    a = (a ^ c) - _turn(c, 11) & _WORD
    b = (b ^ a) - _turn(a, 25) & _WORD
    c = (c ^ b) - _turn(b, 16) & _WORD
    a = (a ^ c) - _turn(c, 4) & _WORD
    b = (b ^ a) - _turn(a, 14) & _WORD
    return (c ^ b) - _turn(b, 24) & _WORD


def lookup3_each(source: Readable, starts: Readable, stops: Readable, sums: Readable, /) -> None:
    """Write the lookup3 checksum of each piece of `source`, given by its start and stop."""
    given = open_bytes(source, "source")
    first, last = open_kind(starts, "starts", "i8"), open_kind(stops, "stops", "i8")
    out = open_kind(sums, "sums", "u4", writable=True)
    check_count(last, "stops", len(first))
    check_count(out, "sums", len(first))
    wrong = (first < 0) | (last < first) | (last > len(given))
    if wrong.any():
        raise ValueError(f"piece {int(np.argmax(wrong))} does not lie in source")
    for number, (start, stop) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        out[number] = lookup3(given[start:stop])


def _turn(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & _WORD
