"""Convert anything that looks like a column of values to an Arrow array: lists, NumPy arrays of any dtype, Series.

NumPy has types that Arrow does not: complex numbers, big-endian bytes, records, references. Missing
values stay missing (masks, None, NaT, NaN in an object array); a float NaN is a value.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from colonnade.columns.arrow_types import OBJECT_REFERENCE, REGION_REFERENCE, complex_array
from colonnade.errors import DataError, UsageError
from colonnade.exchange.pandas_in import column_of, is_series
from colonnade.exchange.pandas_notes import Note
from colonnade.exchange.targets import are_targets, target_array
from colonnade.h5.datasets import reference_bytes
from colonnade.h5.datatypes import is_reference_dtype, reference_array

_ARROW_UNITS = ("s", "ms", "us", "ns")
_UNITS = {
    "M": {"Y": "D", "M": "D", "W": "D", "D": "D", "h": "s", "m": "s", "generic": "s"} | {u: u for u in _ARROW_UNITS},
    "m": {"W": "s", "D": "s", "h": "s", "m": "s", "generic": "s"} | {u: u for u in _ARROW_UNITS},
}  # fmt: skip


def column_from(value: object, name: str) -> tuple[pa.Array | pa.ChunkedArray, Note]:
    """The values of one column as Arrow, and a note of the pandas properties that Arrow cannot represent."""
    return column_of(value, name) if is_series(value) else (array_from(value, name), {})


def declares_strings(value: object, array: pa.Array | pa.ChunkedArray) -> bool:
    """Whether a new column of these values holds strings although all values are missing: an array of objects.

    Objects in NumPy, h5py and pandas are mostly strings. A list declares no type, so its column has none yet.
    """
    objects = is_series(value) or (isinstance(value, np.ndarray) and value.dtype.kind == "O")
    return pa.types.is_null(array.type) and objects


def array_from(value: object, name: str) -> pa.Array | pa.ChunkedArray:
    """The values of one column as Arrow."""
    if isinstance(value, (pa.Array, pa.ChunkedArray)):
        return value
    if is_series(value):
        return column_of(value, name)[0]
    if isinstance(value, np.ma.MaskedArray):
        return _from_numpy(np.asarray(value.data), name, np.ma.getmaskarray(value))
    if isinstance(value, np.ndarray):
        return _from_numpy(value, name, None)
    if hasattr(value, "__arrow_c_stream__"):
        return pa.chunked_array(value)
    if hasattr(value, "__arrow_c_array__"):
        return pa.array(value)
    if hasattr(value, "__array__"):
        return _from_numpy(np.asarray(value), name, None)
    if isinstance(value, (str, bytes, dict)) or not isinstance(value, (Sequence, range)):
        raise UsageError(f"column {name!r}: give a list or an array of values, not {type(value).__name__}", column=name)
    return _from_sequence(value, name)


def _from_sequence(value: Sequence[object], name: str) -> pa.Array:
    if any(isinstance(item, (complex, np.complexfloating)) for item in value):
        missing = np.array([item is None for item in value])
        return complex_array(np.array([0j if item is None else item for item in value], dtype="c16"), missing)
    targets = _from_targets(value, name)
    if targets is not None:
        return targets
    references = reference_array(value)
    if references is not None:
        return _from_numpy(references, name, np.array([item is None for item in value], dtype=bool))
    try:
        return pa.array(value)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise DataError(f"these values have no common type: {error}", column=name) from error


def _from_targets(value: Sequence[object], name: str) -> pa.Array | None:
    """References to be made, also in lists and structs; None for other values."""
    if are_targets(value):
        return target_array(value)
    first = next((item for item in value if item is not None), None)
    if isinstance(first, list) and all(item is None or isinstance(item, list) for item in value):
        rows = [item for item in value if isinstance(item, list)]
        inner = _from_targets([part for row in rows for part in row], name) if first else None
        if inner is None:
            return None
        ends = np.cumsum([0] + [len(item) if isinstance(item, list) else 0 for item in value])
        mask = pa.array([item is None for item in value])
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), inner, mask=mask)
    if isinstance(first, dict) and all(item is None or isinstance(item, dict) for item in value):
        fields = {key: [None if not isinstance(item, dict) else item.get(key) for item in value] for key in first}
        if any(_from_targets(cells, name) is not None for cells in fields.values()):
            parts = [_from_sequence(cells, f"{name}.{key}") for key, cells in fields.items()]
            return pa.StructArray.from_arrays(parts, list(fields), mask=pa.array([item is None for item in value]))
    return None


def _from_numpy(values: np.ndarray, name: str, mask: np.ndarray | None) -> pa.Array:
    if values.ndim == 0:
        raise UsageError(f"column {name!r}: give an array of values, not a single one", column=name)
    if values.ndim > 1:
        return _from_rows_of_arrays(values, name, mask)
    kind = values.dtype.kind
    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    if kind in "biu" or (kind == "f" and values.dtype.itemsize <= 8):
        return pa.array(np.ascontiguousarray(values), mask=mask)
    if kind == "c" and values.dtype.itemsize <= 16:
        return complex_array(values, mask)
    if kind in "mM":
        return pa.array(_with_arrow_unit(values, name), mask=mask)
    if kind == "S":
        return _from_fixed_bytes(values, mask)
    if kind == "V":
        return _from_void(values, name, mask)
    if kind == "O":
        return _from_objects(values, name, mask)
    if kind in "UT":
        return pa.array(values.astype(object), pa.string(), mask=mask, from_pandas=True)
    raise UsageError(
        f"column {name!r}: NumPy's {values.dtype} has no Arrow type: cast it, for example to float64", column=name
    )


def _from_rows_of_arrays(values: np.ndarray, name: str, mask: np.ndarray | None) -> pa.Array:
    """An array of two or more dimensions: one fixed-size list per row."""
    length = values.shape[1]
    rows_missing = None
    if mask is not None and mask.any():
        by_row = mask.reshape(len(values), -1)
        if (by_row.any(axis=1) != by_row.all(axis=1)).any():
            raise DataError("only whole rows of an array column can be missing", column=name)
        rows_missing = by_row.all(axis=1)
    flat = np.ascontiguousarray(values).reshape((len(values) * length, *values.shape[2:]))
    inner = _from_numpy(flat, name, None)
    kind = pa.list_(inner.type, length)
    validity = None if rows_missing is None else pa.py_buffer(np.packbits(~rows_missing, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [validity], children=[inner])


def _with_arrow_unit(values: np.ndarray, name: str) -> np.ndarray:
    """Dates and times in a unit that Arrow has: years, months and weeks become days, hours and minutes seconds."""
    unit, count = np.datetime_data(values.dtype)
    letter = values.dtype.kind
    if count == 1 and (unit in _ARROW_UNITS or (unit == "D" and letter == "M")):
        return values
    target = _UNITS[letter].get(unit)
    if target is None:
        raise UsageError(
            f"column {name!r}: NumPy's {values.dtype} has no Arrow type that holds it exactly: cast it, for example to "
            f"{letter}8[ns] or an integer",
            column=name,
        )
    return values.astype(f"{letter}8[{target}]")


def _from_fixed_bytes(values: np.ndarray, mask: np.ndarray | None) -> pa.Array:
    """NumPy bytes as strings if they are UTF-8, otherwise as bytes."""
    data = pa.array(values.tolist(), pa.binary(), mask=mask)
    try:
        return data.cast(pa.string())
    except pa.ArrowInvalid:
        return data


def _from_void(values: np.ndarray, name: str, mask: np.ndarray | None) -> pa.Array:
    if values.dtype.names is None:
        return pa.array([item.tobytes() for item in values], pa.binary(values.dtype.itemsize), mask=mask)
    parts = [_from_numpy(values[field], f"{name}.{field}", None) for field in values.dtype.names]
    fields = [pa.field(field, part.type) for field, part in zip(values.dtype.names, parts, strict=True)]
    return pa.StructArray.from_arrays(parts, fields=fields, mask=None if mask is None else pa.array(mask))


def _from_objects(values: np.ndarray, name: str, mask: np.ndarray | None) -> pa.Array:
    kind = is_reference_dtype(values.dtype)
    if kind is not None:
        listed = (
            list(values) if mask is None else [None if gone else item for item, gone in zip(values, mask, strict=True)]
        )
        reference = OBJECT_REFERENCE if kind == "object_reference" else REGION_REFERENCE
        data = np.frombuffer(reference_bytes(listed, kind), dtype=f"V{reference.storage_type.byte_width}")
        null = b"\0" * reference.storage_type.byte_width
        raw = [None if item.tobytes() == null else item.tobytes() for item in data]
        return pa.ExtensionArray.from_storage(reference, pa.array(raw, reference.storage_type))
    objects = [None if mask is not None and mask[row] else item for row, item in enumerate(values)]
    if are_targets(objects):
        return target_array(objects)
    try:
        return pa.array(values, mask=mask, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise DataError(f"these values have no common type: {error}", column=name) from error
