"""Write an Arrow type as a string and parse it back: the value of a column's `arrow_type` attribute.

The attribute is written only where the HDF5 datatype and units alone would read back as another type. Grammar:

    type   = word | word "[" unit "]" | "timestamp[" unit ", tz=" zone "]"
           | ("decimal32" | "decimal64" | "decimal128" | "decimal256") "(" digits ", " digits ")"
           | "fixed_size_binary[" digits "]" | "complex64" | "complex128"
           | "object_reference" | "region_reference"
           | "list<" type ">" | "fixed_size_list<" type ", " digits ">"
           | "struct<" string ": " type {", " string ": " type} ">"        string as in JSON

A string from a file is never trusted: if it does not parse, the result is None.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pyarrow as pa

from colonnade.columns.extension import (
    COMPLEX64,
    COMPLEX128,
    OBJECT_REFERENCE,
    REGION_REFERENCE,
    ComplexType,
    ReferenceType,
)

_WORDS: dict[str, pa.DataType] = {
    "null": pa.null(), "bool": pa.bool_(), "string": pa.string(), "binary": pa.binary(),
    "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(),
    "uint8": pa.uint8(), "uint16": pa.uint16(), "uint32": pa.uint32(), "uint64": pa.uint64(),
    "float16": pa.float16(), "float32": pa.float32(), "float64": pa.float64(),
    "date32": pa.date32(), "date64": pa.date64(),
    "time32[s]": pa.time32("s"), "time32[ms]": pa.time32("ms"),
    "time64[us]": pa.time64("us"), "time64[ns]": pa.time64("ns"),
    "complex64": COMPLEX64, "complex128": COMPLEX128,
    "object_reference": OBJECT_REFERENCE, "region_reference": REGION_REFERENCE,
    **{f"duration[{unit}]": pa.duration(unit) for unit in ("s", "ms", "us", "ns")},
    **{f"timestamp[{unit}]": pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")},
}  # fmt: skip
_NAMES = {str(kind): word for word, kind in _WORDS.items() if not isinstance(kind, pa.ExtensionType)}
_DECIMALS: dict[str, Callable[[int, int], pa.DataType]] = {
    "decimal32": pa.decimal32,
    "decimal64": pa.decimal64,
    "decimal128": pa.decimal128,
    "decimal256": pa.decimal256,
}
_LEAF = re.compile(r"[a-z0-9_]+(\[[^\]]*\])?(\(\d+, -?\d+\))?")
_ZONED = re.compile(r"timestamp\[(s|ms|us|ns), tz=([^\]]+)\]")
_DECIMAL = re.compile(r"(decimal\d+)\((\d+), (-?\d+)\)")
_BYTES = re.compile(r"fixed_size_binary\[(\d{1,9})\]")
_SIZE = re.compile(r", (\d{1,9})>")
_MAX_DEPTH = 32


def write_arrow_type(kind: pa.DataType) -> str:
    """The string that names an Arrow type."""
    if isinstance(kind, ComplexType):
        return f"complex{kind.bits}"
    if isinstance(kind, ReferenceType):
        return kind.kind
    if pa.types.is_struct(kind):
        return "struct<" + ", ".join(f"{json.dumps(f.name)}: {write_arrow_type(f.type)}" for f in kind) + ">"
    if pa.types.is_fixed_size_list(kind):
        return f"fixed_size_list<{write_arrow_type(kind.value_type)}, {kind.list_size}>"
    if pa.types.is_list(kind):
        return f"list<{write_arrow_type(kind.value_type)}>"
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return f"timestamp[{kind.unit}, tz={kind.tz}]"
    text = str(kind)
    return _NAMES.get(text, text)


def parse_arrow_type(text: str) -> pa.DataType | None:
    """The Arrow type that a string names, or None if it does not name one."""
    try:
        kind, end = _parse(text, 0, 0)
    except (ValueError, IndexError, pa.ArrowException):
        return None
    return kind if end == len(text) else None


def _parse(text: str, at: int, depth: int) -> tuple[pa.DataType, int]:
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deeply")
    if text.startswith("list<", at):
        item, at = _parse(text, at + 5, depth + 1)
        return pa.list_(item), _expect(text, at, ">")
    if text.startswith("fixed_size_list<", at):
        item, at = _parse(text, at + 16, depth + 1)
        size = _SIZE.match(text, at)
        if size is None:
            raise ValueError("size expected")
        return pa.list_(item, int(size[1])), size.end()
    if text.startswith("struct<", at):
        return _parse_struct(text, at + 7, depth)
    leaf = _LEAF.match(text, at)
    if leaf is None:
        raise ValueError("type expected")
    return _parse_leaf(leaf[0]), leaf.end()


def _parse_struct(text: str, at: int, depth: int) -> tuple[pa.DataType, int]:
    fields = []
    while True:
        name, at = json.JSONDecoder().raw_decode(text, at)
        kind, at = _parse(text, _expect(text, at, ": "), depth + 1)
        fields.append(pa.field(str(name), kind))
        if text.startswith(">", at):
            return pa.struct(fields), at + 1
        at = _expect(text, at, ", ")


def _expect(text: str, at: int, token: str) -> int:
    if not text.startswith(token, at):
        raise ValueError(f"{token!r} expected")
    return at + len(token)


def _parse_leaf(text: str) -> pa.DataType:
    if text in _WORDS:
        return _WORDS[text]
    if zoned := _ZONED.fullmatch(text):
        return pa.timestamp(zoned[1], zoned[2])
    if (decimal := _DECIMAL.fullmatch(text)) and decimal[1] in _DECIMALS:
        return _DECIMALS[decimal[1]](int(decimal[2]), int(decimal[3]))
    if size := _BYTES.fullmatch(text):
        return pa.binary(int(size[1]))
    raise ValueError(f"unknown type {text!r}")
