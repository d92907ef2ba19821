"""The counts in the attributes of an H5Col table: NROWS, GENERATION, and those of its search indexes."""

from __future__ import annotations

from colonnade.errors import CorruptError
from colonnade.layouts.h5col import names
from colonnade.nodes import Group, Node

MOST_ROWS = 2**63 - 1


def stored_rows(group: Group) -> int | None:
    """NROWS; None if there is no such attribute. A CorruptError if it is not a number of rows."""
    stored = group.inspect_attribute(names.NROWS)
    if stored is None:
        return None
    if not stored.is_integer or stored.shape != () or len(stored.values) != 1:
        shown = stored.problem or f"an attribute of {stored.type}"
        raise CorruptError(f"NROWS of {group.path} is not a number of rows, but {shown} (rule JT3)", path=group.path)
    n_rows = stored.integers[0]
    if not 0 <= n_rows <= MOST_ROWS:
        raise CorruptError(f"NROWS of {group.path} is {n_rows:,}, which no table has (rule JT3)", path=group.path)
    return n_rows


def count_of(node: Node, name: str) -> int | None:
    """An attribute that is a scalar uint64, of any byte order; None for everything else (JG4)."""
    stored = node.inspect_attribute(name)
    if stored is None or stored.type is None or not stored.is_integer or stored.shape != ():
        return None
    if stored.type.signed or stored.type.size != 8 or len(stored.values) != 1:
        return None
    return stored.integers[0]
