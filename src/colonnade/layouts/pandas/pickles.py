"""Attributes as PyTables stores them: strings as UTF-8, and what HDF5 has no type for as a pickle in ASCII.

A pickle can run any program when it is loaded, so none is ever loaded. It is recognised by its charset and its last
byte, which is how PyTables recognises it, and reported by name. That of None is known by its bytes.
"""

from __future__ import annotations

from colonnade.nodes import Node, attributes
from colonnade.nodes.protocols import Attribute

NONE = "N."


def read_string(node: Node, name: str) -> str | None:
    """The string of an attribute; None if it is absent, pickled, or not a string."""
    attribute = node.inspect_attribute(name)
    if attribute is None or not attribute.is_text or is_pickle(attribute):
        return None
    return _only_text(attribute)


def read_name(node: Node, name: str) -> str | int | None:
    """The name of an axis or a Series: a string or an integer; None if it has none, or one that is pickled."""
    listed = attributes.read_integers(node, name)
    return listed[0] if listed is not None and len(listed) == 1 else read_string(node, name)


def is_pickled(node: Node, name: str) -> bool:
    """Whether an attribute is a pickle of anything but None."""
    attribute = node.inspect_attribute(name)
    return attribute is not None and is_pickle(attribute) and _only_text(attribute) != NONE


def is_pickle(attribute: Attribute) -> bool:
    """Whether the attribute is a pickle, of None or of anything else."""
    if not attribute.is_text or attribute.type is None or attribute.type.charset != "ascii":
        return False
    text = _only_text(attribute)
    return text is not None and text.endswith(".")


def _only_text(attribute: Attribute) -> str | None:
    """The string of an attribute that holds one; an empty one may be stored as nothing at all."""
    if attribute.shape is None:
        return ""
    data = attribute.values[0] if len(attribute.values) == 1 else None
    return data.rstrip(b"\0").decode("utf-8", "surrogateescape") if isinstance(data, bytes) else None
