"""Literals as pandas pickles them: lists, tuples, dicts, strings, integers, booleans, None. Only written, never read.

pandas takes some of its attributes as lists and tuples only, for which HDF5 has no type; PyTables stores these as
pickles. What is written here is text of the oldest protocol, in which nothing but literals is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from colonnade.h5.attributes import write_element
from colonnade.model import StoredType
from colonnade.nodes import EditableNode

Literal = str | int | None | list["Literal"] | tuple["Literal", ...] | Mapping["str | int", "Literal"]


def write_pickled(node: EditableNode, name: str, value: Literal) -> None:
    """Write an attribute as PyTables stores a value that HDF5 has no type for: a string of ASCII."""
    data = pickled(value)
    write_element(node, name, StoredType("string", len(data), charset="ascii", padding="terminated"), data)


def pickled(value: Literal) -> bytes:
    """The pickle of a literal."""
    return "".join((*_parts(value), ".")).encode("ascii")


def _parts(value: Literal) -> Iterator[str]:
    match value:
        case None:
            yield "N"
        case bool():
            yield "I01\n" if value else "I00\n"
        case int():
            yield f"I{value}\n"
        case str():
            yield f"V{''.join(map(_escaped, value))}\n"
        case list():
            yield from ("(", "l")
            for item in value:
                yield from (*_parts(item), "a")
        case tuple():
            yield from ("(", *_all(value), "t")
        case _:
            yield from ("(", "d")
            for key, item in value.items():
                yield from (*_parts(key), *_parts(item), "s")


def _all(values: Iterable[Literal]) -> Iterator[str]:
    for value in values:
        yield from _parts(value)


def _escaped(character: str) -> str:
    """A character of a string, as Python's codec `raw-unicode-escape` reads it back."""
    code = ord(character)
    if 0x20 <= code < 0x7F and character != "\\":
        return character
    return f"\\u{code:04x}" if code < 0x1_0000 else f"\\U{code:08x}"
