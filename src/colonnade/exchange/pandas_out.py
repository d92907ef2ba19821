"""Convert Arrow columns to pandas arrays where a note names their type or pyarrow would choose another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

import numpy as np
import pandas as pd
import pyarrow as pa

from colonnade.columns.arrow_types import ComplexType, complex_column, parse_arrow_type
from colonnade.exchange.pandas_names import with_freq
from colonnade.exchange.pandas_notes import MASKED_TYPES, STRING_TYPES, Note, label_name

if TYPE_CHECKING:
    from typing import Literal

    from pandas.api.extensions import ExtensionArray

    PandasArray = ExtensionArray | np.ndarray

    class FromArrow(Protocol):
        """A pandas dtype that makes arrays of Arrow's."""

        def __from_arrow__(self, column: pa.ChunkedArray) -> ExtensionArray: ...


T = TypeVar("T")
_CONTAINERS: dict[str, Callable[[Iterable[object]], object]] = {"tuple": tuple, "set": set}
_MISSING = {"NaN": np.nan, "NA": pd.NA, "NaT": pd.NaT}


def own_values(column: pa.ChunkedArray, note: Note) -> PandasArray | None:
    """The values as a pandas or NumPy array; None if pyarrow's own conversion is right."""
    values = _noted(column, note) if note else None
    if values is not None:
        return values
    if isinstance(column.type, ComplexType):
        return complex_column(column)
    if column.null_count and (pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)):
        whole: ExtensionArray = column.to_pandas(types_mapper=_nullable).array  # float64 would round large integers
        return whole
    if column.null_count and pa.types.is_struct(column.type):
        return _objects(column, note)  # pyarrow would convert the integers of all rows to floats
    return None


def _nullable(kind: pa.DataType) -> object:
    """The pandas types for integers and booleans with missing rows."""
    return _type(next(name for name, known in MASKED_TYPES.items() if known == kind))


def _noted(column: pa.ChunkedArray, note: Note) -> PandasArray | None:
    """The values in the type of the note; None if the note does not fit the column."""
    dtype, kind = str(note.get("dtype")), column.type
    if dtype in MASKED_TYPES:
        return _masked(column, dtype) if kind == MASKED_TYPES[dtype] else None
    if dtype in STRING_TYPES:
        return _string_type(dtype).__from_arrow__(column) if pa.types.is_string(kind) else None
    if dtype == "object":
        return _objects(column, note)
    if dtype.startswith("period["):
        return _made(lambda: _type(dtype).__from_arrow__(column)) if kind == pa.int64() else None
    if dtype == "tz":
        zoned = pa.types.is_timestamp(kind) and kind.tz is not None
        return _made(lambda: column.to_pandas().dt.tz_convert(note.get("tz")).array) if zoned else None
    if dtype == "interval":
        return _made(lambda: _intervals(column, note))
    if dtype == "Sparse":
        return _made(lambda: _sparse(column, note))
    if dtype == "category":
        return _made(lambda: _categorical(column, note)) if pa.types.is_dictionary(kind) else None
    if dtype == "pyarrow":
        return _arrow_backed(column, str(note.get("type")))
    return None


def _masked(column: pa.ChunkedArray, dtype: str) -> PandasArray:
    if not dtype.startswith("Float"):
        return _type(dtype).__from_arrow__(column)
    values = column.fill_null(0).to_numpy()  # NaN is a value, but some versions of pandas would make it missing
    masked: ExtensionArray = pd.arrays.FloatingArray(np.array(values), column.is_null().to_numpy())
    return masked


def _type(name: str) -> FromArrow:
    return cast("FromArrow", pd.api.types.pandas_dtype(name))


def _closed(note: Note) -> Literal["left", "right", "both", "neither"]:
    """Which ends belong to intervals; a ValueError where a note has something else."""
    match note.get("closed"):
        case "left" | "right" | "both" | "neither" as closed:
            return closed
    raise ValueError("a note of intervals without the ends that belong to them")


def _ends(note: Note, side: str) -> pd.Index:
    """The left or right ends of intervals that are categories."""
    ends = note[side]
    if not isinstance(ends, list):
        raise TypeError("a note of intervals without their ends")
    return pd.Index(ends).astype(str(note["subtype"]))


def _made(make: Callable[[], T | None]) -> T | None:
    """The result of `make`, or None if the note does not fit: it comes from a file and may be invalid."""
    try:
        return make()
    except (ValueError, TypeError, KeyError, OverflowError, NotImplementedError, pa.ArrowException):
        return None


def _string_type(dtype: str) -> FromArrow:
    storage: Literal["python", "pyarrow"] | None = None
    if "[" in dtype:
        storage = "python" if dtype.endswith("[python]") else "pyarrow"
    na_value = pd.NA if dtype.startswith("string") else np.nan
    return cast("FromArrow", pd.StringDtype(storage, na_value=na_value))


