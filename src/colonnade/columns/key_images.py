"""Convert keys to elements of the column's datatype and back, for the values that an index stores."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pyarrow as pa

from colonnade.columns.keys import ByteKeys, Keys, NumberKeys, domain_of
from colonnade.h5.datasets import Image
from colonnade.model import StoredType
from colonnade.stored_dtypes import memory_dtype


def keys_to_image(keys: Keys, stored: StoredType) -> tuple[Image, list[Any]]:
    """The keys (none of them missing) as elements, and the memory that they point to."""
    dtype = memory_dtype(stored)
    if isinstance(keys, NumberKeys):
        return keys.values.astype(dtype), []
    texts: list[bytes] = keys.array.to_pylist()
    if stored.kind == "string":
        return np.array(texts, dtype=dtype), []
    if stored.kind == "opaque":
        return np.frombuffer(b"".join(text.ljust(stored.size, b"\0") for text in texts), dtype=dtype), []
    image = np.zeros(len(texts), dtype=dtype)
    kept = [ctypes.create_string_buffer(text, len(text) + 1) for text in texts]
    pointers = [ctypes.addressof(buffer) for buffer in kept]
    if stored.kind == "text":
        image[:] = pointers
    else:
        image["length"], image["pointer"] = [len(text) for text in texts], pointers
    return image, kept


def image_to_keys(image: Image, stored: StoredType) -> Keys:
    """The elements as keys; pointers in the image must still be valid."""
    if domain_of(stored) != "bytes":
        return NumberKeys(np.array(image), np.zeros(len(image), dtype=bool))
    if stored.kind == "text":
        texts = [ctypes.string_at(pointer) if pointer else b"" for pointer in image.tolist()]
    elif stored.kind == "binary":
        texts = [ctypes.string_at(int(p), int(n)) if n else b"" for n, p in image.tolist()]
    elif stored.kind == "string":
        texts = image.tolist()
    else:
        texts = [element.tobytes() for element in image]
    return ByteKeys(pa.array(texts, pa.binary()))
