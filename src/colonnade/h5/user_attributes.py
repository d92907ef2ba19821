"""Attributes that people set: a mapping of them, and their values to HDF5 and back.

A value is a str, bool, int, float, complex or bytes, a NumPy scalar, or an array (or list) of numbers, booleans or
strings. Strings are stored at a fixed length in UTF-8, bytes as opaque. Lists of strings are read as lists, other
arrays as NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

import numpy as np
from h5py import h5a, h5s

from colonnade.errors import DataError, UsageError
from colonnade.h5 import attributes
from colonnade.h5.datatypes import make_type, stored_type_of
from colonnade.model import StoredType, is_utf8

_PLAIN = (np.bool_, np.int64, np.uint64, np.float64, np.complex128)


class Attributes(MutableMapping[str, Any]):
    """Attributes as the file has them when they are asked for; setting or deleting one is one commit.

    `update` sets several in one commit.
    """

    def __init__(
        self, read: Callable[[], dict[str, Any]], change: Callable[[Mapping[str, Any], tuple[str, ...]], None]
    ) -> None:
        self._read = read
        self._change = change

    def __getitem__(self, name: str) -> Any:
        return self._read()[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._change({name: value}, ())

    def __delitem__(self, name: str) -> None:
        if name not in self._read():
            raise KeyError(name)
        self._change({}, (name,))

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def update(self, *given: Any, **more: Any) -> None:
        """Set several, in one commit."""
        self._change(dict(*given, **more), ())

    def clear(self) -> None:
        """Delete all of them, in one commit."""
        self._change({}, tuple(self._read()))

    def __repr__(self) -> str:
        return repr(self._read())


def read_values(node: Any, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The attributes of an object but those that are named."""
    listed = (name for name in attributes.names(node) if name not in without)
    return {name: shown_value(attributes.read(node, name)) for name in listed}


def shown_value(value: Any) -> Any:
    """A value as it was given: Python's own numbers where the file has their width, bytes for what is opaque."""
    if isinstance(value, _PLAIN):
        return value.item()
    if isinstance(value, np.void) and value.dtype.fields is None:
        return value.tobytes()
    return value


def write_values(node: Any, new: Mapping[str, Any], without: tuple[str, ...] = ()) -> None:
    """Set attributes of an object, and remove those named. All values are checked before one is written."""
    encoded = {check_attribute_name(name): encode_value(name, value) for name, value in new.items()}
    for name, (_, _, data) in encoded.items():
        attributes.check_fits(node, name, len(data))
    for name in without:
        attributes.delete(node, name)
    for name, (stored, shape, data) in encoded.items():
        attributes.delete(node, name)
        type_id, space = make_type(stored), h5s.create_simple(shape) if shape else h5s.create(h5s.SCALAR)
        made = h5a.create(node, name.encode(), type_id, space)
        if data:
            made.write(np.frombuffer(data, dtype=f"V{stored.size}").reshape(shape), mtype=type_id)


def check_attribute_name(name: object) -> str:
    """The name of an attribute; a UsageError for what cannot be one."""
    if not isinstance(name, str) or not name or "\0" in name or not is_utf8(name):
        raise UsageError(f"cannot set attribute {name!r}: its name must be a string without NUL, and not empty")
    return name


def encode_value(name: str, value: Any) -> tuple[StoredType, tuple[int, ...], bytes]:
    """Datatype, shape and bytes of a value; a UsageError or a DataError for what cannot be one."""
    if isinstance(value, bytes) and not isinstance(value, np.bytes_):
        value = np.void(value) if value else value
    _check_leaves(name, list(_leaves(value)))
    array = np.asarray(value)
    if array.dtype.kind in "UOT" and all(isinstance(one, str) for one in array.reshape(-1).tolist()):
        texts = [one.encode("utf-8", "surrogateescape") for one in array.reshape(-1).tolist()]
        size = max((len(one) for one in texts), default=0) or 1
        stored = StoredType("string", size, charset="utf-8", padding="null")
        return stored, array.shape, b"".join(one.ljust(size, b"\0") for one in texts)
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


def _leaves(value: Any) -> Iterator[Any]:
    """The single values in lists and arrays, as they were given: NumPy makes one type of them all, and cuts off NUL."""
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from _leaves(one)
    elif not isinstance(value, np.ndarray):
        yield value
    elif value.dtype.kind in "OUST":
        yield from value.reshape(-1)


def _check_leaves(name: str, leaves: list[Any]) -> None:
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
            raise DataError(f"attribute {name!r}: {one!r} holds NUL, at which HDF5's texts end", value=one)
