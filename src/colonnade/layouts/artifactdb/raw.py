"""An ArtifactDB data frame for its rules: group, columns, metadata and directory, exactly as stored.

`describe` interprets a frame leniently; nothing is interpreted here. The generation whose rules apply is the one the
frame declares, or the one that was requested.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from functools import cached_property
from pathlib import Path

from colonnade.dataclass import dataclass
from colonnade.errors import ColonnadeError, UnsupportedError
from colonnade.layouts.artifactdb import names
from colonnade.layouts.artifactdb.describe import INT32_MIN, describe, generation_of
from colonnade.layouts.artifactdb.metadata import (
    ColumnClaim,
    Metadata,
    ObjectFile,
    metadata_of,
    metadata_of_file,
    read_object_file,
)
from colonnade.layouts.artifactdb.names import Generation
from colonnade.layouts.artifactdb.rules_values import TextFacts, all_texts, check_strings
from colonnade.layouts.raw_node import RawNode, raw_member
from colonnade.model import StoredType, TableInfo
from colonnade.nodes import Group
from colonnade.nodes.damage import hdf5_errors
from colonnade.nodes.paths import join_path

FLAT_TEXTS = "a 1-D dataset of strings"
VERSION_PATTERN = re.compile(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)")
MOST_NAMED = 3  # strange names that are reported one by one


@dataclass
class RawFrame:
    """A data frame, or a group that is declared to be one. node: its group; None if there is no such group.

    deep: whether rules may read values. bytes_read: how many stored bytes of values they have read.
    """

    group: Group
    path: str
    info: TableInfo
    node: RawNode | None
    generation: Generation
    metadata: Metadata | None = None
    folder: Path | None = None
    deep: bool = False
    bytes_read: int = field(default=0, compare=False)

    @property
    def n_columns(self) -> int:
        return len(self.info.members)

    @property
    def n_attributes(self) -> int:
        held = [self.node.attribute(name) for name in names.GROUP_ATTRIBUTES] if self.node is not None else []
        return sum(one is not None for one in held)

    def checked_columns(self) -> set[str]:
        """The columns whose values the checker reads: none, since these rules read stored values themselves."""
        return set()

    @property
    def is_directory(self) -> bool:
        return self.generation.family == "directory"

    @property
    def is_self_described(self) -> bool:
        return self.generation.is_self_described

    def member(self, name: str) -> RawNode | None:
        return None if self.node is None else raw_member(self.node, name)

    def kind_of(self, name: str) -> str | None:
        """The kind of object that the link of this name leads to; None if there is no link."""
        return None if self.node is None else self.node.as_group.hard_kind(name)

    @cached_property
    def file(self) -> Path | None:
        """The path of the HDF5 file; None if it is not a file on disk."""
        return self.group.file.place

    @cached_property
    def object_file(self) -> ObjectFile | str | None:
        """The OBJECT of the directory, or a message why it cannot be read; None if this is not a directory."""
        try:
            return None if self.folder is None else read_object_file(self.folder)
        except ColonnadeError as error:
            return str(error)

    @cached_property
    def names(self) -> list[bytes | None] | None:
        """The strings of `column_names`, None for each null pointer; None if it is not a 1-D dataset of strings."""
        listed = self.member(names.COLUMN_NAMES)
        if listed is None or not is_text(listed) or not listed.is_flat:
            return None
        try:
            is_claimed = listed.length > listed.as_dataset.written_rows() + names.MOST_UNWRITTEN_NAMES
            return None if is_claimed else all_texts(listed)
        except hdf5_errors(ColonnadeError, MemoryError):
            return None

    @cached_property
    def data(self) -> RawNode | None:
        found = self.member(names.DATA)
        return found if found is not None and found.kind == "group" else None

    @cached_property
    def claims(self) -> tuple[ColumnClaim, ...]:
        return self.metadata.columns if self.metadata is not None else ()

    @cached_property
    def n_rows(self) -> int | None:
        """The number of rows according to `row-count` or the metadata; None if neither has it."""
        if self.generation.family != "legacy" and self.node is not None:
            held = self.node.attribute(names.ROW_COUNT)
            if held is not None and held.shape == () and len(held.integers) == 1:
                return held.integers[0]
        return self.metadata.n_rows if self.metadata is not None else None

    @cached_property
    def columns(self) -> list[RawColumn]:
        """Every column of `column_names`, or else of the metadata. Those in `data` have a node."""
        count = len(self.names) if self.names is not None else len(self.claims)
        return [RawColumn(self, position) for position in range(count)]

    @property
    def placed(self) -> Iterator[RawColumn]:
        """The columns that are in the file."""
        return (column for column in self.columns if column.node is not None)


@dataclass
class RawColumn:
    """One column: its declared type, and the group or dataset `data/<position>`."""

    frame: RawFrame
    position: int

    @property
    def path(self) -> str:
        return join_path(join_path(self.frame.path, names.DATA), str(self.position))

    @property
    def link(self) -> str | None:
        """The kind of object that the link of its name leads to; None if there is no link."""
        return None if self.frame.data is None else self.frame.data.as_group.hard_kind(str(self.position))

    @cached_property
    def node(self) -> RawNode | None:
        return None if self.frame.data is None else raw_member(self.frame.data, str(self.position))

    @property
    def claim(self) -> ColumnClaim | None:
        """The column's entry in the metadata."""
        return self.frame.claims[self.position] if self.position < len(self.frame.claims) else None

    @cached_property
    def type(self) -> str | None:
        """The declared type: from its attribute, or from the metadata."""
        if self.frame.is_self_described:
            return None if self.node is None else self.node.text(names.TYPE)
        return self.claim.kind if self.claim is not None else None

    @cached_property
    def format(self) -> str:
        """The declared format of its strings; "none" if there is no declaration."""
        if self.frame.is_self_described:
            return (self.node.text(names.FORMAT) if self.node is not None else None) or "none"
        return (self.claim.text_format if self.claim is not None else None) or "none"

    def part(self, name: str) -> RawNode | None:
        """A dataset in the column's group; None if there is none of this name."""
        found = raw_member(self.node, name) if self.node is not None else None
        return found if found is not None and found.kind == "dataset" else None

    @cached_property
    def rows(self) -> RawNode | None:
        """The dataset with its rows: the column itself, its codes, or its pointers."""
        if self.node is None or self.node.kind == "dataset":
            return self.node
        return self.part({names.FACTOR: names.CODES, names.VLS: names.POINTERS}.get(self.type or "", names.CODES))

    @property
    def stored(self) -> StoredType | None:
        return self.rows.stored.type if self.rows is not None and self.rows.stored is not None else None

    @property
    def is_text(self) -> bool:
        return self.rows is not None and is_text(self.rows)

    @property
    def has_pointers(self) -> bool:
        return self.node is not None and self.node.kind == "group" and self.type == names.VLS

    @property
    def marks_by_attribute(self) -> bool:
        """Whether an attribute holds the placeholder of missing rows. It does not for numbers of hdf5_data_frame 1."""
        made = self.frame.generation
        return made.family != "legacy" or made.hdf5 > 1 or self.is_text

    @property
    def mark(self) -> bytes | int | None:
        """The placeholder of missing rows, as bytes of a string or an integer; None if there is none, or for floats."""
        if not self.marks_by_attribute:
            return INT32_MIN
        held = self.rows.attribute(names.PLACEHOLDER) if self.rows is not None else None
        if held is None or held.shape != () or len(held.values) != 1 or not (held.is_text or held.is_integer):
            return None
        value = held.values[0]
        return value.split(b"\0")[0] if isinstance(value, bytes) else held.integers[0]

    @cached_property
    def texts(self) -> TextFacts:
        """What is wrong with its strings, which are read once."""
        assert self.rows is not None  # the caller has checked it
        mark = self.mark if isinstance(self.mark, bytes) else None
        return check_strings(self.rows, self.format if self.type == names.STRING else "none", mark)


