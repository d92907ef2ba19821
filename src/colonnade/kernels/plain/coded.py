"""NumPy form: codes to the strings they stand for, as Arrow's offsets and data."""

from __future__ import annotations

import numpy as np

from colonnade.kernels.plain.arguments import (
    Array,
    Readable,
    check_apart,
    check_count,
    open_bytes,
    open_kind,
    open_optional_mask,
    open_values,
)


def code_offsets(known: Readable, codes: Readable, missing: Readable | None, offsets: Readable, /) -> None:
    """The offsets (int32) of the strings that codes name, of those at the offsets `known`. Missing rows are empty."""
    begins, ends = _named(known, codes, missing)
    made = open_kind(offsets, "offsets", "i4", True)
    check_count(made, "offsets", len(begins) + 1)
    wrong = ends < begins
    if wrong.any():
        raise ValueError(f"the code at place {int(np.argmax(wrong))} names no string")
    whole = np.concatenate(([0], np.cumsum(ends - begins)))
    if whole[-1] > np.iinfo(np.int32).max:
        raise ValueError("the strings have more bytes than offsets of 32 bits can count")
    made[...] = whole


def code_data(
    known: Readable,
    strings: Readable,
    codes: Readable,
    missing: Readable | None,
    offsets: Readable,
    out: Readable,
    /,
) -> None:
    """The bytes of the strings that codes name, at their offsets. What lies between them means nothing."""
    begins, ends = _named(known, codes, missing)
    given, targets = open_bytes(strings, "strings"), open_kind(offsets, "offsets", "i4")
    made = open_bytes(out, "out", True)
    check_apart(given, made)
    check_count(targets, "offsets", len(begins) + 1)
    lengths, starts = ends - begins, targets[:-1].astype(np.int64)
    left_out = open_optional_mask(missing, "missing", len(begins))
    wrong = (lengths < 0) | (begins < 0) | (ends > len(given)) | (starts < 0) | (starts + lengths > len(made))
    wrong &= ~left_out
    if wrong.any():
        raise ValueError(f"the string at place {int(np.argmax(wrong))} does not lie in the data")
    within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    made[np.repeat(starts, lengths) + within] = given[np.repeat(begins, lengths) + within]


def _named(known: Readable, codes: Readable, missing: Readable | None) -> tuple[Array, Array]:
    """Where the string of each row begins and ends; of missing rows nowhere."""
    places, given = open_kind(known, "known", "i4"), open_values(codes, "codes")
    if given.dtype.kind == "f":
        raise ValueError("codes must hold integers")
    if not len(places):
        raise ValueError("known is empty, expected one more than strings")
    left_out = open_optional_mask(missing, "missing", len(given))
    wrong = ((given < 0) | (given >= len(places) - 1)) & ~left_out
    if wrong.any():
        raise ValueError(f"the code at place {int(np.argmax(wrong))} names no string")
    numbers = np.where(left_out, 0, given).astype(np.int64)
    wide = np.append(places.astype(np.int64), 0)
    return np.where(left_out, 0, wide[numbers]), np.where(left_out, 0, wide[numbers + 1])
