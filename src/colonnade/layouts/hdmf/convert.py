"""Converting DynamicTables into other layouts.

What the other layout has no form for is left out, column by column: files of NWB hold what no table can, and the file
that they are converted from stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping

from colonnade import writing
from colonnade.columns.mapping import arrow_type, plain_type, stored_type
from colonnade.errors import UsageError
from colonnade.layouts.conversion import Conversion, SourceTable
from colonnade.layouts.hdmf import names
from colonnade.layouts.hdmf.describe import row_target
from colonnade.model import ColumnInfo
from colonnade.nodes import EditableGroup, EditableNode


class HdmfConversion(Conversion):
    """What HDMF calls `unit` are the units. A reference to another table becomes the path of that table."""

    def strings(self, table: SourceTable, name: str) -> dict[str, str]:
        column = table.info.by_name[name]
        strings = {"units": column.units, "description": column.description}
        return {key: text for key, text in strings.items() if text}

    def left_out(self, table: SourceTable) -> dict[str, str]:
        reasons = {column.name: _why_left_out(column) for column in table.info.members}
        return {name: why for name, why in reasons.items() if why is not None}

    def write_marks(
        self,
        table: SourceTable,
        names_of_columns: Mapping[str, str],
        group: EditableGroup,
        nodes: Mapping[str, EditableNode],
    ) -> None:
        super().write_marks(table, names_of_columns, group, nodes)
        if table.info.description is not None:  # which was copied in the form that HDMF gives strings
            writing.write_text(group, names.DESCRIPTION, table.info.description)
        for column in table.info.members:
            path = row_target(table.group, column)
            if path is not None:
                writing.write_text(nodes[names_of_columns[column.name]], names.TABLE, path)


def _why_left_out(column: ColumnInfo) -> str | None:
    """Why a column cannot be converted; None if it can."""
    if column.problem is not None:
        return column.problem
    if column.categories is not None:  # of strings or numbers, which every layout has
        return None
    try:
        stored_type(plain_type(arrow_type(column)), f"column {column.name!r}")
    except UsageError as error:
        return str(error)
    return None


PART = HdmfConversion(names.GROUP_ATTRIBUTES, names.COLUMN_ATTRIBUTES)
