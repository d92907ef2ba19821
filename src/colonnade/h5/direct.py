"""Chunks stored past HDF5's own filters, in such a way that the library never goes by what it remembers of them.

HDF5 (1.10 to 2.0) remembers, for every open dataset, the chunk that it looked up last: its address, its size and the
filters that it skipped. `H5Dwrite_chunk` updates the first two and keeps the old filter mask, and it stores a new
mask in the chunk map only when the size of the chunk changes as well. The library would then read, cut or rewrite
filtered bytes as if they were rows. All handles of a dataset share this memory, those of the user too.

So this module is the only place that writes a chunk of a filtered dataset or cuts such a dataset. Where a chunk changes
its mask, the new mask is forced into the chunk map, and the library is made to forget the chunk. It forgets when it
looks up another chunk; a dataset that is shorter than one chunk has no other, so its chunk must not skip a filter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from h5py import h5d, h5s
from h5py._objects import phil

from colonnade.dataclass import dataclass
from colonnade.filters.codecs import Data
from colonnade.h5 import capi
from colonnade.h5.damage import BROKEN
from colonnade.h5.vetting import creation_of, has_lost_fill
from colonnade.model import FilterInfo

NEVER_SKIPPED = (1, 2, 3, 5)  # filters that the library applies to every chunk: deflate, shuffle, fletcher32, n-bit


class CannotSkipFilter(Exception):
    """The only chunk of a dataset, which its rows do not fill, would have to be stored without one of its filters."""


@dataclass(frozen=True, slots=True)
class Held:
    """A chunk that is in the file: its size there, and the filters that it skipped."""

    size: int
    mask: int


def find_chunk(dataset: Any, first: int) -> Held | None:
    """The chunk that begins with this row, by the chunk map and not by the library's memory; looks at every chunk."""
    found = dataset.get_chunk_info_by_coord((first,))
    return None if found.byte_offset is None else Held(found.size, found.filter_mask)


def find_replaced(dataset: Any, first: int) -> Held | None:
    """The same of a chunk that is to be replaced whole: quicker where there is none, which is so mostly."""
    return find_chunk(dataset, first) if capi.chunk_size(dataset, first) else None


def write_chunk(dataset: Any, chunk_rows: int, first: int, data: Data, mask: int, held: Held | None) -> None:
    """Store a chunk as it is; `held` is what `find_chunk` says of it, or `find_replaced`."""
    if mask == (0 if held is None else held.mask):
        dataset.write_direct_chunk((first,), data, filter_mask=mask)
        return
    n_rows = int(dataset.shape[0])
    if n_rows > chunk_rows:
        _replace(dataset, first, data, mask, held)
        forget_chunk(dataset, chunk_rows, first)
    elif not mask:
        remove_chunks(dataset, 0, n_rows)
        dataset.write_direct_chunk((first,), data)
    elif n_rows == chunk_rows and can_grow(dataset):
        dataset.set_extent((n_rows + 1,))
        _replace(dataset, first, data, mask, held)
        dataset.set_extent((n_rows,))  # removes no chunk that is there, but the library forgets all of them
    else:
        raise CannotSkipFilter


@contextmanager
def keeping_mask(dataset: Any, first: int) -> Iterator[None]:
    """Here the library itself writes into the chunk that begins with this row, with filters that it may skip.

    It remembers then which ones it has skipped; but if the chunk keeps its size, it leaves the chunk map as it is.
    """
    with phil:  # no thread may have it look up another chunk meanwhile
        size = capi.chunk_size(dataset, first)
        yield
        if not size:
            return
        mask, data = dataset.read_direct_chunk((first,))
        held = find_chunk(dataset, first) if len(data) == size else None
        if held is not None and held.mask != mask:
            _replace(dataset, first, data, mask, held)


def may_skip(filters: Sequence[FilterInfo]) -> bool:
    """Whether the library may store chunks without one of these filters."""
    return any(step.id not in NEVER_SKIPPED for step in filters)


def forget_chunk(dataset: Any, chunk_rows: int, first: int) -> None:
    """Make the library forget the chunk that begins with this row, by asking for another; there must be another."""
    with suppress(*BROKEN, MemoryError):  # that it is looked up is all that is wanted
        dataset.read_direct_chunk((first - chunk_rows if first else chunk_rows,))


def _replace(dataset: Any, first: int, data: Data, mask: int, held: Held | None) -> None:
    """Store a chunk that has another mask than the one it replaces."""
    if held is not None and held.size == len(data):  # then the library would leave the chunk map as it is
        dataset.write_direct_chunk((first,), bytes(data) + b"\0", filter_mask=mask)
    dataset.write_direct_chunk((first,), data, filter_mask=mask)


def cut_rows(dataset: Any, chunk_rows: int, n_rows: int, edge: Data, mask: int) -> None:
    """Keep the first rows only. `edge` is what the last chunk then holds, which the rows do not fill.

    The library itself would unpack that chunk, put the fill behind the last row, and filter it anew.
    """
    if mask and n_rows < chunk_rows:
        raise CannotSkipFilter
    first = n_rows // chunk_rows * chunk_rows
    remove_chunks(dataset, first, n_rows)
    write_chunk(dataset, chunk_rows, first, edge, mask, None)


def remove_chunks(dataset: Any, first: int, n_rows: int) -> None:
    """Remove the chunks from row `first` on, and say that there are `n_rows`: the library forgets all chunks then."""
    dataset.set_extent((first,))
    dataset.set_extent((n_rows,))


def can_grow(dataset: Any) -> bool:
    """Whether a dataset can be made longer without end, in every dimension."""
    space = dataset.get_space()
    limits = space.get_simple_extent_dims(maxdims=True) if space.get_simple_extent_type() == h5s.SIMPLE else ()
    if not limits or any(limit != h5s.UNLIMITED for limit in limits) or has_lost_fill(dataset):
        return False
    return bool(creation_of(dataset).get_layout() == h5d.CHUNKED)
