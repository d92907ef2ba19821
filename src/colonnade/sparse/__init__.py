"""Sectioned storage by our own hand: sparse arrays that no released HDF5 library reads. Bytes in, data classes out.

    source       bytes of a file by their address
    superblock, headers, links, symbol_tables, fractal_heap      from the first byte to the messages of an object
    locate       a path to a described dataset
    layout, dataspace, datatype, fill, pipelines, attributes     one file a message
    chunk_maps   which chunks are stored: records, fixed_array, extensible_array, btree2
    chunk        a chunk's sections to cells: selections, values, heap_set; the other way: pack, objects
    array        what users see; measure, verify: what they ask about it; rows, draft: sparse columns
    streams, bulk    whole matrices written; matrix_market, convert: from and to other files

What `decode_x` reads, `encode_x` beside it writes. Only `source` and `opened` touch a file, and h5py is in no path:
reading works where the library gives up.
"""

from colonnade.sparse.array import (
    Coo,
    SparseArray,
    create_sparse,
    find_sparse,
    open_sparse,
    verify_sparse,
    write_sparse,
)
from colonnade.sparse.opened import OpenFile, OpenHandle

__all__ = [
    "Coo", "OpenFile", "OpenHandle", "SparseArray", "create_sparse", "find_sparse", "open_sparse", "verify_sparse",
    "write_sparse",
]  # fmt: skip
