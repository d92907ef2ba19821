"""Search indexes of a table in a file of their own, for tables in files that must not change.

The file has the group of each table under its own path, and `_search_indexes` in it. An index cannot refer to its rows
in another file: it names its column, and records the size and time of that file and the header of the column. When one
of them differs, the index is not used.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from colonnade import writing
from colonnade.dataclass import dataclass
from colonnade.layouts import index_home
from colonnade.layouts.index_home import KIND, PlacedIndex, index_datasets, remove_index
from colonnade.layouts.named_indexes import COLUMN
from colonnade.model import ColumnInfo, TableInfo
from colonnade.nodes import Dataset, EditableDataset, EditableGroup, Group, attributes

MARK = "COLONNADE_INDEX_FILE"
INDEX_FILE_VERSION = "1.0"
SOURCE = "source"


@dataclass(frozen=True)
class IndexFileHome:
    """Satisfies `IndexHome` for one table: its indexes are in the group of its path in an index file.

    info: the table. status: of the file that holds it, as it is now.
    """

    info: TableInfo
    status: os.stat_result

    def search_indexes(self, group: Group, info: TableInfo) -> list[PlacedIndex]:
        """All search indexes of the table in the file, sorted by name."""
        return [self._placed(name, node, info) for name, node in index_datasets(group).items()]

    def _placed(self, name: str, dataset: Dataset, info: TableInfo) -> PlacedIndex:
        kind = attributes.read_text(dataset, KIND) or ""
        named = attributes.read_text(dataset, COLUMN)
        column = info.by_name.get(named or "")
        problem = None
        if not kind:
            problem = "it does not declare its kind"
        elif column is None:
            problem = "it does not name a column of the table"
        elif attributes.read_text(dataset, SOURCE) != self._source_of(column):
            problem = "the file of the table has changed since the index was built: build it again"
        return PlacedIndex(name, kind, named if column is not None else None, dataset, problem)

    def place_index(self, group: EditableGroup, column: str, kind: str) -> tuple[EditableGroup, str]:
        return index_home.place_index(group, column.replace("/", "_"), kind)

    def attach_index(self, _group: EditableGroup, column: str, kind_word: str, dataset: EditableDataset) -> None:
        """Mark a newly built dataset as a search index of a column, and record of what."""
        writing.write_text(dataset, KIND, kind_word, "ascii")
        writing.write_text(dataset, COLUMN, column)
        writing.write_text(dataset, SOURCE, self._source_of(self.info.by_name[column]))

    def detach_index(self, group: EditableGroup, index: PlacedIndex) -> None:
        remove_index(group, index)

    def confirm_indexes(self, _group: EditableGroup, _indexes: Sequence[PlacedIndex]) -> None:
        """Nothing to declare: what an index is of is recorded when it is built."""

    def rename_indexes(self, _group: EditableGroup, _info: TableInfo, _column: str, _new_name: str) -> None:
        """The columns of a table that must not change keep their names."""

    def _source_of(self, column: ColumnInfo) -> str:
        """What an index was built of: the size and the time of the file, and a digest of the column's description."""
        from hashlib import blake2b

        header = blake2b(repr(column).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
        source = {"bytes": self.status.st_size, "mtime_ns": self.status.st_mtime_ns, "column": header}
        return json.dumps(source, sort_keys=True)
