"""Copies a file as of one commit, while others may write to it."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from colonnade.errors import ConflictError, UsageError
from colonnade.format.superblock import read_superblock
from colonnade.layouts import copy_sidecars, located
from colonnade.model import Progress
from colonnade.pager.disk import DISK
from colonnade.pager.locks import WriterLock, has_writer
from colonnade.pager.readers import CommittedFile
from colonnade.pager.recovery import clear_place
from colonnade.pager.safe_files import check_regular, part_path, written_whole
from colonnade.pager.sources import ByteSource
from colonnade.table.file import File

PIECE_BYTES = 8 << 20
_NOT_COPIED = ("*-journal", "*-journal-*", "*-lock", "*-readers", ".*.part")


def copy(
    source: str | os.PathLike[str] | File,
    target: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    timeout: float = 10.0,
    progress: Progress | None = None,
) -> int:
    """Copy a file as of its last commit, while another program may change it. Returns the number of bytes.

    The copy is of one commit: if the writer commits meanwhile, it begins again, and after several times the writer is
    asked to wait. The journal and the lock of the writer are not copied; the metadata of ArtifactDB files are, with the
    name and checksum of the copy, and a directory of ArtifactDB is copied whole. The target appears when it is
    complete. overwrite: whether to replace it. timeout: seconds to wait for the end of a commit. progress: called with
    the bytes done and in all.

    >>> cn.write("run.h5", {"ts": [1, 2, 3], "energy": [0.5, 7.0, 6.0]}, "events")
    >>> with cn.open("run.h5", "r+") as f:
    ...     n_bytes = cn.copy("run.h5", "backup.h5")
    >>> cn.read("backup.h5").to_pydict()
    {'ts': [1, 2, 3], 'energy': [0.5, 7.0, 6.0]}
    """
    origin = source._handle.path if isinstance(source, File) else Path(source)
    if origin is None:
        raise UsageError("cannot copy a file that was not opened from a path")
    path = Path(target)
    if path.exists():
        check_regular(path, "write")
        if origin.exists() and path.samefile(origin):
            raise UsageError(f"cannot copy {origin} to itself: name another target")
        if not overwrite:
            raise UsageError(f"{path} already exists (overwrite=True, or --force, replaces it)")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {str(path.parent)!r}")
    if origin.is_dir():
        return _copy_directory(origin, path, timeout, progress)
    copied = located(origin)[0]
    check_regular(copied)
    n_bytes = _copy_file(copied.resolve(), path.resolve(), timeout, progress)
    copy_sidecars(copied.resolve(), path.resolve())
    return n_bytes


def _copy_directory(source: Path, target: Path, timeout: float, progress: Progress | None) -> int:
    """Copy a directory that is a table; other directories are refused."""
    file = located(source)[0]
    if file == source:
        check_regular(source)  # which refuses folders
    aside = part_path(target)
    ignored = shutil.ignore_patterns(*_NOT_COPIED, file.name)
    try:
        shutil.copytree(source, aside, ignore=lambda folder, names: ignored(folder, names) & set(names))
        n_bytes = _copy_file(file.resolve(), aside.resolve() / file.name, timeout, progress)
        aside.rename(target)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return n_bytes


def _copy_file(source: Path, target: Path, timeout: float, progress: Progress | None) -> int:
    lock = WriterLock(target, timeout)
    try:
        clear_place(target, DISK, timeout)
        committed = CommittedFile(source, str(source), DISK, timeout, refuses_other_writers=True)
        with written_whole(target, sweeps=True) as stream:

            def write(content: ByteSource) -> int:
                stream.seek(0)
                stream.truncate()
                n_bytes = _committed_bytes(source, content)
                for at in range(0, n_bytes, PIECE_BYTES):
                    if not committed.is_current():
                        raise ConflictError(f"{source} was changed while it was copied", path=str(source))
                    stream.write(content.read(at, min(PIECE_BYTES, n_bytes - at), "the file"))
                    if progress is not None:
                        progress(stream.tell(), n_bytes)
                return n_bytes

            n_bytes = committed.consistent(write)
            committed.close()
            stream.flush()
            os.fchmod(stream.fileno(), stat.S_IMODE(source.stat().st_mode))
            os.fsync(stream.fileno())
        return n_bytes
    finally:
        lock.release()


def _committed_bytes(source: Path, content: ByteSource) -> int:
    """The length of a file as of its last commit: a writer appends what is not committed yet."""
    superblock, _ = read_superblock(content)
    is_growing = has_writer(source) and superblock.base == 0 and superblock.end <= content.size
    return superblock.end if is_growing else content.size
