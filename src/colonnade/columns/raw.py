"""Read elements as stored, to inspect what cannot be decoded."""

from __future__ import annotations

from typing import Any

import numpy as np

from colonnade.h5.datasets import Image, describe_dataset, follow_pointers, reading
from colonnade.model import StoredType
from colonnade.stored_dtypes import memory_dtype


def read_stored(dataset: Any, start: int, count: int) -> np.ndarray[Any, Any]:
    """Elements of a dataset as a NumPy array: codes, numbers, bytes. Nothing is decoded, so no value can be invalid."""
    info = describe_dataset(dataset)
    with reading(dataset, info, start, count) as image:
        return _values(image, info.type)


def _values(image: Image, stored: StoredType) -> np.ndarray[Any, Any]:
    if not stored.has_pointers:
        return image.copy()
    values = np.empty(len(image), dtype=object)
    for row, element in enumerate(image):
        data = follow_pointers(element, stored)
        plain = stored.kind == "sequence" and not stored.item.has_pointers
        values[row] = np.frombuffer(data, memory_dtype(stored.item)) if plain else data
    return values
