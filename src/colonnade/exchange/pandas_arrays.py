"""Split pandas arrays and frames into plain parts and rebuild them, for AnnData elements. pandas is imported late.

An object can only be a pandas object if pandas has been imported, so recognizing one imports nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from colonnade.dataclass import dataclass
from colonnade.errors import DataError, UsageError

if TYPE_CHECKING:
    import pandas
    from pandas.api.extensions import ExtensionArray

PandasValues = np.ndarray


@dataclass(frozen=True)
class FrameParts:
    """A frame as names and arrays, of pandas, NumPy or `anndata.values`; `index_name` is None if the index has none."""

    columns: Sequence[tuple[str, object]]
    index: object
    index_name: str | None


@dataclass(frozen=True)
class CategoricalParts:
    codes: PandasValues
    categories: ExtensionArray
    ordered: bool


@dataclass(frozen=True)
class NullableParts:
    values: PandasValues
    mask: PandasValues
    na_value: str


def _pandas() -> ModuleType:
    try:
        import pandas
    except ImportError:
        raise UsageError("this needs the package pandas (pip install pandas)") from None
    return pandas


def make_categorical(codes: PandasValues, categories: PandasValues, ordered: bool) -> pandas.Categorical:
    """A pandas Categorical; duplicate categories raise a DataError."""
    try:
        categorical: pandas.Categorical = _pandas().Categorical.from_codes(codes, categories, ordered=ordered)
    except ValueError as error:
        raise DataError(f"pandas cannot hold this categorical: {error}") from error
    return categorical


def make_nullable(values: PandasValues, mask: PandasValues, na_value: str) -> ExtensionArray:
    """A pandas array of integers, booleans or strings with missing values."""
    pd = _pandas()
    array: ExtensionArray
    if values.dtype.kind in "iu":
        native = values.astype(values.dtype.newbyteorder("="))
        array = pd.arrays.IntegerArray(native, mask.copy())
    elif values.dtype.kind == "b":
        array = pd.arrays.BooleanArray(values.copy(), mask.copy())
    else:
        strings = values.astype(object)
        strings[mask] = None
        dtype = pd.StringDtype(na_value=np.nan) if na_value == "NaN" else pd.StringDtype()
        array = pd.array(strings, dtype=dtype)
    return array


def make_frame(columns: Mapping[str, object], index: object, index_name: str | None) -> pandas.DataFrame:
    pd = _pandas()
    labels = pd.Index(index, name=index_name) if index is not None else None
    frame: pandas.DataFrame = pd.DataFrame(dict(columns), index=labels)
    return frame


def split_frame(value: object) -> FrameParts | None:
    """The parts of a pandas frame; None if the value is not a frame."""
    pd = sys.modules.get("pandas")
    if pd is None or not isinstance(value, pd.DataFrame):
        return None
    if isinstance(value.index, pd.MultiIndex) or isinstance(value.columns, pd.MultiIndex):
        raise DataError("AnnData cannot hold a frame with an index of several levels: reset_index() first")
    columns = [(name, value.iloc[:, position].array) for position, name in enumerate(value.columns)]
    return FrameParts(columns, value.index.array, value.index.name)


def with_categories(frame: pandas.DataFrame, order: Callable[[np.ndarray], list[str]]) -> pandas.DataFrame:
    """The frame, with object columns converted to categorical if their values are strings and some are missing."""
    pd = _pandas()
    categoricals = {}
    for position in range(len(frame.columns)):
        column = frame.iloc[:, position]
        if column.dtype == object and column.isna().any() and pd.api.types.infer_dtype(column) == "string":
            categoricals[position] = pd.Categorical(column, categories=order(column.dropna().unique()))
    if not categoricals:
        return frame
    changed = frame.copy(deep=False)
    for position, categories in categoricals.items():
        changed.isetitem(position, categories)
    return changed


def split_array(value: object) -> CategoricalParts | NullableParts | PandasValues | None:
    """The parts of a pandas array, Series or Index: codes and categories, values and mask, or values; else None."""
    pd = sys.modules.get("pandas")
    if pd is None:
        return None
    if isinstance(value, (pd.Series, pd.Index)):
        value = value.array
    if isinstance(value, pd.Categorical):
        return CategoricalParts(np.asarray(value.codes), value.categories.array, bool(value.ordered))
    if isinstance(value, (pd.arrays.IntegerArray, pd.arrays.BooleanArray)):
        mask = np.asarray(value.isna())
        values = value.to_numpy(dtype=value.dtype.numpy_dtype, na_value=value.dtype.type(0))
        return NullableParts(values, mask, "NA")
    if isinstance(value, pd.api.extensions.ExtensionArray) and isinstance(value.dtype, pd.StringDtype):
        strings = value.to_numpy(dtype=object, na_value="")
        return NullableParts(strings, np.asarray(value.isna()), "NA" if value.dtype.na_value is pd.NA else "NaN")
    if isinstance(value, pd.arrays.NumpyExtensionArray):
        plain: PandasValues = value.to_numpy()
        return plain
    if isinstance(value, pd.api.extensions.ExtensionArray):
        raise DataError(f"AnnData has no form for pandas' {value.dtype}: cast it first", type=str(value.dtype))
    return None
