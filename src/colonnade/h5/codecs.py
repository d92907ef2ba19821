"""Compressed bytes unpacked, whatever filter they belong to: by zlib or its faster form, and by Arrow.

Claims of the bytes are not believed: what unpacks to another size than was asked for is a ValueError.
"""

from __future__ import annotations

import zlib
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from colonnade import kernels

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Data = bytes | Bytes | memoryview
LIMIT = 1 << 28  # bytes of a chunk that are unpacked here at most


class LeftToLibrary(ValueError):
    """These bytes may be right, but what they are packed with is not known here."""


def as_view(data: Data) -> memoryview:
    """The bytes, whatever holds them."""
    return data.data if isinstance(data, np.ndarray) else memoryview(data)


@cache
def fast_zlib() -> Any | None:
    """isal's form of zlib, which is faster, where it is installed."""
    try:
        from isal import isal_zlib
    except ImportError:
        return None
    return isal_zlib


def inflate(data: Data, size: int | None) -> bytes:
    """Exactly so many bytes, or as many as there are up to the limit, inflated."""
    form = fast_zlib() or zlib
    unpacker = form.decompressobj()
    try:
        made: bytes = unpacker.decompress(data, size if size is not None else LIMIT)
        if not unpacker.eof:  # the checksum at the end may still be outstanding
            made += unpacker.decompress(unpacker.unconsumed_tail, 1)
    except form.error as error:
        raise ValueError(f"deflated bytes cannot be unpacked: {error}") from error
    if not unpacker.eof or (size is not None and len(made) != size):
        raise ValueError("deflated bytes are cut off, or unpack to more than a chunk")
    return made


def decompress(codec: str, data: Data, out: Bytes) -> None:
    """Exactly the bytes of `out`: LZ4 here, since Arrow does not say where there are fewer; others by Arrow."""
    if codec == "lz4":
        kernels.unpack_lz4(data, out)
        return
    try:
        made = pa.decompress(pa.py_buffer(data), len(out), codec)
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"{codec} bytes cannot be unpacked: {error}") from error
    out[...] = np.frombuffer(made, dtype=np.uint8)
