"""The order of a table's columns, and which of them are labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from colonnade.table.rows import ReadableRows

if TYPE_CHECKING:
    from colonnade.edit import change as changes
    from colonnade.model import TableInfo


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
