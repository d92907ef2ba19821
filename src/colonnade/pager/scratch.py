"""Scratch folders, which are removed even if their process is killed: by the next process that needs one."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from functools import cache
from pathlib import Path
from weakref import finalize

from colonnade.pager.safe_files import hold, is_unused, open_new

_PREFIX = "colonnade-"
_IN_USE = ".in-use"


class ScratchFolder:
    """A new folder for temporary files, removed when it is closed, or when this object is no longer used."""

    def __init__(self) -> None:
        from tempfile import gettempdir, mkdtemp

        _sweep_scratch_once(Path(gettempdir()), os.getpid())
        while True:
            self.path = Path(mkdtemp(prefix=_PREFIX))
            with suppress(FileNotFoundError):
                descriptor = open_new(self.path / _IN_USE)
                hold(descriptor)
                if (self.path / _IN_USE).exists():  # else another process took it for a leftover, before it was held
                    break
                os.close(descriptor)
        self._finish = finalize(self, _remove, self.path, descriptor, os.getpid())

    def close(self) -> None:
        self._finish()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_error: object) -> None:
        self.close()


def _remove(folder: Path, descriptor: int, process: int) -> None:
    from shutil import rmtree

    if os.getpid() == process:  # not in a process forked from it
        rmtree(folder, ignore_errors=True)
    os.close(descriptor)


@cache
def _sweep_scratch_once(folder: Path, _process: int) -> None:
    """Remove the scratch folders of this user's processes that were killed, once per process."""
    from shutil import rmtree

    with suppress(OSError), os.scandir(folder) as entries:
        names = [entry.name for entry in entries if entry.name.startswith(_PREFIX)]
        for path in (folder / name for name in names):
            with suppress(OSError):
                status = path.lstat()
                if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and is_unused(path / _IN_USE):
                    rmtree(path, ignore_errors=True)
