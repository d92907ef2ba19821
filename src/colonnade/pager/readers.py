"""Read a file while others may commit to it, without a lock.

Readers compare the file's stamp (see `locks`) before and after, and use what they read only if it has not changed.
A file in the middle of a commit is not read: its writer is waited for, or, if that has crashed, the commit is undone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeVar

from colonnade.errors import ConflictError, UsageError
from colonnade.pager.disk import Disk
from colonnade.pager.interrupts import hold_signals, pause, release_signals, shielded
from colonnade.pager.journal import journal_path
from colonnade.pager.locks import (
    Locking,
    WaitRequest,
    WriterLock,
    check_no_other_writes,
    has_writer,
    read_stamp,
)
from colonnade.pager.recovery import find_mark, half_commit, roll_back
from colonnade.pager.safe_files import open_existing
from colonnade.pager.sources import ByteSource, LocalBytes

T = TypeVar("T")
_MOST_READS = 50
_TIMEOUT = 10.0  # seconds to wait for the end of a commit
_PAUSE = 0.005


class Committed(Protocol):
    """A file that others may commit to."""

    @property
    def name(self) -> str: ...

    def refresh(self) -> object:
        """See the last commit."""

    def is_current(self) -> bool:
        """Whether nothing has been committed since `refresh`."""

    def wait_request(self) -> WaitRequest:
        """The request to writers to wait, for a reader that they disturb."""


class Attempts:
    """Attempts to read one state of a file, until nobody has committed meanwhile.

    with Attempts(file) as attempts:
        while attempts.again():
            with attempts.one():
                result = ...
    """

    def __init__(self, file: Committed) -> None:
        self._file = file
        self._request = file.wait_request()
        self._n_begun = 0
        self._succeeded = False

    def __enter__(self) -> Attempts:
        self._request.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._request.__exit__(*error)

    def again(self) -> bool:
        """Whether the file must be read, for the first time or again. Sees the last commit."""
        if self._succeeded:
            return False
        if self._n_begun:
            self._request.disturbed()
        if self._n_begun == _MOST_READS:
            name = self._file.name
            raise ConflictError(f"cannot read {name}: it was changed repeatedly while it was read", path=name)
        self._n_begun += 1
        self._file.refresh()
        return True

    def one(self) -> _Attempt:
        """One attempt. An error in it is raised only if nobody has committed meanwhile."""
        return _Attempt(self)

    def ended(self, error: BaseException | None) -> bool:
        """Record the end of an attempt. Returns whether to ignore its error and read the file again."""
        if error is None:
            self._succeeded = self._file.is_current()
            return False
        return isinstance(error, Exception) and not self._file.is_current()


class _Attempt:
    """The context of one attempt. A class, because `contextmanager` costs more than a small read should."""

    __slots__ = ("_attempts",)

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        return self._attempts.ended(error)


def read_between_commits(file: Committed, read: Callable[[], T]) -> T:
    """The result of `read` on one state of a file: it is called again if a writer has committed meanwhile."""
    with Attempts(file) as attempts:
        while attempts.again():
            with attempts.one():
                result = read()
    return result


class CommittedFile:
    """The bytes of a file at a path as of its last commit, or bytes that nobody changes.

    `generation` counts the states seen so far.
    """

    def __init__(
        self,
        target: Path | ByteSource,
        name: str,
        disk: Disk,
        timeout: float = _TIMEOUT,
        locking: Locking = "auto",
        refuses_other_writers: bool = False,
    ) -> None:
        """disk: for undoing the commit of a writer that has crashed. timeout: seconds to wait for the end of a commit.
        locking: "none" to take no locks. refuses_other_writers: whether a file that another HDF5 program has open for
        changes is a ConflictError."""
        self.name = name
        self.generation = 0
        self._disk = disk
        self._path = target if isinstance(target, Path) else None
        self._source = target if isinstance(target, ByteSource) else None
        self._stamp: list[int] = []
        self._timeout = timeout
        self._locking = locking
        self._refuses_other_writers = refuses_other_writers and locking != "none"
        self._closed = False

    def consistent(self, read: Callable[[ByteSource], T]) -> T:
        """The result of `read` on one state of the file."""
        return read_between_commits(self, lambda: read(self.current))

    def refresh(self) -> ByteSource:
        """The bytes of the file as of the last commit."""
        if self._closed:
            raise UsageError(f"{self.name} is closed")
        if self._path is not None and (self._source is None or not self.is_current()):
            wait_for_commit(self._path, self._timeout, self._disk)
            stamp = read_stamp(self._path)
            if self._source is None or stamp != self._stamp:
                if self._refuses_other_writers:
                    wait_for_other_writers(self._path, self._timeout, self._disk)
                self._stamp, self._source = stamp, OwnedBytes(open_existing(self._path), self.name)
                self.generation += 1
        return self.current

    @property
    def current(self) -> ByteSource:
        """The bytes of the file as of the last `refresh`."""
        assert self._source is not None  # set by the constructor or by `refresh`
        return self._source

    def is_current(self) -> bool:
        """Whether nothing has been committed since `refresh`."""
        if self._path is None:
            return True
        return not journal_path(self._path).exists() and read_stamp(self._path) == self._stamp

    def wait_request(self) -> WaitRequest:
        """The request to writers to wait, for a reader that they disturb."""
        return WaitRequest(self._path if self._locking != "none" else None)

    def close(self) -> None:
        self._closed = True
        self._source = None  # whoever still reads from it may: its descriptor is closed with it


class OwnedBytes(LocalBytes):
    """The bytes of a file on a local disk, by a descriptor of its own, which is closed when nobody uses it any more."""

    def __del__(self) -> None:
        os.close(self.descriptor)


def wait_for_commit(path: Path, timeout: float, disk: Disk) -> None:
    """Wait while a commit to a file is in progress; undo a commit whose writer has crashed.

    timeout: seconds to wait before a ConflictError.
    """
    deadline = time.monotonic() + timeout
    while True:
        if journal_path(path).exists():
            _pass_journal(path, deadline, disk)
            continue
        mark = find_mark(path, disk)
        if mark is None:
            return
        if not has_writer(path) and not journal_path(path).exists() and find_mark(path, disk) is not None:
            raise half_commit(path, mark)
        _pause(path, deadline)


def wait_for_other_writers(path: Path, timeout: float, disk: Disk) -> None:
    """Refuse a file that another HDF5 program is writing. A writer of ours holds HDF5's lock for one commit only."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            return check_no_other_writes(path, disk)
        except ConflictError:
            if time.monotonic() >= deadline or not has_writer(path):
                raise
        pause(_PAUSE)


def _pause(path: Path, deadline: float) -> None:
    if time.monotonic() >= deadline:
        raise ConflictError(f"cannot read {path}: a commit to it has not ended in time", path=str(path))
    pause(_PAUSE)


def _pass_journal(path: Path, deadline: float, disk: Disk) -> None:
    """Wait a moment for the writer whose journal is next to the file, or recover if it has crashed."""
    if has_writer(path):
        _pause(path, deadline)
        return
    if not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        raise ConflictError(
            f"cannot read {path}: its writer crashed during a commit, which must be undone first. Open the file once "
            "where you may write to it and its folder",
            path=str(path),
        )
    if not _recover(path, deadline, disk):
        _pause(path, deadline)


@shielded
def _recover(path: Path, deadline: float, disk: Disk) -> bool:
    """Undo the commit of a writer that has crashed; False if another process holds the lock and may be doing so."""
    hold_signals()
    lock = None
    try:
        with suppress(ConflictError):
            lock = WriterLock(path, 0)
        if lock is not None:
            roll_back(path, disk, max(0.0, deadline - time.monotonic()))
        return lock is not None
    finally:
        if lock is not None:
            lock.release()
        release_signals()
