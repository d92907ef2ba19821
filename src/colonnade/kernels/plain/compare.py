"""NumPy form: compare values; masks, and ranges of rows."""

from __future__ import annotations

import math

import numpy as np

from colonnade.arrays import Booleans
from colonnade.kernels.plain.arguments import (
    KernelArray,
    Readable,
    as_items,
    check_base,
    check_count,
    open_bytes,
    open_kind,
    open_look,
    open_mask,
    open_values,
    put_rows,
)

Truth = Booleans


def range_mask(
    values: Readable, low: float | None, high: float | None, low_open: bool, high_open: bool, out: Readable, /
) -> None:
    """Write 1 where a value is within the bounds (None: no bound), else 0. NaN is never within them."""
    given = open_values(values, "values")
    truth = _in_range(given, low, high, low_open, high_open)
    _put_mask(truth, out)


def range_count(values: Readable, low: float | None, high: float | None, low_open: bool, high_open: bool, /) -> int:
    """The number of values within the bounds."""
    return int(_in_range(open_values(values, "values"), low, high, low_open, high_open).sum())


def among_mask(values: Readable, wanted: Readable, out: Readable, /) -> None:
    """Write 1 where a value is one of `wanted`, which is increasing and of the same type, else 0."""
    _put_mask(_among(values, wanted), out)


def has_item(source: Readable, item: Readable, /) -> bool:
    """Whether an item (of 1, 2, 4 or 8 bytes) equals the bytes `item`."""
    wanted = open_look(item)
    return bool((as_items(open_bytes(source, "source"), "source", wanted) == wanted).any())


def mask_edges(mask: Readable, base: int, out: Readable, /) -> int:
    """Write the rows at which the mask changes: starts and stops of its true ranges. Returns how many there are."""
    truth, target = open_mask(mask, "mask") != 0, open_kind(out, "out", "i8", writable=True)
    check_base(base, len(truth))
    around = np.concatenate(([False], truth, [False]))
    return put_rows(np.flatnonzero(around[1:] != around[:-1]) + base, target)


def ranges_rows(starts: Readable, stops: Readable, out: Readable, /) -> None:
    """Write the rows (int64) of all ranges, one range after another."""
    begins, ends = open_kind(starts, "starts", "i8"), open_kind(stops, "stops", "i8")
    target = open_kind(out, "out", "i8", writable=True)
    check_count(ends, "stops", len(begins))
    if (begins < 0).any() or (ends < begins).any() or sum((ends - begins).tolist()) != len(target):
        raise ValueError(f"starts and stops are not ranges of {len(target)} rows")
    lengths = ends - begins
    target[...] = np.repeat(begins - (np.cumsum(lengths) - lengths), lengths) + np.arange(len(target))


def _in_range(given: KernelArray, low: float | None, high: float | None, low_open: bool, high_open: bool) -> Truth:
    inside: Truth = given == given  # noqa: PLR0124 - not NaN
    if low is not None:
        bound = _exact(low, given, "low")
        inside &= given > bound if low_open else given >= bound
    if high is not None:
        bound = _exact(high, given, "high")
        inside &= given < bound if high_open else given <= bound
    return inside


def _exact(bound: object, given: KernelArray, name: str) -> object:
    """The bound as a value that NumPy compares exactly; it would round a Python float to the array's width."""
    if given.dtype.kind != "f":
        if not isinstance(bound, int):
            raise ValueError(f"{name} must be an integer or None for integers")
        return int(bound)
    if not isinstance(bound, float):
        raise ValueError(f"{name} must be a float or None for floats")
    if math.isnan(bound):
        raise ValueError(f"{name} is NaN, which bounds nothing")
    return np.float64(bound)


def _among(values: Readable, wanted: Readable) -> Truth:
    given, few = open_values(values, "values"), open_values(wanted, "wanted")
    if few.dtype != given.dtype:
        raise ValueError("wanted must be of the type of the values")
    if not (few == few).all() or not (few[:-1] < few[1:]).all():  # noqa: PLR0124
        raise ValueError("wanted must increase, without NaN")
    if not len(few):
        return np.zeros(len(given), dtype=bool)
    places = np.minimum(np.searchsorted(few, given), len(few) - 1)
    return np.asarray(few[places] == given)


def _put_mask(truth: Truth, out: Readable) -> None:
    target = open_mask(out, "out", writable=True)
    check_count(target, "out", len(truth))
    target[...] = truth
