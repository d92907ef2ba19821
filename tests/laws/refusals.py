"""Which refusals of a right change are right: few, and each held against the values that were given.

A column has one stored value that means missing, chosen when it was made. So a later value that equals it cannot be
kept, and a type that has no value to spare cannot keep missing rows. Ordered categories grow at no place but the end
that the caller names. Text inside a struct or list, or in a column that was asked to be of HDF5 strings, ends at NUL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa

import colonnade as cn
from tests.laws.steps import Step
from tests.laws.test_round_trip import has_pointers, plain


@dataclass(frozen=True)
class Before:
    """What a file says about the columns of a step, just before it."""

    objects: frozenset[str]
    fills: Mapping[str, object]
    categories: Mapping[str, list[Any]]
    enums: frozenset[str]


def look_before(file: cn.File, step: Step) -> Before:
    """The objects in the table's group, and the fills and categories of the columns that get values."""
    if step.table not in file:
        return Before(frozenset(), {}, {}, frozenset())
    table = file[step.table]
    there = [table[name] for name in step.given if name in table]
    return Before(
        frozenset(file.h5[step.table]),
        {column.name: column.fill for column in there},
        {column.name: plain(pa.chunked_array([column.categories])) for column in there if column.categories},
        frozenset(column.name for column in there if column.stored_type.kind == "enum"),
    )


def refused_rightly(error: cn.errors.UsageError, step: Step, before: Before) -> bool:
    """Whether the step could not be done as it was asked for."""
    name = str(error.column).split(".")[0]
    text = str(error)
    if "has an object" in text:
        return name in before.objects
    if "HDF5 enum" in text:
        return _no_enum(step, name, before)
    if "holds NUL" in text:
        return _nul_has_no_form(step, name)
    return _refused_by_row(error, step, name, before)


def _refused_by_row(error: cn.errors.UsageError, step: Step, name: str, before: Before) -> bool:
    """The error names the row of the table, and the value given for it is one that cannot be kept."""
    array, text = step.given[name], str(error)
    value = plain(pa.chunked_array([array]))[step.rows.index(cast("int", getattr(error, "row", None)))]
    if "missing value" in text:
        return value is None and has_pointers(array.type, 0)
    if "is the column's fill" in text:
        return value is not None and _is_fill(value, array.type, before.fills[name])
    if "ordered categories" in text:
        known = [repr(one) for one in before.categories.get(name, [])]  # 0.0 and -0.0 are two categories
        return bool(array.type.ordered) and value is not None and repr(value) not in known
    return False


def _is_fill(value: Any, kind: pa.DataType, fill: object) -> bool:
    """Whether a value is stored as the fill; text may be stored as bytes."""
    stored = _as_stored(value, kind)
    return (stored.encode() if isinstance(stored, str) and isinstance(fill, bytes) else stored) == fill


def _as_stored(value: Any, kind: pa.DataType) -> Any:
    """A value as `Column.fill` shows stored ones: decimals of few digits as integers, complex pairs as one number."""
    if pa.types.is_decimal(kind):
        return int(value.scaleb(kind.scale)) if kind.precision <= 18 else str(value)
    if pa.types.is_struct(kind):
        parts = {f.name: _as_stored(value[f.name], f.type) for f in kind}
        return complex(parts["r"], parts["i"]) if set(parts) == {"r", "i"} else parts
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return [_as_stored(item, kind.value_type) for item in value]
    return value


def _nul_has_no_form(step: Step, name: str) -> bool:
    asked = step.options.get(name, {}).get("strings", "auto")
    kind = step.given[name].type
    nested = not pa.types.is_string(kind) and not pa.types.is_dictionary(kind)
    return (nested or asked != "auto") and "\\x00" in repr(plain(pa.chunked_array([step.given[name]])))


def _no_enum(step: Step, name: str, before: Before) -> bool:
    """An HDF5 enum has members, with names that are not empty and hold no NUL."""
    if name not in before.enums and not step.options.get(name, {}).get("enum"):
        return False
    given = [value for value in plain(pa.chunked_array([step.given[name]])) if value is not None]
    return not given or any(value == "" or "\0" in value for value in given)
