"""Converting tables into HEP001: categories, row labels and missing rows as HEP001 has them.

What HEP001 cannot express (that a column could have missing rows though it has none, what a missing string means, that
the row labels are also a column) is kept in marks, so that converting back is exact.
"""

from __future__ import annotations

from collections.abc import Mapping

from colonnade.layouts.conversion import STRING_ATTRIBUTES, Conversion, SourceTable
from colonnade.layouts.hep001 import names
from colonnade.model import ColumnInfo, ColumnOptions
from colonnade.nodes import Node


class Hep001Conversion(Conversion):
    """The strings about a column are part of its description, and options when it is written."""

    allow_reserved = True

    def strings(self, table: SourceTable, name: str) -> dict[str, str]:
        column = table.info.by_name[name]
        return {key: text for key in STRING_ATTRIBUTES if (text := getattr(column, key))}

    def column_options(self, _table: SourceTable, _column: ColumnInfo, strings: Mapping[str, str]) -> ColumnOptions:
        units, vocabulary, description = (strings.get(key) for key in STRING_ATTRIBUTES)
        return ColumnOptions(units=units, units_vocabulary=vocabulary, description=description)

    def write_strings(self, _node: Node, _strings: Mapping[str, str]) -> None:
        """The options of the column have stored them."""


PART = Hep001Conversion(names.GROUP_ATTRIBUTES, (*names.VALUE_ATTRIBUTES, names.ENCODING_TYPE))
