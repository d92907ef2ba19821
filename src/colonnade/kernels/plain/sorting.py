"""NumPy form: row numbers in the order of their values."""

from __future__ import annotations

import numpy as np

from colonnade.kernels.plain.arguments import Readable, check_count, open_values


def argsort(values: Readable, out: Readable, /) -> None:
    """Rows (uint32, int64 or uint64) in increasing order of their values, equal ones by row; -0.0 equals 0.0, NaN is
    last."""
    given, made = open_values(values, "values"), open_values(out, "out", writable=True)
    check_count(made, "out", len(given))
    if made.dtype.str[1:] not in ("u4", "i8", "u8"):
        raise ValueError("out must hold uint32, int64 or uint64")
    if made.itemsize == 4 and len(given) > 2**32 - 1:
        raise ValueError(f"out is too narrow for {len(given)} rows")
    made[...] = np.argsort(given, kind="stable")
