"""Tables that are datasets of a compound type, converted into other layouts."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pyarrow as pa

from colonnade import writing
from colonnade.layouts.conversion import TITLE_ATTRIBUTE, Conversion, SourceTable
from colonnade.layouts.foreign_hints import may_hold_foreign_tables
from colonnade.layouts.records import tables as record_tables
from colonnade.nodes import EditableGroup, EditableNode, Group
from colonnade.nodes.dataset_tables import HOME_OF_INDEXES, attribute_holder
from colonnade.nodes.paths import editable

ENCODING = "encoding-type"  # of AnnData's elements


class RecordConversion(Conversion):
    """Units and descriptions come from the attributes of the dataset; the search indexes next to it are built again."""

    keeps_labels = False

    def strings(self, table: SourceTable, name: str) -> dict[str, str]:
        column = table.info.by_name[name]
        stored = {"units": column.units, "description": column.description}
        return {key: text for key, text in stored.items() if text}

    def write_marks(
        self, table: SourceTable, names: Mapping[str, str], group: EditableGroup, nodes: Mapping[str, EditableNode]
    ) -> None:
        """Such a table has no marks of former layouts, but its title may be stored in another way."""
        if table.info.title is not None:
            writing.write_text(group, TITLE_ATTRIBUTE, table.info.title)

    def complete(
        self,
        table: SourceTable,
        former: Conversion,
        names: Mapping[str, str],
        group: EditableGroup,
        nodes: Mapping[str, EditableNode],
        schemas: tuple[pa.Schema, pa.Schema],
    ) -> None:
        """The title; columns have no objects that could hold marks of a former layout."""
        if table.info.title is not None:
            writing.write_text(editable(attribute_holder(group)), TITLE_ATTRIBUTE, table.info.title)

    def is_copied(self, root: Group, path: str, tables: Collection[str]) -> bool:
        """Elements of AnnData are copied: it reads them as they are."""
        has_frames = root.hard_kind("obs") is not None and root.hard_kind("var") is not None
        if has_frames or may_hold_foreign_tables(root) or root.attribute_storage(ENCODING) is not None:
            return True
        dataset = root.open_dataset(path)
        return dataset is not None and dataset.attribute_storage(ENCODING) is not None

    def replaced_objects(self, table: SourceTable) -> list[int]:
        home = self.next_to(table, HOME_OF_INDEXES)
        return [*super().replaced_objects(table), *([] if home is None else [home])]

    def next_to(self, table: SourceTable, name: str) -> int | None:
        """The address of an object in the group of the dataset."""
        return record_tables.table_of(table.group).parent.hard_address(name)


def dataset_name(table: SourceTable) -> str:
    return record_tables.table_of(table.group).name


PART = RecordConversion(record_tables.TABLE_ATTRIBUTES, ())
