"""HDF5 datatypes to plain data and back, and the form each takes in memory.

`describe_type` turns a datatype of a file into a `StoredType`, `make_type` the other way.
`memory_type` and `memory_dtype` (of `stored_dtypes`) are two views of one thing: how an element lies in memory when
H5Dread puts it there. They always agree, byte for byte:

| stored | NumPy dtype | HDF5 memory type |
| --- | --- | --- |
| integer, enum, boolean | native integer, the next of 1, 2, 4, 8 bytes | that integer |
| float | float16, 32 or 64, the first that holds every value | that float |
| bitfield | native unsigned integer | bitfield of that size, native order |
| string | bytes of its size | the same, null-padded |
| text | uint64 (a pointer) | variable-length string |
| binary, sequence | uint64 length, uint64 pointer | the sequence, of its base's memory type |
| array, compound, complex | the same of its parts, packed | the same |
| opaque, references, unknown, wider numbers | that many bytes | the file's own type |
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import lru_cache

import h5py
import numpy as np
from h5py import h5t

from colonnade.errors import UnsupportedError
from colonnade.model import Charset, Order, Padding, StoredField, StoredType, TypeKind
from colonnade.stored_dtypes import (
    ELEMENT_TAG,
    LARGEST_ELEMENT,
    MAX_DEPTH,
    NEW_REFERENCE,
    TOO_MANY_BITS,
    float_bytes,
    is_complex_pair,
    memory_dtype,
)

_NATIVE_BIG = sys.byteorder == "big"
_CHARSETS: dict[int, Charset] = {h5t.CSET_ASCII: "ascii", h5t.CSET_UTF8: "utf-8"}
_PADDINGS: dict[int, Padding] = {
    h5t.STR_NULLTERM: "terminated",
    h5t.STR_NULLPAD: "null",
    h5t.STR_SPACEPAD: "space",
}
_ORDERS: dict[int, Order] = {h5t.ORDER_LE: "little", h5t.ORDER_BE: "big"}
_UNKNOWN_NAMES = {
    h5t.TIME: "time",
    h5t.REFERENCE: NEW_REFERENCE,
    h5t.OPAQUE: "opaque",
    h5t.COMPOUND: "compound",
}
_COMPLEX_CLASS = getattr(h5t, "COMPLEX", -99)


def describe_type(type_id: h5t.TypeID, depth: int = 0) -> StoredType:
    """The datatype as plain data; what has no kind of its own comes back as `unknown`."""
    if depth > MAX_DEPTH:
        return StoredType("unknown", type_id.get_size(), tag="datatype nested too deeply")
    if type_id.get_size() > LARGEST_ELEMENT:
        return StoredType("unknown", type_id.get_size(), tag="datatype of huge elements")
    describe = _DESCRIBE.get(type_id.get_class(), _describe_unknown)
    stored: StoredType = describe(type_id, depth)
    parts = [*([stored.base] if stored.base is not None else []), *(field.type for field in stored.fields)]
    if any(part.kind == "unknown" and part.tag.endswith(NEW_REFERENCE) for part in parts):
        return StoredType("unknown", stored.size, tag=f"{stored.kind} with {NEW_REFERENCE}")
    return stored


def _describe_unknown(type_id: h5t.TypeID, depth: int) -> StoredType:
    number = type_id.get_class()
    order: Order = "big" if number == h5t.TIME and _first_bits(type_id) & 1 else "little"
    return StoredType("unknown", type_id.get_size(), order, tag=_UNKNOWN_NAMES.get(number, f"datatype class {number}"))


def _first_bits(type_id: h5t.TypeID) -> int:
    """The first byte of the bits of a datatype's class, of which h5py names none for times."""
    encoded: bytes = type_id.encode()  # two bytes of its own, then the message: class and version, bits, size
    return encoded[3]


def _has_too_many_bits(type_id: h5t.TypeID) -> bool:
    """Whether a number claims more bits than its bytes have: where HDF5 converts it, it writes after its end."""
    return bool(type_id.get_offset() + type_id.get_precision() > 8 * type_id.get_size())


def can_be_converted(stored: StoredType) -> bool:
    """Whether HDF5 may convert elements of this datatype: no number in it claims more bits than it has."""
    if stored.tag == TOO_MANY_BITS or (stored.base is not None and not can_be_converted(stored.base)):
        return False
    return all(can_be_converted(field.type) for field in stored.fields)


