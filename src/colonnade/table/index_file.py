"""An index file: search indexes of tables in a file that must not change, kept in another file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from colonnade import writing
from colonnade.edit.index import Indexes, KeptElsewhere
from colonnade.errors import FormatError, UsageError
from colonnade.indexes.base import Options
from colonnade.layouts.index_files import INDEX_FILE_VERSION, MARK, IndexFileHome
from colonnade.model import Progress
from colonnade.nodes import Group, attributes
from colonnade.nodes.paths import editable
from colonnade.pager.receipts import Receipts, file_state

if TYPE_CHECKING:
    from colonnade.table.file import File
    from colonnade.table.table import Table

STATE = "table's file"
"""The part of a receipt that holds the state of the file of the table."""


class IndexFile:
    """The index file of an open file. Its indexes are trusted while both files are as they were then."""

    def __init__(self, path: str | os.PathLike[str], source: File) -> None:
        if source._handle.path is None or source._handle.writable:
            raise UsageError(
                f"an index file is for a file on disk that is open for reading: in {source.name}, build indexes "
                "without index_file",
                option="index_file",
            )
        self.path = Path(path)
        self._source, self._source_path = source, source._handle.path
        self._file: File | None = None

    def open(self) -> None:
        """Open the file for reading, with libhdf5 only where the table's file may use it; it must be an index file."""
        from colonnade.table.file import open

        self.close()
        self._file = open(self.path, library=self._source._asked.get("library", "auto"))
        if attributes.read_text(self._file._handle.root, MARK) is None:
            self.close()
            raise FormatError(f"{self.path} is not an index file of colonnade: it has no attribute {MARK}")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def indexes(self, table: Table) -> Indexes | None:
        """The search indexes of a table in this file; None if there are none."""
        if self._file is None:
            return None
        self._file._handle.refresh()
        group = self._file._handle.root.open_group(table._info.path)
        return None if group is None else self._indexes(table, group, self._valid(self._file._receipts_now()))

    def _indexes(self, table: Table, group: Group, receipts: Receipts) -> Indexes:
        home = IndexFileHome(table._info, self._source_path.stat())
        kept_in = KeptElsewhere(home, group, str(self.path))
        return Indexes(table._group, table._layout, table._info, receipts, kept_in)

    def build(
        self, table: Table, wanted: Mapping[str, Sequence[str]], options: Options, progress: Progress | None
    ) -> None:
        """Build indexes of a table in this file, which is created if it does not exist. One commit."""
        with self._changing(table, create=True) as indexes:
            indexes.build(wanted, options, progress)

    def drop(self, table: Table, column: str, kinds: Sequence[str] | None) -> int:
        """Remove the indexes of a column, or those of some kinds; returns how many there were. One commit."""
        known = self.indexes(table)
        infos = [] if known is None else [index.info for index in known.open() if index.info.column == column]
        if not any(kinds is None or info.kind in kinds for info in infos):
            return 0
        with self._changing(table) as indexes:
            return indexes.drop(column, kinds)

    def save_verified(self, indexes: Indexes, state: list[int] | None) -> None:
        """After a verification: save the receipts of correct indexes, if neither file has changed meanwhile."""
        if self._file is None or state != file_state(self._source_path):
            return
        receipts = self._file._receipts_now()
        for key in [key for key in receipts if key[0] == indexes.info.path]:
            del receipts[key]
        receipts.update(self._stamped(indexes.receipts, state))
        self._file._save_verified(self._file._file_state())

    @contextmanager
    def _changing(self, table: Table, create: bool = False) -> Iterator[Indexes]:
        from colonnade.table.file import open

        self._check_place(create)
        self.close()
        before = file_state(self._source_path)
        with open(self.path, "a" if create else "r+") as file, file._change():
            root = editable(file._handle.root)
            if attributes.read_text(root, MARK) is None:
                writing.write_text(root, MARK, INDEX_FILE_VERSION, "ascii")
            path = table._info.path
            group = root if path == "/" else root.open_group(path) or writing.create_group(root, path)
            indexes = self._indexes(table, group, self._valid(file._receipts_now()))
            yield indexes
            if before == file_state(self._source_path):
                file._receipts.clear()
                file._receipts.update(self._stamped(indexes.receipts, before))
        self.open()

    def _check_place(self, create: bool) -> None:
        """Refuse a file that is not an index file, before it is opened for changes."""
        if self._file is None and (not create or (self.path.exists() and self.path.stat().st_size)):
            self.open()

    def _valid(self, receipts: Receipts) -> Receipts:
        """The receipts of indexes that were built or verified when the table's file was in its current state."""
        state = _as_text(file_state(self._source_path))
        return {key: receipt for key, receipt in receipts.items() if receipt.get(STATE) == state}

    def _stamped(self, receipts: Receipts, state: list[int]) -> Receipts:
        return {key: {**receipt, STATE: _as_text(state)} for key, receipt in receipts.items()}


def _as_text(state: list[int]) -> list[str]:
    return [str(number) for number in state]
