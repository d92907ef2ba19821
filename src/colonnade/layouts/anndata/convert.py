"""Converting tables into AnnData data frames, and out of them; the marks of a former frame restore it exactly.

Names, types and categories are refused before anything is written, rows when they are reached: the partial file is then
discarded.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa

from colonnade import writing
from colonnade.errors import DataError, UsageError
from colonnade.layouts.anndata import names
from colonnade.layouts.anndata.describe import encoding, nullable_categories
from colonnade.layouts.anndata.write import make_categories_nullable
from colonnade.layouts.conversion import (
    ANNDATA_ORDER,
    ANNDATA_TYPE,
    CONVERTED_FROM,
    UNNAMED_LABEL,
    UNNAMED_LABELS,
    Conversion,
    RowCheck,
    SourceTable,
)
from colonnade.model import ColumnInfo, ColumnOptions
from colonnade.nodes import EditableGroup, EditableNode, Group, Node, attributes
from colonnade.nodes.paths import group_at
from colonnade.stored_dtypes import memory_dtype

CATEGORICAL, NULLABLE_STRINGS = names.CATEGORICAL[0], names.NULLABLE_STRINGS[0]
MAPPING = "dict"
MAPPINGS = ("obsm", "varm", "obsp", "varp", "uns", "layers")
OBJECTS = ("anndata", "raw", "MuData")  # whose frames are their axes


class AnnDataConversion(Conversion):
    """Frames have nullable types, row labels without a name, and a place in objects and mappings."""

    suffixes = (".h5ad", ".h5mu")

    # -- as the layout that a table comes from --

    def write_marks(
        self, table: SourceTable, new: Mapping[str, str], group: EditableGroup, nodes: Mapping[str, EditableNode]
    ) -> None:
        if any(column.is_label for column in table.info.columns):
            writing.write_texts(group, ANNDATA_ORDER, [column.name for column in table.info.columns])
        if UNNAMED_LABEL in new:
            writing.write_text(group, UNNAMED_LABELS, new[UNNAMED_LABEL])
        for column in table.info.members:
            kind = _type_mark(table, column)
            if kind is not None:
                writing.write_text(nodes[new[column.name]], ANNDATA_TYPE, kind)

    def is_copied(self, root: Group, path: str, tables: Collection[str]) -> bool:
        """Whether a frame is in a mapping (obsm, uns), which before 0.8 does not declare that it is one."""
        above = path.rstrip("/").rsplit("/", 1)[0]
        while above:
            if attributes.read_text(group_at(root, above), names.ENCODING_TYPE) == MAPPING:
                return True
            holder, name = above.rsplit("/", 1)
            if name in MAPPINGS and {f"{holder}/obs", f"{holder}/var"} <= set(tables):
                return True
            above = holder
        return False

    def indexed_path(self, table: SourceTable) -> str:
        """The table inside a frame, if the frame is the AnnData view of that table."""
        return f"{table.path.rstrip('/')}/{names.OTHER_FACE}" if table.group.has_link(names.OTHER_FACE) else table.path

    # -- as the layout that a table gets --

    def check(self, table: SourceTable) -> None:
        labels = table.info.label_names
        if len(labels) > 1:
            raise DataError(
                f"{table.path}: a data frame has one column of row labels, not {len(labels)} ({', '.join(labels)})"
            )
        for column in table.info.members:
            _check_categories(table, column)

    def check_path(self, path: str) -> None:
        if path == "/":
            raise UsageError("a data frame cannot be the root of a file: anndata does not read it there", path=path)

    def new_names(self, table: SourceTable) -> dict[str, str]:
        """The names in the frame; labels that had no name get none again."""
        unnamed = attributes.read_text(table.group, UNNAMED_LABELS)
        labels = set(table.info.label_names)
        return {
            column.name: UNNAMED_LABEL if column.name == unnamed and column.name in labels else column.name
            for column in table.info.members
        }

    def column_options(self, table: SourceTable, column: ColumnInfo, _strings: Mapping[str, str]) -> ColumnOptions:
        """A column that was nullable is nullable again, even without missing rows, where AnnData has masks for it."""
        kind = table.schema.field(column.name).type
        was_nullable = _former_type(table, column.name).startswith("nullable-")
        return ColumnOptions(masked=True) if was_nullable and _has_masks(kind) else ColumnOptions()

    def row_check(self, table: SourceTable) -> RowCheck:
        return _MissingRows(table)

    def complete(
        self,
        table: SourceTable,
        _former: Conversion,
        new: Mapping[str, str],
        group: EditableGroup,
        nodes: Mapping[str, EditableNode],
        _schemas: tuple[pa.Schema, pa.Schema],
    ) -> None:
        """Apply the marks of a former frame, and write none: a frame needs none."""
        order = _former_order(table, new)
        if order is not None:
            writing.write_variable_texts(group, names.COLUMN_ORDER, order)
        for old, name in new.items():
            _restore_type(group, name, nodes[name], _former_type(table, old))

    def mark_parent(self, group: EditableGroup, is_target: bool) -> None:
        """An object whose frames get another layout is not an AnnData object any more; converted back, it is again."""
        encoding = (names.ENCODING_TYPE, names.ENCODING_VERSION)
        kind, version = (attributes.read_text(group, name) for name in encoding)
        former = attributes.read_text(group, CONVERTED_FROM)
        if not is_target and kind in OBJECTS:
            writing.write_text(group, CONVERTED_FROM, f"{kind} {version}")
            for name in encoding:
                writing.delete_attribute(group, name)
        elif is_target and former is not None:
            for name, text in zip(encoding, former.split(" ", 1), strict=True):
                writing.write_variable_text(group, name, text)
            writing.delete_attribute(group, CONVERTED_FROM)


def _type_mark(table: SourceTable, column: ColumnInfo) -> str | None:
    """What records the type of a column: that it is nullable, or that its categories are; None for any other column."""
    if column.is_masked:
        node = table.node(column.name)
        return None if node is None else _nullable_type(node)
    holder = table.group.open_group(column.name) if column.categories is not None else None
    categories = None if holder is None else nullable_categories(holder)
    return None if categories is None else f"{CATEGORICAL} {_nullable_type(categories)}"


def _nullable_type(node: Node) -> str:
    kind, meaning = str(attributes.read_text(node, names.ENCODING_TYPE)), attributes.read_text(node, "na-value")
    return f"{kind} {meaning}" if meaning in ("NA", "NaN") else kind


def _former_order(table: SourceTable, new: Mapping[str, str]) -> list[str] | None:
    """The column-order of the former frame, if recorded; columns added since come after it."""
    recorded = attributes.read_texts(table.group, ANNDATA_ORDER)
    if recorded is None:
        return None
    known = [name for name in recorded if name in new and new[name] != UNNAMED_LABEL]
    return [new[name] for name in dict.fromkeys([*known, *table.info.column_names])]


def _former_type(table: SourceTable, name: str) -> str:
    """The type of a column in the former frame, if recorded: its encoding-type, for a categorical also that of its
    categories, and for strings what a missing string means."""
    node = table.node(name)
    return (attributes.read_text(node, ANNDATA_TYPE) or "") if node is not None else ""


def _has_masks(kind: pa.DataType) -> bool:
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return bool(is_text or pa.types.is_integer(kind) or pa.types.is_boolean(kind))


def _is_coded(kind: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(kind))


def _restore_type(group: EditableGroup, name: str, node: EditableNode, former: str) -> None:
    """Make categories nullable again, and record what a missing string means, if the column holds such strings."""
    kind, *inner = former.split(" ")
    stored = attributes.read_text(node, names.ENCODING_TYPE)
    meaning = inner[-1] if inner and inner[-1] in ("NA", "NaN") else None
    if stored == kind == NULLABLE_STRINGS and meaning is not None:
        writing.write_variable_text(node, names.NA_VALUE, meaning)
    elif stored == kind == CATEGORICAL and inner[:1] == [NULLABLE_STRINGS]:
        holder = group_at(group, name)
        categories = holder.open_dataset("categories")
        if categories is not None and encoding(categories) == names.STRING_ENCODINGS:
            make_categories_nullable(holder, meaning)


def _check_categories(table: SourceTable, column: ColumnInfo) -> None:
    """Refuse categories that pandas does not take: two that are equal, or one that is missing."""
    if not _is_coded(table.schema.field(column.name).type):
        return
    categories = table.categories(column.name)
    values = [] if categories is None else categories.to_pylist()
    if None in values or any(value != value for value in values):  # noqa: PLR0124 - only NaN differs from itself
        raise DataError("a category is missing, or NaN", path=table.path, column=column.name)
    if len(set(values)) != len(values):
        raise DataError("a category is there twice", path=table.path, column=column.name)


class _MissingRows:
    """Refuses missing rows where AnnData cannot express them: it would read them as NaN, which is a value here."""

    def __init__(self, table: SourceTable) -> None:
        self._path = table.path.rstrip("/")
        can_miss = {column.name for column in table.info.members if _marks_nan(column)}
        can_miss |= {field.name for field in table.schema if _has_masks(field.type) or _is_coded(field.type)}
        self._unfit = [name for name in table.schema.names if name not in can_miss]

    def __call__(self, batch: pa.RecordBatch, first: int) -> None:
        for name in self._unfit:
            column = batch.column(batch.schema.get_field_index(name))
            if column.null_count:
                row = first + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
                raise DataError(
                    f"AnnData has no form for {column.type} with missing values: fill them first",
                    path=self._path,
                    column=name,
                    row=row,
                )


def _marks_nan(column: ColumnInfo) -> bool:
    """Whether NaN marks the missing rows of a column, so that storing them as NaN keeps their meaning."""
    if column.type.kind != "float" or column.fill is None:
        return False
    dtype = memory_dtype(column.type)
    return len(column.fill) == dtype.itemsize and bool(np.isnan(np.frombuffer(column.fill, dtype)[0]))


PART = AnnDataConversion(names.GROUP_ATTRIBUTES, names.COLUMN_ATTRIBUTES)
