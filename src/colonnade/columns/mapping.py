"""The mapping between HDF5 datatypes and Arrow types, in both directions.

The table for users is docs/types.md; a test compares it with this module. An Arrow type is first
made plain (`plain_type`): large, view and run-end forms become the ordinary type, because the file
stores values, not buffers. Where datatype and units alone would read back as another type, the
writer adds the attribute `arrow_type`; the reader trusts it only if it fits the datatype.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache

import pyarrow as pa

from colonnade.columns.arrow_types import (
    COMPLEX64,
    COMPLEX128,
    OBJECT_REFERENCE,
    REGION_REFERENCE,
    ComplexType,
    RawType,
    ReferenceType,
    TargetType,
    parse_arrow_type,
    write_arrow_type,
)
from colonnade.dataclass import replace
from colonnade.errors import UsageError
from colonnade.model import (
    MICROSECONDS,
    SECONDS,
    Codec,
    Coded,
    ColumnInfo,
    Encoding,
    Lists,
    Plain,
    Pointers,
    Slabs,
    StoredField,
    StoredType,
    TypeKind,
    shown_name,
)
from colonnade.stored_dtypes import ELEMENT_TAG, LARGEST_ELEMENT, is_complex_pair, memory_dtype

UNIT_WORDS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_EPOCH = (
    r"(?P<unit>days?|seconds?|s|milliseconds?|ms|microseconds?|us|nanoseconds?|ns) since 1970-0?1-0?1"
    r"(?:[ T]00:00(?::00(?:\.0*)?)?)?(?P<zone> ?(?:UTC|Z|\+00:?00))?"
)
LARGEST_INTEGER_DECIMAL = 18
_NUMBERS = frozenset(
    pa.from_numpy_dtype(code).id for code in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")
)
TEXT_BY_CATEGORIES = "string"
"""The `arrow_type` of codes that are read as the strings they stand for."""


def arrow_type(column: ColumnInfo) -> pa.DataType:
    """The Arrow type of the column's values."""
    match column.row_form:
        case Lists(items, as_text):
            return pa.string() if as_text else pa.list_(arrow_type(items))
        case Pointers():
            return pa.string()
        case Slabs():
            return value_type(column.type, column.units, column.arrow_type)
        case Coded(categories, codec):
            values = value_type(categories.type, categories.units, categories.arrow_type)
            if pa.types.is_string(values) and column.arrow_type == TEXT_BY_CATEGORIES and codec is None:
                return values
            index = pa.int64() if key_type(column).size > 4 else pa.int32()
            return pa.dictionary(index, values, ordered=categories.ordered)
        case Plain("date-time"):
            return _stamp_type(column.arrow_type)
        case Plain(codec):
            return _ENCODED_TYPES.get(codec) or value_type(column.type, column.units, column.arrow_type)


def key_type(column: ColumnInfo) -> StoredType:
    """The datatype of a column's keys: the column's own datatype, unless its rows stand for other values."""
    rows = column.row_form
    if isinstance(rows, Lists):
        return StoredType("sequence", 16, base=rows.items.type)  # which cannot be compared
    return column.type if column.encoding is None else _ENCODED_KEYS.get(column.encoding, column.type)


def _stamp_type(named: str | None) -> pa.DataType:
    """The Arrow type of times stored as strings: the named type, if it is a timestamp type, else the default."""
    kind = None if named is None else parse_arrow_type(named)
    return kind if kind is not None and pa.types.is_timestamp(kind) else pa.timestamp("us", "UTC")


def as_dictionary(column: ColumnInfo) -> ColumnInfo:
    """The column, changed so that strings stored by categories are read as a dictionary."""
    return replace(column, arrow_type=None) if column.categories is not None else column


def value_type(stored: StoredType, units: str | None, named: str | None) -> pa.DataType:
    """The Arrow type for a datatype, its units, and the type named by the attribute `arrow_type`."""
    if named is not None:
        kind = parse_arrow_type(named)
        if kind is not None and fits(stored, kind):
            return kind
    return default_type(stored, units)


