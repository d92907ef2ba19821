"""HDF5 files: opened with clear errors, changed and created whole or not at all.

A file open for changes is written through a journal (see `journal`): `commit` makes what was written
part of the file, `roll_back` forgets it, and a file whose writer died is put right when it is next opened.
A new file is written aside (`.<name>.<random>.part` in the same folder) and renamed when it is closed
without an error. Files are made in the oldest HDF5 form that holds the data.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakSet

import h5py
from h5py import h5f, h5fd, h5g, h5p

from colonnade.errors import ConflictError, CorruptError, FormatError, UsageError
from colonnade.h5 import capi
from colonnade.h5.callbacks import Callbacks
from colonnade.h5.capi import HDF5_LOCK
from colonnade.h5.handles import LibraryGroup, node_of
from colonnade.h5.vetting import OpenFile, open_file_of, vet_map, vet_root
from colonnade.h5.watched import Watch, watched
from colonnade.nodes import Group, Node
from colonnade.nodes.damage import hdf5_errors, lack_of, raise_lack, to_corrupt_error
from colonnade.nodes.protocols import Notes
from colonnade.pager import disk
from colonnade.pager.half_commits import check_whole, find_mark
from colonnade.pager.interrupts import hold_signals, release_signals, shielded
from colonnade.pager.journal import JournaledFile
from colonnade.pager.locks import (
    HDF5Lock,
    WaitRequest,
    WriterLock,
    lock_path,
    read_stamp,
)
from colonnade.pager.marks import journal_path
from colonnade.pager.options import BinaryFile, Care, Links, Mode, Target, is_stream, stream_size
from colonnade.pager.readers import read_between_commits, wait_for_commit, wait_for_other_writers
from colonnade.pager.recovery import clear_place, roll_back
from colonnade.pager.safe_files import check_readable_file, check_regular, hold, part_path
from colonnade.pager.sources import ByteSource, JournaledBytes, StreamBytes

_BOUNDS = ("earliest", "latest")
_CACHE_SLOTS = 521  # of each open dataset's table of chunks, as in HDF5 1: the 8,191 of HDF5 2 take 64 KiB a column
_HANDLES: WeakSet[FileHandle] = WeakSet()
"""All handles of this process: HDF5 keeps one memory of a file for all its readers, and a fork must disown writers."""


class FileHandle:
    """An open HDF5 file, and what must happen when it is changed and closed."""

    def __init__(
        self,
        h5: Any,  # an h5py.File, or the GroupHandle that was given
        name: str,
        owned: bool = True,
        journaled: JournaledFile | None = None,
        lock: WriterLock | None = None,
        aside: Path | None = None,
    ) -> None:
        self.notes: Notes = {}
        self._use(h5)
        self.name = name
        self.generation = 0
        self.held = False
        self.is_changing = False  # a commit or a roll-back will follow
        self._owned = owned
        self._journaled = journaled
        self._lock = lock
        self._aside = aside
        self.when_closed: Callable[[os.stat_result], None] | None = None
        self._place = Path(name)
        self._watched: Path | None = None
        self._closed = False
        self._is_torn = False  # to be opened again before it is used
        self._is_ahead = False  # of what the journal would roll back to
        self._care = Care()
        self._stamp: list[int] = []
        self._shown: tuple[int, Any] | None = None  # of a reader: the generation, and what the program was given
        self._names = (
            "",
            "",
            "",
        )  # of the journal, the file and its lock: asked before and after everything that is read
        _HANDLES.add(self)

    def _use(self, h5: Any) -> None:
        self.h5: h5py.File = h5
        self._open_file: OpenFile = open_file_of(h5.id)  # held here as long as it is used
        self._open_file.notes |= self.notes
        self.notes = self._open_file.notes

    @property
    def root(self) -> Group:
        """The group that was opened: the file's root, or the group given."""
        if not isinstance(self.h5, h5py.File):
            return LibraryGroup.of(self.h5.id)
        try:
            return LibraryGroup.of(h5g.open(self.h5.id, b"/"))
        except RecursionError:
            raise
        except (KeyError, RuntimeError, OSError) as error:
            raise_lack(error)
            raise CorruptError(f"the root group cannot be opened: {error}", path=self.name) from error

    @property
    def library_root(self) -> Group:
        """The group that was opened, as libhdf5 has it."""
        return self.root

    def open_at(self, address: int) -> Node | None:
        """The object whose header is at an address; None if it cannot be opened."""
        try:
            vet_map(self.h5.id, address)
            return node_of(capi.open_at(self.h5.id, address))
        except hdf5_errors():
            return None

    @property
    def writable(self) -> bool:
        return bool(self.h5) and (self.h5 if isinstance(self.h5, h5py.File) else self.h5.file).mode == "r+"

    @property
    def is_open(self) -> bool:
        """Whether the caller has not closed it; a reader's handle may be away until it is needed again."""
        return not self._closed and (bool(self.h5) or self._watched is not None)

    @property
    def path(self) -> Path | None:
        """The path of a file that was opened by its path."""
        return self._place if self._journaled is not None or self._watched is not None else None

    @property
    def is_new(self) -> bool:
        """Whether the file is still being made, aside from its place."""
        return self._aside is not None

    @property
    def is_foreign_stream(self) -> bool:
        """Whether it is read through a file object: one the caller gave, or that of a URL."""
        return self._owned and self._journaled is None and self._watched is None

    @property
    def is_journaled(self) -> bool:
        """Whether changes can be rolled back: not so for an h5py file or a file object that the caller opened."""
        return self._journaled is not None

    def status(self) -> os.stat_result:
        """The status of the file that is open for changes, whatever lies at its path by now."""
        if self._journaled is None:
            raise UsageError(f"{self.name} was not opened from a path for changes")
        return os.fstat(self._journaled.descriptor)

    def take_written(self, flush: bool = True) -> list[tuple[int, int]]:
        """What was written to the file since this was last asked: from byte to byte."""
        if self._journaled is None:
            return []
        if flush:
            h5f.flush(self.h5.id)
        written, self._journaled.written = self._journaled.written, []
        return written

    @shielded
    def commit(self) -> None:
        """Make what was written part of the file."""
        self.check_process()
        if self._journaled is not None:
            self._journaled.latch.enter()
        h5f.flush(self.h5.id)
        if self._journaled is not None and self._aside is None:
            self._journaled.commit()
        self._is_ahead = True
        self.generation += 1

    def hold(self) -> None:
        """Before a change: a new file is committed only when it is closed, but what it has is not to be rolled back."""
        if self._aside is not None and self._journaled is not None and self._is_ahead:
            h5f.flush(self.h5.id)
            self._journaled.commit()
        self._is_ahead = False

    def refresh(self) -> None:
        """Of a file open for reading: see the last commit, if there was one; handles are void then.

        Not while it is `held`: what is read together must be of one state.
        """
        if self._watched is None or self.held or self.is_current():
            return
        if self.h5:
            self.h5.close()
        h5, self._stamp = _open_steady(self._watched, self._care)
        self._use(h5)
        self.generation += 1

    @property
    def shown(self) -> Any:
        """The h5py file for the program: of a reader, one whose objects raise when others have changed the file."""
        if self._watched is None:
            return self.h5
        if self._shown is None or self._shown[0] != self.generation:
            generation = self.generation

            def is_stale() -> bool:
                return self.is_open and (self.generation != generation or not self.is_current())

            self._shown = generation, watched(h5py.File(self.h5.id), Watch(self.name, is_stale))
        return self._shown[1]

    def wait_request(self) -> WaitRequest:
        """The request to writers to wait, for a reader that they disturb."""
        return WaitRequest(self._watched if self._care.locking != "none" else None)

    def is_current(self) -> bool:
        """Whether it is open, and nothing was committed since the last `refresh`."""
        if self._watched is None or not self.h5:
            return bool(self.h5)
        journal, file, lock = self._names
        return not os.path.exists(journal) and read_stamp(self._watched, (file, lock)) == self._stamp  # noqa: PTH110

    def watch(self, path: Path, care: Care, stamp: list[int]) -> FileHandle:
        """Look out for commits of others to this path."""
        self._watched, self._care, self._stamp = path, care, stamp
        self._names = (os.fspath(journal_path(path)), os.fspath(path), os.fspath(lock_path(path)))
        return self

    def lost_in_hdf5(self, error: Exception | None = None) -> BaseException | None:
        """What struck inside a callback of HDF5, which lost it or made `error` of it; None where nothing did."""
        has_latch = self._journaled is not None and not self._journaled.closed
        return _lost_by(self._journaled if has_latch else None, error)

    def take_failure(self, error: Exception | None = None) -> BaseException | None:
        """The same, where nothing is rolled back yet: it is here, if something was not read or written."""
        lost = self.lost_in_hdf5(error)
        if self._journaled is not None and not self._journaled.closed and not self._journaled.latch.is_sound():
            self.roll_back()
        return lost

    @property
    def is_orphan(self) -> bool:
        """Whether this process was forked from the one that opened the file for changes."""
        return self._journaled is not None and self._journaled.is_orphan

    def check_process(self) -> None:
        """Refuse to go on in a forked process."""
        if self._journaled is not None:
            self._journaled.check_process()

    def disown(self) -> None:
        """In a forked process: close what it was given, and change nothing. A flock is held by all who have it open."""
        with suppress(Exception):
            self.h5.close()  # what HDF5 has not written yet goes nowhere (see `callbacks`)
        if self._journaled is not None:
            self._journaled.close()
        if self._lock is not None:
            self._lock.release()

    def make_usable(self) -> None:
        """Between changes: forget what HDF5 holds after a read or write of it failed, and raise what struck then."""
        self.check_process()
        if self._journaled is None or self._closed:
            return
        self._journaled.latch.enter()
        if self.is_changing or self.held:  # what struck is raised when the change or the read has ended
            return
        if self._is_torn:
            self.roll_back()
        elif not self._journaled.latch.is_sound():
            is_known = self._journaled.latch.failure is not None or self._journaled.is_changed
            lost = self.take_failure()
            if is_known and lost is not None:
                raise lost

    @shielded
    def roll_back(self) -> None:
        """Forget what was written since the last commit; handles of the file are void afterwards."""
        if self._journaled is None or self.is_orphan:
            return
        self._is_torn = True
        with suppress(Exception):  # objects of a damaged file stay open: what HDF5 still writes to them is not kept
            self.h5.close()
        if not self._journaled.closed:
            self._journaled.roll_back()
        self._open_again()

    def _open_again(self) -> None:
        """Let HDF5 read the file from the beginning. If this fails, it is tried again before the file is used."""
        assert self._journaled is not None  # checked by the caller
        self._is_torn = True
        if self._journaled.closed:
            self._journaled, h5 = _open_journaled(Path(self.name), self._care, self._lock)
        else:
            h5 = _open_through(self._journaled, self.name, h5f.ACC_RDWR, self._care.links)
        self._use(h5)
        self.generation += 1
        self._is_torn = False

    def bytes_now(self) -> ByteSource:
        """The bytes of a file open for changes, committed or not."""
        if self._journaled is None:
            raise UsageError(f"{self.name} was not opened from a path for changes, so its bytes cannot be read")
        h5f.flush(self.h5.id)
        return JournaledBytes(self._journaled, self.name)

    def change_bytes(self, work: Callable[[JournaledFile], None]) -> None:
        """Let `work` change bytes of the file past HDF5, which looks at it again afterwards; no commit yet.

        Handles of the file are void afterwards.
        """
        if self._journaled is None:
            raise UsageError(f"{self.name} was not opened from a path for changes, so its bytes cannot be changed")
        h5f.flush(self.h5.id)
        self.h5.close()
        try:
            lost = self._journaled.latch.take()
            if lost is not None:
                raise lost
            work(self._journaled)
        finally:
            self._open_again()

    def rewrite(
        self, fill: Callable[[Group, Group], None], finish: Callable[[JournaledFile], None] | None = None
    ) -> None:
        """Put a new file in the place of this one, at once: `fill` copies from the old root to the new one.

        finish: changes bytes of the new file past HDF5, when that has closed it.
        Handles of the file are void afterwards.
        """
        if self._journaled is None or self._aside is not None:
            raise UsageError(f"{self.name} was not opened from a path for changes, so it cannot be rewritten")
        self.commit()
        path = Path(self.name)
        aside = part_path(path)
        try:
            # not by its path: HDF5 would give it the memory that another handle has of an older state
            with _open_through(self._journaled, self.name, h5f.ACC_RDONLY, self._care.links) as source:
                _held = open_file_of(source.id)  # the map of open files is weak
                _write_aside(aside, source, self._care, fill, finish)
            self._take_place(aside, path)
        finally:
            if not self.is_orphan:
                _discard(aside)

    @shielded
    def _take_place(self, aside: Path, path: Path) -> None:
        assert self._journaled is not None  # looked at by the caller
        try:
            self.h5.close()
            self._journaled.commit()
        except BaseException:  # also what struck while the new file was written: this one is opened again as it was
            self.roll_back()
            raise
        try:
            self._journaled.close()
            disk.DISK.rename(aside, path)
            if self._lock is not None:
                self._lock.count_commit()
            if self._care.durability == "full":
                disk.DISK.sync_folder(path.parent)
        finally:
            self._open_again()

    @shielded
    def close(self, keep: bool = True) -> None:
        """Close the file and commit it; with keep=False what was written since the last commit is forgotten."""
        if self.is_orphan:
            self._closed = True
            return
        keep = keep and not self._is_torn
        shared = self._stop_watching()
        self._closed = self._owned
        whole = False
        try:
            if self._owned and self.h5 and not shared:
                self._close_h5()
            if keep and self._journaled is not None and not self._journaled.closed:
                self._journaled.commit()
            whole = keep
        finally:
            try:
                status = self._end_changes()
                self._end_aside(whole)
                if whole and self.when_closed is not None:
                    there = self._place.stat()
                    if status is not None and os.path.samestat(status, there):
                        self.when_closed(there)  # while nobody else may write yet
            finally:
                if self._lock is not None:
                    self._lock.release()
                release_signals()

    def _close_h5(self) -> None:
        try:
            self.h5.close()
        except Exception as error:
            lost = self.lost_in_hdf5(error)
            if lost is None or lost is error:
                raise
            raise lost from error

    def _end_changes(self) -> os.stat_result | None:
        """Close the file that was open for changes; gives its last status, by which it is known again."""
        if self._journaled is None or self._journaled.closed:
            return None
        try:
            if self._lock is not None:
                self._lock.renew_time(self._journaled.descriptor)
            return os.fstat(self._journaled.descriptor)
        finally:
            self._journaled.close()

    def _stop_watching(self) -> bool:
        """Look out for commits no longer; says whether other readers still use the same handle of HDF5."""
        if self._watched is None:
            return False
        others = [other for other in _readers(self._watched) if other is not self]
        self._watched = None
        return any(other.h5 is self.h5 for other in others)

    def _end_aside(self, keep: bool) -> None:
        """Put a file that was written aside in its place, or throw it away."""
        aside, self._aside = self._aside, None
        if aside is None:
            return
        try:
            if keep:
                disk.DISK.rename(aside, Path(self.name))
                disk.DISK.sync_folder(Path(self.name).parent)
        finally:
            aside.unlink(missing_ok=True)


