"""An H5Col table as its rules check it: its description with all problems, and its attributes exactly as stored."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from colonnade.layouts.h5col import names
from colonnade.layouts.h5col.describe import describe_whole
from colonnade.layouts.h5col.search import search_indexes
from colonnade.layouts.index_home import PlacedIndex
from colonnade.layouts.raw_node import RawTableNode
from colonnade.model import ColumnInfo, Lists
from colonnade.nodes import Dataset, Group
from colonnade.nodes.paths import join_path
from colonnade.nodes.protocols import Child


class RawH5colTable(RawTableNode):
    """A table, and its description, which is not lazy: it has all problems."""

    counted = names.GROUP_ATTRIBUTES

    def checked_columns(self) -> set[str]:
        """The names of the columns whose values are to be checked."""
        return {column.name for column in self.info.members if column.problem is None}

    def path_of(self, column: str) -> str:
        return join_path(self.path, column)

    def plain_columns(self) -> Iterator[tuple[ColumnInfo, Dataset]]:
        """The columns that are datasets and can be read, with these."""
        for column in self.info.members:
            dataset = None if isinstance(column.row_form, Lists) else self.group.open_dataset(column.name)
            if dataset is not None and column.problem is None:
                yield column, dataset

    def members_of(self, home: str) -> list[Child]:
        """What is in the group of categories, or of search indexes."""
        group = self.group.open_group(home) if self.group.hard_kind(home) == "group" else None
        return [] if group is None else group.children()

    @cached_property
    def placed(self) -> list[PlacedIndex]:
        """The search indexes of the table."""
        return search_indexes(self.group, self.info)


def inspect(group: Group, path: str, values: bool) -> RawH5colTable:
    """The table as its rules check it. Raises what `describe` raises."""
    return RawH5colTable(group, path, describe_whole(group, path), values)
