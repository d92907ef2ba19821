"""An AnnData data frame written as anndata writes it: the same attributes and HDF5 types; datasets in chunks, so that
rows can be added.

The order of writing:
1. the group, without attributes: until the end it is no frame;
2. columns and row labels, row by row (by `writer`);
3. categories, and the encoding of each column;
4. the group's attributes, encoding-type last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from colonnade.columns.categories_dataset import add_categories, create_categories
from colonnade.errors import FormatError, UnsupportedError, UsageError
from colonnade.h5 import attributes
from colonnade.h5.attributes import LARGEST_IN_HEADER
from colonnade.h5.links import create_group, exists, open_group, rename, unlink
from colonnade.layouts.anndata import names
from colonnade.layouts.anndata.describe import describe, open_categories
from colonnade.model import ColumnInfo, ColumnOptions, TableInfo, TableText

if TYPE_CHECKING:
    from colonnade.columns.writer import WrittenColumn
    from colonnade.layouts.anndata.writer import FrameWriter

TEXT_DESCRIPTOR = 16  # bytes that a text of variable length takes in an attribute


def needs_large_attributes(n_columns: int, _longest_name: int) -> bool:
    """Whether column-order outgrows an object header."""
    return n_columns * TEXT_DESCRIPTOR > LARGEST_IN_HEADER


def make_group(root: Any, path: str, large_attributes: bool) -> Any:
    """A new group for a frame."""
    return create_group(root, path, large_attributes)


def check_can_change(group: Any, info: TableInfo) -> None:
    """Refuse frames that can only be read: of version 0.1.0, and those that show the columns of another table."""
    if info.version != names.VERSIONS[0]:
        raise UnsupportedError(
            f"{info.path} is an AnnData data frame of version {info.version}, which is read here and not changed: "
            "write it anew (write_element, or a table of layout 'anndata')",
            feature=f"changes of AnnData dataframe {info.version}",
            path=info.path,
        )
    check_has_one_face(group, info.path)
    wrong = next((one for one in info.problems if one.severity == "error"), None)
    if wrong is not None:
        raise FormatError(f"{info.path} cannot be changed: {wrong.path}: {wrong.message}", path=wrong.path)


def check_has_one_face(group: Any, path: str) -> None:
    """Refuse a frame whose columns are those of a HEP001 table inside it: that is the one to change."""
    if exists(group, names.OTHER_FACE):
        raise UsageError(
            f"{path} shows the columns of a HEP001 table, its member {names.OTHER_FACE!r}, to anndata: change that "
            "one, and index it, and both will agree",
            path=path,
            member=names.OTHER_FACE,
        )


def new_writer(
    name: str, kind: pa.DataType, options: ColumnOptions, _large_attributes: bool = False, is_label: bool = False
) -> FrameWriter:
    """What writes a new column."""
    from colonnade.layouts.anndata.writer import FrameWriter

    if options.sparse:
        raise UsageError(f"column {name!r}: AnnData has no sparse columns: leave out sparse=True", column=name)
    if is_label and pa.types.is_null(kind):  # of no rows: what pandas keeps as objects has no type then
        kind = pa.string()
    return FrameWriter(name, kind, options)


def resume_column(group: Any, column: ColumnInfo) -> FrameWriter:
    """A writer for the rows behind those that a column has."""
    from colonnade.layouts.anndata.writer import FrameWriter

    return FrameWriter.resume(column, group)


def complete_columns(group: Any, columns: Sequence[WrittenColumn], labels: Sequence[WrittenColumn]) -> None:
    """Step 3: everything that makes the members of a group columns and labels."""
    for column in (*columns, *labels):
        _complete_column(group, column)


def complete_group(
    group: Any, columns: Sequence[WrittenColumn], labels: Sequence[WrittenColumn], _text: TableText
) -> None:
    """Step 4: everything that makes the group a frame."""
    _write_order(group, [column.name for column in columns])
    attributes.write_variable_text(group, names.INDEX, labels[0].name)
    write_encoding(group, (names.DATAFRAME, names.VERSIONS[0]))


def write_encoding(node: Any, encoding: tuple[str, str]) -> None:
    """Say what an object is, as anndata does."""
    attributes.write_variable_text(node, names.ENCODING_VERSION, encoding[1])
    attributes.write_variable_text(node, names.ENCODING_TYPE, encoding[0])


def _complete_column(group: Any, column: WrittenColumn) -> None:
    """Give the datasets of a column, and its group if it is one, their encoding; write its categories."""
    write_encoding(column.dataset, _dataset_encoding(column))
    if column.mask is not None:
        write_encoding(column.mask, names.ARRAY)
        write_encoding(open_group(group, column.name), _nullable_encoding(column))
    if column.categories is not None:
        inner = open_group(group, column.name)
        _write_categories(inner, column)
        attributes.write_flag(inner, names.ORDERED, column.ordered)
        write_encoding(inner, names.CATEGORICAL)


def _dataset_encoding(column: WrittenColumn) -> tuple[str, str]:
    return names.STRINGS if column.form.stored.kind in ("text", "string") else names.ARRAY


def _nullable_encoding(column: WrittenColumn) -> tuple[str, str]:
    kinds = {"boolean": names.NULLABLE_BOOLEANS, "integer": names.NULLABLE_INTEGERS}
    return kinds.get(column.form.stored.kind, names.NULLABLE_STRINGS)


def _write_categories(group: Any, column: WrittenColumn) -> None:
    assert column.categories is not None  # the caller asked
    dataset, stored = create_categories(group, "categories", column.categories, column.name)
    write_encoding(dataset, names.STRINGS if stored.kind == "text" else names.ARRAY)


def extend(group: Any, info: TableInfo, written: Sequence[WrittenColumn]) -> bool:
    """After rows were added to columns: categories and encodings as they must be now.

    Says whether what is told of the frame still holds, up to its length and the number of categories.
    """
    holds = True
    for column in written:
        before = info.by_name[column.name]
        if column.mask is not None and not before.is_masked:
            _complete_column(group, column)
            holds = False
        if column.categories is not None:
            holds &= _extend_categories(open_group(group, column.name), column, before)
    return holds and not any(column.replaced for column in written)


def _extend_categories(group: Any, column: WrittenColumn, before: ColumnInfo) -> bool:
    """Add new categories to those that are there; where that cannot be, write all of them anew, and say False."""
    assert column.categories is not None and before.categories is not None
    n_before = before.categories.n_categories
    if len(column.categories) == n_before:
        return True
    if add_categories(open_categories(group), column.categories, n_before, column.name):
        return True
    unlink(group, "categories")
    _write_categories(group, column)
    return False


def attach_column(group: Any, info: TableInfo, column: WrittenColumn) -> None:
    """Make what was just written a column, behind the others."""
    _complete_column(group, column)
    _write_order(group, [*(c.name for c in info.columns), column.name])


def detach_column(group: Any, info: TableInfo, name: str) -> None:
    """Remove a column. Row labels stay: a frame must have them."""
    is_label = any(label.name == name for label in info.labels)
    order = [column.name for column in info.columns]
    if is_label and name not in order:
        raise UsageError(
            f"{name!r} are the row labels of {info.path}, without which it is no AnnData data frame", column=name
        )
    if not is_label:
        unlink(group, name)
    _write_order(group, [one for one in order if one != name])


def rename_column(group: Any, info: TableInfo, name: str, new_name: str) -> None:
    """Give a column or the row labels another name."""
    if new_name == names.UNNAMED and any(column.name == name for column in info.columns):
        raise UsageError(f"a column cannot be called {new_name!r}, which is the name of row labels", column=name)
    rename(group, name, new_name)
    if any(column.name == name for column in info.columns):
        _write_order(group, [new_name if column.name == name else column.name for column in info.columns])
    if info.index_name == name:
        attributes.write_variable_text(group, names.INDEX, new_name)


def replace_column(group: Any, _info: TableInfo, column: WrittenColumn, _old: Any) -> None:
    """Make what was just written the column of its name."""
    _complete_column(group, column)


def _write_order(group: Any, order: Sequence[str]) -> None:
    check_order_fits(group, order)
    attributes.write_variable_texts(group, names.COLUMN_ORDER, order)


def check_order_fits(group: Any, order: Sequence[str]) -> None:
    """Refuse more names of columns than the attribute of this group can hold."""
    if not attributes.can_hold(group, len(order) * TEXT_DESCRIPTOR):
        raise UsageError(
            f"{len(order)} columns are more than this frame can name: it was made without room for attributes above "
            "64 KiB. Write it anew",
        )


def set_texts(_group: Any, info: TableInfo, name: str | None, texts: Mapping[str, str | None]) -> None:
    """A frame has no place for texts."""
    where = info.path if name is None else f"column {name!r} of {info.path}"
    raise UnsupportedError(
        f"{where}: an AnnData data frame has no place for {', '.join(texts)}", feature="texts of AnnData data frames"
    )


def own_objects(group: Any) -> set[str]:
    """The names of the frame's own objects in its group: columns, labels, search indexes, its other face."""
    info = describe(group, "/")
    own = {column.name.split("/")[0] for column in info.members}
    return {name for name in own | set(names.NO_COLUMNS) if exists(group, name)}


def clear(group: Any) -> None:
    """Remove the frame's own objects and attributes from its group; what others put there stays."""
    for name in sorted(own_objects(group)):
        unlink(group, name)
    for name in names.GROUP_ATTRIBUTES:
        attributes.delete(group, name)
