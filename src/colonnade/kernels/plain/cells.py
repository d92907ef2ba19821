"""NumPy form: cells of a matrix, by rows (as in SciPy's CSR) and as points (as in sectioned chunks).

By rows: `minor` holds column numbers, those of row r from `starts[r]` up to but not including `stops[r]`. A point is
two little-endian numbers of `item` bytes each, at any address: row and column, both relative to the chunk.
"""

from __future__ import annotations

import numpy as np

from colonnade.kernels.plain.arguments import (
    KernelArray,
    Readable,
    check_apart,
    check_count,
    check_item_size,
    open_bytes,
    open_kind,
    open_values,
)

_LOWEST = (1 << 16) - 1
_ITEMS = (2, 4, 8)


def rows_to_points(
    minor: Readable, starts: Readable, stops: Readable, column: int, width: int, item: int, points: Readable, /
) -> None:
    """Write the points of all rows of a chunk that begins at `column` and has `width` columns.

    Within a row, columns must increase. All must belong to the chunk and fit into an item, and there must be as many
    cells as points.
    """
    columns, first, last = _open_rows(minor, starts, stops)
    out = open_bytes(points, "points", writable=True)
    _check_item(item)
    _check_columns(column, width, 2**63 - 1)
    if len(out) % (2 * item):
        raise ValueError(f"points has {len(out)} bytes, which is not a multiple of a point's size")
    _check_ranges(first, last, len(columns))
    rows, at = _expand(first, last)
    cells = columns[at].astype(np.int64)
    most = 2**63 - 1 if item == 8 else 1 << 8 * item
    wrong = (cells < column) | (cells - np.int64(column) >= min(width, most)) | (rows >= most)
    wrong[1:] |= (rows[1:] == rows[:-1]) & (cells[1:] <= cells[:-1])
    if wrong.any() or len(cells) != len(out) // (2 * item):
        raise ValueError("rows have columns that do not increase, leave the chunk or the items, or are not points")
    out[:] = np.stack((rows, cells - column), axis=1).astype(f"<u{item}").reshape(-1).view(np.uint8)


def points_to_rows(points: Readable, item: int, width: int, column: int, ends: Readable, minor: Readable, /) -> bool:
    """Write the end of each row of a chunk (after a leading 0), and the columns of its cells, plus `column`.

    `ends` has one more number than rows. Returns False, and writes nothing of use, if points do not increase row by row
    or lie outside the chunk: an unsorted list of points is not an error.
    """
    given = open_bytes(points, "points")
    limits, out = open_kind(ends, "ends", "i8", writable=True), _open_minor(minor, writable=True)
    _check_item(item)
    _check_columns(column, width, int(np.iinfo(out.dtype).max) + 1)
    if not len(limits):
        raise ValueError("ends is empty, expected one more than rows")
    check_count(given, "points", len(out) * 2 * item)
    cells = given.view(f"<u{item}").reshape(-1, 2)
    rows, columns = cells[:, 0], cells[:, 1]
    if len(cells) and (rows.max() >= len(limits) - 1 or columns.max() >= width):
        return False
    same = rows[1:] == rows[:-1]
    if ((rows[1:] < rows[:-1]) | (same & (columns[1:] <= columns[:-1]))).any():
        return False
    limits[:] = np.searchsorted(rows, np.arange(len(limits), dtype=np.uint64))
    out[:] = columns.astype(np.int64) + column
    return True


