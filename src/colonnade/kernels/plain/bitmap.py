"""NumPy form: bits of rows. Bit r % 8 of byte r // 8, counted from the lowest, is row r."""

from __future__ import annotations

import numpy as np

from colonnade.arrays import Int64s, Octets
from colonnade.kernels.plain.arguments import (
    Readable,
    check_base,
    check_count,
    open_bytes,
    open_kind,
    open_values,
    put_rows,
)

FEW = 64  # values up to which a line is made at once for each


def code_bits(codes: Readable, n_values: int, out: Readable, /) -> None:
    """Write one line of bits per value: the bits of the rows that have its code. Negative codes set no bit."""
    given, target = open_values(codes, "codes"), open_bytes(out, "out", writable=True)
    if given.dtype.kind == "f":
        raise ValueError("codes must hold integers")
    line = -(-len(given) // 8)
    if n_values < 0 or len(target) != n_values * line:
        raise ValueError(f"out has {len(target)} bytes, expected {n_values} lines of {line}")
    if len(given) and int(given.max()) >= n_values:
        row = int(np.argmax(given >= n_values))
        raise ValueError(f"codes names a value in row {row} that is not among the {n_values}")
    lines = target.reshape(n_values, line)
    if n_values <= FEW:
        for value in range(n_values):
            lines[value] = np.packbits(given == value, bitorder="little")
        return
    lines[...] = 0
    rows = np.flatnonzero(given >= 0)
    np.bitwise_or.at(lines, (given[rows].astype(np.int64), rows // 8), (1 << (rows % 8)).astype(np.uint8))


def bits_count(bits: Readable, n_rows: int, /) -> int:
    """The number of set bits among the first rows."""
    return int(np.count_nonzero(_open(bits, n_rows)))


def bits_range_count(bits: Readable, n_rows: int, /) -> int:
    """The number of ranges that the rows with a set bit form."""
    return len(_edges(_open(bits, n_rows))) // 2


def bits_ranges(bits: Readable, n_rows: int, base: int, starts: Readable, stops: Readable, /) -> int:
    """Write the starts and stops of the ranges that the rows with a set bit form; return the number of ranges."""
    truth = _open(bits, n_rows)
    begins, ends = open_kind(starts, "starts", "i8", writable=True), open_kind(stops, "stops", "i8", writable=True)
    check_count(ends, "stops", len(begins))
    check_base(base, n_rows)
    edges = _edges(truth) + base
    put_rows(edges[1::2], ends)
    return put_rows(edges[0::2], begins)


def _open(bits: Readable, n_rows: int) -> Octets:
    given = open_bytes(bits, "bits")
    if n_rows < 0 or -(-n_rows // 8) > len(given):
        raise ValueError(f"bits has {len(given)} bytes, too few for {n_rows} rows")
    return np.unpackbits(given, count=n_rows, bitorder="little")


def _edges(truth: Octets) -> Int64s:
    return np.flatnonzero(np.diff(truth.view(np.int8), prepend=0, append=0)).astype(np.int64)
