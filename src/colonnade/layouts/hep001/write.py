"""Writes a HEP001 table group: attributes of the exact types, and references in both directions.

The order of writing:
1. the group, without CLASS: it is not a table until the end;
2. columns and labels, row by row (by `columns.writer`);
3. categories datasets, then the attributes and references of each column;
4. the group's attributes, CLASS last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from colonnade import writing
from colonnade.columns.decode import missing_line
from colonnade.columns.forms import add_categories, create_categories
from colonnade.columns.raw import is_sectioned
from colonnade.columns.read import ColumnReader
from colonnade.dataclass import replace
from colonnade.errors import UsageError
from colonnade.h5.links import rename, unlink
from colonnade.layouts import revision_tables
from colonnade.layouts.hep001 import LAYOUT, names
from colonnade.layouts.hep001.describe import open_column
from colonnade.layouts.revision_tables import (
    keep_type,
    may_be_categories,
    type_name,
    write_meaning,
    write_note,
    write_order,
    write_table_texts,
)
from colonnade.model import AUTO, ColumnInfo, ColumnOptions, TableInfo, TableText
from colonnade.nodes import EditableDataset, EditableGroup, EditableNode, Group, attributes
from colonnade.nodes.paths import dataset_at, editable

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from colonnade.columns.sectioned import SparseColumnWriter
    from colonnade.columns.writer import ColumnWriter, WrittenColumn
    from colonnade.layouts.contract import NewSidecars
    from colonnade.layouts.text_writer import TextWriter
    from colonnade.sparse.draft import SparseDraft

sidecars: NewSidecars | None = None
check_name = names.check_name
check_members, reorder_columns = revision_tables.check_members, revision_tables.reorder_columns
make_group, needs_large_attributes = revision_tables.make_group, revision_tables.needs_large_attributes


def check_can_change(_group: Group, _info: TableInfo) -> None:
    """Every table can be changed."""


def count_rows(_group: EditableGroup, _n_rows: int) -> None:
    """The number of rows is the length of the columns; it is not stored."""


def new_writer(
    name: str, kind: pa.DataType, options: ColumnOptions, large_attributes: bool = False, is_label: bool = False
) -> ColumnWriter | TextWriter | SparseColumnWriter:
    """The writer of a new column. Labels are mostly distinct, so they never use categories."""
    from colonnade.columns.sectioned import SparseColumnWriter
    from colonnade.columns.writer import ColumnWriter
    from colonnade.layouts.text_writer import TextWriter

    if options.masked:
        raise UsageError(f"column {name!r}: HEP001 marks missing rows with a fill: leave out masked=True", column=name)
    if options.sparse and is_label:
        raise UsageError(f"label {name!r} cannot be sparse: columns refer to it", column=name)
    if options.sparse:
        return SparseColumnWriter(name, kind, options)
    if may_be_categories(kind, options, is_label):
        return TextWriter(name, kind, options, large_attributes)
    return ColumnWriter(name, kind, options, large_attributes)


def resume_column(group: EditableGroup, column: ColumnInfo) -> ColumnWriter | SparseColumnWriter:
    """A writer that appends to an existing column."""
    from colonnade.columns.forms import missing_code
    from colonnade.columns.sectioned import SparseColumnWriter
    from colonnade.columns.writer import ColumnWriter

    dataset, categories_dataset = open_column(group, column)
    if is_sectioned(dataset):
        return SparseColumnWriter.resume(column, dataset)
    categories = None
    if column.categories is not None:
        categories = ColumnReader(column, dataset, categories_dataset).categories()
        if column.type.signed:  # -1 means missing, whatever the fill is (6.6)
            column = replace(column, fill=missing_code(column.type))
    return ColumnWriter.resume(column, group, editable(dataset), categories)


def complete_columns(group: EditableGroup, columns: Sequence[WrittenColumn], labels: Sequence[WrittenColumn]) -> None:
    """Step 3: write everything that makes the datasets of a group columns and labels."""
    for column in (*columns, *labels):
        _write_column_attributes(group, column)
    if labels:
        plain = [column for column in columns if column.draft is None]  # HDF5 can refer to them
        for column in plain:
            writing.write_references(column.dataset, names.INDEXES, [label.dataset for label in labels])
        for label in labels:
            writing.write_references(label.dataset, names.COLUMNS_LIST, [column.dataset for column in plain])


def complete_group(
    group: EditableGroup, columns: Sequence[WrittenColumn], labels: Sequence[WrittenColumn], text: TableText
) -> None:
    """Step 4: write everything that makes the group a table."""
    write_table_texts(group, text)
    if columns:
        writing.write_texts(group, names.COLUMN_ORDER, [column.name for column in columns])
    if labels:
        writing.write_text(group, names.INDEX, labels[0].name)
    writing.write_text(group, names.CLASS, names.CLASS_VALUE, "ascii")


def note_pandas(node: EditableNode | SparseDraft, note: str | None) -> None:
    """Write the pandas metadata of a column or frame that the file does not express otherwise; None removes it."""
    if not _is_draft(node):
        write_note(node, note)
    elif note is not None:
        _set(node, names.PANDAS, note)


def _write_column_attributes(group: EditableGroup, column: WrittenColumn) -> None:
    description = _description(column)
    for name, value in (
        (names.UNITS, column.units),
        (names.UNITS_VOCABULARY, column.options.units_vocabulary),
        (names.DESCRIPTION, description),
        (names.ARROW_TYPE, column.arrow_type),
    ):
        if value is not None:
            _set(column.holder, name, value)
    if pa.types.is_decimal(column.kind) and column.form.stored.kind == "integer" and column.kind.scale:
        _set(column.holder, names.SCALE_FACTOR, 10.0**-column.kind.scale)
    if column.categories is not None:
        target = _write_categories(group, column)
        writing.write_reference(column.dataset, names.CATEGORIES, target)


def _is_draft(node: EditableNode | SparseDraft) -> TypeIs[SparseDraft]:
    """Whether this is a sparse column that is not in the file yet."""
    from colonnade.sparse.draft import SparseDraft  # late: readers do not need it

    return isinstance(node, SparseDraft)


def _set(dataset: EditableNode | SparseDraft, name: str, value: str | float) -> None:
    """Write an attribute. That of a sparse column is stored in the draft until the column is put into the file."""
    if _is_draft(dataset):
        dataset.attributes[name] = value
    elif isinstance(value, str):
        writing.write_text(dataset, name, value)
    else:
        writing.write_number(dataset, name, value)


def _description(column: WrittenColumn) -> str | None:
    """The user's text, then the line that names the fill if rows are missing or a fill was requested (C6)."""
    text = column.options.description
    asked = column.options.fill is not AUTO and column.options.fill is not None
    if column.form.fill is None or not (column.has_missing or asked):
        return text
    line = missing_line(column.form.stored, column.form.fill)
    return f"{text}\n{line}" if text else line


