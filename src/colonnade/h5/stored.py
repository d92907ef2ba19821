"""Elements as they are stored, without the HDF5 library's conversion.

For the one datatype whose form in memory cannot be shown: references as written since HDF5 1.12 hold
pointers and open handles there. What stands in the file is plain bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from h5py import h5d, h5i

from colonnade.errors import CorruptError, UnsupportedError
from colonnade.h5 import capi
from colonnade.h5.chunks import by_chunk
from colonnade.pager.sources import LocalBytes

USUAL_SIZE = 18  # bytes of a reference on disk where file addresses have 8 bytes


def stored_size(dataset: Any, n_rows: int) -> int:
    """Bytes of one element in the file."""
    creation = dataset.get_create_plist()
    total = dataset.get_storage_size()
    if creation.get_layout() == h5d.CHUNKED:
        chunks = dataset.get_num_chunks()
        return int(total // (chunks * creation.get_chunk()[0])) if chunks else USUAL_SIZE
    return int(total // n_rows) if n_rows and total else USUAL_SIZE


def read_stored(dataset: Any, size: int, rows: range, path: str) -> np.ndarray[Any, Any]:
    """The bytes of these rows, `size` a row; zeros where nothing was written."""
    creation = dataset.get_create_plist()
    layout = creation.get_layout()
    image = np.zeros((len(rows), size), dtype="u1")
    if layout == h5d.CHUNKED and creation.get_nfilters() == 0:
        _read_chunks(dataset, creation.get_chunk()[0], size, rows, image)
    elif layout == h5d.CONTIGUOUS and creation.get_external_count() == 0:
        _read_contiguous(dataset, size, rows, image, path)
    else:
        raise UnsupportedError(
            f"{path}: references in the HDF5 1.12 form are read only from contiguous or unfiltered chunked storage",
            feature="HDF5 1.12 references",
            path=path,
        )
    return image.reshape(-1).view(f"V{size}")


def _read_chunks(dataset: Any, chunk_rows: int, size: int, rows: range, image: np.ndarray[Any, Any]) -> None:
    numbers = np.arange(rows.start, rows.stop, rows.step)
    for chunk, begin, end in by_chunk(numbers, chunk_rows):
        start = chunk * chunk_rows
        if dataset.get_chunk_info_by_coord((start,)).byte_offset is None:
            continue
        _, data = dataset.read_direct_chunk((start,))
        stored = np.frombuffer(data, dtype="u1", count=chunk_rows * size).reshape(chunk_rows, size)
        image[begin:end] = stored[numbers[begin:end] - start]


def _read_contiguous(dataset: Any, size: int, rows: range, image: np.ndarray[Any, Any], path: str) -> None:
    offset = dataset.get_offset()
    if offset is None:
        return
    descriptor = capi.descriptor_of(h5i.get_file_id(dataset))
    if descriptor is None:
        raise UnsupportedError(
            f"{path}: references in the HDF5 1.12 form are read only from a file on disk that is open for reading",
            feature="HDF5 1.12 references",
            path=path,
        )
    source = LocalBytes(descriptor, path)
    for place, row in enumerate(rows):
        data = source.read_at(offset + row * size, size)
        if len(data) != size:
            raise CorruptError(f"{path}: row {row} lies beyond the end of the file", path=path, row=row)
        image[place] = np.frombuffer(data, dtype="u1")
