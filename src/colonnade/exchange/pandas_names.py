"""Convert pandas column names that are not strings to strings and back.

Column names in a file are strings. The frame's note records the original type of the names, level by level; the type
and the string together give the original name. A string that is not the canonical form of a value of that type (a
column that was added or renamed later) is used unchanged.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Sequence
from types import NoneType
from typing import TYPE_CHECKING

import numpy as np

from colonnade.errors import DataError
from colonnade.exchange.pandas_notes import IndexName, Note, read_name

if TYPE_CHECKING:
    import pandas as pd

    from colonnade.values import Json


def write_name(name: object) -> Json:
    """The name of an index or a level as a JSON value: tuples as lists, types that JSON lacks as strings."""
    if isinstance(name, tuple):
        return [write_name(part) for part in name]
    plain = name.item() if isinstance(name, np.generic) else name
    return plain if isinstance(plain, (str, int, float, bool, NoneType)) else str(plain)


def names_of_columns(columns: pd.Index) -> tuple[list[str], Note]:
    """The names as strings, and the frame note that records their original types."""
    levels = [_write_level(columns.get_level_values(level)) for level in range(columns.nlevels)]
    if len(levels) == 1:
        names, note = levels[0]
        return names, {"columns": [note]} if note else {}
    return [str(name) for name in zip(*(names for names, _ in levels), strict=True)], {
        "columns": [note for _, note in levels]
    }


def _write_level(values: pd.Index) -> tuple[list[str], Note]:
    import pandas as pd

    dtype = values.dtype
    note: Note = {} if values.name is None else {"name": write_name(values.name)}
    if isinstance(values, pd.RangeIndex):
        note["dtype"] = "range"
    elif isinstance(dtype, pd.CategoricalDtype):
        categories = [write_name(category) for category in dtype.categories]
        note |= {"dtype": "category", "categories": categories, "ordered": bool(dtype.ordered)}
    elif isinstance(dtype, pd.StringDtype):
        if dtype.na_value is pd.NA:
            note["dtype"] = f"string[{dtype.storage}]"
    elif dtype == np.dtype(object):
        odd = {str(value): value for value in values if type(value) is not str}
        if odd:
            note["values"] = {text: write_name(value) for text, value in odd.items()}
        elif int(pd.__version__.split(".")[0]) >= 3 and len(values):
            note["dtype"] = "object"
    else:
        note["dtype"] = str(dtype)
    names = [str(value) for value in values]
    _check_level(values, names, note)
    freq = getattr(values, "freqstr", None)
    if freq and dtype.kind in "mM":
        note["freq"] = freq
    return names, note


def _check_level(values: pd.Index, names: list[str], note: Note) -> None:
    """Raise for names that could not be restored."""
    if "dtype" not in note and "values" not in note:
        return
    again = _read_level(names, note)
    wrong = [name for name, value, other in zip(values, values, again, strict=True) if not _same(value, other)]
    if wrong:
        raise DataError(
            f"the name of a column must be a string, not {type(wrong[0]).__name__}: make the names strings, "
            "df.columns = df.columns.map(str)",
            column=str(wrong[0]),
        )


def _same(a: object, b: object) -> bool:
    return a is b or (type(a) is type(b) and bool(a == b)) or (_is_nan(a) and _is_nan(b))


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def columns_from(names: Sequence[str], frame: Note) -> pd.Index | None:
    """The original pandas column names; None if they are plain strings and the columns have no name."""
    import pandas as pd

    levels = frame.get("columns")
    if not isinstance(levels, list) or not levels or not all(isinstance(level, dict) for level in levels):
        return None
    if len(levels) == 1:
        return _read_level(names, levels[0])
    parts = [_split(name, len(levels)) for name in names]
    if any(part is None for part in parts):
        return None
    names_by_level = [[part[level] for part in parts if part is not None] for level in range(len(levels))]
    indexes = [_read_level(level_names, level) for level_names, level in zip(names_by_level, levels, strict=True)]
    return pd.MultiIndex.from_arrays(indexes, names=[index.name for index in indexes])


def _split(name: str, n_levels: int) -> tuple[str, ...] | None:
    try:
        parts = ast.literal_eval(name)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    if not isinstance(parts, tuple) or len(parts) != n_levels or not all(isinstance(part, str) for part in parts):
        return None
    return parts if str(parts) == name else None


def _read_level(names: Sequence[str], note: Note) -> pd.Index:
    import pandas as pd

    name, dtype = read_name(note.get("name")), str(note.get("dtype", ""))
    if dtype == "object" or dtype.startswith("string["):
        return pd.Index(list(names), dtype=dtype, name=name)
    values = note.get("values")
    if isinstance(values, dict):
        noted: pd.Index = pd.Index([values.get(text, text) for text in names], dtype=object, name=name)
        return noted
    read = _reader(dtype, note) if dtype else None
    if read is None:
        return pd.Index(list(names), name=name)
    typed = [_canonical(read, text) for text in names]
    if any(value is None for value in typed):
        mixed = [text if value is None else value for text, value in zip(names, typed, strict=True)]
        return pd.Index(mixed, dtype=object, name=name)
    return _typed(typed, dtype, note, name)


def _canonical(read: Callable[[str], object], text: str) -> object:
    """The value whose canonical string this is; None if there is none."""
    try:
        value = read(text)
    except (ValueError, TypeError, KeyError, OverflowError):
        return None
    return value if str(value) == text else None


def _reader(dtype: str, note: Note) -> Callable[[str], object] | None:
    """A function that converts strings to names of one type."""
    import pandas as pd

    if dtype == "range":
        return int
    if dtype == "category":
        categories = note.get("categories")
        return {str(name): name for name in categories}.__getitem__ if isinstance(categories, list) else None
    if dtype.startswith("period["):
        return lambda text: pd.Period(text, freq=dtype[7:-1])
    if dtype.startswith("datetime64["):
        zone = dtype[:-1].partition(", ")[2]
        return lambda text: pd.Timestamp(text).tz_convert(zone) if zone else pd.Timestamp(text)
    if dtype.startswith("timedelta64["):
        return pd.Timedelta
    if dtype == "bool":
        return {"True": True, "False": False}.__getitem__
    try:
        kind = np.dtype(dtype)
    except TypeError:
        return None
    return kind.type if kind.kind in "iuf" else None


def _typed(values: list[object], dtype: str, note: Note, name: IndexName) -> pd.Index:
    import pandas as pd

    if dtype == "category":
        categories = note["categories"]
        assert isinstance(categories, list)  # by `_reader`
        categorical = pd.Categorical(values, categories=categories, ordered=bool(note.get("ordered")))
        return pd.CategoricalIndex(categorical, name=name)
    if dtype == "range":
        numbers = [value for value in values if isinstance(value, int)]  # all of them: `int` has read them
        step = numbers[1] - numbers[0] if len(numbers) > 1 else 1
        if numbers and step and numbers == list(range(numbers[0], numbers[0] + step * len(numbers), step)):
            return pd.RangeIndex(numbers[0], numbers[0] + step * len(numbers), step, name=name)
        return pd.Index(numbers, dtype="int64", name=name) if numbers else pd.RangeIndex(0, name=name)
    index = pd.Index(values, dtype=dtype, name=name)
    return with_freq(index, note.get("freq"))


def with_freq(index: pd.Index, freq: object) -> pd.Index:
    """The index with this frequency, if its values match it."""
    if isinstance(freq, str) and hasattr(index, "freq"):
        try:
            index.freq = freq
        except (ValueError, TypeError):
            return index
    return index
