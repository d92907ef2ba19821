"""Datasets described, created and read: one-dimensional ones by rows, and matrices of bytes by blocks.

Elements travel as NumPy arrays of the memory form that `datatypes.memory_dtype` names. Where an
element points elsewhere (variable length), the array is good only inside `reading`.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

import h5py
import numpy as np
from h5py import h5d, h5f, h5i, h5p, h5r, h5s, h5t

from colonnade import kernels
from colonnade.arrays import Booleans, Image, Octets
from colonnade.dataclass import dataclass, replace
from colonnade.errors import CorruptError, UnsupportedError
from colonnade.filters.codecs import Data
from colonnade.filters.read_plan import MOST_AT_ONCE
from colonnade.filters.undo import DEFLATE
from colonnade.format.datatype import in_file
from colonnade.h5 import capi
from colonnade.h5.chunks import FLETCHER32, SHORTEST_CHECKED, read_as_stored, size_as_stored, vet_chunk_sizes, vet_rows
from colonnade.h5.datatypes import describe_type, make_type, memory_type
from colonnade.h5.filters import (
    creation_list,
    describe_filters,
    link_list,
    load_filters,
    may_skip,
    require_filters,
    set_filters,
)
from colonnade.h5.outside import bytes_elsewhere, check_rows, mapped_elements
from colonnade.h5.vetting import creation_of, guarded, has_lost_fill, open_file_of, vet_fill
from colonnade.model import (
    ColumnInfo,
    DatasetInfo,
    FilterInfo,
    Storage,
    StoredType,
)
from colonnade.nodes import DatasetHandle, GroupHandle, NodeHandle
from colonnade.nodes.chunk_source import by_chunk
from colonnade.nodes.damage import hdf5_errors, raise_lack
from colonnade.nodes.elements import check_n_rows, fill_element, follow_pointers, is_shown_as_stored
from colonnade.nodes.paths import encode_name
from colonnade.stored_dtypes import LARGEST_ELEMENT, memory_dtype

MOST_COMPACT = 1 << 16  # bytes that a header has room for, whatever it claims
MOST_CHUNKS = 4096  # that the library reads in one call
_SCRATCH_NUMBERS = itertools.count()  # names of files in memory, which HDF5 shares in the process
_STORAGES: dict[int, Storage] = {
    h5d.COMPACT: "compact",
    h5d.CONTIGUOUS: "contiguous",
    h5d.CHUNKED: "chunked",
    h5d.VIRTUAL: "virtual",
}


def describe_dataset(dataset: DatasetHandle) -> DatasetInfo:
    """The dataset's header as plain data; no element is read."""
    type_id = dataset.get_type()
    stored = describe_type(type_id)
    if stored.has_pointers:
        vet_fill(dataset, stored)
    creation = creation_of(dataset)
    space = dataset.get_space()
    simple = space.get_simple_extent_type() == h5s.SIMPLE
    if is_shown_as_stored(stored):
        stored = replace(stored, size=size_as_stored(dataset, dataset.get_space().get_select_npoints()))
    shape = tuple(space.get_simple_extent_dims()) if simple else None
    check_n_rows(shape, object_name(dataset))
    storage = _STORAGES.get(creation.get_layout(), "contiguous")
    if storage == "contiguous" and creation.get_external_count():
        storage = "external"
    return DatasetInfo(
        type=stored,
        shape=shape,
        storage=storage,
        chunk_rows=creation.get_chunk()[0] if storage == "chunked" else None,
        filters=describe_filters(creation),
        fill=None if is_shown_as_stored(stored) else read_fill(creation, type_id, stored),
        has_lost_fill=stored.has_pointers and has_lost_fill(dataset),
    )


def stored_bytes(dataset: DatasetHandle) -> int:
    """Bytes that the elements take in the file; looks at every chunk."""
    size: int = dataset.get_storage_size()
    return size


