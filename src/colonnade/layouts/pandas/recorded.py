"""What the table format records about its columns in pickled attributes, as far as these are plain data.

The attributes of the group: `non_index_axes` has the names of the columns in their order, `levels` those of the levels
of a MultiIndex, `info` the zone, order and name of members, and the name of the column axis. Those of the table: for
each member `<member>_kind`, the names of its columns. A pickle of anything else is not read, and listed as unread.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field

from colonnade.dataclass import dataclass
from colonnade.layouts.pandas.literals import NotPlain, PlainData, PlainScalar, read_literal
from colonnade.layouts.pandas.notes import Properties
from colonnade.layouts.pandas.pickles import is_pickled
from colonnade.nodes import Node

COLUMN_AXIS_NUMBER = 1
UNREAD_IS_FINE = ("index_cols", "values_cols", "data_columns", "metadata")  # the records say the same


@dataclass
class Recorded:
    """What is known of a table. `unread`: the attributes that are not plain data."""

    order: list[PlainData] | None = None
    levels: list[str] = field(default_factory=list)
    info: Mapping[PlainScalar, PlainData] | None = None
    members: dict[str, list[PlainData]] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)

    def fact(self, member: str, name: str) -> PlainData:
        """One fact about a member: its zone ("tz"), whether its categories are ordered, the name of the index."""
        facts = (self.info or {}).get(member)
        return facts.get(name) if isinstance(facts, dict) else None

    @property
    def axis_names(self) -> list[PlainData]:
        """The names of the levels of the column axis."""
        facts = (self.info or {}).get(COLUMN_AXIS_NUMBER)
        names = facts.get("names") if isinstance(facts, dict) else None
        return names if isinstance(names, list) else []


def read_recorded(group: Node, table: Node, members: Collection[str]) -> Recorded:
    """What the attributes of a group and of its table say."""
    recorded = Recorded()
    axes = _read(group, "non_index_axes", recorded)
    if isinstance(axes, list) and len(axes) == 1 and isinstance(axes[0], tuple) and len(axes[0]) == 2:
        labels = axes[0][1]
        recorded.order = list(labels) if isinstance(labels, (list, tuple)) else None
    levels = _read(group, "levels", recorded)
    if isinstance(levels, list):
        recorded.levels = [level for level in levels if isinstance(level, str)]
    info = _read(group, "info", recorded)
    recorded.info = info if isinstance(info, dict) else None
    for member in members:
        labels = _read(table, f"{member}_kind", recorded)
        if isinstance(labels, list):
            recorded.members[member] = labels
    for node in (group, table):
        known = {*recorded.unread, "non_index_axes", "levels", "info", *(f"{member}_kind" for member in members)}
        others = [name for name in node.attribute_names() if name not in known and is_pickled(node, name)]
        recorded.unread += [name for name in others if name not in UNREAD_IS_FINE]
    return recorded


def _read(node: Node, name: str, recorded: Recorded) -> PlainData:
    """The plain data that an attribute is a pickle of; None if it is not one."""
    if not is_pickled(node, name):
        return None
    attribute = node.inspect_attribute(name)
    data = attribute.values[0] if attribute is not None else None
    try:
        return read_literal(data.rstrip(b"\0") if isinstance(data, bytes) else b"")
    except NotPlain:
        recorded.unread.append(name)
        return None


# -- names of columns --


def as_name(label: PlainData) -> str | None:
    """A name of a column as a string; None if it is of a type that names do not have."""
    if isinstance(label, str):
        return label
    if isinstance(label, bool) or label is None:
        return None
    if isinstance(label, (int, float)):
        return str(label)
    if isinstance(label, tuple) and label:
        parts = [as_name(part) for part in label]
        return None if None in parts or any(isinstance(part, tuple) for part in label) else str(tuple(parts))
    return None


def levels_of_names(labels: Sequence[PlainData], axis_names: Sequence[PlainData]) -> list[Properties]:
    """For each level of the names of columns, its properties for pandas."""
    widths = {len(label) if isinstance(label, tuple) else 0 for label in labels}
    if len(widths) != 1:
        return []
    width = widths.pop()
    by_level: list[list[PlainData]] = (
        [[label[level] for label in labels if isinstance(label, tuple)] for level in range(width)]
        if width
        else [list(labels)]
    )
    return [
        _properties(values, axis_names[level] if level < len(axis_names) else None)
        for level, values in enumerate(by_level)
    ]


def _properties(values: Sequence[PlainData], name: PlainData) -> Properties:
    properties: Properties = {"name": name} if isinstance(name, (str, int)) and not isinstance(name, bool) else {}
    kinds = {type(value) for value in values}
    if kinds == {int}:
        properties["dtype"] = "int64"
    elif kinds == {float}:
        properties["dtype"] = "float64"
    elif kinds > {str}:
        odd = {str(value): value for value in values if isinstance(value, (int, float))}
        properties["values"] = dict(odd)
    return properties
