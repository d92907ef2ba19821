"""Arrow extension types for complex numbers, HDF5 references and unmapped datatypes, which Arrow has no type for.

Each one wraps a plain storage type, so that engines which do not know it still see something
sensible: a struct of two floats, or bytes.
"""

from __future__ import annotations

import json
import sys
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
