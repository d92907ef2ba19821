"""A dataset that is a table, seen as a group: layouts, rules and everything above ask groups for their tables.

Its attributes, address and path are those of the dataset. It has no links; the search indexes of the table are next to
the dataset, in a group of its name in `_search_indexes`.
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, cast

from colonnade.model import StoredType
from colonnade.nodes.paths import join_path
from colonnade.nodes.protocols import (
    Attribute,
    Child,
    Dataset,
    EditableGroup,
    FileContext,
    Group,
    Node,
    NodeKind,
    ReferenceKind,
    ReferenceTarget,
)
from colonnade.pager.sources import ByteSource

if TYPE_CHECKING:
    from typing_extensions import TypeIs

HOME_OF_INDEXES = "_search_indexes"


class DatasetTable:
    """A dataset of a group as a group without links."""

    is_dataset = False

    def __init__(self, parent: Group, name: str, dataset: Dataset) -> None:
        self.parent = parent
        self.name = name
        self.dataset = dataset
        self.writer: object = None  # what writes the elements of the table, shared by its columns

    # -- what the dataset answers --

    @property
    def path(self) -> str:
        return self.dataset.path

    @property
    def address(self) -> int | None:
        return self.dataset.address

    @property
    def is_shared(self) -> bool:
        return self.dataset.is_shared

    @property
    def file(self) -> FileContext:
        return self.dataset.file

    def file_bytes(self) -> ByteSource | None:
        return self.dataset.file_bytes()

    def attribute_names(self) -> list[str]:
        return self.dataset.attribute_names()

    def read_attribute(self, name: str) -> object:
        return self.dataset.read_attribute(name)

    def attribute_storage(self, name: str) -> tuple[StoredType, tuple[int, ...]] | None:
        return self.dataset.attribute_storage(name)

    def inspect_attribute(self, name: str) -> Attribute | None:
        return self.dataset.inspect_attribute(name)

    def attribute_element(self, name: str) -> bytes | None:
        return self.dataset.attribute_element(name)

    def reference_addresses(self, name: str) -> list[int]:
        return self.dataset.reference_addresses(name)

    def dereference(self, reference: object) -> Node | None:
        return self.dataset.dereference(reference)

    def find_target(self, kind: ReferenceKind, data: bytes) -> ReferenceTarget | None:
        return self.dataset.find_target(kind, data)

    def full_path(self) -> str | None:
        return self.dataset.full_path()

    def in_library(self) -> DatasetTable:
        parent, dataset = self.parent.in_library(), self.dataset.in_library()
        return DatasetTable(cast("Group", parent), self.name, cast("Dataset", dataset))

    # -- a group without links; only the search indexes next to the dataset are found through it --

    def link_names(self) -> list[str]:
        return []

    def children(self, without: Container[bytes] = ()) -> list[Child]:
        return []

    def child(self, name: str) -> Child:
        return Child(name, "broken")

    def has_link(self, name: str) -> bool:
        home = self._place(name)
        return home is not None and self.parent.has_link(HOME_OF_INDEXES) and self.parent.has_link(home)

    def hard_address(self, name: str) -> int | None:
        return None

    def hard_kind(self, name: str) -> NodeKind | None:
        return None

    def link_target(self, name: str) -> str | None:
        return None

    def open_child(self, name: str) -> tuple[Child, Dataset | None]:
        return self.child(name), None

    def open_dataset(self, path: str) -> Dataset | None:
        return None

    def open_chunked(self, name: str, in_place: bool) -> Dataset | None:
        return None

    def is_compound(self, name: str) -> bool:
        return False

    def open_group(self, path: str) -> Group | None:
        home = self._place(path)
        return None if home is None or not self.has_link(path) else self.parent.open_group(home)

    def _place(self, name: str) -> str | None:
        return join_path(HOME_OF_INDEXES, self.name) if name == HOME_OF_INDEXES else None


def is_dataset_table(group: Group) -> TypeIs[DatasetTable]:
    """Whether this is a dataset that is seen as a group."""
    return isinstance(group, DatasetTable)


def attribute_holder(node: Node) -> Node:
    """The object that holds the attributes of a node: the dataset of one that is seen as a group."""
    return node.dataset if isinstance(node, DatasetTable) else node


def home_place(group: EditableGroup) -> tuple[EditableGroup, str]:
    """The group that the search indexes of a table are in, as a path below a group."""
    if is_dataset_table(group):
        return cast("EditableGroup", group.parent), join_path(HOME_OF_INDEXES, group.name)
    return group, HOME_OF_INDEXES
