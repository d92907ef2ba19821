"""The fill of a column as a Python value, as a string, and as a line of the column's description."""

from __future__ import annotations

import ast
import re

import numpy as np

from colonnade.columns.decode import decode
from colonnade.columns.mapping import default_type
from colonnade.h5.datasets import with_length
from colonnade.model import ColumnInfo, StoredType
from colonnade.stored_dtypes import memory_dtype


def fill_is_nan(column: ColumnInfo) -> bool:
    """Whether the column's fill is NaN, so that every NaN is a missing row."""
    if column.encoding is not None:
        return False
    dtype = memory_dtype(column.type)
    return column.fill is not None and dtype.kind == "f" and bool(np.isnan(np.frombuffer(column.fill, dtype=dtype)[0]))


def column_fill(column: ColumnInfo) -> object:
    """The stored value that marks a missing row of a column; None if the column has no fill."""
    if column.fill is None:
        return None
    if column.encoding in ("date", "date-time", "pointers", "levels"):  # the fill is a string, whatever the datatype
        return column.fill.split(b"\0")[0].decode("utf-8", "replace")
    return fill_value(column.type, column.fill)


def missing_line(stored: StoredType, fill: bytes) -> str:
    """The line of a description that states the fill (C6)."""
    return f"Missing value: {_fill_text(stored, fill)}."


def lost_fill(description: str | None, stored: StoredType) -> bytes | None:
    """The fill stated in a description, for a dataset that has lost its own; None if no line states it."""
    found = re.search(r'(?:^|\n)Missing value: (?:"(.*)"|0x([0-9a-f]+)|(\[.*\]))\.$', description or "", re.DOTALL)
    if found is None:
        return None
    if found[3] is not None:
        return _list_fill(found[3], stored) if stored.kind == "sequence" else None
    return bytes.fromhex(found[2]) if found[2] else found[1].encode("utf-8", "surrogateescape")


def _list_fill(text: str, stored: StoredType) -> bytes | None:
    """The fill of a column of lists, as `fill_value` shows it."""
    try:
        items = ast.literal_eval(text)
        if stored.item.kind == "text":
            return b"".join(with_length(item.encode()) for item in items)
        return np.array(items, dtype=memory_dtype(stored.item)).tobytes()
    except (ValueError, TypeError, SyntaxError, AttributeError, OverflowError):
        return None


def _fill_text(stored: StoredType, fill: bytes) -> str:
    """The fill as a string for people and other tools."""
    if stored.kind in ("object_reference", "region_reference"):
        return "the null reference"
    if stored.kind == "boolean":
        return "MISSING"
    if stored.kind in ("opaque", "binary"):
        return f"0x{fill.hex()}" if fill else '""'
    value = fill_value(stored, fill)
    return f'"{value}"' if isinstance(value, str) else str(value)


def fill_value(stored: StoredType, fill: bytes) -> object:
    """The fill as a Python value of the stored datatype: an integer for a timestamp, a code for a categorical."""
    if stored.kind == "text":
        return fill.decode("utf-8", "replace")
    if stored.kind == "binary":
        return fill
    if stored.kind == "sequence" and not fill:
        return []
    kind = default_type(stored)
    if stored.kind == "sequence" and stored.item.kind == "text":
        return [fill[8:].decode("utf-8", "replace")]
    if (stored.item if stored.kind == "sequence" else stored).has_pointers:
        return fill
    if stored.kind == "sequence":
        inner = np.frombuffer(fill, dtype=memory_dtype(stored.item))
        return decode(inner, stored.item, kind.value_type).to_pylist()
    dtype = memory_dtype(stored)
    if stored.kind in ("boolean", "enum"):
        return int(np.frombuffer(fill, dtype=dtype)[0])
    base, shape = dtype.subdtype if dtype.subdtype is not None else (dtype, ())
    return decode(np.frombuffer(fill, dtype=base).reshape(1, *shape), stored, kind)[0].as_py()
