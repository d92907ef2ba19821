"""Converting DynamicTables into other layouts."""

from __future__ import annotations

from colonnade.layouts.conversion import Conversion, SourceTable
from colonnade.layouts.hdmf import names


class HdmfConversion(Conversion):
    """What HDMF calls `unit` are the units."""

    def strings(self, table: SourceTable, name: str) -> dict[str, str]:
        column = table.info.by_name[name]
        found = {"units": column.units, "description": column.description}
        return {key: text for key, text in found.items() if text}


CONVERSION = HdmfConversion(names.GROUP_ATTRIBUTES, names.COLUMN_ATTRIBUTES)
