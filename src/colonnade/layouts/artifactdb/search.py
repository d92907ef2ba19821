"""Search indexes of an ArtifactDB data frame, in the group `_search_indexes` next to its `data`.

ArtifactDB readers ignore the group: they read `data`, `column_names` and `row_names` only.
"""

from __future__ import annotations

from colonnade.layouts.artifactdb.describe import describe, rows_of
from colonnade.layouts.named_indexes import NamedIndexes
from colonnade.model import TableInfo
from colonnade.nodes import Dataset, Group


def _rows_of(group: Group, name: str, info: TableInfo | None) -> Dataset | None:
    column = (info or describe(group, group.path)).by_name.get(name)
    return None if column is None else rows_of(group, column)


PART = NamedIndexes(_rows_of)
