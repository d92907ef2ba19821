"""Choose the reader for the form of a column."""

from __future__ import annotations

from typing import Any

from colonnade.columns.masked import MaskedReader
from colonnade.columns.read import ColumnReader
from colonnade.errors import FormatError
from colonnade.model import ColumnInfo, Kept


def open_reader(column: ColumnInfo, dataset: Any, beside: Any = None, n_threads: int = 1) -> ColumnReader:
    """The reader for a column; `beside` is its companion dataset (categories, mask or heap), if it has one."""
    if column.storage == "sectioned":
        from colonnade.columns.sparse_column import SparseReader  # imported late: few tables have such a column

        return SparseReader(column, dataset, n_threads)
    if column.kept is not None:
        return _reader_of(column.kept)(column, dataset, beside, n_threads)
    if column.is_masked and column.problem is None:
        if beside is None:
            raise FormatError(f"column {column.name!r} has lost its mask", column=column.name)
        return MaskedReader(column, dataset, beside, n_threads)
    return ColumnReader(column, dataset, beside, n_threads)


def _reader_of(kept: Kept) -> type[ColumnReader]:
    """The reader class for rows that stand for other values, imported when first needed."""
    from colonnade.columns.kept import BitsReader, CodesReader, DoubleReader, RReader, TruthReader
    from colonnade.columns.level_column import LevelsReader
    from colonnade.columns.pointer_column import PointerReader
    from colonnade.columns.stamp_column import StampReader

    readers: dict[Kept, type[ColumnReader]] = {
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
    return readers[kept]
