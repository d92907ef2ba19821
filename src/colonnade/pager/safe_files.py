"""The only module that opens files for writing: it follows no symbolic link and truncates no foreign file.

Names such as `<file>-lock` can be guessed, and a folder may be shared: someone else may have put a file there. So a new
file is created exclusively, an existing one must be a regular file, and both are opened without following a link in
the last part of the path. Callers that open an existing file check its content before they change it.

| leftover | where | removed by |
| --- | --- | --- |
| `.<name>.<12 hex digits>.part` | next to the file | the next writer after a killed one; `written_whole` |
| `<name>-readers` | next to the file | the next commit |
| `<name>-lock`, `<name>-journal` | next to the file | the next writer (see `locks` and `recovery`) |
| `colonnade-*` | the folder for temporary files | the first scratch folder of the next process |

Whoever writes a part, or uses a scratch folder, holds a lock on it, which the system drops when the process ends. So
nothing is removed that is in use, and nothing where the file system has no locks.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO

from colonnade.errors import ConflictError, FormatError

try:
    import fcntl
except ImportError:  # pragma: no cover - not on this system
    fcntl = None  # type: ignore[assignment]

_PART = r"\.[0-9a-f]{12}\.part"
_ALWAYS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NO_WAITING = getattr(os, "O_NONBLOCK", 0)  # do not block on a pipe without a writer; no effect on regular files


def open_new(path: Path | str) -> int:
    """A descriptor of a new file. Raises FileExistsError if anything has this name, including a link."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _ALWAYS, 0o666)


def open_existing(path: Path | str, write: bool = False) -> int:
    """A descriptor of a regular file. Raises ConflictError if something else has this name."""
    return _regular(path, os.O_RDWR if write else os.O_RDONLY)


def open_or_create(path: Path | str) -> int:
    """A descriptor of a regular file, created empty if there is none. An existing one may be a foreign file."""
    return _regular(path, os.O_RDWR | os.O_CREAT)


def open_folder(path: Path | str) -> int:
    """A descriptor of a folder, for syncing it."""
    return os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))


def open_device(path: Path) -> IO[bytes]:
    """A stream to something that exists and is not a regular file, such as a pipe or a terminal."""
    return os.fdopen(os.open(path, os.O_WRONLY | _ALWAYS), "wb")


def _regular(path: Path | str, flags: int) -> int:
    try:
        descriptor = os.open(path, flags | _ALWAYS | _NO_WAITING, 0o666)
    except FileNotFoundError:
        raise
    except OSError:
        if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
            raise _in_the_way(path) from None
        raise
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise _in_the_way(path)


def _in_the_way(path: Path | str) -> ConflictError:
    return ConflictError(
        f"cannot use {os.fspath(path)}: it is a link, a pipe or a folder, not a file of colonnade. Move it away",
        path=os.fspath(path),
    )


_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe (FIFO)"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def check_regular(path: Path, verb: str = "read") -> None:
    """Raise unless a path leads to a regular file. Nothing is opened, so nothing waits for the other end of a pipe."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(f"there is no file {str(path)!r}") from None
    kind = next((word for check, word in _KINDS if check(mode)), None)
    if kind is not None:
        raise FormatError(f"cannot {verb} {path}: it is {kind}, not a regular file", path=str(path))


def check_readable_file(path: Path) -> None:
    """Raise unless a path leads to a regular file that holds something."""
    if path.is_dir():
        raise FormatError(f"{path} is a folder, not an HDF5 file", path=str(path))
    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    check_regular(path, "open")
    if path.stat().st_size == 0:
        raise FormatError(f"{path} is not an HDF5 file: it is empty", path=str(path))


def part_path(target: Path) -> Path:
    """A new, unguessable name in the same folder, for a file that will replace `target`."""
    return target.with_name(f".{target.name[:200]}.{os.urandom(6).hex()}.part")


def hold(descriptor: int) -> None:
    """Mark an open file as in use until its descriptor is closed."""
    if fcntl is not None:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_unused(path: Path) -> bool:
    """Whether this is a regular file that no process marked as in use; False if that cannot be determined."""
    if fcntl is None:
        return False
    try:
        descriptor = open_existing(path, write=True)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def sweep_parts(target: Path) -> None:
    """Remove the parts of a file, and of documents about it, whose writers were killed."""
    begin = f".{target.name[:200]}"
    _sweep(target.parent, re.compile(re.escape(begin) + r"(\.[a-z]+)?" + _PART))


@cache
def sweep_folder_once(folder: Path) -> None:
    """Remove all parts in a folder that only colonnade uses, once per process."""
    _sweep(folder, re.compile(r"\..+" + _PART))


def _sweep(folder: Path, pattern: re.Pattern[str]) -> None:
    with suppress(OSError), os.scandir(folder) as entries:
        for name in [entry.name for entry in entries if pattern.fullmatch(entry.name)]:
            if is_unused(folder / name):
                with suppress(OSError):
                    (folder / name).unlink()


@contextmanager
def written_whole(target: Path, sweeps: bool = False) -> Iterator[IO[bytes]]:
    """A stream to a new file, which replaces `target` when it is complete.

    sweeps: remove what killed processes left of the same target.
    """
    if sweeps:
        sweep_parts(target)
    part = part_path(target)
    try:
        with os.fdopen(open_new(part), "wb") as stream:
            hold(stream.fileno())
            yield stream
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