def open_file(target: Target, mode: Mode = "r", large_root: bool = False, care: Care | None = None) -> FileHandle:
    """Open a path, an h5py file or group, or a binary file object.

    `large_root` lets the attributes of a new file's root group grow beyond 64 KiB.
    """
    care = care or Care()
    if mode not in ("r", "r+", "w", "a"):
        raise UsageError(f"mode {mode!r} is not one of 'r', 'r+', 'w', 'a'")
    if isinstance(target, h5py.Group):
        if not target:
            raise UsageError("this h5py file is closed")
        if mode in ("r+", "w") and target.file.mode == "r":
            raise ConflictError(f"{target.file.filename} was opened read-only by h5py; open it with mode 'r+'")
        _check_h5py(target.file)
        open_file_of(target.id).links = care.links
        return FileHandle(target, str(target.file.filename), owned=False)
    if isinstance(target, (str, os.PathLike)):
        return _open_path(Path(target), mode, large_root, care)
    if is_stream(target):
        return _open_stream(target, mode, care)
    raise UsageError(
        f"cannot open {type(target).__name__}: give a path, an h5py.File or Group, a binary file object, or a URL"
    )


def _lost_by(journaled: JournaledFile | None, error: Exception | None) -> BaseException | None:
    cause: BaseException | None = error
    while isinstance(cause, SystemError):  # Python's way to say that a function returned with an exception set
        cause = cause.__cause__
    if cause is not error and cause is not None:
        return cause
    if journaled is None:
        return None
    if error is not None and re.search(r"driver \w+ request failed", str(error)):
        journaled.latch.is_broken = True  # HDF5 says that a callback failed, which ours do before their first line
        return journaled.latch.take()
    if isinstance(error, (MemoryError, RecursionError)):
        journaled.latch.keep(error)  # it may come from a read of HDF5 that failed before its first line
    is_meant = error is not None and to_corrupt_error(error, "") is error  # an error of ours, or of the program
    is_lost = journaled.latch.failure is not None or not journaled.latch.is_sound()
    return journaled.latch.take() if is_lost or not is_meant else None


