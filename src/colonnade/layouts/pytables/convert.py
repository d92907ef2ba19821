"""Tables of PyTables converted into other layouts: its own indexes and pickled attributes are not converted."""

from __future__ import annotations

from colonnade.layouts import record_tables
from colonnade.layouts.conversion import SourceTable
from colonnade.layouts.pytables.pickled import pickled_names
from colonnade.layouts.record_convert import RecordConversion, dataset_name


class PyTablesConversion(RecordConversion):
    """As of other compound datasets."""

    def left_out(self, table: SourceTable) -> list[int]:
        own = self.next_to(table, record_tables.INDEXES_OF + dataset_name(table))
        return [*super().left_out(table), *([] if own is None else [own])]

    def lost(self, table: SourceTable) -> list[str]:
        return [
            f"{table.path}: the attribute {name!r} is a Python pickle, which is not loaded: it is not kept"
            for name in pickled_names(table.group)
        ]


CONVERSION = PyTablesConversion(record_tables.PYTABLES_ATTRIBUTES, ())
