"""A new dataset of a compound type: a plain record array, which h5py reads as it is.

It has no attributes but a title, and units and descriptions of columns. What it would not be read back as is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from colonnade import writing
from colonnade.columns.mapping import default_type, implied_units, stored_string, stored_type
from colonnade.columns.writer import WrittenColumn
from colonnade.errors import DataError, UsageError
from colonnade.layouts.contract import refuse_version
from colonnade.layouts.records import tables as record_tables
from colonnade.layouts.records.create import NewMember, NewRecords, value_kind
from colonnade.model import ColumnOptions, TableText
from colonnade.nodes import EditableGroup
from colonnade.nodes.paths import dataset_at


class NewCompound(NewRecords):
    """The creation of one dataset of a compound type."""

    layout = "compound"

    def check_name(self, name: str, _allow_reserved: bool) -> None:
        if not name or "\0" in name:
            raise UsageError(f"column {name!r}: HDF5 has no such name of a member", column=name)

    def check_members(self, columns: Sequence[str], labels: Sequence[str], text: TableText) -> None:
        self.refuse_labels_and_descriptions(labels, text)
        if not columns:
            raise UsageError("the layout 'compound' has no tables without columns")

    def new_member(self, name: str, kind: pa.DataType, options: ColumnOptions, _is_label: bool) -> NewMember:
        plain = value_kind(kind)
        if pa.types.is_string(plain):
            return NewMember(self, name, plain, options, stored_string(1))
        stored, units = stored_type(plain, f"column {name!r}"), implied_units(plain)
        if default_type(stored, units) != plain:
            raise DataError(
                f"the layout 'compound' cannot store {plain}, which would be read as {default_type(stored, units)}. "
                "Cast it to numbers, strings or timestamps in UTC or without a zone, or choose another layout",
                column=name,
            )
        member = NewMember(self, name, plain, options, stored)
        member.units = units or options.units
        return member

    def complete_columns(
        self, group: EditableGroup, _columns: Sequence[WrittenColumn], _labels: Sequence[WrittenColumn]
    ) -> None:
        """What the columns mean; the members have their names."""
        self.write_units_and_descriptions(dataset_at(group, self.rows_name))

    def complete_group(
        self,
        group: EditableGroup,
        _columns: Sequence[WrittenColumn],
        _labels: Sequence[WrittenColumn],
        text: TableText,
    ) -> None:
        """The dataset takes the place of its group."""
        dataset = self.replace_group(group)
        if text.title is not None:
            writing.write_text(dataset, record_tables.TITLE, text.title)


def new_table(version: object, directory: bool) -> NewCompound:
    """What writes a new table."""
    refuse_version("compound", version, directory)
    return NewCompound()


PART = new_table