@shielded
def _discard(aside: Path) -> None:
    aside.unlink(missing_ok=True)


def _disown_all() -> None:
    """After a fork, in the child: the files of the parent are the parent's."""
    for handle in list(_HANDLES):
        if handle.is_journaled:
            handle.disown()
    release_signals()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_all)


def _check_h5py(file: h5py.File) -> None:
    """Refuse a file that h5py opened with half a commit in it; what is undone would change under it."""
    path = Path(os.fsdecode(file.filename))
    if capi.descriptor_of(file.id) is not None and path.is_file() and find_mark(path.resolve(), disk.DISK) is not None:
        raise ConflictError(
            f"cannot use {path}: it holds half a commit. Close the h5py file and open the path with colonnade",
            path=str(path),
        )


def place_to_read(target: Any) -> tuple[Path, str]:
    """The path of a file that h5py has open for reading, and that of the group in it: it can be read past h5py."""
    if not target:
        raise UsageError("this h5py file is closed")
    file = target.file
    path = Path(os.fsdecode(file.filename))
    if file.mode != "r" or capi.descriptor_of(file.id) is None or not path.is_file():
        raise UsageError(
            f"{file.filename} was opened by h5py with mode {file.mode!r} and driver {file.driver!r}: its bytes "
            "cannot be read past h5py. Give the path, or open the file with colonnade.open"
        )
    return path, str(target.name)


