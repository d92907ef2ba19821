"""Writes an AnnData data frame as anndata does, with the same attributes and HDF5 types, but always in chunks.

Chunked datasets allow rows to be added. The order of writing:
1. the group, without attributes: it is not a frame until the end;
2. columns and row labels, row by row (by `writer`);
3. categories, and the encoding of each column;
4. the group's attributes, encoding-type last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from colonnade import writing
from colonnade.columns.forms import add_categories, create_categories
from colonnade.errors import FormatError, UnsupportedError, UsageError
from colonnade.h5.attributes import LARGEST_IN_HEADER
from colonnade.h5.handles import create_group
from colonnade.h5.links import move, rename, unlink
from colonnade.layouts.anndata import LAYOUT, names
from colonnade.layouts.anndata.describe import nullable_categories, open_categories
from colonnade.layouts.frame_parts import header_of, member_of
from colonnade.model import ColumnInfo, ColumnOptions, Plain, TableInfo, TableText
from colonnade.nodes import EditableDataset, EditableGroup, EditableNode, Group, attributes
from colonnade.nodes.damage import hdf5_errors
from colonnade.nodes.paths import editable, group_at
from colonnade.stored_dtypes import memory_dtype

if TYPE_CHECKING:
    from colonnade.columns.writer import WrittenColumn
    from colonnade.layouts.anndata.writer import FrameWriter
    from colonnade.layouts.contract import NewSidecars

_ASIDE = "\x01nullable"
TEXT_DESCRIPTOR = 16  # bytes that a string of variable length takes in an attribute
sidecars: NewSidecars | None = None
check_name, check_members = names.check_name, names.check_members


def needs_large_attributes(n_columns: int, _longest_name: int) -> bool:
    """Whether column-order outgrows an object header."""
    return n_columns * TEXT_DESCRIPTOR > LARGEST_IN_HEADER


def make_group(root: EditableGroup, path: str, large_attributes: bool) -> EditableGroup:
    """A new group for a frame."""
    return create_group(root, path, large_attributes)


def check_can_change(group: Group, info: TableInfo) -> None:
    """Refuse frames that can only be read: those of version 0.1.0, and views of a HEP001 table."""
    if info.version != names.VERSIONS[0]:
        raise UnsupportedError(
            f"cannot change {info.path}: it is an AnnData data frame of version {info.version}, which can only be "
            "read. Write it again (write_element, or a table of layout 'anndata').",
            feature=f"changes of AnnData dataframe {info.version}",
            path=info.path,
        )
    names.check_has_one_face(group, info.path)
    wrong = next((one for one in info.problems if one.severity == "error"), None)
    if wrong is not None:
        raise FormatError(f"cannot change {info.path}: {wrong.path}: {wrong.message}", path=wrong.path)


def new_writer(
    name: str, kind: pa.DataType, options: ColumnOptions, _large_attributes: bool = False, is_label: bool = False
) -> FrameWriter:
    """The writer of a new column."""
    from colonnade.layouts.anndata.writer import FrameWriter

    if options.sparse:
        raise UsageError(f"column {name!r}: AnnData has no sparse columns: leave out sparse=True", column=name)
    if is_label and pa.types.is_null(kind):  # no rows: pandas object columns have no type then
        kind = pa.string()
    return FrameWriter(name, kind, options)


def resume_column(group: EditableGroup, column: ColumnInfo) -> FrameWriter:
    """A writer that appends to an existing column."""
    from colonnade.layouts.anndata.writer import FrameWriter

    return FrameWriter.resume(column, group)


def complete_columns(group: EditableGroup, columns: Sequence[WrittenColumn], labels: Sequence[WrittenColumn]) -> None:
    """Step 3: write everything that makes the members of a group columns and labels."""
    for column in (*columns, *labels):
        _complete_column(group, column)


def complete_group(
    group: EditableGroup, columns: Sequence[WrittenColumn], labels: Sequence[WrittenColumn], _text: TableText
) -> None:
    """Step 4: write everything that makes the group a frame."""
    _write_order(group, [column.name for column in columns])
    writing.write_variable_text(group, names.INDEX, labels[0].name)
    write_encoding(group, (names.DATAFRAME, names.VERSIONS[0]))


def write_encoding(node: EditableNode, encoding: tuple[str, str]) -> None:
    """Write the encoding attributes of an object, as anndata does."""
    writing.write_variable_text(node, names.ENCODING_VERSION, encoding[1])
    writing.write_variable_text(node, names.ENCODING_TYPE, encoding[0])


def _complete_column(group: EditableGroup, column: WrittenColumn) -> None:
    """Write the encoding of a column's datasets, and of its group if it is one; write its categories."""
    write_encoding(column.dataset, _dataset_encoding(column))
    if column.mask is not None:
        write_encoding(column.mask, names.ARRAY)
        write_encoding(group_at(group, column.name), _nullable_encoding(column))
    if column.categories is not None:
        inner = group_at(group, column.name)
        _write_categories(inner, column)
        writing.write_flag(inner, names.ORDERED, column.ordered)
        write_encoding(inner, names.CATEGORICAL)


