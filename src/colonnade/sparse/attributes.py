"""Attributes of sectioned datasets, read and encoded without libhdf5, which cannot open such datasets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from colonnade.errors import CorruptError, UnsupportedError
from colonnade.format import attributes
from colonnade.format.attributes import GlobalHeap, decode_attribute, encode_attribute, join_attribute, parse_attribute
from colonnade.format.headers import Message
from colonnade.format.source import HDF5Source
from colonnade.h5.user_attributes import check_attribute_name, encode_value, shown_value
from colonnade.model import StoredType


def read_attributes(source: HDF5Source, messages: list[Message]) -> dict[str, Any]:
    """Name and value of every attribute, from the messages of an object header."""
    return {name: shown_value(value) for name, value in attributes.read_attributes(source, messages).items()}


def portable_attributes(source: HDF5Source, messages: list[Message], path: str) -> tuple[bytes, ...]:
    """Messages of all attributes for a copy in another file; variable-length strings become fixed-length."""
    heap = GlobalHeap(source)
    stored = attributes.stored_attributes(source, messages)
    return tuple(_portable(source, data, flags, heap, path) for data, flags in stored)


def _portable(source: HDF5Source, data: bytes, flags: int, heap: GlobalHeap, path: str) -> bytes:
    parts = parse_attribute(source, data, flags)
    if holds_references(parts.type):
        raise UnsupportedError(
            f"{path} cannot be copied, so nothing is: its attribute {parts.name!r} holds references",
            feature="copying every object of a file", path=path,
        )  # fmt: skip
    if parts.type.has_pointers:
        value = decode_attribute(source, data, flags, heap)[1]
        return _encode(parts.name, np.void(value) if isinstance(value, bytes) else value)
    return join_attribute(*parts.raw)


def holds_references(stored: StoredType) -> bool:
    """Whether values of this type contain references to other objects of their file."""
    parts = [*([stored.base] if stored.base is not None else []), *(field.type for field in stored.fields)]
    return "reference" in stored.kind or "reference" in stored.tag or any(holds_references(part) for part in parts)


def encode_attributes(values: Mapping[str, Any]) -> dict[str, bytes]:
    """One message per attribute; raises a UsageError or a DataError for a value that cannot be an attribute."""
    return {name: _encode(name, value) for name, value in values.items()}


def _encode(name: str, value: Any) -> bytes:
    """A message for a number, a string or an array of these."""
    return encode_attribute(name, *encode_value(check_attribute_name(name), value))


def changed(
    old: tuple[bytes, ...], new: Mapping[str, bytes], without: tuple[str, ...], source_name: str
) -> tuple[bytes, ...]:
    """The messages of attributes after setting some and removing others."""
    named = {attributes.name_of(data, source_name): data for data in old}
    if len(named) != len(old):
        raise CorruptError(f"{source_name}: two attributes have one name", path=source_name)
    named.update(new)
    return tuple(data for name, data in named.items() if name not in without)