def _open_stream(stream: BinaryFile, mode: Mode, care: Care) -> FileHandle:
    shown = str(getattr(stream, "name", "the file object"))
    try:
        if mode != "w":
            _check_stream(stream, shown)
        h5 = h5py.File(stream, mode, libver=_BOUNDS, rdcc_nslots=_CACHE_SLOTS)
    except OSError as error:
        raise _explain(error, shown, stream_size(stream)) from error
    open_file_of(h5.id).links = care.links
    return FileHandle(h5, shown, owned=True)


def _check_stream(stream: BinaryFile, name: str) -> None:
    position = stream.tell()
    source = StreamBytes(stream, name)
    check_whole(source)
    vet_root(source)
    stream.seek(position)


def _open_path(path: Path, mode: Mode, large_root: bool, care: Care) -> FileHandle:
    if path.exists() and not path.is_dir():
        check_regular(path, "open")
    empty = path.is_file() and path.stat().st_size == 0
    if mode == "w" or (mode == "a" and (empty or not path.exists())):
        return _create_aside(path, large_root, care)
    check_readable_file(path)
    return _open_to_read(path, care) if mode == "r" else _open_to_change(path, mode, care)


def _open_to_read(path: Path, care: Care) -> FileHandle:
    path = path.resolve()
    h5, stamp = _open_steady(path, care)
    return FileHandle(h5, str(path)).watch(path, care, stamp)