def _dataset_encoding(column: WrittenColumn) -> tuple[str, str]:
    return names.STRING_ENCODINGS if column.form.stored.kind in ("text", "string") else names.ARRAY


def _nullable_encoding(column: WrittenColumn) -> tuple[str, str]:
    kinds = {"boolean": names.NULLABLE_BOOLEANS, "integer": names.NULLABLE_INTEGERS}
    return kinds.get(column.form.stored.kind, names.NULLABLE_STRINGS)


def _write_categories(group: EditableGroup, column: WrittenColumn) -> None:
    assert column.categories is not None  # checked by the caller
    dataset, stored = create_categories(group, "categories", column.categories, column.name)
    write_encoding(dataset, names.STRING_ENCODINGS if stored.kind == "text" else names.ARRAY)


def extend(group: EditableGroup, info: TableInfo, written: Sequence[WrittenColumn]) -> bool:
    """Update categories and encodings after rows were added to columns.

    Returns whether `info` is still valid, apart from its length and the number of categories.
    """
    holds = True
    for column in written:
        before = info.by_name[column.name]
        if column.mask is not None and not before.is_masked:
            _complete_column(group, column)
            holds = False
        if column.categories is not None:
            holds &= _extend_categories(group_at(group, column.name), column, before)
    return holds and not any(column.replaced for column in written)


def _extend_categories(group: EditableGroup, column: WrittenColumn, before: ColumnInfo) -> bool:
    """Append new categories to the existing ones. If that is impossible, write all of them again and return False."""
    assert column.categories is not None and before.categories is not None
    n_before = before.categories.n_categories
    if len(column.categories) == n_before:
        return True
    dataset, nullable = open_categories(group), nullable_categories(group)
    if (
        dataset is not None
        and add_categories(editable(dataset), column.categories, n_before, column.name)
        and (nullable is None or _extend_mask(nullable, n_before, len(column.categories)))
    ):
        return True
    na_value = None if nullable is None else attributes.read_text(nullable, names.NA_VALUE)
    unlink(group, "categories")
    _write_categories(group, column)
    if nullable is not None:
        make_categories_nullable(group, na_value)
    return False


def _extend_mask(group: Group, n_before: int, n_now: int) -> bool:
    """Mark new nullable strings as present; False if their mask cannot grow."""
    mask = editable(member_of(group, "mask"))
    info = mask.describe()
    if info.type.kind != "boolean" or info.chunk_rows is None or info.shape != (n_before,):
        return False
    try:
        writing.resize(mask, n_now)
    except hdf5_errors():
        return False
    present = np.zeros(n_now - n_before, memory_dtype(info.type))
    writing.write_rows(mask, info.type, n_before, present, len(present))
    return True


def make_categories_nullable(group: EditableGroup, na_value: str | None) -> None:
    """Turn the categories of a categorical, a dataset of strings, into nullable strings of which none is missing."""
    _, n_categories = header_of(group.open_dataset("categories"), "its categories dataset")
    inner = create_group(group, _ASIDE)
    move(group, "categories", inner, "values")
    mask, _ = create_categories(inner, "mask", pa.array(np.zeros(n_categories, dtype=bool)), "mask")
    write_encoding(mask, names.ARRAY)
    if na_value is not None:
        writing.write_variable_text(inner, names.NA_VALUE, na_value)
    write_encoding(inner, names.NULLABLE_STRINGS)
    rename(group, _ASIDE, "categories")


