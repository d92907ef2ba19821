"""NumPy form: codes to the strings that they stand for, as Arrow's offsets and data, and strings to codes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from colonnade.kernels.plain.arguments import (
    KernelArray,
    KernelBytes,
    Readable,
    check_apart,
    check_count,
    open_bytes,
    open_kind,
    open_optional_mask,
    open_values,
)


def code_offsets(known: Readable, codes: Readable, missing: Readable | None, offsets: Readable, /) -> None:
    """Write the offsets (int32) of the codes' strings; `known` are those of all strings. Missing rows are empty."""
    begins, ends = _named(known, codes, missing)
    target = open_kind(offsets, "offsets", "i4", True)
    check_count(target, "offsets", len(begins) + 1)
    wrong = ends < begins
    if wrong.any():
        raise ValueError(f"the code at place {int(np.argmax(wrong))} names no string")
    whole = np.concatenate(([0], np.cumsum(ends - begins)))
    if whole[-1] > np.iinfo(np.int32).max:
        raise ValueError("the strings have more bytes than offsets of 32 bits can count")
    target[...] = whole


def code_data(
    known: Readable,
    strings: Readable,
    codes: Readable,
    missing: Readable | None,
    offsets: Readable,
    out: Readable,
    /,
) -> None:
    """Copy the bytes of the strings that codes stand for to their offsets. Bytes between them are undefined."""
    begins, ends = _named(known, codes, missing)
    given, targets = open_bytes(strings, "strings"), open_kind(offsets, "offsets", "i4")
    target = open_bytes(out, "out", True)
    check_apart(given, target)
    check_count(targets, "offsets", len(begins) + 1)
    lengths, starts = ends - begins, targets[:-1].astype(np.int64)
    left_out = open_optional_mask(missing, "missing", len(begins))
    wrong = (lengths < 0) | (begins < 0) | (ends > len(given)) | (starts < 0) | (starts + lengths > len(target))
    wrong &= ~left_out
    if wrong.any():
        raise ValueError(f"the string at place {int(np.argmax(wrong))} does not lie in the data")
    within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    target[np.repeat(starts, lengths) + within] = given[np.repeat(begins, lengths) + within]


def code_strings(
    known: Readable,
    strings: Readable,
    offsets: Readable,
    data: Readable,
    missing: Readable | None,
    slots: Readable,
    codes: Readable,
    fresh: Readable,
    /,
) -> int:
    """Write the code (int32) of each string. An unknown string gets the next code, and its row is added to `fresh`.

    Returns the number of new strings. Missing rows have the code -1. `slots` (uint64, a power of two of them, at least
    twice the number of strings) is the kernel's hash table: zeros before the first call, then unchanged between calls.
    """
    places, ends = open_kind(known, "known", "i4"), open_kind(offsets, "offsets", "i4")
    known_data, given = open_bytes(strings, "strings"), open_bytes(data, "data")
    memory, target = open_kind(slots, "slots", "u8", True), open_kind(codes, "codes", "i4", True)
    rows = open_kind(fresh, "fresh", "i8", True)
    if not len(places) or not len(ends):
        raise ValueError("offsets are empty, expected one more than strings")
    check_count(target, "codes", len(ends) - 1)
    left_out = open_optional_mask(missing, "missing", len(target))
    if not len(memory) or len(memory) & (len(memory) - 1):
        raise ValueError(f"slots has {len(memory)} items, expected a power of two")
    numbers = {
        text: code for code, text in enumerate(_strings(places, known_data, np.zeros(len(places) - 1, dtype=bool)))
    }
    n_new = 0
    for row, text in enumerate(_strings(ends, given, left_out)):
        code = -1 if text is None else numbers.setdefault(text, len(places) - 1 + n_new)
        target[row] = code
        if code == len(places) - 1 + n_new:
            if n_new >= len(rows) or code + 1 >= len(memory):
                raise ValueError(f"slots or fresh have no room for the string of row {row}")
            rows[n_new] = row
            n_new += 1
    return n_new


def _strings(offsets: KernelArray, data: KernelBytes, left_out: KernelArray) -> Iterator[bytes | None]:
    """Each string; None for a row that the mask leaves out."""
    whole, ends = data.tobytes(), offsets.tolist()
    for row, (begin, end) in enumerate(pairwise(ends)):
        if left_out[row]:
            yield None
        elif not 0 <= begin <= end <= len(whole):
            raise ValueError(f"the string of row {row}, or one like it, does not lie in the data")
        else:
            yield whole[begin:end]


def _named(known: Readable, codes: Readable, missing: Readable | None) -> tuple[KernelArray, KernelArray]:
    """The start and the end of the string of each row; 0 for missing rows."""
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
