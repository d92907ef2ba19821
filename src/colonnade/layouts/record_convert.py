"""Tables that are datasets of a compound type, converted into other layouts."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from colonnade import writing
from colonnade.layouts import record_tables
from colonnade.layouts.conversion import TITLE_ATTRIBUTE, Conversion, SourceTable
from colonnade.layouts.foreign_hints import may_hold_foreign_tables
from colonnade.nodes import EditableGroup, EditableNode, Group
from colonnade.nodes.dataset_tables import HOME_OF_INDEXES

ENCODING = "encoding-type"  # of AnnData's elements


class RecordConversion(Conversion):
    """Units and descriptions come from the attributes of the dataset; the search indexes next to it are built again."""

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

    def is_copied(self, root: Group, path: str, tables: Collection[str]) -> bool:
        """Elements of AnnData are copied: it reads them as they are."""
        if may_hold_foreign_tables(root) or root.attribute_storage(ENCODING) is not None:
            return True
        dataset = root.open_dataset(path)
        return dataset is not None and dataset.attribute_storage(ENCODING) is not None

    def left_out(self, table: SourceTable) -> list[int]:
        names = [HOME_OF_INDEXES]
        return [*super().left_out(table), *(at for name in names if (at := self.next_to(table, name)) is not None)]

    def next_to(self, table: SourceTable, name: str) -> int | None:
        """The address of an object in the group of the dataset."""
        return record_tables.table_of(table.group).parent.hard_address(name)


def dataset_name(table: SourceTable) -> str:
    return record_tables.table_of(table.group).name
