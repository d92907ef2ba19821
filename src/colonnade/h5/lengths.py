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
from colonnade.h5.claims import REFERENCE, SMALL
from colonnade.model import FilterInfo, StoredType

AS_BYTES = np.dtype((np.void, REFERENCE.itemsize))
References = np.ndarray[Any, np.dtype[Any]]


def has_lengths(dataset: Any, stored: StoredType) -> bool:
    """Whether the elements are references to the global heap, as they are known here."""
    if stored.kind not in ("text", "binary", "sequence"):
        return False
    return bool(h5i.get_file_id(dataset).get_create_plist().get_sizes() == (8, 8))


def check_lengths(references: References, stored: StoredType, file_bytes: int, path: str) -> None:
    """Refuse elements of which one claims more bytes than the file has."""
    item = stored.item.size if stored.kind == "sequence" else 1
    longest = int(references.view(REFERENCE)["length"].max(initial=0)) * item
    if longest > max(file_bytes, SMALL):
        raise CorruptError(f"{path}: an element claims {longest:,} bytes, more than the file has", path=path)


def check_rows_claimed(dataset: Any, stored: StoredType, filters: Sequence[FilterInfo], rows: range) -> None:
    """The same of rows of a dataset of one axis, where they can be read past the library.

    Filtered chunks are unpacked whatever they hold: of a damaged one the library, or the filter, may die.
    """
    is_claiming = has_lengths(dataset, stored)
    size = AS_BYTES.itemsize if is_claiming else 0 if stored.has_pointers else stored.size
    if not size or not (filters or is_claiming):
        return
    source = open_source(dataset, np.dtype((np.void, size)), filters)
    image = source.read(rows.start, len(rows)) if source is not None else None
    if is_claiming and source is not None and image is not None:
        check_lengths(image, stored, h5i.get_file_id(dataset).get_filesize(), source.path)


def check_run_claimed(dataset: Any, stored: StoredType) -> None:
    """The same of all elements of a contiguous dataset of any rank, also of a single one."""
    creation = dataset.get_create_plist()
    if not has_lengths(dataset, stored) or creation.get_layout() != h5d.CONTIGUOUS or creation.get_external_count():
        return
    source, count = open_run(dataset, AS_BYTES), prod(dataset.shape)
    file_bytes = h5i.get_file_id(dataset).get_filesize()
    if source is None or count * AS_BYTES.itemsize > file_bytes:
        return
    for start in range(0, count, source.chunk_rows):
        image = source.read(start, min(source.chunk_rows, count - start))
        if image is None:
            return  # never written, or not there: the library says which
        check_lengths(image, stored, file_bytes, source.path)
