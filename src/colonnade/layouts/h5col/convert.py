"""Converting tables into H5Col: the strings about a column are options of it, and its own names are refused."""

from __future__ import annotations

from colonnade.errors import UsageError
from colonnade.layouts.conversion import SourceTable
from colonnade.layouts.h5col import names
from colonnade.layouts.revision_tables import RevisionConversion


class H5colConversion(RevisionConversion):
    """Names that H5Col reserves are refused, all of them at once."""

    def check(self, table: SourceTable) -> None:
        reserved = [column.name for column in table.info.members if column.name in names.RESERVED]
        if reserved:
            shown = ", ".join(map(repr, reserved))
            raise UsageError(
                f"cannot convert {table.path} to H5Col, which reserves the names {shown}. Rename these columns",
                path=table.path,
                rule="JN1",
            )


PART = H5colConversion(names.GROUP_ATTRIBUTES, names.COLUMN_ATTRIBUTES)
