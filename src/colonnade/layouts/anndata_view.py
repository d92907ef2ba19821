"""The AnnData view of a HEP001 table: lets anndata read the table as a data frame, and keeps both in sync.

| recipe | where | for |
| --- | --- | --- |
| R0 | the table's own group is a frame 0.2.0 too | no categoricals, nothing missing but floats |
| R1 | as R0, with a frame 0.1.0; labels of categoricals are copied to `__categories` | when one group must be both |
| R2 | the table is the member `_hep001` of a frame 0.2.0 that has hard links to its columns | everything |

`anndata_recipes` finds the view of a table; this module makes it and changes it.

In an R2 view a categorical is a group with a link to the codes and a copy of the categories; a column with missing rows
is a group with a link to the values and its own mask. Booleans with missing rows, whose datatype anndata does not know,
are copied. Floats of such tables have NaN as their fill, and strings have variable length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal

import pyarrow as pa

from colonnade import writing
from colonnade.columns.forms import add_categories, create_categories
from colonnade.columns.mapping import BOOLEAN, plain_type
from colonnade.dataclass import dataclass, replace
from colonnade.errors import DataError, UsageError
from colonnade.h5.datasets import DatasetPlan
from colonnade.h5.handles import create_dataset, create_group
from colonnade.h5.links import holds_large_attributes, link_again, move, unlink
from colonnade.h5.row_sink import RowSink, resize
from colonnade.layouts import LAYOUTS, Layout
from colonnade.layouts.anndata import names
from colonnade.layouts.anndata.write import check_order_fits, write_encoding
from colonnade.layouts.anndata_recipes import Pieces, Recipe, TableRows, frame_around, may_miss, shown_columns
from colonnade.model import AUTO, ColumnInfo, ColumnOptions, StoredType, TableInfo
from colonnade.nodes import EditableDataset, EditableGroup, Group, attributes
from colonnade.nodes.elements import default_chunk_rows
from colonnade.nodes.paths import dataset_at, editable, group_at
from colonnade.selection import Selection

AnnDataOption = bool | Literal["0.7"]
Touched = Mapping[str, Selection | None]
"""Columns with changed rows, and which rows; None for all."""

# -- before a byte is written --


def check_wish(wish: AnnDataOption, layout: str, columns: Sequence[str]) -> None:
    """Refuse a view that does not exist, or that this table cannot have."""
    if wish not in (True, "0.7"):
        raise UsageError(f"anndata must be True, False or '0.7', not {wish!r}", option="anndata")
    if layout != "hep001":
        raise UsageError(f"anndata={wish!r} is for tables of layout 'hep001'; this table has layout {layout!r}")
    if not columns:
        raise UsageError("a table with an AnnData view needs a column", option="anndata")


def faced_options(name: str, kind: pa.DataType, options: ColumnOptions) -> ColumnOptions:
    """The options of a column that anndata must be able to read; columns that AnnData has no form for are refused."""
    asked = replace(options, units=None, units_vocabulary=None, description=None)
    coded = options.strings == "categories"
    if coded:
        asked = replace(asked, strings="auto", categories=True)
    elif pa.types.is_floating(plain_type(kind)) and not options.categories:
        asked = replace(asked, fill=AUTO if _is_nan(options.fill) else options.fill)
        options = replace(options, fill=float("nan") if options.fill is AUTO else options.fill)
    else:
        asked = replace(asked, fill=AUTO)
    names.check_name(name)
    LAYOUTS["anndata"].create().new_writer(name, kind, asked, False, False)
    if options.strings == "auto" and options.categories is None:
        options = replace(options, strings="variable")
    return options


def _is_nan(fill: object) -> bool:
    return isinstance(fill, float) and fill != fill  # noqa: PLR0124 - only NaN differs from itself


# -- a new table --


def make_face(group: EditableGroup, path: str, layout: Layout, wish: AnnDataOption) -> str:
    """Give a newly written table the view that suits it; returns the path of the table, which may have moved."""
    info = layout.describe(group, path)
    rows = TableRows(group, layout)
    if wish == "0.7":
        _face_old(group, info, rows, Others())
        return path
    odd = next((column for column in shown_columns(info) if _needs_group(column, rows, Others())), None)
    if odd is None:
        _face_plain(group, info, "0.2.0")
        return path
    table = f"{path.rstrip('/')}/{names.OTHER_FACE}"
    inner = _move_inside(group, layout)
    FrameView(group, inner, layout, layout.describe(inner, table)).follow(Others())
    return table


@dataclass(frozen=True)
class Others:
    """Which rows may differ from what the view shows: by default all, as in a new table."""

    n_before: int = 0
    touched: Touched = field(default_factory=dict)

    def of(self, column: ColumnInfo) -> Selection:
        touched = self.touched.get(column.name, Selection.none())
        if touched is None:
            return Selection.of(0, column.n_rows)
        return (touched | Selection.of(self.n_before, column.n_rows)).within(0, column.n_rows)

    def may_be_new(self, column: ColumnInfo) -> bool:
        """Whether nothing known about the column holds any more."""
        return not self.n_before or column.name in self.touched


def _needs_group(column: ColumnInfo, rows: TableRows, others: Others) -> bool:
    """Whether anndata needs more than the column's dataset to read it correctly, judged by the rows that may have
    changed."""
    if column.categories is not None or len(column.type.members) > 2:
        return True
    return may_miss(column) and _is_any(rows.missing(column, others.of(column)))


def _is_any(pieces: Pieces) -> bool:
    return any(flags.any() for _, flags in pieces)


# -- R0 and R1: one group is both --


def _face_plain(group: EditableGroup, info: TableInfo, version: str) -> None:
    """Make the group a frame too; its attributes have fixed length, as HEP001 requires."""
    for column in shown_columns(info):
        write_encoding(dataset_at(group, column.name), _encoding(column))
    writing.write_text(group, names.ENCODING_VERSION, version)
    writing.write_text(group, names.ENCODING_TYPE, names.DATAFRAME)


def _encoding(column: ColumnInfo) -> tuple[str, str]:
    return names.STRING_ENCODINGS if column.type.kind in ("text", "string") else names.ARRAY


def _face_old(group: EditableGroup, info: TableInfo, rows: TableRows, others: Others) -> None:
    """R1: copy the labels of every categorical, because anndata does not read those that HEP001 marks."""
    for column in shown_columns(info):
        if column.categories is None and _needs_group(column, rows, others):
            raise _cannot_show(info, column.name, "has missing rows, and frames of version 0.1.0 have no masks")
    coded = {column.name: column.categories for column in shown_columns(info) if column.categories is not None}
    if coded and not group.has_link(names.LEGACY_CATEGORIES_GROUP):
        create_group(group, names.LEGACY_CATEGORIES_GROUP)
    home = group.open_group(names.LEGACY_CATEGORIES_GROUP) if group.has_link(names.LEGACY_CATEGORIES_GROUP) else None
    if home is not None:
        for child in home.children():
            if child.name not in coded:
                unlink(home, child.name)
    for name, categories in coded.items():
        home = group_at(group, names.LEGACY_CATEGORIES_GROUP) if home is None else home
        column = info.by_name[name]
        copied = _copy_categories(home, name, column, rows, others.may_be_new(column))
        writing.write_flag(copied, names.ORDERED, categories.ordered)
        writing.write_reference(dataset_at(group, name), names.LEGACY_CATEGORIES, copied)
    _face_plain(group, info, "0.1.0")


def _copy_categories(
    home: EditableGroup, name: str, column: ColumnInfo, rows: TableRows, replace_all: bool
) -> EditableDataset:
    """Copy the categories of a column. An existing copy is extended, or replaced as a whole where `replace_all`."""
    values = rows.categories(column)
    copied = _rows_in(home, name)
    if copied is not None:
        n_before = int(copied.shape[0])
        if not replace_all and (len(values) == n_before or add_categories(copied, values, n_before, column.name)):
            return copied
    if home.has_link(name):
        unlink(home, name)
    made, _ = create_categories(home, name, values, column.name)
    write_encoding(made, _values_encoding(column))
    return made


def _rows_in(group: EditableGroup, name: str) -> EditableDataset | None:
    """The dataset of this name if it has rank 1; another program may have put anything there."""
    found = group.open_dataset(name) if group.has_link(name) else None
    return found if found is not None and len(found.shape or ()) == 1 else None


def _values_encoding(column: ColumnInfo) -> tuple[str, str]:
    assert column.categories is not None  # checked by the caller
    return names.STRING_ENCODINGS if column.categories.type.kind in ("text", "string") else names.ARRAY


def _cannot_show(info: TableInfo, column: str, why: str) -> DataError:
    return DataError(
        f"the column {why}, so anndata would misread it. Write the table again with anndata=True, which chooses a form "
        "that can show it",
        path=info.path,
        column=column,
    )


# -- R2: a frame around the table --


def _move_inside(group: EditableGroup, layout: Layout) -> EditableGroup:
    """Make the table a member of its group. Object references still lead to its objects after the move."""
    own = layout.own_objects(group)
    of_others = set(group.attribute_names()) - set(layout.reserved_attributes(group))
    inner = create_group(group, names.OTHER_FACE, holds_large_attributes(group))
    writing.copy_attributes(group, inner, without=of_others)
    for name in sorted(own):
        move(group, name, inner)
    for name in set(group.attribute_names()) - of_others:
        writing.delete_attribute(group, name)
    return inner


@dataclass
class FrameView:
    """A frame with links to the columns of the table inside it."""

    frame: Group
    group: Group
    layout: Layout
    info: TableInfo

    @property
    def target(self) -> EditableGroup:
        """The frame, to be changed."""
        return editable(self.frame)

    def follow(self, others: Others) -> None:
        """Make the frame show the current table."""
        shown, rows = shown_columns(self.info), TableRows(self.group, self.layout)
        order = [column.name for column in self.info.columns]
        check_order_fits(self.target, order)
        self._remove_others({column.name for column in shown})
        for column in shown:
            self.show(column, rows, others)
        writing.write_variable_texts(self.target, names.COLUMN_ORDER, order)
        writing.write_variable_text(self.target, names.INDEX, str(self.info.index_name))
        write_encoding(self.target, (names.DATAFRAME, names.VERSIONS[0]))

    def show(self, column: ColumnInfo, rows: TableRows, others: Others) -> None:
        """Make the frame show the current column; only rows in `others` may differ from what it shows."""
        dataset = editable(rows.dataset(column))
        write_encoding(dataset, _encoding(column))
        if column.categories is not None:
            self._show_categorical(column, dataset, rows, others.may_be_new(column))
        elif not (may_miss(column) and self._show_masked(column, dataset, rows, others.of(column))):
            self._link(self.target, column.name, dataset)

    def _remove_others(self, wanted: set[str]) -> None:
        """Remove members of the frame that no longer show a column; what other programs put there stays."""
        before = attributes.read_texts(self.target, names.COLUMN_ORDER) or []
        for name in {*before, attributes.read_text(self.target, names.INDEX) or ""} - wanted:
            if names.is_link_name(name) and self.target.has_link(name):
                unlink(self.target, name)

    def _link(self, group: EditableGroup, name: str, dataset: EditableDataset) -> None:
        found = group.open_dataset(name) if group.has_link(name) else None
        if found is not None and found.address == dataset.address:
            return
        if group.has_link(name):
            unlink(group, name)
        link_again(group, name, dataset)

    def _member(self, name: str, encoding: tuple[str, str]) -> EditableGroup:
        """The group that shows a column, with this encoding; replaced where it is something else."""
        found = self.target.open_group(name) if self.target.has_link(name) else None
        if found is not None and attributes.read_text(found, names.ENCODING_TYPE) == encoding[0]:
            return found
        if self.target.has_link(name):
            unlink(self.target, name)
        made = create_group(self.target, name)
        write_encoding(made, encoding)
        return made

    def _show_categorical(
        self, column: ColumnInfo, dataset: EditableDataset, rows: TableRows, replace_all: bool
    ) -> None:
        assert column.categories is not None  # checked by the caller
        group = self._member(column.name, names.CATEGORICAL)
        self._link(group, "codes", dataset)
        writing.write_flag(group, names.ORDERED, column.categories.ordered)
        _copy_categories(group, "categories", column, rows, replace_all)

    def _show_masked(self, column: ColumnInfo, dataset: EditableDataset, rows: TableRows, others: Selection) -> bool:
        """Show values and a mask; returns False and does nothing where no row is missing."""
        kind = column.type.kind
        encoding = {"boolean": names.NULLABLE_BOOLEANS, "integer": names.NULLABLE_INTEGERS}.get(
            kind, names.NULLABLE_STRINGS
        )
        member = self.target.open_group(column.name) if self.target.has_link(column.name) else None
        mask = _rows_in(member, "mask") if member is not None else None
        if mask is not None:
            others |= Selection.of(int(mask.shape[0]), column.n_rows)
        elif not _is_any(rows.missing(column, others)):
            return False
        group = self._member(column.name, encoding)
        _put_flags(group, "mask", rows.missing(column, others), column)
        if kind != "boolean":
            self._link(group, "values", dataset)
            return True
        copied = others if group.has_link("values") else Selection.of(0, column.n_rows)
        _put_flags(group, "values", rows.true(column, copied), column)
        return True


def _put_flags(group: EditableGroup, name: str, pieces: Pieces, column: ColumnInfo) -> None:
    """Write booleans at their rows; rows that were never written are FALSE."""
    stored: StoredType = BOOLEAN
    dataset = _rows_in(group, name)
    if dataset is None:
        if group.has_link(name):
            unlink(group, name)
        plan = DatasetPlan(stored, column.chunk_rows or default_chunk_rows(column.n_rows, stored), "deflate")
        dataset = create_dataset(group, name, plan, 0)
        write_encoding(dataset, names.ARRAY)
    if int(dataset.shape[0]) != column.n_rows:  # one made by another program may not be extensible
        resize(dataset, column.n_rows)
    sink = RowSink(dataset, stored)
    for start, flags in pieces:
        sink.write(start, flags.astype("i1"), len(flags))
    sink.drain()


# -- a table that has a face already --


def follow_face(recipe: Recipe, group: EditableGroup, layout: Layout, before: TableInfo, touched: Touched) -> None:
    """Make the view of a table show the current table. `recipe` and `before` are from before the change.

    Rows after the last row of `before` are new.
    """
    info = layout.describe(group, before.path)
    if not info.columns or info.index_name is None or info.index_name not in {label.name for label in info.labels}:
        raise UsageError(f"{info.path} has an AnnData view, which needs a column and row labels", path=info.path)
    for column in shown_columns(info):
        names.check_name(column.name)
    rows, others = TableRows(group, layout), Others(before.n_rows, touched)
    if recipe == "R2":
        frame = frame_around(group, before.path)
        assert frame is not None  # by the recipe
        FrameView(frame, group, layout, info).follow(others)
    elif recipe == "R1":
        _face_old(group, info, rows, others)
    else:
        for column in shown_columns(info):
            if _needs_group(column, rows, others):
                raise _cannot_show(info, column.name, "is a categorical, or has missing rows")
        _face_plain(group, info, names.VERSIONS[0])
