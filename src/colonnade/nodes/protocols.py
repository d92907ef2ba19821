"""What a group, a dataset and their attributes can be asked: protocols.

`Group` and `Dataset` have two implementations: `reader/` reads the bytes of a file, `h5/handles.py` asks
libhdf5. A law compares them. Whoever reads a file takes these, and so can call only what both have. `GroupHandle` and
`DatasetHandle` are what h5py has for an object that libhdf5 has open; the functions of `h5/` take them. `EditableGroup`
and `EditableDataset` are both, which only `h5/handles.py` has: whoever changes a file takes them, and `paths.editable`
gives them. `H5Group`, `H5Dataset` and `H5Attributes` are the objects of h5py that a program holds (`File.h5`).
"""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from colonnade.dataclass import dataclass
from colonnade.model import StoredType
from colonnade.pager.options import Links

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import Protocol

    import numpy as np
    from h5py.h5d import StoreInfo
    from h5py.h5l import LinkProxy
    from h5py.h5p import PropDAID, PropDCID, PropGCID
    from h5py.h5s import SpaceID
    from h5py.h5t import TypeID
    from numpy.typing import DTypeLike

    from colonnade.arrays import Image, Octets
    from colonnade.model import ColumnInfo, DatasetInfo, FilterInfo
    from colonnade.nodes.chunk_source import ChunkSource
    from colonnade.nodes.heap_source import HeapSource
    from colonnade.nodes.regions import Region
    from colonnade.pager.sources import ByteSource

NodeKind = Literal["group", "dataset", "datatype", "soft link", "external link", "broken"]
Notes = dict[str, object]
"""What layouts keep while a file is open, by name."""


@dataclass(frozen=True, slots=True)
class Child:
    """One link of a group: its name, the kind of object it leads to, and the address of that object."""

    name: str
    kind: NodeKind
    address: int = 0


class ObjectReference(NamedTuple):
    """A reference to an object, by the address of its header; 0 if it is null."""

    address: int

    def __bool__(self) -> bool:
        return self.address != 0


ReferenceKind = Literal["object_reference", "region_reference", "reference"]
"""How the element of a column refers to an object; "reference" is the form of HDF5 1.12."""


class ReferenceTarget(NamedTuple):
    """What a reference leads to: an object; a region of it, or one of its attributes, where those are given."""

    node: Node
    region: Region | None = None
    attribute: str | None = None


AttributeValue = bytes | int | ObjectReference


@dataclass(frozen=True)
class Attribute:
    """An attribute as it is stored. `problem` is why its values could not be read.

    shape: () when scalar, None when it holds nothing (a null dataspace).
    values: its elements in order: bytes of strings, integers, references; empty for other types.
    """

    type: StoredType | None
    shape: tuple[int, ...] | None
    values: tuple[AttributeValue, ...] = ()
    problem: str | None = None

    @property
    def is_text(self) -> bool:
        return self.type is not None and self.type.kind in ("string", "text")

    @property
    def is_integer(self) -> bool:
        return self.type is not None and self.type.kind == "integer"

    @property
    def is_references(self) -> bool:
        return self.type is not None and self.type.kind == "object_reference"

    @property
    def integers(self) -> tuple[int, ...]:
        """The values of an attribute that holds integers; nothing for another."""
        values = self.values if self.is_integer else ()
        return tuple(int(value) for value in values if not isinstance(value, (bytes, ObjectReference)))

    def texts(self) -> list[str]:
        """The strings without their padding; bytes that are not UTF-8 are escaped."""
        blank = b" \0" if self.type is not None and self.type.padding == "space" else b"\0"
        values = (value for value in self.values if isinstance(value, bytes))
        return [value.rstrip(blank).decode("utf-8", "surrogateescape") for value in values]


