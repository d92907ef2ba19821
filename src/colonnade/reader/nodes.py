"""Objects of a file that is read from its bytes: their attributes, and what references in them lead to; groups."""

from __future__ import annotations

from collections.abc import Callable, Container
from math import prod
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np

from colonnade import limits
from colonnade.errors import ColonnadeError, CorruptError, UnsupportedError
from colonnade.format.attributes import StoredAttribute
from colonnade.format.datatype import in_memory
from colonnade.format.elements import as_stored, dtype_as_stored
from colonnade.format.headers import reference_count
from colonnade.format.links import Link
from colonnade.format.nodes import ByteDataset, ByteGroup, ByteNode
from colonnade.format.source import UnknownToReader
from colonnade.model import StoredType
from colonnade.nodes.attributes import plain_value
from colonnade.nodes.elements import is_shown_as_stored
from colonnade.nodes.paths import encode_name
from colonnade.nodes.protocols import Attribute, Child, NodeKind, ObjectReference, ReferenceKind, ReferenceTarget
from colonnade.pager.sources import ByteSource

if TYPE_CHECKING:
    from colonnade.nodes import Dataset, Group, Node
    from colonnade.nodes.protocols import FileContext
    from colonnade.reader.files import ReadFile

T = TypeVar("T")
_KINDS: dict[type, NodeKind] = {ByteGroup: "group", ByteDataset: "dataset"}
_INSPECTED = ("string", "text", "integer", "boolean", "object_reference")


def refusal(path: str, error: UnknownToReader) -> UnknownToReader:
    """The error about an object that only libhdf5 could read, in a file that it must not read."""
    feature = error.feature or str(error)
    text = (
        f"{path} uses {feature}, which needs the HDF5 library, and library='never' excludes that: if you trust the "
        "file, open it with library='auto'"
    )
    return UnknownToReader(text, feature=feature, path=path)


class ReadNode:
    """An object of a file."""

    is_dataset = False

    def __init__(self, opened: ReadFile, node: ByteNode, path: str | None) -> None:
        """path: None if it is to be looked for when it is asked for."""
        self.opened = opened
        self.node = node
        self._path = path

    @property
    def path(self) -> str:
        if self._path is None:
            self._path = self.opened.path_of(self.node.address)
        return self._path

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
        return sorted(names)

    def read_attribute(self, name: str) -> object:
        return self._of_attribute("read_attribute", name, self._value)

    def attribute_storage(self, name: str) -> tuple[StoredType, tuple[int, ...]] | None:
        return self._of_attribute("attribute_storage", name, _storage_of)

    def attribute_element(self, name: str) -> bytes | None:
        return self._of_attribute("attribute_element", name, self._element)

    def reference_addresses(self, name: str) -> list[int]:
        return self._of_attribute("reference_addresses", name, self._addresses) or []

    def standard_addresses(self, name: str) -> list[int | None]:
        """Where references in the form of HDF5 1.12 lead, 0 for a null one; None for those that do not lead to an
        object of this file."""

        from colonnade.format.regions import plain_address  # late: few files have such references

        def read(attribute: StoredAttribute) -> list[int | None]:
            values = self._elements(attribute)
            listed = [] if values is None else [element.tobytes() for element in values.reshape(-1)]
            return [plain_address(self.node.source, data) or (None if any(data) else 0) for data in listed]

        return self._of_attribute("standard_addresses", name, read) or []

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
            return self.opened.node(self.opened.file.at(reference.address), None)
        except (CorruptError, UnsupportedError):
            return None

    def find_target(self, kind: ReferenceKind, data: bytes) -> ReferenceTarget | None:
        from colonnade.reader.references import find_target

        try:
            return find_target(self.opened, kind, data)
        except UnknownToReader as error:
            if self.opened.library is None:
                raise refusal(self.path, error) from error
            return self.in_library().find_target(kind, data)

    def full_path(self) -> str | None:
        if self._path is None:
            self._path = self.opened.path_of(self.node.address, thorough=True)
        return None if self._path == "?" else self._path

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
            values = as_stored(values, dtype_as_stored(attribute.type))
        if values is not None and attribute.type.kind == "object_reference":
            values = _references(values)
        return values

    def _value(self, attribute: StoredAttribute) -> object:
        values = None if is_shown_as_stored(attribute.type) else self._elements(attribute)
        if values is not None and attribute.type.kind == "integer" and values.dtype.kind not in "iu":
            return None
        if values is not None and attribute.type.kind != "object_reference":
            values = as_stored(values, dtype_as_stored(attribute.type).base)
        return None if values is None else plain_value(values)

    def _element(self, attribute: StoredAttribute) -> bytes | None:
        is_plain = not attribute.type.has_pointers and not is_shown_as_stored(attribute.type)
        if not is_plain or attribute.shape is None or prod(attribute.shape) != 1:
            return None
        values = self.node.attributes.elements(attribute)
        return None if values is None else np.ascontiguousarray(values).tobytes()

    def _addresses(self, attribute: StoredAttribute) -> list[int]:
        """The addresses in object references of both forms."""
        from colonnade.format.regions import plain_address  # late: few files have such references

        is_new = is_shown_as_stored(attribute.type)
        values = self._elements(attribute) if is_new or attribute.type.kind == "object_reference" else None
        if values is None:
            return []
        listed = values.reshape(-1)
        if not is_new:
            return [reference.address for reference in listed]
        return [plain_address(self.node.source, element.tobytes()) for element in listed]

    def _inspected(self, attribute: StoredAttribute) -> Attribute:
        stored, shape = in_memory(attribute.type), attribute.shape
        if shape is None or stored.kind not in _INSPECTED:
            return Attribute(stored, shape)
        claimed = prod(shape) * stored.size
        if claimed > limits.now.attribute_bytes:
            return Attribute(stored, shape, problem=f"it claims {claimed:,} bytes")
        values = self._elements(attribute)
        if stored.kind == "integer" and values is not None and values.dtype.kind not in "iu":
            return Attribute(None, None, problem=f"it cannot be read: NumPy has no integers of {stored.size} bytes")
        return Attribute(stored, shape, () if values is None else tuple(values.reshape(-1).tolist()))


def _storage_of(attribute: StoredAttribute) -> tuple[StoredType, tuple[int, ...]] | None:
    return None if attribute.shape is None else (in_memory(attribute.type), attribute.shape)


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

    def is_compound(self, name: str) -> bool:
        address = self.hard_address(name)
        try:
            node = None if address is None else self.opened.file.at(address)
        except (CorruptError, UnknownToReader):
            return False
        return isinstance(node, ByteDataset) and node.is_compound

    def open_chunked(self, name: str, in_place: bool) -> Dataset | None:
        return self.open_dataset(name)

    def open_group(self, path: str) -> Group | None:
        node = self.opened.open(self.node, self.path, path)
        is_group = isinstance(node, ReadGroup) or (node is not None and hasattr(node, "open_group"))
        return cast("Group", node) if is_group else None
