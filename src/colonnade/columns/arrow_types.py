"""Arrow extension types for complex numbers, HDF5 references and unmapped datatypes; arrays in their plain types.

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

import re
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from colonnade import compute as pc
from colonnade.stored_dtypes import NEW_REFERENCE

if TYPE_CHECKING:
    from colonnade.nodes.protocols import ReferenceKind


class ComplexScalar(pa.ExtensionScalar):
    """One complex number."""

    def as_py(self, **_options: object) -> complex | None:
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

    def __reduce__(self) -> tuple[object, ...]:
        return ComplexType, (self.bits,)

    def __arrow_ext_scalar_class__(self) -> type[ComplexScalar]:
        return ComplexScalar

    def to_pandas_dtype(self) -> ComplexForPandas:
        return ComplexForPandas(np.dtype(f"c{self.bits // 8}"))


class ComplexForPandas:
    """The dtype with which pyarrow's `to_pandas` converts complex numbers."""

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype = dtype

    def __from_arrow__(self, column: pa.Array | pa.ChunkedArray) -> np.ndarray:
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

    def __reduce__(self) -> tuple[object, ...]:
        return ReferenceType, (self.kind,)


class RawType(pa.ExtensionType):
    """Bytes of an HDF5 datatype that has no Arrow type; `hdf5_type` names it."""

    def __init__(self, size: int, hdf5_type: str) -> None:
        self.hdf5_type = hdf5_type
        super().__init__(pa.binary(size), "colonnade.raw")

    def __arrow_ext_serialize__(self) -> bytes:
        import json

        return json.dumps({"hdf5_type": self.hdf5_type}).encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> RawType:
        import json

        return cls(storage.byte_width, json.loads(serialized)["hdf5_type"])

    def __reduce__(self) -> tuple[object, ...]:
        return RawType, (self.storage_type.byte_width, self.hdf5_type)


