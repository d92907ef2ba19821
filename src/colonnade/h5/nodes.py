"""Groups, and arrays of any rank, as h5py hands them out: opened, read by parts, and written, for AnnData's elements.

Only hard links are followed, and rows in other files are read only where `outside` allows it.
A dataset that claims far more than is stored for it is not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from math import prod
from typing import Any, Literal, NamedTuple

import h5py
import numpy as np
from h5py import h5d, h5i, h5s

from colonnade.dataclass import dataclass
from colonnade.errors import ConflictError, CorruptError, FormatError, UnsupportedError, UsageError
from colonnade.filters.codecs import LeftToLibrary
from colonnade.filters.undo import Pipeline
from colonnade.h5 import capi
from colonnade.h5.chunks import vet_chunk_sizes, vet_run, vet_stored_rows
from colonnade.h5.datatypes import can_be_converted, describe_type
from colonnade.h5.filters import describe_filters, load_filters, require_filters
from colonnade.h5.links import address, children, create_group, exists, hard_kind, unlink
from colonnade.h5.outside import bytes_elsewhere, check_rows, mapped_elements
from colonnade.h5.vetting import creation_of, guarded, raw_bytes, size_in_file, vet_fill, vet_object
from colonnade.model import FilterInfo
from colonnade.nodes import DatasetHandle, H5Dataset, H5Group, H5Node, NodeHandle
from colonnade.nodes.chunk_source import FARTHEST
from colonnade.nodes.damage import hdf5_errors, raise_lack
from colonnade.nodes.elements import claims_too_much
from colonnade.nodes.paths import decode_name
from colonnade.pager.sources import ByteSource
from colonnade.stored_dtypes import raw_dtype

TEXT_BYTES = 64  # that a string takes in memory, at least
Array = np.ndarray
HandleKind = Literal["group", "dataset"]
LARGEST_SMALL_ATTRIBUTE = 4000  # strings of variable length that fit into an object header, 16 bytes each


MOST_CHUNKS, FEWEST_STORED = 200_000, 16  # chunks that are looked for, if fewer than 1 in 16 is stored


def kind_of(node: object) -> HandleKind:
    """Whether this is a group or a dataset of h5py; anything else is a UsageError."""
    if isinstance(node, h5py.Group):
        return "group"
    if isinstance(node, h5py.Dataset):
        return "dataset"
    raise UsageError(f"an element is a group or a dataset of h5py, such as file.h5['obs'], not {type(node).__name__}")


def path_of(node: H5Node) -> str:
    """Where in its file an object is, for messages."""
    try:
        name = node.name
        return decode_name(name) if isinstance(name, bytes) else str(name)  # bytes where it is not UTF-8
    except hdf5_errors():
        return "?"


def member_names(group: H5Group) -> list[str]:
    """The names of the groups and datasets in a group, also of those that cannot be opened: none is lost unsaid."""
    return [child.name for child in children(group.id) if child.kind in ("group", "dataset", "broken")]


def member(group: H5Group, name: str) -> Any:
    """The group or dataset of this name; a FormatError when there is none, or it cannot be opened."""
    found = find_member(group, name)
    if found is None:
        raise FormatError(f"{path_of(group)} has no member {name!r} that can be opened", path=path_of(group))
    return found


def find_member(group: H5Group, name: str) -> Any | None:
    """The group or dataset of this name; None when there is none, or it cannot be opened."""
    kind = hard_kind(group.id, name)
    if kind not in ("group", "dataset"):
        return None
    key = name.encode("utf-8", "surrogateescape")
    try:
        if kind == "dataset":
            vet_object(group.id, key)
            _check_heap(h5d.open(group.id, key))  # h5py asks for the properties of a dataset as it opens it
        return group[key]
    except hdf5_errors(UnsupportedError):
        return None


def _check_heap(dataset: DatasetHandle) -> None:
    """Of elements of variable length: the library must be able to read the fill."""
    vet_fill(dataset)


def object_at(opened: NodeHandle) -> Any:
    """The h5py object of a group or dataset that was opened below it."""
    return h5py.Group(opened) if isinstance(opened, h5py.h5g.GroupID) else h5py.Dataset(opened)


def place_of(node: H5Node) -> int | None:
    """Where the object is kept: equal for two names of one object."""
    return address(node.id)


@contextmanager
def _header_of(dataset: H5Dataset) -> Iterator[None]:
    """Errors of h5py about a header that makes no sense come out as CorruptError."""
    try:
        yield
    except hdf5_errors() as error:
        raise_lack(error)
        raise CorruptError(f"the header cannot be read: {error}", path=path_of(dataset)) from error


def is_null(dataset: H5Dataset) -> bool:
    """Whether the dataset holds nothing, not even an element."""
    with _header_of(dataset):
        return bool(dataset.id.get_space().get_simple_extent_type() == h5s.NULL)


def is_scalar(dataset: H5Dataset) -> bool:
    """Whether the dataset holds one element, and no axis."""
    with _header_of(dataset):
        return bool(dataset.id.get_space().get_simple_extent_type() == h5s.SCALAR)


def shape_of(dataset: H5Dataset) -> tuple[int, ...]:
    """The dataset's shape, () of a scalar and of one that holds nothing."""
    with _header_of(dataset):
        return tuple(dataset.id.get_space().get_simple_extent_dims() or ())


