"""Describes an AnnData data frame as a TableInfo. Lenient: breaches of rules are noted, and what is readable is used.

No element of a column is read. A column is a dataset, or a group of two: codes and categories, or values and mask.
In version 0.1.0 a categorical is a dataset of codes with a reference to its categories. Only hard links are followed.
"""

from __future__ import annotations

from colonnade.dataclass import dataclass, replace
from colonnade.errors import FormatError, UnsupportedError
from colonnade.layouts.anndata import names
from colonnade.layouts.frame_parts import (
    Absent,
    FrameDescription,
    Unfit,
    common_length,
    header_of,
    member_of,
    not_a_column,
)
from colonnade.layouts.wide import sample
from colonnade.model import (
    CategoriesInfo,
    Coded,
    ColumnInfo,
    DatasetInfo,
    LazyColumns,
    Masked,
    TableInfo,
    unreadable_column,
)
from colonnade.nodes import Dataset, Group, Node, attributes
from colonnade.nodes.elements import dataset_column
from colonnade.nodes.paths import is_dataset


@dataclass(frozen=True)
class _Parts:
    """The datasets of a column: its rows, and its categories or its mask. `ordered` applies to the categories.

    `pandas` is the pandas metadata of nullable strings, which categories can be too. It depends on `na-value`, the
    missing value (NA by default).
    """

    rows: Dataset
    categories: Dataset | None = None
    categories_name: str = ""
    mask: Dataset | None = None
    ordered: bool = False
    pandas: str | None = None


def describe(group: Group, path: str) -> TableInfo:
    """The frame as plain data. Raises UnsupportedError for an unknown version."""
    return _Description(group, path).table()


class _Description(FrameDescription):
    """One pass over a frame's group, which collects the problems it finds."""

    layout = "anndata"

    def table(self) -> TableInfo:
        version = self._version()
        index = attributes.read_text(self.group, names.INDEX)
        if index is None:
            self.note("error", "there is no attribute _index, which names the row labels")
        order = self._order()
        there = self.links_if_wide(self.group, len(order))
        if there is not None:  # a path is described to find out whether it leads to a column
            order = [name for name in order if name in there or ("/" in name and self._column(name) is not None)]
        first = order if there is None else sample(order)
        found = {name: column for name in dict.fromkeys([*first, *([index] if index else [])])
                 if (column := self._column(name)) is not None}  # fmt: skip
        n_rows = common_length(found.values()) or 0
        label_names = (index,) if index is not None and index in found else ()

        def described(name: str) -> ColumnInfo:
            column = found.get(name) or self._column(name) or unreadable_column(name, "it does not exist")
            return replace(self.of_frame(column, n_rows, label_names), is_label=name in label_names)

        columns = LazyColumns(order if there is not None else [name for name in order if name in found], described)
        return TableInfo(
            path=self.path,
            layout="anndata",
            n_rows=n_rows,
            columns=tuple(columns) if there is None else columns,
            labels=tuple(columns.named(name) for name in label_names),
            index_name=index,
            version=version,
            problems=self.found_problems(is_lazy=there is not None),
        )

    def _version(self) -> str:
        version = attributes.read_text(self.group, names.ENCODING_VERSION)
        if version not in names.VERSIONS:
            raise UnsupportedError(
                f"{self.path} is an AnnData data frame of version {version}; this library reads "
                f"{' and '.join(names.VERSIONS)}",
                feature=f"AnnData dataframe {version}",
                path=self.path,
                found=version,
                supported=names.VERSIONS,
            )
        return version

    def _order(self) -> list[str]:
        order = attributes.read_texts(self.group, names.COLUMN_ORDER)
        if order is None:
            self.note("error", "there is no attribute column-order, which names the columns")
            return []
        if len(set(order)) != len(order):
            self.note("error", "column-order names a column twice")
        return list(dict.fromkeys(order))

    def _column(self, name: str) -> ColumnInfo | None:
        """One member as a column, with a problem if it cannot be read as one; None if it does not exist."""
        try:
            if "/" in name and names.is_link_name(name):
                self.note("warning", "column-order contains a path instead of a name", name)
            return _described(name, _parts(self.group, name))
        except Unfit as error:
            self.note("error", f"this is not a column: {error}", name)
            return None if isinstance(error, Absent) else unreadable_column(name, str(error))


def _parts(group: Group, name: str) -> _Parts:
    """The datasets that a column is made of."""
    if not names.is_link_name(name):
        raise Absent(f"{name!r} cannot be the name of a member of the frame")
    *folders, last = name.split("/")
    for folder in folders:
        inner = group.open_group(folder) if group.hard_kind(folder) == "group" else None
        if inner is None:
            raise not_a_column(None)
        group = inner
    kind = group.hard_kind(last)
    if kind == "dataset":
        return _dataset_parts(group, last)
    if kind != "group":
        raise not_a_column(kind)
    return _group_parts(group.open_group(last), last)


