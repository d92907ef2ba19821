"""Files with an incomplete commit: found by their mark, and the error where the journal that undoes it is missing."""

from __future__ import annotations

from pathlib import Path

from colonnade.errors import ConflictError
from colonnade.pager.disk import Disk
from colonnade.pager.marks import Mark, journal_path, mark_in
from colonnade.pager.sources import ByteSource, LocalBytes


def find_mark(path: Path, disk: Disk) -> Mark | None:
    """The mark of a file; None if no commit is incomplete."""
    descriptor = disk.open(path, write=False)
    try:
        return mark_in(LocalBytes(descriptor, str(path), disk))
    finally:
        disk.close(descriptor)


def check_whole(file: ByteSource) -> None:
    """Raise if bytes without a folder that could hold a journal (a stream, a buffer) have an incomplete commit."""
    mark = mark_in(file)
    if mark is not None:
        raise half_commit(Path(file.name), mark)


def half_commit(path: Path, mark: Mark) -> ConflictError:
    """The error for a file that holds half a commit and whose journal is missing."""
    return ConflictError(
        f"cannot open {path}: it holds half a commit of a writer that crashed, and the journal that undoes it, "
        f"{mark.journal_name!r}, is missing or incomplete. Put that journal next to the file as "
        f"{journal_path(path).name!r} and open it again, or use a backup of the file",
        path=str(path),
        journal=mark.journal_name,
    )