def attach_column(group: EditableGroup, info: TableInfo, column: WrittenColumn) -> None:
    """Make a newly written member the last column."""
    _complete_column(group, column)
    _write_order(group, [*(c.name for c in info.columns), column.name])


def detach_column(group: EditableGroup, info: TableInfo, name: str) -> None:
    """Remove a column. Row labels stay: a frame must have them."""
    is_label = any(label.name == name for label in info.labels)
    order = [column.name for column in info.columns]
    if is_label and name not in order:
        raise UsageError(
            f"cannot drop {name!r}: an AnnData data frame must have row labels, and these are those of {info.path}",
            column=name,
        )
    if not is_label:
        unlink(group, name)
    _write_order(group, [one for one in order if one != name])


def rename_column(group: EditableGroup, info: TableInfo, name: str, new_name: str) -> None:
    """Rename a column or the row labels."""
    if new_name == names.UNNAMED and any(column.name == name for column in info.columns):
        raise UsageError(f"a column cannot be named {new_name!r}, which is the name of row labels", column=name)
    rename(group, name, new_name)
    if any(column.name == name for column in info.columns):
        _write_order(group, [new_name if column.name == name else column.name for column in info.columns])
    if info.index_name == name:
        writing.write_variable_text(group, names.INDEX, new_name)


def reorder_columns(group: EditableGroup, _info: TableInfo, order: Sequence[str]) -> None:
    """Write another order of the columns."""
    _write_order(group, order)


def set_labels(group: EditableGroup, info: TableInfo, labels: Sequence[str]) -> None:
    """Make a column the row labels, and the former row labels the last column."""
    if len(labels) != 1:
        raise UsageError(f"cannot set {len(labels)} labels of {info.path}: {names.FRAME} has exactly one")
    (name,), (before,) = labels, info.label_names
    column = info.by_name[name]
    if column.categories is not None or column.is_masked or column.form != Plain():
        raise UsageError(
            f"cannot make column {name!r} the row labels: they must be stored as an array, without missing rows. "
            f"Replace it first: replace_column({name!r}, ...)",
            column=name,
        )
    order = [member.name for member in info.columns if member.name != name]
    if before not in order:
        if before == names.UNNAMED:
            raise UsageError(
                f"cannot make the row labels of {info.path} a column: {before!r} is not a name of a column. "
                f"Rename them first: rename_column({before!r}, ...)",
                column=before,
            )
        order.append(before)
    _write_order(group, order)
    writing.write_variable_text(group, names.INDEX, name)


def replace_column(group: EditableGroup, _info: TableInfo, column: WrittenColumn, _old: EditableDataset | None) -> None:
    """Make a newly written member the column of its name."""
    _complete_column(group, column)


def _write_order(group: EditableGroup, order: Sequence[str]) -> None:
    check_order_fits(group, order)
    writing.write_variable_texts(group, names.COLUMN_ORDER, order)


def check_order_fits(group: EditableGroup, order: Sequence[str]) -> None:
    """Refuse more column names than the attribute of this group can hold."""
    if not writing.can_hold(group, len(order) * TEXT_DESCRIPTOR):
        raise UsageError(
            f"{len(order)} columns are more than this frame can name: it was created without support for attributes "
            "above 64 KiB. Write it again",
        )


def set_texts(_group: EditableGroup, info: TableInfo, name: str | None, texts: Mapping[str, str | None]) -> None:
    """Refuse: a frame cannot store units, titles or descriptions."""
    where = info.path if name is None else f"column {name!r} of {info.path}"
    raise UnsupportedError(
        f"{where}: an AnnData data frame cannot store {', '.join(texts)}", feature="texts of AnnData data frames"
    )


def sparse_attributes(_column: ColumnInfo, _strings: Mapping[str, str | None]) -> dict[str, str | None]:
    """A frame has no sparse columns."""
    return {}


def note_pandas(_node: object, _note: str | None) -> None:
    """A frame keeps no notes about pandas types."""


def count_rows(_group: EditableGroup, _n_rows: int) -> None:
    """The number of rows is the length of the columns; it is not stored."""


clear = LAYOUT.clear_group
