"""Vetting: may libhdf5 open this object, list these links, read this attribute or these elements?

libhdf5 (1.8 to 2.0 at least) trusts some of the bytes it reads. In a damaged or hostile file it then hangs, takes all
memory or crashes. So each question below is asked before libhdf5 is:

| may libhdf5 ... | ask | what is looked at |
| --- | --- | --- |
| open this file for changes | `vet_root` | the sizes of addresses, the free list of the root group's names |
| list or look up links of this group | `vet_links` | the free list of its names, which may be a circle |
| open or remove the object of this name | `vet_object` | its datatype's version; the heap of a virtual dataset |
| list the creation properties of this dataset | `vet_fill` | a fill of variable length, in the global heap |
| read this attribute | `vet_attribute` | lengths and collections that it refers to |
| follow this region reference | `vet_region` | whether its collection has an end |
| read these elements, given as stored | `vet_elements` | the collections they refer to, at any depth |
| read these rows of a dataset | `heap.vet_rows`, `heap.vet_run` | filtered chunks, lengths, collections |

The contract: nothing happens where libhdf5 may; where it may not, an OSError such as libhdf5 would raise. Only what
surely does harm is refused; whatever else is wrong with a file, libhdf5 reports itself. In a file whose bytes cannot be
read without libhdf5, nothing is refused. What has been vetted is remembered as long as a file is open.

The bytes are parsed by `format/`; this module asks h5py where they are.

`OpenFile` is the context of an open file: its bytes, its journal, its link policy, and what has been vetted in it.
Handles of h5py cannot carry it. So there is one map, from the number that libhdf5 gives a file when it opens it (never
the same number twice) to its `OpenFile`. The map is weak: `files.FileHandle` holds the `OpenFile` of its file, and an
`OpenFile` holds those of the files that its links led to.
"""

from __future__ import annotations

import io
import os
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from weakref import WeakValueDictionary

import h5py
import numpy as np
from h5py import h5a, h5d, h5f, h5fd, h5g, h5i, h5l, h5p, h5s

from colonnade.errors import ConflictError, CorruptError, FormatError
from colonnade.format.attributes import decode_attribute
from colonnade.format.global_heap import (
    COLLECTION_HEAD,
    COLLECTION_SIGNATURE,
    ElementBytes,
    EndlessCollection,
    reference_dtype,
    references_in,
    stored_size,
    walk_collection,
)
from colonnade.format.headers import (
    ATTRIBUTE,
    DATATYPE,
    EXTERNAL,
    FILL,
    LAYOUT,
    OLD_FILL,
    PIPELINE,
    SHARED,
    SYMBOL_TABLE,
    Message,
    iter_messages,
)
from colonnade.format.layout import decode_storage, is_virtual
from colonnade.format.links import read_local_heap, read_symbol_table
from colonnade.format.pipelines import decode_pipeline
from colonnade.format.source import Fields, HDF5Source, UnknownToReader
from colonnade.format.superblock import check_sizes, read_superblock
from colonnade.format.values import decode_fill, decode_old_fill
from colonnade.h5 import capi
from colonnade.h5.datatypes import describe_type
from colonnade.model import StoredType
from colonnade.nodes import DatasetHandle, GroupHandle, NodeHandle
from colonnade.nodes.chunk_source import FARTHEST
from colonnade.nodes.damage import NEEDS_NEWER_HDF5, hdf5_errors
from colonnade.nodes.heap_source import SMALL_CLAIM
from colonnade.nodes.protocols import Notes
from colonnade.pager.journal import JournaledFile
from colonnade.pager.options import Links
from colonnade.pager.sources import BufferBytes, ByteSource, JournaledBytes, LocalBytes