class TargetType(pa.ExtensionType):
    """References that are not made yet: a path, and a selection as JSON."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        super().__init__(pa.struct([("path", pa.string()), ("selection", pa.string())]), f"colonnade.target_{kind}")

    @property
    def stored(self) -> ReferenceType:
        return OBJECT_REFERENCE if self.kind == "object_reference" else REGION_REFERENCE

    def __arrow_ext_serialize__(self) -> bytes:
        return self.kind.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> TargetType:
        return cls(serialized.decode())

    def __reduce__(self) -> tuple[object, ...]:
        return TargetType, (self.kind,)


COMPLEX64 = ComplexType(64)
COMPLEX128 = ComplexType(128)
OBJECT_REFERENCE = ReferenceType("object_reference")
REGION_REFERENCE = ReferenceType("region_reference")

for _type in (COMPLEX64, COMPLEX128, OBJECT_REFERENCE, REGION_REFERENCE, RawType(1, "")):
    with suppress(pa.ArrowKeyError):  # already registered, by an earlier import of this module
        pa.register_extension_type(_type)


def holds_targets(kind: pa.DataType) -> bool:
    """Whether values of this type hold references that are not made yet, at any depth."""
    if isinstance(kind, TargetType):
        return True
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return holds_targets(kind.value_type)
    return pa.types.is_struct(kind) and any(holds_targets(field.type) for field in kind)


def holds_stored_references(kind: pa.DataType) -> bool:
    """Whether values of this type hold references that are made, at any depth."""
    if isinstance(kind, ReferenceType):
        return True
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return holds_stored_references(kind.value_type)
    return pa.types.is_struct(kind) and any(holds_stored_references(field.type) for field in kind)


def is_list_type(kind: pa.DataType) -> bool:
    """Whether values of an Arrow type are lists, of one length or of any."""
    return bool(pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind) or pa.types.is_large_list(kind))


def items_of(array: pa.Array) -> pa.Array:
    """The items of lists of a fixed length, one list after another, also those of missing lists."""
    length = array.type.list_size
    return array.values.slice(array.offset * length, len(array) * length)


def with_items(array: pa.Array, items: pa.Array) -> pa.Array:
    """Lists of the same fixed length with other items; those that are missing stay missing."""
    kind = pa.list_(items.type, array.type.list_size)
    validity = array.is_valid().buffers()[1] if array.null_count else None
    return pa.Array.from_buffers(kind, len(array), [validity], array.null_count, 0, [items])


def complex_array(values: np.ndarray, missing: np.ndarray | None = None) -> pa.Array:
    """NumPy complex numbers as an Arrow array of ComplexType."""
    kind = COMPLEX64 if values.dtype.itemsize == 8 else COMPLEX128
    fields = list(kind.storage_type)
    parts = [pa.array(np.ascontiguousarray(part)) for part in (values.real, values.imag)]
    mask = None if missing is None else pa.array(missing)
    storage = pa.StructArray.from_arrays(parts, fields=fields, mask=mask)
    return pa.ExtensionArray.from_storage(kind, storage)


def complex_values(array: pa.Array) -> np.ndarray:
    """An Arrow array of ComplexType as NumPy complex numbers; the values of missing rows are undefined."""
    storage = array.storage
    out = np.empty(len(array), dtype=f"c{storage.type.field(0).type.bit_width // 4}")
    out.real = storage.field(0).to_numpy(zero_copy_only=False)
    out.imag = storage.field(1).to_numpy(zero_copy_only=False)
    return out


def complex_column(column: pa.ChunkedArray) -> np.ndarray:
    """A column of ComplexType as NumPy complex numbers; missing ones are NaN."""
    values = np.concatenate(
        [complex_values(chunk) for chunk in column.chunks]
        or [np.zeros(0, f"c{column.type.storage_type.field(0).type.bit_width // 4}")]
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
# Compiled when they are needed, by `re`, which remembers them: few files have such types.
_LEAF = r"[a-z0-9_]+(\[[^\]]*\])?(\(\d+, -?\d+\))?"
_ZONED = r"timestamp\[(s|ms|us|ns), tz=([^\]]+)\]"
_DECIMAL = r"(decimal\d+)\((\d+), (-?\d+)\)"
_BYTES = r"fixed_size_binary\[(\d{1,9})\]"
_SIZE = r", (\d{1,9})>"
_MAX_DEPTH = 32


def write_arrow_type(kind: pa.DataType) -> str:
    """The string that names an Arrow type."""
    import json

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
        size = re.compile(_SIZE).match(text, at)
        if size is None:
            raise ValueError("size expected")
        return pa.list_(item, int(size[1])), size.end()
    if text.startswith("struct<", at):
        return _parse_struct(text, at + 7, depth)
    leaf = re.compile(_LEAF).match(text, at)
    if leaf is None:
        raise ValueError("type expected")
    return _parse_leaf(leaf[0]), leaf.end()


def _parse_struct(text: str, at: int, depth: int) -> tuple[pa.DataType, int]:
    import json

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
    if zoned := re.fullmatch(_ZONED, text):
        return pa.timestamp(zoned[1], zoned[2])
    if (decimal := re.fullmatch(_DECIMAL, text)) and decimal[1] in _DECIMALS:
        return _DECIMALS[decimal[1]](int(decimal[2]), int(decimal[3]))
    if size := re.fullmatch(_BYTES, text):
        return pa.binary(int(size[1]))
    raise ValueError(f"unknown type {text!r}")


# -- Convert any Arrow values to Python values, and Arrow arrays to their plain type --


_REFUSALS = (OverflowError, ValueError, KeyError, pa.ArrowException)  # KeyError: an unknown time zone


def python_values(array: pa.Array | pa.ChunkedArray) -> list[object]:
    """The values as Python objects; None for missing values."""
    try:
        return list(array.to_pylist())
    except _REFUSALS:
        pass
    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in python_values(chunk)]
    if len(array) > 1:
        return [value for row in range(len(array)) for value in python_values(array.slice(row, 1))]
    return [_one(array)]


def _one(array: pa.Array) -> object:
    """The single value of an array, for values that Arrow cannot convert to Python."""
    kind = array.type
    if array.null_count:
        return None
    if pa.types.is_dictionary(kind):
        return python_values(array.dictionary_decode())[0]
    if pa.types.is_struct(kind):
        return {kind.field(i).name: python_values(array.field(i))[0] for i in range(kind.num_fields)}
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return python_values(array[0].values)
    number = array.view(pa.int32() if kind.bit_width == 32 else pa.int64())[0].as_py()
    unit: Literal["D", "s", "ms", "us", "ns"] = (
        "D" if pa.types.is_date32(kind) else "ms" if pa.types.is_date64(kind) else kind.unit
    )
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return np.datetime64(number, unit)
    return np.timedelta64(number, unit)


def taken(array: pa.Array, rows: np.ndarray) -> pa.Array:
    """These rows. Arrow has no `take` for extension types inside lists and structs."""
    try:
        return array.take(pa.array(rows))
    except pa.ArrowNotImplementedError:
        return pa.concat_arrays([array.slice(row, 1) for row in rows.tolist()]) if len(rows) else array.slice(0, 0)


def present_values(array: pa.Array) -> pa.Array:
    """The values that are not missing."""
    if not array.null_count:
        return array
    try:
        return array.drop_null()
    except pa.ArrowNotImplementedError:
        return taken(array, np.flatnonzero(array.is_valid().to_numpy(zero_copy_only=False)))


def plain_array(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The array as `kind`, which must be the plain type of its type; a dictionary keeps its codes and categories."""
    if array.type == kind:
        return array
    if pa.types.is_dictionary(kind):
        return _without_views(array) if isinstance(array, pa.DictionaryArray) else array
    if pa.types.is_run_end_encoded(array.type):
        return plain_array(pc.run_end_decode(array), kind)
    if isinstance(array, pa.ExtensionArray):
        return plain_array(array.storage, kind)
    if isinstance(array, pa.DictionaryArray):
        return plain_array(_without_views(array).dictionary_decode(), kind)
    if pa.types.is_large_string(array.type):
        return _with_short_offsets(array, kind)
    if pa.types.is_list(kind):
        return _plain_list(array, kind)
    if pa.types.is_fixed_size_list(kind):
        return _plain_fixed_list(array, kind)
    if pa.types.is_struct(kind):
        return _plain_struct(array, kind)
    return array.cast(kind)


