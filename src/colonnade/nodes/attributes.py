"""Attributes by their meaning: read leniently, the mapping of those that people set, and values to be stored.

A string is a string whatever its storage. An attribute that cannot be read counts as absent, never as an error.

A value that people set is a str, bool, int, float, complex or bytes, a NumPy scalar, or an array (or list) of numbers,
booleans or strings. Strings are stored at a fixed length in UTF-8, bytes as opaque. Lists of strings are read as lists,
other arrays as NumPy arrays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Literal

import numpy as np

from colonnade.errors import UsageError
from colonnade.model import is_utf8
from colonnade.nodes.elements import is_shown_as_stored
from colonnade.nodes.protocols import Node, ObjectReference
from colonnade.sealed import settable

if TYPE_CHECKING:
    from typing_extensions import TypeIs

ROOT_ATTRIBUTES = ("CLASS", "encoding-type", "encoding-version")
"""Names that describe a whole file, whatever is at its root."""


def plain_value(value: np.ndarray) -> object:
    """A value as h5py gives it: a scalar as such, strings decoded."""
    if value.ndim == 0:
        item = value[()]
        return item.decode("utf-8", "replace") if isinstance(item, bytes) else item
    if value.dtype.kind in "SO":
        items = value.ravel().tolist()
        if all(isinstance(item, bytes) for item in items):  # arrays can be joined too
            return decode_texts(items, "replace")
    return value


def decode_texts(items: list[bytes], errors: Literal["replace", "surrogateescape"]) -> list[str]:
    """Each item decoded: all at once where none holds a NUL, which is several times faster for many."""
    strings = b"\0".join(items).decode("utf-8", errors).split("\0")
    return strings if len(strings) == len(items) else [item.decode("utf-8", errors) for item in items]


def read_text(node: Node, name: str) -> str | None:
    """The attribute's string, whatever its storage; None when absent or not a scalar string.

    An array of one string counts as that string: several producers write it so.
    """
    value = node.read_attribute(name)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value.rstrip("\0") if isinstance(value, str) else None


def read_texts(node: Node, name: str) -> list[str] | None:
    """The attribute's list of strings, or None when absent or something else."""
    value = node.read_attribute(name)
    if isinstance(value, list):
        return [text.rstrip("\0") for text in value] if "\0" in "".join(value) else value
    if isinstance(value, np.ndarray) and value.size == 0:
        return []
    return [value] if isinstance(value, str) else None


def read_flag(node: Node, name: str) -> bool | None:
    """The attribute as a boolean (any boolean or integer scalar), or None."""
    value = node.read_attribute(name)
    return bool(value) if isinstance(value, (bool, int, np.bool_, np.integer)) else None


def read_integers(node: Node, name: str) -> list[int] | None:
    """The attribute's integers, a scalar as a list of one; None when absent or something else."""
    value = node.read_attribute(name)
    if isinstance(value, np.ndarray) and value.dtype.kind in "iu" and value.ndim == 1:
        return [int(item) for item in value]
    return [int(value)] if isinstance(value, (int, np.integer)) and not isinstance(value, bool) else None


def read_references(node: Node, name: str) -> list[ObjectReference] | None:
    """The attribute's object references, in order, for `dereference`; None when absent or of another type."""
    stored = node.attribute_storage(name)
    if stored is None or not (stored[0].kind == "object_reference" or is_shown_as_stored(stored[0])):
        return None
    return [ObjectReference(address) for address in node.reference_addresses(name)]


# -- attributes that people set --

OPTIONS_SET = "_storage_options"
"""The attribute that names what the user has set of a column, chunk_rows or filters: it keeps these as it grows."""
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")
_PLAIN = (np.bool_, np.int64, np.uint64, np.float64, np.complex128)


class Attributes(MutableMapping[str, object]):
    """Attributes as the file has them when they are asked for; setting or deleting one is one commit.

    `update` sets several in one commit. Bytes of a name that are not UTF-8 are escaped, as `os.fsdecode` does it.

    >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
    >>> t = cn.open_table("run.h5", "events", "r+")
    >>> t.attrs["run"] = 42
    >>> dict(t.attrs)
    {'run': 42}
    """

    __slots__ = ("_change", "_read")

    def __init__(
        self,
        read: Callable[[str | None], dict[str, object]],
        change: Callable[[Mapping[str, object], tuple[str, ...]], None],
    ) -> None:
        """read: all attributes, or one by its name if there is such."""
        self._read = read
        self._change = change

    def __getitem__(self, name: str) -> object:
        return self._read(name)[name]

    def __setitem__(self, name: str, value: object) -> None:
        self._change({name: value}, ())

    def __delitem__(self, name: str) -> None:
        if name not in self._read(name):
            raise KeyError(name)
        self._change({}, (name,))

    def __iter__(self) -> Iterator[str]:
        return iter(self._read(None))

    def __len__(self) -> int:
        return len(self._read(None))

    def update(self, *given: object, **more: object) -> None:
        """Set several, in one commit.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events", "r+")
        >>> t.attrs.update(run=42, site="B")
        >>> len(t.attrs)
        2
        """
        self._change(dict(*given, **more), ())

    def clear(self) -> None:
        """Delete all of them, in one commit.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events", "r+")
        >>> t.attrs["run"] = 42
        >>> t.attrs.clear()
        >>> len(t.attrs)
        0
        """
        self._change({}, tuple(self._read(None)))

    def __repr__(self) -> str:
        return repr(self._read(None))


def read_values(node: Node, without: tuple[str, ...] = (), only: str | None = None) -> dict[str, object]:
    """The attributes of an object but those in `without`; or only one, if there is one of this name."""
    if only is None:
        listed = node.attribute_names()
    else:
        listed = [only] if may_be_stored(only) and node.inspect_attribute(only) is not None else []
    return {name: shown_value(node.read_attribute(name)) for name in listed if name not in without}


def shown_value(value: object) -> object:
    """A value as it was given: Python's own numbers where the file has their width, bytes for what is opaque."""
    if isinstance(value, _PLAIN):
        return value.item()
    if isinstance(value, np.void) and value.dtype.fields is None:
        return value.tobytes()
    return value


def may_be_stored(name: object) -> TypeIs[str]:
    """Whether a file can hold an attribute of this name, in which bytes that are not UTF-8 may be escaped."""
    return isinstance(name, str) and "\0" not in name and is_utf8(_ESCAPED_BYTE.sub("", name))


def check_attribute_name(name: object) -> str:
    """The name of an attribute; a UsageError for what cannot be one."""
    if not name or not may_be_stored(name):
        raise UsageError(f"cannot set attribute {name!r}: its name must be a string without NUL, and not empty")
    return name


def check_attribute_names(names: Iterable[object], owned: tuple[str, ...], kind: type, what: str) -> None:
    """Refuse names that belong to a layout; if the class has a property for one, the message names it."""
    for given in names:
        name = check_attribute_name(given)
        if name not in owned and not name.startswith("_"):
            continue
        stands_for = name.casefold()
        advice = (
            f"set the property {stands_for} instead"
            if stands_for in settable(kind)
            else "the library sets it; choose another name"
        )
        why = "it belongs to the layout" if name in owned else "names that begin with an underscore are reserved"
        raise UsageError(f"cannot set attribute {name!r} of {what}: {why}. {advice.capitalize()}", attribute=name)
