"""Search indexes: four kinds, one module each. Independent of layouts, which only decide where an index is stored.

A kind has a builder (keys in, datasets out) and an index class (answers a leaf with rows; can be refreshed and
verified). To add a kind, add a module like these and an entry in KINDS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from colonnade.columns.keys import domain_of
from colonnade.columns.mapping import arrow_type, key_type
from colonnade.dataclass import dataclass
from colonnade.indexes import bitmap, chunk_bloom, chunk_minmax, sorted_rows
from colonnade.indexes.base import Builder, Digests, Index, Options
from colonnade.model import ColumnInfo
from colonnade.stored_dtypes import memory_dtype


@dataclass(frozen=True)
class Kind:
    """One kind of index: its name in files, its builder and its index class."""

    name: str
    build: Callable[[Any, str, ColumnInfo, Options], Builder]
    open: Callable[[Any, ColumnInfo, Digests | None], Index]


KINDS: dict[str, Kind] = {
    "chunk_minmax": Kind(chunk_minmax.KIND, chunk_minmax.MinMaxBuilder, chunk_minmax.MinMaxIndex),
    "sorted_rows": Kind(sorted_rows.KIND, sorted_rows.SortedRowsBuilder, sorted_rows.SortedRowsIndex),
    "bitmap": Kind(bitmap.KIND, bitmap.BitmapBuilder, bitmap.BitmapIndex),
    "chunk_bloom": Kind(chunk_bloom.KIND, chunk_bloom.BloomBuilder, chunk_bloom.BloomIndex),
}
WORDS: dict[str, str] = {kind.name: word for word, kind in KINDS.items()}
"""The key in KINDS of each kind, by its name in files."""


def refusal(column: ColumnInfo) -> str | None:
    """Why a column cannot have a search index; None when it can."""
    if column.problem is not None:
        return column.problem
    key = key_type(column)
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