def _describe_integer(type_id: h5t.TypeID, depth: int) -> StoredType:
    bitfield = type_id.get_class() == h5t.BITFIELD
    if not bitfield and _has_too_many_bits(type_id):  # h5py cannot say which bits a bitfield has; it is not converted
        return StoredType("unknown", type_id.get_size(), tag=TOO_MANY_BITS)
    kind: TypeKind = "bitfield" if bitfield else "integer"
    return StoredType(
        kind,
        type_id.get_size(),
        _ORDERS.get(type_id.get_order(), "little"),
        signed=not bitfield and type_id.get_sign() == h5t.SGN_2,
        precision=type_id.get_size() * 8 if bitfield else type_id.get_precision(),
    )


def _describe_float(type_id: h5t.TypeID, depth: int) -> StoredType:
    order = _ORDERS.get(type_id.get_order())
    if order is None:
        return StoredType("unknown", type_id.get_size(), tag="float of VAX or mixed byte order")
    if _has_too_many_bits(type_id):
        return StoredType("unknown", type_id.get_size(), tag=TOO_MANY_BITS)
    _, _, exponent, _, mantissa = type_id.get_fields()
    size, precision = type_id.get_size(), type_id.get_precision()
    return StoredType("float", size, order, signed=True, precision=precision, mantissa=mantissa, exponent=exponent)


def _describe_string(type_id: h5t.TypeID, depth: int) -> StoredType:
    charset = _CHARSETS.get(type_id.get_cset(), "ascii")
    if type_id.is_variable_str():
        return StoredType("text", type_id.get_size(), charset=charset, padding="terminated")
    padding = _PADDINGS.get(type_id.get_strpad(), "null")
    return StoredType("string", type_id.get_size(), charset=charset, padding=padding)


def _describe_enum(type_id: h5t.TypeID, depth: int) -> StoredType:
    base = describe_type(type_id.get_super(), depth + 1)
    if base.kind != "integer" or base.size > 8:
        return StoredType("unknown", type_id.get_size(), tag=f"enum of {base}")
    members = tuple(_enum_member(type_id, position) for position in range(type_id.get_nmembers()))
    values = dict(members)
    boolean = values.get("FALSE") == 0 and values.get("TRUE") == 1 and len(members) <= 3
    boolean = boolean and (len(members) == 2 or "MISSING" in values)
    kind: TypeKind = "boolean" if boolean else "enum"
    return StoredType(kind, type_id.get_size(), base.order, base=base, members=members)


def _enum_member(type_id: h5t.TypeID, position: int) -> tuple[str, int]:
    name = type_id.get_member_name(position)
    return name.decode("utf-8", "surrogateescape"), int(type_id.get_member_value(position))


def _describe_opaque(type_id: h5t.TypeID, depth: int) -> StoredType:
    tag = (type_id.get_tag() or b"").decode("utf-8", "replace")
    return StoredType("opaque", type_id.get_size(), "none", tag=tag)


def _describe_sequence(type_id: h5t.TypeID, depth: int) -> StoredType:
    base = describe_type(type_id.get_super(), depth + 1)
    if base.kind == "opaque" and base.size == 1 and base.tag != ELEMENT_TAG:
        return StoredType("binary", type_id.get_size(), "none", base=base)
    return StoredType("sequence", type_id.get_size(), "none", base=base)


def _describe_array(type_id: h5t.TypeID, depth: int) -> StoredType:
    base = describe_type(type_id.get_super(), depth + 1)
    return StoredType("array", type_id.get_size(), "none", base=base, dims=tuple(type_id.get_array_dims()))


def _describe_compound(type_id: h5t.TypeID, depth: int) -> StoredType:
    fields = tuple(
        StoredField(
            type_id.get_member_name(i).decode("utf-8", "surrogateescape"),
            type_id.get_member_offset(i),
            describe_type(type_id.get_member_type(i), depth + 1),
        )
        for i in range(type_id.get_nmembers())
    )
    if len({field.name for field in fields}) != len(fields) or not all(field.name for field in fields):
        return _describe_unknown(type_id, depth)
    if is_complex_pair(fields):
        return StoredType("complex", type_id.get_size(), fields[0].type.order, base=fields[0].type, fields=fields)
    return StoredType("compound", type_id.get_size(), "none", fields=fields)


