"""Arrow and Python values as plain data, which JSON can hold, and plain data as Arrow arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from itertools import islice
from typing import NoReturn

import numpy as np
import pyarrow as pa

from colonnade import compute as pc
from colonnade.arrays import Booleans
from colonnade.columns.keys import number_dtype
from colonnade.errors import DataError

FLOAT_WORDS = ("NaN", "Infinity", "-Infinity")
"""What stands for the floats that JSON has no number for."""


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


def plain_records(batch: pa.RecordBatch, names: Sequence[str]) -> list[object]:
    """The rows of a batch as dicts of plain data."""
    if not names:
        return [{} for _ in range(batch.num_rows)]
    values = [plain_values(column) for column in batch.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


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
    return FLOAT_WORDS[0 if math.isnan(value) else 1 if value > 0 else 2]


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


def from_plain(values: Sequence[object], kind: pa.DataType, column: str) -> pa.Array:
    """The Arrow array that `plain_values` gives these values for: the inverse, for each type that a table can have."""
    try:
        return _from_plain(values, kind)
    except (ValueError, TypeError, KeyError, OverflowError, InvalidOperation, pa.ArrowException) as error:
        raise DataError(f"cannot read these values as {kind}: {error}", column=column) from error


def _from_plain(values: Sequence[object], kind: pa.DataType) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, _from_plain(values, kind.storage_type))
    if pa.types.is_dictionary(kind):
        coded = _from_plain(values, kind.value_type).dictionary_encode()
        codes = coded.indices.cast(kind.index_type)
        return pa.DictionaryArray.from_arrays(codes, coded.dictionary, ordered=kind.ordered)
    if pa.types.is_struct(kind):
        return _structs_from_plain(values, kind)
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return _lists_from_plain(values, kind)
    if pa.types.is_floating(kind):
        return pa.array([_number(value) for value in values], pa.float64()).cast(kind)
    if pa.types.is_decimal(kind):
        return pa.array([None if value is None else Decimal(str(value)) for value in values], kind)
    if pa.types.is_duration(kind):
        return pa.array(values, pa.int64()).view(kind)
    if _is_bytes(kind):
        return pa.array([None if value is None else bytes.fromhex(_text(value)) for value in values], kind)
    if pa.types.is_temporal(kind):
        strings = [None if value is None else _text(value) for value in values]
        return times_from_text(pa.array(strings, pa.string()), kind)
    return pa.array(values, kind)


def _is_bytes(kind: pa.DataType) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value


def _number(value: object) -> float | None:
    """A number, or one of the words that stand for what JSON has no number for."""
    if value is None:
        return None
    if isinstance(value, str):
        if value not in FLOAT_WORDS:
            raise ValueError(f"{value!r} is not a number")
        return float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{value!r} is not a number")
    return float(value)


def _structs_from_plain(values: Sequence[object], kind: pa.DataType) -> pa.Array:
    fields = [kind.field(position) for position in range(kind.num_fields)]
    rows = [value if isinstance(value, dict) else {} if value is None else _refuse(value, "record") for value in values]
    names = {field.name for field in fields}
    odd = next((key for row in rows for key in row if key not in names), None)
    if odd is not None:
        raise ValueError(f"there is no field {odd!r}")
    parts = [
        _from_plain([row.get(field.name, None if field.nullable else 0) for row in rows], field.type)
        for field in fields
    ]
    missing = pa.array([value is None for value in values], pa.bool_())
    return pa.StructArray.from_arrays(parts, fields=fields, mask=missing)


def _lists_from_plain(values: Sequence[object], kind: pa.DataType) -> pa.Array:
    lists = [value if value is None or isinstance(value, list) else _refuse(value, "list") for value in values]
    missing = pa.array([value is None for value in lists], pa.bool_())
    if pa.types.is_fixed_size_list(kind):
        wrong = next((items for items in lists if items is not None and len(items) != kind.list_size), None)
        if wrong is not None:
            raise ValueError(f"a list has {len(wrong)} items, not {kind.list_size}")
        items = [item for row in lists for item in ([None] * kind.list_size if row is None else row)]
        return pa.FixedSizeListArray.from_arrays(_from_plain(items, kind.value_type), type=kind, mask=missing)
    ends = np.cumsum([0, *(0 if row is None else len(row) for row in lists)])
    inner = _from_plain([item for row in lists if row is not None for item in row], kind.value_type)
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), inner, type=kind, mask=missing)


def _refuse(value: object, wanted: str) -> NoReturn:
    raise TypeError(f"{value!r} is not a {wanted}")


def times_from_text(strings: pa.Array, kind: pa.DataType) -> pa.Array:
    """Times, dates and timestamps from ISO strings of any year; those of a zone are in UTC, or have an offset."""
    if pa.types.is_timestamp(kind) and kind.tz not in (None, "UTC"):
        return times_from_text(strings, pa.timestamp(kind.unit, "UTC")).cast(kind)
    if pa.types.is_time(kind):
        days = pa.array([None if text is None else f"1970-01-01T{text}" for text in strings.to_pylist()], pa.string())
        counts = days.cast(pa.timestamp(kind.unit)).view(pa.int64())
        return counts.cast(pa.int32() if pa.types.is_time32(kind) else pa.int64()).view(kind)
    try:
        return strings.cast(kind)
    except pa.ArrowInvalid:
        if pa.types.is_timestamp(kind) and kind.unit != "ns":
            with suppress(pa.ArrowInvalid):  # zeros after the point that the type has no room for
                return strings.cast(pa.timestamp("us" if kind.unit != "us" else "ns", kind.tz)).cast(kind)
        of_any_year = _times_of_any_year(strings.to_pylist(), kind)
        if of_any_year is None:
            raise
        return of_any_year.view(kind)


def _times_of_any_year(strings: Sequence[str | None], kind: pa.DataType) -> pa.Array | None:
    """Dates or timestamps as integers, from exactly what `_plain_dates` writes, which may have years that Arrow does
    not parse; None if a text is anything else."""
    zone = "Z" if pa.types.is_timestamp(kind) and kind.tz is not None else ""
    unit = kind.unit if pa.types.is_timestamp(kind) else "D"
    try:
        moments = np.array(["NaT" if text is None else text.removesuffix("Z") for text in strings], dtype=f"M8[{unit}]")
    except ValueError:
        return None
    shown = np.datetime_as_string(moments).tolist()
    if any(text is not None and text != f"{there}{zone}" for text, there in zip(strings, shown, strict=True)):
        return None
    if pa.types.is_date64(kind):
        moments = moments.astype("M8[ms]")
    missing = np.array([text is None for text in strings], dtype=np.bool_)
    return pa.array(moments.view("i8"), pa.int32() if pa.types.is_date32(kind) else pa.int64(), mask=missing)
