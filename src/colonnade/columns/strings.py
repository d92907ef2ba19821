"""Properties of many strings at once, computed from Arrow's buffers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

Lengths = np.ndarray[Any, np.dtype[np.int32]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def string_buffers(values: pa.Array) -> tuple[Lengths, Bytes]:
    """The n + 1 offsets of n strings, and the bytes that they refer to."""
    _, offsets, data = values.buffers()
    ends = np.zeros(1, dtype=np.int32) if offsets is None else np.frombuffer(offsets, dtype=np.int32)
    content = np.zeros(0, dtype=np.uint8) if data is None else np.frombuffer(data, dtype=np.uint8)
    return ends[values.offset : values.offset + len(values) + 1], content


def byte_lengths(values: pa.Array) -> Lengths:
    """The number of bytes of each string; undefined for missing strings."""
    offsets = values.buffers()[1]
    if offsets is None or not len(values):
        return np.zeros(len(values), dtype=np.int32)
    ends = np.frombuffer(offsets, dtype=np.int32)[values.offset : values.offset + len(values) + 1]
    return ends[1:] - ends[:-1]


def holds_nul(values: pa.Array) -> bool:
    """Whether a string may contain NUL. Bytes of missing strings count too, so True can be wrong; False is certain."""
    _, offsets, data = values.buffers()
    if data is None or offsets is None or not len(values):
        return False
    ends = np.frombuffer(offsets, dtype=np.int32)
    first, last = int(ends[values.offset]), int(ends[values.offset + len(values)])
    return bool(np.frombuffer(data, dtype="u1")[first:last].min(initial=1) == 0)


def equal_to(values: pa.Array, text: bytes) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """The rows that equal `text`; undefined for missing rows. Few rows are left after the first bytes are compared."""
    found = np.zeros(len(values), dtype=bool)
    rows = np.flatnonzero(byte_lengths(values) == len(text))
    _, offsets, data = values.buffers()
    if len(rows) and text and offsets is not None and data is not None:
        begins = np.frombuffer(offsets, dtype=np.int32)[values.offset : values.offset + len(values)][rows]
        content = np.frombuffer(data, dtype=np.uint8)
        for place, byte in enumerate(text):
            same = content[begins + place] == byte
            rows, begins = rows[same], begins[same]
            if not len(rows):
                break
    found[rows] = True
    return found
