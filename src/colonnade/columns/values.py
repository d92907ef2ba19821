"""Convert any Arrow values to Python values; times that Python's types cannot hold become NumPy values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

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
