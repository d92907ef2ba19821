"""Compressed bytes unpacked, whatever filter they belong to: by kernels, by zlib, and by Arrow.

Claims of the bytes are not believed: what unpacks to another size than was asked for is a ValueError.
"""

from __future__ import annotations

import zlib
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


def inflate_all(data: Data) -> bytes:
    """As many bytes as there are, up to the limit; where their number is known, `kernels.inflate` is quicker."""
    unpacker = zlib.decompressobj()
    try:
        made = unpacker.decompress(as_view(data), LIMIT)
    except zlib.error as error:
        raise ValueError(f"deflated bytes cannot be unpacked: {error}") from error
    if not unpacker.eof:
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
