"""Recovery: undo the incomplete commit of a crashed writer, with the journal next to the file if it belongs to it.

The content decides whether a file and a journal belong together, not their names or inode numbers: a whole folder may
be copied, or a file replaced by a backup. The inode number only decides whether a journal may be deleted.

| the file | the journal | what is done |
| --- | --- | --- |
| has a mark | of the id in the mark | rolled back |
| has a mark | missing, another, or truncated | ConflictError: the right one must be put there |
| no mark | some pages are old and some are new | rolled back: the mark was cut off |
| no mark | all pages are old, or all are new | nothing to undo: removed, if it is the same inode |
| no mark | its pages are neither; or it is another inode | kept as `<file>-journal-<id>`: another file may need it |
| no mark | not finished, so never used | removed |

Recovery can be repeated, and may itself be interrupted by a crash.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from colonnade.dataclass import dataclass
from colonnade.errors import ConflictError
from colonnade.pager.checksum import crc32
from colonnade.pager.disk import Disk
from colonnade.pager.half_commits import find_mark, half_commit
from colonnade.pager.held_pages import PAGE
from colonnade.pager.journal import CHECK, DIGEST, DIGESTS, HEADER, MAGIC, records, restore
from colonnade.pager.locks import HDF5Lock
from colonnade.pager.marks import journal_path

State = Literal["whole", "half", "other"]
_BEGIN = MAGIC[:-1]  # journals of every version begin with this


@dataclass(frozen=True)
class Journal:
    """A journal that was finished: its id, the old length of the file, and its records."""

    journal_id: bytes
    old_length: int
    identity: tuple[int, int]
    content: bytes

    def whole_up_to(self) -> int:
        """The number of intact bytes."""
        return max((end for _, _, end in records(self.content)), default=HEADER.size + CHECK.size)


def roll_back(path: Path, disk: Disk, timeout: float = 0.0) -> bool:
    """Undo the incomplete commit of a crashed writer. Returns True if there was a journal, which is then removed.

    timeout: seconds to wait for other HDF5 programs that have the file open.
    """
    content = _read_journal(path, disk)
    journal = None if content is None else _parse(content, path)
    mark = find_mark(path, disk)
    if mark is not None and (
        journal is None or journal.journal_id != mark.journal_id or journal.whole_up_to() < mark.journal_length
    ):
        raise half_commit(path, mark)
    if content is None:
        return False
    state = "half" if mark is not None else "whole" if journal is None else _state(path, disk, journal)
    if journal is not None and state == "other":
        _keep_aside(path, disk, journal)
        return True
    if journal is not None and state == "half":
        _undo(path, disk, journal, timeout)
    disk.unlink(journal_path(path))
    disk.sync_folder(path.parent)
    return True


def clear_place(path: Path, disk: Disk, timeout: float = 0.0) -> None:
    """Before a new file is put at a path: recover the file there, or keep the journal of a file no longer there."""
    content = _read_journal(path, disk)
    if content is None:
        return
    journal = _parse(content, path)
    mark = find_mark(path, disk) if disk.exists(path) else None
    if disk.exists(path) and (mark is None or (journal is not None and journal.journal_id == mark.journal_id)):
        roll_back(path, disk, timeout)
    elif journal is None:
        disk.unlink(journal_path(path))
    else:
        _keep_aside(path, disk, journal)


def _read_journal(path: Path, disk: Disk) -> bytes | None:
    """The content of the journal, if there is one. Raises ConflictError if another file has its name."""
    journal = journal_path(path)
    if not disk.exists(journal):
        return None
    descriptor = disk.open(journal, write=False)
    try:
        content = disk.read(descriptor, disk.length(descriptor), 0)
    finally:
        disk.close(descriptor)
    begin = content[: len(_BEGIN)].rstrip(b"\0")  # if never synced, it may be short or zeros
    if not _BEGIN.startswith(begin):
        raise ConflictError(
            f"cannot open {path}: {journal} is not a journal of colonnade. Move that file away", path=str(path)
        )
    return content


def _parse(content: bytes, path: Path) -> Journal | None:
    """A journal; None if its header was never finished, which means that no page was overwritten."""
    head = content[: HEADER.size]
    check = content[HEADER.size : HEADER.size + CHECK.size]
    if content[: len(MAGIC)] == _BEGIN + b"1":
        raise ConflictError(
            f"cannot open {path}: {journal_path(path)} was left by an earlier version of colonnade. Open the file once "
            "with that version",
            path=str(path),
        )
    if len(check) < CHECK.size or CHECK.unpack(check)[0] != crc32(head):
        return None
    magic, page_size, length, journal_id, device, number = HEADER.unpack(head)
    return Journal(journal_id, length, (device, number), content) if (magic, page_size) == (MAGIC, PAGE) else None


def _state(path: Path, disk: Disk, journal: Journal) -> State:
    """Whether the pages in a journal are old or new in a file that has no mark."""
    digests: dict[int, int] = {}
    for page, content, _ in records(journal.content):
        if page == DIGESTS:
            digests = dict(DIGEST.iter_unpack(content))
    states: set[str] = set()
    descriptor = disk.open(path, write=False)
    try:
        for page, old, _ in records(journal.content):
            if page == DIGESTS:
                continue
            now = disk.read(descriptor, len(old), page * PAGE)
            states.add("before" if now == old else "after" if crc32(now) == digests.get(page) else "other")
        is_copy = disk.identity(descriptor) != journal.identity
    finally:
        disk.close(descriptor)
    if states == {"before", "after"}:
        return "half"
    return "other" if is_copy or "other" in states else "whole"


def _undo(path: Path, disk: Disk, journal: Journal, timeout: float) -> None:
    descriptor = disk.open(path)
    try:
        HDF5Lock(descriptor, path, timeout).take()
        restore(disk, descriptor, records(journal.content), journal.old_length)
    finally:
        disk.close(descriptor)


def _keep_aside(path: Path, disk: Disk, journal: Journal) -> None:
    """Rename a journal that does not belong to this file: its own file may still exist somewhere."""
    journal_file = journal_path(path)
    renamed = journal_file.with_name(f"{journal_file.name}-{journal.journal_id.hex()[:12]}")
    if disk.exists(renamed):
        raise ConflictError(
            f"cannot open {path}: {journal_file.name} is the journal of another file, and cannot be renamed because "
            f"{renamed.name} exists. Move either away",
            path=str(path),
        )
    disk.rename(journal_file, renamed)
    disk.sync_folder(path.parent)
