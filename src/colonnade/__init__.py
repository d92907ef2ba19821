"""Column-oriented tables inside HDF5 files.

    import colonnade as cn

    cn.write("run.h5", {"ts": [1, 2], "energy": [0.5, 0.7]}, table="events")
    cn.read("run.h5", "events")

The public API: `open`, `open_table`, `open_sparse`, `read`, `write`, `column`, `check`, `fix`,
`read_element`, `write_element`, `to_anndata`, `from_anndata`, `convert`, `show_versions`, `errors`.
Importing this package is fast: its subpackages are loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from colonnade import errors
    from colonnade.anndata import read_element, write_element
    from colonnade.connect.anndata import from_anndata, to_anndata
    from colonnade.converting import convert
    from colonnade.model import ColumnOptions as column
    from colonnade.model import Finding, IndexInfo
    from colonnade.predicate import Predicate, col
    from colonnade.query.plan import Plan
    from colonnade.sparse import SparseArray
    from colonnade.table import Column, File, Query, Table, open, open_table, read, write
    from colonnade.table.checking import check, fix
    from colonnade.table.sparse import create_sparse, open_sparse, write_sparse
    from colonnade.versions import show_versions

__version__ = "0.1.0"
__all__ = [
    "Column", "File", "Finding", "IndexInfo", "Plan", "Predicate", "Query", "SparseArray", "Table", "__version__",
    "check", "col", "column", "convert", "create_sparse", "errors", "fix", "from_anndata", "open", "open_sparse",
    "open_table", "read", "read_element", "show_versions", "to_anndata", "write", "write_element", "write_sparse",
]  # fmt: skip

_HOMES = {
    **dict.fromkeys(("Column", "File", "Query", "Table", "open", "open_table", "read", "write"), "colonnade.table"),
    "Finding": "colonnade.model",
    "IndexInfo": "colonnade.model",
    "Plan": "colonnade.query.plan",
    "Predicate": "colonnade.predicate",
    "SparseArray": "colonnade.sparse",
    "check": "colonnade.table.checking",
    "col": "colonnade.predicate",
    "column": "colonnade.model",
    "convert": "colonnade.converting",
    "create_sparse": "colonnade.table.sparse",
    "errors": "colonnade",
    "from_anndata": "colonnade.connect.anndata",
    "fix": "colonnade.table.checking",
    "open_sparse": "colonnade.table.sparse",
    "read_element": "colonnade.anndata",
    "show_versions": "colonnade.versions",
    "to_anndata": "colonnade.connect.anndata",
    "write_element": "colonnade.anndata",
    "write_sparse": "colonnade.table.sparse",
}
_NAMES_THERE = {"column": "ColumnOptions"}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'colonnade' has no attribute {name!r}")
    if home == "colonnade":
        return import_module(f"colonnade.{name}")
    found: object = getattr(import_module(home), _NAMES_THERE.get(name, name))
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
