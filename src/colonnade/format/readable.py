"""Groups and datasets of a file, read from its bytes, as `nodes.protocols` wants them. libhdf5 is not needed.

`format/nodes.py` finds the objects and parses them; this module answers what the rooms above ask. What it does not know
is left to libhdf5: `ReadFile.library` opens the same object there, which answers the same questions. Without it such an
object is an UnsupportedError when it is described or read.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Never, TypeVar, cast

import numpy as np

from colonnade import kernels, limits
from colonnade.arrays import Image, Octets
from colonnade.errors import ColonnadeError, CorruptError, UnsupportedError, UsageError
from colonnade.filters.chunk_reader import ChunkReader
from colonnade.filters.read_plan import MOST_AT_ONCE, ChunkForm
from colonnade.filters.undo import Pipeline
from colonnade.format.attributes import StoredAttribute
from colonnade.format.chunk_maps import RunMap, ShiftedBytes, StoredChunkMap
from colonnade.format.datatype import in_memory
from colonnade.format.elements import decode_elements, dtype_as_stored, to_memory
from colonnade.format.global_heap import GlobalHeap, reference_dtype
from colonnade.format.headers import reference_count
from colonnade.format.links import Link
from colonnade.format.nodes import ByteDataset, ByteFile, ByteGroup, ByteNode
from colonnade.format.source import UnknownToReader
from colonnade.model import DEFAULT_CHUNK_ROWS, ColumnInfo, DatasetInfo, FilterInfo, StoredType
from colonnade.nodes.attributes import plain_value
from colonnade.nodes.chunk_source import ChunkLocator, ChunkSource
from colonnade.nodes.elements import claims_too_much, is_shown_as_stored
from colonnade.nodes.heap_source import AS_BYTES, HeapSource, check_lengths
from colonnade.nodes.paths import decode_name, encode_name, join_path
from colonnade.nodes.protocols import Attribute, Child, NodeKind, ObjectReference
from colonnade.pager.sources import ByteSource
from colonnade.stored_dtypes import LARGEST_ELEMENT

if TYPE_CHECKING:
    from colonnade.nodes import Dataset, Group, Node
    from colonnade.nodes.protocols import FileContext

T = TypeVar("T")
_MOST_SOFT_LINKS = 32
_MOST_COMPACT = 1 << 16  # bytes that a header has room for, whatever it claims
_PIECE_BYTES = 32 << 20  # of rows between those that are wanted, read at a time
_FAR_APART = 1 << 16  # bytes between rows that are not read with those between them
_KINDS: dict[type, NodeKind] = {ByteGroup: "group", ByteDataset: "dataset"}
_INSPECTED = ("string", "text", "integer", "boolean", "object_reference")


class ReadFile:
    """A file whose objects are read from its bytes.

    library: opens the object at a path, or at an address, through libhdf5; None if libhdf5 is not to be used.
    left_to_library: the paths of objects that it was used for, and why.
    """

    def __init__(
        self,
        file: ByteFile,
        bytes_: ByteSource,
        context: FileContext,
        library: Callable[[str, int | None], Node | None] | None,
    ) -> None:
        self.file = file
        self.bytes = bytes_
        self.context = context
        self.library = library
        self.left_to_library: dict[str, str] = {}

    @property
    def root(self) -> ReadGroup:
        return ReadGroup(self, self.file.root, "/")

    def leave(self, path: str, error: UnknownToReader, address: int | None = None) -> Node | None:
        """The object at a path, opened by libhdf5. address: where its header is, if its path is not known."""
        if self.library is None:
            raise error
        self.left_to_library[path] = error.feature or str(error)
        return self.library(path, address if path == "?" else None)

    def open(self, start: ByteGroup, base: str, path: str) -> Node | None:
        """The object at a path below a group; None if there is none, or it is broken."""
        try:
            node, where = self._find(start, base, path)
            return None if node is None else self.node(node, where)
        except UnknownToReader as error:
            return self.leave(_absolute(base, path), error)
        except CorruptError:
            return None

    def _find(self, start: ByteGroup, base: str, path: str) -> tuple[ByteNode | None, str]:
        """The object at a path, through soft links too, and its path."""
        node: ByteNode = self.file.root if path.startswith("/") else start
        where = "/" if path.startswith("/") else base
        names, n_soft = _parts(path), 0
        while names:
            name = names.pop(0)
            link = node.link(name) if isinstance(node, ByteGroup) else None
            if link is None:
                return None, where
            if link.kind == "hard":
                node, where = self._follow(link), join_path(where, name)
            elif link.kind == "soft" and link.target is not None:
                n_soft += 1
                if n_soft > _MOST_SOFT_LINKS:
                    return None, where
                names = _parts(link.target) + names
                if link.target.startswith("/"):
                    node, where = self.file.root, "/"
            else:
                self._refuse_link(path, link)
        return node, where

    def _follow(self, link: Link) -> ByteNode:
        if link.address is None:
            raise CorruptError(f"the link {link.name!r} leads to an undefined address", path=self.context.name)
        return self.file.at(link.address)

    def _refuse_link(self, path: str, link: Link) -> Never:
        """A link out of the file: libhdf5 follows it, as far as the options of the file allow."""
        raise UnknownToReader(
            f"{path} is reached through {link.name!r}, a link out of the file", feature="external link"
        )

    def node(self, node: ByteNode, path: str) -> Node | None:
        """A parsed object as a node; None for what libhdf5 cannot open either (sectioned chunks, a broken header)."""
        if isinstance(node, ByteGroup):
            return cast("Node", ReadGroup(self, node, path))
        if not isinstance(node, ByteDataset):
            return cast("Node", ReadNode(self, node, path))
        try:
            node.check_known()
        except UnknownToReader as error:
            if error.feature == "sectioned chunks":
                return None
            if self.library is not None:
                return self.leave(path, error, node.address)
        return cast("Node", ReadDataset(self, node, path))


def _parts(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _absolute(base: str, path: str) -> str:
    return path if path.startswith("/") else join_path(base, path)


class ReadNode:
    """An object of a file."""

    is_dataset = False

    def __init__(self, opened: ReadFile, node: ByteNode, path: str) -> None:
        self.opened = opened
        self.node = node
        self.path = path

    @property
    def address(self) -> int | None:
        return self.node.address

    @property
    def is_shared(self) -> bool:
        return reference_count(self.node.source, self.node.address, self.node.messages) > 1

    @property
    def file(self) -> FileContext:
        return self.opened.context

    def file_bytes(self) -> ByteSource | None:
        return self.opened.bytes

    def attribute_names(self) -> list[str]:
        try:
            names = self.node.attributes.names()
        except UnknownToReader:
            return self._by_library("attribute_names", [])
        except CorruptError:
            return []
        return sorted(encode_name(name).decode("utf-8", "replace") for name in names)

    def read_attribute(self, name: str) -> object:
        return self._of_attribute("read_attribute", name, self._value)

    def attribute_storage(self, name: str) -> tuple[StoredType, tuple[int, ...]] | None:
        return self._of_attribute(
            "attribute_storage", name, lambda attribute: (in_memory(attribute.type), attribute.shape or ())
        )

    def attribute_element(self, name: str) -> bytes | None:
        return self._of_attribute("attribute_element", name, self._element)

    def reference_addresses(self, name: str) -> list[int]:
        value = self._of_attribute("inspect_attribute", name, self._inspected)
        return [reference.address for reference in value.values] if value is not None and value.is_references else []

    def inspect_attribute(self, name: str) -> Attribute | None:
        try:
            attribute = self.node.attributes.find(name)
            return None if attribute is None else self._inspected(attribute)
        except UnknownToReader as error:
            if self.opened.library is None:
                return Attribute(None, None, problem=f"it cannot be read: {error}")
            return self._by_library("inspect_attribute", None, name)
        except ColonnadeError as error:
            return Attribute(None, None, problem=f"it cannot be read: {error}")

    def in_library(self) -> Node:
        node = None if self.opened.library is None else self.opened.library(self.path, self.address)
        if node is None:
            text = f"{self.path}: this needs the HDF5 library, which cannot open it or is not to be used"
            raise UnsupportedError(text, feature="the HDF5 library", path=self.path)
        return node

    def dereference(self, reference: object) -> Node | None:
        if not isinstance(reference, ObjectReference) or not reference:
            return None
        try:
            return self.opened.node(self.opened.file.at(reference.address), "?")
        except (CorruptError, UnsupportedError):
            return None

    def _of_attribute(self, question: str, name: str, answer: Callable[[StoredAttribute], T]) -> T | None:
        """What is made of an attribute; None when it is absent or unreadable."""
        try:
            attribute = self.node.attributes.find(name)
            return None if attribute is None else answer(attribute)
        except UnknownToReader:
            return cast("T | None", self._by_library(question, None, name))
        except ColonnadeError:
            return None

    def _by_library(self, question: str, absent: T, *arguments: object) -> T:
        """What libhdf5 answers about this object; `absent` if it is not to be used."""
        if self.opened.library is None:
            return absent
        node = self.opened.library(self.path, self.address if self.path == "?" else None)
        return absent if node is None else cast("T", getattr(node, question)(*arguments))

    def _elements(self, attribute: StoredAttribute) -> np.ndarray | None:
        """The elements as NumPy has them; None where there is none, or they are too many."""
        if attribute.shape is None or prod(attribute.shape) * attribute.type.size > limits.now.attribute_bytes:
            return None
        values = self.node.attributes.elements(attribute)
        if values is not None and attribute.type.kind == "boolean":
            values = values.astype(bool)
        if values is not None and attribute.type.kind == "object_reference":
            values = _references(values)
        return values

    def _value(self, attribute: StoredAttribute) -> object:
        values = self._elements(attribute)
        if values is not None and attribute.shape and not values.dtype.hasobject and values.dtype.kind != "b":
            values = values.astype(dtype_as_stored(attribute.type).base)
        return None if values is None else plain_value(values)

    def _element(self, attribute: StoredAttribute) -> bytes | None:
        if attribute.type.has_pointers or attribute.shape is None or prod(attribute.shape) != 1:
            return None
        values = self.node.attributes.elements(attribute)
        return None if values is None else np.ascontiguousarray(values).tobytes()

    def _inspected(self, attribute: StoredAttribute) -> Attribute:
        stored, shape = in_memory(attribute.type), attribute.shape
        if shape is None or stored.kind not in _INSPECTED:
            return Attribute(stored, shape)
        claimed = prod(shape) * stored.size
        if claimed > limits.now.attribute_bytes:
            return Attribute(stored, shape, problem=f"it claims {claimed:,} bytes")
        values = self._elements(attribute)
        return Attribute(stored, shape, () if values is None else tuple(values.reshape(-1).tolist()))


def _references(values: np.ndarray) -> np.ndarray:
    """Stored object references as such."""
    references = np.empty(values.shape, dtype=object)
    for position in np.ndindex(values.shape):
        references[position] = ObjectReference(int.from_bytes(bytes(values[position].tobytes()), "little"))
    return references


class ReadGroup(ReadNode):
    """A group of a file."""

    node: ByteGroup

    def link_names(self) -> list[str]:
        return [link.name for link in self._links()]

    def _links(self) -> list[Link]:
        try:
            return self.node.links()
        except CorruptError as error:
            raise CorruptError(f"the links of this group cannot be listed: {error}", path=self.path) from error

    def children(self, without: Container[bytes] = ()) -> list[Child]:
        return [self._child(link) for link in self._links() if encode_name(link.name) not in without]

    def child(self, name: str) -> Child:
        try:
            link = self.node.link(name)
        except CorruptError:
            link = None
        return Child(name, "broken") if link is None else self._child(link)

    def _child(self, link: Link) -> Child:
        if link.kind == "soft":
            return Child(link.name, "soft link")
        if link.kind != "hard":
            return Child(link.name, "external link")
        try:
            node = self.opened.file.at(link.address) if link.address is not None else None
        except (CorruptError, UnknownToReader):
            node = None
        if node is None:
            return Child(link.name, "broken")
        return Child(link.name, _KINDS.get(type(node), "datatype"), link.address or 0)

    def has_link(self, name: str) -> bool:
        above, slash, last = name.rstrip("/").rpartition("/")
        group = self.open_group(above or "/") if slash else self
        return isinstance(group, ReadGroup) and (not last or group._link(last) is not None)

    def _link(self, name: str) -> Link | None:
        return self.node.link(name)

    def hard_address(self, name: str) -> int | None:
        try:
            link = self.node.link(name)
        except CorruptError:
            return None
        return link.address if link is not None and link.kind == "hard" else None

    def hard_kind(self, name: str) -> NodeKind | None:
        try:
            link = self.node.link(name)
        except CorruptError:
            return "broken"
        return None if link is None else self._child(link).kind

    def link_target(self, name: str) -> str | None:
        try:
            link = self.node.link(name)
        except CorruptError:
            return None
        if link is None or link.target is None:
            return None
        return link.target if link.kind == "soft" else f"{link.file}:{link.target}"

    def open_child(self, name: str) -> tuple[Child, Dataset | None]:
        child = self.child(name)
        return child, self.open_dataset(name) if child.kind == "dataset" else None

    def open_dataset(self, path: str) -> Dataset | None:
        node = self.opened.open(self.node, self.path, path)
        return cast("Dataset", node) if node is not None and node.is_dataset else None

    def open_chunked(self, name: str, in_place: bool) -> Dataset | None:
        return self.open_dataset(name)

    def open_group(self, path: str) -> Group | None:
        node = self.opened.open(self.node, self.path, path)
        is_group = isinstance(node, ReadGroup) or (node is not None and hasattr(node, "open_group"))
        return cast("Group", node) if is_group else None


class ReadDataset(ReadNode):
    """A dataset of a file."""

    node: ByteDataset
    is_dataset = True

    @property
    def shape(self) -> tuple[int, ...]:
        return self.node.shape or ()

    @property
    def is_null(self) -> bool:
        return self.node.shape is None

    @property
    def chunk_shape(self) -> tuple[int, ...] | None:
        return self.node.header.storage.chunk or None

    def describe(self) -> DatasetInfo:
        self.node.check_known()
        return self._info

    @cached_property
    def _info(self) -> DatasetInfo:
        try:
            info = self.node.info
        except CorruptError:
            if not self.node.header.type.has_pointers:
                raise
            info = replace(self.node.info_without_fill, has_lost_fill=True)
        if is_shown_as_stored(info.type):
            info = replace(info, type=replace(info.type, size=self.node.header.type.size), fill=None)
        return info

    def stored_bytes(self) -> int:
        self.node.info_storage()  # that it is known: a virtual dataset has no chunks
        storage = self.node.header.storage
        if storage.storage == "compact":
            return len(storage.elements)
        if storage.storage == "contiguous":
            return 0 if storage.address is None else prod(self.shape) * self.node.header.type.size
        return sum(int(batch.size.sum(dtype=np.uint64)) for batch in self.node.chunk_map.read())

    def written_rows(self) -> int:
        self.node.info_storage()
        storage, n_rows = self.node.header.storage, self.shape[0]
        if storage.storage == "chunked":
            n_chunks = sum(len(batch.size) for batch in self.node.chunk_map.read())
            return min(n_rows, n_chunks * storage.chunk[0])
        most = (
            _MOST_COMPACT if storage.storage == "compact" else 0 if storage.address is None else self.opened.bytes.size
        )
        return min(n_rows, most // max(self.node.header.type.size, 1))

    def reading(
        self, info: DatasetInfo | ColumnInfo, start: int, count: int, step: int = 1
    ) -> AbstractContextManager[Image]:
        return self._reading(info, range(start, start + count * step, step))

    @contextmanager
    def _reading(self, info: DatasetInfo | ColumnInfo, rows: range) -> Iterator[Image]:
        stored = info.type
        if len(rows) * stored.size > MOST_AT_ONCE or stored.size > LARGEST_ELEMENT:
            raise UnsupportedError(
                f"{self.path}: {len(rows)} elements of {stored.size} bytes are more than can be read at once: take "
                "fewer rows",
                feature="elements that exceed what is read at once",
                path=self.path,
            )
        owned: list[object] = []
        try:
            image = self._in_memory(self._stored_rows(rows), owned)
        except UnknownToReader as error:  # a filter that cannot be undone here after another
            with self._in_library(error).reading(info, rows.start, len(rows), rows.step) as image:
                yield image
            return
        yield image
        owned.clear()

    def _in_library(self, error: UnknownToReader) -> Dataset:
        """This dataset as libhdf5 has it; the error if libhdf5 is not to be used."""
        node = self.opened.leave(self.path, error, self.address)
        if node is None:
            raise error
        return cast("Dataset", node)

    def _stored_rows(self, rows: range) -> Octets:
        """Rows as they are stored, without filters."""
        parts, n_rows = [], self._rows_of_piece(rows)
        try:
            for first in range(0, len(rows), n_rows):
                piece = rows[first : first + n_rows]
                piece_rows = self.node.read_stored([range(piece[0], piece[-1] + 1)])
                parts.append(np.ascontiguousarray(piece_rows[:: rows.step]))
        except CorruptError as error:
            text = f"the rows cannot be read: {error}"
            raise CorruptError(text, path=self.path, row=rows[0], last_row=rows[-1]) from error
        if not parts:
            return np.zeros((0, self.node.header.type.size), np.uint8)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _rows_of_piece(self, rows: range) -> int:
        """How many of these rows are read together, with the rows between them: one if they are in different chunks."""
        storage, between = self.node.header.storage, self.node.header.type.size * rows.step
        if rows.step == 1:
            return max(1, len(rows))
        apart = rows.step >= storage.chunk[0] if storage.chunk else between > _FAR_APART
        return 1 if apart else max(1, _PIECE_BYTES // between)

    def _in_memory(self, rows: Octets, owned: list[object]) -> Image:
        stored = self.node.header.type
        if is_shown_as_stored(in_memory(stored)):
            return np.ascontiguousarray(rows).view(f"V{stored.size}").reshape(len(rows))
        if stored.kind in ("text", "binary", "sequence"):
            references = rows.reshape(-1).view(reference_dtype(self.node.source.offset_size))
            check_lengths(references, stored, self.opened.bytes.size, self.path)
        values = decode_elements(rows, stored, GlobalHeap(self.node.source))
        return to_memory(values, in_memory(stored), owned)

    def chunk_source(
        self, dtype: np.dtype | None, filters: Sequence[FilterInfo], look: bytes | None = None
    ) -> ChunkSource | None:
        storage = self.node.header.storage
        if dtype is None or len(self.shape) != 1 or dtype.itemsize != self.node.header.type.size:
            return None
        if storage.storage == "contiguous":
            form = ChunkForm(dtype, DEFAULT_CHUNK_ROWS, Pipeline((), 0))
            if storage.address is None or (storage.size is not None and storage.size < self.shape[0] * dtype.itemsize):
                return None
            return self._source(form, RunMap(storage.address, form), look)
        if storage.storage != "chunked" or storage.has_options:
            return None
        form = ChunkForm(dtype, storage.chunk[0], Pipeline(filters, storage.chunk[0] * dtype.itemsize))
        return self._source(form, StoredChunkMap(self.node, form), look) if form.pipeline.is_known else None

    def _source(self, form: ChunkForm, chunk_map: ChunkLocator, look: bytes | None) -> ChunkSource:
        base = self.node.source.base
        file = self.opened.bytes if not base else ShiftedBytes(self.opened.bytes, base)
        return ChunkSource(lambda: self.path, form, chunk_map, ChunkReader(form, file), look)

    def heap_source(self, stored: StoredType, filters: Sequence[FilterInfo]) -> HeapSource | None:
        source = self.node.source
        is_usual = (source.offset_size, source.length_size) == (8, 8)
        if stored.kind not in ("text", "binary") or kernels.FORM != "c" or not is_usual:
            return None
        rows = self.chunk_source(AS_BYTES, filters)
        return None if rows is None else HeapSource(rows, stored, self.opened.bytes.size)

    def matrix_shape(self) -> tuple[int, int] | None:
        stored = self.node.header.type
        if len(self.shape) != 2 or stored.kind != "integer" or stored.size != 1 or stored.signed:
            return None
        return self.shape[0], self.shape[1]

    def read_matrix(self, rows: tuple[int, int], columns: tuple[int, int]) -> Octets:
        block = self.node.read([range(*rows), range(*columns)])
        return np.ascontiguousarray(block, dtype=np.uint8)

    def follow_reference(self, row: int, column: str) -> object:
        stored = self.node.header.type
        if stored.kind not in ("object_reference", "region_reference"):
            raise UsageError(f"column {column!r} holds no references", column=column)
        data = self._stored_rows(range(row, row + 1)).tobytes()
        if not any(data):
            return None
        if stored.kind == "region_reference":
            return self._follow_by_library(row, column)
        try:
            target = self.dereference(ObjectReference(int.from_bytes(data[:8], "little")))
        except ColonnadeError:
            target = None
        if target is None:
            raise CorruptError("the reference leads nowhere", column=column, row=row)
        if not isinstance(target, ReadDataset):
            text = f"column {column!r}, row {row}: the reference leads to a group, not to an array"
            raise UsageError(text, column=column)
        if prod(target.shape) * target.array_dtype().itemsize > MOST_AT_ONCE:
            raise UnsupportedError(
                f"{target.path}: {prod(target.shape)} elements are more than can be read at once: read a part of it "
                "through File.h5",
                feature="arrays that exceed what is read at once",
                path=target.path,
            )
        return target.read_array()

    def _follow_by_library(self, row: int, column: str) -> object:
        """Region references are in the global heap, in the form of libhdf5's selections."""
        if self.opened.library is None:
            raise UnsupportedError("region references need the HDF5 library", feature="region references")
        node = self.opened.library(self.path, self.address if self.path == "?" else None)
        return None if node is None else cast("Dataset", node).follow_reference(row, column)

    def array_dtype(self) -> np.dtype:
        return self.node.array_dtype

    def check_readable(self, count: int) -> None:
        self.node.check_known()
        claimed, stored = count * self.array_dtype().itemsize, self.stored_bytes()
        if claims_too_much(claimed, stored, bool(self.node.header.filters)):
            raise UnsupportedError(
                f"{self.path} claims {claimed:,} bytes, {stored:,} are stored: it is not read",
                feature="arrays of which most was never written",
                path=self.path,
            )

    def read_array(self, part: tuple[slice, ...] = ()) -> np.ndarray:
        shape = self.shape
        box = [range(*axis.indices(length)) for axis, length in zip(part, shape, strict=False)]
        box += [range(length) for length in shape[len(box) :]]
        whole = [range(axis.start, axis[-1] + 1) if axis else range(0) for axis in box]
        try:
            values = self.node.read(whole)
        except UnknownToReader as error:
            return self._in_library(error).read_array(part)
        if box:
            values = values[tuple(slice(None, None, axis.step) for axis in box)]
        stored = self.node.header.type
        if stored.kind == "boolean":
            return values.astype(bool)
        if stored.kind == "text":
            strings = np.empty(values.shape, dtype=object)
            strings.reshape(-1)[:] = [decode_name(value) for value in values.reshape(-1).tolist()]
            return strings
        return values
