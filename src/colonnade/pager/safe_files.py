"""The only module that opens files for writing: it follows no symbolic link and truncates no foreign file.

Names such as `<file>-lock` can be guessed, and a folder may be shared: someone else may have put a file there. So a new
file is created exclusively, an existing one must be a regular file, and both are opened without following a link in
the last part of the path. Callers that open an existing file check its content before they change it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from colonnade.errors import ConflictError

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


def part_path(target: Path) -> Path:
    """A new, unguessable name in the same folder, for a file that will replace `target`."""
    return target.with_name(f".{target.name[:200]}.{os.urandom(6).hex()}.part")


@contextmanager
def written_whole(target: Path) -> Iterator[IO[bytes]]:
    """A stream to a new file, which replaces `target` when it is complete."""
    part = part_path(target)
    try:
        with os.fdopen(open_new(part), "wb") as stream:
            yield stream
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
