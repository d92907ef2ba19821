"""Describes a DynamicTable as a TableInfo. Lenient: what is broken is noted, and what is readable is used.

| in the file | here |
| --- | --- |
| `id` (ElementIdentifiers) | the row labels |
| VectorData, named in `colnames` | a column; of rank 2 or more, its rows are fixed-size lists |
| `<column>_index` (VectorIndex) | the ends of the lists of a column; `<column>_index_index` of lists of lists |
| DynamicTableRegion | a column of row numbers into the table that its attribute `table` refers to |
| EnumData and `<column>_elements` | a categorical |

No element of a column is read. Members that `colnames` does not name are not columns. Soft links are followed, external
links are not.
"""

from __future__ import annotations

from colonnade.columns.lists import slab_type
from colonnade.columns.raw import Companion, Companions
from colonnade.dataclass import dataclass, replace
from colonnade.errors import CorruptError, FormatError, UnsupportedError
from colonnade.layouts.frame_parts import (
    Absent,
    FrameDescription,
    Unfit,
    common_length,
    header_of,
    not_a_column,
)
from colonnade.layouts.hdmf import names
from colonnade.layouts.wide import sample
from colonnade.model import (
    CategoriesInfo,
    Coded,
    ColumnInfo,
    LazyColumns,
    Lists,
    Slabs,
    TableInfo,
    unreadable_column,
)
from colonnade.nodes import Dataset, Group, attributes
from colonnade.nodes.damage import hdf5_errors
from colonnade.nodes.elements import dataset_column
from colonnade.nodes.paths import is_dataset

MOST_NESTED_LISTS = 8
"""Of lists inside each other: more are refused, since what reads them calls itself."""


@dataclass(frozen=True)
class _Parts:
    """The datasets of a column: its values, the VectorIndex of each level of lists (the innermost first), and the
    values that its codes stand for."""

    values: Dataset
    indexes: tuple[Dataset, ...] = ()
    elements: Dataset | None = None

    @property
    def rows(self) -> Dataset:
        """The dataset with one element per row of the table."""
        return self.indexes[-1] if self.indexes else self.values

    @property
    def companion(self) -> Companion | Companions:
        """What its rows are read with."""
        companion: Companion | Companions = self.elements
        for dataset in (self.values, *self.indexes)[: len(self.indexes)]:
            companion = dataset if companion is None else Companions(dataset, companion)
        return companion


def describe(group: Group, path: str) -> TableInfo:
    """The table as plain data."""
    return _Description(group, path).table()


class _Description(FrameDescription):
    """One pass over the group of a table, which collects the problems it finds."""

    layout = "hdmf"

    def table(self) -> TableInfo:
        order = self._order()
        there = self.links_if_wide(self.group, len(order))
        if there is not None:
            order = [name for name in order if name in there]
        first = order if there is None else sample(order)
        known = {name: column for name in first if (column := self._column(name)) is not None}
        identifiers = self._column(names.IDENTIFIERS)
        label = None if identifiers is None else replace(identifiers, is_label=True)
        is_readable = label is not None and label.problem is None
        n_rows = label.n_rows if label is not None and is_readable else common_length(known.values()) or 0
        label_names = () if label is None else (label.name,)

        def described(name: str) -> ColumnInfo:
            column = known.get(name) or self._column(name) or unreadable_column(name, "it does not exist")
            return replace(self.of_frame(column, n_rows, label_names), is_label=name in label_names)

        columns = LazyColumns(order if there is not None else [name for name in order if name in known], described)
        return TableInfo(
            path=self.path,
            layout="hdmf",
            n_rows=n_rows,
            columns=tuple(columns) if there is None else columns,
            labels=() if label is None else (self.of_frame(label, n_rows, ()),),
            description=attributes.read_text(self.group, names.DESCRIPTION) or None,
            index_name=None if label is None else label.name,
            version=self._declared_type(),
            problems=self.found_problems(is_lazy=there is not None),
        )

    def _declared_type(self) -> str | None:
        """The type of the table and its namespace, such as "TimeIntervals of core"."""
        kind, namespace = names.type_of(self.group), attributes.read_text(self.group, names.NAMESPACE)
        return f"{kind} of {namespace}" if kind and namespace else kind

    def _order(self) -> list[str]:
        order = attributes.read_texts(self.group, names.COLUMN_LIST)
        if order is None:
            self.note("error", "colnames, which names the columns, is not a list of strings")
            return []
        if len(set(order)) != len(order):
            self.note("error", "colnames names a column twice")
        return list(dict.fromkeys(order))

    def _column(self, name: str) -> ColumnInfo | None:
        """One member as a column, with a problem if it cannot be read as one; None if it does not exist."""
        try:
            column = _described(name, _parts(self.group, name))
        except Unfit as error:
            self.note("error", f"this is not a column: {error}", name)
            return None if isinstance(error, Absent) else unreadable_column(name, str(error))
        if column.problem is not None:
            self.note("warning", f"this column cannot be read: {column.problem}", name)
        return column


