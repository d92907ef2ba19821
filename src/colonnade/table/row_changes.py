"""Rows of a table removed or updated, its columns and labels put in another order: what a Query does not have."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from colonnade import limits
from colonnade.dataclass import replace
from colonnade.errors import DataError, UsageError
from colonnade.table.rows import Query, ReadableRows

if TYPE_CHECKING:
    from colonnade.arrays import Int64s
    from colonnade.edit import change as changes
    from colonnade.edit.upsert import KeyMatches
    from colonnade.model import TableInfo
    from colonnade.predicate.tree import Predicate
    from colonnade.selection import Selection
    from colonnade.table.table import Table


class ChangeableRows(ReadableRows):
    """The methods of a Table that remove rows, or update them by key."""

    def _opened_for_change(self) -> changes.OpenTable:
        raise NotImplementedError

    def _as_table(self) -> Table:
        raise NotImplementedError

    def delete(self, rows: Predicate | str | Query | Sequence[int] | np.ndarray | slice) -> int:
        """Remove the rows for which a predicate is true, those of a query, or rows by number. One commit.

        Returns how many there were.

        Later rows move up, with their labels, and search indexes follow. Chunks before the first removed row are
        neither read nor written. Removing nothing is not a commit.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events", "r+")
        >>> t.delete("energy > 6")
        1
        >>> t.delete([0])
        1
        >>> t.to_arrow().to_pydict()
        {'ts': [3], 'energy': [6.0]}
        """
        from colonnade.edit import change as changes

        self._file._check_writable()
        removed = self._chosen(rows)
        if removed:
            with self._file._change(resized=self._as_table().path):
                changes.delete(self._opened_for_change(), removed)
        return removed.count

    def upsert(self, rows: object, on: str | Sequence[str]) -> tuple[int, int]:
        """Update the rows whose keys the table has, and append the others. One commit.

        rows: anything `colonnade.write` takes; they are held in memory. on: the column, or the columns, that are the
        key. Returns how many rows were updated, and how many were added.

        Columns that are not given keep their values; new rows need all columns. An index of a key column is used to
        find few keys. A missing key, or one that is given twice or that two rows of the table have, is a DataError.

        >>> cn.write("run.h5", {"id": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events", "r+")
        >>> t.upsert({"id": [4, 2], "energy": [0.1, None]}, on="id")
        (1, 1)
        >>> t.to_arrow().to_pydict()
        {'id': [1, 2, 3, 4], 'energy': [0.5, None, 6.0, 0.1]}
        """
        from colonnade.edit.change import check_columns
        from colonnade.exchange.sources import source_from

        self._file._check_writable()
        table = self._as_table()
        keys = [on] if isinstance(on, str) else list(on)
        for name in keys:
            table._column(name)
        if not keys or len(set(keys)) != len(keys):
            raise UsageError("cannot upsert: `on` names the key, a column or several different ones", option="on")
        source = source_from(rows, table._layout.unnamed_labels)
        check_columns(table.info, source, partly=True)
        given = pa.Table.from_batches(source.batches, source.schema)  # without row numbers that pandas made
        lacking = [name for name in keys if name not in given.column_names]
        if lacking:
            raise DataError(f"the rows lack {', '.join(map(repr, lacking))}, by which rows are found: add it")
        matches = self._matches(given, keys)
        known, new = matches.known, matches.new
        if not given.num_rows:
            return 0, 0
        with nullcontext() if self._file._in_transaction else self._file.transaction():
            for name in given.column_names if len(known) else ():
                if name not in keys:
                    table.update(name, matches.rows[known], given.column(name).take(pa.array(known)))
            if len(new):
                added = given.take(pa.array(new))
                table.append(
                    replace(source, schema=added.schema, batches=iter(added.to_batches()), labels=[], ranges={})
                )
        return len(known), len(new)

    def _matches(self, given: pa.Table, keys: Sequence[str]) -> KeyMatches:
        from colonnade.edit.upsert import given_keys, match_rows

        table = self._as_table()

        def match() -> KeyMatches:
            readers = [table._reader(name) for name in keys]
            wanted = [given_keys(given.column(name), reader) for name, reader in zip(keys, readers, strict=True)]
            return match_rows(wanted, readers, table.info.n_rows, self._candidates(keys, wanted))

        matches: KeyMatches = self._file._consistent(match)
        return matches

    def _candidates(self, keys: Sequence[str], wanted: Sequence[pa.Array]) -> Int64s | None:
        """The rows that may have these keys, if an index of a key column knows them; few keys are looked up."""
        from colonnade.columns.arrow_types import python_values
        from colonnade.predicate.columns import col

        if not 0 < len(wanted[0]) <= limits.now.sorted_lookups:
            return None
        indexed = {index.column for index in self._as_table().indexes if index.fresh and index.trusted}
        for name, values in zip(keys, wanted, strict=True):
            if name in indexed:
                with suppress(UsageError):  # not every type has literals
                    return self.where(col(name).is_in(python_values(values))).row_numbers()
        return None

    def _chosen(self, rows: Predicate | str | Query | Sequence[int] | np.ndarray | slice) -> Selection:
        from colonnade.predicate.tree import Predicate
        from colonnade.selection import Selection, row_numbers

        query = self._query()
        if isinstance(rows, Query):
            if rows._table._file is not self._file or rows._table.path != query._table.path:
                raise UsageError("cannot delete the rows of a query of another table, or of another open file")
            if rows._table._before is not None:
                raise UsageError("cannot delete the rows of an exploded query: they are elements. Give row numbers")
            return rows._selection()
        if isinstance(rows, (str, Predicate)):
            return query.where(rows)._selection()
        if isinstance(rows, slice):
            return query[rows]._selection()
        return Selection.from_rows(np.unique(row_numbers(rows, len(query))))


class ArrangedColumns(ReadableRows):
    """The columns and labels of a table, which can be put into another order."""

    @property
    def info(self) -> TableInfo:
        """The table as plain data, as of the last commit."""
        raise NotImplementedError

    def _opened_for_change(self) -> changes.OpenTable:
        raise NotImplementedError

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in their order; setting it to another order of the same names is one commit.

        >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
        >>> t = cn.open_table("run.h5", "events", "r+")
        >>> t.columns = ["energy", "ts"]
        >>> t[0]
        {'energy': 0.5, 'ts': 1}
        """
        return list(self.info.column_names)

    @columns.setter
    def columns(self, names: Sequence[str]) -> None:
        from colonnade.edit import arrange

        with self._file._change():
            arrange.reorder_columns(self._opened_for_change(), names)

    @property
    def labels(self) -> list[str]:
        """The names of the row labels, the primary label first."""
        return self.info.label_names

    def set_labels(self, names: Sequence[str]) -> None:
        """Make these columns and labels the row labels of the table, the primary label first. One commit.

        A column that becomes a label is no longer one of the columns; a label that is not named becomes the last
        column. No names: the table has no labels. An AnnData data frame has exactly one label; the row names of an
        ArtifactDB data frame cannot be exchanged.

        >>> cn.write("run.h5", {"id": ["a", "b"], "energy": [0.5, 7.0]}, "events")
        >>> t = cn.open_table("run.h5", "events", "r+")
        >>> t.set_labels(["id"])
        >>> t.labels, t.columns
        (['id'], ['energy'])
        >>> t.set_labels([])
        >>> t.labels, t.columns
        ([], ['energy', 'id'])
        """
        from colonnade.edit import arrange

        with self._file._change():
            arrange.set_labels(self._opened_for_change(), names)
