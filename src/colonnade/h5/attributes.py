"""Attributes: written with an exact type, read by their meaning, and the mapping of those that people set.

Written as HEP001 asks: a string is scalar, fixed-length, null-padded and exactly as long as its bytes;
flags are the FALSE/TRUE enum; references are H5T_STD_REF_OBJ. Read leniently: a string is a string
whatever its storage. An attribute that cannot be read counts as absent, never as an error.

A value that people set is a str, bool, int, float, complex or bytes, a NumPy scalar, or an array (or list) of numbers,
booleans or strings. Strings are stored at a fixed length in UTF-8, bytes as opaque. Lists of strings are read as lists,
other arrays as NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import h5py
import numpy as np
from h5py import h5, h5a, h5o, h5r, h5s, h5t

from colonnade import limits
from colonnade.dataclass import replace
from colonnade.errors import DataError, UnsupportedError, UsageError
from colonnade.format.nodes import open_file
from colonnade.h5 import capi
from colonnade.h5.datatypes import describe_type, make_type, memory_type, stored_type_of
from colonnade.h5.vetting import open_file_of, raw_bytes, vet_attribute
from colonnade.model import Charset, StoredType
from colonnade.nodes import NodeHandle
from colonnade.nodes.attributes import check_attribute_name, plain_value
from colonnade.nodes.damage import hdf5_errors
from colonnade.nodes.elements import is_shown_as_stored
from colonnade.nodes.paths import decode_name, encode_name
from colonnade.nodes.protocols import Attribute
from colonnade.reader.files import ReadFile
from colonnade.reader.nodes import ReadNode
from colonnade.stored_dtypes import memory_dtype

LARGEST_IN_HEADER = 60_000
BOOLEAN_ENUM = StoredType(
    "boolean", 1, base=StoredType("integer", 1, signed=True, precision=8), members=(("FALSE", 0), ("TRUE", 1))
)


def _text_type(size: int, charset: Charset) -> h5t.TypeID:
    return make_type(StoredType("string", max(size, 1), charset=charset, padding="null"))


def _replace(node: NodeHandle, name: str, type_id: h5t.TypeID, space: h5s.SpaceID, value: np.ndarray) -> None:
    key = encode_name(name)
    check_fits(node, name, value.nbytes)
    if h5a.exists(node, key):
        h5a.delete(node, key)
    h5a.create(node, key, type_id, space).write(value, mtype=type_id)


def write_text(node: NodeHandle, name: str, text: str, charset: Charset = "utf-8") -> None:
    """Write one scalar fixed-length string."""
    if "\0" in text:
        raise UsageError(f"the text for {name} holds NUL, which ends a text in HDF5: {text!r}", attribute=name)
    data = text.encode("utf-8" if charset == "utf-8" else "ascii")
    type_id = _text_type(len(data), charset)
    _replace(node, name, type_id, h5s.create(h5s.SCALAR), np.array(data, dtype=f"S{max(len(data), 1)}"))


def write_terminated(node: NodeHandle, name: str, text: str) -> None:
    """Write one scalar string of fixed-length ASCII with a NUL at its end, as H5Col asks."""
    data = text.encode("ascii")
    type_id = make_type(StoredType("string", len(data) + 1, charset="ascii", padding="terminated"))
    _replace(node, name, type_id, h5s.create(h5s.SCALAR), np.array(data, dtype=f"S{len(data) + 1}"))


def write_texts(node: NodeHandle, name: str, texts: Sequence[str]) -> None:
    """Write a 1-D array of fixed-length UTF-8 strings, as long as the longest."""
    write_byte_texts(node, name, [text.encode("utf-8") for text in texts])


def write_byte_texts(node: NodeHandle, name: str, data: Sequence[bytes]) -> None:
    """Write a 1-D array of fixed-length strings given as bytes: names in a file may not be UTF-8."""
    width = max(map(len, data), default=1)
    value = np.array(data, dtype=f"S{max(width, 1)}")
    _replace(node, name, _text_type(width, "utf-8"), h5s.create_simple((len(data),)), value)


def write_variable_text(node: NodeHandle, name: str, text: str) -> None:
    """Write one scalar string of variable length, as AnnData does; one that is already there is not written again."""
    before = stored_form(node, name)
    if before is not None and before[0].kind == "text" and before[1] == () and read_stored(node, name) == text:
        return
    _write_variable(node, name, np.array(text, dtype=h5py.string_dtype()), h5s.create(h5s.SCALAR))


def write_variable_texts(node: NodeHandle, name: str, texts: Sequence[str]) -> None:
    """Write a 1-D array of strings of variable length; an empty one is of float64, as AnnData writes it."""
    before = stored_form(node, name)
    if texts and before is not None and before[0].kind == "text" and read_stored(node, name) == list(texts):
        return
    if texts:
        _write_variable(node, name, np.array(texts, dtype=h5py.string_dtype()), h5s.create_simple((len(texts),)))
    else:
        _replace(node, name, h5t.IEEE_F64LE, h5s.create_simple((0,)), np.empty(0, dtype="<f8"))


def _write_variable(node: NodeHandle, name: str, value: np.ndarray, space: h5s.SpaceID) -> None:
    key = encode_name(name)
    check_fits(node, name, 16 * value.size)
    if h5a.exists(node, key):
        h5a.delete(node, key)
    made = h5a.create(node, key, h5t.py_create(h5py.string_dtype(), logical=True), space)
    made.write(value, mtype=h5t.py_create(h5py.string_dtype()))


def write_flag(node: NodeHandle, name: str, flag: bool) -> None:
    """Write one scalar boolean, as the FALSE/TRUE enum."""
    _replace(node, name, make_type(BOOLEAN_ENUM), h5s.create(h5s.SCALAR), np.array(flag, dtype="i1"))


def write_number(node: NodeHandle, name: str, number: float) -> None:
    """Write one scalar float64."""
    _replace(node, name, h5t.IEEE_F64LE, h5s.create(h5s.SCALAR), np.array(number, dtype="<f8"))


def write_integer(node: NodeHandle, name: str, number: int, dtype: str = "<u8") -> None:
    """Write one scalar integer of an exact type."""
    value = np.array(number, dtype=dtype)
    _replace(node, name, h5t.py_create(value.dtype), h5s.create(h5s.SCALAR), value)


def write_integers(node: NodeHandle, name: str, numbers: Sequence[int], dtype: str = "<u8") -> None:
    """Write a 1-D array of integers of an exact type."""
    value = np.array(numbers, dtype=dtype)
    _replace(node, name, h5t.py_create(value.dtype), h5s.create_simple((len(value),)), value)


def write_reference(node: NodeHandle, name: str, target: NodeHandle, as_standard: bool = False) -> None:
    """Write one scalar object reference. as_standard: of the type H5T_STD_REF, also if it replaces one of that type."""
    _write_references(node, name, [target], h5s.create(h5s.SCALAR), as_standard)


def write_references(node: NodeHandle, name: str, targets: Iterable[NodeHandle], as_standard: bool = False) -> None:
    """Write a 1-D array of object references, of the type H5T_STD_REF as `write_reference` does."""
    listed = list(targets)
    _write_references(node, name, listed, h5s.create_simple((len(listed),)), as_standard)


def add_reference(node: NodeHandle, name: str, target: NodeHandle) -> None:
    """Append an object reference to those of an attribute; the others are not followed."""
    listed = [*(read_references(node, name) or ()), h5r.create(target, b".", h5r.OBJECT)]
    _write_listed(node, name, listed, h5s.create_simple((len(listed),)))


def remove_reference(node: NodeHandle, name: str, gone: int | None) -> None:
    """Remove the references to the object at this address from an attribute; the others are not followed."""
    listed = zip(read_references(node, name) or (), read_addresses(node, name), strict=True)
    left = [reference for reference, where in listed if where != gone]
    _write_listed(node, name, left, h5s.create_simple((len(left),)))


def holds_standard_references(node: NodeHandle, name: str) -> bool:
    """Whether an attribute holds references of the type H5T_STD_REF, of HDF5 1.12."""
    stored = stored_form(node, name)
    return stored is not None and is_shown_as_stored(stored[0])


def write_standard_references(
    node: NodeHandle, name: str, targets: Sequence[NodeHandle | None], space: h5s.SpaceID
) -> None:
    """Write object references of the type H5T_STD_REF; None is a null one."""
    key = encode_name(name)
    check_fits(node, name, 18 * len(targets))
    if h5a.exists(node, key):
        h5a.delete(node, key)
    capi.write_object_references(node, key, targets, space)


def _write_references(
    node: NodeHandle, name: str, targets: list[NodeHandle], space: h5s.SpaceID, as_standard: bool
) -> None:
    if as_standard or holds_standard_references(node, name):
        write_standard_references(node, name, targets, space)
        return
    _write_listed(node, name, [h5r.create(target, b".", h5r.OBJECT) for target in targets], space)


def _write_listed(node: NodeHandle, name: str, references: Sequence[h5py.Reference], space: h5s.SpaceID) -> None:
    listed = np.empty(len(references), dtype=h5py.ref_dtype)
    for position, reference in enumerate(references):
        listed[position] = reference
    value = listed.reshape(space.get_simple_extent_dims())
    key = encode_name(name)
    check_fits(node, name, 8 * value.size)
    if h5a.exists(node, key):
        h5a.delete(node, key)
    h5a.create(node, key, h5t.STD_REF_OBJ, space).write(value)


def copy_attributes(source: NodeHandle, target: NodeHandle, without: Collection[str] = ()) -> None:
    """Give the target every attribute of the source that it lacks, of the same datatypes."""
    skipped = {encode_name(name) for name in without}
    for attribute in open_attributes(source):
        if attribute.name in skipped or h5a.exists(target, attribute.name):
            continue
        made = capi.create_attribute_like(attribute, target, attribute.get_type())
        with elements(attribute) as image:
            write_elements(made, image)


def open_attributes(node: NodeHandle) -> list[h5a.AttrID]:
    """All attributes, in the order they were made where the object keeps it, else by name."""
    try:
        found = _stored_names(node, h5.INDEX_CRT_ORDER)
    except hdf5_errors():
        found = _stored_names(node, h5.INDEX_NAME)
    return [h5a.open(node, name) for name in found]


def _stored_names(node: NodeHandle, order: int) -> list[bytes]:
    """The names of all attributes, in one pass: each look-up by its number would begin at the first."""
    found: list[bytes] = []
    h5a.iterate(node, found.append, index_type=order)
    return found


@contextmanager
def elements(attribute: h5a.AttrID) -> Iterator[np.ndarray]:
    """All elements in memory form, as a flat array; what they point to holds inside the `with` only."""
    type_id = attribute.get_type()
    stored = describe_type(type_id)
    n_elements = 0 if _is_null(attribute) else attribute.get_space().get_simple_extent_npoints()
    if n_elements * stored.size > limits.now.attribute_bytes:
        capi.refuse("read the attribute", f"{n_elements} elements are more than an attribute can hold")
    if stored.has_pointers:
        vet_attribute(attribute)
    image = np.zeros(n_elements, dtype=memory_dtype(stored))
    in_memory = memory_type(type_id, stored)
    if n_elements:
        capi.read_attribute(attribute, in_memory, image.ctypes.data)
    try:
        yield image
    finally:
        if n_elements and stored.has_pointers:
            capi.reclaim(in_memory, h5s.create_simple((n_elements,)), image.ctypes.data)


def read_element(node: NodeHandle, name: str) -> bytes | None:
    """A scalar attribute as the bytes of one element in memory form; None when absent, unreadable, or with pointers."""
    try:
        attribute = h5a.open(node, encode_name(name))
        stored = describe_type(attribute.get_type())
        if stored.has_pointers or is_shown_as_stored(stored):
            return None
        with elements(attribute) as image:
            return image.tobytes() if len(image) == 1 else None
    except hdf5_errors():
        return None


def write_element(node: NodeHandle, name: str, stored: StoredType, element: bytes) -> None:
    """Write one scalar of an exact datatype, given as the bytes of one element in memory form."""
    type_id = make_type(stored)
    value = np.frombuffer(element, dtype=memory_dtype(stored)).reshape(())
    key = encode_name(name)
    if h5a.exists(node, key):
        h5a.delete(node, key)
    made = h5a.create(node, key, type_id, h5s.create(h5s.SCALAR))
    write_elements(made, np.ascontiguousarray(value).reshape(1))


def write_elements(attribute: h5a.AttrID, image: np.ndarray) -> None:
    """Write all elements, given in memory form."""
    if len(image):
        type_id = attribute.get_type()
        capi.write_attribute(attribute, memory_type(type_id, describe_type(type_id), writing=True), image.ctypes.data)


def _is_null(attribute: h5a.AttrID) -> bool:
    return bool(attribute.get_space().get_simple_extent_type() == h5s.NULL)


def delete_attribute(node: NodeHandle, name: str) -> None:
    """Remove an attribute if it is there."""
    if h5a.exists(node, encode_name(name)):
        h5a.delete(node, encode_name(name))


def stored_names(node: NodeHandle) -> list[str]:
    """The names of all attributes, in the order of their names."""
    try:
        found = _stored_names(node, h5.INDEX_NAME)
    except hdf5_errors():
        return []
    return sorted(map(decode_name, found))


def read_stored(node: NodeHandle, name: str) -> object:
    """The attribute's value as h5py gives it (text decoded), or None when absent or unreadable."""
    try:
        key = encode_name(name)
        if not h5a.exists(node, key):
            return None
        attribute = h5a.open(node, key)
        space = attribute.get_space()
        if space.get_simple_extent_type() == h5s.NULL:
            return None
        dtype = attribute.dtype
        if dtype.hasobject and h5py.check_ref_dtype(dtype) is not h5py.Reference:  # an address is not in the heap
            vet_attribute(attribute)
        if space.get_simple_extent_npoints() * dtype.itemsize > limits.now.attribute_bytes:
            return None
        value = np.zeros(space.get_simple_extent_dims(), dtype=dtype)
        attribute.read(value)
        return plain_value(value)
    except hdf5_errors():
        return None