def _open_steady(path: Path, care: Care) -> tuple[h5py.File, list[int]]:
    """The file opened between two commits, and its stamp: a file that is being committed may look broken."""
    opening = _Opening(path, care)
    h5 = read_between_commits(opening, opening.open)
    open_file_of(h5.id).links = care.links
    return h5, opening.stamp


class _Opening:
    """A file that libhdf5 opens for reading, as of its last commit."""

    def __init__(self, path: Path, care: Care) -> None:
        self.name = str(path)
        self.stamp: list[int] = []
        self._path = path
        self._care = care
        self._h5: h5py.File | None = None

    def refresh(self) -> None:
        """See the last commit: what libhdf5 has open of older states is closed, also for other readers, which open it
        again when they need it."""
        if self._h5 is not None:
            self._h5.close()
        wait_for_commit(self._path, self._care.timeout, disk.DISK)
        self.stamp = read_stamp(self._path)
        _close_stale_handles(self._path, self.stamp)

    def open(self) -> h5py.File:
        """The file as libhdf5 has it."""
        self._h5 = _open_already(self._path) or _open_h5_to_read(self._path, self._care)
        return self._h5

    def is_current(self) -> bool:
        """Whether nothing has been committed since `refresh`."""
        return not journal_path(self._path).exists() and read_stamp(self._path) == self.stamp

    def wait_request(self) -> WaitRequest:
        """The request to writers to wait, for a reader that they disturb."""
        return WaitRequest(self._path if self._care.locking != "none" else None)


