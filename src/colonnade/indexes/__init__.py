"""Search indexes: four kinds, one module each. Independent of layouts, which only decide where an index is stored.

A kind has a builder (keys in, datasets out), an index class (answers a leaf with rows; can be refreshed and verified)
and a `Kind`, which describes both to other rooms. To add a kind, add a module like these and a line in KINDS.
"""

from __future__ import annotations

import pyarrow as pa

from colonnade.columns.keys import domain_of
from colonnade.columns.mapping import arrow_type, key_type
from colonnade.indexes.base import Kind
from colonnade.indexes.bitmap import BITMAP
from colonnade.indexes.chunk_bloom import CHUNK_BLOOM
from colonnade.indexes.chunk_minmax import CHUNK_MINMAX
from colonnade.indexes.sorted_rows import SORTED_ROWS
from colonnade.model import ColumnInfo, Lists
from colonnade.stored_dtypes import memory_dtype

KINDS: dict[str, Kind] = {
    kind.word: kind
    for kind in (
        CHUNK_MINMAX,
        SORTED_ROWS,
        BITMAP,
        CHUNK_BLOOM,
    )
}


def kind_in_file(name: str | None) -> Kind | None:
    """The kind with this KIND attribute; None if it is unknown."""
    return next((kind for kind in KINDS.values() if kind.name == name), None)


def names_in_files() -> str:
    """The KIND attributes of all kinds, for messages."""
    return ", ".join(kind.name for kind in KINDS.values())


def refusal(column: ColumnInfo) -> str | None:
    """Why a column cannot have a search index; None when it can."""
    if column.problem is not None:
        return column.problem
    key = key_type(column)
    if isinstance(column.row_form, Lists):
        return "lists cannot be compared"
    if pa.types.is_decimal(arrow_type(column)) and domain_of(key) == "bytes":
        return "decimals stored as strings do not sort in the order of their bytes"
    if key.kind == "float" and memory_dtype(key).itemsize != key.size:
        return f"no index kind supports floats of type {column.type}"
    if column.storage in ("external", "virtual"):
        return "its rows are stored in other files, which may change independently"
    if column.storage == "sectioned":
        return "an index and its column refer to each other, and HDF5 cannot refer to a sparse column"
    if column.encoding == "levels":
        return "its strings are compared by their position among its categories, which may change in another file"
    if domain_of(key) is None:
        return f"values of type {column.type} cannot be compared"
    return None
