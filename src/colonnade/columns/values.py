"""Convert any Arrow values to Python values, and Arrow arrays to their plain type.

Times that Python's types cannot hold become NumPy values. The plain type has no views, large offsets, run ends,
foreign extensions or inner dictionaries. A cast would be enough except for lists: Arrow's cast of list views leaves
wrong offsets.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from colonnade import compute as pc

_REFUSALS = (OverflowError, ValueError, KeyError, pa.ArrowException)  # KeyError: an unknown time zone


def python_values(array: pa.Array | pa.ChunkedArray) -> list[Any]:
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


def _one(array: pa.Array) -> Any:
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
    unit: Any = "D" if pa.types.is_date32(kind) else "ms" if pa.types.is_date64(kind) else kind.unit
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return np.datetime64(number, unit)
    return np.timedelta64(number, unit)


def python_rows(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of a table as dicts."""
    columns = [python_values(column) for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def plain_array(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The array as `kind`, which must be the plain type of its type; a dictionary is left unchanged."""
    if array.type == kind or pa.types.is_dictionary(kind):
        return array
    if pa.types.is_run_end_encoded(array.type):
        return plain_array(pc.run_end_decode(array), kind)
    if isinstance(array, pa.ExtensionArray):
        return plain_array(array.storage, kind)
    if pa.types.is_dictionary(array.type):
        return plain_array(array.dictionary_decode(), kind)
    if pa.types.is_large_string(array.type):
        return _with_short_offsets(array, kind)
    if pa.types.is_list(kind):
        return _plain_list(array, kind)
    if pa.types.is_fixed_size_list(kind):
        return _plain_fixed_list(array, kind)
    if pa.types.is_struct(kind):
        return _plain_struct(array, kind)
    return array.cast(kind)


def _validity(array: pa.Array) -> pa.Buffer | None:
    if array.null_count == 0:
        return None
    valid: np.ndarray[Any, Any] = array.is_valid().to_numpy(zero_copy_only=False)
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
