"""What elements of variable length claim, looked at before the HDF5 library takes memory for it.

The library takes, and clears, as many bytes as an element says that it has, and looks then whether they are there. The
global heap has no filters: an element that claims more bytes than its file has is damaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from h5py import h5d, h5i

from colonnade.errors import CorruptError
from colonnade.h5.chunks import open_run, open_source
from colonnade.h5.claims import SMALL
from colonnade.h5.collections import REFERENCE, check_elements, stored_size
from colonnade.h5.creation import creation_of
from colonnade.h5.headers import LAYOUT, address_of, bytes_of, messages
from colonnade.model import FilterInfo, StoredType

AS_BYTES = np.dtype((np.void, REFERENCE.itemsize))
References = np.ndarray[Any, np.dtype[Any]]


def has_lengths(dataset: Any, stored: StoredType) -> bool:
    """Whether the elements are references to the global heap, as they are known here."""
    return stored.kind in ("text", "binary", "sequence") and has_references_to_heap(dataset, stored)


def has_references_to_heap(dataset: Any, stored: StoredType) -> bool:
    """Whether the elements hold references to the global heap anywhere, as they are known here."""
    return stored.has_pointers and bool(h5i.get_file_id(dataset).get_create_plist().get_sizes() == (8, 8))


def check_lengths(references: References, stored: StoredType, file_bytes: int, path: str) -> None:
    """Refuse elements of which one claims more bytes than the file has."""
    item = stored.item.size if stored.kind == "sequence" else 1
    longest = int(references.view(REFERENCE)["length"].max(initial=0)) * item
    if longest > max(file_bytes, SMALL):
        raise CorruptError(f"{path}: an element claims {longest:,} bytes, more than the file has", path=path)


def check_rows_claimed(dataset: Any, stored: StoredType, filters: Sequence[FilterInfo], rows: range) -> bool:
    """Refuse rows of a dataset of one axis that the library would not come back from; says whether they were seen.

    Elements of variable length must claim no more bytes than the file has, and lead to collections that end. Filtered
    chunks are unpacked whatever they hold: of a damaged one the library, or the filter, may die.
    """
    if stored.has_pointers:
        return _check_references(dataset, stored, filters, rows)
    if stored.size and filters:
        source = open_source(dataset, np.dtype((np.void, stored.size)), filters)
        if source is not None:
            source.read(rows.start, len(rows))
    return True


def _check_references(dataset: Any, stored: StoredType, filters: Sequence[FilterInfo], rows: range) -> bool:
    if not has_references_to_heap(dataset, stored):
        return False
    if creation_of(dataset).get_layout() == h5d.COMPACT:
        return _check_compact(dataset, stored)
    source = open_source(dataset, np.dtype((np.void, stored_size(stored))), filters)
    if source is None:
        return False
    start = rows.start
    while start < rows.stop:  # chunk by chunk: one that was never written hides no other
        stop = min(rows.stop, (start // source.chunk_rows + 1) * source.chunk_rows)
        check_image(dataset, stored, source.read(start, stop - start), source.path)
        start = stop
    return True


def check_image(dataset: Any, stored: StoredType, image: Any, path: str) -> None:
    """Refuse elements as they lie in the file; None are those that were never written."""
    if image is None:
        return
    if stored.kind in ("text", "binary", "sequence"):
        check_lengths(image, stored, h5i.get_file_id(dataset).get_filesize(), path)
    check_elements(dataset, stored, np.ascontiguousarray(image).view("u1").data)


def _check_compact(dataset: Any, stored: StoredType) -> bool:
    """The same of elements that are kept in the header of their dataset."""
    read_at = bytes_of(dataset)
    if read_at is None:
        return False
    for kind, message in messages(read_at, address_of(dataset)):
        if kind == LAYOUT and message[:1] in (b"\3", b"\4") and message[1:2] == b"\0":
            check_elements(dataset, stored, message[4 : 4 + int.from_bytes(message[2:4], "little")])
    return True


def check_run_claimed(dataset: Any, stored: StoredType) -> bool:
    """The same of all elements of a contiguous dataset of any rank, or of a single one; says whether they were seen."""
    creation = creation_of(dataset)
    if not has_references_to_heap(dataset, stored):
        return not stored.has_pointers
    if creation.get_layout() == h5d.COMPACT:
        return _check_compact(dataset, stored)
    if creation.get_layout() != h5d.CONTIGUOUS or creation.get_external_count():
        return False
    size = stored_size(stored)
    source, count = open_run(dataset, np.dtype((np.void, size))), prod(dataset.shape)
    if source is None or count * size > h5i.get_file_id(dataset).get_filesize():
        return True  # never written, or not there: the library says which
    for start in range(0, count, source.chunk_rows):
        check_image(dataset, stored, source.read(start, min(source.chunk_rows, count - start)), source.path)
    return True
