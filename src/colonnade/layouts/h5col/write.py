"""Writes and changes an H5Col table group: attributes of the exact types, references from a column to what it has.

The order of writing:
1. the group, without CLASS: it is not a table until the end;
2. columns, row by row (by `columns.writer`, and by `list_writer` for lists);
3. categories, then the attributes of each column;
4. the group's attributes, CLASS last.

A change of rows first increments GENERATION, so that no search index is valid; then come the cells, NROWS, the indexes,
and at the end their tokens (JG5). All of it is one commit of the journal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from colonnade import writing
from colonnade.columns.forms import add_categories, create_categories
from colonnade.columns.missing import recommended_fills
from colonnade.columns.read import ColumnReader
from colonnade.dataclass import replace
from colonnade.errors import UnsupportedError, UsageError
from colonnade.h5.links import rename, unlink
from colonnade.layouts import revision_tables
from colonnade.layouts.h5col import LAYOUT, names
from colonnade.layouts.h5col.counts import count_of
from colonnade.layouts.h5col.describe import mask_names, open_column
from colonnade.layouts.h5col.list_writer import JULY_MARKING, ListWriter, is_list
from colonnade.layouts.h5col.search import (
    has_standard_references,
    next_generation,
    search_indexes,
    write_tokens,
)
from colonnade.layouts.revision_tables import (
    keep_type,
    may_be_categories,
    write_meaning,
    write_note,
    write_order,
    write_table_texts,
)
from colonnade.model import ColumnInfo, ColumnOptions, Lists, StoredType, TableInfo, TableText
from colonnade.nodes import Dataset, EditableDataset, EditableGroup, EditableNode, Group
from colonnade.nodes.elements import column_node
from colonnade.nodes.paths import dataset_at, editable
from colonnade.stored_dtypes import integer_bounds, memory_dtype

if TYPE_CHECKING:
    from colonnade.columns.writer import ColumnWriter, WrittenColumn
    from colonnade.layouts.contract import NewSidecars
    from colonnade.layouts.text_writer import TextWriter
    from colonnade.sparse.draft import SparseDraft

sidecars: NewSidecars | None = None
check_name = names.check_name
check_members, reorder_columns = revision_tables.check_members, revision_tables.reorder_columns
make_group, needs_large_attributes = revision_tables.make_group, revision_tables.needs_large_attributes


# -- new tables --


def check_can_change(group: Group, info: TableInfo) -> None:
    """Refuse to change a table of a draft, which has no NROWS."""
    if group.attribute_storage(names.NROWS) is None:
        raise UnsupportedError(
            f"cannot change {info.path}: it follows a draft of H5Col from before NROWS. Write it to a new file",
            feature="changing tables of drafts of H5Col",
            path=info.path,
        )


def new_writer(
    name: str, kind: pa.DataType, options: ColumnOptions, large_attributes: bool = False, is_label: bool = False
) -> ColumnWriter | TextWriter | ListWriter:
    """The writer of a new column. Labels are mostly distinct, so they never use categories."""
    from colonnade.columns.writer import ColumnWriter
    from colonnade.layouts.text_writer import TextWriter

    if options.masked:
        raise UsageError(f"column {name!r}: H5Col marks missing rows with a fill: leave out masked=True", column=name)
    if options.sparse:
        raise UsageError(f"column {name!r}: H5Col has no sparse columns: leave out sparse=True", column=name)
    if is_list(kind):
        if is_label:
            raise UsageError(f"label {name!r} holds lists, which cannot be labels", column=name, rule="JI1")
        return ListWriter(name, kind, options)
    if may_be_categories(kind, options, is_label):
        return TextWriter(name, kind, options, large_attributes, JULY_MARKING)
    return ColumnWriter(name, kind, options, large_attributes, marking=JULY_MARKING)


def complete_columns(group: EditableGroup, columns: Sequence[WrittenColumn], labels: Sequence[WrittenColumn]) -> None:
    """Step 3: write everything that makes the datasets and groups of a table columns."""
    for column in (*columns, *labels):
        _write_column_attributes(group, column)


def complete_group(
    group: EditableGroup, columns: Sequence[WrittenColumn], labels: Sequence[WrittenColumn], text: TableText
) -> None:
    """Step 4: write everything that makes the group a table."""
    write_table_texts(group, text)
    every = [*columns, *labels]
    writing.write_integer(group, names.NROWS, every[0].n_rows if every else 0)
    write_order(group, [column.name for column in every])
    _write_labels(group, [label.name for label in labels])
    writing.write_terminated(group, names.CLASS, names.CLASS_VALUE)


def _write_column_attributes(group: EditableGroup, column: WrittenColumn) -> None:
    node = _node(group, column)
    for name, value in (
        (names.UNITS, column.units),
        (names.UNITS_VOCABULARY, column.options.units_vocabulary),
        (names.DESCRIPTION, column.options.description),
        (names.ARROW_TYPE, None if is_list(column.kind) else column.arrow_type),
    ):
        if value is not None:
            writing.write_text(node, name, value)
    if pa.types.is_decimal(column.kind) and column.form.stored.kind == "integer" and column.kind.scale:
        writing.write_number(node, names.SCALE_FACTOR, 10.0**-column.kind.scale)
    if column.categories is not None:
        target = _write_categories(group, column)
        writing.write_reference(column.dataset, names.CATEGORIES, target, has_standard_references(group))
    elif not is_list(column.kind):
        _write_range(column.dataset, column.form.stored, column.form.fill)


def _node(group: EditableGroup, column: WrittenColumn) -> EditableNode:
    """What the attributes of a column are set on."""
    if not is_list(column.kind):
        return column.dataset
    inner = group.open_group(column.name)
    assert inner is not None  # it was just written
    return inner


def write_range_again(dataset: EditableNode, stored: StoredType, fill: bytes | None) -> None:
    """Write the valid range that suits another fill: the former one may leave out values, or hold the fill."""
    for name in (names.VALID_MIN, names.VALID_MAX):
        writing.delete_attribute(dataset, name)
    _write_range(dataset, stored, fill)


def _write_range(dataset: EditableNode, stored: StoredType, fill: bytes | None) -> None:
    """The valid range of numbers whose fill is not the recommended one: their domain without the fill (JM5).

    A fill between other values has none: any range would leave out values that the column holds or may be given.
    """
    if fill is None or stored.kind not in ("integer", "float") or memory_dtype(stored).kind not in "iuf":
        return
    if fill == next(recommended_fills(stored), None):
        return
    bounds = _domain_without(stored, fill)
    for name, bound in zip((names.VALID_MIN, names.VALID_MAX), bounds or (), strict=False):
        writing.write_element(dataset, name, stored, np.array(bound, dtype=memory_dtype(stored)).tobytes())


def _domain_without(stored: StoredType, fill: bytes) -> tuple[float, float] | None:
    """The bounds of a datatype that leave out its fill and no other value; None if it lies between others."""
    dtype = memory_dtype(stored)
    value = np.frombuffer(fill, dtype=dtype)[0]
    if dtype.kind == "f":
        if np.isinf(value):
            edge = np.nextafter(value, dtype.type(0))
            return (-np.inf, edge) if value > 0 else (edge, np.inf)
        return (-np.inf, np.inf) if np.isnan(value) else None
    low, high = integer_bounds(stored)
    if value == low:
        return low + 1, high
    return (low, high - 1) if value == high else None


def _write_categories(group: EditableGroup, column: WrittenColumn) -> EditableDataset:
    """Write the categories of a column into the group of categories (JK2)."""
    values = column.categories
    assert values is not None  # checked by the caller
    home = group.open_group(names.CATEGORIES)
    if home is None:
        home = writing.create_group(group, names.CATEGORIES)
    name, number = f"{column.name}__{names.CATEGORIES}", 2
    while home.has_link(name):
        name = f"{column.name}__{names.CATEGORIES}_{number}"
        number += 1
    dataset, stored = create_categories(home, name, values, column.name, even=True, fewest=1)
    if column.ordered:
        writing.write_flag(dataset, names.ORDERED, True)
    write_meaning(dataset, stored, values.type)
    return dataset


def note_pandas(node: EditableNode | SparseDraft, note: str | None) -> None:
    """Write the pandas metadata of a column or frame that the file does not express otherwise; None removes it."""
    assert not hasattr(node, "attributes")  # H5Col has no sparse columns
    write_note(node, note)


# -- changes of rows --


def resume_column(group: EditableGroup, column: ColumnInfo) -> ColumnWriter | ListWriter:
    """A writer that appends to an existing column."""
    from colonnade.columns.writer import ColumnWriter

    if isinstance(column.row_form, Lists):
        return ListWriter.resume(group, column)
    if column.is_masked:
        raise UnsupportedError(
            f"cannot change the rows of column {column.name!r}: it has the attribute MASK, which H5Col reserves and no "
            "writer may write. Replace the column, or write the table to a new file",
            feature="changing columns with the attribute MASK",
            column=column.name,
        )
    dataset, companion = open_column(group, column)
    categories = None
    if column.categories is not None:
        categories = ColumnReader(column, dataset, companion).categories()
    return ColumnWriter.resume(column, group, editable(dataset), categories, marking=JULY_MARKING)


def begin_change(group: EditableGroup) -> None:
    """From here on no search index is valid (JG2, JG5). A table without indexes needs no GENERATION."""
    if count_of(group, names.GENERATION) is not None or group.attribute_storage(names.GENERATION) is not None:
        writing.write_integer(group, names.GENERATION, next_generation(group))


def count_rows(group: EditableGroup, n_rows: int) -> None:
    """Write the number of rows, which commits them."""
    writing.write_integer(group, names.NROWS, n_rows)


def extend(group: EditableGroup, info: TableInfo, written: Sequence[WrittenColumn]) -> bool:
    """Update GENERATION, categories, types and references after rows of these columns were changed.

    Returns whether `info` is still valid, apart from its length and the number of categories.
    """
    begin_change(group)
    holds = not any(is_list(column.kind) for column in written)
    for column in written:
        before = info.by_name[column.name]
        if column.categories is not None:
            holds &= _extend_categories(group, column, info)
        if not is_list(column.kind) and column.arrow_type is not None and column.arrow_type != before.arrow_type:
            writing.write_text(column.dataset, names.ARROW_TYPE, column.arrow_type)
            holds = False
        if column.replaced and not is_list(column.kind) and column.form.fill != before.fill:
            write_range_again(column.dataset, column.form.stored, column.form.fill)
    replaced = [column.name for column in written if column.replaced]
    if replaced:
        relink(group, info, replaced)
        holds = False
    return holds


def relink(group: EditableGroup, info: TableInfo, replaced: Sequence[str]) -> None:
    """Write the references to columns again whose datasets are new (JW9)."""
    if not set(replaced).isdisjoint(info.label_names):
        _write_labels(group, info.label_names)


def _extend_categories(group: EditableGroup, column: WrittenColumn, info: TableInfo) -> bool:
    """Append new categories to the existing ones. If that is impossible, write all of them again and return False."""
    before = info.by_name[column.name]
    assert column.categories is not None and before.categories is not None
    n_before = before.categories.n_categories
    if len(column.categories) == n_before:
        return True
    dataset = group.open_dataset(before.categories.name) if before.categories.name else None
    shared = _users_of(info, before.categories.name) - {column.name}
    if not shared and dataset is not None and add_categories(dataset, column.categories, n_before, column.name):
        return True
    _unlink_categories(group, info, column.name)
    target = _write_categories(group, column)
    writing.write_reference(column.dataset, names.CATEGORIES, target, has_standard_references(group))
    return False


def _users_of(info: TableInfo, categories: str) -> set[str]:
    """The columns that use these categories."""
    return {c.name for c in info.members if c.categories is not None and c.categories.name == categories}


def _unlink_categories(group: EditableGroup, info: TableInfo, name: str) -> None:
    """Remove the categories of a column, unless other columns use them too (JK4)."""
    gone = info.by_name[name].categories
    if gone is None or not gone.name or not group.has_link(gone.name) or _users_of(info, gone.name) - {name}:
        return
    home_name, _, link = gone.name.partition("/")
    home = group.open_group(home_name)
    if home is not None and link:
        unlink(home, link)
        if not home.children():
            unlink(group, home_name)


def _unlink_mask(group: EditableGroup, info: TableInfo, name: str, dataset: Dataset | None) -> None:
    """Remove the mask of a column from the group of its table."""
    if info.by_name[name].is_masked and dataset is not None:
        for mask in mask_names(group, [dataset]):
            unlink(group, mask)


# -- changes of columns --


def attach_column(group: EditableGroup, info: TableInfo, column: WrittenColumn) -> None:
    """Make a written dataset the last column of the table."""
    _write_column_attributes(group, column)
    if not info.members:
        count_rows(group, column.n_rows)
    write_order(group, [*info.column_names, column.name])


def detach_column(group: EditableGroup, info: TableInfo, name: str) -> None:
    """Remove a column, its categories, its mask, and every reference to it."""
    _unlink_categories(group, info, name)
    _unlink_mask(group, info, name, group.open_dataset(name))
    unlink(group, name)
    write_order(group, [column for column in info.column_names if column != name])
    if name in info.label_names:
        _write_labels(group, [label for label in info.label_names if label != name])


def rename_column(group: EditableGroup, info: TableInfo, name: str, new_name: str) -> None:
    """Rename a column. References refer to the object, so they stay valid."""
    rename(group, name, new_name)
    categories = info.by_name[name].categories
    home = group.open_group(names.CATEGORIES)
    usual, new = (f"{column}__{names.CATEGORIES}" for column in (name, new_name))
    is_usual = categories is not None and categories.name == f"{names.CATEGORIES}/{usual}"
    is_alone = categories is not None and _users_of(info, categories.name) == {name}
    if home is not None and is_usual and is_alone and not home.has_link(new):
        rename(home, usual, new)
    write_order(group, [new_name if column == name else column for column in info.column_names])
    if info.label_names[:1] == [name]:
        writing.write_text(group, names.INDEX, new_name)


def set_labels(group: EditableGroup, info: TableInfo, labels: Sequence[str]) -> None:
    """Make these columns the labels. They stay columns, as former labels do."""
    for name in labels:
        if isinstance(info.by_name[name].row_form, Lists):
            raise UsageError(f"column {name!r} holds lists, which cannot be labels", column=name, rule="JI1")
    _write_labels(group, labels)


def replace_column(group: EditableGroup, info: TableInfo, column: WrittenColumn, old: EditableDataset | None) -> None:
    """Make a newly written dataset or group the column of its name, instead of the old one.

    Attributes of other programs, and the units vocabulary, are copied from the old one.
    """
    valid = [index for index in search_indexes(group, _without(info, column.name)) if index.problem is None]
    begin_change(group)
    _unlink_categories(group, info, column.name)
    _unlink_mask(group, info, column.name, old)
    _write_column_attributes(group, column)
    if old is not None:
        writing.copy_attributes(old, _node(group, column), without=names.VALUE_ATTRIBUTES)
    relink(group, info, [column.name])
    write_tokens(group, [editable(index.dataset) for index in valid])


def _without(info: TableInfo, name: str) -> TableInfo:
    """The table without one column, which is not in its place for now."""
    return replace(info, columns=tuple(c for c in info.columns if c.name != name), labels=())


def _write_labels(group: EditableGroup, labels: Sequence[str]) -> None:
    """Write INDEX_COLUMNS, and the name of the first label."""
    if labels:
        targets = [dataset_at(group, name) for name in labels]
        writing.write_references(group, names.INDEX_COLUMNS, targets, has_standard_references(group))
        writing.write_text(group, names.INDEX, labels[0])
    else:
        writing.delete_attribute(group, names.INDEX_COLUMNS)
        writing.delete_attribute(group, names.INDEX)


def set_texts(group: EditableGroup, info: TableInfo, name: str | None, strings: Mapping[str, str | None]) -> None:
    """Set (or remove, with None) title, description, units and vocabulary of the table or of one column."""
    node = group if name is None else editable(column_node(group, info.by_name[name]))
    for key, text in strings.items():
        attribute = names.TITLE if key == "title" else key
        if key == "units" and name is not None and not isinstance(info.by_name[name].row_form, Lists):
            keep_type(node, info.by_name[name], text)
        if text is None:
            writing.delete_attribute(node, attribute)
        else:
            writing.write_text(node, attribute, text)


def sparse_attributes(column: ColumnInfo, strings: Mapping[str, str | None]) -> dict[str, str | None]:
    """Never called: H5Col has no sparse columns."""
    return dict(strings)


clear = LAYOUT.clear_group
