"""Elements cut to some rows (and columns) as they are read: only the chunks that hold them are touched.

Arrays come as NumPy's, matrices as SciPy's, frames as those of pandas. What AnnData keeps only small (categoricals,
awkward arrays) is read whole and cut in memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from colonnade.anndata.objects import arrow_column, refuse_broken
from colonnade.anndata.parts import Rows, read_cells
from colonnade.anndata.read import encoding_of, read_element
from colonnade.anndata.sparse_matrix import SparseMatrix
from colonnade.anndata.values import AwkwardBuffers, Categorical, Nullable
from colonnade.errors import DataError, FormatError, UsageError
from colonnade.exchange.pandas_arrays import make_frame
from colonnade.h5 import attributes
from colonnade.h5.nodes import dtype_of, find_member, is_null, kind_of, member, path_of, shape_of
from colonnade.model import ColumnInfo
from colonnade.selection import integers
from colonnade.table import Table

ARRAYS = (("array", "0.2.0"), ("string-array", "0.2.0"), ("rec-array", "0.2.0"), (None, None))


def read_rows(node: Any, rows: Rows | None, columns: Rows | None = None) -> Any:
    """An element with these rows and columns only, increasing and each once; None for all of an axis.

    columns are for arrays and matrices; what has no second axis is not asked for them.
    """
    if kind_of(node) == "dataset":
        return _array_rows(node, rows, columns)
    found = read_element(node)
    if isinstance(found, SparseMatrix):
        return found.select(rows, columns)
    if isinstance(found, Table):
        return frame_rows(node, found, rows)
    if isinstance(found, AwkwardBuffers) and rows is not None:
        found = found.to_awkward()
    if isinstance(found, (Categorical, Nullable)):
        found = found.to_pandas()
    return found if rows is None else found[rows]


def _array_rows(dataset: Any, rows: Rows | None, columns: Rows | None) -> Any:
    if is_null(dataset):
        return None
    shape = shape_of(dataset)
    if encoding_of(dataset) not in ARRAYS or len(shape) < (1 if columns is None else 2):
        raise FormatError(f"{path_of(dataset)} is no array of {'columns' if columns is not None else 'rows'}")
    if dtype_of(dataset).kind not in "biufc" or (rows is None and columns is None):
        whole = read_element(dataset)
        picked = whole if rows is None else whole[rows]
        return picked if columns is None else picked[:, columns]
    for chosen, length in ((rows, shape[0]), (columns, shape[1] if len(shape) > 1 else 0)):
        if chosen is not None and len(chosen) and int(chosen[-1]) >= length:
            raise FormatError(f"{path_of(dataset)} has the shape {shape}: it has no row or column {chosen[-1]}")
    return read_cells(dataset, rows, columns)


def frame_rows(group: Any, table: Table, rows: Rows | None) -> Any:
    """A frame of pandas with these rows of a table, of the types that the whole frame would have."""
    refuse_broken(table)
    if rows is None:
        return read_element(group, pandas=True)
    read = table.take(rows).to_arrow(dictionaries=True)
    made = {column.name: _column_rows(group, column, read[column.name], rows) for column in table.info.members}
    name = table.info.index_name
    columns = {column.name: made[column.name] for column in table.info.columns}
    return make_frame(columns, made.get(name or ""), None if name == "_index" else name)


def _column_rows(group: Any, column: ColumnInfo, read: Any, rows: Rows) -> Any:
    try:
        found = arrow_column(read, f"{path_of(group)}/{column.name}")
    except DataError:  # complex numbers and records, which Arrow has only as extensions
        node = group
        for part in column.name.split("/"):
            node = member(node, part)
        return read_element(node, pandas=True)[rows]
    if column.is_masked:
        return _nullable(group, column.name, found)
    return found.to_pandas() if isinstance(found, (Categorical, Nullable)) else found


def _nullable(group: Any, name: str, found: Any) -> Any:
    """A nullable array, also where none of these rows is missing; a missing one means what the file says."""
    node = find_member(group, name)
    meaning = None if node is None else attributes.read_text(node.id, "na-value")
    values, mask = (found.values, found.mask) if isinstance(found, Nullable) else (found, np.zeros(len(found), bool))
    return Nullable(values, mask, "NaN" if meaning == "NaN" else "NA").to_pandas()


def increasing(rows: Any, length: int) -> Rows:
    """Row numbers, or one truth value a row, as increasing numbers; else a UsageError."""
    given = np.asarray(rows)
    if given.dtype.kind == "b":
        if given.shape != (length,):
            raise UsageError(f"a mask has one truth value a row: {length} of them, not {given.shape}")
        return np.flatnonzero(given).astype(np.int64)
    numbers = integers(rows)
    if len(numbers) and (numbers[0] < 0 or numbers[-1] >= length or (np.diff(numbers) < 1).any()):
        raise UsageError(f"row numbers must be below {length}, increasing and each once")
    return numbers
