"""Changes of a file: begun, then committed or rolled back as a whole, whatever exception is raised in between.

These are classes, not generators: a signal that arrives while a generator is resumed would skip the cleanup.
`__enter__` and `__exit__` delay signals.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from colonnade.errors import UsageError
from colonnade.layouts import LAYOUTS, check_lengths
from colonnade.layouts.contract import FollowingTable
from colonnade.nodes.damage import to_corrupt_error, translate_hdf5_errors
from colonnade.nodes.paths import editable
from colonnade.nodes.protocols import Notes
from colonnade.pager.interrupts import hold_signals, shielded
from colonnade.pager.receipts import Receipts

if TYPE_CHECKING:
    from colonnade.table.file import File

_DEPTH = 60  # stack frames that a change needs, including callbacks; it uses half of them


class Change:
    """One commit for everything done inside, or a part of a transaction; rolled back completely if it fails."""

    def __init__(self, file: File, resized: str | None = None) -> None:
        """resized: the path of a table whose number of rows changes."""
        self._file = file
        self._resized = resized
        self._is_part = False
        self._receipts: Receipts = {}

    @shielded
    def __enter__(self) -> None:
        file = self._file
        file._check_writable()
        _check_depth(_DEPTH)
        self._is_part = file._in_transaction
        if file._handle.is_journaled:
            hold_signals()
        try:
            if not self._is_part:
                file._handle.hold()
                file._handle.is_changing = True
            self._receipts = dict(file._receipts_now())
        except Exception as error:
            file._handle.is_changing = self._is_part
            meant = self._meaning(error)
            file._handle.take_failure()  # rolls back if needed
            if meant is error:
                raise
            raise meant from error

    @shielded
    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._file._handle.is_orphan:  # a forked child must not touch the parent's file
            if error is None:
                self._file._handle.check_process()
            return
        self._file._handle.is_changing = self._is_part
        failed = error
        if failed is None:
            try:
                self._finish()
            except BaseException as reason:  # noqa: BLE001 - raised below, after the rollback
                failed = reason
        if not self._is_part:
            self._file._resized.clear()
        if failed is None:
            self._keep()
            if not self._is_part:
                self._file._raise_lost()  # committed; an exception raised after that is still reported
            return
        meant = self._meaning(failed)
        self._take_back()
        if meant is not failed:
            raise meant from failed
        if error is None:
            raise failed

    def _finish(self) -> None:
        file = self._file
        if self._resized is not None:
            file._resized.add(self._resized)
        if not self._is_part:
            for table in file._resized:
                check_lengths(file._handle.root, table)
            file._handle.commit()

    def _meaning(self, error: BaseException) -> BaseException:
        """The exception raised inside an HDF5 callback instead of HDF5's own error; damage as a CorruptError."""
        if not isinstance(error, Exception):
            return error
        return self._file._handle.lost_in_hdf5(error) or to_corrupt_error(error, self._file.name)

    def _keep(self) -> None:
        file = self._file
        if self._is_part:
            file._handle.generation += 1
            file._note_changes()
        else:
            file._keep_receipts()

    def _take_back(self) -> None:
        file = self._file
        if self._is_part:
            file._spoiled = True
            return
        file._receipts = self._receipts
        with translate_hdf5_errors(file.name):
            file._handle.roll_back()
        file._note_changes()


def _check_depth(n_frames: int) -> None:
    """Raise RecursionError now if it would otherwise be raised inside an HDF5 callback."""
    if n_frames:
        _check_depth(n_frames - 1)


class Transaction:
    """Several changes as one commit."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._change = Change(file)

    @shielded
    def __enter__(self) -> File:
        if self._file._in_transaction:
            raise UsageError("a transaction is already open: these changes would be part of it")
        self._change.__enter__()
        self._file._in_transaction, self._file._spoiled = True, False
        return self._file

    @shielded
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file._in_transaction = False
        if error is None and not self._file._handle.is_orphan:
            try:
                self._check()
            except BaseException as failed:
                self._change.__exit__(type(failed), failed, failed.__traceback__)
                raise
        self._change.__exit__(kind, error, trace)

    def _check(self) -> None:
        if self._file._spoiled:
            raise UsageError("a change inside the transaction failed, so all of it is rolled back")
        self._file._receipts_now()  # accounts for writes through h5py inside the transaction


def update_following_tables(file: Path, notes: Notes) -> None:
    """After the columns of a table have changed: one row per column, in their order, in the table that follows it."""
    for layout in LAYOUTS.values():
        following = layout.sidecars.following_table(file, notes) if layout.sidecars is not None else None
        if following is not None:
            _update_following(following)


def _update_following(following: FollowingTable) -> None:
    from colonnade.table.file import open as open_file

    with open_file(following.file, "r+") as file, file.transaction():
        table = file[following.table]
        if not table.info.members:
            table._layout.edit.count_rows(editable(table._group), following.n_rows)
            return
        rows = following.rows(table.to_arrow(dictionaries=True), table.labels)
        table.truncate(0)
        table.append(rows)
