"""A file opened for reading without libhdf5, while others may commit to it, or one that a caller has open for changes.

`OpenTarget` follows the commits of others (`pager.readers`); `OpenHandle` belongs to a caller who is the only writer.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from colonnade.errors import ConflictError, FormatError, UsageError
from colonnade.pager import disk
from colonnade.pager.half_commits import check_whole
from colonnade.pager.options import BinaryFile, Mode, is_stream
from colonnade.pager.readers import CommittedFile
from colonnade.pager.receipts import Receipts, file_state, load_receipts, save_receipts
from colonnade.pager.sources import BufferBytes, ByteSource, StreamBytes

if TYPE_CHECKING:
    from colonnade.h5.files import FileHandle

T = TypeVar("T")
FileChanger = Callable[[Callable[["FileHandle"], None]], None]
"""Runs a function that changes a file, as one commit or as part of one."""
SparseSource = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryFile


class OpenTarget(CommittedFile):
    """A path, a buffer or a binary file object to read from; the file at a path can be changed."""

    def __init__(self, target: SparseSource, read_only: bool = False) -> None:
        self._read_only = read_only
        if isinstance(target, (str, os.PathLike)):
            path = Path(target).resolve()
            super().__init__(path, str(target), disk.DISK)
            _check_path(path)
        else:
            source = _source_of(target)
            super().__init__(source, source.name, disk.DISK)
            check_whole(source)

    def change(self, work: Callable[[FileHandle], None]) -> None:
        """Let `work` change the file, in one commit or not at all."""
        if self._path is None:
            raise UsageError(f"cannot change {self.name}: it was not opened from a path")
        if self._read_only:
            raise ConflictError(
                f"{self.name} is open for reading: open it with mode 'r+' or 'a' to write", path=self.name
            )
        change_path(self._path, "r+", work)


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

    def consistent(self, read: Callable[[ByteSource], T]) -> T:
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


SparseFile = OpenTarget | OpenHandle
SparseTarget = SparseSource | SparseFile


def change_path(path: Path, mode: Mode, work: Callable[[FileHandle], None]) -> None:
    """Let `work` change the file at a path, in one commit or not at all.

    Only sparse arrays are changed, which have no search indexes, so the indexes of the file stay trusted.
    """
    from colonnade.h5.files import open_file

    handle = open_file(path, mode)
    try:
        if handle.path is not None and not handle.is_new:
            handle.when_closed = partial(_keep_receipts, handle.path, load_receipts(handle.path, handle.status()))
        work(handle)
    except BaseException:
        handle.close(keep=False)
        raise
    handle.close()


def change_of(target: str | os.PathLike[str] | OpenHandle) -> FileChanger:
    """The function that changes a file, new or existing."""
    return target.change if isinstance(target, OpenHandle) else partial(change_path, Path(target), "a")


def _keep_receipts(path: Path, receipts: Receipts, status: os.stat_result) -> None:
    save_receipts(path, receipts, file_state(status))


def opened(target: SparseTarget) -> SparseFile:
    return target if isinstance(target, (OpenTarget, OpenHandle)) else OpenTarget(target)


def _check_path(path: Path) -> None:
    if path.is_dir():
        raise FormatError(f"{path} is a folder, not an HDF5 file", path=str(path))
    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}")


def _source_of(target: SparseSource) -> ByteSource:
    if isinstance(target, (bytes, bytearray, memoryview)):
        return BufferBytes(target)
    if not isinstance(target, (str, os.PathLike)) and is_stream(target):
        return StreamBytes(target, str(getattr(target, "name", "the file object")))
    raise UsageError(f"cannot open {type(target).__name__}: give a path, bytes, or a binary file object")