_MOST_HEADER = 1 << 19  # bytes of a header's continuation blocks that are read
_LONGEST_HEAP = 16 << 20  # bytes of names; longer local heaps are not looked at
_MOST_TIMES = 4  # how often the bytes of a file may be walked over: collections do not overlap
_SLACK = 1 << 20
_NEWEST_DATATYPE = 4  # of HDF5 before 2.0
_CIRCLE = "the free places of its names form a circle"
_NEVER_ENDS = "an object in it claims no bytes, so that its end is never reached"
_OVERLAP = "its collections claim more bytes than the file can have for them"
_OPEN_FILES: WeakValueDictionary[tuple[int, int], OpenFile] = WeakValueDictionary()
_RECENT: deque[OpenFile] = deque(maxlen=100)  # of files that somebody else opened: no handle of ours holds them


# -- open files --


class OpenFile:
    """A file that libhdf5 has open: its bytes, its journal, how far it may lead, and what has been vetted in it."""

    def __init__(self, node: NodeHandle) -> None:
        file_id = h5i.get_file_id(node)
        creation = file_id.get_create_plist()
        self.journaled: JournaledFile | None = None  # through which it is open for changes
        self.links: Links = "folder"  # see `outside`
        self.led_to: list[OpenFile] = []  # by external links
        self.notes: Notes = {}  # kept by layouts until the file is closed
        self.left_to_library: dict[str, str] = {}  # of a file that our own reader could not open: its root, and why
        self.is_of_python = bool(file_id.get_access_plist().get_driver() == h5fd.fileobj_driver)
        self._is_read_only = bool(file_id.get_intent() == h5f.ACC_RDONLY)
        self._base = int(creation.get_userblock())
        self.name = os.fsdecode(h5f.get_name(file_id))
        self._walked = 0  # bytes of collections
        self._ends: dict[int, int] = {}  # of collections, by their addresses
        self._groups: set[int] = set()
        self._objects: set[int] = set()
        self.offset_size, self._length_size = creation.get_sizes()
        check_sizes(self.offset_size, self._length_size, self.name)
        self._stored = self._stored_bytes(file_id) if self._is_read_only else None

    def _stored_bytes(self, file_id: h5f.FileID) -> ByteSource | None:
        """The bytes of a file that is not changed while it is open."""
        descriptor = capi.descriptor_of(file_id)
        if descriptor is not None:
            return LocalBytes(descriptor, self.name)
        path = Path(self.name)
        return _BytesByPath(path, int(file_id.get_filesize())) if path.is_file() else None

    def _bytes(self) -> ByteSource | None:
        """The bytes as they are now; None if only libhdf5 can read them."""
        if self.journaled is None:
            return self._stored
        return JournaledBytes(self.journaled, self.name)

    @property
    def place(self) -> Path | None:
        """The path of the file, resolved; None if it is not a file on disk."""
        path = Path(self.name)
        return None if self.is_of_python and not path.is_absolute() else path.resolve()

    @property
    def is_readable(self) -> bool:
        """Whether the bytes can be read without libhdf5."""
        return self._bytes() is not None

    @property
    def has_usual_sizes(self) -> bool:
        """Whether addresses and lengths have 8 bytes, as in nearly all files."""
        return (self.offset_size, self._length_size) == (8, 8)

    @property
    def is_frozen(self) -> bool:
        """Whether the bytes are of one state: the file has not been written to since it was opened."""
        return self._is_read_only if self.journaled is None else self.journaled.is_untouched

    @property
    def size(self) -> int:
        return self.source().file.size

    def read_at(self, address: int, n_bytes: int) -> bytes:
        """Bytes from an address on; fewer at the end of the file."""
        file = self._bytes()
        return b"" if file is None else file.read_at(self._base + address, n_bytes)

    def source(self) -> HDF5Source:
        """The bytes as the parsers take them."""
        file = self._bytes() or BufferBytes(b"", self.name)
        return HDF5Source(file, self._base, self.offset_size, self._length_size)

    def fields(self, message: Message) -> Fields:
        """The bytes of a message of an object header."""
        return self.source().as_fields(message.data, "message", message.at)

    def messages(self, address: int) -> Iterator[Message]:
        """The messages of an object header, up to the first that makes no sense."""
        with suppress(CorruptError, UnknownToReader):
            yield from iter_messages(self.source(), address, _MOST_HEADER)

    # -- groups and objects --

    def vet_group(self, address: int) -> None:
        """See `vet_links`."""
        if address in self._groups:
            return
        if self.is_frozen and has_endless_names(self.source(), self.messages(address)):
            capi.refuse("list links", _CIRCLE)
        self._groups.add(address)

    def vet_map(self, address: int) -> None:
        """See `vet_object`; the address is that of the object's header."""
        if address in self._objects:
            return
        for message in self.messages(address):
            if message.type == DATATYPE and not message.flags & SHARED:
                _vet_version(message.data)
            if message.type == LAYOUT and is_virtual(message.data):
                with suppress(CorruptError, UnknownToReader):
                    self.vet_collection(decode_storage(self.fields(message)).address or 0)
        if self.is_frozen:
            self._objects.add(address)

    # -- the global heap --

    def vet_collection(self, address: int) -> None:
        """Refuse what refers to a collection of the global heap that has no end.

        libhdf5 walks a collection object by object, and does not move on over an object that claims no bytes.
        """
        if address in self._ends or not 0 < address < FARTHEST:
            return
        head = self.read_at(address, COLLECTION_HEAD)
        if head[:5] != COLLECTION_SIGNATURE or len(head) < COLLECTION_HEAD:
            return  # refused by libhdf5
        end = address + int.from_bytes(head[8 : 8 + self._length_size], "little")
        try:
            for _ in walk_collection(self._read_counted, address + COLLECTION_HEAD, end, self._length_size):
                pass
        except EndlessCollection:
            capi.refuse("read the global heap", _NEVER_ENDS)
        except CorruptError:
            pass  # refused by libhdf5
        self._ends[address] = end

    def _read_counted(self, at: int, n_bytes: int) -> bytes:
        if self.is_frozen:
            self._walked += n_bytes
            if self._walked > _MOST_TIMES * self.size + _SLACK:
                capi.refuse("read the global heap", _OVERLAP)
        return self.read_at(at, n_bytes)

    def _objects_in(self, address: int) -> dict[int, bytes]:
        """The objects of a collection that was vetted, by their numbers."""
        end, objects = self._ends.get(address, address), {}
        with suppress(CorruptError, EndlessCollection):  # not counted: any number of rows may refer to a collection
            walk = walk_collection(self.read_at, address + COLLECTION_HEAD, end, self._length_size)
            for number, at, size in walk:
                if number and at + size <= end:
                    objects[number] = self.read_at(at, size)
        return objects

    def vet_stored(self, stored: StoredType, data: ElementBytes) -> None:
        """See `vet_elements`."""
        for kind, references in references_in(stored, data, self.offset_size):
            used = references[references["address"] > 0]
            for address in np.unique(used["address"]).tolist():
                self.vet_collection(address)
                if kind.kind == "sequence" and kind.item.has_pointers:
                    objects, size = self._objects_in(address), stored_size(kind.item, self.offset_size)
                    numbers = np.unique(used["index"][used["address"] == address]).tolist()
                    items = (objects.get(number, b"") for number in numbers)
                    inner = b"".join(item[: len(item) // size * size] for item in items)
                    self.vet_stored(kind.item, np.frombuffer(inner, "u1"))


class _BytesByPath(ByteSource):
    """The bytes of a file that libhdf5 has open without a descriptor of its own."""

    def __init__(self, path: Path, size: int) -> None:
        super().__init__(str(path), size)
        self._path = path

    def read_at(self, offset: int, n_bytes: int) -> bytes:
        try:
            with self._path.open("rb") as file:
                return LocalBytes(file.fileno(), self.name).read_at(offset, n_bytes)
        except OSError:
            return b""


def open_file_of(node: NodeHandle, info: h5g.GroupStat | None = None) -> OpenFile:
    """The file that an object is in. info: its h5g info, where that is known."""
    number = _number(node) if info is None else info.fileno
    file = None if number is None else _OPEN_FILES.get(number)
    if file is None:
        file = OpenFile(node)
        _RECENT.append(file)
        if number is not None:
            _OPEN_FILES[number] = file
    return file


def _number(node: NodeHandle) -> tuple[int, int] | None:
    """libhdf5's number for the file of an object; None for a file whose root group is broken."""
    try:
        number: tuple[int, int] = h5g.get_objinfo(node).fileno
    except hdf5_errors():
        return None
    return number


def vetted_file(node: NodeHandle, info: h5g.GroupStat | None = None) -> OpenFile | None:
    """The file that an object is in; None where its bytes cannot be read without libhdf5."""
    file = open_file_of(node, h5g.get_objinfo(node) if info is None else info)
    return file if file.is_readable else None


def raw_bytes(node: NodeHandle) -> ByteSource | None:
    """The bytes of the file that an object is in, as they are now; None if they can be read only through HDF5."""
    file_id = h5i.get_file_id(node)
    if file_id.get_intent() != h5f.ACC_RDONLY:
        h5f.flush(file_id)
    source = source_of(file_id)
    return None if source is None else _WhileOpen(node, source)


def source_of(file_id: h5f.FileID) -> LocalBytes | JournaledBytes | None:
    """The bytes of an open HDF5 file; None if they can be read only through HDF5."""
    file = open_file_of(file_id)
    if file.is_of_python:
        return None if file.journaled is None else JournaledBytes(file.journaled, file.name)
    descriptor = capi.descriptor_of(file_id)
    return None if descriptor is None else LocalBytes(descriptor, file.name)


class _WhileOpen(ByteSource):
    """Bytes that are read while an object is open: the descriptor of a closed file may by now be another file's."""

    def __init__(self, node: NodeHandle, source: ByteSource) -> None:
        super().__init__(source.name, source.size)
        self._node = node
        self._source = source

    def read_at(self, offset: int, n_bytes: int) -> bytes:
        if not self._node.valid:
            raise ConflictError(f"{self.name} was closed while it was read", path=self.name)
        return self._source.read_at(offset, n_bytes)


def lists_wrong_chunks(dataset: DatasetHandle) -> bool:
    """Whether libhdf5 may report wrong places of chunks: those of an extensible array (libver "v110" and later) whose
    unlimited dimension is not the first. It reads and writes them right."""
    space = dataset.get_space()
    if space.get_simple_extent_type() != h5s.SIMPLE:
        return False
    unlimited = [most == h5s.UNLIMITED for most in space.get_simple_extent_dims(True)]
    return sum(unlimited) == 1 and not unlimited[0]


def address_of(node: NodeHandle) -> int:
    """The address of an object's header."""
    return address_in(h5g.get_objinfo(node))


def address_in(info: h5g.GroupStat) -> int:
    """The address of an object's header, from its h5g info. H5Oget_info has it too, but visits all chunks for it."""
    low, high = info.objno
    return int(low) + (int(high) << 32)


def size_in_file(node: NodeHandle, stored: StoredType) -> int:
    """Bytes of an element of this datatype in the file that an object is in."""
    return stored_size(stored, open_file_of(node).offset_size)


# -- the questions --


def vet_root(file: ByteSource) -> None:
    """Refuse a file that libhdf5 cannot handle: wide addresses, or a root group that it would never finish reading."""
    try:
        block, source = read_superblock(file)
    except (FormatError, UnknownToReader):
        return
    messages = iter_messages(source, block.root, _MOST_HEADER)
    if _is_endless(source, block.root_heap) or has_endless_names(source, messages):
        capi.refuse("open the file", _CIRCLE)


def has_endless_names(source: HDF5Source, messages: Iterable[Message]) -> bool:
    """Whether the list of free places in a local heap of this group has no end."""
    with suppress(CorruptError, UnknownToReader):
        for message in messages:
            if message.type == SYMBOL_TABLE and _is_endless(source, read_symbol_table(source, message)[1]):
                return True
    return False


def _is_endless(source: HDF5Source, heap_address: int | None) -> bool:
    try:
        return heap_address is not None and read_local_heap(source, heap_address, _LONGEST_HEAP).is_endless
    except (CorruptError, UnknownToReader):
        return False


def vet_links(group: GroupHandle) -> None:
    """Refuse a group whose local heap libhdf5 would read for ever.

    Not in a file that was changed since it was opened: its bytes may be older than what libhdf5 has in memory.
    """
    info = h5g.get_objinfo(group)
    file = vetted_file(group, info)
    if file is not None:
        file.vet_group(address_in(info))


def vet_object(group: GroupHandle, name: bytes) -> None:
    """Refuse a virtual dataset whose map is in a collection without an end, and a datatype too new for this libhdf5.

    Soft links are not followed.
    """
    link = group.links.get_info(name)
    if link.type == h5l.TYPE_HARD:
        vet_map(group, int(link.u))


def _vet_version(datatype: bytes | memoryview) -> None:
    """HDF5 before 2.0 cannot open datatypes of version 5, and one of its identifiers is broken after it has tried."""
    if datatype and datatype[0] >> 4 > _NEWEST_DATATYPE and int(capi.hdf5_version().partition(".")[0]) < 2:
        capi.refuse("open this object", f"{NEEDS_NEWER_HDF5}; h5py has HDF5 {h5py.version.hdf5_version} here")


def vet_map(group: NodeHandle, address: int) -> None:
    """Refuse the same dataset by the address of its header, which is in the file of the group."""
    file = vetted_file(group)
    if file is not None:
        file.vet_map(address)


def vet_region(node: NodeHandle, reference: bytes) -> None:
    """Refuse a region reference, as it is in memory, whose region is in a collection without an end."""
    file = vetted_file(node)
    if file is not None:
        file.vet_collection(int.from_bytes(reference[: file.offset_size], "little"))


def vet_elements(node: NodeHandle, stored: StoredType, data: bytes | memoryview) -> None:
    """Refuse elements, given as they are stored, if they refer to a collection without an end, at any depth."""
    file = vetted_file(node) if stored.has_pointers else None
    if file is not None:
        file.vet_stored(stored, np.frombuffer(data, "u1"))


def vet_fill(dataset: DatasetHandle, stored: StoredType | None = None) -> None:
    """Refuse a dataset whose fill of variable length libhdf5 would read for ever.

    libhdf5 reads it when it is asked for the creation properties.
    """
    stored = stored or describe_type(dataset.get_type())
    file = vetted_file(dataset) if stored.has_pointers else None
    if file is None:
        return
    for message in file.messages(address_of(dataset)):
        if message.type in (FILL, OLD_FILL):
            file.vet_stored(stored, np.frombuffer(_fill_value(file, message), "u1"))


def vet_attribute(attribute: h5a.AttrID) -> None:
    """Refuse an attribute that claims more bytes than the file has, or leads to a collection without an end.

    libhdf5 does not say where the bytes of an attribute are. They are in the header of its object, or, if there are
    very many or very long attributes, elsewhere: such an attribute is read from a guarded file first.
    """
    stored = describe_type(attribute.get_type())
    file = vetted_file(attribute) if stored.has_pointers else None
    if file is None:
        return
    n_bytes = attribute.get_space().get_simple_extent_npoints() * stored_size(stored, file.offset_size)
    is_in_header = False
    for data in _attribute_values(file, address_of(attribute), attribute.name + b"\0"):
        is_in_header = True
        if file.is_frozen and stored.kind in ("text", "binary", "sequence"):
            _vet_attribute_lengths(file, data[:n_bytes])
        file.vet_stored(stored, np.frombuffer(data[:n_bytes], "u1"))
    if not is_in_header:
        with guarded(attribute) as node:
            if node is not None:
                twin = h5a.open(node, attribute.name)
                twin.read(np.zeros(twin.shape, dtype=twin.dtype))


def _attribute_values(file: OpenFile, address: int, name: bytes) -> Iterator[bytes]:
    """The elements of the attributes of this name in an object header, if they have any."""
    for message in file.messages(address):
        if message.type == ATTRIBUTE and name in message.data:
            with suppress(CorruptError, UnknownToReader):
                attribute = decode_attribute(file.fields(message))
                if attribute.name == name and attribute.elements:
                    yield attribute.elements


def _vet_attribute_lengths(file: OpenFile, data: bytes) -> None:
    dtype = reference_dtype(file.offset_size)
    references = np.frombuffer(data, dtype, len(data) // dtype.itemsize)
    if int(references["length"].max(initial=0)) > max(file.size, SMALL_CLAIM):
        capi.refuse("read an attribute", "it claims more bytes than the file has")


# -- a guarded file --


class _GuardedFile(io.RawIOBase):
    """The bytes of a file; reading a collection without an end is an OSError."""

    def __init__(self, file: OpenFile) -> None:
        self._file = file
        self._at = 0

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._file.size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._file.read_at(self._at, len(buffer))
        if data[: len(COLLECTION_SIGNATURE)] == COLLECTION_SIGNATURE:
            self._file.vet_collection(self._at)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def write(self, _data: object) -> int:
        raise OSError("this file is open for reading only")

    def truncate(self, _size: int | None = None) -> int:
        return self._file.size


@contextmanager
def guarded(node: NodeHandle) -> Iterator[DatasetHandle | None]:
    """The same object of its file opened a second time; None where that cannot be done, or the file may change.

    For what refers to collections that cannot be known beforehand: attributes that are not in the header of their
    object, and rows with filters that are not built in here. libhdf5 reads the second file through a Python object,
    which vets each collection before it returns its bytes.
    """
    file = vetted_file(node)
    if file is not None and file.journaled is not None and file.is_frozen:
        h5f.flush(h5i.get_file_id(node))  # what libhdf5 has only in memory is not in the bytes; then it is not frozen
    if file is None or not file.is_frozen:
        yield None
        return
    with h5py.File(_GuardedFile(file), "r") as opened:
        yield capi.open_at(opened.id, address_of(node))


# -- creation properties --


def creation_of(dataset: DatasetHandle) -> h5p.PropDCID:
    """The creation properties of a dataset; those in its header where its fill was lost in a copy.

    A fill of variable length is in the global heap. H5Ocopy (h5py's `copy`, h5repack; HDF5 1.8 to 2.0) copies the
    reference, and not what it refers to: the rows of the copy are complete, but libhdf5 fails to list its properties,
    and cannot resize it.
    """
    try:
        return dataset.get_create_plist()
    except hdf5_errors():
        creation = _creation_in_header(dataset)
        if creation is None:
            raise
        return creation


def has_lost_fill(dataset: DatasetHandle) -> bool:
    """Whether the fill of a dataset leads nowhere, so that libhdf5 does not list its properties."""
    try:
        dataset.get_create_plist()
    except hdf5_errors():
        return _creation_in_header(dataset) is not None
    return False


def _creation_in_header(dataset: DatasetHandle) -> h5p.PropDCID | None:
    """Storage, chunk and filters, without the fill; None where the header has no fill, or anything unknown."""
    file = vetted_file(dataset) if describe_type(dataset.get_type()).has_pointers else None
    if file is None:
        return None
    messages = {message.type: message for message in file.messages(address_of(dataset))}
    has_fill = any(_fill_value(file, messages[kind]) for kind in (FILL, OLD_FILL) if kind in messages)
    if not has_fill or EXTERNAL in messages or LAYOUT not in messages:
        return None
    try:
        storage = decode_storage(file.fields(messages[LAYOUT]))
        filters = decode_pipeline(file.fields(messages[PIPELINE])) if PIPELINE in messages else ()
        if storage.storage == "virtual" or storage.has_options:
            return None
        creation = h5p.create(h5p.DATASET_CREATE)
        if storage.storage == "chunked":
            creation.set_chunk(storage.chunk)
        else:
            creation.set_layout(h5d.COMPACT if storage.storage == "compact" else h5d.CONTIGUOUS)
        for step in filters:
            creation.set_filter(step.id, int(step.optional), step.options)
    except hdf5_errors(CorruptError, UnknownToReader):
        return None
    return creation


def _fill_value(file: OpenFile, message: Message) -> bytes:
    """The value in a fill message; no bytes if there is none, or it makes no sense."""
    try:
        return (decode_fill if message.type == FILL else decode_old_fill)(file.fields(message)) or b""
    except (CorruptError, UnknownToReader):
        return b""
