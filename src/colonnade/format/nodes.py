"""Groups, datasets and attributes of an HDF5 file, read from its bytes.

`open_file` gives the file; its `root` is a group, from which the others are found by name. Nothing is read before it is
asked for, and the header of an object is read once. What this reader does not know (external storage, virtual datasets,
tables of shared messages, some filters, newer versions) is an `UnknownToReader`; bytes that make no sense are a
CorruptError. Links out of the file, and soft links, are data: whoever asks decides whether to follow them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from math import prod
from typing import NamedTuple, TypeVar

import numpy as np

from colonnade.dataclass import replace
from colonnade.errors import CorruptError, FormatError, UnsupportedError
from colonnade.filters.codecs import LeftToLibrary
from colonnade.filters.undo import Pipeline
from colonnade.format.attributes import (
    StoredAttribute,
    attributes_by_name,
    find_attribute,
    order_of_attributes,
    parse_attribute,
    read_stored_attributes,
)
from colonnade.format.chunk_maps import OrdinaryChunkMap, StoredChunks
from colonnade.format.dataspace import Dataspace, decode_dataspace
from colonnade.format.datatype import COMPOUND, decode_datatype, in_memory
from colonnade.format.elements import (
    StoredRows,
    check_shape,
    decode_elements,
    element_bytes,
    element_dtype,
)
from colonnade.format.global_heap import GlobalHeap
from colonnade.format.headers import (
    DATASPACE,
    DATATYPE,
    EXTERNAL,
    FILL,
    LAYOUT,
    LINK_INFO,
    OLD_FILL,
    PIPELINE,
    SYMBOL_TABLE,
    Message,
    check_own,
    fields_of,
    find,
    read_messages,
)
from colonnade.format.layout import OrdinaryStorage, decode_storage
from colonnade.format.links import GroupLinks, Link
from colonnade.format.pipelines import decode_pipeline
from colonnade.format.source import Fields, HDF5Source, decode_known
from colonnade.format.superblock import read_superblock
from colonnade.format.values import DecodedValues, FillMessage, decode_fill_message, decode_old_fill
from colonnade.model import DatasetInfo, FilterInfo, StoredType
from colonnade.pager.sources import ByteSource

T = TypeVar("T")
MOST_BYTES_AT_ONCE = 2 << 30  # of elements that are read at once; more are refused
_FEW_BYTES = 64 << 20  # that elements may claim, whatever is stored for them
_BEST_FILTER, _MOST_FILL = 20_000, 100  # times what is stored that elements may claim, with filters and without
_MOST_SOFT_LINKS = 32
_FEW_NAMES = 16  # attributes that are looked for one by one
_MOST_NODES = 4096  # headers that are kept


class ByteNode:
    """An object of a file: a group, a dataset, or a committed datatype."""

    def __init__(self, source: HDF5Source, address: int, messages: list[Message]) -> None:
        self.source = source
        self.address = address
        self.messages = messages

    @cached_property
    def attributes(self) -> ByteAttributes:
        """Its attributes."""
        return ByteAttributes(self.source, self.messages)


class ByteAttributes:
    """The attributes of an object."""

    def __init__(self, source: HDF5Source, messages: list[Message]) -> None:
        self._source = source
        self._messages = messages
        self._n_found = 0

    def names(self) -> list[str]:
        """The names, sorted by their bytes."""
        return sorted((attribute.name for attribute in self.read()), key=_name_bytes)

    def names_in_order(self) -> list[str]:
        """The names in the order in which attributes were made where that is tracked, else sorted."""
        ordered = order_of_attributes(self._source, self._messages)
        return self.names() if ordered is None else ordered

    def read(self) -> Iterator[StoredAttribute]:
        """All attributes, as they are stored."""
        return read_stored_attributes(self._source, self._messages)

    def find(self, name: str) -> StoredAttribute | None:
        """The attribute of this name, found without reading all others where they are in a heap."""
        self._n_found += 1
        stored = self._by_name.get(name) if self._n_found > _FEW_NAMES else None
        if stored is not None:
            return parse_attribute(self._source, *stored)
        return find_attribute(self._source, self._messages, name)

    @cached_property
    def _by_name(self) -> dict[str, tuple[bytes, int]]:
        """All attributes, for finding many of them: looking for each in all others would be quadratic."""
        try:
            return attributes_by_name(self._source, self._messages)
        except CorruptError:
            return {}

    def elements(self, attribute: StoredAttribute) -> DecodedValues | None:
        """The elements of an attribute in memory form, in its shape; None for a null dataspace."""
        if attribute.shape is None:
            return None
        check_shape(attribute.shape, attribute.type, self._source.name)
        values = decode_elements(attribute.message.elements, attribute.type, GlobalHeap(self._source))
        return values.reshape((*attribute.shape, *values.shape[1:]))


def _name_bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


class ByteGroup(ByteNode):
    """A group: names that lead to objects."""

    @cached_property
    def _links(self) -> GroupLinks:
        return GroupLinks(self.source, self.messages)

    @property
    def has_order(self) -> bool:
        """Whether the order in which links were made is tracked."""
        return self._links.has_order

    def links(self) -> list[Link]:
        """All links, sorted by the bytes of their names."""
        return sorted(self._links.read(), key=lambda link: _name_bytes(link.name))

    def links_in_order(self) -> list[Link]:
        """All links in the order in which they were made where that is tracked, else sorted by name."""
        return sorted(self._links.read(), key=lambda link: link.order or 0) if self.has_order else self.links()

    def link(self, name: str) -> Link | None:
        """The link of this name."""
        return self._links.find(name)


class _Header(NamedTuple):
    """The contents of the header of a dataset: its datatype as stored, shape, storage, filters and fill."""

    type: StoredType
    space: Dataspace
    storage: OrdinaryStorage
    filters: tuple[FilterInfo, ...]
    fill: FillMessage


class ByteDataset(ByteNode):
    """A dataset: elements in a shape."""

    @cached_property
    def header(self) -> _Header:
        """The contents of the header."""
        kind, space = self._message(DATATYPE, "datatype"), self._message(DATASPACE, "dataspace")
        layout, pipeline = self._message(LAYOUT, "layout"), find(self.messages, PIPELINE)
        stored = decode_known(self.source, kind.data, decode_datatype, "datatype message", kind.at)
        storage = decode_storage(fields_of(self.source, layout, "layout message"))
        if storage.storage == "sectioned":
            raise self.source.as_fields(b"", "layout message", layout.at).unknown("sectioned chunks")
        extent = self._decode(space, decode_dataspace, "dataspace message")
        filters = () if pipeline is None else self._decode(pipeline, decode_pipeline, "filter message")
        if storage.storage == "chunked" and (
            len(storage.chunk) != len(extent.shape) or storage.element_size != stored.size
        ):
            text = f"has chunks of {storage.chunk} for a shape of {extent.shape}, and elements of {stored.size} bytes"
            raise self.source.wrong("layout message", layout.at, text)
        return _Header(stored, extent, storage, filters, self._read_fill())

    @property
    def is_compound(self) -> bool:
        """Whether the elements are of a compound type, by the first byte of its datatype."""
        message = find(self.messages, DATATYPE)
        return message is not None and len(message.data) > 0 and message.data[0] & 15 == COMPOUND

    def _message(self, kind: int, what: str) -> Message:
        message = find(self.messages, kind)
        if message is None:
            raise self.source.wrong("object header", self.address, f"of a dataset has no {what} message")
        return message

    def _decode(self, message: Message, decode: Callable[[Fields], T], what: str) -> T:
        check_own(self.source, message, what)
        return decode_known(self.source, message.data, decode, what, message.at)

    def _read_fill(self) -> FillMessage:
        message, old = find(self.messages, FILL), find(self.messages, OLD_FILL)
        if message is not None:
            return self._decode(message, decode_fill_message, "fill value message")
        return FillMessage(None if old is None else decode_old_fill(fields_of(self.source, old, "fill value message")))

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Its shape: () of a scalar, None if it holds nothing, not even an element."""
        return None if self.header.space.is_null else self.header.space.shape

    @cached_property
    def info(self) -> DatasetInfo:
        """The header as the layers above see it."""
        return replace(self.info_without_fill, fill=self.fill)

    @property
    def info_without_fill(self) -> DatasetInfo:
        """The header without the fill, which may lead nowhere."""
        stored, space, storage, filters, _ = self.header
        return DatasetInfo(
            type=in_memory(stored),
            shape=space.shape or None,
            storage="external" if self.is_external else storage.storage,
            chunk_rows=storage.chunk[0] if storage.chunk else None,
            filters=filters,
            fill=None,
        )

    @property
    def is_external(self) -> bool:
        """Whether the elements are in other files."""
        return self.header.storage.storage == "contiguous" and find(self.messages, EXTERNAL) is not None

    def check_known(self) -> None:
        """Raise an UnknownToReader if elements of this dataset cannot be read here."""
        kind = self.info_storage()
        if self.shape is not None:
            element_dtype(self.header.type)
        if kind == "chunked":
            self._pipeline()

    @cached_property
    def fill(self) -> bytes | None:
        """The fill value set by the writer, in the form of `ColumnInfo.fill`; None when none was set."""
        stored, value = self.header.type, self.header.fill.value
        if value is None:
            return None
        elements = decode_elements(self._whole_fill(value), stored, GlobalHeap(self.source))
        return element_bytes(elements[0], stored) if stored.has_pointers else np.ascontiguousarray(elements).tobytes()

    def _whole_fill(self, value: bytes) -> bytes:
        if len(value) != self.header.type.size:
            text = f"of a dataset has a fill value of {len(value)} bytes for elements of {self.header.type.size}"
            raise self.source.wrong("object header", self.address, text)
        return value

    @cached_property
    def chunk_map(self) -> OrdinaryChunkMap:
        """Where its chunks are."""
        return OrdinaryChunkMap(self.source, self.header.storage, self.header.space, bool(self.header.filters))

    def read(self, box: Sequence[range] | None = None) -> DecodedValues:
        """The elements in memory form, or a box of them (ranges without steps, one per dimension), in its shape."""
        stored, space = self.header.type, self.header.space
        if space.is_null:
            raise FormatError(f"{self.source.name}: a dataset holds nothing, not even an element")
        whole = [range(size) for size in space.shape] if box is None else list(box)
        shape = _lengths(whole)
        check_shape(shape, stored, self.source.name)  # before anything is read
        rows = self.read_stored(whole).reshape(-1)
        values = decode_elements(rows, stored, GlobalHeap(self.source))
        return values.reshape((*shape, *values.shape[1:]))

    def read_stored(self, box: Sequence[range]) -> StoredRows:
        """The elements of a box as they are stored, without filters: one array of bytes per element."""
        shape, size = _lengths(box), self.header.type.size
        count = prod(shape)
        if count * size > MOST_BYTES_AT_ONCE:
            raise self._too_much(count * size)
        kind = self.info_storage()
        if not count:
            check_shape(shape, self.header.type, self.source.name)
            return np.zeros((*shape, size), dtype=np.uint8)
        if kind == "compact":
            return self._take_run(self.header.storage.elements, box, 0)
        if kind == "contiguous":
            return self._read_run(box)
        return self._read_chunks(box)

    def info_storage(self) -> str:
        """How elements are stored; an UnknownToReader if this reader cannot read them."""
        storage = self.header.storage.storage
        if self.is_external:
            storage = "external"
        if storage not in ("compact", "contiguous", "chunked"):
            raise self.source.as_fields(b"", "dataset", self.address).unknown(f"{storage} storage")
        return storage

    def _too_much(self, claimed: int) -> UnsupportedError:
        text = f"{self.source.name}: a dataset claims {claimed:,} bytes, far more than are stored: take fewer rows"
        return UnsupportedError(text, feature="arrays that exceed what is read at once", path=self.source.name)

    def _filled(self, shape: tuple[int, ...], stored_bytes: int) -> StoredRows:
        """Elements that were never written, of which some may be overwritten."""
        stored, fill = self.header.type, self.header.fill
        claimed, times = prod(shape) * stored.size, _BEST_FILTER if self.header.filters else _MOST_FILL
        if claimed > _FEW_BYTES and claimed > times * stored_bytes:
            raise self._too_much(claimed)
        rows = np.zeros((*shape, stored.size), dtype=np.uint8)
        if fill.value is not None and fill.is_written:
            rows[...] = np.frombuffer(self._whole_fill(fill.value), dtype=np.uint8)
        return rows

    # -- elements that follow each other --

    def _read_run(self, box: Sequence[range]) -> StoredRows:
        storage, stored, space = self.header.storage, self.header.type, self.header.space
        if storage.address is None:
            return self._filled(_lengths(box), 0)
        if storage.size is not None and storage.size < space.n_elements * stored.size:
            text = f"of a dataset gives {storage.size} bytes for {space.n_elements} elements of {stored.size}"
            raise self.source.wrong("layout message", self.address, text)
        row_bytes = prod(space.shape[1:]) * stored.size
        first, last = (box[0].start, box[0].stop) if box else (0, 1)
        data = self.source.read(storage.address + first * row_bytes, (last - first) * row_bytes, "dataset")
        return self._take_run(data, box, first)

    def _take_run(self, data: bytes, box: Sequence[range], first: int) -> StoredRows:
        """A box of elements, given with all others from row `first` on."""
        space, size = self.header.space, self.header.type.size
        n_rows = (box[0].stop - first) if box else 1
        shape = (n_rows, *space.shape[1:]) if box else ()
        n_bytes = prod(shape) * size
        if len(data) < n_bytes:
            text = f"of a dataset gives {len(data)} bytes where {n_bytes} are needed"
            raise self.source.wrong("layout message", self.address, text)
        rows = np.frombuffer(data, dtype=np.uint8, count=n_bytes).reshape(*shape, size)
        if not box:
            return rows
        inside = (slice(box[0].start - first, n_rows), *(slice(axis.start, axis.stop) for axis in box[1:]))
        return np.ascontiguousarray(rows[inside])

    # -- chunks --

    def _read_chunks(self, box: Sequence[range]) -> StoredRows:
        chunk, chunk_map = self.header.storage.chunk, self.chunk_map
        pipeline = self._pipeline()
        low = tuple(axis.start // size for axis, size in zip(box, chunk, strict=True))
        high = tuple(-(-axis.stop // size) for axis, size in zip(box, chunk, strict=True))
        batches = list(chunk_map.read(low, high))
        stored_bytes = sum(int(np.minimum(part.size, self.source.fits).sum(dtype=np.uint64)) for part in batches)
        out = self._filled(_lengths(box), stored_bytes)
        if chunk_map.chunk_bytes > _FEW_BYTES and chunk_map.chunk_bytes > _BEST_FILTER * stored_bytes:
            raise self._too_much(chunk_map.chunk_bytes)
        whole = np.empty(chunk_map.chunk_bytes if batches else 0, dtype=np.uint8)
        for batch in batches:
            self._unpack(batch, pipeline, whole, out, box)
        return out

    def _pipeline(self) -> Pipeline:
        filters = self.header.filters
        pipeline = Pipeline(filters, self.chunk_map.chunk_bytes)
        if not pipeline.is_known:
            names = ", ".join(step.name for step in filters)
            raise self.source.as_fields(b"", "dataset", self.address).unknown(f"the filters {names}")
        return pipeline

    def _unpack(
        self, batch: StoredChunks, pipeline: Pipeline, whole: StoredRows, out: StoredRows, box: Sequence[range]
    ) -> None:
        chunk = self.header.storage.chunk
        shaped = whole.reshape(*chunk, self.header.type.size)
        rows = zip(batch.grid.tolist(), batch.address.tolist(), batch.size.tolist(), batch.mask.tolist(), strict=True)
        for grid, address, size, mask in rows:
            try:
                pipeline.check_size(size)
                pipeline.undo(self.source.read(address, size, f"chunk {tuple(grid)}"), mask, whole)
            except LeftToLibrary as error:
                raise self.source.as_fields(b"", "chunk", address).unknown(f"a filter ({error})") from error
            except (ValueError, MemoryError) as error:
                if isinstance(error, CorruptError):
                    raise
                raise self.source.wrong(f"chunk {tuple(grid)}", address, f"cannot be unpacked: {error}") from error
            _copy_part(shaped, [at * side for at, side in zip(grid, chunk, strict=True)], out, box)


def _lengths(box: Sequence[range]) -> tuple[int, ...]:
    """The shape of a box; `len` of a range stops at 2**63."""
    return tuple(max(axis.stop - axis.start, 0) for axis in box)


def _copy_part(values: StoredRows, begins: list[int], out: StoredRows, box: Sequence[range]) -> None:
    """Copy the part of a chunk that is in the box."""
    inside, target = [], []
    for begin, side, axis in zip(begins, values.shape, box, strict=False):
        low, high = max(begin, axis.start), min(begin + side, axis.stop)
        inside.append(slice(low - begin, high - begin))
        target.append(slice(low - axis.start, high - axis.start))
    out[tuple(target)] = values[tuple(inside)]


class ByteDatatype(ByteNode):
    """A committed datatype."""

    @property
    def type(self) -> StoredType:
        """The datatype, as libhdf5 reports it."""
        message = find(self.messages, DATATYPE)
        if message is None:
            raise self.source.wrong("object header", self.address, "of a datatype has no datatype message")
        return in_memory(decode_datatype(self.source.as_fields(message.data, "datatype message", message.at)))


class ByteFile:
    """An HDF5 file, whose objects are found from its root group."""

    def __init__(self, source: HDF5Source, root: int) -> None:
        self.source = source
        self._root = root
        self._nodes: dict[int, ByteNode] = {}

    @property
    def root(self) -> ByteGroup:
        """The root group."""
        node = self.at(self._root)
        if not isinstance(node, ByteGroup):
            raise self.source.wrong("object header", self._root, "of the root group is not that of a group")
        return node

    def at(self, address: int) -> ByteNode:
        """The object whose header is at an address."""
        node = self._nodes.get(address)
        if node is None:
            if len(self._nodes) >= _MOST_NODES:
                self._nodes.clear()
            node = self._nodes[address] = _make_node(self.source, address)
        return node

    def child(self, group: ByteGroup, name: str) -> ByteNode | None:
        """The object that a hard link leads to; None if there is none of this name, or it is not a hard link."""
        link = group.link(name)
        return None if link is None or link.address is None else self.at(link.address)

    def find(self, path: str) -> ByteNode | None:
        """The object at a path from the root group, also through soft links; None if there is none.

        A link out of the file is an UnsupportedError.
        """
        node: ByteNode = self.root
        names = [name for name in path.split("/") if name not in ("", ".")]
        n_soft = 0
        while names:
            link = node.link(names.pop(0)) if isinstance(node, ByteGroup) else None
            if link is None:
                return None
            if link.kind == "soft" and link.target is not None:
                n_soft += 1
                if n_soft > _MOST_SOFT_LINKS:
                    return None
                names = [name for name in link.target.split("/") if name not in ("", ".")] + names
                node = self.root if link.target.startswith("/") else node
            elif link.kind != "hard":
                text = f"{self.source.name}: {path} leads through {link.name!r}, a link out of the file"
                raise UnsupportedError(text, feature="external link", path=self.source.name)
            else:
                node = self.at(link.address) if link.address is not None else _nowhere(self.source, link)
        return node


def _nowhere(source: HDF5Source, link: Link) -> ByteNode:
    raise CorruptError(f"{source.name}: the link {link.name!r} leads to an undefined address", path=source.name)


def _make_node(source: HDF5Source, address: int) -> ByteNode:
    """A node of the kind that libhdf5 takes an object for, by the messages in its header."""
    messages = read_messages(source, address)
    kinds = {message.type for message in messages}
    if kinds & {SYMBOL_TABLE, LINK_INFO}:
        return ByteGroup(source, address, messages)
    if {DATATYPE, DATASPACE} <= kinds:
        return ByteDataset(source, address, messages)
    if DATATYPE in kinds:
        return ByteDatatype(source, address, messages)
    raise source.wrong("object header", address, "is of no kind of object")


def open_file(file: ByteSource) -> ByteFile:
    """An HDF5 file, given by its bytes."""
    block, source = read_superblock(file)
    if block.end - block.base > source.fits:
        raise source.wrong("the superblock", 0, f"gives {block.end} bytes, but the file has {file.size}")
    if block.has_driver:
        raise source.as_fields(b"", "the superblock", 0).unknown("a file driver of several files")
    return ByteFile(source, block.root)
