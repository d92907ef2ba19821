"""A group or dataset as the rules check it: attributes, members and header exactly as stored.

Nothing is trusted and nothing is interpreted. Only hard links are followed.
"""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import Literal

from colonnade.dataclass import dataclass
from colonnade.errors import ColonnadeError
from colonnade.model import DatasetInfo, TableInfo
from colonnade.nodes import Dataset, Group
from colonnade.nodes.damage import hdf5_errors
from colonnade.nodes.paths import is_dataset, join_path
from colonnade.nodes.protocols import Attribute, Child

ObjectKind = Literal["group", "dataset"]


@dataclass
class RawNode:
    """A group or dataset that could be opened."""

    node: Group | Dataset  # by `kind`
    path: str
    kind: ObjectKind
    _attributes: dict[str, Attribute | None] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def as_group(self) -> Group:
        assert not is_dataset(self.node)  # the caller has looked at its kind
        return self.node

    @property
    def as_dataset(self) -> Dataset:
        assert is_dataset(self.node)  # the caller has looked at its kind
        return self.node

    def attribute(self, name: str) -> Attribute | None:
        """The attribute as stored; None if it does not exist."""
        if name not in self._attributes:
            self._attributes[name] = self.node.inspect_attribute(name)
        return self._attributes[name]

    def text(self, name: str) -> str | None:
        """The value of a scalar string attribute; None if it does not exist or is something else."""
        attribute = self.attribute(name)
        if (
            attribute is None
            or not attribute.is_text
            or attribute.shape != ()
            or attribute.problem is not None
            or len(attribute.values) != 1
        ):
            return None
        return attribute.texts()[0]

    @cached_property
    def children(self) -> list[Child]:
        return self.as_group.children() if self.kind == "group" else []

    @cached_property
    def header(self) -> DatasetInfo | str:
        """The header of a dataset, or a string that explains why it cannot be read."""
        try:
            return self.as_dataset.describe()
        except hdf5_errors(ColonnadeError) as error:
            return f"the header of this dataset cannot be read: {error}"

    @property
    def stored(self) -> DatasetInfo | None:
        return self.header if self.kind == "dataset" and isinstance(self.header, DatasetInfo) else None

    @property
    def shape_text(self) -> str:
        if self.kind == "group":
            return "a group"
        shape = self.stored.shape if self.stored is not None else None
        return "no shape" if shape is None else "one element" if shape == () else f"shape {shape}"

    @property
    def is_flat(self) -> bool:
        """Whether this is a dataset of rank 1."""
        return self.stored is not None and self.stored.shape is not None and len(self.stored.shape) == 1

    @property
    def length(self) -> int:
        return self.stored.shape[0] if self.stored is not None and self.stored.shape else 0


class RawTableNode(RawNode):
    """A group that is a table, and the description that readers get.

    counted: the attributes that the layout gives a table. values: whether rules may read values. bytes_read: the stored
    size of those that they have read.
    """

    counted: tuple[str, ...] = ()

    def __init__(self, group: Group, path: str, info: TableInfo, values: bool) -> None:
        super().__init__(group, path, "group")
        self.group, self.info, self.values = group, info, values
        self.bytes_read = 0

    @property
    def n_columns(self) -> int:
        return len(self.info.members)

    @property
    def n_attributes(self) -> int:
        return sum(self.attribute(name) is not None for name in self.counted)


def stored_as(attribute: Attribute | None) -> str:
    """A description of how an attribute is stored."""
    if attribute is None:
        return "no such attribute"
    shape = (
        "no elements"
        if attribute.shape is None
        else "a scalar"
        if attribute.shape == ()
        else f"an array {attribute.shape}"
    )
    return f"{shape} of {attribute.type}"


def is_link_name(name: str) -> bool:
    """Whether this can be the name of a single link."""
    return name not in ("", ".") and "/" not in name and "\0" not in name


def open_member(group: Group, name: str, kind: str | None = None) -> tuple[Group | Dataset, ObjectKind] | None:
    """The group or dataset that a hard link of this name leads to, or None. `kind`: the link's kind, if known."""
    kind = group.hard_kind(name) if kind is None else kind
    node = group.open_dataset(name) if kind == "dataset" else group.open_group(name) if kind == "group" else None
    if node is None:
        return None
    return node, "dataset" if kind == "dataset" else "group"


def raw_member(node: RawNode, name: str) -> RawNode | None:
    """A member of a group as the rules check it."""
    found = open_member(node.as_group, name) if node.kind == "group" and is_link_name(name) else None
    return None if found is None else RawNode(found[0], join_path(node.path, name), found[1])
