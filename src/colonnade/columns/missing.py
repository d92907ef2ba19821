"""Missing rows: the stored value (fill) that marks them, and how it is chosen (C6).

A fill is held as bytes (see `ColumnInfo.fill`). Numbers compare as numbers (-0.0 equals 0.0, and
a NaN fill marks every NaN); everything else compares byte by byte.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa

from colonnade import compute as pc
from colonnade import kernels
from colonnade.arrays import Booleans, Image
from colonnade.model import StoredType
from colonnade.nodes.elements import follow_pointers, with_length
from colonnade.nodes.heap_source import Strings
from colonnade.stored_dtypes import integer_bounds, memory_dtype

Mask = Booleans
RECOMMENDED_FLOAT = 9.9692099683868690e36


def find_missing(image: Image, stored: StoredType, fill: bytes) -> Mask:
    """A mask of the elements that equal the fill. Pointers in `image` must still be valid."""
    if stored.kind == "text":
        return np.array([_text_at(pointer) == fill for pointer in image.tolist()], dtype=bool)
    if stored.kind in ("binary", "sequence"):
        return _equal_sequences(image, stored, fill)
    if stored.has_pointers:
        return _equal_deeply(image, stored, fill)
    dtype = memory_dtype(stored)
    if dtype.kind in "iufc" and dtype.subdtype is None:
        value = np.frombuffer(fill, dtype=dtype)[0]
        found: Mask = np.isnan(image) if np.isnan(value) else image == value
        return found
    if dtype.kind == "S":
        padded: Mask = image == np.frombuffer(fill, dtype=dtype)[0]
        return padded
    rows = np.ascontiguousarray(image).view("u1").reshape(len(image), dtype.itemsize)
    equal: Mask = (rows == np.frombuffer(fill, dtype="u1")).all(axis=1)
    return equal


def has_none_missing(image: Image, stored: StoredType, fill: bytes) -> bool:
    """Whether a fast test proves that no element equals the fill; False means that it is not known."""
    dtype = memory_dtype(stored)
    if dtype.kind not in "iuf" or (dtype.itemsize == 2 and dtype.kind == "f") or stored.has_pointers:
        return False
    value = np.frombuffer(fill, dtype=dtype)[0].item()
    return value == value and not kernels.range_count(image, value, value, False, False)  # noqa: PLR0124 - not NaN


def bits_of_fill(stored: StoredType, fill: bytes, as_stored: np.dtype | None) -> bytes | None:
    """The stored bytes of a numeric fill, if only elements with exactly these bits equal it; otherwise None."""
    if as_stored is None or stored.kind not in ("integer", "float") or as_stored.kind not in "iuf":
        return None
    value = np.frombuffer(fill, dtype=memory_dtype(stored))[0]
    has_others = as_stored.kind == "f" and (np.isnan(value) or value == 0)
    return None if has_others else np.array(value, dtype=as_stored).tobytes()


def find_missing_strings(strings: Strings, array: pa.Array, fill: bytes) -> Mask | None:
    """A mask of the strings that equal the fill; None if no string does. `array` holds the same strings in Arrow."""
    lengths = np.diff(strings.offsets)
    found: Mask = lengths == len(fill)
    if fill and found.any():
        found = np.asarray(pc.equal(array, pa.scalar(fill, pa.binary())).to_numpy(zero_copy_only=False))
    return found if found.any() else None


def _text_at(pointer: int) -> bytes:
    return ctypes.string_at(pointer) if pointer else b""


def _equal_sequences(image: Image, stored: StoredType, fill: bytes) -> Mask:
    if stored.item.has_pointers and fill:
        return _equal_deeply(image, stored, fill)
    width = memory_dtype(stored.item).itemsize
    equal: Mask = image["length"] == len(fill) // width
    if fill:
        for row in np.flatnonzero(equal):
            equal[row] = ctypes.string_at(int(image["pointer"][row]), len(fill)) == fill
    return equal


def _equal_deeply(image: Image, stored: StoredType, fill: bytes) -> Mask:
    return np.array([follow_pointers(element, stored) == fill for element in image], dtype=bool)


def recommended_fills(stored: StoredType) -> Iterator[bytes]:
    """Candidate fills, the recommended one first; nothing if the datatype has no value to spare."""
    make = _CANDIDATES.get(stored.kind)
    return iter(()) if make is None or _is_raw_number(stored) else make(stored)


def _is_raw_number(stored: StoredType) -> bool:
    return stored.kind in ("integer", "float") and memory_dtype(stored).kind == "V"


def _integer_fills(stored: StoredType) -> Iterator[bytes]:
    """Signed: minimum + 1, minimum, then inward from both ends. Unsigned: from the maximum downward."""
    dtype = memory_dtype(stored)
    low, high = integer_bounds(stored)
    if low == 0:
        order: Iterable[int] = range(high, max(high - 300, -1), -1)
    else:
        inward = itertools.chain.from_iterable((low + 1 + i, high + 1 - i) for i in range(1, min(128, -low)))
        order = itertools.chain((low + 1, low), inward, (0,))
    return (np.array(value, dtype=dtype).tobytes() for value in order)


def _float_fills(stored: StoredType) -> Iterator[bytes]:
    """9.9692099683868690e+36 if the width holds it, its negative, then from the largest values downward."""
    dtype = memory_dtype(stored)
    if dtype.itemsize > 2:
        first = np.array(RECOMMENDED_FLOAT, dtype=dtype)
        yield first.tobytes()
        yield (-first).tobytes()
    value = np.array(np.finfo(dtype).max, dtype=dtype)
    for _ in range(200):
        yield value.tobytes()
        yield (-value).tobytes()
        value = np.nextafter(value, dtype.type(0))


def _text_fills(stored: StoredType) -> Iterator[bytes]:
    """The empty string, then words such as "NA"."""
    words = itertools.chain(("", "NA", "<NA>", "<missing>"), (f"<missing {i}>" for i in range(2, 1000)))
    for word in words:
        data = word.encode()
        if stored.kind == "text":
            yield data
        elif len(data) <= stored.size:
            yield data.ljust(stored.size, b"\0")


def _byte_fills(stored: StoredType) -> Iterator[bytes]:
    width = stored.size
    yield bytes(width)
    yield b"\xff" * width
    for number in range(1, 255):
        yield bytes([number]) * width


def _sequence_fills(stored: StoredType) -> Iterator[bytes]:
    """The empty sequence, then a single element that is itself a fill."""
    yield b""
    if stored.item.kind == "text":
        yield from (with_length(word) for word in (b"<missing>", b"<missing 2>", b"<missing 3>"))
    if not stored.item.has_pointers:
        if stored.kind == "binary":
            yield from (word.encode() for word in ("<NA>", "<missing>", "<missing 2>", "<missing 3>"))
        else:
            yield from recommended_fills(stored.item)


def _array_fills(stored: StoredType) -> Iterator[bytes]:
    if not stored.has_pointers:
        count = int(np.prod(stored.dims))
        yield from (one * count for one in recommended_fills(stored.item))


def _compound_fills(stored: StoredType) -> Iterator[bytes]:
    if not stored.has_pointers:
        parts = [recommended_fills(member.type) for member in stored.fields]
        yield from (b"".join(row) for row in zip(*parts, strict=False))


def _boolean_fills(stored: StoredType) -> Iterator[bytes]:
    """MISSING if the enum has it; an enum of only FALSE and TRUE has no value to spare."""
    return (np.array(value, memory_dtype(stored)).tobytes() for name, value in stored.members if name == "MISSING")


_CANDIDATES: dict[str, Callable[[StoredType], Iterator[bytes]]] = {
    "integer": _integer_fills,
    "float": _float_fills,
    "string": _text_fills,
    "text": _text_fills,
    "opaque": _byte_fills,
    "binary": _sequence_fills,
    "sequence": _sequence_fills,
    "array": _array_fills,
    "compound": _compound_fills,
    "complex": _compound_fills,
    "boolean": _boolean_fills,
    "enum": _boolean_fills,
    "object_reference": lambda stored: iter((bytes(stored.size),)),
    "region_reference": lambda stored: iter((bytes(stored.size),)),
}
