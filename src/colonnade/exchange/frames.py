"""Arrow tables as pandas and polars data frames. Either library is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from colonnade.columns.extension import ComplexType, complex_values, plain_storage
from colonnade.errors import UsageError

if TYPE_CHECKING:
    import pandas
    import polars


def to_pandas(table: pa.Table, labels: Sequence[str]) -> pandas.DataFrame:
    """A pandas frame with the labels as its index; complex columns stay complex."""
    try:
        import pandas  # noqa: F401 - pyarrow needs it
    except ImportError:
        raise UsageError("to_pandas() needs the package pandas (pip install pandas)") from None
    plain = _plain(table)
    frame: pandas.DataFrame = plain.to_pandas(ignore_metadata=True)
    for name, column in zip(table.column_names, table.columns, strict=True):
        if isinstance(column.type, ComplexType):
            values = np.concatenate([complex_values(chunk) for chunk in column.chunks] or [np.zeros(0, "c16")])
            values[column.is_null().to_numpy()] = np.nan
            frame[name] = values
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.null_count and (pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)):
            frame[name] = column.to_pandas(types_mapper=_nullable)
    return _with_index(frame, [name for name in labels if name in table.column_names])


def _nullable(kind: pa.DataType) -> Any:
    """pandas' own types for integers and booleans with missing rows: a float would round large ones."""
    import pandas

    if pa.types.is_boolean(kind):
        return pandas.BooleanDtype()
    letter = "Int" if pa.types.is_signed_integer(kind) else "UInt"
    return pandas.api.types.pandas_dtype(f"{letter}{kind.bit_width}")


def _with_index(frame: pandas.DataFrame, index: list[str]) -> pandas.DataFrame:
    """The frame with these columns as its index; labels that pandas cannot take as an index stay columns."""
    if not index:
        return frame
    try:
        indexed = frame.set_index(index)
    except (TypeError, NotImplementedError):
        return frame
    indexed.index.names = [None if _is_default(name, index) else name for name in index]
    return indexed


def _is_default(name: str, index: list[str]) -> bool:
    """The names reset_index gives to an index that has none."""
    return name == "index" if len(index) == 1 else name.startswith("level_") and name[6:].isdigit()


def to_polars(table: pa.Table) -> polars.DataFrame:
    """A polars frame; types that polars does not have come as their plain storage."""
    try:
        import polars
    except ImportError:
        raise UsageError("to_polars() needs the package polars (pip install polars)") from None
    frame = polars.from_arrow(_plain(table))
    assert isinstance(frame, polars.DataFrame)
    return frame


def _plain(table: pa.Table) -> pa.Table:
    columns = [plain_storage(column) for column in table.columns]
    return pa.table(columns, names=table.column_names)
