"""A second reading of the rules for search indexes (HEP001 8 and 9, S1-S7): plain h5py and Python, nothing of ours.

`check(group)` compares every search index of a table with its column, element by element, and gives back what is
wrong, in words; an empty list is a clean table. It is slow and simple: one Python value a row.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

import h5py
import numpy as np
from h5py import h5a, h5d, h5s, h5t

Key = int | float | bytes
Column: TypeAlias = h5py.Dataset
MASK = 2**64 - 1
SECOND_SEED = 0x9E3779B9
HOME = "_search_indexes"
KINDS = ("CHUNK_MINMAX", "SORTED_ROWS", "BITMAP", "CHUNK_BLOOM")
COUNTS = ("nan_count", "fill_count", "n")
ATTRIBUTES = {
    "CHUNK_MINMAX": {"KIND", "_columns_list", "chunk_shape"},
    "SORTED_ROWS": {"KIND", "_columns_list", "nan_tail_length", "fill_tail_length", "ordered"},
    "BITMAP": {"KIND", "_columns_list", "_values", "ordered"},
    "CHUNK_BLOOM": {"KIND", "_columns_list", "k", "m_bits", "hash_family", "chunk_shape"},
}


# -- MurmurHash3_x64_128, after the description of its author --


def _rotate(word: int, by: int) -> int:
    return (word << by | word >> (64 - by)) & MASK


def _scramble(word: int) -> int:
    word = (word ^ word >> 33) * 0xFF51AFD7ED558CCD & MASK
    word = (word ^ word >> 33) * 0xC4CEB9FE1A85EC53 & MASK
    return word ^ word >> 33


def _mix_first(word: int) -> int:
    return _rotate(word * 0x87C37B91114253D5 & MASK, 31) * 0x4CF5AD432745937F & MASK


def _mix_second(word: int) -> int:
    return _rotate(word * 0x4CF5AD432745937F & MASK, 33) * 0x87C37B91114253D5 & MASK


def murmur3(data: bytes, seed: int = 0) -> tuple[int, int]:
    """The two 64-bit halves of the hash, the low one first."""
    low = high = seed
    whole = len(data) // 16 * 16
    for at in range(0, whole, 16):
        low ^= _mix_first(int.from_bytes(data[at : at + 8], "little"))
        low = ((_rotate(low, 27) + high) * 5 + 0x52DCE729) & MASK
        high ^= _mix_second(int.from_bytes(data[at + 8 : at + 16], "little"))
        high = ((_rotate(high, 31) + low) * 5 + 0x38495AB5) & MASK
    tail = data[whole:]
    high ^= _mix_second(int.from_bytes(tail[8:], "little"))
    low ^= _mix_first(int.from_bytes(tail[:8], "little"))
    low, high = low ^ len(data), high ^ len(data)
    low = (low + high) & MASK
    high = (high + low) & MASK
    low, high = _scramble(low), _scramble(high)
    low = (low + high) & MASK
    return low, (high + low) & MASK


def bloom_bits(data: bytes, k: int, m_bits: int) -> list[int]:
    """The bits of one value in a filter (S7)."""
    first, second = murmur3(data, 0)[0], murmur3(data, SECOND_SEED)[1]
    return [(first + i * second & MASK) % m_bits for i in range(k)]


# -- elements of a column, and what they are compared by --


def _has_pointers(kind: Any) -> bool:
    return kind.get_class() == h5t.VLEN or (kind.get_class() == h5t.STRING and kind.is_variable_str())


def _raw(dataset: Column) -> list[bytes]:
    """Every element of a one-dimensional dataset, the bytes as they are stored; of variable length, as HDF5 has them in
    memory: length and address."""
    kind = dataset.id.get_type()
    image = np.zeros(dataset.shape[0], dtype=f"V{kind.get_size()}")
    if len(image):
        dataset.id.read(h5s.ALL, h5s.ALL, image, mtype=kind)
    return [element.tobytes() for element in image]


def _pointed(element: bytes, kind: Any) -> bytes:
    """The bytes that an element of variable length points to; any other as it is.

    Not left to h5py: 3.12 cannot read a sequence without elements ("Cannot create cython.array from NULL pointer").
    """
    if not _has_pointers(kind):
        return element
    if kind.get_class() == h5t.STRING:
        (address,) = struct.unpack("P", element)
        return ctypes.string_at(address) if address else b""
    length, address = struct.unpack("NP", element)
    return ctypes.string_at(address, length * kind.get_super().get_size()) if length else b""


def _elements(dataset: Column) -> list[bytes]:
    kind = dataset.id.get_type()
    return [_pointed(element, kind) for element in _raw(dataset)]


def _order(kind: Any) -> Literal["little", "big"]:
    return "big" if kind.get_order() == h5t.ORDER_BE else "little"


def to_key(element: bytes, kind: Any) -> Key:
    """What a stored element is compared by."""
    number = kind.get_class()
    if number == h5t.ENUM:
        return to_key(element, kind.get_super())
    if number == h5t.INTEGER:
        return int.from_bytes(element, _order(kind), signed=kind.get_sign() == h5t.SGN_2)
    if number == h5t.BITFIELD:
        return int.from_bytes(element, _order(kind))
    if number == h5t.FLOAT:
        sign = ">" if _order(kind) == "big" else "<"
        return float(np.frombuffer(element, dtype=f"{sign}f{len(element)}")[0])
    if number == h5t.STRING and not kind.is_variable_str():
        return _without_padding(element, kind.get_strpad())
    return element


def _without_padding(element: bytes, padding: int) -> bytes:
    if padding == h5t.STR_NULLTERM:
        return element.split(b"\0", 1)[0]
    return element.rstrip(b" " if padding == h5t.STR_SPACEPAD else b"\0")


def canonical(key: Key, kind: Any) -> bytes:
    """The bytes of a key that are hashed (S7): little-endian at the column's width, -0.0 as 0.0."""
    if isinstance(key, bytes):
        return key
    width = kind.get_size()
    if isinstance(key, float):
        return np.array(key + 0.0, dtype=f"<f{width}").tobytes()
    return (key % 256**width).to_bytes(width, "little")


