"""Tables of PyTables converted into other layouts: its own indexes and pickled attributes are not converted."""

from __future__ import annotations

from colonnade.layouts.conversion import SourceTable
from colonnade.layouts.pytables.pickled import pickled_names
from colonnade.layouts.records import tables as record_tables
from colonnade.layouts.records.convert import RecordConversion, dataset_name


class PyTablesConversion(RecordConversion):
    """As of other compound datasets."""

    def replaced_objects(self, table: SourceTable) -> list[int]:
        own = self.next_to(table, record_tables.INDEXES_OF + dataset_name(table))
        return [*super().replaced_objects(table), *([] if own is None else [own])]

    def lost(self, table: SourceTable) -> list[str]:
        return [
            f"{table.path}: the attribute {name!r} is a Python pickle, which is not loaded: it is not kept"
            for name in pickled_names(table.group)
        ]


PART = PyTablesConversion(record_tables.PYTABLES_ATTRIBUTES, ())
