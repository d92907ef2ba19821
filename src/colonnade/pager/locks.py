"""One writer at a time, across processes: a lock file next to the file, released when its holder exits.

The lock is `<file>-lock`: a small file that names its holder, and that is locked by the operating system (flock) while
a writer has the file open. If a writer is killed, the operating system releases its lock, so it blocks nobody.
Where the disk does not support locks (some network disks), a live process on the same machine counts as the holder.

HDF5's own lock, on the file itself, is held as well: shared while the file is open for changes, so that other HDF5
programs can read but not write it; exclusive from the first page that a commit overwrites to its end. So a file never
changes while another program holds HDF5's lock, and no HDF5 program opens a file in the middle of a commit. Our own
readers do not take HDF5's lock.
"""

from __future__ import annotations

import errno
import io
import os
import time
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from colonnade.errors import ConflictError
from colonnade.pager.disk import Disk
from colonnade.pager.interrupts import pause, shielded
from colonnade.pager.safe_files import open_existing, open_or_create, sweep_parts

if TYPE_CHECKING:
    from typing import TypedDict

    class Holder(TypedDict, total=False):
        """The process that holds a lock, as its lock file describes it."""

        colonnade: str
        pid: int
        host: str
        since: str
        commits: int
        stamp: list[int]


try:
    import fcntl
except ImportError:  # pragma: no cover - not on this system
    fcntl = None  # type: ignore[assignment]

Locking = Literal["auto", "none"]
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_PAUSE = 0.004  # longest time between two tries, in seconds; randomized, so that writers do not stay in lockstep
_LEAST_TRIES = 3  # a reader that tests whether the lock is held takes it for a moment
_BEGINS = (b'{"colonnade": "lock"', b'{"pid": ')  # so that no other file is overwritten; the latter before 0.2
_HOLDER_BYTES = 512
_MOST_HOLDER_BYTES = 4096  # bytes of a lock file that are read
_BEAR = 5  # disturbed reads after which a reader asks writers to wait
_PATIENCE = 5.0  # longest time that a commit waits for such readers, in seconds


@lru_cache(maxsize=256)  # called before and after every read
def lock_path(path: Path) -> Path:
    return path.with_name(path.name + "-lock")


def request_path(path: Path) -> Path:
    """The path of the file on which readers ask writers to wait."""
    return path.with_name(path.name + "-readers")


