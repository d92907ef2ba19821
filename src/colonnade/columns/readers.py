"""Which reader suits the form of a column."""

from __future__ import annotations

from typing import Any

from colonnade.columns.masked import MaskedReader
from colonnade.columns.read import ColumnReader
from colonnade.errors import FormatError
from colonnade.model import ColumnInfo


def open_reader(column: ColumnInfo, dataset: Any, beside: Any = None, n_threads: int = 1) -> ColumnReader:
    """The reader that suits the form of a column; `beside` is its categories or its mask, if it has either."""
    if column.storage == "sectioned":
        from colonnade.columns.sparse_column import SparseReader  # late: few tables have such a column

        return SparseReader(column, dataset, n_threads)
    if column.is_masked and column.problem is None:
        if beside is None:
            raise FormatError(f"column {column.name!r} has lost its mask", column=column.name)
        return MaskedReader(column, dataset, beside, n_threads)
    return ColumnReader(column, dataset, beside, n_threads)
