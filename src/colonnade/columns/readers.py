"""Which reader suits the form of a column."""

from __future__ import annotations

from typing import Any

from colonnade.columns.kept import BitsReader, CodesReader, DoubleReader, RReader, TruthReader
from colonnade.columns.level_column import LevelsReader
from colonnade.columns.masked import MaskedReader
from colonnade.columns.pointer_column import PointerReader
from colonnade.columns.read import ColumnReader
from colonnade.columns.sparse_column import SparseReader
from colonnade.columns.stamp_column import StampReader
from colonnade.errors import FormatError
from colonnade.model import ColumnInfo, Kept

_KEPT: dict[Kept, type[ColumnReader]] = {
    "truth": TruthReader,
    "double": DoubleReader,
    "date": StampReader,
    "date-time": StampReader,
    "pointers": PointerReader,
    "levels": LevelsReader,
    "codes": CodesReader,
    "bits": BitsReader,
    "r": RReader,
}


def open_reader(column: ColumnInfo, dataset: Any, beside: Any = None, n_threads: int = 1) -> ColumnReader:
    """The reader that suits the form of a column; `beside` is its categories, its mask or its heap, if it has one."""
    if column.storage == "sectioned":
        return SparseReader(column, dataset, n_threads)
    if column.kept is not None:
        return _KEPT[column.kept](column, dataset, beside, n_threads)
    if column.is_masked and column.problem is None:
        if beside is None:
            raise FormatError(f"column {column.name!r} has lost its mask", column=column.name)
        return MaskedReader(column, dataset, beside, n_threads)
    return ColumnReader(column, dataset, beside, n_threads)
