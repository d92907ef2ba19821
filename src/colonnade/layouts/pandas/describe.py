"""Describes what pandas stores as a TableInfo. Lenient: what is wrong is noted, and what is readable is used.

Names of columns are values in the file, so that they are read; no other values are. No pickle is loaded.
"""

from __future__ import annotations

import pyarrow as pa

from colonnade.columns.mapping import value_type
from colonnade.errors import FormatError
from colonnade.layouts.pandas import names
from colonnade.layouts.pandas.axes import is_empty
from colonnade.layouts.pandas.fixed import FixedDescription
from colonnade.layouts.pandas.tables import TableDescription, read_categories
from colonnade.model import ColumnInfo, TableInfo
from colonnade.nodes import Dataset, Group, attributes


def describe(group: Group, path: str) -> TableInfo:
    """The frame or Series as plain data."""
    return FixedDescription(group, path).table() if is_fixed(group) else TableDescription(group, path).table()


def open_column(group: Group, column: ColumnInfo) -> tuple[Dataset, Dataset | pa.Array | None]:
    """The dataset with the rows of a column, and its categories or None."""
    rows = rows_of(group, column)
    if rows is None:
        raise FormatError(f"cannot open column {column.name!r}: {column.problem or 'it is gone'}", column=column.name)
    info = column.categories
    if info is None:
        return rows, None
    if not is_fixed(group):
        return rows, read_categories(group, info)
    categories = group.open_dataset(info.name)
    if categories is None:
        raise FormatError(f"cannot open the categories of column {column.name!r}", column=column.name)
    if is_empty(categories):
        return rows, pa.array([], value_type(info.type, info.units, info.arrow_type))
    return rows, categories


def rows_of(group: Group, column: ColumnInfo) -> Dataset | None:
    """The dataset that holds the rows of a column."""
    return group.open_dataset(column.link or column.name)


def own_arrays(group: Group) -> set[str]:
    """The names of the arrays of a table in the fixed format. Groups in its group are other keys of the store."""
    if not is_fixed(group):
        return set()
    return {child.name for child in group.children() if names.is_member_of_fixed(child.name)}


def is_fixed(group: Group) -> bool:
    """Whether this is stored in the fixed format."""
    return attributes.read_text(group, names.PANDAS_TYPE) in names.FIXED


def own_attributes(group: Group) -> set[str]:
    """The names of the attributes that pandas and PyTables have given to a table."""
    of_axes = {name for name in group.attribute_names() if name.endswith(names.ITEM_SUFFIXES)}
    return {*names.GROUP_ATTRIBUTES, *of_axes}