def extend(group: EditableGroup, info: TableInfo, written: Sequence[WrittenColumn]) -> bool:
    """Update categories, descriptions and references after rows were added to columns.

    Returns whether `info` is still valid, apart from its length and the number of categories.
    """
    holds = True
    for column in written:
        before = info.by_name[column.name]
        if column.categories is not None:
            holds &= _extend_categories(group, column, info)
        if column.form.fill is not None and (
            column.has_missing or (column.replaced and _names_fill(column.dataset, before))
        ):
            line = missing_line(column.form.stored, column.form.fill)
            text = f"{before.description}\n{line}" if before.description else line
            writing.write_text(column.dataset, names.DESCRIPTION, text)
        if column.arrow_type is not None and column.arrow_type != before.arrow_type:
            writing.write_text(column.dataset, names.ARROW_TYPE, column.arrow_type)
            holds = False
    if any(column.replaced for column in written):
        link_labels(group, info)
        holds = False
    return holds


def _names_fill(dataset: EditableDataset, before: ColumnInfo) -> bool:
    """Whether the description of a column ends with the line that names its previous fill."""
    if before.fill is None:
        return False
    text = attributes.read_text(dataset, names.DESCRIPTION)
    return text is not None and text.endswith(missing_line(before.type, before.fill))


def _extend_categories(group: EditableGroup, column: WrittenColumn, info: TableInfo) -> bool:
    """Append new categories to the existing ones. If that is impossible, write all of them again and return False."""
    before = info.by_name[column.name]
    assert column.categories is not None and before.categories is not None
    n_before = before.categories.n_categories
    if len(column.categories) == n_before:
        return True
    dataset = group.open_dataset(before.categories.name) if before.categories.name else None
    if dataset is not None and add_categories(dataset, column.categories, n_before, column.name):
        return True
    _unlink_categories(group, info, column.name)
    writing.write_reference(column.dataset, names.CATEGORIES, _write_categories(group, column))
    return False


