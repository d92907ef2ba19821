"""NumPy form: convert fixed-length strings to Arrow, and check text."""

from __future__ import annotations

import numpy as np

from colonnade.kernels.plain.arguments import (
    KernelArray,
    KernelBytes,
    Readable,
    check_apart,
    check_offsets,
    open_bytes,
    open_offsets,
    open_optional_mask,
)
from colonnade.kernels.rules import ANYTHING, ASCII, SPACES, TERMINATED


def fixed_to_arrow(
    source: Readable,
    width: int,
    padding: int,
    check: int,
    missing: Readable | None,
    offsets: Readable,
    data: Readable,
    /,
) -> tuple[int, int]:
    """Remove the padding of strings; return their total bytes, and the first row that fails the check, or -1.

    `padding`: TERMINATED, NULLS, SPACES; `check`: ANYTHING, ASCII, UTF8. `data` is at least as long as `source`.
    Missing rows become empty strings and are not checked.
    """
    given, ends, target = open_bytes(source, "source"), open_offsets(offsets, True), open_bytes(data, "data", True)
    _check_code(padding, "padding")
    _check_code(check, "check")
    n = len(ends) - 1
    left_out = open_optional_mask(missing, "missing", n)
    if width < 1 or len(given) != n * width:
        raise ValueError(f"source has {len(given)} bytes, expected {n} strings of {width}")
    if len(target) < len(given):
        raise ValueError(f"data has {len(target)} bytes, expected at least {len(given)}")
    rows = given.reshape(n, width)
    lengths = np.where(left_out, 0, _trimmed(rows, padding))
    whole = np.concatenate(([0], np.cumsum(lengths)))
    if whole[-1] > np.iinfo(ends.dtype).max:
        raise ValueError("the strings have more bytes than offsets of 32 bits can count")
    ends[...] = whole
    size = int(whole[-1])
    target[:size] = rows[np.arange(width) < lengths[:, None]]
    return size, _first_bad(ends, target, check, left_out)


def arrow_to_fixed(offsets: Readable, data: Readable, width: int, out: Readable, /) -> tuple[int, int, bool]:
    """Pad strings with NUL; return the bytes of the shortest and the longest, and whether a string holds NUL.

    `offsets` are int32. If a string is longer than `width`, nothing is written to `out`.
    """
    ends, given, target = open_offsets(offsets), open_bytes(data, "data"), open_bytes(out, "out", True)
    if ends.dtype != np.int32:
        raise ValueError("offsets must hold int32")
    check_apart(given, target)
    n = len(ends) - 1
    if width < 1 or len(target) != n * width:
        raise ValueError(f"out has {len(target)} bytes, expected {n} strings of {width}")
    check_offsets(ends, len(given))
    lengths = np.diff(ends)
    has_nul = bool((given[ends[0] : ends[-1]] == 0).any()) if n else False
    least, most = int(lengths.min(initial=np.iinfo(np.int32).max)) if n else 0, int(lengths.max(initial=0))
    if most <= width and n:
        rows = target.reshape(n, width)
        is_content = np.arange(width) < lengths[:, None]
        rows[...] = 0
        rows[is_content] = given[ends[0] : ends[-1]]
    return least, most, has_nul


def check_text(offsets: Readable, data: Readable, check: int, missing: Readable | None, /) -> int:
    """The first row that is not ASCII, or not UTF-8; -1 if there is none. Missing rows are not checked."""
    ends, given = open_offsets(offsets), open_bytes(data, "data")
    _check_code(check, "check")
    left_out = open_optional_mask(missing, "missing", len(ends) - 1)
    check_offsets(ends, len(given))
    return _first_bad(ends, given, check, left_out)


def _check_code(value: int, name: str) -> None:
    if not 0 <= value <= 2:
        raise ValueError(f"{name} is {value}, expected 0 to 2")


def _trimmed(rows: KernelBytes, padding: int) -> KernelArray:
    """The length of each row without its padding."""
    lengths: KernelArray
    if padding == TERMINATED:
        ends = rows == 0
        lengths = np.where(ends.any(axis=1), ends.argmax(axis=1), rows.shape[1])
    else:
        is_content = rows[:, ::-1] != (ord(" ") if padding == SPACES else 0)
        lengths = np.where(is_content.any(axis=1), rows.shape[1] - is_content.argmax(axis=1), 0)
    return lengths


def _first_bad(offsets: KernelArray, data: KernelBytes, check: int, left_out: KernelArray) -> int:
    if check == ANYTHING:
        return -1
    high = np.concatenate(([0], np.cumsum(data >= 0x80)))
    wide = offsets.astype(np.int64)
    suspects = np.flatnonzero((high[wide[1:]] > high[wide[:-1]]) & ~left_out)
    for row in suspects.tolist():
        if check == ASCII:
            return int(row)
        try:
            data[wide[row] : wide[row + 1]].tobytes().decode("utf-8")
        except UnicodeDecodeError:
            return int(row)
    return -1
