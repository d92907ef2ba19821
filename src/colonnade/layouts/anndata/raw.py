"""An AnnData element as its rules check it: attributes, members and header exactly as stored.

Nothing is trusted and nothing is interpreted; an object that cannot be opened has a `problem`. Only hard links are
followed. A frame is an element too, and also has the description that readers get.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from functools import cached_property

from colonnade.dataclass import dataclass
from colonnade.layouts.anndata import names
from colonnade.layouts.anndata.describe import describe
from colonnade.layouts.raw_node import RawNode, is_link_name, open_member
from colonnade.model import TableInfo
from colonnade.nodes import Group
from colonnade.nodes.paths import join_path


@dataclass
class RawElement(RawNode):
    """A group or dataset with encoding attributes, or one that an older anndata recognises by its members.

    deep: whether rules may read values. rows_read: whether these rows are already read as part of a frame.
    bytes_read: the stored size of the values that rules have read.
    """

    deep: bool = False
    rows_read: bool = False
    bytes_read: int = field(default=0, compare=False)

    @cached_property
    def encoding(self) -> tuple[str | None, str | None]:
        """Its encoding-type and encoding-version, each None if it is not a string."""
        return self.text(names.ENCODING_TYPE), self.text(names.ENCODING_VERSION)

    @property
    def type(self) -> str | None:
        return self.encoding[0]

    @property
    def is_marked(self) -> bool:
        """Whether it has encoding-type or encoding-version."""
        return any(self.attribute(name) is not None for name in (names.ENCODING_TYPE, names.ENCODING_VERSION))

    def is_a(self, *pairs: tuple[str, str]) -> bool:
        return self.encoding in pairs

    @property
    def is_scalar(self) -> bool:
        return self.kind == "dataset" and not self.as_dataset.is_null and self.as_dataset.shape == ()

    @property
    def is_null(self) -> bool:
        return self.kind == "dataset" and bool(self.as_dataset.is_null)

    def member(self, name: str) -> RawElement | None:
        """The group or dataset of this name, if a hard link leads to one that can be opened."""
        if self.kind != "group" or not is_link_name(name):
            return None
        return _opened(self.as_group, self.path, name, None, self.deep, self.rows_read)

    def members(self) -> Iterator[tuple[str, RawElement]]:
        """All member groups and datasets that can be opened."""
        for child in self.children:
            found = _opened(self.as_group, self.path, child.name, child.kind, self.deep, self.rows_read)
            if found is not None:
                yield child.name, found


class RawFrame(RawElement):
    """A data frame, and the description that readers get."""

    def __init__(self, group: Group, path: str, info: TableInfo) -> None:
        super().__init__(group, path, "group")
        self.group = group
        self.info = info

    @property
    def n_columns(self) -> int:
        return len(self.info.members)

    @property
    def n_attributes(self) -> int:
        return sum(self.attribute(name) is not None for name in names.GROUP_ATTRIBUTES)

    def checked_columns(self) -> set[str]:
        """The names of the columns whose values are to be checked."""
        return {column.name for column in self.info.members}


def inspect(group: Group, path: str) -> RawFrame:
    """The frame as its rules check it. Raises what `describe` raises."""
    return RawFrame(group, path, describe(group, path))


def elements(group: Group, path: str, deep: bool, rows_read: bool) -> Iterator[RawElement]:
    """This group if it is an element or looks like an old one, and the datasets in it that are elements.

    rows_read: whether the group is a frame or a member of one. A frame itself is not included: it is a table.
    """
    node = RawElement(group, path, "group", deep, rows_read)
    if node.type != names.DATAFRAME and (node.is_marked or is_old_matrix(node) or is_old_anndata(node)):
        yield node
    for _, member in node.members():
        if member.kind == "dataset" and (member.is_marked or _has_old_categories(member)):
            yield member


def is_old_matrix(node: RawElement) -> bool:
    """Whether this is a sparse matrix written before 0.7."""
    return node.kind == "group" and not node.is_marked and node.attribute(names.OLD_FORMAT) is not None


def is_old_anndata(node: RawElement) -> bool:
    """Whether this is an AnnData object of 0.7: the group has no encoding attributes, but its frames do."""
    if node.kind != "group" or node.is_marked or not {"obs", "var"} <= {child.name for child in node.children}:
        return False
    frames = (node.member("obs"), node.member("var"))
    return all(frame is not None and frame.type == names.DATAFRAME for frame in frames)


def _has_old_categories(node: RawElement) -> bool:
    attribute = node.attribute(names.LEGACY_CATEGORIES)
    return attribute is not None and attribute.is_references


def _opened(group: Group, path: str, name: str, kind: str | None, deep: bool, rows_read: bool) -> RawElement | None:
    found = open_member(group, name, kind)
    return None if found is None else RawElement(found[0], join_path(path, name), found[1], deep, rows_read)