def read_references(node: NodeHandle, name: str) -> list[h5py.Reference] | None:
    """The attribute's object references, in order; None when absent or of another type."""
    value = read_stored(node, name)
    if isinstance(value, h5py.Reference):
        return [value]
    if isinstance(value, np.ndarray) and h5py.check_ref_dtype(value.dtype) is h5py.Reference:
        return list(value.flat)
    return None


def read_addresses(node: NodeHandle, name: str) -> list[int]:
    """The addresses that the attribute's object references point to; none when it is absent or of another type.

    Objects are not opened: libhdf5 would keep what it takes for the header of an object that was removed. References in
    the form of HDF5 1.12, which h5py does not read, are read from the bytes of the file.
    """
    stored = stored_form(node, name)
    if stored is not None and is_shown_as_stored(stored[0]):
        return _addresses_in_bytes(node, name)
    if stored is None or stored[0].kind != "object_reference" or np.prod(stored[1]) * 8 > limits.now.attribute_bytes:
        return []
    try:
        found = np.zeros(stored[1], dtype="u8")
        h5a.open(node, encode_name(name)).read(found, mtype=h5t.STD_REF_OBJ)
    except hdf5_errors():
        return []
    return [int(where) for where in found.reshape(-1)]


def standard_addresses(node: NodeHandle, name: str) -> list[int | None]:
    """Where references of the type H5T_STD_REF lead, 0 for a null one; None for those that do not lead to an object of
    this file."""
    source = raw_bytes(node)
    if source is None:
        return [None]
    file = ReadFile(open_file(source), source, open_file_of(node), None, lambda _path, _target: None)
    opened = file.node(file.file.at(h5o.get_info(node).addr), "?")
    return opened.standard_addresses(name) if isinstance(opened, ReadNode) else [None]


