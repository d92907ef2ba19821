"""Converts tables to HEP001 tables, batch by batch: categories, row labels and missing rows as HEP001 has them.

What HEP001 has no word for (that a column could have missing rows though it has none, what a missing string means, that
the row labels are also a column) is kept in attributes, so that converting back is exact.
"""

from __future__ import annotations

from colonnade.converting.draft import TableDraft, draft_of, new_names, refuse_unfit, texts_of
from colonnade.converting.rows import source_of
from colonnade.model import ColumnOptions
from colonnade.table import Table


def draft_hep001(table: Table) -> TableDraft:
    """Check a table; what HEP001 cannot hold is refused with the column's path."""
    refuse_unfit(table)
    names = new_names(table, "index")
    options = {names[column.name]: ColumnOptions(**texts_of(table, column.name)) for column in table.info.members}
    source = source_of(table, names)
    return draft_of(TableDraft, table, source, names, columns=options, layout="hep001", allow_reserved=True)
