"""Rows of the elements of a list column, as queries see a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from colonnade.columns.arrow_types import is_list_type
from colonnade.dataclass import dataclass, replace
from colonnade.errors import ColumnNotFound, UsageError
from colonnade.lists.element_rows import RowsOfElements, element_reader, repeated_reader
from colonnade.model import ColumnInfo, LibraryRead, TableInfo
from colonnade.predicate.expressions import ColumnTerm, called
from colonnade.table.rows import Query

if TYPE_CHECKING:
    from colonnade.columns.read import ColumnReader
    from colonnade.layouts.index_home import OpenIndex
    from colonnade.nodes.attributes import Attributes
    from colonnade.selection import RowNumbers, Rows
    from colonnade.table.column import Column


@dataclass
class _State:
    """What holds for one state of the file."""

    generation: int
    rows: RowsOfElements
    info: TableInfo
    readers: dict[tuple[str, bool], ColumnReader]


class ExplodedRows:
    """The rows of a query, each repeated for every element of its list in one column."""

    def __init__(self, before: Query, column: str, keep_empty: bool) -> None:
        self._before: Query | None = before
        self._query, self._name, self._keeps_empty = before, column, keep_empty
        self._file = before._file
        self._kept: _State | None = None
        kind = before._reader(column).kind if column in before._names else None
        if kind is None:
            raise ColumnNotFound(column, f"a query of table {before._table.path}", list(before._names))
        if not is_list_type(kind):
            raise UsageError(f"cannot explode column {column!r}: it holds {kind}, not lists", column=column)

    def _state(self) -> _State:
        """The rows in the current state of the file."""
        generation = self._file._handle.generation
        if self._kept is None or self._kept.generation != generation:
            before = self._query
            lengths = before._subject_reader(called("length", before._computed.get(self._name, ColumnTerm(self._name))))
            rows = RowsOfElements(before._found_rows(), lengths, self._keeps_empty)
            self._kept = _State(generation, rows, before._table.info, {})
            columns = tuple(self._reader(name).column for name in before._names)
            labels = [label for label in before._table.info.labels if label.name in before._names]
            labels = [label for label in labels if label.name != self._name]
            self._kept.info = replace(before._table.info, n_rows=rows.n_rows, columns=columns, labels=labels)
        return self._kept

    @property
    def info(self) -> TableInfo:
        """The rows of elements as if they were a table."""
        info: TableInfo = self._file._consistent(lambda: self._state().info)
        return info

    @property
    def path(self) -> str:
        """The path of the table."""
        return self._query._table.path

    @property
    def layout(self) -> str:
        """The name of the table's layout."""
        return self._query._table.layout

    @property
    def attrs(self) -> Attributes:
        """The attributes of the table."""
        return self._query._table.attrs

    def __getitem__(self, name: str) -> Column:
        return self._query._table[name]

    def _is_stored(self, name: str) -> bool:
        before = self._query
        return name != self._name and name not in before._computed and before._table._is_stored(name)

    def _reader(self, name: str, dictionaries: bool = False) -> ColumnReader:
        state = self._state()
        reader = state.readers.get((name, dictionaries))
        if reader is None:
            if name not in self._query._names:
                raise ColumnNotFound(name, f"table {self.path}", list(self._query._names))
            inner = self._query._reader(name, dictionaries)
            is_exploded = name == self._name
            reader = element_reader(state.rows, name, inner) if is_exploded else repeated_reader(state.rows, inner)
            state.readers[name, dictionaries] = reader
        return reader

    def _column(self, name: str) -> ColumnInfo:
        return self._file._consistent(lambda: self._reader(name).column)

    def _field(self, name: str, dictionaries: bool = False) -> pa.Field:
        field = self._query._field(name, dictionaries)
        return field.with_type(self._reader(name).kind) if name == self._name else field

    def _search_indexes(self) -> list[OpenIndex]:
        return []

    def _left_to_library(self) -> tuple[LibraryRead, ...]:
        return self._query._table._left_to_library()

    def _numbers_of(self, rows: Rows) -> RowNumbers:
        return self._query._table._numbers_of(self._state().rows.row_numbers(rows))

    def __reduce__(self) -> tuple[object, ...]:
        return ExplodedRows, (self._query, self._name, self._keeps_empty)


def exploded(query: Query, column: str, keep_empty: bool) -> Query:
    """The rows of a query, repeated for every element."""
    return Query(ExplodedRows(query, column, keep_empty), query._names)
