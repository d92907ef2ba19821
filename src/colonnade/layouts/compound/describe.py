"""A dataset of a compound type described as a table: its members are the columns."""

from __future__ import annotations

from colonnade.layouts.compound import names
from colonnade.model import ColumnInfo, DatasetInfo, Member, StoredField, TableInfo
from colonnade.nodes import Dataset, Group, attributes
from colonnade.nodes.dataset_tables import DatasetTable, is_dataset_table


def describe(group: Group, path: str) -> TableInfo:
    dataset = dataset_of(group)
    info = dataset.describe()
    n_rows = info.shape[0] if info.shape else 0
    columns = tuple(member_column(field, info, n_rows) for field in info.type.fields)
    return TableInfo(path, "compound", n_rows, columns, title=attributes.read_text(group, names.TITLE))


def member_column(field: StoredField, info: DatasetInfo, n_rows: int) -> ColumnInfo:
    """A member of the elements of a dataset as a column."""
    return ColumnInfo(
        field.name, field.type, n_rows, info.storage, info.chunk_rows, info.filters, form=Member((field.name,))
    )


def dataset_of(group: Group) -> Dataset:
    """The dataset that a table is."""
    return table_of(group).dataset


def table_of(group: Group) -> DatasetTable:
    assert is_dataset_table(group)  # by `is_table` of the layout
    return group


def open_column(group: Group, column: ColumnInfo) -> tuple[Dataset, None]:
    return dataset_of(group), None


def unread_attributes(group: Group) -> dict[str, object]:
    owned = set(names.TABLE_ATTRIBUTES)
    return {name: group.read_attribute(name) for name in group.attribute_names() if name not in owned}
