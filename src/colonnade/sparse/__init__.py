"""Sparse arrays in sectioned chunks, which no released HDF5 library reads. Built on `format`, without libhdf5.

    opened                          a file that is read past libhdf5, or that a caller has open for changes
    info, attributes, measure       the description of a dataset, its attributes, its size
    chunk, selections, values       decode and encode a chunk: sections and cells
    array, boxes, row_cells         the public class, and reading boxes of it
    create, change, edit, spare     create an array, change its elements, change the bytes of the file
    rows, draft                     sparse columns of tables
    verify                          check every length, offset and checksum

For each `decode_x` there is an `encode_x` that writes what it reads. Reading never goes through h5py, so it works where
libhdf5 fails.
"""

from colonnade.sparse.array import (
    Coo,
    SparseArray,
    create_sparse,
    find_sparse,
    open_sparse,
    verify_sparse,
)
from colonnade.sparse.opened import OpenHandle, OpenTarget

__all__ = [
    "Coo",
    "OpenHandle",
    "OpenTarget",
    "SparseArray",
    "create_sparse",
    "find_sparse",
    "open_sparse",
    "verify_sparse",
]  # fmt: skip
