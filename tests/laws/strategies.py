"""Hypothesis strategies: Arrow tables of every type that colonnade stores."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from colonnade.columns.arrow_types import COMPLEX64, COMPLEX128, ComplexType, complex_array

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
UNITS = ["s", "ms", "us", "ns"]
TEMPORAL = [
    pa.date32(),
    pa.date64(),
    pa.time32("s"),
    pa.time32("ms"),
    pa.time64("us"),
    pa.time64("ns"),
    *[pa.timestamp(unit) for unit in UNITS],
    *[pa.timestamp(unit, zone) for unit in UNITS for zone in ("UTC", "Europe/Berlin", "+05:30")],
    *[pa.duration(unit) for unit in UNITS],
]
DECIMALS = [
    pa.decimal128(5, 2),
    pa.decimal128(18, 0),
    pa.decimal128(38, 10),
    pa.decimal256(60, 3),
    pa.decimal128(12, -3),
]
DECIMALS += [pa.decimal32(7, 3), pa.decimal64(15, 6)]
BYTES = [pa.binary(), pa.binary(1), pa.binary(7), pa.string()]
LEAVES = [pa.bool_(), *INTEGERS, *FLOATS, *TEMPORAL, *DECIMALS, *BYTES]
_HALF = {"s": 86_399, "ms": 86_399_999, "us": 86_399_999_999, "ns": 86_399_999_999_999}


def _struct(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    names = st.lists(st.text("rixé _.", min_size=1, max_size=4), min_size=1, max_size=3, unique=True)
    return names.flatmap(
        lambda chosen: st.tuples(*[inner for _ in chosen]).map(
            lambda kinds: pa.struct([pa.field(n, k) for n, k in zip(chosen, kinds, strict=True)])
        )
    )


def nested_types() -> st.SearchStrategy[pa.DataType]:
    """Leaf types, and structs, lists and fixed-size lists of them."""
    leaves = st.sampled_from(LEAVES)
    return st.recursive(
        leaves,
        lambda inner: st.one_of(inner.map(pa.list_), st.builds(pa.list_, inner, st.integers(1, 3)), _struct(inner)),
        max_leaves=3,
    )


def types() -> st.SearchStrategy[pa.DataType]:
    """Every type a column may have."""
    values = st.sampled_from([pa.string(), pa.int16(), pa.float64(), pa.timestamp("us"), pa.binary()])
    dictionary = st.builds(lambda kind, ordered: pa.dictionary(pa.int32(), kind, ordered), values, st.booleans())
    return st.one_of(
        st.sampled_from(LEAVES), nested_types(), dictionary, st.sampled_from([COMPLEX64, COMPLEX128, pa.null()])
    )


def _integers(kind: pa.DataType) -> st.SearchStrategy[int]:
    bounds = np.iinfo(kind.to_pandas_dtype())
    low, high = int(bounds.min), int(bounds.max)
    edges = [low, low + 1, low + 2, -1, 0, 1, high - 1, high]
    return st.one_of(st.integers(low, high), st.sampled_from([v for v in edges if low <= v <= high]))


def _floats(kind: pa.DataType) -> st.SearchStrategy[float]:
    usual = st.floats(width=kind.bit_width)  # type: ignore[arg-type]
    special = [float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 5e-324 if kind.bit_width == 64 else 0.0]
    if kind.bit_width > 16:
        special.append(float(np.array(9.9692099683868690e36, f"f{kind.bit_width // 8}")))
    return st.one_of(usual, st.sampled_from(special))


def _decimals(kind: pa.DataType) -> st.SearchStrategy[decimal.Decimal]:
    top = 10**kind.precision - 1
    wide = decimal.Context(prec=100)
    return st.one_of(st.integers(-top, top), st.sampled_from([-top, 0, top])).map(
        lambda n: decimal.Decimal(n).scaleb(-kind.scale, wide)
    )


def values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """One value of a type, not missing: in a form that pa.array takes."""
    if isinstance(kind, ComplexType):
        return st.complex_numbers(width=kind.bits)  # type: ignore[arg-type]
    if pa.types.is_null(kind):
        return st.none()
    if pa.types.is_boolean(kind):
        return st.booleans()
    if pa.types.is_integer(kind):
        return _integers(kind)
    if pa.types.is_floating(kind):
        return _floats(kind)
    if pa.types.is_decimal(kind):
        return _decimals(kind)
    if pa.types.is_time(kind):
        return st.integers(0, _HALF[kind.unit])
    if pa.types.is_date32(kind):
        return st.integers(-(2**31), 2**31 - 1)
    if pa.types.is_date64(kind):
        return st.dates().map(lambda day: (day - datetime.date(1970, 1, 1)).days * 86_400_000)
    if pa.types.is_temporal(kind):
        return st.integers(-(2**63), 2**63 - 1)
    if pa.types.is_string(kind):
        return st.one_of(st.text(max_size=12), st.sampled_from(["", "NA", "\0", "a\0", "a\0b", "é" * 40, " pad "]))
    if pa.types.is_fixed_size_binary(kind):
        return st.binary(min_size=kind.byte_width, max_size=kind.byte_width)
    if pa.types.is_binary(kind):
        return st.binary(max_size=12)
    if pa.types.is_dictionary(kind):
        return values(kind.value_type)
    if pa.types.is_struct(kind):
        return st.fixed_dictionaries({f.name: values(f.type) for f in kind})
    if pa.types.is_fixed_size_list(kind):
        return st.lists(values(kind.value_type), min_size=kind.list_size, max_size=kind.list_size)
    return st.lists(values(kind.value_type), max_size=3)


def make_array(items: list[Any], kind: pa.DataType) -> pa.Array:
    """An Arrow array of these values; None is missing."""
    if isinstance(kind, ComplexType):
        missing = np.array([item is None for item in items], dtype=bool)
        filled = np.array([0 if item is None else item for item in items], dtype=f"c{kind.bits // 8}")
        return complex_array(filled, missing)
    if pa.types.is_dictionary(kind):
        plain = make_array(items, kind.value_type).dictionary_encode()
        return pa.DictionaryArray.from_arrays(plain.indices, plain.dictionary, ordered=kind.ordered)
    return _plain_array(items, kind)


def _plain_array(items: list[Any], kind: pa.DataType) -> pa.Array:
    """pa.array, but integers may stand for times of any size, also inside lists and structs."""
    if pa.types.is_struct(kind):
        mask = pa.array([item is None for item in items], pa.bool_())
        zeros = {f.name: _zero(f.type) for f in kind}
        rows = [zeros if item is None else item for item in items]
        parts = [_plain_array([row[f.name] for row in rows], f.type) for f in kind]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=mask)
    if pa.types.is_fixed_size_list(kind):
        empty = [_zero(kind.value_type)] * kind.list_size
        flat = [value for item in items for value in (empty if item is None else item)]
        mask = pa.array([item is None for item in items], pa.bool_())
        return pa.FixedSizeListArray.from_arrays(_plain_array(flat, kind.value_type), type=kind, mask=mask)
    if pa.types.is_list(kind):
        flat = [value for item in items if item is not None for value in item]
        offsets, at = [], 0
        for item in items:
            offsets.append(None if item is None else at)
            at += 0 if item is None else len(item)
        inner = _plain_array(flat, kind.value_type)
        return pa.ListArray.from_arrays(pa.array([*offsets, at], pa.int32()), inner)
    if pa.types.is_temporal(kind):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array(items, width).view(kind)
    return pa.array(items, kind)


def _zero(kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        return {f.name: _zero(f.type) for f in kind}
    if pa.types.is_fixed_size_list(kind):
        return [_zero(kind.value_type)] * kind.list_size
    if pa.types.is_list(kind):
        return []
    if pa.types.is_string(kind):
        return ""
    if pa.types.is_fixed_size_binary(kind) and not pa.types.is_decimal(kind):
        return bytes(kind.byte_width)
    if pa.types.is_binary(kind):
        return b""
    if pa.types.is_decimal(kind):
        return decimal.Decimal(0)
    return False if pa.types.is_boolean(kind) else 0
