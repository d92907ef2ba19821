"""Search indexes of a group of columns, in its member group `_search_indexes`.

The index names its column and refers to the dataset of its rows. No attribute of a column changes.
"""

from __future__ import annotations

from colonnade.errors import UsageError
from colonnade.layouts.columns import names
from colonnade.layouts.columns.describe import rows_of
from colonnade.layouts.named_indexes import NamedIndexes
from colonnade.nodes import EditableGroup


class MemberIndexes(NamedIndexes):
    def place_index(self, group: EditableGroup, column: str, kind: str) -> tuple[EditableGroup, str]:
        """The group for a new index of this kind, and an unused name in it."""
        if group.path.rsplit("/", 1)[-1] in names.LOOM_GROUPS:
            raise UsageError(
                f"cannot place a search index in {group.path}: loompy takes every member of it for an attribute, and "
                "would refuse the file. Open the file for reading, and give index_file",
                column=column,
            )
        return super().place_index(group, column, kind)


PART = MemberIndexes(lambda group, column, _info: rows_of(group, column))
