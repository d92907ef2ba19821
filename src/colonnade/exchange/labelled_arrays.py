"""Rows for packages of labelled and lazy arrays: an xarray Dataset, and a Dask array that reads a column on request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from colonnade.errors import UsageError

if TYPE_CHECKING:
    import dask.array
    import pandas
    import xarray

DEFAULT_DIMENSION = "row"


def to_xarray(
    columns: Mapping[str, np.ndarray],
    attributes: Mapping[str, Mapping[str, str]],
    dims: Sequence[str],
    frame: Callable[[], pandas.DataFrame],
) -> xarray.Dataset:
    """Columns as variables. dims: columns whose values are the coordinates; none: the rows have a dimension "row".

    attributes: of each column. frame: the same rows as a pandas frame, for several dimensions.
    """
    try:
        package = import_module("xarray")
    except ImportError:
        raise UsageError("this needs the package xarray (pip install xarray)") from None
    for name in dims:
        if name not in columns:
            raise UsageError(f"the dimension {name!r} is not among the columns: {', '.join(columns)}", column=name)
    if len(dims) > 1:
        indexed = frame().reset_index().set_index(list(dims))
        if not indexed.index.is_unique:
            raise UsageError(f"several rows have the same values of {', '.join(dims)}: they cannot all be dimensions")
        dataset: xarray.Dataset = package.Dataset.from_dataframe(indexed[[n for n in columns if n not in dims]])
    else:
        along = dims[0] if dims else DEFAULT_DIMENSION
        if along not in dims and along in columns:
            raise UsageError(f"a column is named {along!r}, as the dimension of the rows: give dims=", column=along)
        variables = {name: (along, values) for name, values in columns.items() if name not in dims}
        dataset = package.Dataset(variables, coords={name: (name, columns[name]) for name in dims})
    for name, notes in attributes.items():
        dataset[name].attrs.update(notes)
    return dataset


class LazyColumn:
    """What Dask asks of an array: shape, dtype, and slices, which are read on request."""

    def __init__(self, read: Callable[[slice], np.ndarray], n_rows: int, name: str) -> None:
        self._read = read
        self.dtype = read(slice(0)).dtype
        self.shape, self.ndim, self.name = (n_rows,), 1, name

    def __getitem__(self, item: tuple[slice, ...]) -> np.ndarray:
        return self._read(item[0])


def to_dask(column: LazyColumn, rows_per_chunk: int) -> dask.array.Array:
    """A Dask array of one dimension."""
    try:
        array = import_module("dask.array")
    except ImportError:
        raise UsageError("this needs the package dask (pip install 'dask[array]')") from None
    result: dask.array.Array = array.from_array(
        column, chunks=(max(rows_per_chunk, 1),), name=False, asarray=False, fancy=False
    )
    return result