def _is_nan(key: Key | None) -> bool:
    return isinstance(key, float) and math.isnan(key)


class Values:
    """The keys of a column: None where a row is missing."""

    def __init__(self, column: Column) -> None:
        self.column = column
        self.kind = column.id.get_type()
        self.fill = _fill(column)
        self.keys = [self._key(element) for element in _elements(column)]

    def _key(self, element: bytes) -> Key | None:
        key = to_key(element, self.kind)
        return None if self._is_missing(key) else key

    def _is_missing(self, key: Key) -> bool:
        if "_categories" in self.column.attrs and (self.kind.get_sign() == h5t.SGN_2 or self.fill is None):
            return key == -1
        if self.kind.get_class() == h5t.ENUM and key == _named(self.kind).get(b"MISSING"):
            return True
        return _is_nan(key) if _is_nan(self.fill) else key == self.fill

    @property
    def fill_is_nan(self) -> bool:
        return _is_nan(self.fill)


def _named(kind: Any) -> dict[bytes, int]:
    return {kind.get_member_name(i): int(kind.get_member_value(i)) for i in range(kind.get_nmembers())}


def _fill(column: Column) -> Key | None:
    """The fill value that the writer set, as a key; None when none was set."""
    creation, kind = column.id.get_create_plist(), column.id.get_type()
    if creation.fill_value_defined() != h5d.FILL_VALUE_USER_DEFINED:
        return None
    if _has_pointers(kind):
        return _fill_in_words(column)
    return to_key(_fill_element(creation, kind), kind)


