"""Attributes that hold Python pickles: PyTables writes one for every value that NumPy has no datatype for.

They are recognised by their bytes, and never loaded: a pickle may run any program.
"""

from __future__ import annotations

from colonnade.nodes import Group

_FIRST = b"(cdlNSVIFLgp])}\x80"
_SHORTEST = 3


def pickled_names(group: Group) -> list[str]:
    """The names of the attributes of an object that are pickles."""
    return [name for name in group.attribute_names() if is_pickled(group, name)]


def is_pickled(group: Group, name: str) -> bool:
    """Whether an attribute is a string of bytes that look like a pickle."""
    attribute = group.inspect_attribute(name)
    if attribute is None or not attribute.is_text or attribute.shape != () or not attribute.values:
        return False
    data = attribute.values[0]
    if not isinstance(data, bytes) or len(data) < _SHORTEST or not data.endswith(b"."):
        return False
    return data[0] in _FIRST and (data[0] == _FIRST[-1] or b"\n" in data)
