"""Read and write AnnData elements without the anndata package: arrays, sparse matrices, frames, mappings, scalars.

`read_element("cells.h5ad", "uns")`; `write.write_element(file.h5, "uns", {...})`, for which libhdf5 is loaded.
"""

from colonnade.anndata.read import read_element
from colonnade.anndata.sparse_matrix import SparseMatrix
from colonnade.anndata.values import AwkwardBuffers, Categorical, Members, Nullable

__all__ = ["AwkwardBuffers", "Categorical", "Members", "Nullable", "SparseMatrix", "read_element"]
