"""What writing a table has in common in both revisions of HEP001, the layouts `hep001` and `h5col`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from colonnade import writing
from colonnade.columns.mapping import arrow_type, implied_units, named_type, plain_type
from colonnade.errors import UsageError
from colonnade.h5.attributes import LARGEST_IN_HEADER
from colonnade.h5.handles import create_group
from colonnade.layouts.conversion import STRING_ATTRIBUTES, Conversion, SourceTable
from colonnade.model import AUTO, ColumnInfo, ColumnOptions, StoredType, TableInfo, TableText
from colonnade.nodes import EditableDataset, EditableGroup, EditableNode, Node

COLUMN_ORDER_NAME, ARROW_TYPE_NAME, PANDAS_NAME = "column-order", "arrow_type", "pandas_metadata"


def check_members(_columns: Sequence[str], _labels: Sequence[str], _text: TableText) -> None:
    """Every table can be stored."""


def needs_large_attributes(n_columns: int, longest_name: int) -> bool:
    """Whether column-order, or references to all columns, outgrow an object header."""
    return n_columns * max(longest_name, 8) > LARGEST_IN_HEADER


def make_group(root: EditableGroup, path: str, large_attributes: bool) -> EditableGroup:
    """A new group for a table."""
    return create_group(root, path, large_attributes)


def may_be_categories(kind: pa.DataType, options: ColumnOptions, is_label: bool) -> bool:
    """Whether strings may be stored as categories. Labels are mostly distinct, so theirs are only if asked to."""
    asked = options.strings == "categories"
    free = options.strings == "auto" and options.fill in (AUTO, None) and not is_label
    is_text = plain_type(kind) == pa.string() and options.categories is None and not options.enum
    return is_text and (asked or free)


def write_table_texts(group: EditableGroup, text: TableText) -> None:
    """Write the version of the standard, and what the user says about the table."""
    writing.write_text(group, "VERSION", "1.0", "ascii")
    strings = {"TITLE": text.title, "description": text.description, "units_vocabulary": text.units_vocabulary}
    for name, value in strings.items():
        if value is not None:
            writing.write_text(group, name, value)


def write_order(group: EditableGroup, columns: Sequence[str]) -> None:
    """Write the order of the columns; an empty one removes the attribute."""
    if columns:
        writing.write_texts(group, COLUMN_ORDER_NAME, columns)
    else:
        writing.delete_attribute(group, COLUMN_ORDER_NAME)


def reorder_columns(group: EditableGroup, _info: TableInfo, order: Sequence[str]) -> None:
    """Write another order of the columns."""
    write_order(group, order)


def write_note(node: EditableNode, note: str | None) -> None:
    """Write the pandas metadata of a column or frame that the file does not express otherwise; None removes it."""
    if note is None:
        writing.delete_attribute(node, PANDAS_NAME)
    elif len(note.encode()) > LARGEST_IN_HEADER:
        writing.write_variable_text(node, PANDAS_NAME, note)  # variable length has no limit
    else:
        writing.write_text(node, PANDAS_NAME, note)


def write_meaning(categories: EditableDataset, stored: StoredType, kind: pa.DataType) -> None:
    """Write what the values of categories mean: their units, and the type that the datatype does not tell."""
    units = implied_units(kind)
    named = named_type(stored, units, kind)
    if units is not None:
        writing.write_text(categories, "units", units)
    if named is not None:
        writing.write_text(categories, ARROW_TYPE_NAME, named)


def type_name(column: ColumnInfo, units: str | None) -> str | None:
    """The type name to store so that new units do not change the type: numbers with units since 1970 stay numbers."""
    kind = arrow_type(column)
    if implied_units(kind) is not None:
        raise UsageError(
            f"column {column.name!r} holds {kind}, which is stored in {column.units!r}: its units cannot be changed",
            column=column.name,
        )
    return named_type(column.type, units, kind)


def keep_type(node: EditableNode, column: ColumnInfo, units: str | None) -> None:
    """Store the type name that keeps the type of a column with new units."""
    named = type_name(column, units)
    if named is None:
        writing.delete_attribute(node, ARROW_TYPE_NAME)
    else:
        writing.write_text(node, ARROW_TYPE_NAME, named)


class RevisionConversion(Conversion):
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
