"""Arrow tables as pandas and polars data frames. Either library is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

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
        import pandas
    except ImportError:
        raise UsageError("to_pandas() needs the package pandas (pip install pandas)") from None
    plain = _plain(table)
    frame: pandas.DataFrame = plain.to_pandas(ignore_metadata=True)
    for name, column in zip(table.column_names, table.columns, strict=True):
        if isinstance(column.type, ComplexType):
            values = np.concatenate([complex_values(chunk) for chunk in column.chunks] or [np.zeros(0, "c16")])
            values[column.is_null().to_numpy()] = np.nan
            frame[name] = values
    index = [name for name in labels if name in table.column_names]
    if index:
        frame = frame.set_index(index)
        frame.index.names = [None if _is_default(name, index) else name for name in index]
    assert isinstance(frame, pandas.DataFrame)
    return frame


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