def dtype_of(dataset: H5Dataset) -> np.dtype:
    """The dtype h5py reads the dataset as."""
    try:
        found: np.dtype = dataset.dtype
    except hdf5_errors() as error:
        raise UnsupportedError(
            f"{path_of(dataset)} has a datatype that h5py does not know: {error}",
            feature="datatype",
            path=path_of(dataset),
        ) from error
    if not can_be_converted(describe_type(dataset.id.get_type())):
        raise UnsupportedError(
            f"{path_of(dataset)} has a datatype with numbers of more bits than their bytes have",
            feature="datatype",
            path=path_of(dataset),
        )
    if _overlaps(found):
        raise UnsupportedError(
            f"{path_of(dataset)} has members of a compound that h5py takes to be longer than they are",
            feature="datatype",
            path=path_of(dataset),
        )
    return found


def _overlaps(dtype: np.dtype) -> bool:
    """Whether fields overlap: h5py widens unusual floats in place, and libhdf5 crashes on that."""
    if dtype.subdtype is not None:
        return _overlaps(dtype.subdtype[0])
    fields = sorted(((field[1], field[0]) for field in (dtype.fields or {}).values()), key=lambda field: field[0])
    ends = [offset + kind.itemsize for offset, kind in fields]
    begins = [offset for offset, _ in fields[1:]] + [dtype.itemsize]
    return any(end > begin for end, begin in zip(ends, begins, strict=False)) or any(
        _overlaps(kind) for _, kind in fields
    )


def is_text(dataset: H5Dataset) -> bool:
    """Whether the elements are strings of variable length."""
    found = h5py.check_string_dtype(dtype_of(dataset))
    return found is not None and found.length is None


def read_array(dataset: H5Dataset, part: tuple[slice, ...] = ()) -> Array:
    """The elements, or a box of them, as an array; strings of variable length as `str`, also in compounds."""
    check_readable(dataset, prod(len(one) for one in _box(dataset, part)))
    return read_checked(dataset, part)


def check_readable(dataset: H5Dataset, count: int) -> None:
    """Refuse a dataset whose elements are not to be read, or that claims `count` of them without storing them."""
    dtype = dtype_of(dataset)
    if is_null(dataset):
        raise FormatError(f"{path_of(dataset)} holds nothing, not even an element", path=path_of(dataset))
    claimed = count * max(dtype.itemsize, TEXT_BYTES if dtype.kind in "SO" else 1)
    with _header_of(dataset):
        _check_heap(dataset.id)
        if creation_of(dataset.id).get_layout() != h5d.CHUNKED:
            check_rows(dataset.id)
            vet_run(dataset.id, describe_type(dataset.id.get_type()))
        stored, filters = _stored_bytes(dataset.id), describe_filters(creation_of(dataset.id))
        if dataset.chunks and stored:  # of a chunk that is stored, the library makes all
            claimed = max(claimed, prod(dataset.chunks) * max(dtype.itemsize, 1))
            _check_chunks(dataset, count)
    if claims_too_much(claimed, stored, bool(filters)):
        raise UnsupportedError(
            f"{path_of(dataset)} claims {claimed:,} bytes, {stored:,} are stored: it is not read",
            feature="arrays of which most was never written",
            path=path_of(dataset),
        )


