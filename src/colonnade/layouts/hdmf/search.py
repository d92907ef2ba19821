"""Search indexes of a DynamicTable, in the group `_search_indexes` in its group, which hdmf and pynwb ignore."""

from __future__ import annotations

from colonnade.layouts.hdmf.describe import rows_of
from colonnade.layouts.named_indexes import NamedIndexes

PART = NamedIndexes(lambda group, column, _info: rows_of(group, column))
