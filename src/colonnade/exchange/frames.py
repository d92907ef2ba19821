"""Convert Arrow tables to pandas and polars data frames. Each library is imported only when needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow as pa

from colonnade.columns.arrow_types import plain_storage
from colonnade.errors import UsageError
from colonnade.exchange.pandas_names import columns_from
from colonnade.exchange.pandas_notes import FRAME_KEY, Note, note_of, read_note

if TYPE_CHECKING:
    import pandas
    import polars


def _check_pandas() -> None:
    try:
        import pandas  # noqa: F401 - only whether it is installed
    except ImportError:
        raise UsageError("to_pandas() needs the package pandas (pip install pandas)") from None


def to_pandas(table: pa.Table, labels: Sequence[str]) -> pandas.DataFrame:
    """A pandas frame with the labels as its index, and the types recorded in the notes of its columns."""
    _check_pandas()
    from colonnade.exchange.pandas_out import index_from, own_values

    table = _with_distinct_categories(table)
    notes = {field.name: note_of(field) for field in table.schema}
    converted = {name: own_values(table.column(name), note) for name, note in notes.items()}
    special = {name: values for name, values in converted.items() if values is not None}
    rest = [name for name in table.column_names if name not in special]
    plain: pandas.DataFrame = _plain(table.select(rest)).to_pandas(ignore_metadata=True)
    index = index_from({name: special[name] if name in special else plain[name] for name in labels}, notes)
    chosen = [name for name in table.column_names if index is None or name not in labels]
    frame = _joined(plain, special, chosen, table.num_rows)
    if index is not None:
        frame.index = index
    return _with_frame_note(frame, read_note((table.schema.metadata or {}).get(FRAME_KEY)))


def _with_distinct_categories(table: pa.Table) -> pa.Table:
    """Remove duplicate values from dictionaries, which pandas refuses; the values of the rows do not change."""
    for position, field in enumerate(table.schema):
        chunks = table.column(position).chunks if pa.types.is_dictionary(field.type) else []
        if any(len(chunk.dictionary.unique()) < len(chunk.dictionary) for chunk in chunks):
            column = pa.chunked_array([_distinct(chunk) for chunk in chunks], field.type)
            table = table.set_column(position, field, column)
    return table


def _distinct(chunk: pa.Array) -> pa.DictionaryArray:
    values = chunk.dictionary.unique()
    codes = chunk.dictionary.dictionary_encode().indices.take(chunk.indices).cast(chunk.type.index_type)
    return pa.DictionaryArray.from_arrays(codes, values, ordered=chunk.type.ordered)


def _joined(
    plain: pandas.DataFrame, special: Mapping[str, object], names: Sequence[str], n_rows: int
) -> pandas.DataFrame:
    """A frame of these columns: `special` where given, otherwise as converted by pyarrow."""
    import pandas as pd

    if list(plain.columns) == list(names) and names:
        return plain
    columns = {name: special[name] if name in special else plain[name] for name in names}
    return pd.DataFrame(columns, columns=list(names) or None, index=pd.RangeIndex(n_rows), copy=False)


def frame_of_cells(columns: Mapping[str, Sequence[object]], names: Sequence[str]) -> pandas.DataFrame:
    """A frame of Python values with these row names."""
    _check_pandas()
    import pandas as pd

    return pd.DataFrame(columns, index=list(names))


def _with_frame_note(frame: pandas.DataFrame, note: Note) -> pandas.DataFrame:
    # The note comes from a file and may be invalid.
    with suppress(ValueError, TypeError, LookupError, AttributeError, NotImplementedError):
        columns = columns_from(list(frame.columns), note)
        if columns is not None:
            frame.columns = columns
    attrs = note.get("attrs")
    if isinstance(attrs, dict):
        frame.attrs.update(attrs)
    return frame


def to_polars(table: pa.Table) -> polars.DataFrame:
    """A polars frame; types that polars does not have are converted to their plain storage."""
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