if TYPE_CHECKING:

    class FileContext(Protocol):
        """The open file that an object is in.

        notes: what layouts keep until the file is closed. links: how far links may lead out of the file.
        left_to_library: the paths of objects that libhdf5 reads because our own reader does not know a feature, and
        which.
        """

        name: str
        notes: Notes
        links: Links
        left_to_library: dict[str, str]

        @property
        def place(self) -> Path | None:
            """The path of the file, resolved; None if it is not a file on disk."""

    class Node(Protocol):
        """An object of a file: a group, a dataset or a committed datatype."""

        @property
        def path(self) -> str:
            """Its path in the file, for messages; "?" if it is not known."""

        @property
        def address(self) -> int | None:
            """The address of its header, equal for two nodes of one object; None if its header is broken."""

        @property
        def is_dataset(self) -> bool: ...
        @property
        def is_shared(self) -> bool:
            """Whether the object has more than one name."""

        @property
        def file(self) -> FileContext: ...
        def file_bytes(self) -> ByteSource | None:
            """The bytes of its file, as they are now; None if only libhdf5 can read them."""

        def attribute_names(self) -> list[str]:
            """The names of all attributes, in the order of their names; none if they cannot be listed."""

        def read_attribute(self, name: str) -> object:
            """An attribute's value as h5py gives it (strings decoded); None when absent or unreadable.

            Object references are opaque: for `dereference`.
            """

        def attribute_storage(self, name: str) -> tuple[StoredType, tuple[int, ...]] | None:
            """An attribute's datatype and shape; None when absent or broken."""

        def inspect_attribute(self, name: str) -> Attribute | None:
            """An attribute as it is stored; None when there is none of this name. Never an error."""

        def attribute_element(self, name: str) -> bytes | None:
            """A scalar attribute as the bytes of one element in memory form; None when absent, unreadable, or with
            pointers."""

        def reference_addresses(self, name: str) -> list[int]:
            """The addresses that an attribute's object references hold; none when absent or of another type.

            Both forms of HDF5 count. 0 stands for null, and for what leads to anything but an object of this file.
            """

        def in_library(self) -> Node:
            """This object as libhdf5 has it, for what only libhdf5 does; an UnsupportedError if it cannot."""

        def dereference(self, reference: object) -> Node | None:
            """The object that an object reference of this file leads to; None when it leads nowhere."""

        def find_target(self, kind: ReferenceKind, data: bytes) -> ReferenceTarget | None:
            """What a reference of this file, as an element of a column holds it, leads to; None if it is null."""

        def full_path(self) -> str | None:
            """Its path in the file, however long it takes to find; None if the object has none."""

    class Group(Node, Protocol):
        """A group: names that lead to objects."""

        def link_names(self) -> list[str]:
            """The names of its links, in their order; a CorruptError if they cannot be listed."""

        def children(self, without: Container[bytes] = ()) -> list[Child]:
            """Its links in the order of their names; those that lead nowhere are `broken`."""

        def child(self, name: str) -> Child:
            """One link, which exists."""

        def has_link(self, name: str) -> bool:
            """Whether the group has a link of this name, wherever it leads. `name` may be a path."""

        def hard_address(self, name: str) -> int | None:
            """The address that a hard link leads to, whether there is an object or not; None for other links."""

        def hard_kind(self, name: str) -> NodeKind | None:
            """What the link of this name leads to, soft and external links not followed; None when there is none."""

        def link_target(self, name: str) -> str | None:
            """Where a soft or external link leads: a path, after the file name and a colon if it leaves the file."""

        def open_child(self, name: str) -> tuple[Child, Dataset | None]:
            """One link, which exists, and the dataset that it leads to if it is a hard link to one."""

        def open_dataset(self, path: str) -> Dataset | None:
            """The dataset at a path below the group; None when it is something else or broken."""

        def is_compound(self, name: str) -> bool:
            """Whether a hard link of this name leads to a dataset with elements of a compound type, by its header."""

        def open_chunked(self, name: str, in_place: bool) -> Dataset | None:
            """The dataset of this name, which is stored in chunks by its description.

            in_place: rows of chunks without filters are read and written in place.
            """

        def open_group(self, path: str) -> Group | None:
            """The group at a path below the group; None when it is something else or not there."""

    class Dataset(Node, Protocol):
        """A dataset: elements in a shape."""

        @property
        def shape(self) -> tuple[int, ...]:
            """Its shape; () of a scalar and of one that holds nothing."""

        @property
        def is_null(self) -> bool:
            """Whether it holds nothing, not even an element."""

        @property
        def chunk_shape(self) -> tuple[int, ...] | None:
            """The shape of its chunks; None if it is not chunked."""

        def describe(self) -> DatasetInfo:
            """Its header as plain data; no element is read."""

        def stored_bytes(self) -> int:
            """Bytes that the elements take in the file; looks at every chunk."""

        def written_rows(self) -> int:
            """Rows that have a place in the file, as far as that is known; looks at every chunk."""

        def reading(
            self, info: DatasetInfo | ColumnInfo, start: int, count: int, step: int = 1
        ) -> AbstractContextManager[Image]:
            """The elements start, start+step, ... of one dimension in memory form (`stored_dtypes.memory_dtype`);
            pointers in them hold inside the `with` only. `info` is its description, or that of its column."""

        def chunk_source(
            self, dtype: np.dtype | None, filters: Sequence[FilterInfo], look: bytes | None = None
        ) -> ChunkSource | None:
            """A way to the rows, whose elements are such, straight from the file; None where there is none."""

        def heap_source(self, stored: StoredType, filters: Sequence[FilterInfo]) -> HeapSource | None:
            """A way to strings or bytes of variable length straight from the file; None where there is none."""

        def type_in_file(self) -> StoredType | None:
            """The datatype of its elements with the sizes and offsets of the file; None where they are not known."""

        def matrix_shape(self) -> tuple[int, int] | None:
            """Rows and columns; None when the dataset is not a matrix of bytes."""

        def read_matrix(self, rows: tuple[int, int], columns: tuple[int, int]) -> Octets:
            """The block of these rows and columns of a matrix of bytes, each from the first up to the second."""

        def array_dtype(self) -> np.dtype:
            """The dtype that its elements are read as by `read_array`, as h5py names it."""

        def check_readable(self, count: int) -> None:
            """Refuse a dataset whose elements are not to be read, or that claims `count` of them without storing
            them."""

        def read_array(self, part: tuple[slice, ...] = ()) -> np.ndarray:
            """The elements, or a box of them, as h5py reads them; strings of variable length as `str`. Not before
            `check_readable`."""

    class NodeHandle(Protocol):
        """An object that libhdf5 has open, by its number in the library."""

        @property
        def id(self) -> int: ...
        @property
        def valid(self) -> bool: ...

    class GroupHandle(NodeHandle, Protocol):
        """A group that libhdf5 has open."""

        def __contains__(self, name: bytes) -> bool: ...
        def __len__(self) -> int: ...
        @property
        def links(self) -> LinkProxy: ...
        def unlink(self, name: bytes) -> None: ...
        def get_create_plist(self) -> PropGCID: ...

    class DatasetHandle(NodeHandle, Protocol):
        """A dataset that libhdf5 has open."""

        @property
        def shape(self) -> tuple[int, ...]: ...
        @property
        def dtype(self) -> np.dtype: ...
        def chunk_iter(self, func: Callable[[StoreInfo], object]) -> object: ...
        def get_access_plist(self) -> PropDAID: ...
        def get_chunk_info_by_coord(self, chunk_offset: tuple[int, ...]) -> StoreInfo: ...
        def get_create_plist(self) -> PropDCID: ...
        def get_num_chunks(self) -> int: ...
        def get_offset(self) -> int | None: ...
        def get_space(self) -> SpaceID: ...
        def get_storage_size(self) -> int: ...
        def get_type(self) -> TypeID: ...
        def read_direct_chunk(self, offsets: tuple[int, ...]) -> tuple[int, bytes]: ...
        def set_extent(self, shape: tuple[int, ...]) -> None: ...
        def write_direct_chunk(
            self, offsets: tuple[int, ...], data: bytes | bytearray | memoryview | np.ndarray, filter_mask: int = 0
        ) -> None: ...

    class EditableNode(NodeHandle, Node, Protocol):
        """An object that can be changed."""

        def dereference(self, reference: object) -> EditableNode | None: ...

    class EditableGroup(EditableNode, GroupHandle, Group, Protocol):
        """A group that can be changed; so can what is opened from it."""

        def open_child(self, name: str) -> tuple[Child, EditableDataset | None]: ...
        def open_dataset(self, path: str) -> EditableDataset | None: ...
        def open_chunked(self, name: str, in_place: bool) -> EditableDataset | None: ...
        def open_group(self, path: str) -> EditableGroup | None: ...

    class EditableDataset(EditableNode, DatasetHandle, Dataset, Protocol):
        """A dataset that can be changed."""

        @property
        def shape(self) -> tuple[int, ...]: ...

    class H5Attributes(Protocol):
        """The attributes of an object of h5py."""

        def __contains__(self, name: str) -> bool: ...
        def __delitem__(self, name: str) -> None: ...
        def __getitem__(self, name: str) -> object: ...
        def __iter__(self) -> Iterator[str]: ...
        def __setitem__(self, name: str, value: object) -> None: ...

    class H5Node(Protocol):
        """A group or a dataset of h5py."""

        @property
        def attrs(self) -> H5Attributes: ...
        @property
        def name(self) -> str: ...
        @property
        def id(self) -> NodeHandle: ...

    class H5Group(H5Node, Protocol):
        """A group of h5py."""

        @property
        def id(self) -> GroupHandle: ...
        def __getitem__(self, name: str | bytes) -> Any: ...  # a group or a dataset
        def create_dataset(
            self,
            name: str | bytes | None,
            shape: int | tuple[int, ...] | None = None,
            dtype: DTypeLike | None = None,
            data: object = None,
            **options: object,
        ) -> H5Dataset: ...
        def create_group(self, name: str | bytes) -> H5Group: ...
        def move(self, source: str | bytes, dest: str | bytes) -> None: ...

    class H5Dataset(H5Node, Protocol):
        """A dataset of h5py."""

        @property
        def id(self) -> DatasetHandle: ...
        @property
        def chunks(self) -> tuple[int, ...] | None: ...
        @property
        def dtype(self) -> np.dtype: ...
        @property
        def shape(self) -> tuple[int, ...]: ...
        def __getitem__(self, key: object) -> Any: ...
        def __setitem__(self, key: object, value: object) -> None: ...

else:  # to create protocols takes a millisecond, and nothing uses them at run time
    FileContext = NodeHandle = GroupHandle = DatasetHandle = Node = Group = Dataset = object
    EditableNode = EditableGroup = EditableDataset = object
    H5Node = H5Group = H5Dataset = H5Attributes = object
