"""Stored elements to elements in memory form: native byte order, as `stored_dtypes.memory_dtype` describes them.

| stored | in memory |
| --- | --- |
| integer, bitfield, boolean, enum | the native integer that holds it |
| float | the native float that holds it; raw bytes if none does |
| string | bytes of that length, padded with NUL |
| complex, compound, array | the same of its parts |
| text, binary, sequence | objects: bytes, bytes, arrays of items |
| opaque, references, unknown | raw bytes (`V`); zeros after references of a file with short addresses |

In: rows of bytes, and a datatype with the sizes and offsets of the file.  Out: one element per row.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from colonnade.arrays import Booleans, Image, Int64s, Octets, UInt64s
from colonnade.errors import UnsupportedError
from colonnade.format.datatype import in_memory
from colonnade.format.global_heap import Heap
from colonnade.format.source import UnknownToReader
from colonnade.format.values import DecodedValues, ElementDType
from colonnade.model import StoredField, StoredType
from colonnade.nodes.elements import as_strings
from colonnade.stored_dtypes import SEQUENCE_DTYPE, memory_dtype

StoredRows = Octets
"""One row of bytes per element."""
_NUMBERS = ("integer", "bitfield", "enum", "boolean")
_VARIABLE = ("text", "binary", "sequence")
_IMPLIED = 2
_MOST_DIMENSIONS = 64 if int(np.__version__.split(".")[0]) >= 2 else 32  # of a NumPy array
_MOST_BYTES = 1 << 59  # of an array, so that 16 bytes in memory for each are few enough for NumPy


def element_dtype(stored: StoredType) -> ElementDType:
    """The NumPy dtype of one element in memory; objects for what is of variable length."""
    try:
        return _dtype(in_memory(stored))
    except (ValueError, TypeError, OverflowError) as error:  # too many dimensions, or too large
        raise UnknownToReader(f"NumPy has no dtype for {stored}: {error}", feature=str(stored)) from error


def _dtype(stored: StoredType) -> ElementDType:
    if stored.kind in _VARIABLE:
        if stored.kind == "sequence":
            _dtype(stored.item)  # that there is one
        return np.dtype(object)
    if stored.kind == "array":
        if _rank(stored) >= _MOST_DIMENSIONS:  # one more is that of the elements
            raise ValueError(f"it has {_rank(stored)} dimensions")
        return np.dtype((_dtype(stored.item), stored.dims))
    if stored.kind == "compound":
        names = [field.name for field in stored.fields]
        return np.dtype({"names": names, "formats": [_dtype(field.type) for field in stored.fields]})
    return memory_dtype(stored)


def _rank(stored: StoredType) -> int:
    """The number of dimensions of one element: an array of arrays has those of both."""
    return len(stored.dims) + _rank(stored.item) if stored.kind == "array" else 0


def check_shape(shape: tuple[int, ...], stored: StoredType, name: str) -> None:
    """Raise an UnsupportedError if NumPy has no array of these elements in this shape, even if it has no elements."""
    element_dtype(stored)
    rank = len(shape) + _rank(stored)
    if rank > _MOST_DIMENSIONS or prod(size for size in shape if size) * stored.size > _MOST_BYTES:
        text = f"{name}: NumPy has no arrays of shape {shape} of {stored}"
        raise UnsupportedError(text, feature="arrays that NumPy cannot hold", path=name)


def dtype_as_stored(stored: StoredType) -> ElementDType:
    """`element_dtype` with numbers in the byte order of the file, as h5py has them."""
    if stored.kind == "array":
        return np.dtype((dtype_as_stored(stored.item), stored.dims))
    if stored.kind == "compound":
        names = [field.name for field in stored.fields]
        return np.dtype({"names": names, "formats": [dtype_as_stored(field.type) for field in stored.fields]})
    if stored.kind == "boolean" and len(stored.members) == 2:
        return np.dtype(bool)  # with a third member, h5py has numbers
    if _is_long_double(stored):
        return np.dtype(np.longdouble)
    parts = stored.item if stored.base is not None else stored.fields[0].type if stored.fields else stored
    dtype = element_dtype(stored)
    return dtype.newbyteorder(">") if parts.order == "big" and dtype.kind in "iufc" else dtype


def _is_long_double(stored: StoredType) -> bool:
    """Whether a float is one of x86 with 80 bits, which NumPy has there."""
    is_long = stored.kind == "float" and (stored.size, stored.precision, stored.order) == (16, 80, "little")
    return is_long and np.finfo(np.longdouble).nmant == 63


def as_stored(values: DecodedValues, dtype: ElementDType) -> DecodedValues:
    """Decoded values as a dtype of `dtype_as_stored`."""
    while dtype.subdtype is not None:  # an array of arrays: the values have their dimensions
        dtype = dtype.base
    if values.dtype == dtype or dtype.kind == "O":
        return values
    if dtype.names is None:
        return values.view(dtype) if values.dtype.kind == "V" else values.astype(dtype)
    ordered: DecodedValues = np.empty(values.shape, dtype=dtype)
    for name in dtype.names:
        ordered[name] = as_stored(values[name], ordered[name].dtype)
    return ordered


def decode_elements(data: bytes | memoryview | StoredRows, stored: StoredType, heap: Heap) -> DecodedValues:
    """Elements that follow each other; `heap` holds what is of variable length."""
    element_dtype(stored)  # that there is one
    rows = np.frombuffer(data, dtype=np.uint8)
    return _decode(rows.reshape(-1, stored.size), stored, heap)


def _decode(rows: StoredRows, stored: StoredType, heap: Heap) -> DecodedValues:
    kind = stored.kind
    if kind in _NUMBERS:
        return _decode_integers(rows, stored)
    if kind == "float":
        return _decode_floats(rows, stored)
    if kind == "string":
        return _raw(_padded(rows, stored), np.dtype((np.bytes_, stored.size)))
    if kind == "complex":
        return _decode_complex(rows, stored, heap)
    if kind == "array":
        parts = np.ascontiguousarray(rows).reshape(-1, stored.item.size)
        items = _decode(parts, stored.item, heap)
        return items.reshape(len(rows), *stored.dims, *items.shape[1:])
    if kind == "compound":
        values: DecodedValues = np.empty(len(rows), dtype=element_dtype(stored))
        for field in stored.fields:
            values[field.name] = _decode(rows[:, field.offset : field.offset + field.type.size], field.type, heap)
        return values
    if kind in _VARIABLE:
        return _follow(rows, stored, heap)
    size = in_memory(stored).size
    return _raw(_widened(rows, size) if size > stored.size else rows, memory_dtype(in_memory(stored)))


def _raw(rows: StoredRows, dtype: ElementDType) -> DecodedValues:
    """Bytes as elements of a dtype of that many bytes."""
    if not rows.size:
        return np.empty(len(rows), dtype=dtype)
    return np.ascontiguousarray(rows).view(dtype).reshape(len(rows))


def _widened(rows: StoredRows, size: int) -> StoredRows:
    """References of a file with short addresses, with zeros after them."""
    wide = np.zeros((len(rows), size), dtype=np.uint8)
    wide[:, : rows.shape[1]] = rows
    return wide


def _decode_integers(rows: StoredRows, stored: StoredType) -> DecodedValues:
    number, dtype = stored.item if stored.base is not None else stored, memory_dtype(stored)
    if dtype.kind == "V":
        return _raw(rows, dtype)
    if dtype.itemsize == number.size and not number.bits:
        return _raw(rows, dtype.newbyteorder(">" if number.order == "big" else "<")).astype(dtype)
    first, precision = number.bits[0] if number.bits else 0, number.precision
    if number.kind == "bitfield" and number.bits:
        precision = number.bits[1]
    if not 0 < precision <= 64 or first >= 64:
        return np.zeros(len(rows), dtype=dtype)
    bits = _words(rows, number) >> np.uint64(first)
    bits <<= np.uint64(64 - precision)
    shift = 64 - precision
    return (bits.view(np.int64) >> np.int64(shift) if number.signed else bits >> np.uint64(shift)).astype(dtype)


def _words(rows: StoredRows, number: StoredType) -> UInt64s:
    """The bits of each number of up to 8 bytes."""
    wide = np.zeros((len(rows), 8), dtype=np.uint8)
    wide[:, : number.size] = rows[:, ::-1] if number.order == "big" else rows
    return wide.view("<u8").reshape(len(rows)).astype(np.uint64)


def _decode_floats(rows: StoredRows, stored: StoredType) -> DecodedValues:
    dtype = memory_dtype(stored)
    if dtype.kind == "V":
        return _raw(rows, dtype)
    if not stored.bits:
        return _raw(rows, dtype.newbyteorder(">" if stored.order == "big" else "<")).astype(dtype)
    _, sign, exponent_at, exponent, mantissa_at, mantissa, bias, normalized = stored.bits
    if normalized != _IMPLIED or stored.size > 8 or max(sign, exponent_at + exponent, mantissa_at + mantissa) > 64:
        raise UnknownToReader(f"colonnade's own reader does not know {stored}", feature=str(stored))
    words = _words(rows, stored)

    def part(at: int, count: int) -> Int64s:
        return (words >> np.uint64(at) & np.uint64((1 << count) - 1)).astype(np.int64)

    power, digits = part(exponent_at, exponent), part(mantissa_at, mantissa)
    is_small, is_special = power == 0, power == (1 << exponent) - 1
    with np.errstate(all="ignore"):
        whole = np.where(is_small, digits, digits + (1 << mantissa)).astype(np.float64)
        scale = np.clip(np.where(is_small, 1, power) - bias - mantissa, -5000, 5000)
        values = np.where(is_special, np.where(digits == 0, np.inf, np.nan), np.ldexp(whole, scale))
        return np.where(part(sign, 1) == 1, -values, values).astype(dtype)


def _padded(rows: StoredRows, stored: StoredType) -> StoredRows:
    """Strings padded with NUL: without what is after the first NUL of one that ends there, and without blanks."""
    if stored.padding == "terminated":
        return np.where(np.logical_or.accumulate(rows == 0, axis=1), np.uint8(0), rows)
    if stored.padding == "space":
        blank = np.logical_and.accumulate(rows[:, ::-1] == ord(" "), axis=1)[:, ::-1]
        return np.where(blank, np.uint8(0), rows)
    return rows


def _decode_complex(rows: StoredRows, stored: StoredType, heap: Heap) -> DecodedValues:
    size = stored.item.size
    first, second = (field.offset for field in stored.fields) if stored.fields else (0, size)
    values = np.empty(len(rows), dtype=memory_dtype(stored))
    values.real = _decode(rows[:, first : first + size], stored.item, heap)
    values.imag = _decode(rows[:, second : second + size], stored.item, heap)
    return values


def _follow(rows: StoredRows, stored: StoredType, heap: Heap) -> DecodedValues:
    values: DecodedValues = np.empty(len(rows), dtype=object)
    is_sequence = stored.kind == "sequence"
    item_size = stored.item.size if is_sequence else 1
    nothing = _decode(np.empty((0, item_size), dtype=np.uint8), stored.item, heap) if is_sequence else b""
    values[:] = [nothing] * len(rows)  # a file may claim millions of rows that were never written
    for row_number in np.flatnonzero(rows.any(axis=1)).tolist():
        count, data = heap.read(rows[row_number].tobytes(), item_size)
        if is_sequence:
            items = np.frombuffer(data, dtype=np.uint8).reshape(count, item_size)
            values[row_number] = _decode(items, stored.item, heap)
        else:
            content = bytes(data)
            values[row_number] = content.partition(b"\0")[0] if stored.kind == "text" else content
    return values


def element_bytes(value: DecodedValues, stored: StoredType) -> bytes:
    """One decoded element, with what it points to, as bytes that are equal for equal values.

    A string is its bytes, a sequence the bytes of its items; inside another type, each is led by its length.
    """
    if stored.kind in ("text", "binary"):
        return bytes(value)
    if stored.kind == "sequence" and not stored.item.has_pointers:
        return np.ascontiguousarray(value).tobytes()
    if stored.kind == "compound":
        parts = [element_bytes(value[field.name], field.type) for field in in_memory(stored).fields]
    elif stored.kind == "sequence":
        parts = [element_bytes(item, stored.item) for item in value]
    elif stored.kind == "array":
        items = value.reshape(-1, *value.shape[len(stored.dims) :])
        parts = [element_bytes(item, stored.item) for item in items]
    else:
        return np.ascontiguousarray(value).tobytes()
    return b"".join(len(part).to_bytes(8, "little") + part for part in parts)


# -- arrays, as h5py names and reads them --


def array_dtype(stored: StoredType) -> ElementDType:
    """The dtype that h5py has for elements: numbers in the order of the file, members at their offsets.

    An UnknownToReader if it has another way with such elements: references, sequences, numbers of unusual bits.
    """
    dtype = _ARRAY_DTYPES.get(stored.kind, _no_array_dtype)(stored)
    if dtype is None:
        raise UnknownToReader(f"colonnade's own reader has no arrays of {stored}", feature=f"arrays of {stored}")
    return dtype


def _no_array_dtype(stored: StoredType) -> ElementDType | None:
    return None


def _order(stored: StoredType) -> str:
    return ">" if stored.order == "big" else "<"


def _integer_dtype(stored: StoredType) -> ElementDType | None:
    number = stored.item if stored.base is not None else stored
    if number.size not in (1, 2, 4, 8) or (number.bits and number is not stored):
        return None
    return np.dtype(f"{_order(number)}{'i' if number.signed else 'u'}{number.size}")


def _bitfield_dtype(stored: StoredType) -> ElementDType | None:
    """A bitfield of all its bits is an unsigned integer."""
    return None if stored.bits else _integer_dtype(stored)


def _boolean_dtype(stored: StoredType) -> ElementDType | None:
    """An enum of FALSE and TRUE is a boolean; with a third member it is an integer."""
    integer = _integer_dtype(stored)
    return np.dtype(bool) if integer is not None and len(stored.members) == len(("FALSE", "TRUE")) else integer


def _float_dtype(stored: StoredType) -> ElementDType | None:
    return None if stored.bits or stored.size not in (2, 4, 8) else np.dtype(f"{_order(stored)}f{stored.size}")


def _complex_dtype(stored: StoredType) -> ElementDType | None:
    parts = [field.type for field in stored.fields] or [stored.item]
    if any(_float_dtype(part) is None for part in parts):
        return None
    return np.dtype(f"{_order(stored.item)}c{2 * stored.item.size}")


def _opaque_dtype(stored: StoredType) -> ElementDType | None:
    return None if stored.tag.startswith("NUMPY:") else np.dtype((np.void, stored.size))


def _array_array_dtype(stored: StoredType) -> ElementDType | None:
    return None if stored.has_pointers else np.dtype((array_dtype(stored.item), stored.dims))


def _compound_dtype(stored: StoredType) -> ElementDType | None:
    """Strings of variable length may be members, but not deeper."""
    if any(field.type.has_pointers and field.type.kind != "text" for field in stored.fields):
        return None
    members = in_memory(stored)
    types = {field.name: field.type for field in stored.fields}
    return np.dtype(
        {
            "names": [field.name for field in members.fields],
            "formats": [array_dtype(types[field.name]) for field in members.fields],
            "offsets": [field.offset for field in members.fields],
            "itemsize": members.size,
        }
    )


_ARRAY_DTYPES: dict[str, Callable[[StoredType], ElementDType | None]] = {
    "integer": _integer_dtype,
    "bitfield": _bitfield_dtype,
    "enum": _integer_dtype,
    "boolean": _boolean_dtype,
    "float": _float_dtype,
    "complex": _complex_dtype,
    "string": lambda stored: np.dtype((np.bytes_, stored.size)),
    "text": lambda stored: np.dtype(object),
    "opaque": _opaque_dtype,
    "array": _array_array_dtype,
    "compound": _compound_dtype,
}


def decode_array(rows: StoredRows, stored: StoredType, heap: Heap, path: str) -> np.ndarray:
    """Rows of bytes as an array of `array_dtype`, one element per row.

    Strings of variable length are `str`; a compound with such members has no gaps.
    """
    dtype = array_dtype(stored)
    if stored.kind == "text":
        return as_strings(_follow(rows, stored, heap), path)
    if stored.kind == "array":
        items = decode_array(np.ascontiguousarray(rows).reshape(-1, stored.item.size), stored.item, heap, path)
        return items.reshape(len(rows), *stored.dims, *items.shape[1:])
    if _is_image(stored):
        return _raw(rows, dtype)
    if stored.kind != "compound":
        return _decode(rows, stored, heap).astype(dtype)
    is_packed = stored.has_pointers
    values = np.zeros(len(rows), dtype=[(name, dtype[name]) for name in dtype.names or ()] if is_packed else dtype)
    for field in stored.fields:
        values[field.name] = decode_array(_member_rows(rows, field), field.type, heap, path)
    return values


def _member_rows(rows: StoredRows, field: StoredField) -> StoredRows:
    return rows[:, field.offset : field.offset + field.type.size]


def _is_image(stored: StoredType) -> bool:
    """Whether the bytes in the file are those of an element of `array_dtype`."""
    if stored.kind == "compound":
        return all(_is_image(field.type) for field in stored.fields)
    if stored.kind == "array":
        return _is_image(stored.item)
    if stored.kind == "complex":
        return stored.size == 2 * stored.item.size and (not stored.fields or stored.fields[0].offset == 0)
    if stored.kind == "string":
        return stored.padding == "null"
    return stored.kind in ("integer", "enum", "float", "opaque") and not stored.bits


# -- elements in memory form, in which variable-length parts are pointers --


def to_memory(values: DecodedValues, stored: StoredType, owned: list[object], is_null: Booleans | None = None) -> Image:
    """The elements in memory form; what they point to is appended to `owned`, which must outlive them.

    is_null: which strings are null pointers; by default those that are empty.
    """
    if not stored.has_pointers:
        return np.ascontiguousarray(values)
    if stored.kind == "text":
        return _strings([bytes(value) for value in values.reshape(-1).tolist()], owned, is_null).reshape(values.shape)
    if stored.kind in ("binary", "sequence"):
        sequences = np.zeros(len(values), dtype=SEQUENCE_DTYPE)
        for row in np.flatnonzero(np.fromiter(map(len, values.tolist()), np.int64, len(values))).tolist():
            value = values[row]
            items = np.frombuffer(value, np.uint8) if isinstance(value, bytes) else value
            pointed = items if isinstance(value, bytes) else to_memory(items, stored.item, owned)
            pointed = np.ascontiguousarray(pointed)
            owned.append(pointed)
            sequences[row] = (len(items), pointed.ctypes.data)
        return sequences
    if stored.kind == "array":
        flat = (
            values.reshape(-1) if values.dtype == object else values.reshape(-1, *values.shape[1 + len(stored.dims) :])
        )
        items = to_memory(flat, stored.item, owned)
        return items.reshape(len(values), *stored.dims, *items.shape[1:])
    compounds = np.zeros(len(values), dtype=memory_dtype(stored))
    for field in stored.fields:
        compounds[field.name] = to_memory(values[field.name], field.type, owned)
    return compounds


def _strings(values: list[bytes], owned: list[object], is_null: Booleans | None) -> np.ndarray:
    """Pointers to strings that end with NUL."""
    data = np.frombuffer(b"\0".join([*values, b""]), dtype=np.uint8)
    owned.append(data)
    lengths = np.fromiter(map(len, values), np.uint64, len(values))
    begins = np.cumsum(lengths + np.uint64(1)) - lengths - np.uint64(1)
    is_null = lengths == 0 if is_null is None else is_null
    return np.where(is_null, np.uint64(0), begins + np.uint64(data.ctypes.data))
