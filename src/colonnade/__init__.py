"""Column-oriented tables inside HDF5 files.

    import colonnade as cn

    cn.write("run.h5", {"ts": [1, 2], "energy": [0.5, 0.7]}, table="events")
    cn.read("run.h5", "events")

Functions: `open`, `open_table`, `open_sparse`, `read`, `write`, `column`, `col`, `expr`, `check`, `fix`, `convert`,
`create_sparse`, `write_sparse`, `read_element`, `write_element`, `to_anndata`, `from_anndata`, `sql`, `show_versions`.
Errors are in `errors`; the classes are those that the functions take and return. The examples in the docstrings
assume `import colonnade as cn`, `import numpy as np` and `import pyarrow as pa`.
Importing this package is fast: its subpackages are loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from colonnade import errors
    from colonnade.anndata import (
        AwkwardBuffers,
        Categorical,
        Members,
        Nullable,
        SparseMatrix,
        read_element,
    )  # fmt: skip
    from colonnade.anndata.write import write_element
    from colonnade.checking import Checked, Findings, Fixed
    from colonnade.connect.anndata import from_anndata, to_anndata
    from colonnade.connect.sql import sql
    from colonnade.converting import Converted, convert
    from colonnade.format.dataspace import Dataspace
    from colonnade.format.layout import StorageLayout
    from colonnade.format.records import ChunkRecord
    from colonnade.indexes.base import Found
    from colonnade.indexes.known import Distinct
    from colonnade.model import (
        CategoriesInfo,
        ChunkGrid,
        Coded,
        ColumnInfo,
        ColumnOptions,
        FilterInfo,
        Finding,
        IndexInfo,
        LibraryRead,
        Lists,
        Masked,
        Member,
        OtherColumn,
        Plain,
        Pointers,
        Repair,
        Sectioned,
        Slabs,
        StoredField,
        StoredType,
        TableInfo,
    )  # fmt: skip
    from colonnade.model import ColumnOptions as column
    from colonnade.nodes.attributes import Attributes
    from colonnade.predicate.columns import ColumnName, Expression, col
    from colonnade.predicate.expressions import Term
    from colonnade.predicate.parse import expr
    from colonnade.predicate.tree import Leaf, Predicate
    from colonnade.query.histogram import Histogram
    from colonnade.query.plan import ColumnRead, IndexSkipped, IndexUsed, Plan
    from colonnade.query.stats import ColumnStats
    from colonnade.selection import Selection
    from colonnade.sparse import Coo, SparseArray
    from colonnade.sparse.info import SparseInfo
    from colonnade.sparse.measure import SectionSize, StoredSize
    from colonnade.table import Column, File, Query, RawRows, Table, open, open_table, read, write
    from colonnade.table.checking import check, fix
    from colonnade.table.copying import copy
    from colonnade.table.describing import Description
    from colonnade.table.references import Reference, ReferencedArray, ReferencedGroup
    from colonnade.table.sparse import create_sparse, open_sparse, write_sparse
    from colonnade.versions import show_versions

__version__ = "0.1.0"
__all__ = [
    "Attributes", "AwkwardBuffers", "Categorical", "CategoriesInfo", "Checked", "ChunkGrid", "ChunkRecord", "Coded",
    "Column", "ColumnInfo", "ColumnName", "ColumnOptions", "ColumnRead", "ColumnStats", "Converted", "Coo",
    "Dataspace", "Description", "Distinct", "Expression", "File", "FilterInfo", "Finding", "Findings", "Fixed", "Found",
    "Histogram", "IndexInfo", "IndexSkipped", "IndexUsed", "Leaf", "LibraryRead", "Lists", "Masked", "Member",
    "Members", "Nullable", "OtherColumn", "Plain", "Plan", "Pointers", "Predicate", "Query", "RawRows", "Reference",
    "ReferencedArray", "ReferencedGroup", "Repair", "SectionSize", "Sectioned", "Selection", "Slabs", "SparseArray",
    "SparseInfo", "SparseMatrix", "StorageLayout", "StoredField", "StoredSize", "StoredType", "Table", "TableInfo",
    "Term", "__version__", "check", "col", "column", "convert", "copy", "create_sparse", "errors", "expr", "fix",
    "from_anndata", "open", "open_sparse", "open_table", "read", "read_element", "show_versions", "sql", "to_anndata",
    "write", "write_element", "write_sparse",
]  # fmt: skip

# Where each public name is, for those who ask for it: nothing is imported before.
_NAMES_IN = {
    "anndata": "AwkwardBuffers Categorical Members Nullable SparseMatrix read_element",
    "anndata.write": "write_element",
    "checking": "Checked Findings Fixed",
    "connect.anndata": "from_anndata to_anndata",
    "connect.sql": "sql",
    "converting": "Converted convert",
    "format.dataspace": "Dataspace",
    "format.layout": "StorageLayout",
    "format.records": "ChunkRecord",
    "nodes.attributes": "Attributes",
    "indexes.base": "Found",
    "model": "CategoriesInfo ChunkGrid Coded ColumnInfo ColumnOptions FilterInfo Finding IndexInfo Lists Masked Member "
    "LibraryRead OtherColumn Plain Pointers Repair Sectioned Slabs StoredField StoredType TableInfo",
    "predicate.columns": "ColumnName Expression col",
    "predicate.expressions": "Term",
    "predicate.parse": "expr",
    "predicate.tree": "Leaf Predicate",
    "query.histogram": "Histogram",
    "query.plan": "ColumnRead IndexSkipped IndexUsed Plan",
    "indexes.known": "Distinct",
    "query.stats": "ColumnStats",
    "selection": "Selection",
    "sparse": "Coo SparseArray",
    "sparse.info": "SparseInfo",
    "sparse.measure": "SectionSize StoredSize",
    "table": "Column File Query RawRows Table open open_table read write",
    "table.checking": "check fix",
    "table.copying": "copy",
    "table.describing": "Description",
    "table.references": "Reference ReferencedArray ReferencedGroup",
    "table.sparse": "create_sparse open_sparse write_sparse",
    "versions": "show_versions",
}
_HOMES = {name: home for home, names in _NAMES_IN.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name == "errors":
        return import_module("colonnade.errors")
    there = "ColumnOptions" if name == "column" else name
    if there not in _HOMES:
        raise AttributeError(f"module 'colonnade' has no attribute {name!r}")
    value: object = getattr(import_module(f"colonnade.{_HOMES[there]}"), there)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
