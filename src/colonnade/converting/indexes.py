"""Rebuilds the search indexes of a converted table in the target.

An index depends on its column's chunks and stored values, which differ in another layout; so none is copied. An index
that cannot be rebuilt is reported in a note: it holds no data.
"""

from __future__ import annotations

from collections.abc import Mapping

from colonnade.converting.draft import source_table
from colonnade.dataclass import dataclass
from colonnade.edit.index import Indexes
from colonnade.errors import UsageError
from colonnade.indexes import KINDS
from colonnade.indexes.base import Options
from colonnade.layouts.index_home import OpenIndex
from colonnade.table import File, Table


@dataclass
class IndexesOnTheWay:
    """The search indexes of one table of the source, and how many of them were built in the target."""

    sources: list[OpenIndex]
    built: int = 0

    def build(self, file: File, path: str, names: Mapping[str, str]) -> list[str]:
        """Build the indexes for the table that was just written; returns the notes."""
        if not self.sources:
            return []
        with file._change():
            group, layout, info = file._describe(path)
            indexes = Indexes(group, layout, info, file._receipts)
            return [note for index in self.sources if (note := self._build(indexes, index, names)) is not None]

    def _build(self, indexes: Indexes, index: OpenIndex, names: Mapping[str, str]) -> str | None:
        column, word = names.get(index.info.column), index.info.kind
        if column is None or word not in KINDS:
            why = index.info.problem or "it leads to no column"
        else:
            options = index.index.options() if index.index is not None else Options()
            try:
                indexes.build({column: [word]}, options)
            except UsageError as error:
                why = str(error)
            else:
                self.built += 1
                return None
        return f"{indexes.info.path}: the search index {index.info.name!r} was left out: {why}"


def indexes_of(table: Table) -> IndexesOnTheWay:
    """The search indexes of a table; for the AnnData view of a table, those of that table."""
    path = table._layout.conversion.indexed_path(source_table(table))
    if path != table.path and path in table._file:
        table = table._file[path]
    return IndexesOnTheWay(list(table._indexes().open()))