def _fill_in_words(column: Column) -> bytes | None:
    """The fill as the last line of the description names it (C6), None where it names none: no row is missing then.

    h5py breaks memory when it is asked for the fill of a variable-length type.
    """
    line = column.attrs.get("description", b"").rsplit(b"\n", 1)[-1]
    if not (line.startswith(b"Missing value: ") and line.endswith(b".")):
        return None
    text = line.removeprefix(b"Missing value: ")[:-1]
    return bytes.fromhex(text[2:].decode()) if text.startswith(b"0x") else text[1:-1]


def _fill_element(creation: Any, kind: Any) -> bytes:
    """The stored bytes of the fill: those of a row that nobody wrote, in a file that is never saved."""
    with h5py.File("fill of a column", "w", driver="core", backing_store=False) as made:
        limit = h5s.UNLIMITED if creation.get_layout() == h5d.CHUNKED else 1
        space = h5s.create_simple((1,), (limit,))
        return _raw(h5py.Dataset(h5d.create(made.id, b"row", kind, space, creation)))[0]


# -- the check --


def check(group: h5py.Group) -> list[str]:
    """Everything about the search indexes of a table that breaks a rule."""
    return list(_Check(group).problems())


def found_indexes(group: h5py.Group) -> set[tuple[str, str]]:
    """The columns that have an index, with its kind, as the columns say."""
    found = set()
    for name in _columns(group):
        for reference in group[name].attrs.get(HOME, ()):
            found.add((name, group.file[reference].attrs["KIND"].decode().lower()))
    return found


def _text(value: Any) -> str:
    """A text attribute, whatever its storage."""
    return value.decode() if isinstance(value, bytes) else str(value)


def _columns(group: h5py.Group) -> list[str]:
    return [name for name in group if isinstance(group[name], h5py.Dataset) and group[name].ndim == 1]


class _Check:
    """One table group, looked through once."""

    def __init__(self, group: h5py.Group) -> None:
        self.group = group
        self.home = group.get(HOME)
        children = dict(self.home.items()) if isinstance(self.home, h5py.Group) else {}
        self.indexes = {
            name: node for name, node in children.items() if isinstance(node, h5py.Dataset) and "KIND" in node.attrs
        }

    def problems(self) -> Iterator[str]:
        yield from self._references_of_columns()
        if self.home is None:
            return
        if not isinstance(self.home, h5py.Group):
            yield f"{HOME} is no group"
            return
        yield from self._strays()
        for name, index in self.indexes.items():
            for problem in self._index(name, index):
                yield f"{name}: {problem}"

    def _strays(self) -> Iterator[str]:
        """Children that are neither an index nor the values of a bitmap (8.1, 9.4, S3)."""
        assert self.home is not None  # looked at by the caller
        values = [index.attrs["_values"] for index in self.indexes.values() if "_values" in index.attrs]
        known = {self.group.file[reference].name for reference in values}
        for name in self.home:
            if name not in self.indexes and f"{self.home.name}/{name}" not in known:
                yield f"{name} in {HOME} is no search index"
        if not len(self.home):
            yield f"{HOME} is empty"

    def _references_of_columns(self) -> Iterator[str]:
        """What each column says of its indexes: 1-D object references, to indexes that refer back (S2)."""
        for name in _columns(self.group):
            column = self.group[name]
            if HOME not in column.attrs:
                continue
            yield from (f"{name}.{HOME}: {problem}" for problem in references_storage(column, HOME))
            targets = [self.group.file[reference] for reference in column.attrs[HOME]]
            if not targets or len({target.name for target in targets}) != len(targets):
                yield f"{name}.{HOME} is empty or names an index twice"
            for target in targets:
                listed = [self.group.file[reference] for reference in target.attrs.get("_columns_list", ())]
                if target.parent.name != f"{self.group.name.rstrip('/')}/{HOME}" or column not in listed:
                    yield f"{name}.{HOME} refers to {target.name}, which does not refer back"

    def _index(self, name: str, index: Column) -> Iterator[str]:
        yield from text_storage(index, "KIND")
        kind = _text(index.attrs["KIND"])
        if kind not in KINDS:
            yield f"KIND is {kind}"
            return
        if set(index.attrs) != ATTRIBUTES[kind]:
            yield f"has the attributes {sorted(index.attrs)}"
            return
        yield from references_storage(index, "_columns_list")
        listed = [self.group.file[reference] for reference in index.attrs["_columns_list"]]
        if len(listed) != 1 or listed[0].parent != self.group:
            yield "does not lead to exactly one column of the table"
            return
        column = listed[0]
        short = column.name.rsplit("/", 1)[-1]
        if index not in [self.group.file[reference] for reference in column.attrs.get(HOME, ())]:
            yield f"is not referred to by {short}"
        if name != f"{short}__{kind.lower()}":
            yield f"is not named {short}__{kind.lower()}"
        yield from _CONTENT[kind](index, Values(column))


