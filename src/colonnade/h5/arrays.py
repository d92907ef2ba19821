"""Arrays of any rank, read by boxes through libhdf5, or past it where their chunks have filters that are known here.

Rows in other files are read only where `outside` allows it. A dataset that claims far more than is stored for it is not
read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from math import prod
from typing import NamedTuple

import h5py
import numpy as np
from h5py import h5d, h5i, h5s

from colonnade.errors import CorruptError, FormatError, UnsupportedError
from colonnade.filters.codecs import LeftToLibrary
from colonnade.filters.undo import Pipeline
from colonnade.h5 import capi
from colonnade.h5.chunks import vet_chunk_sizes, vet_run, vet_stored_rows
from colonnade.h5.datatypes import can_be_converted, describe_type
from colonnade.h5.filters import describe_filters, load_filters, require_filters
from colonnade.h5.outside import bytes_elsewhere, check_rows, mapped_elements
from colonnade.h5.vetting import creation_of, guarded, lists_wrong_chunks, raw_bytes, size_in_file, vet_fill
from colonnade.model import FilterInfo
from colonnade.nodes import DatasetHandle, H5Node
from colonnade.nodes.chunk_source import FARTHEST
from colonnade.nodes.damage import hdf5_errors, raise_lack
from colonnade.nodes.elements import TEXT_BYTES, as_strings, box_of, claims_too_much
from colonnade.nodes.paths import decode_name
from colonnade.pager.sources import ByteSource
from colonnade.stored_dtypes import raw_dtype

MOST_CHUNKS, FEWEST_STORED = 200_000, 16  # chunks that are looked for, if fewer than 1 in 16 is stored
Box = Sequence[range]
MOST_ASKED = 4096  # chunks that are asked for one by one, without knowing how many there are
_BYTE = np.dtype(np.uint8)


def path_of(node: H5Node) -> str:
    """Where in its file an object is, for messages."""
    try:
        name = node.name
        return decode_name(name) if isinstance(name, bytes) else str(name)  # bytes where it is not UTF-8
    except hdf5_errors():
        return "?"


def _name_of(dataset: DatasetHandle) -> str:
    """As `path_of`, of a handle."""
    try:
        return decode_name(h5i.get_name(dataset) or b"?")
    except hdf5_errors():
        return "?"


@contextmanager
def _header_of(dataset: DatasetHandle) -> Iterator[None]:
    """Errors of h5py about a header that makes no sense come out as CorruptError."""
    try:
        yield
    except hdf5_errors() as error:
        raise_lack(error)
        raise CorruptError(f"the header cannot be read: {error}", path=_name_of(dataset)) from error


def is_null(dataset: DatasetHandle) -> bool:
    """Whether the dataset holds nothing, not even an element."""
    with _header_of(dataset):
        return bool(dataset.get_space().get_simple_extent_type() == h5s.NULL)


def shape_of(dataset: DatasetHandle) -> tuple[int, ...]:
    """The dataset's shape, () of a scalar and of one that holds nothing."""
    with _header_of(dataset):
        return tuple(dataset.get_space().get_simple_extent_dims() or ())