def written_rows(dataset: DatasetHandle) -> int:
    """Rows that have a place in the file, as far as that is known; looks at every chunk."""
    n_rows = int(dataset.shape[0])
    creation = creation_of(dataset)
    if creation.get_layout() == h5d.CHUNKED:
        return min(n_rows, int(dataset.get_num_chunks()) * int(creation.get_chunk()[0]))
    if creation.get_layout() == h5d.VIRTUAL:
        return min(n_rows, mapped_elements(dataset))
    return min(n_rows, _most_bytes(dataset, creation) // max(int(dataset.get_type().get_size()), 1))


def _most_bytes(dataset: DatasetHandle, creation: h5p.PropDCID) -> int:
    """The largest number of bytes that elements which are not chunked can have, whatever they claim."""
    if creation.get_layout() == h5d.COMPACT:
        return MOST_COMPACT
    if creation.get_external_count():
        return bytes_elsewhere(dataset)
    return int(h5i.get_file_id(dataset).get_filesize()) if dataset.get_storage_size() else 0


def read_fill(creation: h5p.PropDCID, type_id: h5t.TypeID, stored: StoredType) -> bytes | None:
    """The fill value set by the writer, in the form of `ColumnInfo.fill`; None when none was set."""
    if creation.fill_value_defined() != h5d.FILL_VALUE_USER_DEFINED or stored.size > LARGEST_ELEMENT:
        return None
    in_memory = memory_type(type_id, stored)
    element = np.zeros(1, dtype=memory_dtype(stored))
    if element.nbytes != in_memory.get_size():
        return None
    capi.get_fill(creation, in_memory, element.ctypes.data)
    if not stored.has_pointers:
        return element.tobytes()
    # What the element points to mostly belongs to the property list itself, so it is not freed here.
    return follow_pointers(element[0], stored)


def is_plain_type(dataset: DatasetHandle) -> bool:
    """Whether the dataset's datatype is one that can be made again from its description, and is not shared."""
    type_id = dataset.get_type()
    stored = describe_type(type_id)
    try:
        return not type_id.committed() and bool(make_type(stored) == type_id)
    except UnsupportedError:
        return False


def is_compound(dataset: DatasetHandle) -> bool:
    """Whether the elements are of a compound type."""
    return bool(dataset.get_type().get_class() == h5t.COMPOUND)


def type_in_file(dataset: DatasetHandle) -> StoredType | None:
    """The datatype with the sizes and offsets of the file; None where its description does not say all of it."""
    type_id = dataset.get_type()
    stored = describe_type(type_id)
    try:
        is_whole = bool(make_type(stored) == type_id)
    except (UnsupportedError, ValueError):
        return None
    return in_file(stored, open_file_of(dataset).offset_size) if is_whole else None


@dataclass(frozen=True, slots=True)
class DatasetPlan:
    """All that is needed to create a dataset: decided first, so that nothing can fail half-way."""

    type: StoredType
    chunk_rows: int | None
    filters: str = "none"
    fill: bytes | None = None
    large_attributes: bool = False


def create_dataset(
    group: GroupHandle, name: str, plan: DatasetPlan, n_rows: int = 0, type_id: h5t.TypeID | None = None
) -> DatasetHandle:
    """A new one-dimensional dataset that can grow (chunked), or of fixed length (no chunk length).

    type_id: its HDF5 datatype, where that of another dataset is to be kept to the last bit.
    """
    type_id = make_type(plan.type) if type_id is None else type_id
    creation = creation_list()
    if plan.chunk_rows is not None:
        creation.set_chunk((plan.chunk_rows,))
        set_filters(creation, plan.filters, plan.type)
    if plan.fill is not None:
        _set_fill(creation, type_id, plan.type, plan.fill)
    if plan.large_attributes:
        creation.set_attr_creation_order(h5p.CRT_ORDER_TRACKED)
    limit = (h5s.UNLIMITED,) if plan.chunk_rows is not None else (n_rows,)
    space = h5s.create_simple((n_rows,), limit)
    return h5d.create(group, encode_name(name), type_id, space, dcpl=creation, lcpl=link_list(name))


def _set_fill(creation: h5p.PropDCID, type_id: h5t.TypeID, stored: StoredType, fill: bytes) -> None:
    in_memory = memory_type(type_id, stored, writing=True)
    element, _kept = fill_element(stored, fill)
    capi.set_fill(creation, in_memory, element.ctypes.data)


@contextmanager
def reading(
    dataset: DatasetHandle, info: DatasetInfo | ColumnInfo, start: int, count: int, step: int = 1
) -> Iterator[Image]:
    """The elements start, start+step, ... in memory form; pointers in them hold inside the `with` only.

    `info` is anything with `type`, `storage` and `filters`: a DatasetInfo or a ColumnInfo.
    """
    stored: StoredType = info.type
    if info.storage in ("external", "virtual"):
        check_rows(dataset)
    if is_shown_as_stored(stored) and count * stored.size <= MOST_AT_ONCE:
        rows = range(start, start + count * step, step)
        yield read_as_stored(dataset, stored.size, rows, object_name(dataset))
        return
    if count * stored.size > MOST_AT_ONCE or stored.size > LARGEST_ELEMENT:
        raise UnsupportedError(
            f"{object_name(dataset)}: {count} elements of {stored.size} bytes are more than can be read at once: take "
            "fewer rows",
            feature="elements that exceed what is read at once",
            path=object_name(dataset),
        )
    dtype = memory_dtype(stored)
    in_memory = memory_type(dataset.get_type(), stored)
    if in_memory.get_size() != dtype.itemsize:
        raise UnsupportedError(
            f"{object_name(dataset)}: elements of type {stored} take {in_memory.get_size()} bytes in memory, not "
            f"{dtype.itemsize}",
            feature=str(stored),
            path=object_name(dataset),
        )
    image: Image = np.zeros(count, dtype=dtype) if stored.has_pointers else np.empty(count, dtype=dtype)
    if count == 0:
        yield image
        return
    load_filters(info.filters)
    was_seen = vet_rows(dataset, stored, info.filters, range(start, start + (count - 1) * step + 1))
    _check_sums(dataset, info.filters, start, count * step)
    owned = np.ones(count, dtype=bool)
    try:
        with nullcontext() if was_seen else guarded(dataset) as twin:
            rows = range(start, start + count * step, step)
            _load(dataset if twin is None else twin, creation_of(dataset), stored, in_memory, rows, image)
    except OSError as error:
        if not (stored.has_pointers and info.fill is not None and creation_of(dataset).get_layout() == h5d.CHUNKED):
            raise unreadable_rows(error, dataset, info.filters, start, start + (count - 1) * step) from error
        creation = creation_of(dataset)  # the fill's text lies in it, so it must outlive the image
        owned = _read_written_chunks(dataset, info, creation, in_memory, rows, image)
    try:
        yield image
    finally:
        if stored.has_pointers:
            _reclaim_rows(in_memory, image, owned)


def _check_sums(dataset: DatasetHandle, filters: tuple[FilterInfo, ...], start: int, count: int) -> None:
    """Refuse chunks too short for their checksum: HDF5 2.0 takes its four bytes off all the same, and crashes.

    In a damaged B-tree it finds, as it reads, also chunks that it reports as missing: then all must be long enough.
    """
    if not any(step.id == FLETCHER32 for step in filters):
        return
    chunk_rows = int(creation_of(dataset).get_chunk()[0])
    firsts = range(start // chunk_rows * chunk_rows, start + count, chunk_rows)
    found = [dataset.get_chunk_info_by_coord((first,)) for first in firsts]
    sizes = [one.size for one in found if one.byte_offset is not None]
    if len(sizes) < len(found):
        vet_chunk_sizes(dataset, filters, object_name(dataset))
    if min(sizes, default=SHORTEST_CHECKED) < SHORTEST_CHECKED:
        path = object_name(dataset)
        raise CorruptError(f"a chunk has {min(sizes)} bytes", path=path, row=start, last_row=start + count - 1)


def _load(
    dataset: DatasetHandle, creation: h5p.PropDCID, stored: StoredType, in_memory: h5t.TypeID, rows: range, image: Image
) -> None:
    """Read these rows, some chunks at a time: libhdf5 takes a few KiB for each, whether it was written or not."""
    most = len(rows)
    if creation.get_layout() == h5d.CHUNKED:
        most = max(1, MOST_CHUNKS * creation.get_chunk()[0] // rows.step)
    for first in range(0, len(rows), most):
        some = rows[first : first + most]
        file_space = dataset.get_space()
        file_space.select_hyperslab((some.start,), (len(some),), (some.step,))
        target = image[first : first + most].ctypes.data
        try:
            capi.read(dataset, in_memory, h5s.create_simple((len(some),)), file_space, target)
        except OSError:
            if stored.has_pointers:
                _reclaim_rows(in_memory, image[:first], np.ones(first, dtype=bool))
            raise


def unreadable_rows(
    error: Exception, dataset: DatasetHandle, filters: tuple[FilterInfo, ...], first: int, last: int
) -> CorruptError:
    path = object_name(dataset)
    raise_lack(error)
    require_filters(filters, path)
    return CorruptError(f"the rows cannot be read: {error}", path=path, row=first, last_row=last)


def _read_written_chunks(
    dataset: DatasetHandle,
    info: DatasetInfo | ColumnInfo,
    creation: h5p.PropDCID,
    in_memory: h5t.TypeID,
    rows: range,
    image: Image,
) -> Booleans:
    """Read the rows that have a chunk; the others are the fill. Says which rows were read.

    HDF5 cannot give the fill of a variable-length chunk that was never written while a file is
    open for reading: it would have to write into the file.
    """
    capi.get_fill(creation, in_memory, image[:1].ctypes.data)
    image[1:] = image[0]
    chunk_rows = creation.get_chunk()[0]
    owned = np.zeros(len(rows), dtype=bool)
    for chunk, low, high in by_chunk(np.arange(rows.start, rows.stop, rows.step), chunk_rows):
        if dataset.get_chunk_info_by_coord((chunk * chunk_rows,)).byte_offset is None:
            continue
        some = rows[low:high]
        space = dataset.get_space()
        space.select_hyperslab((some.start,), (len(some),), (some.step,))
        target = image[low:high]
        target[...] = np.zeros(1, dtype=image.dtype)
        try:
            capi.read(dataset, in_memory, h5s.create_simple((len(some),)), space, target.ctypes.data)
        except OSError as error:
            raise unreadable_rows(error, dataset, info.filters, some[0], some[-1]) from error
        owned[low:high] = True
    return owned


def _reclaim_rows(in_memory: h5t.TypeID, image: Image, owned: Booleans) -> None:
    """Free what these rows point to; the rows that are the fill point into a property list."""
    edges = np.flatnonzero(np.diff(owned.astype("i1"), prepend=0, append=0))
    for first, stop in edges.reshape(-1, 2).tolist():
        capi.reclaim(in_memory, h5s.create_simple((stop - first,)), image[first:stop].ctypes.data)


@contextmanager
def _scratch_file() -> Iterator[h5f.FileID]:
    """A file in memory that is never saved. Its name is its own: HDF5 refuses to make a file that is open."""
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_fapl_core(1 << 20, False)
    access.set_fclose_degree(h5f.CLOSE_STRONG)
    handle = h5f.create(f"colonnade-scratch-{next(_SCRATCH_NUMBERS)}".encode(), h5f.ACC_TRUNC, fapl=access)
    try:
        yield handle
    finally:
        handle.close()


def is_touched(dataset: DatasetHandle, written: list[tuple[int, int]]) -> bool:
    """Whether rows of a dataset may lie in these ranges of bytes of the file.

    A chunk that was moved was written where it is now. Where it is not known (rows in the object's header, in other
    files, after a user block, or in chunks that are not there) they may.
    """
    creation = creation_of(dataset)
    if h5i.get_file_id(dataset).get_create_plist().get_userblock():
        return True
    if creation.get_layout() == h5d.CONTIGUOUS and not creation.get_external_count():
        begin = dataset.get_offset()
        starts, stops = np.array([begin or 0]), np.array([(begin or 0) + dataset.get_storage_size()])
    elif creation.get_layout() == h5d.CHUNKED:
        chunks: list[tuple[int, int]] = []
        dataset.chunk_iter(lambda info: chunks.append((info.byte_offset or 0, (info.byte_offset or 0) + info.size)))
        rows, chunk = dataset.shape[0], creation.get_chunk()[0]
        if len(chunks) < -(-rows // chunk):  # cut off and grown again without a byte written
            return True
        starts, stops = np.array(sorted(chunks) or [(0, 0)], dtype=np.int64).T
    else:
        return True
    ranges = np.array(written, dtype=np.int64)
    # The first chunk that ends after the beginning of a range must begin after its end.
    next_ = np.searchsorted(stops, ranges[:, 0], "right")
    begin_of_next = np.append(starts, np.iinfo(np.int64).max)[next_]
    return bool((begin_of_next < ranges[:, 1]).any())


def reference_bytes(references: list[h5py.Reference | None], kind: str) -> bytes:
    """The stored bytes of h5py references (None counts as the null reference), one after another."""
    dtype = h5py.ref_dtype if kind == "object_reference" else h5py.regionref_dtype
    null = h5py.Reference() if kind == "object_reference" else h5py.RegionReference()
    values = np.empty(len(references), dtype=dtype)
    for position, reference in enumerate(references):
        values[position] = null if reference is None else reference
    with _scratch_file() as scratch:
        made = h5py.File(scratch).create_dataset("references", data=values, dtype=dtype)
        with reading(made.id, describe_dataset(made.id), 0, len(references)) as image:
            return image.tobytes()


def leads_nowhere(dataset: DatasetHandle, row: int) -> bool:
    """Whether the object reference in this row is set, and leads to no object."""
    reference = h5py.Dataset(dataset)[row]
    if not reference:
        return False
    try:
        return h5r.get_obj_type(reference, dataset) is None
    except hdf5_errors():
        return True


def object_name(node: NodeHandle) -> str:
    """The node's path in its file, for messages."""
    try:
        name = h5i.get_name(node)
    except hdf5_errors():
        return "?"
    return name.decode("utf-8", "replace") if name else "?"


# -- two-dimensional datasets of bytes, which can grow both ways --

_BYTE = StoredType("integer", 1, precision=8)
MOST_BLOCK_BYTES = 1 << 30


def create_matrix(
    group: GroupHandle, name: str, shape: tuple[int, int], chunk: tuple[int, int], filters: str = "none"
) -> DatasetHandle:
    """A new dataset of bytes, all zero."""
    creation = creation_list()
    creation.set_chunk(tuple(max(1, n) for n in chunk))
    set_filters(creation, filters, _BYTE)
    space = h5s.create_simple(shape, (h5s.UNLIMITED, h5s.UNLIMITED))
    return h5d.create(group, encode_name(name), h5t.STD_U8LE, space, dcpl=creation, lcpl=link_list(name))


def matrix_shape(dataset: DatasetHandle) -> tuple[int, int] | None:
    """Rows and columns; None when the dataset is not a matrix of bytes."""
    shape = dataset.shape or ()  # None if it holds nothing
    kind = dataset.get_type()
    if len(shape) != 2 or kind.get_class() != h5t.INTEGER or kind.get_size() != 1 or kind.get_sign() != h5t.SGN_NONE:
        return None
    return int(shape[0]), int(shape[1])


def read_matrix(dataset: DatasetHandle, rows: tuple[int, int], columns: tuple[int, int]) -> Octets:
    """The block of these rows and columns, each from the first up to but without the second."""
    shape = (rows[1] - rows[0], columns[1] - columns[0])
    if shape[0] * shape[1] > MOST_BLOCK_BYTES:
        raise UnsupportedError(
            f"a block of {shape[0]} times {shape[1]} bytes is more than can be read at once",
            feature="blocks of an index that exceed what is read at once",
        )
    block: Octets = np.empty(shape, dtype=np.uint8)
    if block.size:
        check_rows(dataset)
        load_filters(describe_filters(dataset.get_create_plist()))
        try:
            capi.read(
                dataset, h5t.NATIVE_UINT8, h5s.create_simple(shape), _selected(dataset, rows, columns), _at(block)
            )
        except OSError as error:
            raise_lack(error)
            raise CorruptError(f"bytes of an index cannot be read: {error}") from error
    return block


def write_matrix(dataset: DatasetHandle, row: int, column: int, block: Octets) -> None:
    """Put a block at a place; the dataset is large enough."""
    if block.size:
        check_rows(dataset)
        block = np.ascontiguousarray(block)
        rows, columns = (row, row + block.shape[0]), (column, column + block.shape[1])
        space = h5s.create_simple(block.shape)
        capi.write(dataset, h5t.NATIVE_UINT8, space, _selected(dataset, rows, columns), _at(block))


def write_lines(dataset: DatasetHandle, rows: Sequence[int], column: int, block: Octets, new: bool = False) -> None:
    """Put the lines of a block into these rows; the dataset is large enough. `new`: nothing was written there before.

    Whole chunks that are not there yet are packed here, which takes less time than the library does. They never skip
    the filter: of chunks that do, HDF5 does not remember it as long as the dataset is open.
    """
    stripe = _stripe_to_pack(dataset, column, block.shape[1])
    if not stripe and len(rows) and list(rows) == list(range(rows[0], rows[0] + len(rows))):
        write_matrix(dataset, rows[0], column, block)
        return
    padded, packed = np.zeros(stripe, np.uint8), np.empty(stripe, np.uint8)
    for row, line in zip(rows, block, strict=True):
        place = (row, column)
        if stripe and (new or dataset.get_chunk_info_by_coord(place).byte_offset is None):
            whole = line
            if len(line) < stripe:
                whole = padded
                whole[: len(line)] = line
            capi.write_stored_chunk(dataset, place, _deflated(whole, packed))
        else:
            write_matrix(dataset, row, column, line[None])


def _stripe_to_pack(dataset: DatasetHandle, column: int, width: int) -> int:
    """Bytes of a chunk, if the chunks are parts of one line, deflated, and these bytes are all that one has; else 0."""
    creation = dataset.get_create_plist()
    filters = describe_filters(creation)
    if creation.get_layout() != h5d.CHUNKED or [step.id for step in filters] != [DEFLATE]:
        return 0
    height, stripe = creation.get_chunk()
    is_whole = column % stripe == 0 and (width == stripe or (width < stripe and column + width == dataset.shape[1]))
    return int(stripe) if height == 1 and is_whole and not capi.skips_partial_chunks(creation) else 0


def _deflated(line: Octets, packed: Octets) -> Data:
    """The line deflated, in the memory of `packed` if it has room."""
    size = kernels.deflate_even(line, packed)
    return packed[:size] if size else zlib.compress(line.data, 0)


def resize_matrix(dataset: DatasetHandle, shape: tuple[int, int]) -> bool:
    """Set rows and columns; new bytes are zero. False when the dataset cannot have this shape, or not be changed."""
    if may_skip(describe_filters(dataset.get_create_plist())):
        return False  # the library might leave chunks that nobody can read (see `row_sink`)
    try:
        dataset.set_extent(shape)
    except hdf5_errors():
        return False
    return True


def _at(block: Octets) -> int:
    return int(block.ctypes.data)


def _selected(dataset: DatasetHandle, rows: tuple[int, int], columns: tuple[int, int]) -> h5s.SpaceID:
    space = dataset.get_space()
    space.select_hyperslab((rows[0], columns[0]), (rows[1] - rows[0], columns[1] - columns[0]))
    return space
