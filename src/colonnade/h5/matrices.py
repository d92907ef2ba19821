"""Two-dimensional datasets of bytes, which can grow both ways: read and written a block at a time."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from h5py import h5d, h5s, h5t

from colonnade import kernels
from colonnade.errors import CorruptError, UnsupportedError
from colonnade.filters.apply import DEFLATE
from colonnade.h5 import capi
from colonnade.h5.damage import BROKEN, raise_lack
from colonnade.h5.direct import may_skip
from colonnade.h5.filters import creation_list, describe_filters, load_filters, set_filters
from colonnade.h5.links import encode_name, link_list
from colonnade.h5.outside import check_rows
from colonnade.model import StoredType

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
_BYTE = StoredType("integer", 1, precision=8)
MOST_AT_ONCE = 1 << 30


def create_matrix(group: Any, name: str, shape: tuple[int, int], chunk: tuple[int, int], filters: str = "none") -> Any:
    """A new dataset of bytes, all zero."""
    creation = creation_list()
    creation.set_chunk(tuple(max(1, n) for n in chunk))
    set_filters(creation, filters, _BYTE)
    space = h5s.create_simple(shape, (h5s.UNLIMITED, h5s.UNLIMITED))
    return h5d.create(group, encode_name(name), h5t.STD_U8LE, space, dcpl=creation, lcpl=link_list(name))


def matrix_shape(dataset: Any) -> tuple[int, int] | None:
    """Rows and columns; None when the dataset is no matrix of bytes."""
    shape = dataset.shape
    kind = dataset.get_type()
    if len(shape) != 2 or kind.get_class() != h5t.INTEGER or kind.get_size() != 1 or kind.get_sign() != h5t.SGN_NONE:
        return None
    return int(shape[0]), int(shape[1])


def read_matrix(dataset: Any, rows: tuple[int, int], columns: tuple[int, int]) -> Bytes:
    """The block of these rows and columns, each from the first up to but without the second."""
    shape = (rows[1] - rows[0], columns[1] - columns[0])
    if shape[0] * shape[1] > MOST_AT_ONCE:
        raise UnsupportedError(
            f"a block of {shape[0]} times {shape[1]} bytes is more than can be read at once",
            feature="blocks of an index that exceed what is read at once",
        )
    block: Bytes = np.empty(shape, dtype=np.uint8)
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


def write_matrix(dataset: Any, row: int, column: int, block: Bytes) -> None:
    """Put a block at a place; the dataset is large enough."""
    if block.size:
        check_rows(dataset)
        block = np.ascontiguousarray(block)
        rows, columns = (row, row + block.shape[0]), (column, column + block.shape[1])
        space = h5s.create_simple(block.shape)
        capi.write(dataset, h5t.NATIVE_UINT8, space, _selected(dataset, rows, columns), _at(block))


def write_lines(dataset: Any, rows: Sequence[int], column: int, block: Bytes, new: bool = False) -> None:
    """Put the lines of a block into these rows; the dataset is large enough. `new`: nothing was written there before.

    Whole chunks that are not there yet are packed here, which takes less time than the library does. They never skip
    the filter: of chunks that do, HDF5 does not remember it as long as the dataset is open.
    """
    stripe = _stripe_to_pack(dataset, column, block.shape[1])
    if not stripe and len(rows) and list(rows) == list(range(rows[0], rows[0] + len(rows))):
        write_matrix(dataset, rows[0], column, block)
        return
    for row, line in zip(rows, block, strict=True):
        place = (row, column)
        if stripe and (new or dataset.get_chunk_info_by_coord(place).byte_offset is None):
            whole = line if len(line) == stripe else np.concatenate((line, np.zeros(stripe - len(line), np.uint8)))
            dataset.write_direct_chunk(place, _deflated(np.ascontiguousarray(whole)))
        else:
            write_matrix(dataset, row, column, line[None])


def _stripe_to_pack(dataset: Any, column: int, width: int) -> int:
    """Bytes of a chunk, if the chunks are parts of one line, deflated, and these bytes are all that one has; else 0."""
    creation = dataset.get_create_plist()
    filters = describe_filters(creation)
    if creation.get_layout() != h5d.CHUNKED or [step.id for step in filters] != [DEFLATE]:
        return 0
    height, stripe = creation.get_chunk()
    is_whole = column % stripe == 0 and (width == stripe or (width < stripe and column + width == dataset.shape[1]))
    return int(stripe) if height == 1 and is_whole and not capi.skips_partial_chunks(creation) else 0


def _deflated(line: Bytes) -> Any:
    made = np.empty(len(line), dtype=np.uint8)
    size = kernels.deflate_even(line, made)
    return made[:size] if size else zlib.compress(line.data, 0)


def resize_matrix(dataset: Any, shape: tuple[int, int]) -> bool:
    """Set rows and columns; new bytes are zero. False when the dataset cannot have this shape, or not be changed."""
    if may_skip(describe_filters(dataset.get_create_plist())):
        return False  # the library might leave chunks that nobody can read (see `direct`)
    try:
        dataset.set_extent(shape)
    except BROKEN:
        return False
    return True


def _at(block: Bytes) -> int:
    return int(block.ctypes.data)


def _selected(dataset: Any, rows: tuple[int, int], columns: tuple[int, int]) -> Any:
    space = dataset.get_space()
    space.select_hyperslab((rows[0], columns[0]), (rows[1] - rows[0], columns[1] - columns[0]))
    return space