def _objects(column: pa.ChunkedArray, note: Note) -> np.ndarray:
    if isinstance(column.type, ComplexType):
        values = complex_column(column).astype(object)
    else:
        values = np.empty(len(column), dtype=object)
        make = _CONTAINERS.get(str(note.get("items")))
        for row, value in enumerate(column.to_pylist()):  # NumPy would make equal lists a 2-D array
            values[row] = make(value) if make is not None and isinstance(value, list) else value
    missing = _MISSING.get(str(note.get("na")))
    if column.null_count:
        values[column.is_null().to_numpy()] = missing
    return values


def _intervals(column: pa.ChunkedArray, note: Note) -> pd.arrays.IntervalArray | None:
    if not pa.types.is_struct(column.type) or [f.name for f in column.type] != ["left", "right"]:
        return None
    gone = column.is_null().to_numpy()
    ends = [pa.chunked_array([chunk.field(at) for chunk in column.chunks], column.type.field(at).type) for at in (0, 1)]
    left, right = (pd.Index(end.to_pandas()) for end in ends)
    if gone.any():
        missing = pd.NaT if left.dtype.kind in "mM" else np.nan
        left, right = (end.where(~gone, missing) for end in (left, right))
    return pd.arrays.IntervalArray.from_arrays(left, right, closed=_closed(note))


def _sparse(column: pa.ChunkedArray, note: Note) -> pd.arrays.SparseArray:
    own, fill = own_values(column, {}), note.get("fill")
    if fill is not None and not isinstance(fill, (str, int, float)):
        raise TypeError("a note of a sparse column with a fill that is not a number")
    return pd.arrays.SparseArray(column.to_pandas() if own is None else own, fill_value=fill)


def _categorical(column: pa.ChunkedArray, note: Note) -> pd.Categorical | None:
    whole = column.unify_dictionaries().combine_chunks()
    whole = (
        whole
        if isinstance(whole, pa.Array)
        else pa.concat_arrays(whole.chunks)
        if whole.num_chunks
        else pa.nulls(0, column.type)
    )
    noted = note.get("categories")
    if not isinstance(noted, dict):
        return None
    dictionary = pa.chunked_array([whole.dictionary])
    categories = _interval_categories(dictionary, noted) if "left" in noted else _noted(dictionary, noted)
    if categories is None:
        return None
    codes = whole.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    index = pd.Index(categories, dtype=object) if isinstance(categories, np.ndarray) else pd.Index(categories)
    return pd.Categorical.from_codes(codes, index, ordered=column.type.ordered)


def _interval_categories(strings: pa.ChunkedArray, note: Note) -> pd.arrays.IntervalArray | None:
    """The intervals that these strings name, if the note still lists all of them."""
    left, right = _ends(note, "left"), _ends(note, "right")
    intervals = pd.arrays.IntervalArray.from_arrays(left, right, closed=_closed(note))
    return intervals if [str(interval) for interval in intervals] == strings.to_pylist() else None


def _arrow_backed(column: pa.ChunkedArray, text: str) -> PandasArray:
    if str(column.type) != text:
        known = {str(kind): kind for kind in (pa.large_string(), pa.string_view(), pa.large_binary(), pa.binary_view())}
        kind = known.get(text) or parse_arrow_type(text)
        column = column if kind is None else _made(lambda: column.cast(kind)) or column
    return pd.arrays.ArrowExtensionArray(column)


def index_from(values: Mapping[str, PandasArray | pd.Series], notes: Mapping[str, Note]) -> pd.Index | None:
    """The index of these labels; None if there are none, or if pandas cannot use them as an index."""
    names = [label_name(name, notes[name], list(values)) for name in values]
    try:
        levels = [_level(level, notes[name]) for name, level in values.items()]
        if len(levels) > 1:
            index = pd.MultiIndex.from_arrays(levels, names=names)
            for at, note in enumerate(notes[name] for name in values):
                coded = index.levels[at]
                if note.get("dtype") == "level" and isinstance(coded, pd.CategoricalIndex):
                    index = index.set_levels(pd.Index(coded.categories), level=at)  # type: ignore[call-overload] # as below
                if "freq" in note:
                    index = index.set_levels(with_freq(index.levels[at], note["freq"]), level=at)  # type: ignore[call-overload] # the stubs know no Index
            return index
        return levels[0].rename(names[0]) if levels else None
    except (TypeError, NotImplementedError):
        return None


def _level(values: PandasArray | pd.Series, note: Note) -> pd.Index:
    if note.get("dtype") == "range":
        return _range(np.asarray(values), note.get("step"))
    objects = values.dtype == np.dtype(object)
    index = pd.Index(values, dtype=object) if objects else pd.Index(values)
    hash(index[0]) if objects and len(index) else None
    return with_freq(index, note.get("freq"))


def _range(values: np.ndarray, step: object) -> pd.Index:
    """A range, if the values still form one."""
    plain: pd.Index = pd.Index(values)
    if not isinstance(step, int) or not step or values.dtype.kind != "i":
        return plain
    start = int(values[0]) if len(values) else 0
    numbers = range(start, start + step * len(values), step)
    if np.array_equal(values, np.arange(len(values)) * step + start):
        return pd.RangeIndex(numbers)
    return plain