def _describe_complex(type_id: h5t.TypeID, depth: int) -> StoredType:
    base = describe_type(type_id.get_super(), depth + 1)
    if base.kind != "float" or base.size not in (4, 8) or float_bytes(base) != base.size:
        return StoredType("unknown", type_id.get_size(), tag=f"complex of {base}")
    return StoredType("complex", type_id.get_size(), base.order, base=base)


def _describe_reference(type_id: h5t.TypeID, depth: int) -> StoredType:
    if type_id.equal(h5t.STD_REF_OBJ):
        return StoredType("object_reference", type_id.get_size(), "none")
    if type_id.equal(h5t.STD_REF_DSETREG):
        return StoredType("region_reference", type_id.get_size(), "none")
    return _describe_unknown(type_id, depth)


_DESCRIBE = {
    h5t.INTEGER: _describe_integer,
    h5t.BITFIELD: _describe_integer,
    h5t.FLOAT: _describe_float,
    h5t.STRING: _describe_string,
    h5t.ENUM: _describe_enum,
    h5t.OPAQUE: _describe_opaque,
    h5t.VLEN: _describe_sequence,
    h5t.ARRAY: _describe_array,
    h5t.COMPOUND: _describe_compound,
    _COMPLEX_CLASS: _describe_complex,
    h5t.REFERENCE: _describe_reference,
}


def memory_type(type_id: h5t.TypeID, stored: StoredType, writing: bool = False) -> h5t.TypeID:
    """The HDF5 datatype of one element in memory, for the file's datatype and its description.

    For writing, a null-terminated string is one in memory too: HDF5 would else cut one that fills its room.
    """
    kind = stored.kind
    dtype = memory_dtype(stored)
    if kind in ("integer", "boolean", "enum", "float") and dtype.kind != "V":
        return _number_type(dtype)
    if kind == "bitfield" and dtype.kind != "V":
        order = "BE" if _NATIVE_BIG else "LE"
        bits: h5t.TypeID = getattr(h5t, f"STD_B{dtype.itemsize * 8}{order}")
        return bits
    if kind == "string":
        padded = type_id.copy()
        if not (writing and stored.padding == "terminated"):
            padded.set_strpad(h5t.STR_NULLPAD)
        return padded
    if kind == "sequence":
        return h5t.vlen_create(memory_type(type_id.get_super(), stored.item, writing))
    if kind == "array":
        return h5t.array_create(memory_type(type_id.get_super(), stored.item, writing), stored.dims)
    if kind == "compound":
        return _compound_memory_type(type_id, stored, writing)
    if kind == "complex":
        return _complex_memory_type(stored)
    return type_id.copy()


@lru_cache(maxsize=64)
def _number_type(dtype: np.dtype) -> h5t.TypeID:
    return h5t.py_create(dtype)


def _compound_memory_type(type_id: h5t.TypeID, stored: StoredType, writing: bool) -> h5t.TypeID:
    dtype = memory_dtype(stored)
    made = h5t.create(h5t.COMPOUND, dtype.itemsize)
    for position, field in enumerate(stored.fields):
        assert dtype.fields is not None  # a compound's dtype is structured by construction
        name = type_id.get_member_name(position)
        member = memory_type(type_id.get_member_type(position), field.type, writing)
        made.insert(name, dtype.fields[field.name][1], member)
    return made


def _complex_memory_type(stored: StoredType) -> h5t.TypeID:
    part = h5t.py_create(np.dtype(f"f{stored.item.size}"))
    if not stored.fields:
        order = "BE" if _NATIVE_BIG else "LE"
        native: h5t.TypeID = getattr(h5t, f"COMPLEX_IEEE_F{stored.item.size * 8}{order}")
        return native
    made = h5t.create(h5t.COMPOUND, stored.item.size * 2)
    made.insert(b"r", 0, part)
    made.insert(b"i", stored.item.size, part)
    return made


def make_type(stored: StoredType) -> h5t.TypeID:
    """The HDF5 datatype for a description, as a writer stores it."""
    return _MAKE[stored.kind](stored)


