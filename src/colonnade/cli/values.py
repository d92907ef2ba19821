"""Arrow and Python values as plain data: what JSON can hold."""

from __future__ import annotations

import math
from itertools import islice

import numpy as np
import pyarrow as pa

from colonnade import compute as pc
from colonnade.arrays import Booleans
from colonnade.columns.keys import number_dtype


def plain_values(array: pa.Array) -> list[object]:
    """Arrow values for JSON: None where missing, bytes as hex, times as ISO strings, categories by name."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return plain_values(array.storage)
    if pa.types.is_dictionary(kind):
        return _plain_categories(array)
    if pa.types.is_struct(kind):
        return _plain_structs(array)
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return _plain_lists(array)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _plain_dates(array)
    if pa.types.is_time(kind):
        return list(array.cast(pa.string()).to_pylist())
    if pa.types.is_duration(kind):
        return list(array.cast(pa.int64()).to_pylist())
    if pa.types.is_float16(kind) or pa.types.is_float32(kind):
        return _plain_short_floats(array)
    return [plain_value(value) for value in array.to_pylist()]


def plain_value(value: object) -> object:
    """A Python value for JSON: NaN and infinities as strings, bytes as hex, other objects as their str()."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _float_word(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, complex):
        return {"r": plain_value(value.real), "i": plain_value(value.imag)}
    if isinstance(value, dict):
        return {str(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_value(item) for item in value]
    return str(value)


def _float_word(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _is_there(array: pa.Array) -> Booleans:
    """Which values are not missing, from Arrow's bitmap: Arrow's own function would load `pyarrow.compute`."""
    bits = array.buffers()[0]
    if bits is None:
        return np.ones(len(array), dtype=np.bool_)
    first, last = array.offset, array.offset + len(array)
    return np.unpackbits(np.frombuffer(bits, "u1"), count=last, bitorder="little")[first:].astype(np.bool_)


def _plain_categories(array: pa.Array) -> list[object]:
    names = plain_values(array.dictionary)
    return [None if code is None else names[code] for code in array.indices.to_pylist()]


def _plain_structs(array: pa.Array) -> list[object]:
    names = [array.type.field(i).name for i in range(array.type.num_fields)]
    parts = [plain_values(part) for part in array.flatten()]
    there = _is_there(array).tolist()
    return [{n: part[at] for n, part in zip(names, parts, strict=True)} if ok else None for at, ok in enumerate(there)]


def _plain_lists(array: pa.Array) -> list[object]:

    items = iter(plain_values(array.flatten()))
    return [None if n is None else list(islice(items, n)) for n in pc.list_value_length(array).to_pylist()]


def _plain_dates(array: pa.Array) -> list[object]:
    """ISO strings for any year and unit, which Python's datetime cannot do; times with a zone are given in UTC."""
    kind = array.type
    unit = kind.unit if pa.types.is_timestamp(kind) else "D" if pa.types.is_date32(kind) else "ms"
    stored = np.frombuffer(array.buffers()[1], "i4" if unit == "D" else "i8", array.offset + len(array))
    counts = np.where(_is_there(array), stored[array.offset :], 0)
    moments = counts.astype("i8").view(f"M8[{unit}]")
    strings = np.datetime_as_string(moments.astype("M8[D]") if pa.types.is_date(kind) else moments)
    zone = "Z" if pa.types.is_timestamp(kind) and kind.tz is not None else ""
    there = _is_there(array).tolist()
    return [f"{text}{zone}" if ok else None for text, ok in zip(strings.tolist(), there, strict=True)]


def _plain_short_floats(array: pa.Array) -> list[object]:
    """16-bit and 32-bit floats with the digits they have: 0.1, not 0.10000000149011612."""
    short = number_dtype(array.type).type
    return [None if value is None else plain_value(float(str(short(value)))) for value in array.to_pylist()]
