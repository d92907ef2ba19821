"""An AnnData element as its rules see it: attributes, members and header as they are stored.

Nothing is believed and nothing is made of anything; an object that cannot be opened has a `problem`. Only hard links
are followed. A frame is an element too, with what a reader makes of it beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from functools import cached_property
from typing import Any, Literal

from colonnade.dataclass import dataclass
from colonnade.errors import ColonnadeError
from colonnade.h5 import attributes
from colonnade.h5.attributes import BROKEN, Attribute
from colonnade.h5.datasets import DatasetInfo, describe_dataset
from colonnade.h5.links import Child, children, hard_kind, join_path, open_dataset, open_group
from colonnade.h5.nodes import is_null, is_scalar, object_at
from colonnade.layouts.anndata import names
from colonnade.layouts.anndata.describe import describe
from colonnade.model import TableInfo

Kind = Literal["group", "dataset"]


@dataclass
class SeenElement:
    """A group or dataset that says what it is, or that an older anndata would know by its looks.

    deep: whether rules may read values. rows_read: whether who reads a frame reads these rows already.
    bytes_read: of the values that rules have read, as stored.
    """

    node: Any
    path: str
    kind: Kind
    deep: bool = False
    rows_read: bool = False
    bytes_read: int = field(default=0, compare=False)
    _looked: dict[str, Attribute | None] = field(default_factory=dict, compare=False, repr=False)

    def attribute(self, name: str) -> Attribute | None:
        """The attribute as it is stored; None when there is none."""
        if name not in self._looked:
            self._looked[name] = attributes.look(self.node, name)
        return self._looked[name]

    def text(self, name: str) -> str | None:
        """What a scalar text attribute says; None when it is absent or no such text."""
        held = self.attribute(name)
        if held is None or not held.is_text or held.shape != () or held.problem is not None or len(held.values) != 1:
            return None
        return held.texts()[0]

    @cached_property
    def encoding(self) -> tuple[str | None, str | None]:
        """Its encoding-type and encoding-version, as far as they are texts."""
        return self.text(names.ENCODING_TYPE), self.text(names.ENCODING_VERSION)

    @property
    def type(self) -> str | None:
        return self.encoding[0]

    @property
    def is_marked(self) -> bool:
        """Whether it has either of the attributes that say what an element is."""
        return any(self.attribute(name) is not None for name in (names.ENCODING_TYPE, names.ENCODING_VERSION))

    def is_a(self, *pairs: tuple[str, str]) -> bool:
        return self.encoding in pairs

    @cached_property
    def children(self) -> list[Child]:
        return children(self.node) if self.kind == "group" else []

    @cached_property
    def header(self) -> DatasetInfo | str:
        """What the header of a dataset says; a text that says why it cannot be read."""
        try:
            return describe_dataset(self.node)
        except (*BROKEN, ColonnadeError) as error:
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
    def is_scalar(self) -> bool:
        return self.kind == "dataset" and is_scalar(object_at(self.node))

    @property
    def is_null(self) -> bool:
        return self.kind == "dataset" and is_null(object_at(self.node))

    @property
    def length(self) -> int:
        return self.stored.shape[0] if self.stored is not None and self.stored.shape else 0

    def member(self, name: str) -> SeenElement | None:
        """The group or dataset of this name, if a hard link leads to one that can be opened."""
        if self.kind != "group" or not _is_name(name):
            return None
        return _opened(self.node, self.path, name, hard_kind(self.node, name), self.deep, self.rows_read)

    def members(self) -> Iterator[tuple[str, SeenElement]]:
        """All groups and datasets in it that can be opened."""
        for child in self.children:
            found = _opened(self.node, self.path, child.name, child.kind, self.deep, self.rows_read)
            if found is not None:
                yield child.name, found


class SeenFrame(SeenElement):
    """A data frame, and what a reader makes of it."""

    def __init__(self, group: Any, path: str, info: TableInfo) -> None:
        super().__init__(group, path, "group")
        self.group = group
        self.info = info

    @property
    def n_columns(self) -> int:
        return len(self.info.members)

    @property
    def n_attributes(self) -> int:
        return sum(self.attribute(name) is not None for name in names.GROUP_ATTRIBUTES)

    def looked_at(self) -> set[str]:
        """The names of the columns that the rules speak of."""
        return {column.name for column in self.info.members}


def look(group: Any, path: str) -> SeenFrame:
    """The frame as its rules see it; errors are those of `describe`."""
    return SeenFrame(group, path, describe(group, path))


def elements(group: Any, path: str, deep: bool, rows_read: bool) -> Iterator[SeenElement]:
    """This group if it is an element or looks like an old one, and the datasets in it that are elements.

    rows_read: whether the group is a member of a frame, or a frame. A frame itself is not among them: it is a table.
    """
    one = SeenElement(group, path, "group", deep, rows_read)
    if one.type != names.DATAFRAME and (one.is_marked or is_old_matrix(one) or is_old_anndata(one)):
        yield one
    for _, member in one.members():
        if member.kind == "dataset" and (member.is_marked or _has_old_categories(member)):
            yield member


def is_old_matrix(one: SeenElement) -> bool:
    """Whether this is a sparse matrix of before 0.7."""
    return one.kind == "group" and not one.is_marked and one.attribute(names.OLD_FORMAT) is not None


def is_old_anndata(one: SeenElement) -> bool:
    """Whether this is an AnnData object of 0.7, whose group says nothing and whose frames do."""
    if one.kind != "group" or one.is_marked or not {"obs", "var"} <= {child.name for child in one.children}:
        return False
    frames = (one.member("obs"), one.member("var"))
    return all(frame is not None and frame.type == names.DATAFRAME for frame in frames)


def _has_old_categories(one: SeenElement) -> bool:
    held = one.attribute(names.LEGACY_CATEGORIES)
    return held is not None and held.is_references


def _is_name(name: str) -> bool:
    return name not in ("", ".") and "/" not in name and "\0" not in name


def _opened(group: Any, path: str, name: str, kind: str | None, deep: bool, rows_read: bool) -> SeenElement | None:
    where = join_path(path, name)
    if kind == "dataset":
        node = open_dataset(group, name)
        return None if node is None else SeenElement(node, where, "dataset", deep, rows_read)
    node = open_group(group, name) if kind == "group" else None
    return None if node is None else SeenElement(node, where, "group", deep, rows_read)
