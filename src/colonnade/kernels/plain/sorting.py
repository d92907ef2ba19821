"""NumPy form: row numbers in the order of their values."""

from __future__ import annotations

import numpy as np

from colonnade.kernels.plain.arguments import Readable, check_apart, check_count, open_kind, open_values


def argsort(values: Readable, out: Readable, /) -> None:
    """Write the rows (uint32, int64 or uint64) sorted by value, equal values by row; -0.0 equals 0.0, NaN is last."""
    given, target = open_values(values, "values"), open_values(out, "out", writable=True)
    check_count(target, "out", len(given))
    if target.dtype.str[1:] not in ("u4", "i8", "u8"):
        raise ValueError("out must hold uint32, int64 or uint64")
    if target.itemsize == 4 and len(given) > 2**32 - 1:
        raise ValueError(f"out is too narrow for {len(given)} rows")
    target[...] = np.argsort(given, kind="stable")


def insert_rows(rows: Readable, places: Readable, added: Readable, out: Readable, /) -> None:
    """Write `rows` with the rows `added` inserted before the given, increasing positions."""
    before, new = open_values(rows, "rows"), open_values(added, "added")
    where, target = open_kind(places, "places", "i8"), open_values(out, "out", writable=True)
    check_count(new, "added", len(where))
    if before.dtype.str[1:] not in ("u4", "u8") or new.dtype != before.dtype or target.dtype != before.dtype:
        raise ValueError("rows, added and out must all hold uint32 or all uint64")
    check_count(target, "out", len(before) + len(new))
    for given in (before, where, new):
        check_apart(given, target)
    if len(where) and (where[0] < 0 or where[-1] > len(before) or (np.diff(where) < 0).any()):
        raise ValueError(f"places must increase, from 0 to {len(before)}")
    target[...] = np.insert(before, where, new)