def _make_integer(stored: StoredType) -> h5t.TypeID:
    order = "BE" if stored.order == "big" else "LE"
    letter = "B" if stored.kind == "bitfield" else "I" if stored.signed else "U"
    is_whole = stored.size in (1, 2, 4, 8) and stored.precision == 8 * stored.size
    known: h5t.TypeID = getattr(h5t, f"STD_{letter}{stored.size * 8 if is_whole else 64}{order}")
    if is_whole:
        return known
    made = known.copy()
    made.set_size(max(stored.size, 8))
    made.set_precision(stored.precision)
    made.set_size(stored.size)
    return made


def _make_float(stored: StoredType) -> h5t.TypeID:
    order = "BE" if stored.order == "big" else "LE"
    known: h5t.TypeID = getattr(h5t, f"IEEE_F{stored.size * 8}{order}")
    return known


def _make_enum(stored: StoredType) -> h5t.TypeID:
    made = h5t.enum_create(make_type(stored.item))
    for name, value in stored.members:
        made.enum_insert(name.encode("utf-8", "surrogateescape"), value)
    return made


def _make_string(stored: StoredType) -> h5t.TypeID:
    made = h5t.C_S1.copy()
    made.set_size(h5t.VARIABLE if stored.kind == "text" else stored.size)
    made.set_cset(h5t.CSET_UTF8 if stored.charset == "utf-8" else h5t.CSET_ASCII)
    paddings = {word: number for number, word in _PADDINGS.items()}
    made.set_strpad(paddings[stored.padding])
    return made


def _make_opaque(stored: StoredType) -> h5t.TypeID:
    made = h5t.create(h5t.OPAQUE, stored.size)
    made.set_tag(stored.tag.encode())
    return made


def _make_compound(stored: StoredType) -> h5t.TypeID:
    made = h5t.create(h5t.COMPOUND, stored.size)
    for field in stored.fields:
        made.insert(field.name.encode("utf-8", "surrogateescape"), field.offset, make_type(field.type))
    return made


def _make_unknown(stored: StoredType) -> h5t.TypeID:
    if stored.tag == "time" and stored.size in (4, 8):
        known: h5t.TypeID = getattr(h5t, f"UNIX_D{stored.size * 8}{'BE' if stored.order == 'big' else 'LE'}")
        return known
    raise UnsupportedError(f"colonnade cannot make the HDF5 datatype {stored}", feature=str(stored))


_MAKE: dict[str, Callable[[StoredType], h5t.TypeID]] = {
    "integer": _make_integer,
    "bitfield": _make_integer,
    "float": _make_float,
    "boolean": _make_enum,
    "enum": _make_enum,
    "string": _make_string,
    "text": _make_string,
    "opaque": _make_opaque,
    "binary": lambda stored: h5t.vlen_create(make_type(stored.item)),
    "sequence": lambda stored: h5t.vlen_create(make_type(stored.item)),
    "array": lambda stored: h5t.array_create(make_type(stored.item), stored.dims),
    "compound": _make_compound,
    "complex": _make_compound,
    "object_reference": lambda stored: h5t.STD_REF_OBJ.copy(),
    "region_reference": lambda stored: h5t.STD_REF_DSETREG.copy(),
    "unknown": _make_unknown,
}


def stored_type_of(dtype: np.dtype) -> StoredType:
    """The HDF5 datatype that h5py would store a NumPy dtype in."""
    try:
        return describe_type(h5t.py_create(dtype, logical=True))
    except TypeError as error:
        raise UnsupportedError(f"HDF5 has no datatype for NumPy's {dtype}", feature=str(dtype)) from error


def is_reference_dtype(dtype: np.dtype) -> str | None:
    """'object_reference' or 'region_reference' when this NumPy dtype holds h5py references."""
    kind = h5py.check_ref_dtype(dtype)
    if kind is None:
        return None
    return "object_reference" if kind is h5py.Reference else "region_reference"


def reference_array(values: Sequence[object]) -> np.ndarray | None:
    """A list of h5py references (None for none) as an array of them; None when it holds anything else."""
    first = next((value for value in values if value is not None), None)
    if not isinstance(first, h5py.Reference):
        return None
    kind = h5py.RegionReference if isinstance(first, h5py.RegionReference) else h5py.Reference
    if not all(value is None or type(value) is kind for value in values):
        return None
    array = np.empty(len(values), dtype=h5py.regionref_dtype if kind is h5py.RegionReference else h5py.ref_dtype)
    for place, value in enumerate(values):
        array[place] = kind() if value is None else value
    return array
