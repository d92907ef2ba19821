"""A file open for reading without HDF5, while others may commit to it.

Readers take no lock: the file's stamp is looked at before and after, and what was read in between counts only when it
has not changed (see `h5.locks`). A journal left by a writer that died is rolled back first, as HDF5's own way of
opening does here (see `h5.files`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from colonnade.errors import ColonnadeError, ConflictError, FormatError, UsageError
from colonnade.h5.files import settle
from colonnade.h5.journal import journal_path
from colonnade.h5.locks import Wish, read_stamp
from colonnade.sparse.source import Source, source_of_buffer, source_of_descriptor, source_of_stream

Result = TypeVar("Result")
Target = str | os.PathLike[str] | bytes | bytearray | memoryview | Any
_MOST_READS = 50


class OpenFile:
    """A path, a buffer or a binary file object to read from. `generation` counts the states seen of it."""

    def __init__(self, target: Target) -> None:
        self.generation = 0
        self._path: Path | None = None
        self._descriptor = -1
        self._stamp: list[int] = []
        self._source: Source | None = None
        self._closed = False
        if isinstance(target, (str, os.PathLike)):
            self._path = Path(target).resolve()
            self.name = str(target)
            _check_path(self._path)
        else:
            self._source = _source_of(target)
            self.name = self._source.name

    @property
    def path(self) -> Path | None:
        """The path of a file that was opened by its path."""
        return self._path

    def consistent(self, read: Callable[[Source], Result]) -> Result:
        """What `read` gives, from one state of the file: read again when a writer committed meanwhile."""
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

    def refresh(self) -> Source:
        """The file as the last commit left it."""
        if self._closed:
            raise UsageError(f"{self.name} is closed")
        if self._path is None:
            assert self._source is not None  # there from the beginning
            return self._source
        settle(self._path)
        stamp = read_stamp(self._path)
        if self._source is None or stamp != self._stamp:
            self._let_go()
            self._descriptor = os.open(self._path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
            self._stamp, self._source = stamp, source_of_descriptor(self._descriptor, self.name)
            self.generation += 1
        return self._source

    def is_current(self) -> bool:
        """Whether nothing was committed since `refresh`."""
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


def _check_path(path: Path) -> None:
    if path.is_dir():
        raise FormatError(f"{path} is a folder, not an HDF5 file", path=str(path))
    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}")


def _source_of(target: Target) -> Source:
    if isinstance(target, (bytes, bytearray, memoryview)):
        return source_of_buffer(target)
    if hasattr(target, "read") and hasattr(target, "seek"):
        return source_of_stream(target, str(getattr(target, "name", "the file object")))
    raise UsageError(f"cannot open {type(target).__name__}: give a path, bytes, or a binary file object")
