"""A file opened for reading without libhdf5, while others may commit to it, or one that a caller has open for changes.

Readers take no lock: they compare the file's stamp before and after, and use what they read only if it has not changed
(see `pager.locks`). A journal left by a writer that crashed is rolled back first, as in `h5.files`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from colonnade.errors import ColonnadeError, ConflictError, FormatError, UsageError
from colonnade.h5.files import FileHandle, Mode, open_file, settle
from colonnade.pager.journal import journal_path
from colonnade.pager.locks import Wish, read_stamp
from colonnade.pager.receipts import Receipts, file_state, load_receipts, save_receipts
from colonnade.pager.recovery import check_whole
from colonnade.pager.safe_files import open_existing
from colonnade.pager.sources import BufferBytes, ByteSource, LocalBytes, StreamBytes

Result = TypeVar("Result")
Target = str | os.PathLike[str] | bytes | bytearray | memoryview | Any
_MOST_READS = 50


class OpenFile:
    """A path, a buffer or a binary file object to read from. `generation` counts the file states seen so far."""

    def __init__(self, target: Target, read_only: bool = False) -> None:
        self.generation = 0
        self._read_only = read_only
        self._path: Path | None = None
        self._descriptor = -1
        self._stamp: list[int] = []
        self._source: ByteSource | None = None
        self._closed = False
        if isinstance(target, (str, os.PathLike)):
            self._path = Path(target).resolve()
            self.name = str(target)
            _check_path(self._path)
        else:
            self._source = _source_of(target)
            self.name = self._source.name
            check_whole(self._source)

    def change(self, work: Callable[[FileHandle], None]) -> None:
        """Let `work` change the file, in one commit or not at all."""
        if self._path is None:
            raise UsageError(f"cannot change {self.name}: it was not opened from a path")
        if self._read_only:
            raise ConflictError(
                f"{self.name} is open for reading: open it with mode 'r+' or 'a' to write", path=self.name
            )
        change_path(self._path, "r+", work)

    def consistent(self, read: Callable[[ByteSource], Result]) -> Result:
        """The result of `read` on one state of the file; it is called again if a writer committed meanwhile."""
        with Wish(self._path) as wish:
            for _ in range(_MOST_READS):
                source = self.refresh()
                try:
                    found = read(source)
                except (ColonnadeError, OSError):
                    if self.is_current():
                        raise
                else:
                    if self.is_current():
                        return found
                wish.disturbed()
        raise ConflictError(f"{self.name} was changed again and again while it was read", path=self.name)

    def refresh(self) -> ByteSource:
        """The file as of the last commit."""
        if self._closed:
            raise UsageError(f"{self.name} is closed")
        if self._path is None:
            assert self._source is not None  # set by the constructor
            return self._source
        settle(self._path)
        stamp = read_stamp(self._path)
        if self._source is None or stamp != self._stamp:
            self._let_go()
            self._descriptor = open_existing(self._path)
            self._stamp, self._source = stamp, LocalBytes(self._descriptor, self.name)
            self.generation += 1
        return self._source

    def is_current(self) -> bool:
        """Whether nothing has been committed since `refresh`."""
        if self._path is None:
            return True
        return not journal_path(self._path).exists() and read_stamp(self._path) == self._stamp

    def close(self) -> None:
        self._closed = True
        self._let_go()

    def _let_go(self) -> None:
        descriptor, self._descriptor, self._source = self._descriptor, -1, None
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self._let_go() if hasattr(self, "_descriptor") else None


class OpenHandle:
    """A file that the caller has open for changes: reading sees everything written, committed or not.

    change: runs a function as one commit, or as part of the caller's transaction.
    """

    def __init__(self, handle: FileHandle, change: Callable[[], AbstractContextManager[None]]) -> None:
        self.name = handle.name
        self._handle = handle
        self._change = change
        self._seen = handle.generation
        self._closed = False

    @property
    def generation(self) -> int:
        return self._handle.generation

    def change(self, work: Callable[[FileHandle], None]) -> None:
        """Let `work` change the file, as part of the caller's transaction or as one commit."""
        self._check_open()
        with self._change():
            work(self._handle)

    def consistent(self, read: Callable[[ByteSource], Result]) -> Result:
        """The result of `read`. There is no other writer, so it sees one state."""
        return read(self.refresh())

    def refresh(self) -> ByteSource:
        self._check_open()
        source = self._handle.bytes_now()
        self._seen = self.generation
        return source

    def is_current(self) -> bool:
        """Whether nothing has been changed or rolled back since `refresh`."""
        return self._seen == self.generation

    def close(self) -> None:
        """Close this object only; the file belongs to the caller."""
        self._closed = True

    def _check_open(self) -> None:
        self._handle.check_process()
        if self._closed or not self._handle.is_open:
            raise UsageError(f"{self.name} is closed")


Opened = OpenFile | OpenHandle


def change_path(path: Path, mode: Mode, work: Callable[[FileHandle], None]) -> None:
    """Let `work` change the file at a path, in one commit or not at all.

    Only sparse arrays are changed, which have no search indexes, so the indexes of the file stay trusted.
    """
    handle = open_file(path, mode)
    try:
        if handle.path is not None and not handle.is_new:
            handle.when_closed = partial(_keep_receipts, handle.path, load_receipts(handle.path, handle.status()))
        work(handle)
    except BaseException:
        handle.close(keep=False)
        raise
    handle.close()


def _keep_receipts(path: Path, receipts: Receipts, status: os.stat_result) -> None:
    save_receipts(path, receipts, file_state(status))


def opened(target: Target | Opened) -> Opened:
    return target if isinstance(target, (OpenFile, OpenHandle)) else OpenFile(target)


def _check_path(path: Path) -> None:
    if path.is_dir():
        raise FormatError(f"{path} is a folder, not an HDF5 file", path=str(path))
    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}")


def _source_of(target: Target) -> ByteSource:
    if isinstance(target, (bytes, bytearray, memoryview)):
        return BufferBytes(target)
    if hasattr(target, "read") and hasattr(target, "seek"):
        return StreamBytes(target, str(getattr(target, "name", "the file object")))
    raise UsageError(f"cannot open {type(target).__name__}: give a path, bytes, or a binary file object")