def _check_chunks(dataset: H5Dataset, count: int) -> None:
    """Refuse a dataset that claims very many chunks and has few: the library takes two KiB for each it looks for."""
    most = -(-count // max(prod(dataset.chunks or ()), 1))
    if most > MOST_CHUNKS and most > FEWEST_STORED * dataset.id.get_num_chunks():
        raise UnsupportedError(
            f"{path_of(dataset)} claims {most:,} chunks, few of which are stored: it is not read",
            feature="arrays of which most was never written",
            path=path_of(dataset),
        )


def read_checked(dataset: H5Dataset, part: tuple[slice, ...] = ()) -> Array:
    """As `read_array`, of a dataset that `check_readable` has let pass: for those that are read by many parts."""
    dtype, box = dtype_of(dataset), _box(dataset, part)
    with _header_of(dataset):
        filters = describe_filters(creation_of(dataset.id))
    load_filters(filters)
    try:
        own = read_box(dataset.id, dtype, filters, box, path_of(dataset)) if _is_plain(box) else None
        read = _read_by_library(dataset, part, filters) if own is None else own
    except hdf5_errors() as error:
        raise_lack(error)
        require_filters(filters, path_of(dataset))
        raise CorruptError(f"the dataset cannot be read: {error}", path=path_of(dataset)) from error
    return with_texts(read, dtype, path_of(dataset))


def _read_by_library(dataset: H5Dataset, part: tuple[slice, ...], filters: Sequence[FilterInfo]) -> Array:
    """A part as h5py reads it; elements of variable length with unknown filters come from a guarded file."""
    if not dtype_of(dataset).hasobject or Pipeline(filters, 1).is_known:
        return np.asarray(dataset[part])
    with guarded(dataset.id) as twin:
        return np.asarray((dataset if twin is None else h5py.Dataset(twin))[part])


def _box(dataset: H5Dataset, part: tuple[slice, ...]) -> list[range]:
    """What a part takes of each axis; all of those that it does not name."""
    shape = shape_of(dataset)
    named = [range(*one.indices(length)) for one, length in zip(part, shape, strict=False)]
    return [*named, *(range(length) for length in shape[len(named) :])]


def _stored_bytes(dataset: DatasetHandle) -> int:
    """What is stored of a dataset, in a file of its size. The library counts what is claimed, written or not."""
    claimed, creation = int(dataset.get_storage_size()), creation_of(dataset)
    layout, most = creation.get_layout(), h5i.get_file_id(dataset).get_filesize()
    if layout != h5d.CONTIGUOUS:
        mapped = mapped_elements(dataset) * int(dataset.get_type().get_size()) if layout == h5d.VIRTUAL else None
        return min(claimed, most) if mapped is None else mapped
    if creation.get_external_count():
        return min(claimed, bytes_elsewhere(dataset))
    return 0 if dataset.get_offset() is None else min(claimed, most)


def _is_plain(box: list[range]) -> bool:
    return all(one.step == 1 for one in box)


def boxes(dataset: H5Dataset, most_bytes: int) -> Iterator[tuple[slice, ...]]:
    """The dataset in boxes of at most `most_bytes` bytes (or one chunk, where that is more), in order."""
    shape, dtype = shape_of(dataset), dtype_of(dataset)
    with _header_of(dataset):
        chunk = dataset.chunks
    counts = [1] * len(shape) if chunk is None else list(chunk)
    times = most_bytes // max(int(np.prod(counts, dtype=object)) * dtype.itemsize, 1)
    for axis in reversed(range(len(shape))):
        wanted = max(1, min(-(-shape[axis] // counts[axis]), times))
        counts[axis] *= wanted
        times //= wanted
    starts = [range(0, length, count) for length, count in zip(shape, counts, strict=True)]
    for first in product(*starts):
        yield tuple(slice(at, at + count) for at, count in zip(first, counts, strict=True))


def with_texts(read: Array, dtype: np.dtype, path: str) -> Array:
    """Bytes of variable-length strings as `str`, wherever they stand."""
    if dtype.names is not None:
        if read_as(dtype) is dtype:
            return read
        target = np.empty(read.shape, dtype=read_as(dtype))
        for name in dtype.names:
            target[name] = with_texts(read[name], dtype[name], path)
        return target
    return decode_texts(read, path) if _holds_texts(dtype) else read


def _holds_texts(dtype: np.dtype) -> bool:
    found = h5py.check_string_dtype(dtype)
    return found is not None and found.length is None


def read_as(dtype: np.dtype) -> np.dtype:
    """What elements of this dtype of h5py are read as: objects where strings stand, also in a compound."""
    if dtype.names is None:
        return np.dtype(object) if _holds_texts(dtype) else dtype
    if not any(_holds_texts(dtype[name]) for name in dtype.names):
        return dtype
    return np.dtype([(name, np.dtype(object) if _holds_texts(dtype[name]) else dtype[name]) for name in dtype.names])


def decode_texts(read: Array, path: str) -> Array:
    """Bytes as `str`, in an array of objects; what is not UTF-8 is a CorruptError."""
    strings = np.empty(read.shape, dtype=object)
    try:
        flat = [one.decode("utf-8") if isinstance(one, bytes) else str(one) for one in read.reshape(-1).tolist()]
    except UnicodeDecodeError as error:
        raise CorruptError(f"bytes are not UTF-8: {error}", path=path) from error
    strings.reshape(-1)[:] = flat
    return strings


# -- writing --


def check_writable(group: H5Group) -> None:
    """Refuse what nothing can be written into."""
    if not isinstance(group, h5py.Group):
        raise UsageError(f"an element is written into a group of h5py, such as file.h5, not {type(group).__name__}")
    if group.file.mode == "r":
        raise ConflictError(f"{group.file.filename} is open for reading: open it with mode 'r+' or 'a' to write")


def make_group(parent: H5Group, name: str, attributes: Mapping[str, object]) -> H5Group:
    """A new group with these attributes."""
    large = any(isinstance(value, list) and len(value) > LARGEST_SMALL_ATTRIBUTE for value in attributes.values())
    create_group(parent.id, name, large_attributes=large)
    made: H5Group = parent[name]
    write_attributes(made, attributes)
    return made


def write_attributes(node: H5Node, attributes: Mapping[str, object]) -> None:
    """Attributes as anndata writes them: strings of variable length, flags as the boolean enum, integers as int64."""
    for name, value in attributes.items():
        if isinstance(value, list) and value:
            node.attrs[name] = np.array(value, dtype=h5py.string_dtype())
        else:
            node.attrs[name] = value  # an empty list becomes float64 of length 0, as in files of anndata


def make_null(parent: H5Group, name: str) -> H5Dataset:
    """A dataset that holds nothing."""
    return parent.create_dataset(name, data=h5py.Empty("f"))


@dataclass(frozen=True)
class StreamedArray:
    """An array that is read block by block while it is written; every block comes with its place."""

    shape: tuple[int, ...]
    dtype: np.dtype
    blocks: Callable[[], Iterator[tuple[tuple[slice, ...], Array]]]

    @property
    def ndim(self) -> int:
        return len(self.shape)


@dataclass(frozen=True)
class ArrayOptions:
    """How new datasets are stored. `chunks` is for arrays of its rank: an integer for rank 1; True: h5py's choice."""

    compression: str | None = None
    compression_opts: int | None = None
    chunks: bool | int | tuple[int, ...] | None = None

    def of(self, shape: tuple[int, ...]) -> dict[str, Any]:
        """The arguments of h5py for a dataset of this shape; a scalar takes none."""
        found: dict[str, Any] = {}
        if shape and self.compression is not None:
            found = {"compression": self.compression, "compression_opts": self.compression_opts}
        if shape and self.chunks is True:
            found["chunks"] = True
        elif self.chunks is not None and not isinstance(self.chunks, bool) and min(shape, default=0) > 0:
            chunks = (self.chunks,) if isinstance(self.chunks, int) else self.chunks
            if len(chunks) == len(shape):
                found["chunks"] = tuple(min(one, length) for one, length in zip(chunks, shape, strict=True))
        return found


def is_dataset(value: object) -> bool:
    """Whether this is a dataset of h5py."""
    return isinstance(value, h5py.Dataset)


def is_group(value: object) -> bool:
    """Whether this is a group of h5py."""
    return isinstance(value, h5py.Group)


def streamed(dataset: H5Dataset, most_bytes: int = 8 << 20) -> StreamedArray:
    """A dataset of numbers that is read a few MiB at a time."""
    check_readable(dataset, prod(shape_of(dataset)))

    def blocks() -> Iterator[tuple[tuple[slice, ...], Array]]:
        for part in boxes(dataset, most_bytes):
            yield part, read_checked(dataset, part)

    return StreamedArray(shape_of(dataset), dtype_of(dataset), blocks)


def make_array(
    parent: H5Group,
    name: str,
    data: Array | StreamedArray,
    growable: bool = False,
    options: ArrayOptions = ArrayOptions(),  # noqa: B008 - it is frozen
) -> Any:
    """A new dataset of these elements; `object` arrays are strings of variable length."""
    chosen = options.of(data.shape)
    if growable:
        chosen["maxshape"] = (None,) * data.ndim
    if not isinstance(data, StreamedArray):
        return parent.create_dataset(name, data=data, dtype=stored_dtype(data.dtype), **chosen)
    made = parent.create_dataset(name, shape=data.shape, dtype=stored_dtype(data.dtype), **chosen)
    for part, block in data.blocks():
        made[part] = block
    return made


def stored_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype by which h5py writes: strings of variable length for objects, also in compounds."""
    if dtype.names is not None:
        return np.dtype([(name, stored_dtype(dtype[name])) for name in dtype.names])
    if dtype.kind == "O":
        found: np.dtype = h5py.string_dtype()
        return found
    return dtype


def move_into_place(group: H5Group, aside: str, name: str) -> None:
    """Give a new object its name; what had it before is unlinked first."""
    if exists(group.id, name):
        unlink(group.id, name)
    group.move(aside, name)


def remove(group: H5Group, name: str) -> None:
    """Unlink an object if it is there."""
    if exists(group.id, name):
        unlink(group.id, name)


def replace_members(group: H5Group, aside: str) -> None:
    """Unlink all members of a group but one, whose members take their place; the attributes of the group go too."""
    for child in children(group.id):
        if child.name != aside:
            unlink(group.id, child.name)
    for name in member_names(group[aside]):
        group.move(f"{aside}/{name}", name)
    unlink(group.id, aside)
    for name in list(group.attrs):
        del group.attrs[name]


# -- boxes of chunked arrays, unpacked here --

Box = Sequence[range]
MOST_ASKED = 4096  # chunks that are asked for one by one, without knowing how many there are
_BYTE = np.dtype(np.uint8)


def read_box(
    dataset: DatasetHandle, dtype: np.dtype, filters: Sequence[FilterInfo], box: Box, path: str
) -> Array | None:
    """A box (ranges without steps) of a dataset whose chunks have filters; None when the library is to read it.

    A chunk that does not unpack to what it must hold, or whose elements claim more than the file has, is a
    CorruptError, in both cases.
    """
    creation, stored = creation_of(dataset), describe_type(dataset.get_type())
    if (
        not (filters or stored.has_pointers)
        or creation.get_layout() != h5d.CHUNKED
        or capi.skips_partial_chunks(creation)
    ):
        return None
    shape, chunk = tuple(dataset.shape), tuple(creation.get_chunk())
    item = size_in_file(dataset, stored)
    pipeline = Pipeline(filters, prod(chunk) * item)
    if not item or not pipeline.is_known or not shape:
        return None
    raw = raw_dtype(stored)
    is_raw = raw is not None and raw == dtype  # to NumPy, None is float64
    out = np.empty([len(one) for one in box], dtype) if is_raw else None
    n_read, whole = 0, np.empty(prod(chunk) * item, _BYTE)
    most, file = h5i.get_file_id(dataset).get_filesize(), raw_bytes(dataset)
    for offset, info in _stored(dataset, chunk, box):
        if info.size > most:
            raise CorruptError(f"the chunk at {offset} claims {info.size:,} bytes, the file has {most:,}", path=path)
        if not _unpack(_ChunkBytes(dataset, file, offset, info), pipeline, whole, path):
            return None
        n_read += 1
        if stored.has_pointers:
            vet_stored_rows(dataset, stored, whole, path)
        if out is not None:
            _place(whole.view(dtype).reshape(chunk), offset, out, box)
    if n_read < prod(len(numbers) for numbers in _grid(chunk, box)):  # some are the fill
        vet_chunk_sizes(dataset, filters, path)
        return None
    return out


def _grid(chunk: Sequence[int], box: Box) -> list[range]:
    """The numbers of the chunks that a box touches, along each dimension."""
    return [range(one.start // n, -(-one.stop // n)) if one else range(0) for one, n in zip(box, chunk, strict=True)]


def _stored(dataset: DatasetHandle, chunk: Sequence[int], box: Box) -> Iterator[tuple[tuple[int, ...], h5d.StoreInfo]]:
    """Where the stored chunks that a box touches begin, and what they are. Of many claimed, all are listed."""
    grid = _grid(chunk, box)
    if prod(len(numbers) for numbers in grid) <= MOST_ASKED:
        for place in product(*grid):
            offset = tuple(number * n for number, n in zip(place, chunk, strict=True))
            info = dataset.get_chunk_info_by_coord(offset)
            if info.byte_offset is not None:
                yield offset, info
        return
    found: list[tuple[tuple[int, ...], h5d.StoreInfo]] = []
    dataset.chunk_iter(lambda info: found.append((tuple(info.chunk_offset), info)))
    for offset, info in found:
        if all(start // n in numbers for start, n, numbers in zip(offset, chunk, grid, strict=True)):
            yield offset, info


class _ChunkBytes(NamedTuple):
    """A chunk as it is stored. Of a damaged map of chunks the library may find one, and read another that is longer."""

    dataset: DatasetHandle
    file: ByteSource | None
    offset: tuple[int, ...]
    info: h5d.StoreInfo

    def read(self) -> tuple[int, bytes]:
        """The filters it has skipped, and its bytes."""
        if self.file is not None and not h5i.get_file_id(self.dataset).get_create_plist().get_userblock():
            address = self.info.byte_offset
            if address is None or address > FARTHEST:
                raise ValueError("it lies far after the end of the file")
            return self.info.filter_mask, self.file.read_at(address, self.info.size)
        return capi.read_stored_chunk(self.dataset, self.offset)


def _unpack(chunk: _ChunkBytes, pipeline: Pipeline, whole: Array, path: str) -> bool:
    """Put a chunk into an array; False when only the library knows how."""
    offset = chunk.offset
    try:
        pipeline.check_size(chunk.info.size)
        mask, data = chunk.read()
        pipeline.undo(data, mask, whole)
    except LeftToLibrary:
        return False
    except (ValueError, MemoryError) as error:  # a damaged chunk map may claim any size
        raise CorruptError(f"the chunk at {offset} is damaged: {error}", path=path) from error
    return True


def _place(values: Array, offset: tuple[int, ...], out: Array, box: Box) -> None:
    """The part of a chunk that lies in the box."""
    inside, target = [], []
    for begin, size, one in zip(offset, values.shape, box, strict=True):
        low, high = max(begin, one.start), min(begin + size, one.stop)
        inside.append(slice(low - begin, high - begin))
        target.append(slice(low - one.start, high - one.start))
    out[tuple(target)] = values[tuple(inside)]