def link_labels(group: EditableGroup, info: TableInfo) -> None:
    """Write the references between columns and labels in both directions, as `info` has them (I2)."""
    labelled: dict[str, list[EditableDataset]] = {label.name: [] for label in info.labels}
    linked = [member.name for member in info.members if member.labels or member.name in labelled]
    opened = {name: dataset_at(group, name) for name in linked}
    for column in info.members:
        if column.labels:
            targets = [opened[name] for name in column.labels if name in labelled]
            writing.write_references(opened[column.name], names.INDEXES, targets)
            for name in column.labels:
                if name in labelled:
                    labelled[name].append(opened[column.name])
    for name, targets in labelled.items():
        writing.write_references(opened[name], names.COLUMNS_LIST, targets)


def attach_column(group: EditableGroup, info: TableInfo, column: WrittenColumn) -> None:
    """Make a newly written dataset the last column of the table, with the same labels as the others."""
    _write_column_attributes(group, column)
    labels = [dataset_at(group, name) for name in info.label_names]
    if labels and column.draft is None:
        writing.write_references(column.dataset, names.INDEXES, labels)
        for label in labels:
            writing.add_reference(label, names.COLUMNS_LIST, column.dataset)
    writing.write_texts(group, names.COLUMN_ORDER, [*info.column_names, column.name])


def detach_column(group: EditableGroup, info: TableInfo, name: str) -> None:
    """Remove a column or label, its categories, and every reference to it."""
    gone = group.hard_address(name)
    for label in info.by_name[name].labels:
        writing.remove_reference(dataset_at(group, label), names.COLUMNS_LIST, gone)
    unlink(group, name)
    _unlink_categories(group, info, name)
    labels = [label for label in info.label_names if label != name]
    if name in info.label_names:
        _unlabel(group, info, name)
    write_order(group, [column for column in info.column_names if column != name])
    if info.index_name == name:
        _write_index(group, labels[0] if labels else None)


def _unlabel(group: EditableGroup, info: TableInfo, name: str) -> None:
    """Remove a deleted label from the references of its columns."""
    columns = tuple(replace(c, labels=tuple(n for n in c.labels if n != name)) for c in info.columns if c.name != name)
    for column in columns:
        if name in info.by_name[column.name].labels and not column.labels:
            writing.delete_attribute(dataset_at(group, column.name), names.INDEXES)
    link_labels(group, replace(info, columns=columns, labels=[label for label in info.labels if label.name != name]))


def rename_column(group: EditableGroup, info: TableInfo, name: str, new_name: str) -> None:
    """Rename a column or label. References refer to the object, so they stay valid."""
    rename(group, name, new_name)
    column = info.by_name[name].categories
    if column is not None and column.name == f"{name}_categories" and not group.has_link(f"{new_name}_categories"):
        rename(group, column.name, f"{new_name}_categories")
    write_order(group, [new_name if column == name else column for column in info.column_names])
    if info.index_name == name:
        _write_index(group, new_name)


