"""Decoded elements to elements in memory form, in which variable-length parts are pointers (`stored_dtypes`)."""

from __future__ import annotations

import numpy as np

from colonnade.arrays import Image
from colonnade.format.values import DecodedValues
from colonnade.model import StoredType
from colonnade.stored_dtypes import SEQUENCE_DTYPE, memory_dtype


def to_memory(values: DecodedValues, stored: StoredType, owned: list[object]) -> Image:
    """The elements in memory form; what they point to is appended to `owned`, which must outlive them."""
    if not stored.has_pointers:
        return np.ascontiguousarray(values)
    if stored.kind == "text":
        return _strings([bytes(value) for value in values.reshape(-1).tolist()], owned).reshape(values.shape)
    if stored.kind in ("binary", "sequence"):
        made = np.zeros(len(values), dtype=SEQUENCE_DTYPE)
        for row, value in enumerate(values):
            items = np.frombuffer(value, np.uint8) if isinstance(value, bytes) else value
            pointed = items if isinstance(value, bytes) else to_memory(items, stored.item, owned)
            pointed = np.ascontiguousarray(pointed)
            owned.append(pointed)
            made[row] = (len(items), pointed.ctypes.data if len(items) else 0)
        return made
    if stored.kind == "array":
        flat = (
            values.reshape(-1) if values.dtype == object else values.reshape(-1, *values.shape[1 + len(stored.dims) :])
        )
        items = to_memory(flat, stored.item, owned)
        return items.reshape(len(values), *stored.dims, *items.shape[1:])
    made = np.zeros(len(values), dtype=memory_dtype(stored))
    for field in stored.fields:
        made[field.name] = to_memory(values[field.name], field.type, owned)
    return made


def _strings(values: list[bytes], owned: list[object]) -> np.ndarray:
    """Pointers to strings that end with NUL; null pointers for empty ones."""
    data = np.frombuffer(b"\0".join([*values, b""]), dtype=np.uint8)
    owned.append(data)
    lengths = np.fromiter(map(len, values), np.uint64, len(values))
    begins = np.cumsum(lengths + np.uint64(1)) - lengths - np.uint64(1)
    return np.where(lengths > 0, begins + np.uint64(data.ctypes.data), np.uint64(0))
