"""Decode stored elements to NumPy values.

| stored | NumPy dtype |
| --- | --- |
| integer, float, bitfield, enum | that number, in the byte order of the file |
| boolean | bool |
| string | bytes, without padding, as in NumPy |
| complex | complex of that size |
| compound | structured, with the file's offsets |
| array | the base's; values have further dimensions |
| text, binary, sequence | objects: str, bytes, arrays |
| opaque, references, unknown | raw bytes (`V`) |

Fill value messages have the value of elements that were never written (format specification IV.A.2.e, f):

| message 0x05, version 1 and 2 | bytes | | version 3 | bytes | | message 0x04 | bytes |
| --- | --- | --- | --- | --- | --- | --- | --- |
| version | 1 | | version 3 | 1 | | size | 4 |
| when space is allocated | 1 | | flags: bits 2-3 when written, bit 4 undefined, bit 5 has a value | 1 | | value | |
| when the fill is written (0 with space, 1 never, 2 if it was set) | 1 | | size, if bit 5 | 4 | | | |
| whether it is defined | 1 | | value, if bit 5 | | | | |
| size (version 2: if defined) | 4 | | | | | | |
| value | | | | | | | |
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np

from colonnade.format.global_heap import REFERENCE, Heap, HeapSet
from colonnade.format.source import Fields
from colonnade.model import StoredType

DecodedValues = np.ndarray
ElementDType = np.dtype
_UNDEFINED, _HAS_VALUE = 0x10, 0x20
_NEVER = 1  # when the fill is written
_WHEN_USUAL = 0x0B  # allocate incrementally, write the fill if it was set: what libhdf5 writes for chunked data
_NUMBERS = ("integer", "bitfield", "enum", "boolean")


def stored_dtype(stored: StoredType) -> ElementDType:
    """The NumPy dtype of elements as stored in the file; raw bytes for elements that refer to a heap."""
    order = ">" if stored.order == "big" else "<"
    if is_unusual(stored):
        return np.dtype((np.void, stored.size))
    if stored.kind in _NUMBERS:
        number = stored.item if stored.base is not None else stored
        return np.dtype(f"{order}{'i' if number.signed else 'u'}{number.size}")
    if stored.kind == "float":
        return np.dtype(f"{order}f{stored.size}")
    if stored.kind == "complex":
        return np.dtype(f"{order}c{stored.size}")
    if stored.kind == "string":
        return np.dtype((np.bytes_, stored.size))
    if stored.kind == "array":
        return np.dtype((stored_dtype(stored.item), stored.dims))
    if stored.kind == "compound" and stored.fields:
        return _compound(stored, [stored_dtype(field.type) for field in stored.fields])
    return np.dtype((np.void, stored.size))


def is_unusual(stored: StoredType) -> bool:
    """Whether elements are numbers of a form that NumPy does not have; they are shown as raw bytes."""
    number = stored.item if stored.base is not None and stored.kind in ("enum", "boolean", "complex") else stored
    if stored.kind == "complex":
        offsets = tuple(field.offset for field in stored.fields) or (0, number.size)
        return bool(number.bits) or offsets != (0, number.size) or stored.size != 2 * number.size
    sizes = (2, 4, 8) if number.kind == "float" else (1, 2, 4, 8)
    return number.kind in ("integer", "bitfield", "float") and (bool(number.bits) or number.size not in sizes)


def value_dtype(stored: StoredType) -> ElementDType:
    """The NumPy dtype of decoded values."""
    if _is_two_valued(stored):
        return np.dtype(bool)
    if stored.kind in ("text", "binary", "sequence"):
        return np.dtype(object)
    if not stored.has_pointers:
        return stored_dtype(stored)
    if stored.kind == "array":
        return np.dtype((value_dtype(stored.item), stored.dims))
    names = [field.name for field in stored.fields]
    return np.dtype([(name, value_dtype(field.type)) for name, field in zip(names, stored.fields, strict=True)])


def _compound(stored: StoredType, formats: list[ElementDType]) -> ElementDType:
    names, offsets = [field.name for field in stored.fields], [field.offset for field in stored.fields]
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": stored.size})


def decode_values(data: bytes | memoryview, stored: StoredType, heap: Heap | None) -> DecodedValues:
    """Decode contiguous elements; `heap` holds the data of variable-length elements."""
    if stored.has_pointers:
        rows = np.frombuffer(data, dtype=np.uint8).reshape(-1, stored.size)
        return _follow(rows, stored, heap if heap is not None else HeapSet({}, Fields(b"", "a chunk without a heap")))
    values: DecodedValues = np.frombuffer(data, dtype=stored_dtype(stored))
    return values != 0 if _is_two_valued(stored) else values


def _is_two_valued(stored: StoredType) -> bool:
    """Whether elements are booleans; those with a member MISSING stay numbers."""
    return stored.kind == "boolean" and len(stored.members) == 2 and not is_unusual(stored)


def _follow(rows: DecodedValues, stored: StoredType, heap: Heap) -> DecodedValues:
    """The values of elements, given as one row of bytes each, some of which point into the heap."""
    if not stored.has_pointers:
        return decode_values(np.ascontiguousarray(rows).data.cast("B") if rows.size else b"", stored, None)
    if stored.kind == "array":
        parts = np.ascontiguousarray(rows).reshape(-1, stored.item.size)
        items = _follow(parts, stored.item, heap)
        return items.reshape(len(rows), *stored.dims, *items.shape[1:])
    values = np.empty(len(rows), dtype=value_dtype(stored))
    if stored.kind == "compound":
        for field in stored.fields:
            values[field.name] = _follow(rows[:, field.offset : field.offset + field.type.size], field.type, heap)
        return values
    item_size = 1 if stored.kind in ("text", "binary") else stored.item.size
    for row_number, row in enumerate(rows):
        count, data = heap.read(row[:REFERENCE].tobytes(), item_size)
        values[row_number] = _object(count, data, stored, heap)
    return values


def _object(count: int, data: memoryview, stored: StoredType, heap: Heap) -> object:
    if stored.kind == "text":
        return bytes(data).split(b"\0")[0].decode("utf-8", "surrogateescape")
    if stored.kind == "binary":
        return bytes(data)
    return _follow(np.frombuffer(data, dtype=np.uint8).reshape(count, stored.item.size), stored.item, heap)


def decode_fill_value(fill: bytes | None, stored: StoredType) -> object:
    """The value of elements that were never written."""
    if stored.kind in ("text", "binary"):
        return "" if stored.kind == "text" else b""
    if stored.has_pointers:  # the fill's reference points into the file's global heap: not followed
        return None
    return decode_values(fill if fill is not None else bytes(stored.size), stored, None)[0]


# -- fill values --


class FillMessage(NamedTuple):
    """The bytes of a fill value as stored; None for the default, which is zeros. is_written: where nothing else is."""

    value: bytes | None
    is_written: bool = True


def decode_fill_message(fields: Fields) -> FillMessage:
    """Message 0x05."""
    version = fields.version(1, 2, 3)
    if version == 3:
        flags = fields.number(1)
        time, has_value, is_defined = flags >> 2 & 3, bool(flags & _HAS_VALUE), not flags & _UNDEFINED
    else:
        _, time, defined = fields.numbers(3, 1)
        is_defined = bool(defined)
        has_value = is_defined or version == 1
    value = _decode_value(fields) if has_value else None
    return FillMessage(value, time != _NEVER and is_defined)


def decode_fill(fields: Fields) -> bytes | None:
    """The bytes of the fill value in message 0x05; None for the default, which is zeros."""
    return decode_fill_message(fields).value


def decode_old_fill(fields: Fields) -> bytes | None:
    """The bytes of the fill value in message 0x04; None for the default, which is zeros."""
    return _decode_value(fields)


def _decode_value(fields: Fields) -> bytes | None:
    size = fields.number(4)
    return fields.take(size) if 0 < size < 1 << 31 else None


def encode_fill(value: bytes | None) -> bytes:
    """Encode a message of version 3, as libhdf5 writes it for chunked data."""
    if value is None:
        return bytes((3, _WHEN_USUAL))
    return struct.pack("<BBI", 3, _WHEN_USUAL | _HAS_VALUE, len(value)) + value
