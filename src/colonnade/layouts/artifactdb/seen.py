"""An ArtifactDB data frame as its rules see it: group, columns, metadata and directory, as they are stored.

`describe` says what can be made of a frame, leniently. Here nothing is made of anything. Which generation's rules apply
is what the frame says, or what was asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any

from colonnade.dataclass import dataclass
from colonnade.errors import ColonnadeError, UnsupportedError
from colonnade.h5 import attributes
from colonnade.h5.damage import hdf5_errors
from colonnade.h5.datasets import written_rows
from colonnade.h5.links import hard_kind, join_path, open_group
from colonnade.h5.outside import file_place
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
from colonnade.layouts.artifactdb.rules_values import TextFacts, all_texts, look_at_texts
from colonnade.layouts.seen_node import SeenNode, seen_member
from colonnade.model import StoredType, TableInfo

FLAT_TEXTS = "a 1-D dataset of texts"
VERSION = re.compile(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)")
MOST_NAMED = 3  # names of one kind that are listed one by one


@dataclass
class SeenFrame:
    """A data frame, or what is said to be one. node: its group; None where that is not there.

    deep: whether rules may read values. bytes_read: of the values that they have read, as stored.
    """

    group: Any
    path: str
    info: TableInfo
    node: SeenNode | None
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

    def looked_at(self) -> set[str]:
        """None: the rules read the values themselves, as they are stored."""
        return set()

    @property
    def is_directory(self) -> bool:
        return self.generation.family == "directory"

    @property
    def is_self_described(self) -> bool:
        return self.generation.is_self_described

    def member(self, name: str) -> SeenNode | None:
        return None if self.node is None else seen_member(self.node, name)

    def kind_of(self, name: str) -> str | None:
        """What the link of this name leads to; None when there is none."""
        return None if self.node is None else hard_kind(self.node.node, name)

    @cached_property
    def file(self) -> Path | None:
        """The HDF5 file, where it is one on disk."""
        return file_place(self.group)

    @cached_property
    def object_file(self) -> ObjectFile | str | None:
        """The OBJECT of the directory; a text that says why it cannot be read."""
        try:
            return None if self.folder is None else read_object_file(self.folder)
        except ColonnadeError as error:
            return str(error)

    @cached_property
    def names(self) -> list[bytes | None] | None:
        """What `column_names` holds, None for a text that is not there; None when it is no 1-D dataset of texts."""
        listed = self.member(names.COLUMN_NAMES)
        if listed is None or not is_text(listed) or not listed.is_flat:
            return None
        try:
            is_claimed = listed.length > written_rows(listed.node) + names.MOST_UNWRITTEN
            return None if is_claimed else all_texts(listed)
        except hdf5_errors(ColonnadeError, MemoryError):
            return None

    @cached_property
    def data(self) -> SeenNode | None:
        found = self.member(names.DATA)
        return found if found is not None and found.kind == "group" else None

    @cached_property
    def claims(self) -> tuple[ColumnClaim, ...]:
        return self.metadata.columns if self.metadata is not None else ()

    @cached_property
    def n_rows(self) -> int | None:
        """How many rows the frame says it has: by `row-count`, or by metadata; None where neither can be told."""
        if self.generation.family != "legacy" and self.node is not None:
            held = self.node.attribute(names.ROW_COUNT)
            if held is not None and held.is_integer and held.shape == () and len(held.values) == 1:
                return int(held.values[0])
        return self.metadata.n_rows if self.metadata is not None else None

    @cached_property
    def columns(self) -> list[SeenColumn]:
        """Every column that names, metadata or members speak of; those in `data` have a node."""
        count = len(self.names) if self.names is not None else len(self.claims)
        return [SeenColumn(self, position) for position in range(count)]

    @property
    def placed(self) -> Iterator[SeenColumn]:
        """The columns that are in the file."""
        return (column for column in self.columns if column.node is not None)


@dataclass
class SeenColumn:
    """One column: what it is said to be, and the group or dataset `data/<position>`."""

    frame: SeenFrame
    position: int

    @property
    def path(self) -> str:
        return join_path(join_path(self.frame.path, names.DATA), str(self.position))

    @property
    def link(self) -> str | None:
        """What the link of its name leads to; None when there is none."""
        return None if self.frame.data is None else hard_kind(self.frame.data.node, str(self.position))

    @cached_property
    def node(self) -> SeenNode | None:
        return None if self.frame.data is None else seen_member(self.frame.data, str(self.position))

    @property
    def claim(self) -> ColumnClaim | None:
        """What the metadata say of it."""
        return self.frame.claims[self.position] if self.position < len(self.frame.claims) else None

    @cached_property
    def type(self) -> str | None:
        """What it is said to be: by itself, or by metadata."""
        if self.frame.is_self_described:
            return None if self.node is None else self.node.text(names.TYPE)
        return self.claim.kind if self.claim is not None else None

    @cached_property
    def format(self) -> str:
        """What its text must look like; "none" where nothing is said."""
        if self.frame.is_self_described:
            return (self.node.text(names.FORMAT) if self.node is not None else None) or "none"
        return (self.claim.text_format if self.claim is not None else None) or "none"

    def part(self, name: str) -> SeenNode | None:
        """A dataset in the group of the column."""
        found = seen_member(self.node, name) if self.node is not None else None
        return found if found is not None and found.kind == "dataset" else None

    @cached_property
    def rows(self) -> SeenNode | None:
        """The dataset that has its rows: itself, codes, or pointers."""
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
        """Whether an attribute says what marks missing rows; of old numbers it does not."""
        made = self.frame.generation
        return made.family != "legacy" or made.hdf5 > 1 or self.is_text

    @property
    def mark(self) -> bytes | int | None:
        """What marks missing rows: the bytes of a text, or an integer; None where nothing does, or it is a float."""
        if not self.marks_by_attribute:
            return INT32_MIN
        held = self.rows.attribute(names.PLACEHOLDER) if self.rows is not None else None
        if held is None or held.shape != () or len(held.values) != 1 or not (held.is_text or held.is_integer):
            return None
        value = held.values[0]
        return value.split(b"\0")[0] if isinstance(value, bytes) else int(value)

    @cached_property
    def texts(self) -> TextFacts:
        """What its texts show; they are read once."""
        assert self.rows is not None  # by who asks
        mark = self.mark if isinstance(self.mark, bytes) else None
        return look_at_texts(self.rows, self.format if self.type == names.STRING else "none", mark)


def is_text(one: SeenNode) -> bool:
    return one.stored is not None and one.stored.type.kind in ("string", "text")


# -- frames, and what is said to be one --


def look(group: Any, path: str, deep: bool, asked: Generation | None) -> SeenFrame:
    """The frame as its rules see it; errors are those of `describe`."""
    frame = _look(group, path, deep, asked, SeenNode(group, path, "group"))
    try:
        frame.info = describe(group, path)
    except UnsupportedError as error:
        rule = {"directory": "DO2", "versioned": "DG2", "legacy": "DJ2"}[frame.generation.family]
        raise UnsupportedError(error.message, **{**error.facts, "rule": rule}) from error
    return frame


def _look(group: Any, path: str, deep: bool, asked: Generation | None, node: SeenNode | None) -> SeenFrame:
    metadata = metadata_of(group, path)
    made = asked if asked is not None else generation_of(group, metadata)
    file = file_place(group)
    in_folder = made.family == "directory" and file is not None
    frame = SeenFrame(
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


def claimed(group: Any, path: str, deep: bool, asked: Generation | None) -> SeenFrame | None:
    """A group that is no frame but is said to be one, by what stands beside the file or by its own attributes.

    Of a frame that is not there, or that has nothing of one, the root is asked.
    """
    if path != "/" and not _has_hints(group):
        return None  # without a look at what stands beside the file: there may be very many groups
    said = _said_path(group, asked)
    if path == said:
        return _look(group, path, deep, asked, SeenNode(group, path, "group"))
    if path == "/" and said is not None:
        there = open_group(group, said)
        if there is None or not _has_hints(there):
            return _look(group, said, deep, asked, None if there is None else SeenNode(there, said, "group"))
    one = SeenNode(group, path, "group")
    has_members = any(hard_kind(group, name) is not None for name in (names.COLUMN_NAMES, names.DATA))
    if has_members and one.attribute(names.ROW_COUNT) is not None:
        return _look(group, path, deep, asked, one)
    return None


def _has_hints(group: Any) -> bool:
    """Whether a group has anything of a frame."""
    if any(hard_kind(group, name) is not None for name in (names.COLUMN_NAMES, names.DATA)):
        return True
    return any(attributes.storage_of(group, name) is not None for name in names.GROUP_ATTRIBUTES)


def _said_path(group: Any, asked: Generation | None) -> str | None:
    """Where the frame of this file is, as its directory or its metadata say."""
    file = file_place(group)
    metadata = metadata_of_file(file) if file is not None else None
    made = asked if asked is not None else generation_of(group, metadata)
    if made.family == "directory":
        return f"/{names.DIRECTORY_GROUP}"
    return f"/{metadata.group}" if metadata is not None else None


def stored_text(one: SeenNode) -> str:
    """How a group or dataset is stored, in words."""
    return one.shape_text if one.stored is None else f"{one.shape_text} of {one.stored.type}"
