"""NumPy form: gather items; minimum and maximum, sums, sums by group."""

from __future__ import annotations

import numpy as np

from colonnade.kernels.plain.arguments import (
    KernelArray,
    Readable,
    check_count,
    check_item_size,
    open_bytes,
    open_kind,
    open_optional_mask,
    open_values,
)

KernelNumber = int | float
GROUP_BLOCK = 1 << 20  # rows whose halves of 32 bits add up exactly in a float64


def take(source: Readable, item_size: int, rows: Readable, out: Readable, /) -> None:
    """Write the items at these rows (int64), one after another."""
    given, places, target = open_bytes(source, "source"), open_kind(rows, "rows", "i8"), open_bytes(out, "out", True)
    check_item_size(item_size)
    if len(given) % item_size:
        raise ValueError(f"source has {len(given)} bytes, not a multiple of {item_size}")
    if len(target) != len(places) * item_size:
        raise ValueError(f"out has {len(target)} bytes, expected {len(places)} items of {item_size}")
    n = len(given) // item_size
    wrong = (places < 0) | (places >= n)
    if wrong.any():
        raise ValueError(f"rows names a row at place {int(np.argmax(wrong))} that is not among the {n}")
    target.reshape(-1, item_size)[...] = given.reshape(-1, item_size)[places]


def _present(values: Readable, missing: Readable | None) -> tuple[KernelArray, int]:
    """The values that are neither missing nor NaN, and the number of NaN."""
    given = open_values(values, "values")
    present = given[~open_optional_mask(missing, "missing", len(given))]
    numbers = present[present == present]  # noqa: PLR0124
    return numbers, len(present) - len(numbers)


def least_greatest(
    values: Readable, missing: Readable | None, /
) -> tuple[KernelNumber | None, KernelNumber | None, int, int]:
    """Minimum, maximum (None if there is no value), number of values, number of NaN. Zero is returned as 0.0."""
    numbers, n_nan = _present(values, missing)
    if not len(numbers):
        return None, None, 0, n_nan
    least, greatest = numbers.min().item(), numbers.max().item()
    return least + 0, greatest + 0, len(numbers), n_nan


def total(values: Readable, missing: Readable | None, /) -> tuple[KernelNumber, int, int]:
    """The exact sum of integers, or the compensated float64 sum of floats; the number of values; the number of NaN."""
    numbers, n_nan = _present(values, missing)
    if numbers.dtype.kind == "f":
        return _float_total(numbers.astype(np.float64)), len(numbers), n_nan
    if numbers.itemsize < 8:
        return int(numbers.sum(dtype=np.int64)), len(numbers), n_nan
    low = int((numbers & numbers.dtype.type(2**32 - 1)).sum(dtype=np.int64))
    high = int((numbers >> numbers.dtype.type(32)).sum(dtype=np.int64))
    return (high << 32) + low, len(numbers), n_nan


def _float_total(numbers: KernelArray) -> float:
    lost = 0.0
    with np.errstate(all="ignore"):
        plain = float(numbers.sum())
        while len(numbers) > 1:
            if len(numbers) % 2:
                numbers = np.append(numbers, 0.0)
            a, b = numbers[0::2], numbers[1::2]
            whole = a + b
            part = whole - a
            lost += float(((a - (whole - part)) + (b - part)).sum())
            numbers = whole
    corrected = (float(numbers[0]) if len(numbers) else 0.0) + lost
    return corrected if np.isfinite(corrected) else plain


def group_totals(
    codes: Readable,
    values: Readable,
    missing: Readable | None,
    totals: Readable,
    counts: Readable,
    nans: Readable,
    least: Readable | None,
    greatest: Readable | None,
    /,
) -> None:
    """Add rows to the sums of their groups; rows that are missing or have a negative code are left out.

    `counts` and `nans` are int64, one per group. `totals` has two numbers per group: for floats (float64) the sum and
    its compensation for rounding; for integers (int64) the low and the high half of the sum. `least` and `greatest`
    have the type of the values, and are undefined for a group whose count is 0.
    """
    which, given = open_values(codes, "codes"), open_values(values, "values")
    check_count(which, "codes", len(given))
    left_out = open_optional_mask(missing, "missing", len(given))
    is_float = given.dtype.kind == "f"
    sums = open_kind(totals, "totals", "f8" if is_float else "i8", writable=True)
    n, n_nan = open_kind(counts, "counts", "i8", writable=True), open_kind(nans, "nans", "i8", writable=True)
    check_count(n_nan, "nans", len(n))
    ends = []
    for thing, name, merge in ((least, "least", np.minimum), (greatest, "greatest", np.maximum)):
        if thing is not None:
            ends.append((open_kind(thing, name, given.dtype.str, writable=True), merge))
            check_count(ends[-1][0], name, len(n))
    if which.dtype.kind == "f":
        raise ValueError("codes must hold integers")
    if len(sums) != 2 * len(n):
        raise ValueError(f"totals has {len(sums)} items, expected two for each of {len(n)} groups")
    left_out |= which < 0
    wrong = ~left_out & (which >= len(n))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(f"codes names a group in row {row} that is not among the {len(n)}")
    which, given = which[~left_out].astype(np.int64), given[~left_out]
    is_number = given == given  # noqa: PLR0124
    n_nan += np.bincount(which[~is_number], minlength=len(n))
    which, given = which[is_number], given[is_number]
    for end, merge in ends:
        _merge_ends(end, merge, which, given, n)
    n += np.bincount(which, minlength=len(n))
    for start in range(0, len(which), GROUP_BLOCK):
        block = slice(start, start + GROUP_BLOCK)
        (_add_floats if is_float else _add_integers)(sums.reshape(-1, 2), which[block], given[block])


def _merge_ends(end: KernelArray, merge: np.ufunc, which: KernelArray, given: KernelArray, counts: KernelArray) -> None:
    empty = counts == 0
    first = np.full(len(end), -1)
    first[which[::-1]] = np.arange(len(which))[::-1]  # where each group is met first
    new = empty & (first >= 0)
    end[new] = given[first[new]]
    merge.at(end, which, given)


def _add_floats(sums: KernelArray, which: KernelArray, given: KernelArray) -> None:
    sums[:, 0] += np.bincount(which, weights=given, minlength=len(sums))


def _add_integers(sums: KernelArray, which: KernelArray, given: KernelArray) -> None:
    wide = given.astype(np.int64) if given.dtype.kind == "i" else given.astype(np.uint64)
    step = wide.dtype.type(32)
    low = np.bincount(which, weights=(wide & wide.dtype.type(2**32 - 1)).astype("f8"), minlength=len(sums))
    high = np.bincount(which, weights=(wide >> step).astype("f8"), minlength=len(sums))
    for group in np.unique(which).tolist():
        before = (int(sums[group, 1]) << 64) + (int(sums[group, 0]) & (2**64 - 1))
        after = before + (int(high[group]) << 32) + int(low[group])
        sums[group] = np.array([after & (2**64 - 1), after >> 64 & (2**64 - 1)], dtype=np.uint64).view(np.int64)
