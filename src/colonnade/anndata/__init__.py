"""Read and write AnnData elements without the anndata package: arrays, sparse matrices, frames, mappings, scalars.

`read_element(file.h5["uns"])`, `write_element(file.h5, "uns", {...})`.
"""

from colonnade.anndata.read import read_element
from colonnade.anndata.sparse_matrix import SparseMatrix
from colonnade.anndata.values import AwkwardBuffers, Categorical, Members, Nullable
from colonnade.anndata.write import write_element, write_elements

__all__ = [
    "AwkwardBuffers",
    "Categorical",
    "Members",
    "Nullable",
    "SparseMatrix",
    "read_element",
    "write_element",
    "write_elements",
]
