"""Read some rows (and columns) of an element; only the chunks that hold them are read.

Arrays are returned as NumPy arrays, matrices as SciPy matrices, frames as pandas frames. Elements that are small in
practice (categoricals, awkward arrays) are read whole and cut in memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

import numpy as np

from colonnade.anndata.objects import arrow_column, refuse_broken
from colonnade.anndata.parts import RowIndices, read_cells
from colonnade.anndata.read import element_value, encoding_of
from colonnade.anndata.source import Element
from colonnade.anndata.sparse_matrix import SparseMatrix
from colonnade.anndata.values import AwkwardBuffers, Categorical, ElementValue, Nullable
from colonnade.errors import DataError, FormatError, UsageError
from colonnade.exchange.pandas_arrays import make_frame
from colonnade.model import ColumnInfo
from colonnade.nodes.attributes import read_text
from colonnade.selection import integers
from colonnade.table import Table

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas
    import pyarrow as pa
    from pandas.api.extensions import ExtensionArray


ARRAYS = (("array", "0.2.0"), ("string-array", "0.2.0"), ("rec-array", "0.2.0"), (None, None))


def read_rows(element: Element, rows: RowIndices | None, columns: RowIndices | None = None) -> ElementValue:
    """The given rows and columns of an element. Numbers must increase strictly; None means the whole axis.

    `columns` applies to arrays and matrices only; the caller passes None for elements without a second axis.
    """
    if element.node.is_dataset:
        return _array_rows(element, rows, columns)
    value = element_value(element)
    if isinstance(value, SparseMatrix):
        return value.select(rows, columns)
    if isinstance(value, Table):
        return frame_rows(element, value, rows)
    if isinstance(value, AwkwardBuffers) and rows is not None:
        value = value.to_awkward()
    if isinstance(value, (Categorical, Nullable)):
        value = value.to_pandas()
    return value if rows is None else value[rows]


def _array_rows(element: Element, rows: RowIndices | None, columns: RowIndices | None) -> ElementValue:
    dataset = element.dataset
    if dataset.is_null:
        return None
    shape = dataset.shape
    if encoding_of(dataset) not in ARRAYS or len(shape) < (1 if columns is None else 2):
        raise FormatError(f"{dataset.path} is not an array with {'columns' if columns is not None else 'rows'}")
    if dataset.array_dtype().kind not in "biufc" or (rows is None and columns is None):
        whole = element_value(element)
        picked = whole if rows is None else whole[rows]
        return picked if columns is None else picked[:, columns]
    for chosen, length in ((rows, shape[0]), (columns, shape[1] if len(shape) > 1 else 0)):
        if chosen is not None and len(chosen) and int(chosen[-1]) >= length:
            raise FormatError(f"{dataset.path} has the shape {shape}: it has no row or column {chosen[-1]}")
    return read_cells(dataset, rows, columns)


def frame_rows(element: Element, table: Table, rows: RowIndices | None) -> pandas.DataFrame:
    """A pandas frame with these rows of a table, with the dtypes that the whole frame would have."""
    refuse_broken(table)
    if rows is None:
        whole: pandas.DataFrame = element_value(element, pandas=True)
        return whole
    read = table.take(rows).to_arrow(dictionaries=True)
    arrays = {column.name: _column_rows(element, column, read[column.name], rows) for column in table.info.members}
    name = table.info.index_name
    columns = {column.name: arrays[column.name] for column in table.info.columns}
    return make_frame(columns, arrays.get(name or ""), None if name == "_index" else name)


def _column_rows(
    element: Element, column: ColumnInfo, read: pa.ChunkedArray, rows: RowIndices
) -> np.ndarray | ExtensionArray:
    try:
        array = arrow_column(read, f"{element.node.path}/{column.name}")
    except DataError:  # complex numbers and records, which Arrow has only as extensions
        picked: np.ndarray = element_value(element.descendant(column.name), pandas=True)[rows]
        return picked
    if column.is_masked:
        return _nullable(element, column.name, array)
    return array.to_pandas() if isinstance(array, (Categorical, Nullable)) else array


def _nullable(element: Element, name: str, array: np.ndarray | Categorical | Nullable) -> ExtensionArray:
    """A nullable pandas array, even if none of these rows is missing, with the `na-value` of the file."""
    if isinstance(array, Categorical):
        return array.to_pandas()
    member = element.find(name)
    meaning = None if member is None else read_text(member.node, "na-value")
    values, mask = (array.values, array.mask) if isinstance(array, Nullable) else (array, np.zeros(len(array), bool))
    return Nullable(values, mask, "NaN" if meaning == "NaN" else "NA").to_pandas()


def increasing(rows: npt.ArrayLike, length: int) -> RowIndices:
    """Row numbers, or a mask of one boolean per row, as strictly increasing row numbers. Raises a UsageError."""
    given = np.asarray(rows)
    if given.dtype.kind == "b":
        if given.shape != (length,):
            raise UsageError(f"a mask has one boolean per row: its shape must be ({length},), not {given.shape}")
        return np.flatnonzero(given).astype(np.int64)
    numbers = integers(cast("Iterable[int]", rows))
    if len(numbers) and (numbers[0] < 0 or numbers[-1] >= length or (np.diff(numbers) < 1).any()):
        raise UsageError(f"row numbers must be below {length} and strictly increasing")
    return numbers
