"""Read some rows (and columns) of an element; only the chunks that hold them are read.

Arrays are returned as NumPy arrays, matrices as SciPy matrices, frames as pandas frames. Elements that are small in
practice (categoricals, awkward arrays) are read whole and cut in memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from colonnade.anndata.objects import arrow_column, refuse_broken
from colonnade.anndata.parts import RowIndices, read_cells
from colonnade.anndata.read import encoding_of, read_element
from colonnade.anndata.sparse_matrix import SparseMatrix
from colonnade.anndata.values import AwkwardBuffers, Categorical, Nullable
from colonnade.errors import DataError, FormatError, UsageError
from colonnade.exchange.pandas_arrays import make_frame
from colonnade.h5.arrays import dtype_of, is_null, path_of, shape_of
from colonnade.h5.handles import node_of
from colonnade.h5.nodes import find_member, kind_of, member
from colonnade.model import ColumnInfo
from colonnade.nodes import attributes
from colonnade.selection import integers
from colonnade.table import Table

ARRAYS = (("array", "0.2.0"), ("string-array", "0.2.0"), ("rec-array", "0.2.0"), (None, None))


def read_rows(node: Any, rows: RowIndices | None, columns: RowIndices | None = None) -> Any:
    """The given rows and columns of an element. Numbers must increase strictly; None means the whole axis.

    `columns` applies to arrays and matrices only; the caller passes None for elements without a second axis.
    """
    if kind_of(node) == "dataset":
        return _array_rows(node, rows, columns)
    element = read_element(node)
    if isinstance(element, SparseMatrix):
        return element.select(rows, columns)
    if isinstance(element, Table):
        return frame_rows(node, element, rows)
    if isinstance(element, AwkwardBuffers) and rows is not None:
        element = element.to_awkward()
    if isinstance(element, (Categorical, Nullable)):
        element = element.to_pandas()
    return element if rows is None else element[rows]


def _array_rows(dataset: Any, rows: RowIndices | None, columns: RowIndices | None) -> Any:
    if is_null(dataset):
        return None
    shape = shape_of(dataset)
    if encoding_of(dataset) not in ARRAYS or len(shape) < (1 if columns is None else 2):
        raise FormatError(f"{path_of(dataset)} is not an array with {'columns' if columns is not None else 'rows'}")
    if dtype_of(dataset).kind not in "biufc" or (rows is None and columns is None):
        whole = read_element(dataset)
        picked = whole if rows is None else whole[rows]
        return picked if columns is None else picked[:, columns]
    for chosen, length in ((rows, shape[0]), (columns, shape[1] if len(shape) > 1 else 0)):
        if chosen is not None and len(chosen) and int(chosen[-1]) >= length:
            raise FormatError(f"{path_of(dataset)} has the shape {shape}: it has no row or column {chosen[-1]}")
    return read_cells(dataset, rows, columns)


def frame_rows(group: Any, table: Table, rows: RowIndices | None) -> Any:
    """A pandas frame with these rows of a table, with the dtypes that the whole frame would have."""
    refuse_broken(table)
    if rows is None:
        return read_element(group, pandas=True)
    read = table.take(rows).to_arrow(dictionaries=True)
    arrays = {column.name: _column_rows(group, column, read[column.name], rows) for column in table.info.members}
    name = table.info.index_name
    columns = {column.name: arrays[column.name] for column in table.info.columns}
    return make_frame(columns, arrays.get(name or ""), None if name == "_index" else name)


def _column_rows(group: Any, column: ColumnInfo, read: Any, rows: RowIndices) -> Any:
    try:
        array = arrow_column(read, f"{path_of(group)}/{column.name}")
    except DataError:  # complex numbers and records, which Arrow has only as extensions
        node = group
        for part in column.name.split("/"):
            node = member(node, part)
        return read_element(node, pandas=True)[rows]
    if column.is_masked:
        return _nullable(group, column.name, array)
    return array.to_pandas() if isinstance(array, (Categorical, Nullable)) else array


def _nullable(group: Any, name: str, array: Any) -> Any:
    """A nullable pandas array, even if none of these rows is missing, with the `na-value` of the file."""
    node = find_member(group, name)
    meaning = None if node is None else attributes.read_text(node_of(node.id), "na-value")
    values, mask = (array.values, array.mask) if isinstance(array, Nullable) else (array, np.zeros(len(array), bool))
    return Nullable(values, mask, "NaN" if meaning == "NaN" else "NA").to_pandas()


def increasing(rows: Any, length: int) -> RowIndices:
    """Row numbers, or a mask of one boolean per row, as strictly increasing row numbers. Raises a UsageError."""
    given = np.asarray(rows)
    if given.dtype.kind == "b":
        if given.shape != (length,):
            raise UsageError(f"a mask has one boolean per row: its shape must be ({length},), not {given.shape}")
        return np.flatnonzero(given).astype(np.int64)
    numbers = integers(rows)
    if len(numbers) and (numbers[0] < 0 or numbers[-1] >= length or (np.diff(numbers) < 1).any()):
        raise UsageError(f"row numbers must be below {length} and strictly increasing")
    return numbers