# -- attributes, by their storage --


def _attribute(node: Any, name: str) -> tuple[Any, tuple[int, ...] | None]:
    """The datatype and the shape of an attribute; None for the shape of a scalar."""
    found = h5a.open(node.id, name.encode())
    scalar = found.get_space().get_simple_extent_type() == h5s.SCALAR
    return found.get_type(), None if scalar else found.shape


def text_storage(node: Any, name: str) -> Iterator[str]:
    """A scalar fixed-length ASCII text."""
    kind, shape = _attribute(node, name)
    fixed = kind.get_class() == h5t.STRING and not kind.is_variable_str() and kind.get_cset() == h5t.CSET_ASCII
    if not fixed or shape is not None:
        yield f"{name} is no scalar fixed-length ASCII text"
    elif kind.get_size() != len(node.attrs[name]):
        yield f"{name} has {kind.get_size()} bytes for {node.attrs[name]}"


def integer_storage(node: Any, name: str, width: int, shape: tuple[int, ...] | None) -> Iterator[str]:
    """An unsigned integer of so many bytes, little-endian as everything this writer makes."""
    kind, found = _attribute(node, name)
    wanted = {2: h5t.STD_U16LE, 8: h5t.STD_U64LE}[width]
    if not kind.equal(wanted) or found != shape:
        yield f"{name} is no uint{8 * width} of shape {shape}"


def flag_storage(node: Any, name: str) -> Iterator[str]:
    """A scalar of the enum FALSE, TRUE."""
    kind, shape = _attribute(node, name)
    if kind.get_class() != h5t.ENUM or shape is not None or _named(kind) != {b"FALSE": 0, b"TRUE": 1}:
        yield f"{name} is no scalar boolean"
    elif kind.get_super().get_size() != 1:
        yield f"{name} is a boolean of {kind.get_size()} bytes"


def references_storage(node: Any, name: str, scalar: bool = False) -> Iterator[str]:
    """Object references of the old form: one, or a 1-D array."""
    kind, shape = _attribute(node, name)
    if not kind.equal(h5t.STD_REF_OBJ) or (shape is None) != scalar or (shape is not None and len(shape) != 1):
        yield f"{name} is no {'scalar' if scalar else '1-D array of'} object reference"


# -- the four kinds --


def _chunk_rows(index: Column, values: Values) -> tuple[int, list[str]]:
    """The chunk length that an index was built for, and what is wrong with it."""
    problems = list(integer_storage(index, "chunk_shape", 8, (1,)))
    said = int(index.attrs["chunk_shape"][0])
    chunks = values.column.chunks
    if chunks is not None and said != chunks[0]:
        problems.append(f"chunk_shape is {said}, the column's chunks have {chunks[0]} rows")
    if said < 1:
        problems.append(f"chunk_shape is {said}")
    return max(said, 1), problems