def _readers(path: Path) -> list[FileHandle]:
    """This process's handles that read the file at a path."""
    name = os.fspath(path)
    return [handle for handle in list(_HANDLES) if handle._watched is not None and handle._names[1] == name]


def _close_stale_handles(path: Path, stamp: list[int]) -> None:
    """Close this process's other handles of older states; they open again when they are needed.

    HDF5 keeps one memory of a file for all its handles in a process: all must go for it to look again.
    """
    for handle in _readers(path):
        if handle.h5 and handle._stamp != stamp:
            handle.h5.close()


def _open_already(path: Path) -> h5py.File | None:
    """The HDF5 handle that another reader of this process has: all readers of one state share one.

    HDF5 2.0 reads freed memory in H5Dget_create_plist of a variable-length dataset that was first opened by
    way of another handle of the file, which is closed by now: the datatype of the fill value still points to it.
    """
    return next((handle.h5 for handle in _readers(path) if handle.h5), None)


def _open_h5_to_read(path: Path, care: Care) -> h5py.File:
    """The file open without HDF5's lock, which would stop writers of ours for as long as it is open.

    By a driver of its own (see `capi.READER`): with that of most programs ("sec2") HDF5 would share its memory of the
    file with handles that the caller has of it, and refuse to open it with and without locks in one process.
    """
    if care.locking != "none":
        wait_for_other_writers(path, care.timeout, disk.DISK)
    try:
        return h5py.File(path, "r", driver=capi.READER, libver=_BOUNDS, locking=False, rdcc_nslots=_CACHE_SLOTS)
    except OSError as error:
        raise _explain(error, str(path), path.stat().st_size) from error


@shielded
def _open_to_change(path: Path, mode: Mode, care: Care) -> FileHandle:
    if not os.access(path, os.W_OK):
        raise ConflictError(f"{path} is read-only: it cannot be opened with mode {mode!r}", path=str(path))
    path = path.resolve()
    hold_signals()
    lock = None
    try:
        lock = WriterLock(path, care.timeout) if care.locking != "none" else None
        roll_back(path, disk.DISK, care.timeout)
        journaled, h5 = _open_journaled(path, care, lock)
    except BaseException:
        if lock is not None:
            lock.release()
        release_signals()
        raise
    handle = FileHandle(h5, str(path), journaled=journaled, lock=lock)
    handle._care = care
    return handle


def _open_journaled(path: Path, care: Care, lock: WriterLock | None) -> tuple[JournaledFile, h5py.File]:
    """The file for changes, by the holder of its lock."""
    count, wait = (lock.count_commit, lock.wait_for_readers) if lock is not None else (None, None)
    journaled = JournaledFile(path, disk.DISK, care.durability, count=count, wait=wait, library=HDF5_LOCK)
    try:
        _check_names(journaled.descriptor, path, care)
        if care.locking != "none":
            journaled.lock = HDF5Lock(journaled.descriptor, path, care.timeout, care.hdf5_lock)
        return journaled, _open_through(journaled, str(path), h5f.ACC_RDWR, care.links)
    except BaseException as error:
        journaled.close()
        if isinstance(error, OSError) and not isinstance(error, ConflictError):
            raise _explain(error, str(path), path.stat().st_size) from error
        told = to_corrupt_error(error, str(path)) if isinstance(error, Exception) else error
        if told is not error:
            raise told from error
        raise


def _check_names(descriptor: int, path: Path, care: Care) -> None:
    """Refuse to change a file that has other names: who uses those sees neither our lock nor our journal."""
    n_names = os.fstat(descriptor).st_nlink
    if n_names > 1 and care.hard_links == "refuse":
        raise ConflictError(
            f"cannot open {path} for changes: it has {n_names} names (hard links), and would change under all of them. "
            "Copy it, or open it with hard_links='allow' if nobody uses the others",
            path=str(path),
        )


def _access_list(stream: JournaledFile, reads_only: bool = False) -> h5p.PropFAID:
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_libver_bounds(h5f.LIBVER_EARLIEST, h5f.LIBVER_LATEST)
    access.set_fclose_degree(h5f.CLOSE_STRONG)
    access.set_cache(0, _CACHE_SLOTS, *access.get_cache()[2:])
    access.set_fileobj_driver(h5fd.fileobj_driver, Callbacks(stream, reads_only).for_hdf5())
    return access


