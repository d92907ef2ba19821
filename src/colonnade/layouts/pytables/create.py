"""A new table of PyTables: one dataset of a compound type, with the attributes that PyTables reads."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from colonnade import writing
from colonnade.columns.arrow_types import ComplexType
from colonnade.columns.mapping import BOOLEAN, stored_string, stored_type
from colonnade.columns.writer import WrittenColumn
from colonnade.dataclass import replace
from colonnade.errors import DataError, UsageError
from colonnade.layouts.contract import refuse_version
from colonnade.layouts.records import tables as record_tables
from colonnade.layouts.records.create import NewMember, NewRecords, cast_times, value_kind
from colonnade.layouts.records.pytables_marks import BITS, check_member_name, mark_root, mark_table
from colonnade.layouts.records.tables import seen_type
from colonnade.model import ColumnOptions, StoredType, TableText
from colonnade.nodes import EditableGroup
from colonnade.nodes.paths import dataset_at, group_at

_TIME_32, _TIME_64 = StoredType("unknown", 4, tag="time"), StoredType("unknown", 8, tag="time")


class NewTable(NewRecords):
    """The creation of one table of PyTables."""

    layout = "pytables"

    def check_name(self, name: str, _allow_reserved: bool) -> None:
        check_member_name(name)

    def check_members(self, columns: Sequence[str], labels: Sequence[str], text: TableText) -> None:
        self.refuse_labels_and_descriptions(labels, text)
        if not columns:
            raise UsageError("the layout 'pytables' has no tables without columns")

    def new_member(self, name: str, kind: pa.DataType, options: ColumnOptions, _is_label: bool) -> NewMember:
        plain = value_kind(kind)
        if pa.types.is_timestamp(plain) and plain.tz is None:
            return _new_times(self, name, plain, options)
        stored = _stored_form(plain, name)
        return NewMember(self, name, plain, options, stored, seen_type(stored))

    def complete_columns(
        self, group: EditableGroup, _columns: Sequence[WrittenColumn], _labels: Sequence[WrittenColumn]
    ) -> None:
        """What PyTables reads of each column: its name, and what a row holds for which no value is given."""
        dataset = dataset_at(group, self.rows_name)
        mark_table(dataset, self.members, self.elements.n_rows)
        self.write_units_and_descriptions(dataset)

    def complete_group(
        self,
        group: EditableGroup,
        _columns: Sequence[WrittenColumn],
        _labels: Sequence[WrittenColumn],
        text: TableText,
    ) -> None:
        """The dataset takes the place of its group, and becomes a table."""
        root = group_at(group, "/")
        dataset = self.replace_group(group)
        if text.title is not None:
            writing.write_text(dataset, record_tables.TITLE, text.title)
        mark_root(root)


class TimeMember(NewMember):
    """Timestamps: those in seconds as what PyTables calls Time32, others in microseconds, as Time64."""

    def values(self, array: pa.Array) -> pa.Array:
        return cast_times(super().values(array), self.kind, self.name)


def _new_times(table: NewTable, name: str, kind: pa.DataType, options: ColumnOptions) -> TimeMember:
    stored = _TIME_32 if kind.unit == "s" else _TIME_64
    return TimeMember(table, name, pa.timestamp("s" if kind.unit == "s" else "us"), options, stored, seen_type(stored))


def _stored_form(kind: pa.DataType, name: str) -> StoredType:
    """The datatype in which PyTables stores an Arrow type; a DataError if there is none."""
    if pa.types.is_string(kind):
        return stored_string(1)
    if pa.types.is_boolean(kind):
        return BITS
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or isinstance(kind, ComplexType):
        return stored_type(kind, name)
    if pa.types.is_fixed_size_list(kind) and kind.list_size:
        whole, inner = stored_type(kind, name), kind
        while pa.types.is_fixed_size_list(inner):
            inner = inner.value_type
        if pa.types.is_integer(inner) or pa.types.is_floating(inner):
            return whole
        if whole.item == BOOLEAN:
            return replace(whole, base=BITS)
    raise DataError(
        f"the layout 'pytables' cannot store {kind}. Cast it to numbers, booleans, strings, timestamps without a zone "
        "in microseconds, or lists of fixed length of numbers",
        column=name,
    )


def new_table(version: object, directory: bool) -> NewTable:
    """What writes a new table."""
    refuse_version("pytables", version, directory)
    return NewTable()


PART = new_table
