"""Strings as Arrow string views: 16 bytes per row that hold a short string, or point to a longer one.

Strings stored by categories need no copy: the views of the categories are made once, and each row is one of them.
That is a third of the work of copying the strings, and Polars and DuckDB use views themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from colonnade import kernels
from colonnade.h5.chunks import new_array
from colonnade.threads import in_order

VIEW = pa.string_view()
_VIEW = np.dtype("V16")


def as_views(column: pa.ChunkedArray, n_threads: int = 1) -> pa.ChunkedArray:
    """Strings, or dictionaries of strings, as views; any other column unchanged."""
    if pa.types.is_string(column.type):
        return _cast(column)
    if not pa.types.is_dictionary(column.type) or not pa.types.is_string(column.type.value_type):
        return column
    if any(len(part.dictionary) > len(column) for part in column.chunks):  # few rows: skip unused categories
        return _cast(column.cast(pa.string()))
    return pa.chunked_array(list(in_order(_looked_up, _with_views(column), n_threads)), VIEW)


def _cast(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array([_views_of(part) for part in column.chunks], VIEW)


def _views_of(strings: pa.Array) -> pa.Array:
    """Strings as views. If all strings are short, Arrow 21 to 24 leaves the data buffer null, and crashes when the
    array is passed to another library: such a buffer is replaced by an empty one."""
    made = strings.cast(VIEW)
    missing, views, *data = made.buffers()
    if all(one is not None for one in data):
        return made
    whole = [pa.py_buffer(b"") if one is None else one for one in data]
    return pa.Array.from_buffers(VIEW, len(made), [missing, views, *whole], offset=made.offset)


def _with_views(column: pa.ChunkedArray) -> Iterator[tuple[pa.Array, pa.Array]]:
    """The chunks of a column, each with the views of its dictionary, which are reused while it stays the same."""
    last: tuple[Any, pa.Array] | None = None
    for part in column.chunks:
        dictionary = part.dictionary
        key = (len(dictionary), dictionary.offset, *(0 if one is None else one.address for one in dictionary.buffers()))
        if last is None or last[0] != key:
            last = key, _views_of(dictionary)
        yield part, last[1]


def _looked_up(work: tuple[pa.Array, pa.Array]) -> pa.Array:
    part, known = work
    if not len(known) or part.null_count == len(part):
        return pa.nulls(len(part), VIEW)
    codes = part.indices if not part.null_count else part.indices.fill_null(0)
    rows = np.ascontiguousarray(codes, dtype=np.int64)
    made = new_array(len(rows), _VIEW)
    views = np.frombuffer(known.buffers()[1], dtype=_VIEW)[known.offset : known.offset + len(known)]
    kernels.take(views, _VIEW.itemsize, rows, made)
    missing = part.is_valid().buffers()[1] if part.null_count else None
    return pa.Array.from_buffers(VIEW, len(part), [missing, pa.py_buffer(made), *known.buffers()[2:]])