def _open_through(stream: JournaledFile, name: str, flags: int, links: Links) -> h5py.File:
    vet_root(JournaledBytes(stream, name))
    file_id = h5f.open(os.fsencode(name), flags, fapl=_access_list(stream, flags == h5f.ACC_RDONLY))
    return _journaled_h5(file_id, stream, links)


def _journaled_h5(file_id: h5f.FileID, stream: JournaledFile, links: Links) -> h5py.File:
    file = open_file_of(file_id, h5g.get_objinfo(file_id))
    file.journaled, file.links = stream, links
    return h5py.File(file_id)


@shielded
def _create_aside(path: Path, large_root: bool, care: Care) -> FileHandle:
    if path.is_dir():
        raise UsageError(f"{path} is a folder: name a file in it")
    folder = path.parent
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {str(folder)!r} to write {path.name} in")
    if not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise ConflictError(f"{path} is read-only: it cannot be written", path=str(path))
    path = path.resolve()
    hold_signals()
    lock = None
    try:
        lock = WriterLock(path, care.timeout) if care.locking != "none" else None
        return _create(path, large_root, care, lock)
    except BaseException:
        if lock is not None:
            lock.release()
        release_signals()
        raise


def _create(path: Path, large_root: bool, care: Care, lock: WriterLock | None) -> FileHandle:
    """A new file aside. What a dead writer left of the old one is undone, so that its journal is not taken for ours."""
    clear_place(path, disk.DISK, care.timeout)
    aside = part_path(path)
    creation = h5p.create(h5p.FILE_CREATE)
    if large_root:
        creation.set_attr_creation_order(h5p.CRT_ORDER_TRACKED)
    journaled = JournaledFile(aside, disk.DISK, care.durability, create=True, aside=True, library=HDF5_LOCK)
    hold(journaled.descriptor)
    handle = h5f.create(os.fsencode(path), h5f.ACC_TRUNC, fcpl=creation, fapl=_access_list(journaled))
    h5 = _journaled_h5(handle, journaled, "folder")
    return FileHandle(h5, str(path), journaled=journaled, lock=lock, aside=aside)


def _write_aside(
    aside: Path,
    source: h5py.File,
    care: Care,
    fill: Callable[[Group, Group], None],
    finish: Callable[[JournaledFile], None] | None,
) -> None:
    """A whole file, made like the source (also its user block and its permissions), by `fill`."""
    import shutil

    from colonnade.h5.filters import creation_like

    journaled = JournaledFile(aside, disk.DISK, care.durability, create=True, library=HDF5_LOCK)
    hold(journaled.descriptor)
    try:
        creation = creation_like(source.id)
        made = h5f.create(os.fsencode(aside), h5f.ACC_TRUNC, fcpl=creation, fapl=_access_list(journaled))
        with h5py.File(made) as target:
            fill(LibraryGroup.of(source["/"].id), LibraryGroup.of(target["/"].id))
        if finish is not None:
            finish(journaled)
        with Path(source.filename).open("rb") as old:
            journaled.seek(0)
            journaled.write(memoryview(old.read(source.userblock_size)))
        shutil.copymode(source.filename, aside)
        journaled.commit()
    except Exception as error:
        lost = _lost_by(journaled, error)
        if lost is None or lost is error:
            raise
        raise lost from error
    finally:
        journaled.close()


def _explain(error: OSError, name: str, size: int) -> Exception:
    """The error of ours that says what HDF5's error means."""
    text = str(error)
    if "signature not found" in text:
        advice = "it is empty" if size == 0 else "its first bytes are not HDF5's"
        return FormatError(f"{name} is not an HDF5 file: {advice}", path=name)
    if "truncated" in text:
        return CorruptError(
            f"the file is cut short: it has {size:,} bytes, its header declares more ({text})", path=name
        )
    if isinstance(error, PermissionError):
        return ConflictError(f"{name} may not be opened: {text}", path=name)
    if "already open" in text:
        return ConflictError(f"{name} is open elsewhere in this process, in another mode: close it first", path=name)
    lack = lack_of(error)
    if lack is not None:
        return lack
    if re.search(r"\block", text):  # not "superblock", which is damage
        return ConflictError(f"{name} is in use by another process: {text}", path=name)
    return CorruptError(f"the file cannot be opened as HDF5: {text}", path=name)
