"""Attributes of sectioned datasets, read and encoded without libhdf5, which cannot open such datasets."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from colonnade.errors import CorruptError, UnsupportedError
from colonnade.format import attributes
from colonnade.format.attributes import (
    StoredAttribute,
    attribute_name,
    decode_attribute,
    encode_attribute,
    encode_attribute_message,
    iter_attributes,
    parse_attribute,
)
from colonnade.format.global_heap import GlobalHeap
from colonnade.format.headers import Message
from colonnade.format.source import Fields, HDF5Source
from colonnade.model import StoredType
from colonnade.nodes.attributes import check_attribute_name, shown_value


def read_attributes(source: HDF5Source, messages: list[Message]) -> dict[str, object]:
    """Name and value of every attribute, from the messages of an object header."""
    return {name: shown_value(value) for name, value in attributes.read_attributes(source, messages).items()}


def portable_attributes(source: HDF5Source, messages: list[Message], path: str) -> tuple[bytes, ...]:
    """Messages of all attributes for a copy in another file; variable-length strings become fixed-length."""
    heap = GlobalHeap(source)
    stored = iter_attributes(source, messages)
    return tuple(_portable(parse_attribute(source, data, flags), heap, path) for data, flags in stored)


def _portable(attribute: StoredAttribute, heap: GlobalHeap, path: str) -> bytes:
    if holds_references(attribute.type):
        raise UnsupportedError(
            f"{path} cannot be copied, so nothing is: its attribute {attribute.name!r} holds references",
            feature="copying every object of a file", path=path,
        )  # fmt: skip
    if attribute.type.has_pointers:
        value = attribute.value(heap)
        return _encode(attribute.name, np.void(value) if isinstance(value, bytes) else value)
    return encode_attribute_message(attribute.message)


def holds_references(stored: StoredType) -> bool:
    """Whether values of this type contain references to other objects of their file."""
    parts = [*([stored.base] if stored.base is not None else []), *(field.type for field in stored.fields)]
    return "reference" in stored.kind or "reference" in stored.tag or any(holds_references(part) for part in parts)


def encode_attributes(values: Mapping[str, object]) -> dict[str, bytes]:
    """One message per attribute; raises a UsageError or a DataError for a value that cannot be an attribute."""
    return {name: _encode(name, value) for name, value in values.items()}


def _encode(name: str, value: object) -> bytes:
    """A message for a number, a string or an array of these."""
    from colonnade.h5.attributes import encode_value

    return encode_attribute(name, *encode_value(check_attribute_name(name), value))


def changed(
    old: tuple[bytes, ...], new: Mapping[str, bytes], without: tuple[str, ...], source_name: str
) -> tuple[bytes, ...]:
    """The messages of attributes after setting some and removing others."""
    named = {attribute_name(decode_attribute(Fields(data, "an attribute", source_name))): data for data in old}
    if len(named) != len(old):
        raise CorruptError("two attributes have the same name", path=source_name)
    named.update(new)
    return tuple(data for name, data in named.items() if name not in without)
