"""Files opened for writing, in this module only: no symbolic link is followed, nothing that is not ours is truncated.

Names such as `<file>-lock` can be guessed, and a folder may be shared: whatever lies there was perhaps put there by
someone else. So a new file is created exclusively, an existing one must be a regular file, and both are opened without
following a link in the last part of the path. Who opens an existing file looks at its content before changing it.
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
_NO_WAITING = getattr(os, "O_NONBLOCK", 0)  # for a pipe that nobody writes to; no meaning for regular files


def open_new(path: Path | str) -> int:
    """A descriptor of a file that did not exist; FileExistsError where anything has this name, also a link."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _ALWAYS, 0o666)


def open_existing(path: Path | str, write: bool = False) -> int:
    """A descriptor of a regular file; ConflictError where something else has this name."""
    return _regular(path, os.O_RDWR if write else os.O_RDONLY)


def open_or_create(path: Path | str) -> int:
    """A descriptor of a regular file, which is created empty where there is none. What it holds may be of others."""
    return _regular(path, os.O_RDWR | os.O_CREAT)


def open_folder(path: Path | str) -> int:
    """A descriptor of a folder, for syncing it."""
    return os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))


def open_device(path: Path) -> IO[bytes]:
    """A stream to something that exists and is not a regular file: a pipe, a terminal."""
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


def part_path(place: Path) -> Path:
    """A new name in the same folder that cannot be guessed, for what is to replace a file."""
    import secrets

    return place.with_name(f".{place.name[:200]}.{secrets.token_hex(6)}.part")


@contextmanager
def written_whole(place: Path) -> Iterator[IO[bytes]]:
    """A stream to a new file that gets its name, and replaces what has it, when it is complete."""
    part = part_path(place)
    try:
        with os.fdopen(open_new(part), "wb") as stream:
            yield stream
        part.replace(place)
    finally:
        part.unlink(missing_ok=True)
