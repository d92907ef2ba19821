"""Convert Arrow arrays to their plain type: no views, large offsets, run ends, foreign extensions, inner dictionaries.

A cast would be enough except for lists: Arrow's cast of list views leaves wrong offsets.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from colonnade.columns import compute as pc


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