def _dataset_parts(group: Group, name: str) -> _Parts:
    rows = group.open_dataset(name)
    if rows is None:
        raise Unfit("the dataset cannot be opened")
    if rows.attribute_storage(names.LEGACY_CATEGORIES) is None:
        return _Parts(rows)
    references = attributes.read_references(rows, names.LEGACY_CATEGORIES)
    categories = rows.dereference(references[0]) if references else None
    if categories is None or not is_dataset(categories):
        raise Unfit("its categories do not exist")
    ordered = bool(attributes.read_flag(categories, names.ORDERED))
    return _Parts(rows, categories, f"__categories/{name}", ordered=ordered)


def _group_parts(group: Group | None, name: str) -> _Parts:
    if group is None:
        raise Unfit("the group cannot be opened")
    kind = encoding(group)
    if kind == names.CATEGORICAL:
        categories = open_categories(group)
        if categories is None:
            raise Unfit("its categories do not exist")
        ordered = bool(attributes.read_flag(group, names.ORDERED))
        nullable = nullable_categories(group)
        pandas = None if nullable is None else f'{{"dtype":"category","categories":{_pandas_strings(nullable)}}}'
        return _Parts(member_of(group, "codes"), categories, f"{name}/categories", ordered=ordered, pandas=pandas)
    if kind in names.NULLABLE:
        values, mask = member_of(group, "values"), member_of(group, "mask")
        if kind != names.NULLABLE_STRINGS:
            return _Parts(values, mask=mask)
        return _Parts(values, mask=mask, pandas=_pandas_strings(group))
    raise Unfit(f"a group of encoding-type {kind[0]!r}, version {kind[1]!r}")


def _pandas_strings(group: Group) -> str:
    """The pandas metadata of nullable strings."""
    return '{"dtype":"str"}' if attributes.read_text(group, names.NA_VALUE) == "NaN" else '{"dtype":"string"}'


def encoding(node: Node) -> tuple[str | None, str | None]:
    """The encoding-type and encoding-version of an object."""
    return attributes.read_text(node, names.ENCODING_TYPE), attributes.read_text(node, names.ENCODING_VERSION)


def open_categories(group: Group) -> Dataset | None:
    """The categories dataset of a categorical; for nullable strings their values, because no category is missing."""
    if group.hard_kind("categories") == "dataset":
        return group.open_dataset("categories")
    inner = nullable_categories(group)
    return None if inner is None else inner.open_dataset("values")


def nullable_categories(group: Group) -> Group | None:
    """The group of categories that are nullable strings, as anndata 0.12.0 writes them; None for other categories."""
    inner = group.open_group("categories") if group.hard_kind("categories") == "group" else None
    if inner is None or encoding(inner) != names.NULLABLE_STRINGS or inner.hard_kind("values") != "dataset":
        return None
    return inner


def _described(name: str, parts: _Parts) -> ColumnInfo:
    info, n_rows = header_of(parts.rows, "it")
    column = replace(dataset_column(name, info, n_rows), pandas=parts.pandas)
    if parts.categories is not None:
        return column.with_rows(Coded(_described_categories(parts, info)))
    return replace(column, form=Masked(column.form)) if _is_masked(parts, n_rows) else column


def _described_categories(parts: _Parts, codes: DatasetInfo) -> CategoriesInfo:
    if codes.type.kind != "integer":
        raise Unfit(f"a categorical holds {codes.type}, not integer codes")
    info, n_categories = header_of(parts.categories, "its categories dataset")
    return CategoriesInfo(parts.categories_name, info.type, n_categories, parts.ordered)


def _is_masked(parts: _Parts, n_rows: int) -> bool:
    if parts.mask is None:
        return False
    info, length = header_of(parts.mask, "its mask")
    if info.type.kind != "boolean" or length != n_rows:
        raise Unfit(f"its mask holds {length} rows of {info.type}, not {n_rows} booleans")
    return True


def open_column(group: Group, column: ColumnInfo) -> tuple[Dataset, Dataset | None]:
    """The datasets of a column: its rows, and its categories or its mask, or None."""
    try:
        parts = _parts(group, column.name)
    except Unfit as error:
        raise FormatError(f"cannot open column {column.name!r}: {error}", column=column.name) from None
    companion = parts.mask if parts.categories is None else parts.categories
    plain = companion is None and column.storage == "chunked" and not column.filters and "/" not in column.name
    return (group.open_chunked(column.name, in_place=True) or parts.rows if plain else parts.rows), companion


def rows_of(group: Group, name: str) -> Dataset | None:
    """The dataset that holds the rows of a column: itself, its codes, or its values."""
    try:
        return _parts(group, name).rows
    except Unfit:
        return None
