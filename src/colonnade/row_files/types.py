"""Arrow types by name, as in `--types "ts=timestamp[us],id=uint64"`, and the names by which types are recorded."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from colonnade.errors import UsageError

Types = dict[str, pa.DataType]
"""The types of columns, for formats that do not record them."""

_ALIASES = {"halffloat": "float16", "float": "float32", "double": "float64"}
_UNIT = re.compile(r"(timestamp|duration|time32|time64)\[(s|ms|us|ns)(?:, *(?:tz=)?([^\]]+))?\]")
_DECIMAL = re.compile(r"decimal(32|64|128|256)?\( *(\d+) *(?:, *(-?\d+) *)?\)")
_BYTES = re.compile(r"(?:fixed_size_binary|binary)[\[(](\d+)[\])]")
_ITEM = re.compile(r"([^=]+)=((?:\[[^\]]*\]|\([^)]*\)|[^,\[(])+)(?:,|$)")
_UNITS: dict[str, Callable[[str], pa.DataType]] = {
    "duration": pa.duration, "time32": pa.time32, "time64": pa.time64,
}  # fmt: skip
_DECIMALS: dict[str, Callable[[int, int], pa.DataType]] = {
    "32": pa.decimal32, "64": pa.decimal64, "128": pa.decimal128, "256": pa.decimal256,
}  # fmt: skip


def named_type(name: str) -> pa.DataType:
    """The Arrow type of a name, as Arrow prints types: "int64", "timestamp[us]", "decimal128(9, 2)"."""
    plain = name.strip()
    try:
        if (match := _UNIT.fullmatch(plain)) is not None:
            kind, unit, zone = match.groups()
            return pa.timestamp(unit, zone) if kind == "timestamp" else _UNITS[kind](unit)
        if (match := _DECIMAL.fullmatch(plain)) is not None:
            bits, precision, scale = match.groups()
            return _DECIMALS[bits or "128"](int(precision), int(scale or 0))
        if (match := _BYTES.fullmatch(plain)) is not None:
            return pa.binary(int(match[1]))
        return pa.type_for_alias(_ALIASES.get(plain, plain))
    except (ValueError, TypeError, pa.ArrowException) as error:
        raise UsageError(
            f"{name!r} is not the name of a type: use an Arrow type such as int64, float64, string, bool, date32, "
            "timestamp[us] or decimal128(9, 2)"
        ) from error


def named_types(types: Mapping[str, pa.DataType | str] | None) -> Types:
    """Types by column; strings are names of types."""
    return {column: named_type(kind) if isinstance(kind, str) else kind for column, kind in (types or {}).items()}


def parse_types(strings: Sequence[str]) -> Types:
    """Types by column from strings such as "id=uint64,price=decimal128(9, 2)"."""
    types: Types = {}
    for text in strings:
        at = 0
        while at < len(text):
            match = _ITEM.match(text, at)
            if match is None:
                raise UsageError(f"{text!r} gives no types: write column=type, as in id=uint64,zip=string")
            types[match[1].strip()] = named_type(match[2])
            at = match.end()
    return types