def _without_views(array: pa.DictionaryArray) -> pa.DictionaryArray:
    """A dictionary of strings or bytes without views, which Polars gives: Arrow can neither decode nor cast them."""
    known = array.dictionary
    views = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    if known.type not in views:
        return array
    return pa.DictionaryArray.from_arrays(array.indices, known.cast(views[known.type]), ordered=array.type.ordered)


def _validity(array: pa.Array) -> pa.Buffer | None:
    if array.null_count == 0:
        return None
    valid: np.ndarray = array.is_valid().to_numpy(zero_copy_only=False)
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def _with_short_offsets(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Large strings, as pandas and polars use them, with 32-bit offsets; the data buffer is shared."""
    validity, offsets, data = array.buffers()
    if array.offset or offsets is None or not len(array):
        return array.cast(kind)
    ends = np.frombuffer(offsets, dtype=np.int64, count=len(array) + 1)
    if ends[-1] >= 2**31:
        return array.cast(kind)
    return pa.Array.from_buffers(kind, len(array), [validity, pa.py_buffer(ends.astype(np.int32)), data])


def _plain_list(array: pa.Array, kind: pa.DataType) -> pa.Array:
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(array) + 1, dtype="i8")
    np.cumsum(lengths, out=offsets[1:])
    if offsets[-1] >= 2**31:
        raise pa.ArrowInvalid(f"{len(array)} rows hold {offsets[-1]} list elements: give smaller batches")
    values = plain_array(array.flatten(), kind.value_type)
    buffers = [_validity(array), pa.py_buffer(offsets.astype("i4"))]
    return pa.Array.from_buffers(kind, len(array), buffers, children=[values])


def _plain_fixed_list(array: pa.Array, kind: pa.DataType) -> pa.Array:
    size = kind.list_size
    values = plain_array(array.values.slice(array.offset * size, len(array) * size), kind.value_type)
    return pa.Array.from_buffers(kind, len(array), [_validity(array)], children=[values])


def _plain_struct(array: pa.Array, kind: pa.DataType) -> pa.Array:
    parts = [plain_array(array.field(i), kind.field(i).type) for i in range(kind.num_fields)]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask)


def reference_kind(kind: pa.DataType) -> ReferenceKind | None:
    """The kind of reference that values of this type are; None if they are none."""
    if isinstance(kind, ReferenceType):
        return "object_reference" if kind.kind == "object_reference" else "region_reference"
    return "reference" if isinstance(kind, RawType) and kind.hdf5_type.startswith(NEW_REFERENCE) else None


def holds_references(kind: pa.DataType) -> bool:
    """Whether there are references in values of this type."""
    if reference_kind(kind) is not None:
        return True
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return holds_references(kind.value_type)
    return pa.types.is_struct(kind) and any(holds_references(field.type) for field in kind)
