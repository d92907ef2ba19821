"""Datatype messages: the type of an element (format specification IV.A.2.d).

Every datatype: version << 4 | class (1), bits (3), size (4), then by class:

| class | bits | properties |
| --- | --- | --- |
| 0 integer, 4 bitfield | 0 big-endian, 3 signed | bit offset 2, precision 2 |
| 1 float | 0 and 6 byte order, 8-15 sign bit | offset 2, precision 2, exponent 1 + 1, mantissa 1 + 1, bias 4 |
| 2 time | 0 big-endian | precision 2 |
| 3 string | 0-3 padding, 4-7 character set | |
| 5 opaque | 0-7 length of the tag | tag, padded to 8 |
| 6 compound | 0-15 members | each: name, offset, type (below) |
| 7 reference | 0-3 kind | |
| 8 enum | 0-15 members | base type, names, values |
| 9 variable length | 0-3 1 for strings, 8-11 character set | base type |
| 10 array | | rank 1 (version 2: and 3 zero bytes), dimensions 4 each (version 2: and permutation 4 each), base type |
| 11 complex | | base type |

Names end with NUL; below version 3 they are padded to a multiple of 8. The offset of a member has 4 bytes below
version 3, then as few as the size of the compound needs. In version 1 it is followed by rank 1, 3 zero bytes,
permutation 4, 4 zero bytes, 4 dimensions of 4.

`StoredType.bits` of numbers that do not use all bits of their bytes, or floats that are not of IEEE's form: the first
bit; of floats also the sign, the first bit and the number of bits of exponent and mantissa, the bias, and how the
mantissa is normalized (0 not, 1 its highest bit is always set, 2 and not stored).

Sizes and offsets are those in the file, where elements of variable length are references to the global heap.
`in_memory` gives those in memory, which libhdf5 reports.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from math import prod

from colonnade.dataclass import replace
from colonnade.errors import UnsupportedError
from colonnade.format.source import Fields
from colonnade.model import Charset, Order, Padding, StoredField, StoredType
from colonnade.stored_dtypes import (
    ELEMENT_TAG,
    LARGEST_ELEMENT,
    MAX_DEPTH,
    NEW_REFERENCE,
    TOO_MANY_BITS,
    float_bytes,
    is_complex_pair,
)

COMPOUND = 6  # the number of the class
_MOST_ARRAY_DIMENSIONS = 32
_PADDINGS: dict[int, Padding] = {0: "terminated", 1: "null", 2: "space"}
_PLAIN_FLOATS = {  # by size: positions of the sign, exponent and mantissa of IEEE numbers
    2: (15, 0, 16, 10, 5, 0, 10, 15),
    4: (31, 0, 32, 23, 8, 0, 23, 127),
    8: (63, 0, 64, 52, 11, 0, 52, 1023),
}
_IMPLIED = 2  # normalization of IEEE numbers
_IN_MEMORY = {"text": 8, "binary": 16, "sequence": 16, "object_reference": 8, "region_reference": 12}  # bytes there
# Bytes of an element in a file, without those of the address in it.
_BEFORE_ADDRESSES = {"text": 8, "binary": 8, "sequence": 8, "object_reference": 0, "region_reference": 4}


def decode_datatype(fields: Fields, depth: int = 0) -> StoredType:
    """Decode a datatype. A type without a kind of its own is `unknown`, and its values are read as raw bytes."""
    head, bits, size = fields.number(1), fields.number(3), fields.number(4)
    version, kind = head >> 4, head & 15
    if not 1 <= version <= 5 or kind not in _DECODE:
        raise fields.unknown(f"datatype class {kind} in version {version}")
    if not size or depth > 2 * MAX_DEPTH:
        raise fields.wrong(f"has elements of {size} bytes, {depth} levels deep")
    stored = _DECODE[kind](fields, version, bits, size, depth)
    if depth > MAX_DEPTH:
        return StoredType("unknown", size, tag="datatype nested too deeply")
    if size > LARGEST_ELEMENT:
        return StoredType("unknown", size, tag="datatype of huge elements")
    parts = [*([stored.base] if stored.base is not None else []), *(field.type for field in stored.fields)]
    if any(part.kind == "unknown" and part.tag.endswith(NEW_REFERENCE) for part in parts):
        return StoredType("unknown", size, tag=f"{stored.kind} with {NEW_REFERENCE}")
    return stored


def in_memory(stored: StoredType) -> StoredType:
    """A datatype as libhdf5 reports it, where elements of variable length are pointers.

    If the size of a member changes, members are sorted by their offsets and moved.
    """
    if stored.kind in _IN_MEMORY:
        base = None if stored.base is None else in_memory(stored.base)
        return replace(stored, size=_IN_MEMORY[stored.kind], base=base)
    if stored.kind == "array":
        item = in_memory(stored.item)
        return stored if item is stored.item else replace(stored, size=item.size * prod(stored.dims), base=item)
    if stored.kind != "compound":
        return stored
    moved, change = [], 0
    for field in sorted(stored.fields, key=lambda field: field.offset):
        kind = in_memory(field.type)
        moved.append(StoredField(field.name, field.offset + change, kind))
        change += kind.size - field.type.size
    if all(new.type is old.type for new, old in zip(moved, sorted(stored.fields, key=lambda f: f.offset), strict=True)):
        return stored
    return replace(stored, size=stored.size + change, fields=tuple(moved))


def in_file(stored: StoredType, offset_size: int) -> StoredType:
    """A datatype as libhdf5 reports it, as it is stored in a file whose addresses have `offset_size` bytes."""
    if stored.kind in _BEFORE_ADDRESSES:
        base = None if stored.base is None else in_file(stored.base, offset_size)
        return replace(stored, size=_BEFORE_ADDRESSES[stored.kind] + offset_size, base=base)
    if stored.kind == "array":
        item = in_file(stored.item, offset_size)
        return replace(stored, size=item.size * prod(stored.dims), base=item)
    if stored.kind != "compound":
        return stored
    moved, change = [], 0
    for field in sorted(stored.fields, key=lambda field: field.offset):
        kind = in_file(field.type, offset_size)
        moved.append(StoredField(field.name, field.offset + change, kind))
        change += kind.size - field.type.size
    return replace(stored, size=stored.size + change, fields=tuple(moved))


def _order(bits: int) -> Order:
    return "big" if bits & 1 else "little"


def _decode_integer(fields: Fields, version: int, bits: int, size: int, depth: int) -> StoredType:
    offset, precision = fields.number(2), fields.number(2)
    if not precision or offset + precision > 8 * size:
        return StoredType("unknown", size, tag=TOO_MANY_BITS)
    unusual = () if precision == 8 * size else (offset,)
    return StoredType("integer", size, _order(bits), signed=bool(bits & 8), precision=precision, bits=unusual)


def _decode_bitfield(fields: Fields, version: int, bits: int, size: int, depth: int) -> StoredType:
    """libhdf5 copies bitfields as they are, whichever bits they use."""
    offset, precision = fields.number(2), fields.number(2)
    unusual = () if precision == 8 * size else (offset, precision)
    return StoredType("bitfield", size, _order(bits), precision=8 * size, bits=unusual)


def _decode_float(fields: Fields, version: int, bits: int, size: int, depth: int) -> StoredType:
    offset, precision = fields.number(2), fields.number(2)
    exponent_at, exponent, mantissa_at, mantissa = fields.numbers(4, 1)
    sign, bias, normalized = bits >> 8 & 255, fields.number(4), bits >> 4 & 3
    if bits & 64:
        return StoredType("unknown", size, tag="float of VAX or mixed byte order")
    if offset + precision > 8 * size:
        return StoredType("unknown", size, tag=TOO_MANY_BITS)
    form = (sign, offset, precision, exponent_at, exponent, mantissa_at, mantissa, bias)
    is_usual = normalized == _IMPLIED and _PLAIN_FLOATS.get(size) == form
    unusual = (offset, sign, exponent_at, exponent, mantissa_at, mantissa, bias, normalized)
    return StoredType(
        "float", size, _order(bits), signed=True, precision=precision, mantissa=mantissa, exponent=exponent,
        bits=() if is_usual else unusual,
    )  # fmt: skip


def _decode_time(fields: Fields, version: int, bits: int, size: int, depth: int) -> StoredType:
    fields.take(2)
    return StoredType("unknown", size, _order(bits), tag="time")


def _decode_string(fields: Fields, version: int, bits: int, size: int, depth: int) -> StoredType:
    return StoredType("string", size, charset=_charset(bits >> 4 & 15), padding=_PADDINGS.get(bits & 15, "null"))


def _charset(number: int) -> Charset:
    return "utf-8" if number == 1 else "ascii"


def _decode_opaque(fields: Fields, version: int, bits: int, size: int, depth: int) -> StoredType:
    tag = fields.take(-(-(bits & 255) // 8) * 8)
    return StoredType("opaque", size, "none", tag=tag.split(b"\0")[0].decode("utf-8", "replace"))


def _decode_compound(fields: Fields, version: int, bits: int, size: int, depth: int) -> StoredType:
    members = tuple(_decode_member(fields, version, size, depth) for _ in range(bits & 0xFFFF))
    if not members:
        raise fields.wrong("is a compound without members")
    end = 0
    for member in sorted(members, key=lambda one: one.offset):
        if member.offset < end or member.offset + member.type.size > size:
            raise fields.wrong(f"has a member {member.name!r} that does not fit into it")
        end = member.offset + member.type.size
    names = [member.name for member in members]
    if len(set(names)) != len(names) or not all(names):
        return StoredType("unknown", size, tag="compound")
    if is_complex_pair(members):
        return StoredType("complex", size, members[0].type.order, base=members[0].type, fields=members)
    return StoredType("compound", size, "none", fields=members)


def _decode_member(fields: Fields, version: int, size: int, depth: int) -> StoredField:
    name = _decode_name(fields, version)
    offset = fields.number(4 if version < 3 else (size.bit_length() - 1) // 8 + 1)
    dims: tuple[int, ...] = ()
    if version == 1:
        rank = fields.number(1)
        fields.take(11)
        dims = fields.numbers(4, 4)[: min(rank, 4)]
    kind = decode_datatype(fields, depth + 1)
    return StoredField(name, offset, _array_of(fields, kind, dims) if dims else kind)


def _decode_name(fields: Fields, version: int) -> str:
    name = fields.take_text()
    if version < 3:
        fields.take(-(len(name) + 1) % 8)
    return name.decode("utf-8", "surrogateescape")


def _decode_reference(fields: Fields, version: int, bits: int, size: int, depth: int) -> StoredType:
    if bits & 15 == 0 and size == fields.offset_size:
        return StoredType("object_reference", size, "none")
    if bits & 15 == 1 and size == fields.offset_size + 4:
        return StoredType("region_reference", size, "none")
    return StoredType("unknown", size, tag=NEW_REFERENCE)


def _decode_enum(fields: Fields, version: int, bits: int, size: int, depth: int) -> StoredType:
    base = decode_datatype(fields, depth + 1)
    names = [_decode_name(fields, version) for _ in range(bits & 0xFFFF)]
    values = [fields.take(base.size) for _ in names]
    if base.kind != "integer" or base.size != size or size > 8:
        return StoredType("unknown", size, tag=f"enum of {base}")
    members = tuple((name, _number(value, base)) for name, value in zip(names, values, strict=True))
    by_name = dict(members)
    boolean = by_name.get("FALSE") == 0 and by_name.get("TRUE") == 1 and len(members) <= 3
    boolean = boolean and (len(members) == 2 or "MISSING" in by_name)
    return StoredType("boolean" if boolean else "enum", size, base.order, base=base, members=members)


def _number(value: bytes, base: StoredType) -> int:
    """The value of a member of an enum."""
    number = int.from_bytes(value, "big" if base.order == "big" else "little")
    number = number >> (base.bits[0] if base.bits else 0) & ((1 << base.precision) - 1)
    return number - (1 << base.precision) if base.signed and number >> (base.precision - 1) else number


def _decode_variable(fields: Fields, version: int, bits: int, size: int, depth: int) -> StoredType:
    base = decode_datatype(fields, depth + 1)
    if size != 8 + fields.offset_size:
        raise fields.wrong(f"has references of {size} bytes to the global heap")
    if bits & 15 == 1:
        return StoredType("text", size, charset=_charset(bits >> 8 & 15), padding="terminated")
    if base.kind == "opaque" and base.size == 1 and base.tag != ELEMENT_TAG:
        return StoredType("binary", size, "none", base=base)
    return StoredType("sequence", size, "none", base=base)


def _decode_array(fields: Fields, version: int, bits: int, size: int, depth: int) -> StoredType:
    rank = fields.number(1)
    if rank > _MOST_ARRAY_DIMENSIONS:
        raise fields.wrong(f"has {rank} dimensions")
    fields.take(3 if version < 3 else 0)
    dims = fields.numbers(rank, 4)
    fields.take(4 * rank if version < 3 else 0)
    made = _array_of(fields, decode_datatype(fields, depth + 1), dims)
    if made.size != size:
        raise fields.wrong(f"has {size} bytes and parts of {made.size}")
    return made


def _array_of(fields: Fields, base: StoredType, dims: tuple[int, ...]) -> StoredType:
    size = base.size * prod(dims)
    if not 1 <= size < 1 << 32:
        raise fields.wrong(f"has elements of {size} bytes")
    return StoredType("array", size, "none", base=base, dims=dims)


def _decode_complex(fields: Fields, version: int, bits: int, size: int, depth: int) -> StoredType:
    base = decode_datatype(fields, depth + 1)
    if base.kind != "float" or size != 2 * base.size or size not in (8, 16) or float_bytes(base) != base.size:
        return StoredType("unknown", size, tag=f"complex of {base}")
    return StoredType("complex", size, base.order, base=base)


_DECODE: dict[int, Callable[[Fields, int, int, int, int], StoredType]] = {
    0: _decode_integer,
    1: _decode_float,
    2: _decode_time,
    3: _decode_string,
    4: _decode_bitfield,
    5: _decode_opaque,
    6: _decode_compound,
    7: _decode_reference,
    8: _decode_enum,
    9: _decode_variable,
    10: _decode_array,
    11: _decode_complex,
}


def encode_datatype(stored: StoredType) -> bytes:
    """A datatype message: version 3 for compounds, enums and arrays, else 1."""
    if stored.kind not in _ENCODE:
        raise UnsupportedError(f"colonnade does not write {stored} into sectioned chunks", feature=str(stored))
    return _ENCODE[stored.kind](stored)


def _head(version: int, kind: int, bits: int, size: int) -> bytes:
    return bytes((version << 4 | kind,)) + bits.to_bytes(3, "little") + struct.pack("<I", size)


def _big(stored: StoredType) -> int:
    return int(stored.order == "big")


def _encode_integer(stored: StoredType) -> bytes:
    kind = 4 if stored.kind == "bitfield" else 0
    bits = _big(stored) | (8 if stored.signed else 0)
    return _head(1, kind, bits, stored.size) + struct.pack("<HH", 0, 8 * stored.size)


def _encode_float(stored: StoredType) -> bytes:
    if stored.size not in _PLAIN_FLOATS:
        raise UnsupportedError(f"colonnade does not write floats of {stored.size} bytes", feature=str(stored))
    sign, *rest = _PLAIN_FLOATS[stored.size]
    return _head(1, 1, _big(stored) | 0x20 | sign << 8, stored.size) + struct.pack("<HHBBBBI", *rest)


def _encode_string(stored: StoredType) -> bytes:
    padding = next(number for number, word in _PADDINGS.items() if word == stored.padding)
    return _head(1, 3, padding | (16 if stored.charset == "utf-8" else 0), stored.size)


def _encode_opaque(stored: StoredType) -> bytes:
    tag = stored.tag.encode()
    padded = tag.ljust(-(-len(tag) // 8) * 8, b"\0")
    return _head(1, 5, len(padded), stored.size) + padded


def _encode_compound(stored: StoredType) -> bytes:
    width = (stored.size.bit_length() - 1) // 8 + 1
    made = _head(3, 6, len(stored.fields), stored.size)
    for member in stored.fields:
        made += member.name.encode("utf-8", "surrogateescape") + b"\0" + member.offset.to_bytes(width, "little")
        made += encode_datatype(member.type)
    return made


def _encode_complex(stored: StoredType) -> bytes:
    """A compound of floats r and i, which every HDF5 library reads."""
    parts = stored.fields or (StoredField("r", 0, stored.item), StoredField("i", stored.item.size, stored.item))
    return _encode_compound(StoredType("compound", stored.size, "none", fields=parts))


def _encode_enum(stored: StoredType) -> bytes:
    base, order = stored.item, "big" if stored.item.order == "big" else "little"
    names = b"".join(name.encode("utf-8", "surrogateescape") + b"\0" for name, _ in stored.members)
    values = b"".join(
        value.to_bytes(base.size, "big" if order == "big" else "little", signed=base.signed)
        for _, value in stored.members
    )
    return _head(3, 8, len(stored.members), stored.size) + encode_datatype(base) + names + values


def _encode_array(stored: StoredType) -> bytes:
    dims = struct.pack(f"<B{len(stored.dims)}I", len(stored.dims), *stored.dims)
    return _head(3, 10, 0, stored.size) + dims + encode_datatype(stored.item)


def _encode_text(stored: StoredType) -> bytes:
    character = StoredType("integer", 1)
    return _head(1, 9, 1 | (0x100 if stored.charset == "utf-8" else 0), 16) + encode_datatype(character)


def _encode_sequence(stored: StoredType) -> bytes:
    return _head(1, 9, 0, 16) + encode_datatype(stored.item)


_ENCODE: dict[str, Callable[[StoredType], bytes]] = {
    "integer": _encode_integer,
    "bitfield": _encode_integer,
    "float": _encode_float,
    "string": _encode_string,
    "opaque": _encode_opaque,
    "compound": _encode_compound,
    "complex": _encode_complex,
    "enum": _encode_enum,
    "boolean": _encode_enum,
    "array": _encode_array,
    "text": _encode_text,
    "binary": _encode_sequence,
    "sequence": _encode_sequence,
}
