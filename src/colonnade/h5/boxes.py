"""Boxes of chunked arrays of any rank, unpacked here: the library and its filters read behind the end of a bad chunk.

The library is asked where chunks lie, and for their bytes where these cannot be had past it. What is not plain it reads
itself, once every chunk that it would unpack has been unpacked here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
from h5py import h5d, h5i

from colonnade.errors import CorruptError
from colonnade.filters.codecs import LeftToLibrary
from colonnade.filters.undo import Pipeline
from colonnade.h5 import capi
from colonnade.h5.collections import stored_size
from colonnade.h5.creation import creation_of
from colonnade.h5.datatypes import describe_type
from colonnade.h5.headers import FARTHEST
from colonnade.h5.lengths import check_image, has_references_to_heap
from colonnade.h5.raw_bytes import raw_bytes
from colonnade.model import FilterInfo
from colonnade.pager.sources import ByteSource
from colonnade.stored_dtypes import raw_dtype

Array = np.ndarray[Any, np.dtype[Any]]
Box = Sequence[range]
MOST_ASKED = 4096  # chunks that are asked for one by one, without knowing how many there are
FLETCHER32 = 3
SHORTEST_CHECKED = 5  # bytes: a checksum, and something that it sums
_BYTE = np.dtype(np.uint8)


def read_box(dataset: Any, dtype: np.dtype[Any], filters: Sequence[FilterInfo], box: Box, path: str) -> Array | None:
    """A box (ranges without steps) of a dataset whose chunks have filters; None when the library is to read it.

    A chunk that does not unpack to what it must hold, or whose elements claim more than the file has, is a
    CorruptError, in both cases.
    """
    creation, stored = creation_of(dataset), describe_type(dataset.get_type())
    is_claiming = has_references_to_heap(dataset, stored)
    if not (filters or is_claiming) or creation.get_layout() != h5d.CHUNKED or capi.skips_partial_chunks(creation):
        return None
    shape, chunk = tuple(dataset.shape), tuple(creation.get_chunk())
    item = stored_size(stored)
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
            raise CorruptError(
                f"{path}: the chunk at {offset} claims {info.size:,} bytes, the file has {most:,}", path=path
            )
        if not _unpack(_ChunkBytes(dataset, file, offset, info), pipeline, whole, path):
            return None
        n_read += 1
        if is_claiming:
            check_image(dataset, stored, whole, path)
        if out is not None:
            _place(whole.view(dtype).reshape(chunk), offset, out, box)
    if n_read < prod(len(numbers) for numbers in _grid(chunk, box)):  # some are the fill
        check_sizes(dataset, filters, path)
        return None
    return out


def check_sizes(dataset: Any, filters: Sequence[FilterInfo], path: str) -> None:
    """Refuse a dataset of which a chunk is shorter than its checksum: the library would read before its beginning.

    A damaged B-tree may hide the chunk from whoever asks for it by its place.
    """
    if FLETCHER32 in (one.id for one in filters):
        sizes: list[int] = []
        dataset.chunk_iter(lambda info: sizes.append(info.size))
        if min(sizes, default=SHORTEST_CHECKED) < SHORTEST_CHECKED:
            raise CorruptError(f"{path}: a chunk has {min(sizes)} bytes", path=path)


def _grid(chunk: Sequence[int], box: Box) -> list[range]:
    """The numbers of the chunks that a box touches, along each dimension."""
    return [range(one.start // n, -(-one.stop // n)) if one else range(0) for one, n in zip(box, chunk, strict=True)]


def _stored(dataset: Any, chunk: Sequence[int], box: Box) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Where the stored chunks that a box touches begin, and what they are. Of many claimed, all are listed."""
    grid = _grid(chunk, box)
    if prod(len(numbers) for numbers in grid) <= MOST_ASKED:
        for place in product(*grid):
            offset = tuple(number * n for number, n in zip(place, chunk, strict=True))
            info = dataset.get_chunk_info_by_coord(offset)
            if info.byte_offset is not None:
                yield offset, info
        return
    found: list[tuple[tuple[int, ...], Any]] = []
    dataset.chunk_iter(lambda info: found.append((tuple(info.chunk_offset), info)))
    for offset, info in found:
        if all(start // n in numbers for start, n, numbers in zip(offset, chunk, grid, strict=True)):
            yield offset, info


class _ChunkBytes(NamedTuple):
    """A chunk as it is stored. Of a damaged map of chunks the library may find one, and read another that is longer."""

    dataset: Any
    file: ByteSource | None
    offset: tuple[int, ...]
    info: Any

    def read(self) -> tuple[int, bytes]:
        """The filters it has skipped, and its bytes."""
        if self.file is not None and not h5i.get_file_id(self.dataset).get_create_plist().get_userblock():
            if self.info.byte_offset > FARTHEST:
                raise ValueError("it lies far behind the end of the file")
            return self.info.filter_mask, self.file.read_at(self.info.byte_offset, self.info.size)
        found: tuple[int, bytes] = self.dataset.read_direct_chunk(self.offset)
        return found


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
        raise CorruptError(f"{path}: the chunk at {offset} is damaged: {error}", path=path) from error
    return True


def _place(values: Array, offset: tuple[int, ...], out: Array, box: Box) -> None:
    """The part of a chunk that lies in the box."""
    inside, target = [], []
    for begin, size, one in zip(offset, values.shape, box, strict=True):
        low, high = max(begin, one.start), min(begin + size, one.stop)
        inside.append(slice(low - begin, high - begin))
        target.append(slice(low - one.start, high - one.start))
    out[tuple(target)] = values[tuple(inside)]
