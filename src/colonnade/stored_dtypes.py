"""The NumPy dtypes of stored types: in memory, and in the file where both representations are the same."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from colonnade.model import StoredField, StoredType

LARGEST_ELEMENT = 1 << 30
SEQUENCE_DTYPE = np.dtype([("length", "u8"), ("pointer", "u8")])
MAX_DEPTH = 32  # of datatypes inside each other
ELEMENT_TAG = "list element"
"""A sequence of one-byte opaque elements is a string of bytes, unless the elements have this tag."""
TOO_MANY_BITS = "number of more bits than its bytes have"
NEW_REFERENCE = "reference (HDF5 1.12 form)"
_POINTER = np.dtype("u8")


def _whole_bytes(size: int) -> int:
    """The native integer size that holds `size` bytes, or 0 when there is none."""
    return next((width for width in (1, 2, 4, 8) if size <= width), 0)


def float_bytes(stored: StoredType) -> int:
    """The native float size that holds every value of this float, or 0 when there is none."""
    for width, mantissa, exponent in ((2, 10, 5), (4, 23, 8), (8, 52, 11)):
        if stored.mantissa <= mantissa and stored.exponent <= exponent:
            return width
    return 0


@lru_cache(maxsize=4096)
def memory_dtype(stored: StoredType) -> np.dtype:
    """The NumPy dtype of one element in memory; see the table at the head of `h5/datatypes.py`."""
    kind = stored.kind
    if kind in ("integer", "bitfield", "boolean", "enum"):
        number = stored.item if stored.base is not None else stored
        width = _whole_bytes(number.size)
        return np.dtype(f"{'i' if number.signed else 'u'}{width}") if width else np.dtype((np.void, stored.size))
    if kind == "float":
        width = float_bytes(stored)
        return np.dtype(f"f{width}") if width else np.dtype((np.void, stored.size))
    if kind == "complex":
        return np.dtype(f"c{stored.item.size * 2}")
    if kind == "string":
        return np.dtype((np.bytes_, stored.size))
    if kind == "text":
        return _POINTER
    if kind in ("binary", "sequence"):
        return SEQUENCE_DTYPE
    if kind == "array":
        return np.dtype((memory_dtype(stored.item), stored.dims))
    if kind == "compound":
        names = [field.name for field in stored.fields]
        return np.dtype({"names": names, "formats": [memory_dtype(field.type) for field in stored.fields]})
    return np.dtype((np.void, min(stored.size, LARGEST_ELEMENT)))


def integer_bounds(stored: StoredType) -> tuple[int, int]:
    """The smallest and the largest value of an integer datatype."""
    bits = min(stored.precision, 8 * memory_dtype(stored).itemsize)
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if stored.signed else (0, (1 << bits) - 1)


def raw_dtype(stored: StoredType) -> np.dtype | None:
    """The dtype of elements as stored in the file, if they differ from memory at most in byte order; else None.

    None for bitfields: they may use only some of their bits, and their description does not state which.
    """
    dtype = memory_dtype(stored)
    number = stored.item if stored.kind in ("boolean", "enum") else stored
    if number.kind == "opaque" or (number.kind == "string" and number.padding == "null"):
        return dtype
    if number.kind not in ("integer", "float") or dtype.kind == "V" or dtype.itemsize != stored.size:
        return None
    if number.kind == "integer" and number.precision != 8 * number.size:
        return None
    if number.kind == "float" and (number.mantissa, number.exponent) not in ((10, 5), (23, 8), (52, 11)):
        return None
    return dtype.newbyteorder(">" if number.order == "big" else "<")


def is_complex_pair(fields: tuple[StoredField, ...]) -> bool:
    """h5py's and NumPy's form of a complex number: equal floats named r and i."""
    if tuple(field.name for field in fields) != ("r", "i"):
        return False
    real, imaginary = (field.type for field in fields)
    return real == imaginary and real.kind == "float" and real.size in (4, 8) and float_bytes(real) == real.size
