"""Arrow extension types for complex numbers, HDF5 references and unmapped datatypes, which Arrow has no type for.

Each one wraps a plain storage type, so that engines which do not know it still see something
sensible: a struct of two floats, or bytes.

An Arrow type is also written as a string and parsed back: the value of a column's `arrow_type` attribute. It is written
only where the HDF5 datatype and units alone would read back as another type. Grammar:

    type   = word | word "[" unit "]" | "timestamp[" unit ", tz=" zone "]"
           | ("decimal32" | "decimal64" | "decimal128" | "decimal256") "(" digits ", " digits ")"
           | "fixed_size_binary[" digits "]" | "complex64" | "complex128"
           | "object_reference" | "region_reference"
           | "list<" type ">" | "fixed_size_list<" type ", " digits ">"
           | "struct<" string ": " type {", " string ": " type} ">"        string as in JSON

A string from a file is never trusted: if it does not parse, the result is None.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa


class ComplexScalar(pa.ExtensionScalar):
    """One complex number."""

    def as_py(self, **_options: Any) -> complex | None:
        parts = self.value.as_py() if self.value is not None else None
        return None if parts is None else complex(parts["r"], parts["i"])


class ComplexType(pa.ExtensionType):
    """A complex number of two float32 or two float64, stored as struct<r, i>."""

    def __init__(self, bits: int) -> None:
        self.bits = bits
        part = pa.float32() if bits == 64 else pa.float64()
        fields = [pa.field("r", part, nullable=False), pa.field("i", part, nullable=False)]
        super().__init__(pa.struct(fields), f"colonnade.complex{bits}")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> ComplexType:
        return cls(64 if storage.field(0).type == pa.float32() else 128)

    def __reduce__(self) -> tuple[Any, ...]:
        return ComplexType, (self.bits,)

    def __arrow_ext_scalar_class__(self) -> type[ComplexScalar]:
        return ComplexScalar

    def to_pandas_dtype(self) -> ComplexForPandas:
        return ComplexForPandas(np.dtype(f"c{self.bits // 8}"))


class ComplexForPandas:
    """The dtype with which pyarrow's `to_pandas` converts complex numbers."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype

    def __from_arrow__(self, column: pa.Array | pa.ChunkedArray) -> np.ndarray[Any, Any]:
        """The numbers, NaN if missing: one-dimensional for a Series, a two-dimensional block for a frame."""
        values = complex_column(column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column]))
        is_block = sys._getframe(1).f_code.co_name == "_reconstruct_block"  # pyarrow calls this the same way for both
        return values[np.newaxis] if is_block else values


