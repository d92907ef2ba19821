"""Convert pandas frames and Series to Arrow columns, each with a note of the properties that Arrow cannot represent.

An object can only be a pandas object if pandas has been imported, so recognizing one imports nothing.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import timezone
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

import numpy as np
import pyarrow as pa

from colonnade.columns.arrow_types import complex_array
from colonnade.dataclass import dataclass
from colonnade.errors import DataError
from colonnade.exchange.pandas_names import names_of_columns, write_name
from colonnade.exchange.pandas_notes import MASKED_TYPES, Note, label_name, write_note

if TYPE_CHECKING:
    import pandas as pd
    from pandas.api.extensions import ExtensionArray

    from colonnade.values import Json

    PandasColumn: TypeAlias = "pd.Series | pd.Index | ExtensionArray"

ArrowArray: TypeAlias = "pa.Array | pa.ChunkedArray"
_PLAIN_OBJECTS: tuple[Callable[[pa.DataType], bool], ...] = (
    pa.types.is_binary, pa.types.is_date, pa.types.is_time, pa.types.is_decimal, pa.types.is_nested,
)  # fmt: skip
"""Arrow types that pandas represents as objects anyway."""


@dataclass(frozen=True)
class FrameColumns:
    """A frame as Arrow columns. `labels` are the levels of its index; those in `ranges` are stored only as a range."""

    columns: dict[str, ArrowArray]
    labels: list[str]
    ranges: dict[str, range]
    notes: dict[str, str]
    frame_note: str | None
    nullable: frozenset[str]


def _pandas() -> ModuleType | None:
    return sys.modules.get("pandas")


def is_frame(data: object) -> TypeGuard[pd.DataFrame]:
    pandas = _pandas()
    return pandas is not None and isinstance(data, pandas.DataFrame)


def is_series(value: object) -> TypeGuard[PandasColumn]:
    """Whether this is a pandas column: a Series, an Index or an array."""
    pandas = _pandas()
    if pandas is None:
        return False
    return isinstance(value, (pandas.Series, pandas.Index, pandas.api.extensions.ExtensionArray))


def split(frame: pd.DataFrame, unnamed: str) -> FrameColumns:
    """The columns and the index of a frame; `unnamed` is the name for an index without one."""
    names, frame_note = names_of_columns(frame.columns)
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) != len(names) else []
    if twice:
        raise DataError(f"column names must differ, but {', '.join(map(repr, twice))} occurs twice", columns=twice)
    columns: dict[str, ArrowArray] = {}
    notes: dict[str, Note] = {}
    nullable = set()
    for position, name in enumerate(names):
        series = frame.iloc[:, position]
        columns[name], notes[name] = column_of(series, name)
        if _has_mask(series.dtype):
            nullable.add(name)
    labels, ranges = _split_index(frame.index, unnamed, columns, notes)
    if frame.attrs:
        frame_note["attrs"] = _plain_attrs(frame.attrs)
    stored_notes = {name: text for name, note in notes.items() if (text := write_note(note)) is not None}
    frame_note = {key: value for key, value in frame_note.items() if value}
    return FrameColumns(columns, labels, ranges, stored_notes, write_note(frame_note), frozenset(nullable))


def _has_mask(dtype: object) -> bool:
    name = str(dtype)
    return name == "string" or (name in MASKED_TYPES and not name.startswith("Float"))


def _split_index(
    index: pd.Index, unnamed: str, columns: dict[str, ArrowArray], notes: dict[str, Note]
) -> tuple[list[str], dict[str, range]]:
    """Add the levels of an index to the columns, under the names that reset_index would give them."""
    import pandas as pd

    if isinstance(index, pd.RangeIndex) and index.name is None and index.start == 0 and index.step == 1:
        return [], {}
    n_levels = index.nlevels
    labels: list[str] = []
    ranges: dict[str, range] = {}
    for level in range(n_levels):
        values, name = index.get_level_values(level), index.names[level]
        defaults = [unnamed, "level_0"] if n_levels == 1 else [f"level_{level}"]
        field = _free_name(name, defaults, [*columns, *ranges])
        if isinstance(index, pd.RangeIndex):
            ranges[field] = range(index.start, index.stop, index.step)
            note: Note = {"dtype": "range", "step": index.step}
        else:
            columns[field], note = column_of(values, field)
        if type(name) is not str or name != label_name(field, {}, range(n_levels)):
            note["name"] = write_name(name)
        known = index.levels[level] if n_levels > 1 and isinstance(index, pd.MultiIndex) else index
        freq = known.freqstr if isinstance(known, (pd.DatetimeIndex, pd.TimedeltaIndex)) else None
        notes[field] = {**note, "freq": freq} if freq else note
        labels.append(field)
    return labels, ranges


def _free_name(name: object, defaults: list[str], taken: Sequence[str]) -> str:
    wanted = [*([] if name is None else [str(name)]), *defaults, *(f"index_{n}" for n in range(len(taken) + 1))]
    return next(candidate for candidate in wanted if candidate not in taken)


def _plain_attrs(attrs: Mapping[Hashable, object]) -> dict[str, Json]:
    """The attributes of a frame that JSON can represent exactly; a warning lists the others."""
    plain = {key: value for key, value in attrs.items() if isinstance(key, str) and _is_json(value)}
    lost = [repr(key) for key in attrs if key not in plain]
    if lost:
        warnings.warn(
            f"the frame's attrs {', '.join(lost)} cannot be kept: keys must be strings, values numbers, strings, lists "
            "or dicts of these",
            stacklevel=2,
        )
    return plain


def _is_json(value: object) -> TypeGuard[Json]:
    try:
        return repr(json.loads(json.dumps(value))) == repr(value)
    except (TypeError, ValueError, RecursionError):
        return False


def column_of(values: PandasColumn, name: str) -> tuple[ArrowArray, Note]:
    """The values of a pandas Series, Index or array as Arrow, and a note of the properties that Arrow lacks."""
    import pandas as pd

    dtype = values.dtype
    array = values.array if isinstance(values, (pd.Series, pd.Index)) else values
    if isinstance(dtype, np.dtype) and not dtype.isnative:  # which Arrow refuses
        dtype = dtype.newbyteorder("=")
        array = pd.arrays.NumpyExtensionArray(array.to_numpy().astype(dtype))
    if isinstance(dtype, np.dtype):
        return _from_numpy(array, dtype, name)
    if isinstance(array, pd.Categorical):
        return _from_categorical(array, name)
    if isinstance(array, pd.arrays.PeriodArray):
        return pa.array(np.asarray(array, dtype="i8"), mask=np.asarray(array.isna())), {"dtype": str(dtype)}
    if isinstance(array, pd.arrays.IntervalArray):
        return _from_intervals(array, name)
    if isinstance(array, pd.arrays.SparseArray):
        return _from_sparse(array, name)
    if isinstance(dtype, pd.ArrowDtype) and isinstance(array, pd.arrays.ArrowExtensionArray):
        arrow = array.__arrow_array__()
        return arrow, {"dtype": "pyarrow", "type": str(arrow.type)}
    if isinstance(dtype, pd.StringDtype):
        return _arrow(array, name, pa.string()), {"dtype": _string_type(dtype)}
    if isinstance(dtype, pd.DatetimeTZDtype):
        return _arrow(array, name), {"dtype": "tz", "tz": str(dtype.tz)} if isinstance(dtype.tz, timezone) else {}
    if isinstance(dtype, (pd.Float32Dtype, pd.Float64Dtype)):  # NaN is a value in these types, and stays one
        numbers = array.to_numpy(np.dtype(dtype.type), na_value=0)
        return pa.array(numbers, mask=np.asarray(array.isna())), {"dtype": str(dtype)}
    return _arrow(array, name), {"dtype": str(dtype)}


def _string_type(dtype: pd.StringDtype) -> str:
    import pandas as pd

    family = "string" if getattr(dtype, "na_value", pd.NA) is pd.NA else "str"
    return f"{family}[{'python' if dtype.storage == 'python' else 'pyarrow'}]"


def _arrow(array: ExtensionArray, name: str, kind: pa.DataType | None = None) -> ArrowArray:
    try:
        return pa.array(array, kind, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError, NotImplementedError) as error:
        raise DataError(f"pandas' type {array.dtype} has no Arrow type that holds it: {error}", column=name) from error


def _from_numpy(array: ExtensionArray, dtype: np.dtype, name: str) -> tuple[ArrowArray, Note]:
    if dtype.kind == "O":
        return _from_objects(array, name)
    numbers = array.to_numpy()
    if dtype.kind == "c" and dtype.itemsize <= 16:
        return complex_array(np.ascontiguousarray(numbers)), {}
    if dtype.kind in "biu" or (dtype.kind == "f" and not np.isnan(numbers).any()):
        return pa.array(np.ascontiguousarray(numbers)), {}  # ten times faster
    return _arrow(array, name), {}


def _from_objects(array: ExtensionArray, name: str) -> tuple[ArrowArray, Note]:
    """Convert an array of Python objects of one kind."""
    import pandas as pd

    objects = np.asarray(array, dtype=object)
    gone = np.asarray(pd.isna(objects)) if objects.ndim == 1 else np.zeros(len(objects), bool)
    note: Note = {"dtype": "object"}
    kinds = {_na_name(value) for value in objects[gone][:1000]}
    if len(kinds) == 1 and kinds != {"None"}:
        note["na"] = kinds.pop()
    if gone.all():
        return pa.nulls(len(objects)), note
    first = objects[np.argmin(gone)]
    if isinstance(first, (complex, np.complexfloating)):
        return _complex_objects(objects, gone, name), note
    try:
        arrow = pa.array(objects, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise DataError(f"these values have no common type: {error}", column=name) from error
    default = any(check(arrow.type) for check in _PLAIN_OBJECTS)
    default |= pa.types.is_string(arrow.type) and int(pd.__version__.split(".")[0]) < 3
    if type(first) in (list, tuple, set):
        note["items"] = type(first).__name__
    return arrow, {} if default and len(note) == 1 else note


def _na_name(value: object) -> str:
    import pandas as pd

    if value is None:
        return "None"
    return "NA" if value is pd.NA else "NaT" if value is pd.NaT else "NaN"


def _complex_objects(objects: np.ndarray, gone: np.ndarray, name: str) -> pa.Array:
    odd = [value for value in objects[~gone] if not isinstance(value, (complex, np.complexfloating))]
    if odd:
        raise DataError(f"these values have no common type: complex and {odd[0]!r}", column=name)
    return complex_array(np.where(gone, 0j, objects).astype("c16"), gone)


def _from_categorical(array: pd.Categorical, name: str) -> tuple[ArrowArray, Note]:
    import pandas as pd

    if isinstance(array.categories, pd.IntervalIndex):
        categories, note = _interval_categories(array.categories)
    else:
        column, note = column_of(pd.Index(array.categories), name)
        categories = _in_one_piece(column)
    if pa.types.is_null(categories.type):
        categories = categories.cast(pa.string())
    codes = np.asarray(array.codes)
    arrow = pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), categories, ordered=bool(array.ordered))
    return arrow, {"dtype": "category", "categories": note} if note else {}


def _in_one_piece(values: ArrowArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _interval_categories(categories: pd.IntervalIndex) -> tuple[pa.Array, Note]:
    """Intervals as strings such as "(0, 4]", which a file can store as categories; the note holds their ends."""
    ends = {side: [write_name(end) for end in getattr(categories, side)] for side in ("left", "right")}
    subtype = str(categories.left.dtype)
    note: Note = {"dtype": "interval", "closed": categories.closed, "subtype": subtype, **ends}
    return pa.array([str(category) for category in categories], pa.string()), note


def _from_intervals(array: pd.arrays.IntervalArray, name: str) -> tuple[ArrowArray, Note]:
    ends = [_in_one_piece(column_of(end, name)[0]) for end in (array.left, array.right)]
    arrow = pa.StructArray.from_arrays(ends, names=["left", "right"], mask=pa.array(np.asarray(array.isna())))
    return arrow, {"dtype": "interval", "closed": array.closed}


def _from_sparse(array: pd.arrays.SparseArray, name: str) -> tuple[ArrowArray, Note]:
    import pandas as pd

    arrow, _ = column_of(pd.Series(array.to_dense()), name)
    fill = array.fill_value
    note: Note = {"dtype": "Sparse"}
    if not pd.isna(fill):
        note["fill"] = fill.item() if isinstance(fill, np.generic) else fill
    return arrow, note
