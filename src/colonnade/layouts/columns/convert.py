"""Converts groups of columns into other layouts."""

from __future__ import annotations

from colonnade.layouts.columns import names
from colonnade.layouts.conversion import Conversion, SourceTable


class ColumnsConversion(Conversion):
    """Units and descriptions are those of the columns as they are read, whatever their attributes are called."""

    def strings(self, table: SourceTable, name: str) -> dict[str, str]:
        column = table.info.by_name[name]
        strings = {"units": column.units, "description": column.description}
        return {key: text for key, text in strings.items() if text}


PART = ColumnsConversion(names.GROUP_ATTRIBUTES, names.COLUMN_ATTRIBUTES)
