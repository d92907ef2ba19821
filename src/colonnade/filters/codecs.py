"""Decompression, whatever the filter: by kernels, libdeflate or zlib, and Arrow.

Sizes in the compressed data are not trusted: data that unpacks to a size other than requested is a ValueError.
"""

from __future__ import annotations

import zlib
from functools import cache
from threading import Lock
from types import ModuleType

import numpy as np
import pyarrow as pa

from colonnade import kernels
from colonnade.arrays import Octets

ByteBuffer = Octets
Data = bytes | ByteBuffer | memoryview
LIMIT = 1 << 28  # largest chunk that is unpacked here, in bytes


def new_array(count: int, dtype: np.dtype) -> np.ndarray:
    """An array of undefined content, from Arrow's pool: memory that was used before costs no page faults."""
    return np.frombuffer(pa.allocate_buffer(count * dtype.itemsize), dtype=dtype, count=count)


class LeftToLibrary(ValueError):
    """The bytes may be valid, but their compression is not supported here."""


def as_view(data: Data) -> memoryview:
    """A view of the bytes of any buffer."""
    return data.data if isinstance(data, np.ndarray) else memoryview(data)


LOADING = Lock()  # optional packages: if several threads import one at the same time, some may find it half loaded


def _libdeflate() -> ModuleType | None:
    with LOADING:
        return _loaded_libdeflate()


@cache
def _loaded_libdeflate() -> ModuleType | None:
    """The package deflate, which inflates faster than zlib, if it is installed."""
    try:
        import deflate
    except ImportError:
        return None
    return deflate


def inflate(data: Data, size: int) -> Data:
    """Unpack a zlib stream to exactly `size` bytes. What follows the stream is ignored."""
    fast = _libdeflate()
    if fast is None or not size:  # of no bytes, the package does not look at the stream
        inflated: Data = inflate_all(data, size)
    else:
        try:
            inflated = fast.zlib_decompress(data, size)
        except fast.DeflateError as error:
            raise ValueError(f"deflated bytes cannot be unpacked to {size}: {error}") from error
    if len(inflated) != size:
        raise ValueError(f"deflated bytes unpack to {len(inflated)}, expected {size}")
    return inflated


def inflate_all(data: Data, limit: int = LIMIT) -> bytes:
    """Unpack all bytes of a zlib stream, up to the limit. If their number is known, `inflate` is faster."""
    unpacker = zlib.decompressobj()
    try:
        inflated = unpacker.decompress(as_view(data), limit + 1)  # one byte too many shows that there are more
    except zlib.error as error:
        raise ValueError(f"deflated bytes cannot be unpacked: {error}") from error
    if not unpacker.eof or len(inflated) > limit:
        raise ValueError("deflated bytes are cut off, or unpack to more than a chunk")
    return inflated


def decompress(codec: str, data: Data, out: ByteBuffer) -> None:
    """Unpack exactly the bytes of `out`: LZ4 here, since Arrow does not report too few bytes; others by Arrow."""
    if codec == "lz4":
        kernels.unpack_lz4(data, out)
        return
    try:
        unpacked = pa.decompress(pa.py_buffer(data), len(out), codec)
    except (OSError, pa.ArrowException) as error:
        raise ValueError(f"{codec} bytes cannot be unpacked: {error}") from error
    out[...] = np.frombuffer(unpacked, dtype=np.uint8)


def zstd_size(data: Data) -> int | None:
    """The unpacked size in the header of a Zstandard frame; None if it is not given (RFC 8878, 3.1.1.1)."""
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