def dtype_of(dataset: DatasetHandle) -> np.dtype:
    """The dtype h5py reads the dataset as."""
    try:
        found: np.dtype = dataset.dtype
    except hdf5_errors() as error:
        raise UnsupportedError(
            f"{_name_of(dataset)} has a datatype that h5py does not know: {error}",
            feature="datatype",
            path=_name_of(dataset),
        ) from error
    if not can_be_converted(describe_type(dataset.get_type())):
        raise UnsupportedError(
            f"{_name_of(dataset)} has a datatype with numbers of more bits than their bytes have",
            feature="datatype",
            path=_name_of(dataset),
        )
    if _overlaps(found):
        raise UnsupportedError(
            f"{_name_of(dataset)} has members of a compound that h5py takes to be longer than they are",
            feature="datatype",
            path=_name_of(dataset),
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


def check_readable(dataset: DatasetHandle, count: int) -> None:
    """Refuse a dataset whose elements are not to be read, or that claims `count` of them without storing them."""
    dtype = dtype_of(dataset)
    if is_null(dataset):
        raise FormatError(f"{_name_of(dataset)} holds nothing, not even an element", path=_name_of(dataset))
    claimed = count * max(dtype.itemsize, TEXT_BYTES if dtype.kind in "SO" else 1)
    with _header_of(dataset):
        vet_fill(dataset)
        if creation_of(dataset).get_layout() != h5d.CHUNKED:
            check_rows(dataset)
            vet_run(dataset, describe_type(dataset.get_type()))
        creation = creation_of(dataset)
        stored, filters = _stored_bytes(dataset), describe_filters(creation)
        if creation.get_layout() == h5d.CHUNKED and stored:  # of a chunk that is stored, the library makes all
            cells = prod(creation.get_chunk())
            claimed = max(claimed, cells * max(dtype.itemsize, 1))
            _check_chunks(dataset, count, cells)
    if claims_too_much(claimed, stored, bool(filters)):
        raise UnsupportedError(
            f"{_name_of(dataset)} claims {claimed:,} bytes, {stored:,} are stored: it is not read",
            feature="arrays of which most was never written",
            path=_name_of(dataset),
        )


def _check_chunks(dataset: DatasetHandle, count: int, chunk_cells: int) -> None:
    """Refuse a dataset that claims very many chunks and has few: the library takes two KiB for each it looks for."""
    most = -(-count // max(chunk_cells, 1))
    if most > MOST_CHUNKS and most > FEWEST_STORED * dataset.get_num_chunks():
        raise UnsupportedError(
            f"{_name_of(dataset)} claims {most:,} chunks, few of which are stored: it is not read",
            feature="arrays of which most was never written",
            path=_name_of(dataset),
        )


def read_checked(dataset: DatasetHandle, part: tuple[slice, ...] = ()) -> np.ndarray:
    """As `read_array`, of a dataset that `check_readable` has let pass: for those that are read by many parts."""
    dtype, box = dtype_of(dataset), box_of(shape_of(dataset), part)
    with _header_of(dataset):
        filters = describe_filters(creation_of(dataset))
    load_filters(filters)
    try:
        own = read_box(dataset, dtype, filters, box, _name_of(dataset)) if _is_plain(box) else None
        read = _read_by_library(dataset, part, filters) if own is None else own
    except hdf5_errors() as error:
        raise_lack(error)
        require_filters(filters, _name_of(dataset))
        raise CorruptError(f"the dataset cannot be read: {error}", path=_name_of(dataset)) from error
    return with_texts(read, dtype, _name_of(dataset))


def _read_by_library(dataset: DatasetHandle, part: tuple[slice, ...], filters: Sequence[FilterInfo]) -> np.ndarray:
    """A part as h5py reads it; elements of variable length with unknown filters come from a guarded file."""
    if not dtype_of(dataset).hasobject or Pipeline(filters, 1).is_known:
        return np.asarray(h5py.Dataset(dataset)[part])
    with guarded(dataset) as twin:
        return np.asarray(h5py.Dataset(dataset if twin is None else twin)[part])


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


def with_texts(read: np.ndarray, dtype: np.dtype, path: str) -> np.ndarray:
    """Bytes of variable-length strings as `str`, wherever they stand."""
    if dtype.names is not None:
        if read_as(dtype) is dtype:
            return read
        target = np.empty(read.shape, dtype=read_as(dtype))
        for name in dtype.names:
            target[name] = with_texts(read[name], dtype[name], path)
        return target
    return as_strings(read, path) if _holds_texts(dtype) else read


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


def read_box(
    dataset: DatasetHandle, dtype: np.dtype, filters: Sequence[FilterInfo], box: Box, path: str
) -> np.ndarray | None:
    """A box (ranges without steps) of a dataset whose chunks have filters; None when the library is to read it.

    A chunk that does not unpack to what it must hold, or whose elements claim more than the file has, is a
    CorruptError, in both cases.
    """
    creation, stored = creation_of(dataset), describe_type(dataset.get_type())
    if (
        not (filters or stored.has_pointers)
        or creation.get_layout() != h5d.CHUNKED
        or capi.skips_partial_chunks(creation)
        or lists_wrong_chunks(dataset)
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


def _unpack(chunk: _ChunkBytes, pipeline: Pipeline, whole: np.ndarray, path: str) -> bool:
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


def _place(values: np.ndarray, offset: tuple[int, ...], out: np.ndarray, box: Box) -> None:
    """The part of a chunk that lies in the box."""
    inside, target = [], []
    for begin, size, one in zip(offset, values.shape, box, strict=True):
        low, high = max(begin, one.start), min(begin + size, one.stop)
        inside.append(slice(low - begin, high - begin))
        target.append(slice(low - one.start, high - one.start))
    out[tuple(target)] = values[tuple(inside)]