def set_labels(group: EditableGroup, info: TableInfo, labels: Sequence[str]) -> None:
    """Make these members the labels of all columns, and former labels columns. Every reference is written again."""
    before = set(info.label_names)
    order = [name for name in info.column_names if name in before or name not in labels]
    order += [name for name in info.label_names if name not in labels and name not in order]
    plain = [name for name in order if name not in labels and info.by_name[name].storage != "sectioned"]
    opened = {name: dataset_at(group, name) for name in (*plain, *labels)}
    for name in labels:
        if not writing.can_hold(opened[name], 8 * len(plain)):
            raise UsageError(
                f"cannot make column {name!r} a label: it cannot store references to {len(plain):,} columns. Write the "
                f"table again with labels={list(labels)}",
                column=name,
            )
    for name, dataset in opened.items():
        writing.delete_attribute(dataset, names.INDEXES)
        writing.delete_attribute(dataset, names.COLUMNS_LIST)
        if name in labels:
            writing.write_references(dataset, names.COLUMNS_LIST, [opened[column] for column in plain])
        elif labels:
            writing.write_references(dataset, names.INDEXES, [opened[label] for label in labels])
    write_order(group, order)
    _write_index(group, labels[0] if labels else None)


def replace_column(group: EditableGroup, info: TableInfo, column: WrittenColumn, old: EditableDataset | None) -> None:
    """Make a newly written dataset the column of its name, instead of the old dataset.

    Attributes of other programs, and the units vocabulary, are copied from the old dataset.
    """
    _unlink_categories(group, info, column.name)
    if (gone := info.by_name[column.name].categories) is not None:  # column-order may list them as a column (6.6)
        write_order(group, [name for name in info.column_names if name != gone.name])
    _write_column_attributes(group, column)
    if old is not None:
        writing.copy_attributes(old, column.dataset, without=names.VALUE_ATTRIBUTES)
    link_labels(group, info)


def _unlink_categories(group: EditableGroup, info: TableInfo, name: str) -> None:
    """Remove the categories of a column, unless other columns use them too."""
    gone = info.by_name[name].categories
    if gone is None or not gone.name or not group.has_link(gone.name):
        return
    if not any(c.categories is not None and c.categories.name == gone.name for c in info.members if c.name != name):
        unlink(group, gone.name)


def _write_index(group: EditableGroup, name: str | None) -> None:
    if name is None:
        writing.delete_attribute(group, names.INDEX)
    else:
        writing.write_text(group, names.INDEX, name)


def set_texts(group: EditableGroup, info: TableInfo, name: str | None, texts: Mapping[str, str | None]) -> None:
    """Set (or remove, with None) title, description, units and vocabulary of the table or of one column."""
    node = group if name is None else dataset_at(group, name)
    for key, text in texts.items():
        attribute = names.TITLE if key == "title" else key
        if key == "units" and name is not None:
            keep_type(node, info.by_name[name], text)
        if key == "description" and name is not None:
            text = _with_missing_line(text, attributes.read_text(node, attribute), info.by_name[name])
        if text is None:
            writing.delete_attribute(node, attribute)
        else:
            writing.write_text(node, attribute, text)


def sparse_attributes(column: ColumnInfo, texts: Mapping[str, str | None]) -> dict[str, str | None]:
    """The attributes to set on a sparse column for these texts, with None for those to remove."""
    made = dict(texts)
    if "units" in made:
        made[names.ARROW_TYPE] = type_name(column, made["units"])
    return made


def _with_missing_line(text: str | None, before: str | None, column: ColumnInfo) -> str | None:
    """The new description, which names the fill if the old one did."""
    if column.fill is None or before is None:
        return text
    line = missing_line(column.type, column.fill)
    if not before.endswith(line):
        return text
    return f"{text}\n{line}" if text else line


def _write_categories(group: EditableGroup, column: WrittenColumn) -> EditableDataset:
    """Write the categories dataset, in the same group as its column (C9)."""
    values = column.categories
    assert values is not None  # checked by the caller
    name = f"{column.name}_categories"
    number = 2
    while group.has_link(name):
        name = f"{column.name}_categories_{number}"
        number += 1
    dataset, stored = create_categories(group, name, values, column.name, even=True)
    writing.write_text(dataset, names.ENCODING_TYPE, "categorical")
    writing.write_flag(dataset, names.ORDERED, column.ordered)
    write_meaning(dataset, stored, values.type)
    return dataset


clear = LAYOUT.clear_group