def _chunks(values: Values, length: int) -> list[list[Key | None]]:
    return [values.keys[at : at + length] for at in range(0, len(values.keys), length)]


def _check_minmax(index: Column, values: Values) -> Iterator[str]:
    """S4."""
    length, problems = _chunk_rows(index, values)
    yield from problems
    kind = index.id.get_type()
    names = [kind.get_member_name(i).decode() for i in range(kind.get_nmembers())]
    if names != ["min", "max", *COUNTS]:
        yield f"has the members {names}"
        return
    types = [kind.get_member_type(i) for i in range(5)]
    if not all(found.equal(values.kind) for found in types[:2]):
        yield "min and max are not of the column's type"
    if not all(found.equal(h5t.STD_U64LE) for found in types[2:]):
        yield "the counts are not uint64"
    chunks = _chunks(values, length)
    if index.shape != (len(chunks),):
        yield f"has the shape {index.shape} for {len(chunks)} chunks"
        return
    for number, (entry, chunk) in enumerate(zip(_entries(index), chunks, strict=True)):
        wanted = _entry(chunk, values)
        if not all(_is_same(a, b) for a, b in zip(entry, wanted, strict=True)):
            yield f"chunk {number} is {entry}, not {wanted}"


def _entries(index: Column) -> list[list[Key]]:
    """Of each chunk: least, greatest, and the three counts."""
    whole = index.id.get_type()
    places = [(whole.get_member_offset(i), whole.get_member_type(i)) for i in range(5)]
    return [
        [to_key(_pointed(row[at : at + part.get_size()], part), part) for at, part in places] for row in _raw(index)
    ]


def _entry(chunk: list[Key | None], values: Values) -> list[Key | None]:
    """What the entry of a chunk must be. Without a value: the fill, or what HDF5 fills with when none was set."""
    present: list[Any] = [key for key in chunk if key is not None and not _is_nan(key)]
    n_missing, n_nan = sum(key is None for key in chunk), sum(map(_is_nan, chunk))
    if values.fill_is_nan:
        n_missing, n_nan = 0, n_missing
    if present:
        return [min(present), max(present), n_nan, n_missing, len(chunk)]
    fill = _fill_element(values.column.id.get_create_plist(), values.kind) if values.fill is None else None
    placeholder = values.fill if fill is None else to_key(fill, values.kind)
    return [placeholder, placeholder, n_nan, n_missing, len(chunk)]


def _is_same(found: Key | None, wanted: Key | None) -> bool:
    return found == wanted or (_is_nan(found) and _is_nan(wanted))


def _check_sorted(index: Column, values: Values) -> Iterator[str]:
    """S5."""
    for name in ("nan_tail_length", "fill_tail_length"):
        yield from integer_storage(index, name, 8, None)
    yield from flag_storage(index, "ordered")
    kind = index.id.get_type()
    whole = kind.get_class() == h5t.INTEGER and kind.get_sign() == h5t.SGN_NONE
    if not whole or kind.get_precision() != 8 * kind.get_size() or 2 ** kind.get_precision() < len(values.keys):
        yield "its elements are no unsigned integers that number all rows"
    if index.shape != (len(values.keys),):
        yield f"has the shape {index.shape}"
        return
    present: list[Any] = [(key, row) for row, key in enumerate(values.keys) if key is not None and not _is_nan(key)]
    missing = [row for row, key in enumerate(values.keys) if key is None]
    nan = [row for row, key in enumerate(values.keys) if _is_nan(key)]
    wanted = [row for _, row in sorted(present)] + missing + nan
    if index[:].tolist() != wanted:
        place = next(i for i, (a, b) in enumerate(zip(index[:].tolist(), wanted, strict=True)) if a != b)
        yield f"place {place} has row {index[place]}, not {wanted[place]}"
    tails = (len(missing), 0) if values.fill_is_nan else (len(nan), len(missing))
    if (index.attrs["nan_tail_length"], index.attrs["fill_tail_length"]) != tails:
        yield f"its tails are not {tails}"
    if not index.attrs["ordered"]:
        yield "ordered is not true"


