"""Encode variable-length values as elements and a heap: the inverse of `values`. Experimental (facts 3.6).

| type | given as | object in the heap |
| --- | --- | --- |
| text | str, without NUL | its bytes in UTF-8 |
| binary | bytes | these |
| sequence | anything that NumPy converts to a one-dimensional array | its items, as stored in the file |

An empty value has an object too; an element that was never written (in a dense chunk) has none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from colonnade.errors import DataError, UnsupportedError, UsageError
from colonnade.format.heap_set import REFERENCE, encode_heap_set, encode_reference
from colonnade.format.values import Values, stored_dtype
from colonnade.h5.datatypes import stored_type_of
from colonnade.model import StoredType
from colonnade.sparse.chunk import Cells, SparseInfo
from colonnade.sparse.fit import fitted
from colonnade.sparse.pack import PackedChunk, encode_chunk, encode_sections

_BYTE = StoredType("opaque", 1, "none")
TEXT = StoredType("text", REFERENCE, charset="utf-8", padding="terminated")
BINARY = StoredType("binary", REFERENCE, "none", base=_BYTE)


def element_type(dtype: Any) -> StoredType:
    """The stored type of elements: str, bytes and h5py's variable-length dtypes are of variable length."""
    if isinstance(dtype, StoredType):
        return dtype
    if dtype is str or dtype is bytes:
        return TEXT if dtype is str else BINARY
    stored = stored_type_of(np.dtype(dtype))
    if stored.kind == "text":
        return StoredType("text", REFERENCE, charset=stored.charset, padding="terminated")
    if stored.kind == "binary":
        return BINARY
    if stored.kind == "sequence" and not stored.item.has_pointers and "reference" not in stored.item.kind:
        return StoredType("sequence", REFERENCE, "none", base=stored.item)
    if stored.has_pointers or stored.kind == "unknown" or "reference" in stored.kind:
        raise UnsupportedError(f"{stored} cannot be written into sparse arrays", feature=str(stored))
    return stored


def checked_objects(given: Any, stored: StoredType, count: int) -> Values:
    """`count` values, converted for writing; raises with the row for a value that the type cannot hold."""
    values = list(given)
    if len(values) != count:
        raise DataError(f"there are {count} coordinates and {len(values)} values")
    check = _CHECKS[stored.kind]
    made = np.empty(count, dtype=object)
    for row, value in enumerate(values):
        try:
            made[row] = check(value, stored)
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(f"value {value!r} of row {row} is not {stored}: {error}", row=row, value=value) from error
    return made


def _text(value: Any, stored: StoredType) -> str:
    if not isinstance(value, str):
        raise TypeError("it is not a str")
    if "\0" in value:
        raise ValueError("it contains NUL, which ends an HDF5 string")
    value.encode("utf-8", "surrogateescape")
    return value


def _binary(value: Any, stored: StoredType) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError("it is not bytes")
    return bytes(value)


def _sequence(value: Any, stored: StoredType) -> Values:
    if value is None or isinstance(value, (str, bytes)):
        raise TypeError("it is not a sequence")
    items = np.asarray(value)
    dtype = stored_dtype(stored.item)
    if items.ndim != 1 and not (items.ndim == 1 + len(dtype.shape)):
        raise ValueError(f"it has {items.ndim} dimensions")
    made, unfit = fitted(items, dtype.base)
    if unfit.any():
        raise ValueError("an item does not fit")
    return made


_CHECKS: dict[str, Callable[[Any, StoredType], Any]] = {"text": _text, "binary": _binary, "sequence": _sequence}


def encode_cells(info: SparseInfo, cells: Cells) -> PackedChunk:
    """A chunk of these cells with a heap, and, depending on the layout, a selection or all elements."""
    assert cells.values is not None  # needed for writing
    if not info.type.has_pointers:
        return encode_chunk(info, cells.places, cells.values.tobytes())
    if info.type.kind not in _CHECKS:
        raise UsageError(f"cannot write {info.name}: its type {info.type} is not supported for writing")
    elements, heap = _encode(cells.values, info.type)
    if info.layout.is_sparse:
        return encode_chunk(info, cells.places, elements.tobytes(), heap)
    whole = np.zeros((info.layout.chunk_elements, REFERENCE), dtype=np.uint8)
    whole[cells.places] = elements
    return encode_sections(info, [whole.tobytes(), heap])


def _encode(values: Values, stored: StoredType) -> tuple[np.ndarray[Any, np.dtype[np.uint8]], bytes]:
    """References, one row of bytes each, and the heap section that they point into."""
    objects = [_bytes_of(value, stored) for value in values.tolist()] if stored.kind != "sequence" else [
        np.ascontiguousarray(value, dtype=stored_dtype(stored.item).base).tobytes() for value in values
    ]  # fmt: skip
    item_size = stored.item.size if stored.kind == "sequence" else 1
    heap, places = encode_heap_set(objects)
    rows = b"".join(
        encode_reference(len(data) // item_size, place) for data, place in zip(objects, places, strict=True)
    )
    return np.frombuffer(rows, dtype=np.uint8).reshape(-1, REFERENCE), heap


def _bytes_of(value: str | bytes, stored: StoredType) -> bytes:
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