def is_text(one: RawNode) -> bool:
    return one.stored is not None and one.stored.type.kind in ("string", "text")


# -- frames, and groups that are declared to be frames --


def inspect(group: Group, path: str, deep: bool, variant: object) -> RawFrame:
    """The frame for its rules. Raises the errors of `describe`."""
    asked = variant if isinstance(variant, Generation) else None
    frame = _inspect(group, path, deep, asked, RawNode(group, path, "group"))
    try:
        frame.info = describe(group, path)
    except UnsupportedError as error:
        error.rule = {"directory": "DO2", "versioned": "DG2", "legacy": "DJ2"}[frame.generation.family]
        raise
    return frame


def _inspect(group: Group, path: str, deep: bool, asked: Generation | None, node: RawNode | None) -> RawFrame:
    metadata = metadata_of(group, path)
    made = asked if asked is not None else generation_of(group, metadata)
    file = group.file.place
    in_folder = made.family == "directory" and file is not None
    frame = RawFrame(
        group=group,
        path=path,
        info=TableInfo(path, "artifactdb", 0),
        node=node,
        generation=made,
        metadata=metadata if made.family != "directory" else None,
        folder=file.parent if in_folder and file is not None else None,
        deep=deep,
    )
    if asked is not None and asked.family == "directory" and isinstance(frame.object_file, ObjectFile):
        frame.generation = Generation("directory", frame.object_file.version or asked.version)
    return frame


def claimed(group: Group, path: str, deep: bool, asked: Generation | None) -> RawFrame | None:
    """A group that is not a frame but is declared to be one, by a sidecar file or by its own attributes; else None.

    A declared frame that does not exist, or has none of the members of a frame, is reported for the root group.
    """
    if path != "/" and not _has_hints(group):
        return None  # without reading sidecar files: there may be very many groups
    declared_path = _declared_path(group, asked)
    if path == declared_path:
        return _inspect(group, path, deep, asked, RawNode(group, path, "group"))
    if path == "/" and declared_path is not None:
        there = group.open_group(declared_path)
        if there is None or not _has_hints(there):
            return _inspect(
                group, declared_path, deep, asked, None if there is None else RawNode(there, declared_path, "group")
            )
    one = RawNode(group, path, "group")
    has_members = any(group.hard_kind(name) is not None for name in (names.COLUMN_NAMES, names.DATA))
    if has_members and one.attribute(names.ROW_COUNT) is not None:
        return _inspect(group, path, deep, asked, one)
    return None


def _has_hints(group: Group) -> bool:
    """Whether a group has any member or attribute of a frame."""
    if any(group.hard_kind(name) is not None for name in (names.COLUMN_NAMES, names.DATA)):
        return True
    return any(group.attribute_storage(name) is not None for name in names.GROUP_ATTRIBUTES)


def _declared_path(group: Group, asked: Generation | None) -> str | None:
    """The path of this file's frame according to its directory or its metadata."""
    metadata = metadata_of_file(group)
    made = asked if asked is not None else generation_of(group, metadata)
    if made.family == "directory":
        return f"/{names.DIRECTORY_GROUP}"
    return f"/{metadata.group}" if metadata is not None else None


def stored_text(one: RawNode) -> str:
    """The shape and the stored type of a dataset, for messages."""
    return one.shape_text if one.stored is None else f"{one.shape_text} of {one.stored.type}"
