"""Search indexes of a table of pandas, in its member group `_search_indexes`.

pandas and PyTables ignore them. A column does not refer to its indexes; several columns may be parts of one dataset, so
an index names its column and refers to the dataset.
"""

from __future__ import annotations

from colonnade.layouts.named_indexes import NamedIndexes
from colonnade.layouts.pandas.describe import describe, rows_of
from colonnade.model import TableInfo
from colonnade.nodes import Dataset, Group


def _rows_of(group: Group, name: str, info: TableInfo | None) -> Dataset | None:
    column = (info or describe(group, group.path)).by_name.get(name)
    return None if column is None else rows_of(group, column)


PART = NamedIndexes(_rows_of)