def _is_matrix(index: Column) -> bool:
    return bool(index.id.get_type().equal(h5t.STD_U8LE)) and index.ndim == 2


def _check_bitmap(index: Column, values: Values) -> Iterator[str]:
    """S6."""
    yield from references_storage(index, "_values", scalar=True)
    yield from flag_storage(index, "ordered")
    listed = index.file[index.attrs["_values"]]
    if listed.name != f"{index.name}__values":
        yield f"its values are at {listed.name}"
    if list(listed.attrs):
        yield f"its values have the attributes {list(listed.attrs)}"
    if not listed.id.get_type().equal(values.kind):
        yield "its values are not of the column's type"
    keys = [to_key(element, values.kind) for element in _elements(listed)]
    n_bytes = -(-len(values.keys) // 8)
    if not _is_matrix(index) or listed.ndim != 1 or index.shape != (len(keys), n_bytes):
        yield f"has the shape {index.shape} for {len(keys)} values and {len(values.keys)} rows"
        return
    yield from _check_bits(index, keys, values)
    if bool(index.attrs["ordered"]) != (keys == sorted(keys, key=_in_order)):
        yield f"ordered is {index.attrs['ordered']} for {keys}"


def _in_order(key: Key) -> tuple[bool, Any]:
    """NaN behind the others."""
    return (True, 0) if _is_nan(key) else (False, key)


def _check_bits(index: Column, keys: list[Key], values: Values) -> Iterator[str]:
    places: dict[Any, int] = {_value_of(key): number for number, key in enumerate(keys)}
    if len(places) != len(keys):
        yield "has a value twice"
    wanted = np.zeros(index.shape, dtype="u1")
    for row, key in enumerate(values.keys):
        if key is None:
            continue
        if _value_of(key) not in places:
            yield f"has no bitmap for {key!r} of row {row}"
            return
        wanted[places[_value_of(key)], row // 8] |= 1 << row % 8
    for number, byte in np.argwhere(index[:] != wanted)[:3].tolist():
        yield f"byte {byte} of value {keys[number]!r} is {index[number, byte]}, not {wanted[number, byte]}"


def _value_of(key: Key) -> Key | str:
    """A key under which equal values meet: all NaN are one value."""
    return "NaN" if _is_nan(key) else key


def _check_bloom(index: Column, values: Values) -> Iterator[str]:
    """S7."""
    length, problems = _chunk_rows(index, values)
    yield from problems
    yield from integer_storage(index, "k", 2, None)
    yield from integer_storage(index, "m_bits", 8, None)
    yield from text_storage(index, "hash_family")
    if index.attrs["hash_family"] != b"murmur3_128_double":
        yield f"hash_family is {index.attrs['hash_family']}"
    k, m_bits = int(index.attrs["k"]), int(index.attrs["m_bits"])
    chunks = _chunks(values, length)
    if not _is_matrix(index) or index.shape != (len(chunks), m_bits // 8) or m_bits % 8 or not m_bits or not k:
        yield f"has the shape {index.shape} for {len(chunks)} chunks, k {k} and {m_bits} bits"
        return
    for number, chunk in enumerate(chunks):
        wanted = bytearray(m_bits // 8)
        for key in {key for key in chunk if key is not None and not _is_nan(key)}:
            for bit in bloom_bits(canonical(key, values.kind), k, m_bits):
                wanted[bit // 8] |= 1 << bit % 8
        if index[number].tobytes() != bytes(wanted):
            yield f"the filter of chunk {number} is not that of its values"


_CONTENT = {
    "CHUNK_MINMAX": _check_minmax,
    "SORTED_ROWS": _check_sorted,
    "BITMAP": _check_bitmap,
    "CHUNK_BLOOM": _check_bloom,
}
