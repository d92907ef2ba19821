"""Converting what pandas stores into other layouts. Columns that are pickled are left out, and named in the notes."""

from __future__ import annotations

from colonnade.layouts.conversion import Conversion, SourceTable
from colonnade.layouts.pandas import names
from colonnade.layouts.pandas.axes import PICKLED_OBJECTS


class PandasConversion(Conversion):
    """The arrays of a table are shared by its columns, so what is written on them is of no single column."""

    carries_notes = True

    def column_node(self, _table: SourceTable, _name: str) -> None:
        """No object of the file has the attributes of one column."""

    def unreadable_columns(self, table: SourceTable) -> dict[str, str]:
        return {column.name: column.problem for column in table.info.members if column.problem == PICKLED_OBJECTS}


PART = PandasConversion(names.GROUP_ATTRIBUTES, names.COLUMN_ATTRIBUTES)