class ReferenceType(pa.ExtensionType):
    """An HDF5 object (8 bytes) or region (12 bytes) reference: valid only in the file it was read from."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        super().__init__(pa.binary(8 if kind == "object_reference" else 12), f"colonnade.{kind}")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> ReferenceType:
        return cls("object_reference" if storage.byte_width == 8 else "region_reference")

    def __reduce__(self) -> tuple[Any, ...]:
        return ReferenceType, (self.kind,)


class RawType(pa.ExtensionType):
    """Bytes of an HDF5 datatype that has no Arrow type; `hdf5_type` names it."""

    def __init__(self, size: int, hdf5_type: str) -> None:
        self.hdf5_type = hdf5_type
        super().__init__(pa.binary(size), "colonnade.raw")

    def __arrow_ext_serialize__(self) -> bytes:
        return json.dumps({"hdf5_type": self.hdf5_type}).encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> RawType:
        return cls(storage.byte_width, json.loads(serialized)["hdf5_type"])

    def __reduce__(self) -> tuple[Any, ...]:
        return RawType, (self.storage_type.byte_width, self.hdf5_type)


COMPLEX64 = ComplexType(64)
COMPLEX128 = ComplexType(128)
OBJECT_REFERENCE = ReferenceType("object_reference")
REGION_REFERENCE = ReferenceType("region_reference")

for _type in (COMPLEX64, COMPLEX128, OBJECT_REFERENCE, REGION_REFERENCE, RawType(1, "")):
    with suppress(pa.ArrowKeyError):  # already registered, by an earlier import of this module
        pa.register_extension_type(_type)


def complex_array(values: np.ndarray[Any, Any], missing: np.ndarray[Any, Any] | None = None) -> pa.Array:
    """NumPy complex numbers as an Arrow array of ComplexType."""
    kind = COMPLEX64 if values.dtype.itemsize == 8 else COMPLEX128
    fields = list(kind.storage_type)
    parts = [pa.array(np.ascontiguousarray(part)) for part in (values.real, values.imag)]
    mask = None if missing is None else pa.array(missing)
    storage = pa.StructArray.from_arrays(parts, fields=fields, mask=mask)
    return pa.ExtensionArray.from_storage(kind, storage)


def complex_values(array: pa.Array) -> np.ndarray[Any, Any]:
    """An Arrow array of ComplexType as NumPy complex numbers; the values of missing rows are undefined."""
    storage = array.storage
    out = np.empty(len(array), dtype=f"c{array.type.bits // 8}")
    out.real = storage.field(0).to_numpy(zero_copy_only=False)
    out.imag = storage.field(1).to_numpy(zero_copy_only=False)
    return out


def complex_column(column: pa.ChunkedArray) -> np.ndarray[Any, Any]:
    """A column of ComplexType as NumPy complex numbers; missing ones are NaN."""
    values = np.concatenate(
        [complex_values(chunk) for chunk in column.chunks] or [np.zeros(0, f"c{column.type.bits // 8}")]
    )
    values[column.is_null().to_numpy()] = np.nan
    return values


def plain_storage(array: pa.ChunkedArray) -> pa.ChunkedArray:
    """The rows as plain storage types, for engines that do not know our extension types."""
    if not isinstance(array.type, (ComplexType, ReferenceType, RawType)):
        return array
    storage_type = array.type.storage_type
    return pa.chunked_array([chunk.storage for chunk in array.chunks], type=storage_type)


# -- types as strings --

_WORDS: dict[str, pa.DataType] = {
    "null": pa.null(), "bool": pa.bool_(), "string": pa.string(), "binary": pa.binary(),
    "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(),
    "uint8": pa.uint8(), "uint16": pa.uint16(), "uint32": pa.uint32(), "uint64": pa.uint64(),
    "float16": pa.float16(), "float32": pa.float32(), "float64": pa.float64(),
    "date32": pa.date32(), "date64": pa.date64(),
    "time32[s]": pa.time32("s"), "time32[ms]": pa.time32("ms"),
    "time64[us]": pa.time64("us"), "time64[ns]": pa.time64("ns"),
    "complex64": COMPLEX64, "complex128": COMPLEX128,
    "object_reference": OBJECT_REFERENCE, "region_reference": REGION_REFERENCE,
    **{f"duration[{unit}]": pa.duration(unit) for unit in ("s", "ms", "us", "ns")},
    **{f"timestamp[{unit}]": pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")},
}  # fmt: skip
_NAMES = {str(kind): word for word, kind in _WORDS.items() if not isinstance(kind, pa.ExtensionType)}
_DECIMALS: dict[str, Callable[[int, int], pa.DataType]] = {
    "decimal32": pa.decimal32,
    "decimal64": pa.decimal64,
    "decimal128": pa.decimal128,
    "decimal256": pa.decimal256,
}
_LEAF = re.compile(r"[a-z0-9_]+(\[[^\]]*\])?(\(\d+, -?\d+\))?")
_ZONED = re.compile(r"timestamp\[(s|ms|us|ns), tz=([^\]]+)\]")
_DECIMAL = re.compile(r"(decimal\d+)\((\d+), (-?\d+)\)")
_BYTES = re.compile(r"fixed_size_binary\[(\d{1,9})\]")
_SIZE = re.compile(r", (\d{1,9})>")
_MAX_DEPTH = 32


def write_arrow_type(kind: pa.DataType) -> str:
    """The string that names an Arrow type."""
    if isinstance(kind, ComplexType):
        return f"complex{kind.bits}"
    if isinstance(kind, ReferenceType):
        return kind.kind
    if pa.types.is_struct(kind):
        return "struct<" + ", ".join(f"{json.dumps(f.name)}: {write_arrow_type(f.type)}" for f in kind) + ">"
    if pa.types.is_fixed_size_list(kind):
        return f"fixed_size_list<{write_arrow_type(kind.value_type)}, {kind.list_size}>"
    if pa.types.is_list(kind):
        return f"list<{write_arrow_type(kind.value_type)}>"
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return f"timestamp[{kind.unit}, tz={kind.tz}]"
    text = str(kind)
    return _NAMES.get(text, text)


def parse_arrow_type(text: str) -> pa.DataType | None:
    """The Arrow type that a string names, or None if it does not name one."""
    try:
        kind, end = _parse(text, 0, 0)
    except (ValueError, IndexError, pa.ArrowException):
        return None
    return kind if end == len(text) else None


def _parse(text: str, at: int, depth: int) -> tuple[pa.DataType, int]:
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deeply")
    if text.startswith("list<", at):
        item, at = _parse(text, at + 5, depth + 1)
        return pa.list_(item), _expect(text, at, ">")
    if text.startswith("fixed_size_list<", at):
        item, at = _parse(text, at + 16, depth + 1)
        size = _SIZE.match(text, at)
        if size is None:
            raise ValueError("size expected")
        return pa.list_(item, int(size[1])), size.end()
    if text.startswith("struct<", at):
        return _parse_struct(text, at + 7, depth)
    leaf = _LEAF.match(text, at)
    if leaf is None:
        raise ValueError("type expected")
    return _parse_leaf(leaf[0]), leaf.end()


def _parse_struct(text: str, at: int, depth: int) -> tuple[pa.DataType, int]:
    fields = []
    while True:
        name, at = json.JSONDecoder().raw_decode(text, at)
        kind, at = _parse(text, _expect(text, at, ": "), depth + 1)
        fields.append(pa.field(str(name), kind))
        if text.startswith(">", at):
            return pa.struct(fields), at + 1
        at = _expect(text, at, ", ")


def _expect(text: str, at: int, token: str) -> int:
    if not text.startswith(token, at):
        raise ValueError(f"{token!r} expected")
    return at + len(token)


def _parse_leaf(text: str) -> pa.DataType:
    if text in _WORDS:
        return _WORDS[text]
    if zoned := _ZONED.fullmatch(text):
        return pa.timestamp(zoned[1], zoned[2])
    if (decimal := _DECIMAL.fullmatch(text)) and decimal[1] in _DECIMALS:
        return _DECIMALS[decimal[1]](int(decimal[2]), int(decimal[3]))
    if size := _BYTES.fullmatch(text):
        return pa.binary(int(size[1]))
    raise ValueError(f"unknown type {text!r}")
