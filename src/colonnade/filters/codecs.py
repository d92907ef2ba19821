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


def zstd_size(data: Data) -> int | None:
    """How many bytes a Zstandard frame says it unpacks to; None where it does not say (RFC 8878, 3.1.1.1)."""
    view = as_view(data)
    if len(view) < 5 or bytes(view[:4]) != b"\x28\xb5\x2f\xfd":
        return None
    flags = view[4]
    is_single, size_flag = bool(flags & 0x20), flags >> 6
    at = 5 + (not is_single) + (0, 1, 2, 4)[flags & 3]
    width = 1 << size_flag if size_flag or is_single else 0
    if not width or len(view) < at + width:
        return None
    size = int.from_bytes(view[at : at + width], "little") + (256 if width == 2 else 0)
    return size if size <= LIMIT else None
