"""NumPy form: merge elements of a matrix into rectangles."""

from __future__ import annotations

import numpy as np

from colonnade.kernels.plain.arguments import Readable, check_count, open_kind


def grow_blocks(places: Readable, width: int, first: Readable, last: Readable, /) -> int:
    """Write the positions of the first and the last element of each block, and return the number of blocks.

    Blocks hold exactly the given elements. Positions count row by row in a matrix of `width` columns, and increase.
    Adjacent elements form runs; equal runs in consecutive rows form blocks.
    """
    given = open_kind(places, "places", "i8")
    firsts, lasts = open_kind(first, "first", "i8", writable=True), open_kind(last, "last", "i8", writable=True)
    check_count(firsts, "first", len(given))
    check_count(lasts, "last", len(given))
    if width < 1:
        raise ValueError(f"width is {width}, expected at least 1")
    if not len(given):
        return 0
    wrong = np.flatnonzero(np.append(given[0] < 0, given[1:] <= given[:-1]))
    if len(wrong):
        raise ValueError(f"places do not increase from 0 on at place {wrong[0]}")
    rows, columns = np.divmod(given, width)
    begins = np.flatnonzero(np.append(True, (np.diff(columns) != 1) | (np.diff(rows) != 0)))
    ends = np.append(begins[1:], len(given)) - 1
    order = np.lexsort((rows[begins], columns[ends], columns[begins]))
    begins, ends = begins[order], ends[order]
    below = (np.diff(rows[begins]) == 1) & (np.diff(columns[begins]) == 0) & (np.diff(columns[ends]) == 0)
    heads = np.flatnonzero(np.append(True, ~below))
    tails = np.append(heads[1:], len(begins)) - 1
    opened, closed = given[begins[heads]], given[ends[tails]]
    order = np.argsort(opened)
    firsts[: len(opened)], lasts[: len(opened)] = opened[order], closed[order]
    return len(opened)
