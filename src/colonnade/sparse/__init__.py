"""Sparse arrays in sectioned chunks, which no released HDF5 library reads. Built on `format`, without libhdf5.

    opened, locate, attributes      an open file; a path to a described dataset; its attributes
    chunk, selections, values       decode a chunk: sections to cells
    pack, choose, objects           encode a chunk: cells to sections
    array, boxes, row_cells         the public class, and reading boxes of it
    create, change, edit, spare     create an array, change its elements, change the bytes of the file
    rows, draft                     sparse columns of tables
    measure, verify, fit            sizes, checks, conversion of given values

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
from colonnade.sparse.opened import OpenFile, OpenHandle

__all__ = [
    "Coo", "OpenFile", "OpenHandle", "SparseArray", "create_sparse", "find_sparse", "open_sparse", "verify_sparse",
]  # fmt: skip