def cut_rows(minor: Readable, ends: Readable, width: int, n_chunks: int, cuts: Readable, /) -> None:
    """Write, for each row, where the cells of each chunk begin and where the last chunk's end: `n_chunks` + 1 numbers.

    Row r has the cells from `ends[r]` up to but not including `ends[r + 1]`. Chunks have `width` columns; columns
    beyond all chunks belong to the last one. If columns do not increase, the result has no meaning.
    """
    columns, limits = _open_minor(minor), open_kind(ends, "ends", "i8")
    target = open_kind(cuts, "cuts", "i8", writable=True)
    if width < 1 or n_chunks < 1:
        raise ValueError(f"there are {n_chunks} chunks of {width} columns, expected at least 1")
    if not len(limits):
        raise ValueError("ends is empty, expected one more than rows")
    check_count(target, "cuts", (len(limits) - 1) * (n_chunks + 1))
    _check_ranges(limits[:-1], limits[1:], len(columns))
    rows, at = _expand(limits[:-1], limits[1:])
    chunks = np.clip(columns[at] // width, 0, n_chunks - 1).astype(np.int64)
    counts = np.bincount(rows * n_chunks + chunks, minlength=(len(limits) - 1) * n_chunks).reshape(-1, n_chunks)
    out = target.reshape(-1, n_chunks + 1)
    out[:, 0] = limits[:-1]
    out[:, 1:] = limits[:-1, None] + np.cumsum(counts, axis=1)


def least_blocks(minor: Readable, starts: Readable, stops: Readable, /) -> int:
    """A lower bound for the number of blocks in a matrix: the cells without a cell to their left and above them.

    Columns of the row above are compared by their lowest 16 bits. Counting stops when the number is half that of the
    cells, because a writer needs to know no more. Returns 0 if the blocks may repeat one pattern: if fewer than two
    rows have cells, or the first two rows with cells are equal.
    """
    columns, first, last = _open_rows(minor, starts, stops)
    _check_ranges(first, last, len(columns))
    total = int((last - first).sum())
    filled: list[KernelArray] = []
    n_blocks, above = 0, np.empty(0, dtype=np.int64)
    for start, stop in zip(first.tolist(), last.tolist(), strict=True):
        if 2 * n_blocks >= total:
            break
        here = columns[start:stop].astype(np.int64)
        if len(here):
            filled.append(here)
            if len(filled) == 2 and np.array_equal(filled[0], filled[1]):
                return 0
        lone = np.append(True, here[1:] != here[:-1] + 1)[: len(here)] & ~np.isin(here & _LOWEST, above & _LOWEST)
        n_blocks += int(np.count_nonzero(lone))
        above = here
    return n_blocks if len(filled) > 1 else 0


def copy_runs(
    source: Readable, starts: Readable, places: Readable, lengths: Readable, item_size: int, out: Readable, /
) -> None:
    """Copy runs of items from their start in `source` to their position in `out`; the rest of `out` is unchanged."""
    given, target = open_bytes(source, "source"), open_bytes(out, "out", writable=True)
    first = open_kind(starts, "starts", "i8")
    to, n = open_kind(places, "places", "i8"), open_kind(lengths, "lengths", "i8")
    check_count(to, "places", len(first))
    check_count(n, "lengths", len(first))
    check_apart(given, target)
    check_item_size(item_size)
    there, room = len(given) // item_size, len(target) // item_size
    wrong = (first < 0) | (to < 0) | (n < 0) | (n > min(there, room)) | (first > there - n) | (to > room - n)
    if wrong.any():
        raise ValueError(f"run {int(np.argmax(wrong))} does not lie in source and out")
    items = target[: room * item_size].reshape(-1, item_size)
    whole = given[: there * item_size].reshape(-1, item_size)
    for start, begin, length in zip(first.tolist(), to.tolist(), n.tolist(), strict=True):
        items[begin : begin + length] = whole[start : start + length]


def _open_minor(minor: Readable, writable: bool = False) -> KernelArray:
    columns = open_values(minor, "minor", writable)
    if columns.dtype.str[1:] not in ("i4", "i8"):
        raise ValueError("minor must hold int32 or int64")
    return columns


def _open_rows(minor: Readable, starts: Readable, stops: Readable) -> tuple[KernelArray, KernelArray, KernelArray]:
    columns = _open_minor(minor)
    first, last = open_kind(starts, "starts", "i8"), open_kind(stops, "stops", "i8")
    check_count(last, "stops", len(first))
    return columns, first, last


def _check_item(item: int) -> None:
    if item not in _ITEMS:
        raise ValueError(f"item is {item}, expected 2, 4 or 8")


def _check_columns(column: int, width: int, most: int) -> None:
    if column < 0 or width < 1 or column + width > most:
        raise ValueError(f"columns from {column}, {width} of them, do not fit")


def _check_ranges(first: KernelArray, last: KernelArray, count: int) -> None:
    wrong = (first < 0) | (last < first) | (last > count)
    if wrong.any():
        raise ValueError(f"row {int(np.argmax(wrong))} does not lie in minor")


def _expand(first: KernelArray, last: KernelArray) -> tuple[KernelArray, KernelArray]:
    """The row number and the position of each cell."""
    counts = last - first
    rows = np.repeat(np.arange(len(first), dtype=np.int64), counts)
    return rows, np.arange(len(rows), dtype=np.int64) + np.repeat(first - np.cumsum(counts) + counts, counts)
