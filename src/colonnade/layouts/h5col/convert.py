"""Converting tables into H5Col: the strings about a column are options of it, and its own names are refused."""

from __future__ import annotations

from collections.abc import Mapping

from colonnade.errors import UsageError
from colonnade.layouts.conversion import STRING_ATTRIBUTES, Conversion, SourceTable
from colonnade.layouts.h5col import names
from colonnade.model import ColumnInfo, ColumnOptions
from colonnade.nodes import Node


class H5colConversion(Conversion):
    """Names that H5Col reserves are refused, all of them at once."""

    allow_reserved = True

    def check(self, table: SourceTable) -> None:
        reserved = [column.name for column in table.info.members if column.name in names.RESERVED]
        if reserved:
            shown = ", ".join(map(repr, reserved))
            raise UsageError(
                f"cannot convert {table.path} to H5Col, which reserves the names {shown}. Rename these columns",
                path=table.path,
                rule="JN1",
            )

    def strings(self, table: SourceTable, name: str) -> dict[str, str]:
        column = table.info.by_name[name]
        return {key: text for key in STRING_ATTRIBUTES if (text := getattr(column, key))}

    def column_options(self, _table: SourceTable, _column: ColumnInfo, strings: Mapping[str, str]) -> ColumnOptions:
        units, vocabulary, description = (strings.get(key) for key in STRING_ATTRIBUTES)
        return ColumnOptions(units=units, units_vocabulary=vocabulary, description=description)

    def write_strings(self, _node: Node, _strings: Mapping[str, str]) -> None:
        """The options of the column have stored them."""


PART = H5colConversion(names.GROUP_ATTRIBUTES, names.COLUMN_ATTRIBUTES)