class WriterLock:
    """The right to change one file, held until `release`."""

    def __init__(self, path: Path, timeout: float) -> None:
        self._path = path
        self._lock_path = lock_path(path)
        self._request_path = request_path(path)
        self._process = os.getpid()
        self._holder: Holder = {}
        self._is_after_crash = False
        self._descriptor = self._acquire(time.monotonic() + timeout)

    def _acquire(self, deadline: float) -> int:
        from random import random

        tries = 0
        while True:
            tries += 1
            descriptor = self._try()
            if descriptor is not None:
                self._sweep()
                return descriptor
            if tries >= _LEAST_TRIES and time.monotonic() >= deadline:
                holder = read_holder(self._path)
                raise ConflictError(
                    f"cannot change {self._path}: it is being changed by {holder_text(holder)}. "
                    "Wait for it, or raise timeout=",
                    path=str(self._path),
                    holder=holder,
                )
            pause(_PAUSE * random())

    def _sweep(self) -> None:
        """Remove what the last holder was writing next to the file, if it was killed."""
        if self._is_after_crash:
            sweep_parts(self._path)

    def _try(self) -> int | None:
        """The locked descriptor, or None while another writer holds the lock."""
        try:
            descriptor = open_or_create(self._lock_path)
        except ConflictError:
            raise
        except OSError as error:
            raise ConflictError(
                f"cannot change {self._path}: no lock file can be created next to it ({error.strerror})",
                path=str(self._path),
            ) from error
        is_ours = False
        try:
            if _take(descriptor, self._lock_path) and _is_still(descriptor, self._lock_path):
                self._is_after_crash = self._check_ours(descriptor)
                self._holder = {
                    "colonnade": "lock",
                    "pid": os.getpid(),
                    "host": _host(),
                    "since": _now(),
                    "commits": 0,
                }
                self._holder["stamp"] = file_stamp(self._path) if self._path.exists() else []
                os.ftruncate(descriptor, 0)
                self._write_holder(descriptor)
                is_ours = True
        finally:
            if not is_ours:
                os.close(descriptor)
        return descriptor if is_ours else None

    def _check_ours(self, descriptor: int) -> bool:
        """Raise if the file with the name of the lock is not a lock, so that it is not overwritten.

        Returns whether its last holder was killed: whoever releases the lock removes the file.
        """
        content = os.pread(descriptor, _MOST_HOLDER_BYTES, 0)
        if content.strip(b" \0") and not content.startswith(_BEGINS):
            raise ConflictError(
                f"cannot change {self._path}: {self._lock_path} is not a lock of colonnade. Move that file away",
                path=str(self._path),
            )
        return bool(content.strip(b" \0"))

    def _write_holder(self, descriptor: int) -> None:
        """Write the holder of the lock and the number of commits, in one write of constant length, so never torn."""
        import json

        os.pwrite(descriptor, json.dumps(self._holder).encode().ljust(_HOLDER_BYTES), 0)

    def count_commit(self) -> None:
        """Signal to readers that the file has changed."""
        self._holder["commits"] += 1
        self._write_holder(self._descriptor)

    def wait_for_readers(self) -> None:
        """Before a commit: let readers that were disturbed repeatedly finish, up to a time limit."""
        if fcntl is None:  # pragma: no cover
            return
        try:
            descriptor = open_existing(self._request_path, write=True)
        except OSError:
            return  # without flock, readers cannot ask
        try:
            deadline = time.monotonic() + _PATIENCE
            while not (is_free := _take(descriptor, self._request_path)) and time.monotonic() < deadline:
                time.sleep(_PAUSE / 4)
            if is_free and os.fstat(descriptor).st_size == 0 and _is_still(descriptor, self._request_path):
                self._request_path.unlink(missing_ok=True)  # its readers were killed
        finally:
            os.close(descriptor)

    def renew_time(self, file: int) -> None:
        """Before the lock is released: give a changed file, given by its descriptor, a distinct modification time."""
        if self._descriptor >= 0 and self._holder["commits"] and self._holder["stamp"]:
            _renew(file, self._holder["stamp"])

    @shielded
    def release(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            is_ours = self._process == os.getpid()  # a forked process only closes its copy of the descriptor
            if is_ours and _is_still(descriptor, self._lock_path):
                self._lock_path.unlink(missing_ok=True)
            os.close(descriptor)


class WaitRequest:
    """A reader's request that writers wait, made after several disturbed reads. A commit waits a limited time for it.

    It is a shared lock on `<file>-readers`. It only helps slow readers to finish; the stamp is what guarantees that a
    read is of one state. Where no file can be created next to the file, no request is made.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._n_disturbed = 0
        self._file: io.FileIO | None = None  # closes itself, once, even if an interrupt skips `__exit__`

    def __enter__(self) -> WaitRequest:
        return self

    def disturbed(self) -> None:
        """Report that a read was disturbed and must be repeated."""
        self._n_disturbed += 1
        if self._path is None or fcntl is None or self._file is not None or self._n_disturbed < _BEAR:
            return
        try:
            file = io.FileIO(open_or_create(request_path(self._path)), "r+")
        except OSError:
            return
        is_ours = os.fstat(file.fileno()).st_size == 0  # nothing is ever written to it
        if is_ours and _take(file.fileno(), request_path(self._path), shared=True):
            self._file = file
        else:
            file.close()

    def __exit__(self, *_error: object) -> None:
        if self._file is not None and self._path is not None:
            path = request_path(self._path)
            with self._file as file:
                if _take(file.fileno(), path) and _is_still(file.fileno(), path):  # no other reader is left
                    path.unlink(missing_ok=True)
            self._file = None


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")


def file_stamp(path: Path | str | int) -> list[int]:
    """Numbers that change whenever a file is changed."""
    status = os.stat(path)  # noqa: PTH116 - called before and after every read, and faster than Path.stat
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns]


def _renew(file: int, old: list[int]) -> None:
    """Give a changed file a distinct modification time: the clock may be too coarse to show the change."""
    try:
        for step in (1, 1_000, 1_000_000, 1_000_000_000, 2_000_000_000):
            os.utime(file, ns=(os.fstat(file).st_atime_ns, max(time.time_ns(), old[3] + step)))
            if file_stamp(file) != old:
                return
    except PermissionError:  # only the owner may set the time; everyone else waits for the next clock tick
        deadline = time.monotonic() + 3
        while file_stamp(file) == old and time.monotonic() < deadline:
            time.sleep(0.001)
            os.utime(file)


def read_stamp(path: Path, names: tuple[str, str] | None = None) -> list[int]:
    """Numbers that change with every commit, and with nothing else while a colonnade writer has the file open.

    A writer appends bytes to the file before it commits, so its lock file has the number of commits.
    names: of the file and its lock, if the caller already has them.
    """
    file, lock = names or (os.fspath(path), os.fspath(lock_path(path)))
    holder = _read_holder(lock)
    if holder is not None and holder.get("stamp") and has_writer(path):
        stamp, commits = list(holder["stamp"]), int(holder.get("commits", 0))
        return [*stamp, commits] if commits else stamp
    return file_stamp(file)


def _take(descriptor: int, path: Path, shared: bool = False) -> bool:
    """Lock the open lock file without waiting; where the disk has no locks, check the holder's process id."""
    if fcntl is not None:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                return False
        else:
            return True
    holder = _parse_holder(os.pread(descriptor, _MOST_HOLDER_BYTES, 0))
    return holder is None or not _is_alive(holder)


def _is_still(descriptor: int, path: Path) -> bool:
    """Whether the locked file is still the one at its path: its previous holder may have removed it meanwhile."""
    try:
        there = path.lstat()
    except FileNotFoundError:
        return False
    here = os.fstat(descriptor)
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


def _host() -> str:
    import socket  # which takes a millisecond, and files that are only read do not need

    return socket.gethostname()


def _is_alive(holder: Holder) -> bool:
    if holder.get("host") != _host():
        return True
    try:
        os.kill(int(holder["pid"]), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, ValueError, KeyError):
        return True
    return True


def has_writer(path: Path) -> bool:
    """Whether a live writer has the file open for changes."""
    try:
        descriptor = open_existing(lock_path(path))
    except OSError:
        return False
    try:
        return not _take(descriptor, lock_path(path), shared=True)  # readers do not mistake each other for a writer
    finally:
        os.close(descriptor)


def read_holder(path: Path) -> Holder | None:
    """The holder of the lock of a file, as recorded in the lock file."""
    return _read_holder(os.fspath(lock_path(path)))


def _read_holder(lock: str) -> Holder | None:
    try:
        descriptor = open_existing(lock)
    except OSError:
        return None
    try:
        return _parse_holder(os.read(descriptor, _MOST_HOLDER_BYTES))
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _parse_holder(content: bytes) -> Holder | None:
    import json

    try:
        holder: Holder = json.loads(content)
    except ValueError:
        return None
    return holder if isinstance(holder, dict) else None


def holder_text(holder: Holder | None) -> str:
    """The holder of a lock, for messages."""
    if holder is None:
        return "another process"
    return f"process {holder.get('pid')} on {holder.get('host')} (since {holder.get('since')})"


class HDF5Lock:
    """HDF5's own lock on a file that is open for changes: shared until `take`, exclusive until `give_back`.

    timeout: seconds that `take` waits for other HDF5 programs. exclusive: False if the caller knows all readers.
    """

    def __init__(self, descriptor: int, path: Path, timeout: float, exclusive: bool = True) -> None:
        self._descriptor = descriptor
        self._path = path
        self._timeout = timeout
        self._exclusive = exclusive
        self._lost = False
        self._taken = False
        if not self._share():
            raise ConflictError(f"cannot change {path}: another HDF5 program is writing it", path=str(path))

    def _share(self) -> bool:
        return try_hdf5_lock(self._descriptor, exclusive=False)

    def take(self) -> None:
        """Wait until no other program holds HDF5's lock; a ConflictError after the timeout."""
        from random import random

        if not self._exclusive or self._taken:
            return
        deadline, stamp = time.monotonic() + self._timeout, file_stamp(self._descriptor)
        while self._lost or not try_hdf5_lock(self._descriptor, exclusive=True):
            self._lost = self._lost or not self._share()  # the failed try for an exclusive lock dropped the shared one
            if self._lost or time.monotonic() >= deadline:
                raise ConflictError(
                    f"cannot commit to {self._path}: another program, or another handle in this one, has it open "
                    "through HDF5 (h5py). Close it there, raise timeout=, or open the file with hdf5_lock=False if "
                    f"nothing else reads what you change{'. Open the file again' if self._lost else ''}",
                    path=str(self._path),
                )
            pause(_PAUSE * random())
        self._taken = True
        if file_stamp(self._descriptor) != stamp:
            self._lost = True
            self.give_back()
            reason = "another HDF5 program wrote it meanwhile. Open it again"
            raise ConflictError(f"cannot commit to {self._path}: {reason}", path=str(self._path))

    def give_back(self) -> None:
        """Let other HDF5 programs read again."""
        if self._taken:
            self._taken = False
            self._share()


def try_hdf5_lock(descriptor: int, exclusive: bool) -> bool:
    """Take the lock that HDF5 takes on a file, without waiting. True also where the system has no locks."""
    asked = os.environ.get("HDF5_USE_FILE_LOCKING", "").upper()
    if fcntl is None or asked in ("FALSE", "0"):
        return True
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in NO_LOCKS
    return True


def check_no_other_writes(path: Path, disk: Disk) -> None:
    """Refuse to open a file that another HDF5 program is writing."""
    descriptor = disk.open(path, write=False)
    try:
        if not try_hdf5_lock(descriptor, exclusive=False):
            raise ConflictError(f"{path} is in use by another process, which is writing it", path=str(path))
    finally:
        disk.close(descriptor)
