"""A DynamicTable as its rules check it: attributes, members and headers exactly as stored."""

from __future__ import annotations

import numpy as np

from colonnade.layouts.hdmf import names
from colonnade.layouts.hdmf.describe import describe
from colonnade.layouts.raw_node import RawNode, RawTableNode, raw_member
from colonnade.model import TableInfo
from colonnade.nodes import Group


class RawDynamicTable(RawTableNode):
    """A DynamicTable. broken: the columns whose values are known to be wrong."""

    counted = names.GROUP_ATTRIBUTES

    def __init__(self, group: Group, path: str, info: TableInfo, values: bool) -> None:
        super().__init__(group, path, info, values)
        self.broken: set[str] = set()

    def checked_columns(self) -> set[str]:
        """The names of the columns whose values are to be checked: those of which the rules found nothing wrong."""
        return {column.name for column in self.info.members} - self.broken

    def listed(self) -> list[str] | None:
        """The names in `colnames`, repeated ones too; None if it is not a list of strings."""
        value = self.group.read_attribute(names.COLUMN_LIST)
        if isinstance(value, np.ndarray) and not value.size:
            return []
        return value if isinstance(value, list) else [value] if isinstance(value, str) else None

    def member(self, name: str) -> RawNode | None:
        return raw_member(self, name)


def inspect(group: Group, path: str, values: bool) -> RawDynamicTable:
    """The table as its rules check it. Raises what `describe` raises."""
    return RawDynamicTable(group, path, describe(group, path), values)