def default_type(stored: StoredType, units: str | None = None) -> pa.DataType:
    """The Arrow type for a datatype and its units alone."""
    if stored.kind == "integer" and units is not None:
        temporal = _temporal_type(stored, units)
        if temporal is not None:
            return temporal
    return _plain_default(stored)


def _temporal_type(stored: StoredType, units: str) -> pa.DataType | None:
    """A timestamp or date type, if the units count from 1970 and the integer has the usual width."""
    match = re.fullmatch(_EPOCH, units.strip(), re.IGNORECASE)
    if match is None or not stored.signed:
        return None
    word = match["unit"].lower()
    if word.startswith("day"):
        return pa.date32() if stored.size == 4 and match["zone"] is None else None
    unit = next(short for short, long in UNIT_WORDS.items() if word in (short, long, long[:-1]))
    return pa.timestamp(unit, "UTC" if match["zone"] else None) if stored.size == 8 else None


@lru_cache(maxsize=4096)
def _plain_default(stored: StoredType) -> pa.DataType:
    kind = stored.kind
    if kind in ("string", "text"):
        return pa.string()
    if stored in (SECONDS, MICROSECONDS):
        return pa.timestamp("s" if stored == SECONDS else "us")
    if kind == "boolean":
        return pa.bool_()
    if kind == "enum":
        return pa.dictionary(pa.int32(), pa.string())
    if kind == "binary":
        return pa.binary()
    if kind == "opaque":
        return pa.binary(stored.size)
    if kind == "complex":
        return COMPLEX64 if stored.item.size == 4 else COMPLEX128
    if kind == "object_reference":
        return OBJECT_REFERENCE
    if kind == "region_reference":
        return REGION_REFERENCE
    if kind == "sequence":
        return pa.list_(_plain_default(stored.item))
    if kind == "array":
        inner = _plain_default(stored.item)
        for length in reversed(stored.dims):
            inner = pa.list_(inner, length)
        return inner
    if kind == "compound":
        return pa.struct([pa.field(shown_name(member.name), _plain_default(member.type)) for member in stored.fields])
    dtype = memory_dtype(stored)
    if dtype.kind == "V":
        return RawType(min(stored.size, LARGEST_ELEMENT), shown_name(str(stored)))
    return pa.from_numpy_dtype(dtype)


def fits(stored: StoredType, kind: pa.DataType) -> bool:
    """Whether values of this datatype can be read as this Arrow type."""
    if pa.types.is_null(kind):
        return stored.kind == "integer" and stored.size == 1
    if kind == _plain_default(stored):
        return True
    if stored.kind == "integer":
        return memory_dtype(stored).kind == "i" and _integer_size(kind) == memory_dtype(stored).itemsize
    if stored.kind == "string":
        return bool(pa.types.is_decimal(kind))
    if stored.kind == "binary":
        return bool(pa.types.is_string(kind))
    if stored.kind == "sequence":
        return pa.types.is_list(kind) and fits(stored.item, kind.value_type)
    if stored.kind == "array":
        return _array_fits(stored, kind)
    if stored.kind in ("compound", "complex") and stored.fields and pa.types.is_struct(kind):
        names = [shown_name(member.name) for member in stored.fields]
        same = names == [kind.field(i).name for i in range(kind.num_fields)]
        return same and all(fits(m.type, kind.field(i).type) for i, m in enumerate(stored.fields))
    return False


def _array_fits(stored: StoredType, kind: pa.DataType) -> bool:
    for length in stored.dims:
        if not pa.types.is_fixed_size_list(kind) or kind.list_size != length:
            return False
        kind = kind.value_type
    return fits(stored.item, kind)


