"""Converting what pandas stores into other layouts. Columns that are pickled are left out, and named in the notes."""

from __future__ import annotations

from colonnade.layouts.conversion import Conversion, SourceTable
from colonnade.layouts.pandas import names
from colonnade.layouts.pandas.axes import PICKLED_OBJECTS
from colonnade.layouts.pandas.tables import is_called_by_place

MOST_LISTED = 8  # columns that a note names


class PandasConversion(Conversion):
    """The arrays of a table are shared by its columns, so what is written on them is of no single column."""

    carries_notes = True
    columns_are_objects = False

    def column_node(self, _table: SourceTable, _name: str) -> None:
        """No object of the file has the attributes of one column."""

    def unreadable_columns(self, table: SourceTable) -> dict[str, str]:
        return {column.name: column.problem for column in table.info.members if column.problem == PICKLED_OBJECTS}

    def lost(self, table: SourceTable) -> list[str]:
        """What pandas knows from pickles only: names of columns, and what values mean."""
        members = table.info.members
        unnamed = [column.name for column in members if is_called_by_place(column)]
        notes = [
            f"{table.path}: column {column.name!r}: {column.description}"
            for column in members
            if column.description is not None and column.problem is None
        ]
        if unnamed:
            listed = ", ".join(map(repr, unnamed[:MOST_LISTED])) + (", ..." if len(unnamed) > MOST_LISTED else "")
            notes.append(
                f"{table.path}: the names of {len(unnamed):,} columns are pickles, which are not loaded: they are "
                f"called by their places, {listed}"
            )
        return notes


PART = PandasConversion(names.GROUP_ATTRIBUTES, names.COLUMN_ATTRIBUTES)
