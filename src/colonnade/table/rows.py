"""Rows and columns of a table that are not read yet, and all the ways to hand them out."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pyarrow as pa

from colonnade import changes
from colonnade.columns.mapping import arrow_type
from colonnade.columns.read import ColumnReader
from colonnade.columns.values import python_rows
from colonnade.errors import UsageError
from colonnade.exchange.frames import to_pandas, to_polars
from colonnade.exchange.numpy_out import to_numpy
from colonnade.model import ColumnInfo, shown_name
from colonnade.query.scan import Rows, read_batches, read_column, read_table
from colonnade.show import table_html, table_text

if TYPE_CHECKING:
    import pandas
    import polars

    from colonnade.table.table import Table


BATCH_ROWS = 65_536


class Readable:
    """What a Table and a Query have in common: rows and columns that can be handed out."""

    def _query(self) -> Query:
        raise NotImplementedError

    def select(self, *columns: str | Sequence[str]) -> Query:
        """These columns, in this order."""
        query = self._query()
        names: list[Any] = [name for item in columns for name in (item if isinstance(item, (list, tuple)) else [item])]
        for name in names:
            if not isinstance(name, str):
                raise UsageError(f"columns are chosen by name, not by {name!r}; rows with [10:20] or .take([...])")
            query._table._column(name)
        return Query(query._table, tuple(names), query._rows)

    def head(self, n: int = 5) -> Query:
        """The first rows."""
        try:
            count = operator.index(n)
        except TypeError:
            raise UsageError(f"head takes a number of rows, not {n!r}") from None
        return self._query()[: max(count, 0)]

    def take(self, rows: Sequence[int] | np.ndarray[Any, Any]) -> Query:
        """These rows, in this order, repeats and negative numbers (from the end) allowed."""
        query = self._query()
        numbers = changes.row_numbers(rows, len(query._rows))
        if isinstance(query._rows, range):
            chosen = query._rows.start + numbers * query._rows.step
        else:
            chosen = query._rows[numbers]
        return Query(query._table, query._names, chosen)

    def to_arrow(self) -> pa.Table:
        """All rows as a pyarrow.Table."""

        def read() -> pa.Table:
            query = self._query()
            return read_table(query._readers(), query._rows, query.schema)

        found: pa.Table = self._query()._table._file._consistent(read)
        return found

    def to_pandas(self) -> pandas.DataFrame:
        """All rows as a pandas DataFrame; labels become its index."""
        query = self._query()
        return to_pandas(
            query.to_arrow(), [label.name for label in query._table.info.labels if label.name in query._names]
        )

    def to_polars(self) -> polars.DataFrame:
        """All rows as a polars DataFrame."""
        return to_polars(self._query().to_arrow())

    def to_numpy(self) -> dict[str, np.ndarray[Any, Any]]:
        """All rows as one NumPy array a column; a masked array where rows are missing."""

        def read() -> dict[str, np.ndarray[Any, Any]]:
            query = self._query()
            return {reader.column.name: to_numpy(read_column(reader, query._rows)) for reader in query._readers()}

        return self._query()._table._file._consistent(read)

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """The rows as Arrow record batches of at most so many rows, read as they are asked for."""
        if rows < 1:
            raise UsageError(f"a batch must have at least one row, not {rows}")
        query = self._query()
        return query._table._file._unchanged(read_batches(query._readers(), query._rows, query.schema, rows))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        query = self._query()
        reader = pa.RecordBatchReader.from_batches(query.schema, query.batches())
        return reader.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._query().schema.__arrow_c_schema__()

    def _repr_html_(self) -> str:
        query = self._query()
        members = tuple(query._table._column(name) for name in query._names)
        shown = query.select(list(query._names[:30])).head(5)
        return table_html(query._table.info, members, len(query._rows), shown.to_arrow())


class Query(Readable):
    """Some rows of some columns of a table, not read yet."""

    def __init__(self, table: Table, names: tuple[str, ...], rows: Rows) -> None:
        self._table = table
        self._names = names
        self._rows = rows

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in their order."""
        return list(self._names)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of what will be read; units and descriptions are in the fields' metadata."""
        return pa.schema([_field(self._table._column(name)) for name in self._names])

    def __len__(self) -> int:
        return len(self._rows)

    def count(self) -> int:
        """The number of rows."""
        return len(self._rows)

    def row_numbers(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The numbers of the rows in the table, in the order of the query."""
        return np.array(self._rows, dtype=np.int64)

    @overload
    def __getitem__(self, item: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, item: list[str] | tuple[str, ...] | slice) -> Query: ...
    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, slice):
            return Query(self._table, self._names, self._rows[item])
        if isinstance(item, (list, tuple)):
            return self.select(*item)
        try:
            number = operator.index(item)
        except TypeError:
            raise UsageError(
                f"take rows with [10:20] or .take([...]), columns with [['a', 'b']]; not with {item!r}"
            ) from None
        return python_rows(self.take([number]).to_arrow())[0]

    def _query(self) -> Query:
        return self

    def _readers(self) -> list[ColumnReader]:
        return [self._table._reader(name) for name in self._names]

    def __repr__(self) -> str:
        members = tuple(self._table._column(name) for name in self._names)
        return table_text(self._table.info, members, len(self._rows), "Query on")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_query, (self._table, self._names, self._rows)


def _rebuild_query(table: Table, names: tuple[str, ...], rows: Rows) -> Query:
    return Query(table, names, rows)


def _field(column: ColumnInfo) -> pa.Field:
    said = {"units": column.units, "units_vocabulary": column.units_vocabulary, "description": column.description}
    metadata = {key: value for key, value in said.items() if value is not None}
    return pa.field(shown_name(column.name), arrow_type(column), metadata=metadata or None)