def _integer_size(kind: pa.DataType) -> int:
    """The width of the integer in which this Arrow type is stored; 0 if it is not stored as an integer."""
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return 4
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return 8
    if pa.types.is_decimal(kind) and kind.precision <= LARGEST_INTEGER_DECIMAL:
        return 4 if kind.precision <= 9 else 8
    return 0


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The ordinary Arrow type for the values of `kind`, as it is read back from a file."""
    if kind.id in _NUMBERS:
        return kind
    if isinstance(kind, (ComplexType, ReferenceType, RawType)):
        return kind
    if isinstance(kind, TargetType):
        return kind.stored
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_dictionary(kind):
        return pa.dictionary(pa.int32(), plain_type(kind.value_type), ordered=kind.ordered)
    if pa.types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_without_dictionary(kind.value_type), kind.list_size)
    if _is_any_list(kind):
        return pa.list_(_without_dictionary(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _without_dictionary(f.type)) for f in kind])
    return kind


def _without_dictionary(kind: pa.DataType) -> pa.DataType:
    plain = plain_type(kind)
    return plain.value_type if pa.types.is_dictionary(plain) else plain


def _is_any_list(kind: pa.DataType) -> bool:
    checks = (pa.types.is_list, pa.types.is_large_list, pa.types.is_list_view, pa.types.is_large_list_view)
    return any(check(kind) for check in checks)


def _integer(size: int, signed: bool = True) -> StoredType:
    return StoredType("integer", size, signed=signed, precision=size * 8)


BOOLEAN = StoredType("boolean", 1, base=_integer(1), members=(("FALSE", 0), ("TRUE", 1)))
BOOLEAN_WITH_MISSING = StoredType("boolean", 1, base=_integer(1), members=(("FALSE", 0), ("TRUE", 1), ("MISSING", -1)))
TEXT = StoredType("text", 8, padding="terminated")
BINARY = StoredType("binary", 16, "none", base=StoredType("opaque", 1, "none"))
_FLOATS = {
    2: StoredType("float", 2, signed=True, precision=16, mantissa=10, exponent=5),
    4: StoredType("float", 4, signed=True, precision=32, mantissa=23, exponent=8),
    8: StoredType("float", 8, signed=True, precision=64, mantissa=52, exponent=11),
}

_ENCODED_TYPES: dict[Codec | None, pa.DataType] = {"truth": pa.bool_(), "double": pa.float64(), "date": pa.date32()}
_ENCODED_KEYS: dict[Encoding, StoredType] = {
    "truth": _integer(1),
    "double": _FLOATS[8],
    "date": _integer(4),
    "date-time": _integer(8),
    "pointers": BINARY,  # not text, which ends at NUL
    "levels": _integer(4),
}


def stored_string(width: int) -> StoredType:
    """A fixed-length UTF-8 string datatype of `width` bytes."""
    return StoredType("string", max(width, 1), "little", charset="utf-8", padding="null")


def stored_codes(n_categories: int) -> StoredType:
    """The narrowest signed integer datatype that holds the codes of `n_categories` categories."""
    return _integer(next(size for size in (1, 2, 4, 8) if n_categories <= 1 << (size * 8 - 1)))


def stored_enum(names: list[str]) -> StoredType:
    """An HDF5 enum with one member per name, numbered from 0, and room for a MISSING member."""
    base = stored_codes(len(names) + 1)
    return StoredType("enum", base.size, base=base, members=tuple((name, i) for i, name in enumerate(names)))


def stored_type(kind: pa.DataType, where: str) -> StoredType:
    """The HDF5 datatype for a plain Arrow type; strings map to variable length.

    A type that cannot be stored raises a UsageError that states the column, the type and what to do.
    """
    if pa.types.is_integer(kind):
        return _integer(kind.bit_width // 8, pa.types.is_signed_integer(kind))
    if pa.types.is_floating(kind):
        return _FLOATS[kind.bit_width // 8]
    if pa.types.is_boolean(kind):
        return BOOLEAN
    if pa.types.is_null(kind):
        return _integer(1)
    if pa.types.is_string(kind):
        return TEXT
    if pa.types.is_binary(kind):
        return BINARY
    if pa.types.is_fixed_size_binary(kind) and not pa.types.is_decimal(kind) and kind.byte_width:
        return StoredType("opaque", kind.byte_width, "none")
    if size := _integer_size(kind):
        return _integer(size)
    if pa.types.is_decimal(kind):
        return stored_string(_decimal_width(kind))
    return _stored_nested(kind, where)


def _stored_nested(kind: pa.DataType, where: str) -> StoredType:
    if isinstance(kind, ComplexType):
        part = _FLOATS[kind.bits // 16]
        fields = (StoredField("r", 0, part), StoredField("i", part.size, part))
        return StoredType("complex", part.size * 2, base=part, fields=fields)
    if isinstance(kind, ReferenceType):
        stored_kind: TypeKind = "object_reference" if kind.kind == "object_reference" else "region_reference"
        return StoredType(stored_kind, kind.storage_type.byte_width, "none")
    if pa.types.is_fixed_size_list(kind) and kind.list_size:
        return _stored_array(kind, where)
    if pa.types.is_list(kind):
        base = _stored_inside(kind.value_type, where)
        if base.kind == "opaque" and base.size == 1:
            base = replace(base, tag=ELEMENT_TAG)
        return StoredType("sequence", 16, "none", base=base)
    if pa.types.is_struct(kind) and kind.num_fields:
        return _stored_struct(kind, where)
    raise UsageError(f"{where} has the Arrow type {kind}, which HDF5 cannot hold: {_way_out(kind)}", type=str(kind))


def _stored_inside(kind: pa.DataType, where: str) -> StoredType:
    if pa.types.is_null(kind):
        raise UsageError(f"{where} has a nested type of no kind (null): give it a type, or drop it", type=str(kind))
    return stored_type(kind, where)


def _stored_array(kind: pa.DataType, where: str) -> StoredType:
    dims = []
    while pa.types.is_fixed_size_list(kind) and kind.list_size:
        dims.append(kind.list_size)
        kind = kind.value_type
    base = _stored_inside(kind, where)
    return StoredType("array", base.size * math.prod(dims), "none", base=base, dims=tuple(dims))


def _stored_struct(kind: pa.DataType, where: str) -> StoredType:
    fields: list[StoredField] = []
    offset = 0
    for position in range(kind.num_fields):
        member = kind.field(position)
        inner = _stored_inside(member.type, f"{where}, field {member.name!r}")
        if not member.name or "\0" in member.name or any(f.name == member.name for f in fields):
            raise UsageError(f"{where}: field name {member.name!r} is empty, duplicated, or holds NUL")
        fields.append(StoredField(member.name, offset, inner))
        offset += inner.size
    if is_complex_pair(tuple(fields)):  # read as a complex number, unless `arrow_type` is a struct
        return StoredType("complex", offset, base=fields[0].type, fields=tuple(fields))
    return StoredType("compound", offset, "none", fields=tuple(fields))


def _decimal_width(kind: pa.DataType) -> int:
    """The maximum length of a decimal as a string: digits, sign, point, a leading zero, perhaps an exponent."""
    exponent = 6 if kind.scale < 0 else 0
    return int(max(kind.precision, kind.scale)) + 3 + exponent


def _way_out(kind: pa.DataType) -> str:
    if isinstance(kind, RawType):
        return "it came from a datatype that has no Arrow type; copy the dataset itself with h5py"
    if pa.types.is_map(kind):
        return "cast it to list<struct<key, value>>"
    if pa.types.is_union(kind):
        return "split it into one column per type"
    if pa.types.is_interval(kind):
        return "cast it to a duration, or to a struct of its parts"
    return "cast it to a type listed in docs/types.md, or drop the column"


def implied_units(kind: pa.DataType) -> str | None:
    """The units that a temporal type is stored with, in UDUNITS words."""
    if pa.types.is_date32(kind):
        return "days since 1970-01-01"
    if pa.types.is_date64(kind):
        return "milliseconds since 1970-01-01"
    if pa.types.is_timestamp(kind):
        return f"{UNIT_WORDS[kind.unit]} since 1970-01-01" + (" 00:00:00 UTC" if kind.tz is not None else "")
    if pa.types.is_time(kind) or pa.types.is_duration(kind):
        return UNIT_WORDS[kind.unit]
    return None


def named_type(stored: StoredType, units: str | None, kind: pa.DataType) -> str | None:
    """The value that the attribute `arrow_type` must have, or None if the column reads correctly without it."""
    if pa.types.is_dictionary(kind):
        return None
    return None if default_type(stored, units) == kind else write_arrow_type(kind)
