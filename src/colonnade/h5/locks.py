"""One writer at a time, across processes: a lock beside the file that dies with its holder.

The lock is `<file>-lock`: a small file, locked by the operating system (flock) while a writer has the
file open, that says who holds it. A writer that is killed loses its lock with it, so it blocks nobody.
Where the disk has no locks (some network disks), a process that is alive on the same machine counts as the holder.

A shared lock is held on the file itself as well: other HDF5 programs may read it meanwhile, and not write.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import time
from pathlib import Path
from typing import Any, Literal

from colonnade.errors import ConflictError

try:
    import fcntl
except ImportError:  # pragma: no cover - not on this system
    fcntl = None  # type: ignore[assignment]

Locking = Literal["auto", "none"]
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_PAUSE = 0.02
_TOLD = 512


def lock_path(path: Path) -> Path:
    """Where the lock of a file is."""
    return path.with_name(path.name + "-lock")


class WriterLock:
    """The right to change one file, held until `release`."""

    def __init__(self, path: Path, timeout: float) -> None:
        self._path = path
        self._lock_path = lock_path(path)
        self._holder: dict[str, Any] = {}
        self._descriptor = self._acquire(time.monotonic() + timeout)

    def _acquire(self, deadline: float) -> int:
        while True:
            descriptor = self._try()
            if descriptor is not None:
                return descriptor
            if time.monotonic() >= deadline:
                holder = read_holder(self._path)
                raise ConflictError(
                    f"{self._path} is being changed by {holder_text(holder)}: wait for it, or raise timeout=",
                    path=str(self._path),
                    holder=holder,
                )
            time.sleep(_PAUSE)

    def _try(self) -> int | None:
        """The locked descriptor, or None while another holds it."""
        try:
            descriptor = os.open(self._lock_path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise ConflictError(
                f"{self._path} cannot be changed: no lock can be made beside it ({error.strerror})",
                path=str(self._path),
            ) from error
        if _take(descriptor, self._lock_path) and _is_still(descriptor, self._lock_path):
            self._holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": _now(), "commits": 0}
            self._holder["stamp"] = file_stamp(self._path) if self._path.exists() else []
            self._tell(descriptor)
            return descriptor
        os.close(descriptor)
        return None

    def _tell(self, descriptor: int) -> None:
        """Write who holds the lock and how many commits there were; one write of one length, so never half."""
        os.pwrite(descriptor, json.dumps(self._holder).encode().ljust(_TOLD), 0)

    def count_commit(self) -> None:
        """Tell readers that the file is another one now."""
        self._holder["commits"] += 1
        self._tell(self._descriptor)

    def release(self) -> None:
        """Give the right back."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            self._lock_path.unlink(missing_ok=True)
            os.close(descriptor)


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")


def file_stamp(path: Path) -> list[int]:
    """Numbers that change whenever a file is changed."""
    status = path.stat()
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns]


def read_stamp(path: Path) -> list[int]:
    """What changes with every commit, and with nothing else while a writer of ours has the file open.

    A writer adds bytes behind the file's end all the time; what it has committed, its lock tells.
    """
    holder = read_holder(path)
    if holder is not None and holder.get("stamp") and has_writer(path):
        stamp, commits = list(holder["stamp"]), int(holder.get("commits", 0))
        return [*stamp, commits] if commits else stamp
    return file_stamp(path)


def _take(descriptor: int, path: Path) -> bool:
    """Lock the open lock file without waiting; by the holder's process number where the disk has no locks."""
    if fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                return False
        else:
            return True
    holder = _parse_holder(os.pread(descriptor, 4096, 0))
    return holder is None or not _is_alive(holder)


def _is_still(descriptor: int, path: Path) -> bool:
    """Whether the locked file is still the one at its path: its last holder may have removed it meanwhile."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    here = os.fstat(descriptor)
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


def _is_alive(holder: dict[str, Any]) -> bool:
    if holder.get("host") != socket.gethostname():
        return True
    try:
        os.kill(int(holder["pid"]), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, ValueError, KeyError):
        return True
    return True


def has_writer(path: Path) -> bool:
    """Whether a living writer has the file open for changes."""
    try:
        descriptor = os.open(lock_path(path), os.O_RDONLY)
    except OSError:
        return False
    try:
        return not _take(descriptor, lock_path(path))
    finally:
        os.close(descriptor)


def read_holder(path: Path) -> dict[str, Any] | None:
    """Who holds the lock of a file, as the lock says."""
    try:
        return _parse_holder(lock_path(path).read_bytes())
    except OSError:
        return None


def _parse_holder(content: bytes) -> dict[str, Any] | None:
    try:
        holder = json.loads(content)
    except ValueError:
        return None
    return holder if isinstance(holder, dict) else None


def holder_text(holder: dict[str, Any] | None) -> str:
    """The holder of a lock in words."""
    if holder is None:
        return "another process"
    return f"process {holder.get('pid')} on {holder.get('host')} (since {holder.get('since')})"


def share(descriptor: int, path: Path) -> None:
    """Hold a shared lock on the file itself: a ConflictError when another program is writing it."""
    if fcntl is None:  # pragma: no cover
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise ConflictError(f"{path} is being written by another HDF5 program", path=str(path)) from error
