"""Rows of a table chosen by a predicate, by number or by key, and changed: the methods that a Query does not have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from colonnade.table.rows import ReadableRows

if TYPE_CHECKING:
    from colonnade.edit import change as changes
    from colonnade.predicate.tree import Predicate
    from colonnade.selection import Selection


class ChangeableRows(ReadableRows):
    """The methods of a Table that remove rows, or update them by key."""

    def _opened_for_change(self) -> changes.OpenTable:
        raise NotImplementedError

    def delete(self, rows: Predicate | str | Sequence[int] | np.ndarray | slice) -> int:
        """Remove the rows for which a predicate is true, or rows by number. One commit. Returns how many there were.

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
            with self._file._change(resized=self._query()._table.path):
                changes.delete(self._opened_for_change(), removed)
        return removed.count

    def _chosen(self, rows: Predicate | str | Sequence[int] | np.ndarray | slice) -> Selection:
        from colonnade.predicate.tree import Predicate
        from colonnade.selection import Selection, row_numbers

        query = self._query()
        if isinstance(rows, (str, Predicate)):
            return query.where(rows)._selection()
        if isinstance(rows, slice):
            return query[rows]._selection()
        return Selection.from_rows(np.unique(row_numbers(rows, len(query))))
