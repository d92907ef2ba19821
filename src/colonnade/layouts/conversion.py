"""What a layout contributes to converting tables from and into it. The defaults suit most layouts.

Some layouts cannot express what a table was in its former layout. Attributes, the *marks*, record it, so that
converting back is exact. Layouts in between carry the marks along.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import count
from typing import overload

import pyarrow as pa

from colonnade import writing
from colonnade.dataclass import dataclass
from colonnade.model import ColumnInfo, ColumnOptions, TableInfo
from colonnade.nodes import Dataset, EditableDataset, EditableGroup, EditableNode, Group, Node, attributes
from colonnade.nodes.dataset_tables import attribute_holder
from colonnade.nodes.elements import has_references
from colonnade.nodes.paths import editable

# The marks of a column: its AnnData type. Those of a group: its column-order where the row labels are a column too, and
# the name that was given to labels without a name; of a group that held frames, its encoding.
ANNDATA_TYPE = "anndata_type"
ANNDATA_ORDER = "anndata_column_order"
UNNAMED_LABELS = "anndata_unnamed_index"
CONVERTED_FROM = "converted_from"
MARKS = (ANNDATA_TYPE, ANNDATA_ORDER, UNNAMED_LABELS)
UNNAMED_LABEL = "_index"  # the dataset of row labels that have no name in a frame
TITLE_ATTRIBUTE = "TITLE"
LATER_REVISION_ATTRIBUTE = ("NROWS",)
STRING_ATTRIBUTES = ("units", "units_vocabulary", "description")
"""What people write about a column, under the same names in every layout."""

RowCheck = Callable[[pa.RecordBatch, int], None]
"""Called with every batch and its first row, before the batch is written: refuses what the layout cannot hold."""


@dataclass(frozen=True)
class SourceTable:
    """A table to be converted. `group` is its open group; `categories` gives those of a column, or None."""

    path: str
    info: TableInfo
    schema: pa.Schema
    group: Group
    categories: Callable[[str], pa.Array | None]

    def node(self, name: str) -> Group | Dataset | None:
        """The dataset or group of a column; None if it cannot be opened."""
        column = self.info.by_name[name]
        return open_node(self.group, column.link or name)


@overload
def open_node(group: EditableGroup, link: str) -> EditableGroup | EditableDataset | None: ...
@overload
def open_node(group: Group, link: str) -> Group | Dataset | None: ...
def open_node(group: Group, link: str) -> Group | Dataset | None:
    """The dataset or group at a path below the group of a table; None if it cannot be opened."""
    return group.open_dataset(link) or group.open_group(link)


def accept_rows(_batch: pa.RecordBatch, _first: int) -> None:
    """Every row can be written."""


class Conversion:
    """Converts tables from and into one layout: `suffixes` of files that imply it, names of its own attributes."""

    suffixes: tuple[str, ...] = ()
    label = "index"  # the name of labels that had none
    allow_reserved = False  # whether names that are reserved for users' columns are taken over
    keeps_labels = True  # whether row labels stay labels; otherwise they become columns
    columns_are_objects = True  # whether each column is an object of its own, which can have attributes
    carries_notes = False  # whether the description of a table has notes for pandas that the new table gets too

    def __init__(self, group_attributes: Collection[str], column_attributes: Collection[str]) -> None:
        self.group_attributes, self.column_attributes = group_attributes, column_attributes

    # -- as the layout that a table comes from --

    def column_node(self, table: SourceTable, name: str) -> Group | Dataset | None:
        """The object with the attributes of a column; None if there is none, or it is shared by columns."""
        return table.node(name)

    def unreadable_columns(self, _table: SourceTable) -> dict[str, str]:
        """The columns that cannot be read and are left out, with why; a table with others that cannot is refused."""
        return {}

    def strings(self, table: SourceTable, name: str) -> dict[str, str]:
        """The user's strings about a column, without what the layout adds to them."""
        node = self.column_node(table, name)
        stored = {key: attributes.read_text(node, key) for key in STRING_ATTRIBUTES} if node is not None else {}
        return {key: text for key, text in stored.items() if text}

    def former_type(self, _column: ColumnInfo, kind: pa.DataType) -> pa.DataType:
        """The type of a column before it was converted into this layout, if recorded; otherwise `kind`."""
        return kind

    def write_marks(
        self, table: SourceTable, names: Mapping[str, str], group: EditableGroup, nodes: Mapping[str, EditableNode]
    ) -> None:
        """Record in the new table what its layout cannot express. By default, marks of a former layout are copied.

        names: the new names of the columns. group, nodes: of the new table and its columns, by their new names.
        """
        others = set(table.group.attribute_names()) - set(MARKS)
        writing.copy_attributes(editable(table.group), group, without=others)
        for column in table.info.members:
            node = table.node(column.name)
            kind = attributes.read_text(node, ANNDATA_TYPE) if node is not None else None
            if kind is not None:
                writing.write_text(nodes[names[column.name]], ANNDATA_TYPE, kind)

    def is_copied(self, _root: Group, _path: str, _tables: Collection[str]) -> bool:
        """Whether a table is part of an object that is copied whole; `tables` are the paths of all tables."""
        return False

    def replaced_objects(self, table: SourceTable) -> list[int]:
        """The addresses of the objects that are not copied into the new file, because they belong to the table."""
        return [] if table.group.address is None else [table.group.address]

    def lost(self, _table: SourceTable) -> list[str]:
        """What of a table is not kept in any other layout, in words."""
        return []

    def indexed_path(self, table: SourceTable) -> str:
        """The path of the table whose search indexes belong to this table; usually its own."""
        return table.path

    def left_out(self, _table: SourceTable) -> dict[str, str] | None:
        """The columns that are not converted, and why. None: a table with anything that would be lost is refused."""
        return None

    # -- as the layout that a table gets --

    def check(self, _table: SourceTable) -> None:
        """Refuse a table that the layout cannot hold."""

    def check_path(self, _path: str) -> None:
        """Refuse a path where this layout cannot have a table."""

    def new_names(self, table: SourceTable) -> dict[str, str]:
        """The new names of all columns, by the old ones."""
        names = {column.name: column.name for column in table.info.members}
        if UNNAMED_LABEL in names:
            free = (f"{self.label}_{number}" if number else self.label for number in count())
            names[UNNAMED_LABEL] = next(name for name in free if name not in names)
        return names

    def column_options(self, _table: SourceTable, _column: ColumnInfo, _strings: Mapping[str, str]) -> ColumnOptions:
        """The options with which a column is written; `strings` are the user's strings about it."""
        return ColumnOptions()

    def row_check(self, _table: SourceTable) -> RowCheck:
        return accept_rows

    def write_strings(self, node: EditableNode, strings: Mapping[str, str]) -> None:
        """Store the user's strings about a column, unless its options have done that."""
        for key, text in strings.items():
            writing.write_text(node, key, text)

    def complete(
        self,
        table: SourceTable,
        former: Conversion,
        names: Mapping[str, str],
        group: EditableGroup,
        nodes: Mapping[str, EditableNode],
        schemas: tuple[pa.Schema, pa.Schema],
    ) -> None:
        """After the rows were written: apply the marks, or write them. schemas: of the rows, and of the new table."""
        former.write_marks(table, names, group, nodes)

    def mark_parent(self, _group: EditableGroup, _is_target: bool) -> None:
        """Change the group above tables that were converted, into this layout or another."""


def copy_user_attributes(
    source: Node, target: EditableNode, without: Collection[str], kept: Collection[str] = ()
) -> None:
    """Copy attributes that do not belong to a layout. References are valid only in their own file, and are left out."""
    owned = {*without, *MARKS, *LATER_REVISION_ATTRIBUTE} - set(kept)
    stored = {name: source.attribute_storage(name) for name in source.attribute_names()}
    referring = {name for name, storage in stored.items() if storage is None or has_references(storage[0])}
    writing.copy_attributes(editable(attribute_holder(source)), target, without=owned | referring)
