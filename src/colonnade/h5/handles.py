"""Handles of libhdf5 that can be asked what `nodes.protocols` names: one of its two implementations.

Files open for changes are read through these, and whatever our own reader of HDF5's bytes (`format/nodes.py`) does not
know. A handle is also what h5py hands out for its object (`GroupID`, `DatasetID`), so every function of `h5/` takes it.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from h5py import h5d, h5g, h5i

from colonnade.arrays import Image, Octets
from colonnade.h5 import arrays, attributes, chunks, datasets, links, references
from colonnade.h5.datasets import DatasetPlan
from colonnade.h5.vetting import OpenFile, creation_of, open_file_of, raw_bytes
from colonnade.model import ColumnInfo, DatasetInfo, FilterInfo, StoredType
from colonnade.nodes import (
    DatasetHandle,
    EditableDataset,
    EditableGroup,
    EditableNode,
    GroupHandle,
    Node,
)
from colonnade.nodes.chunk_source import ChunkSource
from colonnade.nodes.heap_source import HeapSource
from colonnade.nodes.protocols import Attribute, Child, NodeKind, ReferenceKind, ReferenceTarget
from colonnade.pager.sources import ByteSource

if TYPE_CHECKING:
    from h5py.h5t import TypeID


class _LibraryNode:
    """What every object can be asked. The handle is the object itself, so `self` is given to the functions."""

    if TYPE_CHECKING:

        @property
        def id(self) -> int: ...
        @property
        def valid(self) -> bool: ...

    @property
    def path(self) -> str:
        return datasets.object_name(self)

    @property
    def address(self) -> int | None:
        return links.address(self)

    @property
    def is_shared(self) -> bool:
        return links.is_shared(self)

    @property
    def file(self) -> OpenFile:
        return open_file_of(self)

    def file_bytes(self) -> ByteSource | None:
        return raw_bytes(self)

    def attribute_names(self) -> list[str]:
        return attributes.stored_names(self)

    def read_attribute(self, name: str) -> object:
        return attributes.read_stored(self, name)

    def attribute_storage(self, name: str) -> tuple[StoredType, tuple[int, ...]] | None:
        return attributes.stored_form(self, name)

    def inspect_attribute(self, name: str) -> Attribute | None:
        return attributes.inspect_stored(self, name)

    def attribute_element(self, name: str) -> bytes | None:
        return attributes.read_element(self, name)

    def reference_addresses(self, name: str) -> list[int]:
        return attributes.read_addresses(self, name)

    def in_library(self) -> Node:
        return cast("Node", self)

    def dereference(self, reference: Any) -> EditableNode | None:
        opened = links.dereference(self, reference)
        return None if opened is None else node_of(opened)

    def find_target(self, kind: ReferenceKind, data: bytes) -> ReferenceTarget | None:
        target = references.find_target(self, kind, data)
        return None if target is None else ReferenceTarget(node_of(target[0]), target[1], target[2])

    def full_path(self) -> str | None:
        path = datasets.object_name(self)
        return None if path == "?" else path


class LibraryGroup(_LibraryNode, h5g.GroupID):
    """A group that libhdf5 has open."""

    is_dataset = False

    def link_names(self) -> list[str]:
        return links.link_names(self)

    def children(self, without: Container[bytes] = ()) -> list[Child]:
        return links.children(self, without)

    def child(self, name: str) -> Child:
        return links.child_of(self, name)

    def has_link(self, name: str) -> bool:
        return links.exists(self, name)

    def hard_address(self, name: str) -> int | None:
        return links.hard_address(self, name)

    def hard_kind(self, name: str) -> NodeKind | None:
        return links.hard_kind(self, name)

    def link_target(self, name: str) -> str | None:
        return links.link_target(self, name)

    def open_child(self, name: str) -> tuple[Child, EditableDataset | None]:
        child, opened = links.open_child(self, name)
        return child, None if opened is None else LibraryDataset.of(opened)

    def open_dataset(self, path: str) -> EditableDataset | None:
        opened = links.open_dataset(self, path)
        return None if opened is None else LibraryDataset.of(opened)

    def is_compound(self, name: str) -> bool:
        dataset = self.open_dataset(name) if self.hard_kind(name) == "dataset" else None
        return dataset is not None and datasets.is_compound(dataset)

    def open_chunked(self, name: str, in_place: bool) -> EditableDataset | None:
        opened = links.open_chunked(self, name, in_place)
        return None if opened is None else LibraryDataset.of(opened)

    def open_group(self, path: str) -> EditableGroup | None:
        opened = links.open_group(self, path)
        return None if opened is None else LibraryGroup.of(opened)

    @classmethod
    def of(cls, handle: GroupHandle) -> LibraryGroup:
        """A handle of h5py as a node, which owns a share of its number in the library."""
        if isinstance(handle, cls):
            return handle
        h5i.inc_ref(handle)
        return cls(handle.id)


class LibraryDataset(_LibraryNode, h5d.DatasetID):
    """A dataset that libhdf5 has open."""

    is_dataset = True

    @property
    def shape(self) -> tuple[int, ...]:
        return arrays.shape_of(self)

    @property
    def is_null(self) -> bool:
        return arrays.is_null(self)

    @property
    def chunk_shape(self) -> tuple[int, ...] | None:
        creation = creation_of(self)
        return tuple(creation.get_chunk()) if creation.get_layout() == h5d.CHUNKED else None

    def describe(self) -> DatasetInfo:
        return datasets.describe_dataset(self)

    def stored_bytes(self) -> int:
        return self.get_storage_size()

    def written_rows(self) -> int:
        return datasets.written_rows(self)

    def reading(
        self, info: DatasetInfo | ColumnInfo, start: int, count: int, step: int = 1
    ) -> AbstractContextManager[Image]:
        return datasets.reading(self, info, start, count, step)

    def chunk_source(
        self, dtype: np.dtype | None, filters: Sequence[FilterInfo], look: bytes | None = None
    ) -> ChunkSource | None:
        return chunks.open_source(self, dtype, filters, look)

    def heap_source(self, stored: StoredType, filters: Sequence[FilterInfo]) -> HeapSource | None:
        return chunks.open_heap(self, stored, filters)

    def type_in_file(self) -> StoredType | None:
        return datasets.type_in_file(self)

    def matrix_shape(self) -> tuple[int, int] | None:
        return datasets.matrix_shape(self)

    def read_matrix(self, rows: tuple[int, int], columns: tuple[int, int]) -> Octets:
        return datasets.read_matrix(self, rows, columns)

    def array_dtype(self) -> np.dtype:
        return arrays.dtype_of(self)

    def check_readable(self, count: int) -> None:
        arrays.check_readable(self, count)

    def read_array(self, part: tuple[slice, ...] = ()) -> np.ndarray:
        return arrays.read_checked(self, part)

    @classmethod
    def of(cls, handle: DatasetHandle) -> LibraryDataset:
        """A handle of h5py as a node, which owns a share of its number in the library."""
        if isinstance(handle, cls):
            return handle
        h5i.inc_ref(handle)
        return cls(handle.id)


def node_of(handle: Any) -> EditableNode:
    """A handle of h5py as a node; that of a committed datatype as it is."""
    if isinstance(handle, h5g.GroupID):
        return LibraryGroup.of(handle)
    return LibraryDataset.of(handle) if isinstance(handle, h5d.DatasetID) else handle


# -- new objects --


def create_group(group: GroupHandle, path: str, large_attributes: bool = False) -> EditableGroup:
    """A new group at a path below `group`: see `links.create_group`."""
    return LibraryGroup.of(links.create_group(group, path, large_attributes))


def create_dataset(
    group: GroupHandle, name: str, plan: DatasetPlan, n_rows: int = 0, type_id: TypeID | None = None
) -> EditableDataset:
    """A new one-dimensional dataset: see `datasets.create_dataset`."""
    return LibraryDataset.of(datasets.create_dataset(group, name, plan, n_rows, type_id))


def create_matrix(
    group: GroupHandle, name: str, shape: tuple[int, int], chunk: tuple[int, int], filters: str = "none"
) -> EditableDataset:
    """A new matrix of bytes: see `datasets.create_matrix`."""
    return LibraryDataset.of(datasets.create_matrix(group, name, shape, chunk, filters))


def with_large_attributes(group: GroupHandle, path: str) -> EditableGroup:
    """The group replaced by one for large attributes: see `links.with_large_attributes`."""
    return LibraryGroup.of(links.with_large_attributes(group, path))