def _addresses_in_bytes(node: NodeHandle, name: str) -> list[int]:
    """The addresses in references in the form of HDF5 1.12."""
    source = raw_bytes(node)
    if source is None:
        return []
    file = ReadFile(open_file(source), source, open_file_of(node), None, lambda _path, _target: None)
    opened = file.node(file.file.at(h5o.get_info(node).addr), "?")
    return [] if opened is None else opened.reference_addresses(name)


def stored_form(node: NodeHandle, name: str) -> tuple[StoredType, tuple[int, ...]] | None:
    """The attribute's datatype and shape, or None when absent or broken."""
    try:
        if not h5a.exists(node, encode_name(name)):
            return None
        attribute = h5a.open(node, encode_name(name))
        return describe_attribute_type(attribute), tuple(attribute.shape)
    except hdf5_errors():
        return None


def describe_attribute_type(attribute: h5a.AttrID) -> StoredType:
    """The datatype; of references in the form of HDF5 1.12 with their size in the file, as for datasets."""
    stored = describe_type(attribute.get_type())
    n_elements = 0 if _is_null(attribute) else attribute.get_space().get_simple_extent_npoints()
    if not n_elements or not is_shown_as_stored(stored):
        return stored
    return replace(stored, size=attribute.get_storage_size() // n_elements)


def inspect_stored(node: NodeHandle, name: str) -> Attribute | None:
    """The attribute as it is stored; None when there is none of this name. Never an error."""
    try:
        if not h5a.exists(node, encode_name(name)):
            return None
        attribute = h5a.open(node, encode_name(name))
        stored, space = describe_attribute_type(attribute), attribute.get_space()
        if space.get_simple_extent_type() == h5s.NULL:
            return Attribute(stored, None)
        shape = tuple(space.get_simple_extent_dims())
        if stored.kind not in ("string", "text", "integer", "boolean", "object_reference"):
            return Attribute(stored, shape)
        claimed = space.get_simple_extent_npoints() * stored.size
        if claimed > limits.now.attribute_bytes:
            return Attribute(stored, shape, problem=f"it claims {claimed:,} bytes")
        if stored.has_pointers:
            vet_attribute(attribute)
        image = np.zeros(shape, dtype=attribute.dtype)
        attribute.read(image)
        return Attribute(stored, shape, tuple(image.reshape(-1).tolist()))
    except hdf5_errors(UnsupportedError) as error:
        return Attribute(None, None, problem=f"it cannot be read: {error}")


def can_hold(node: NodeHandle, n_bytes: int) -> bool:
    """Whether the object takes an attribute of `n_bytes` bytes: one that was made for small ones does not."""
    if n_bytes <= LARGEST_IN_HEADER:
        return True
    key = b".colonnade-trial"
    try:
        h5a.create(node, key, h5t.STD_U8LE, h5s.create_simple((n_bytes,)))
        h5a.delete(node, key)
    except hdf5_errors():
        return False
    return True


def check_fits(node: NodeHandle, name: str, n_bytes: int) -> None:
    """Refuse an attribute of more bytes than the object has room for, before anything is written."""
    if not can_hold(node, n_bytes):
        raise DataError(
            f"cannot store attribute {name!r} of {n_bytes:,} bytes: HDF5 keeps at most 64 KiB for an attribute of this "
            "object. Shorten it, or keep the value in a dataset of its own",
            attribute=name,
        )


# -- attributes that people set --


def write_values(node: NodeHandle, new: Mapping[str, object], without: tuple[str, ...] = ()) -> None:
    """Set attributes of an object, and remove those named. All values are checked before one is written."""
    encoded = {check_attribute_name(name): encode_value(name, value) for name, value in new.items()}
    for name, (_, _, data) in encoded.items():
        check_fits(node, name, len(data))
    for name in without:
        delete_attribute(node, name)
    for name, (stored, shape, data) in encoded.items():
        delete_attribute(node, name)
        type_id, space = make_type(stored), h5s.create_simple(shape) if shape else h5s.create(h5s.SCALAR)
        made = h5a.create(node, encode_name(name), type_id, space)
        if data:
            made.write(np.frombuffer(data, dtype=f"V{stored.size}").reshape(shape), mtype=type_id)


def encode_value(name: str, value: object) -> tuple[StoredType, tuple[int, ...], bytes]:
    """Datatype, shape and bytes of a value; a UsageError or a DataError for what cannot be one."""
    if isinstance(value, bytes) and not isinstance(value, np.bytes_):
        value = np.void(value) if value else value
    _check_leaves(name, list(_leaves(value)))
    array = np.asarray(value)
    if array.dtype.kind in "UOT" and all(isinstance(one, str) for one in array.reshape(-1).tolist()):
        strings = [item.encode("utf-8", "surrogateescape") for item in array.reshape(-1).tolist()]
        size = max((len(string) for string in strings), default=0) or 1
        stored = StoredType("string", size, charset="utf-8", padding="null")
        return stored, array.shape, b"".join(string.ljust(size, b"\0") for string in strings)
    if array.dtype.kind not in "biufcSV" or not array.dtype.itemsize:
        raise UsageError(
            f"cannot set attribute {name!r} to {value!r}: it must be a str, bool, int, float, complex, bytes, or an "
            "array of numbers, booleans or strings",
            attribute=name,
        )
    stored = stored_type_of(array.dtype)
    if stored.has_pointers or stored.kind == "unknown" or stored.size != array.dtype.itemsize:
        raise UsageError(f"cannot set attribute {name!r}: attributes cannot hold {stored}", attribute=name)
    return stored, array.shape, np.ascontiguousarray(array).tobytes()


def _leaves(value: object) -> Iterator[object]:
    """The single values in lists and arrays, as they were given: NumPy makes one type of them all, and cuts off NUL."""
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from _leaves(one)
    elif not isinstance(value, np.ndarray):
        yield value
    elif value.dtype.kind in "OUST":
        yield from value.reshape(-1)


def _check_leaves(name: str, leaves: list[object]) -> None:
    """Refuse what would come back as something else."""
    is_text = [isinstance(one, (str, np.bytes_)) for one in leaves]
    if any(isinstance(one, bytes) and not isinstance(one, np.bytes_) for one in leaves):
        raise UsageError(
            f"cannot set attribute {name!r}: it holds bytes that are empty or in a list, which are read as strings: "
            "decode them, or use numpy.void",
            attribute=name,
        )
    if any(is_text) and not all(is_text):
        raise UsageError(
            f"cannot set attribute {name!r}: it holds strings and other values: make them all strings", attribute=name
        )
    for one in leaves:
        if (isinstance(one, str) and "\0" in one) or (isinstance(one, np.bytes_) and b"\0" in bytes(one)):
            raise DataError(f"attribute {name!r}: {one!r} holds NUL, at which HDF5's strings end", value=one)
