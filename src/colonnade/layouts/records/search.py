"""Search indexes of tables that are datasets, next to the dataset: in `_search_indexes/<name of the dataset>`."""

from __future__ import annotations

from colonnade.layouts.named_indexes import NamedIndexes
from colonnade.layouts.records.tables import dataset_of

PART = NamedIndexes(lambda group, _column, _info: dataset_of(group))
