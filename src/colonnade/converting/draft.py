"""A table that was checked and can be written in another layout, with the attributes that users gave it."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypedDict, Unpack

from colonnade.anndata.objects import refuse_broken
from colonnade.columns.mapping import implied_units
from colonnade.converting.rows import rows_of
from colonnade.dataclass import dataclass, replace
from colonnade.edit.create import Draft, ReferenceForm, TableOptions, prepare
from colonnade.errors import DataError, UsageError
from colonnade.layouts import Layout, named_layout
from colonnade.layouts.conversion import (
    MARKS,
    STRING_ATTRIBUTES,
    TITLE_ATTRIBUTE,
    SourceTable,
    copy_user_attributes,
    open_node,
)
from colonnade.model import Progress, TableInfo
from colonnade.nodes import EditableNode
from colonnade.nodes.attributes import OPTIONS_SET
from colonnade.nodes.dataset_tables import attribute_holder
from colonnade.nodes.paths import editable
from colonnade.table import File, Table


class LayoutOptions(TypedDict):
    """Options of `convert` that only some layouts have."""

    version: str | None
    directory: bool
    references: ReferenceForm


@dataclass
class TableDraft:
    """A table that was checked and can be written. `names` are the new names of its columns.

    left_out: the columns that are not written, and why.
    """

    table: Table
    source: SourceTable
    draft: Draft
    names: dict[str, str]
    left_out: dict[str, str]

    @property
    def notes(self) -> list[str]:
        """What is left out or not kept, in words."""
        path = self.table.path
        notes = [f"{path}: column {name!r} was left out: {why}" for name, why in self.left_out.items()]
        if not self.draft.layout.conversion.columns_are_objects:
            notes += self._homeless_attributes()
        if not self.draft.layout.conversion.keeps_labels:
            notes += [f"{path}: the row label {name!r} becomes a column" for name in self.source.info.label_names]
        return notes + self.table._layout.conversion.lost(self.source)

    def _homeless_attributes(self) -> list[str]:
        """What is lost because the columns of the new table are not objects that could have attributes."""
        former, notes = self.table._layout.conversion, []
        for name in self.names:
            node = former.column_node(self.source, name)
            lost = set() if node is None else set(node.attribute_names()) - set(former.column_attributes)
            lost -= {*MARKS, *OPTIONS_SET, "units", "description"}
            if not self.draft.layout.keeps_texts:
                implied = implied_units(self.draft.source.schema.field(self.names[name]).type)
                strings = former.strings(self.source, name)
                lost |= {key for key, text in strings.items() if (key, text) != ("units", implied)}
            notes += [
                f"{self.table.path}: the attribute {key!r} of column {name!r} is not kept" for key in sorted(lost)
            ]
        return notes

    def write(self, file: File, path: str, progress: Progress | None) -> None:
        """Write the table into a new file, with its user attributes; progress counts rows."""
        former, target = self.table._layout.conversion, self.draft.layout.conversion
        target.check_path(path)
        file._write(path, self.draft, "error", progress)
        written = file[path]
        group = editable(written._group)
        reserved = self.table._layout.reserved_attributes(self.source.group)
        own = (*former.group_attributes, *reserved, *target.group_attributes)
        copy_user_attributes(
            self.source.group, editable(attribute_holder(group)), own, kept=(TITLE_ATTRIBUTE, *STRING_ATTRIBUTES)
        )
        opened = {column.name: open_node(group, column.link or column.name) for column in written.info.members}
        has_own = target.columns_are_objects
        nodes = {name: node for name, node in opened.items() if node is not None and has_own}
        for old, new in self.names.items():
            self._copy_column_attributes(old, nodes.get(new))
        schemas = (self.draft.source.schema, written.schema)
        target.complete(self.source, former, self.names, group, nodes, schemas)

    def _copy_column_attributes(self, name: str, target: EditableNode | None) -> None:
        former, new = self.table._layout.conversion, self.draft.layout.conversion
        node = former.column_node(self.source, name)
        if node is None or target is None:
            return
        copy_user_attributes(node, target, (*former.column_attributes, *new.column_attributes, *STRING_ATTRIBUTES))
        new.write_strings(target, former.strings(self.source, name))


def source_table(table: Table) -> SourceTable:
    """What the layouts see of a table to be converted."""
    return SourceTable(table.path, table.info, table.schema, table._group, lambda name: table[name].categories)


def draft_table(table: Table, layout: str, **options: Unpack[LayoutOptions]) -> TableDraft:
    """Check a table; what the layout cannot hold is refused with the column's path."""
    target, source = named_layout(layout), source_table(table)
    conversion = table._layout.conversion
    skipped = conversion.left_out(source)
    if skipped is None:
        _refuse_unfit(table)
    left_out = {**(skipped or {}), **conversion.unreadable_columns(source)}
    if left_out:
        source = replace(source, info=_without(source.info, left_out))
    target.conversion.check(source)
    names = target.conversion.new_names(source)
    draft = _prepare(table, source, target, names, options)
    return TableDraft(table, source, draft, names, left_out)


def _without(info: TableInfo, names: Collection[str]) -> TableInfo:
    """The description of a table without some columns."""
    columns, labels = (
        tuple(column for column in members if column.name not in names) for members in (info.columns, info.labels)
    )
    return replace(info, columns=columns, labels=labels)


def _prepare(table: Table, source: SourceTable, target: Layout, names: dict[str, str], options: LayoutOptions) -> Draft:
    """A draft of the rows under their new names; errors name the column by its path in the source."""
    former, conversion = table._layout.conversion, target.conversion
    columns = {
        names[column.name]: conversion.column_options(source, column, former.strings(source, column.name))
        for column in source.info.members
    }
    rows = rows_of(table, names, conversion.row_check(source))
    labels = [names[label] for label in source.info.label_names if conversion.keeps_labels]
    try:
        return prepare(
            rows,
            TableOptions(
                labels=labels,
                columns=columns,
                layout=target.name,
                allow_reserved=conversion.allow_reserved,
                **options,
            ),
        )
    except (DataError, UsageError) as error:
        old = next((name for name, new in names.items() if new == error.column), None)
        if not isinstance(error, DataError):
            where = table.path if old is None else f"{table.path.rstrip('/')}/{old}"
            raise DataError(str(error), path=where) from error
        error.path, error.column = table.path, old or error.column
        raise


def _refuse_unfit(table: Table) -> None:
    """Refuse a table with parts that are unreadable or in other files: they would be lost silently."""
    refuse_broken(table)
    if table.info.others:
        columns = ", ".join(f"{other.name!r} in {other.place}" for other in table.info.others)
        raise DataError(f"the table keeps columns in other files, which would be lost: {columns}", path=table.path)