def _parts(group: Group, name: str) -> _Parts:
    """The datasets that a column is made of."""
    values = _member(group, name)
    indexes: list[Dataset] = []
    link = names.index_name(name)
    while (index := _vector_index(group, link)) is not None:
        if len(indexes) == MOST_NESTED_LISTS:
            raise Unfit(f"it has lists in more than {MOST_NESTED_LISTS} levels")
        indexes.append(index)
        link = names.index_name(link)
    is_coded = names.type_of(values) == names.ENUM_DATA
    return _Parts(values, tuple(indexes), _elements(group, name, values) if is_coded else None)


def _member(group: Group, name: str) -> Dataset:
    """The dataset of this name."""
    if not names.is_link_name(name):
        raise Absent(f"{name!r} cannot be the name of a member of the table")
    kind = group.hard_kind(name)
    if kind not in ("dataset", "soft link"):
        raise not_a_column(kind)
    dataset = group.open_dataset(name)
    if dataset is None:
        raise Unfit("the dataset cannot be opened")
    return dataset


def _vector_index(group: Group, name: str) -> Dataset | None:
    """The VectorIndex of this name, if there is one. A column may have the same name."""
    if group.hard_kind(name) not in ("dataset", "soft link"):
        return None
    dataset = group.open_dataset(name)
    return dataset if dataset is not None and names.type_of(dataset) == names.VECTOR_INDEX else None


def _elements(group: Group, name: str, codes: Dataset) -> Dataset:
    """The values that the codes of an EnumData stand for."""
    references = attributes.read_references(codes, names.ELEMENTS)
    referred = codes.dereference(references[0]) if references else None
    if referred is not None and is_dataset(referred):
        return referred
    dataset = group.open_dataset(names.elements_name(name))
    if dataset is None:
        raise Unfit("the values that its codes stand for do not exist")
    return dataset


def _described(name: str, parts: _Parts) -> ColumnInfo:
    is_list = bool(parts.indexes)
    column = _described_values(f"{name} (values)" if is_list else name, parts, name)
    for level, index in enumerate(parts.indexes, start=1):
        info, n_lists = header_of(index, "its VectorIndex")
        if info.type.kind != "integer" or info.type.size > 8:
            raise Unfit(f"its VectorIndex holds {info.type}, not integers")
        own = f"{name} (lists)" if level < len(parts.indexes) else name
        lists = dataset_column(own, info, n_lists)
        column = replace(lists, form=Lists(column), units=column.units, problem=column.problem)
    description = attributes.read_text(parts.values, names.DESCRIPTION)
    return replace(column, description=description or None)


def _described_values(own: str, parts: _Parts, name: str) -> ColumnInfo:
    """The values of a column, which are its rows or the elements of its lists."""
    try:
        info = parts.values.describe()
    except hdf5_errors(CorruptError, UnsupportedError) as error:
        raise Unfit(f"the header of its dataset cannot be read: {error}") from error
    if not info.shape:
        raise Unfit("it has no shape" if info.shape is None else "it is a scalar")
    units = next((text for key in names.UNITS if (text := attributes.read_text(parts.values, key))), None)
    column = replace(dataset_column(own, info, info.shape[0]), units=units)
    if len(info.shape) > 1:
        stored = slab_type(info)
        if parts.elements is not None:
            stored = f"codes of {len(info.shape)} dimensions are not supported"
        if isinstance(stored, str):
            return replace(column, problem=stored)
        return replace(column, type=stored, form=Slabs())
    if parts.elements is None:
        return column
    if info.type.kind != "integer" or info.type.size > 8:
        raise Unfit(f"an EnumData holds {info.type}, not integer codes")
    categories, n_categories = header_of(parts.elements, "its dataset of elements")
    coded = Coded(CategoriesInfo(names.elements_name(name), categories.type, n_categories, ordered=False), "codes")
    return column.with_rows(coded)


def open_column(group: Group, column: ColumnInfo) -> tuple[Dataset, Companion | Companions]:
    """The dataset with the rows of a column, and what they are read with: the elements of its lists, its categories."""
    try:
        parts = _parts(group, column.name)
    except Unfit as error:
        raise FormatError(f"cannot open column {column.name!r}: {error}", column=column.name) from None
    return parts.rows, parts.companion


def rows_of(group: Group, name: str) -> Dataset | None:
    """The dataset that holds the rows of a column."""
    try:
        return _parts(group, name).rows
    except Unfit:
        return None


def row_target(group: Group, column: ColumnInfo) -> str | None:
    """The path of the table whose row numbers a DynamicTableRegion holds; None for other columns."""
    values = group.open_dataset(column.name)
    references = None if values is None else attributes.read_references(values, names.TABLE)
    target = values.dereference(references[0]) if values is not None and references else None
    return None if target is None else target.full_path()
