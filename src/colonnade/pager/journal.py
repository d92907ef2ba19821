"""Atomic changes to a file, with a rollback journal next to the file.

HDF5 writes through a `JournaledFile`. Since the last commit:
- bytes below the file's old end are not written at all: their pages are kept in memory;
- bytes beyond the old end go to the file at once: nothing refers to them yet.

So until a commit the old file is unchanged, except for bytes after its end, which no reader looks at.

Commit, in this order (each step is on the disk before the next begins, with durability "full"):
1. write the journal: the old length, the current content of every page to be overwritten, and digests of the new pages
   (`save_ahead` begins with this while the change is still being computed);
2. write the mark (see `marks`) after the last byte: from here on the file itself names the journal that undoes it;
3. overwrite the pages;
4. truncate the file to its new length, which removes the mark. **This is the moment of the commit.**
5. remove the journal; one that reappears after a power cut is recognized by its digests (see `recovery`).

The file is opened by its path, and must still be at that path when it is committed to.

| journal | bytes | what |
| --- | --- | --- |
| header | 8 | `COLJRNL2` |
| | 4 | page size |
| | 8 | the file's old length |
| | 16 | the id of the journal, chosen at random: the mark names it |
| | 8 + 8 | device and inode number of the file: if they differ, the file was copied |
| | 4 | CRC-32 of the header so far |
| record, one per run of consecutive pages | 8 | number of the first page |
| | 4 | bytes of the pages: the last page of a file may be short |
| | 4 | CRC-32 of number, length and bytes |
| | ... | the pages as they were |
| digests, the last record | 8 + 4 + 4 | the number 2^64 - 1, length and CRC-32 as above |
| | 8 + 4 each | page number, and CRC-32 of the new page |

Invariants:
1. A page below the old end is overwritten only after its record, and then the mark, are synced.
2. A record that was not synced belongs to a page that was not overwritten, so reading stops at the first bad record.
3. A file without a mark is complete.
"""

from __future__ import annotations

import io
import itertools
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from colonnade import limits
from colonnade.errors import ConflictError
from colonnade.pager.checksum import crc32
from colonnade.pager.disk import Disk
from colonnade.pager.held_pages import PAGE, HeldPages, ranges_of, split_pages
from colonnade.pager.interrupts import OPEN_FOR_CHANGES, shielded
from colonnade.pager.latch import Latch, LibraryLock, NoLibrary
from colonnade.pager.locks import HDF5Lock
from colonnade.pager.marks import MARK_BYTES, Mark, journal_path, pack_mark, place_with_room
from colonnade.threads import begin_aside, default_threads

if TYPE_CHECKING:
    from concurrent.futures import Future

    from colonnade.pager.options import Durability

MAGIC = b"COLJRNL2"
DIGESTS = (1 << 64) - 1  # the page number of the record that holds digests
HEADER = struct.Struct("<8sIQ16sQQ")
RECORD = struct.Struct("<QI")
CHECK = struct.Struct("<I")
DIGEST = struct.Struct("<QI")
MOST_COPIED_AT_ONCE = 256  # pages written with one call
SavedPages = list[tuple[range, bytes]]
"""Consecutive pages and their old content, which are journaled with one call."""


class JournaledFile(io.RawIOBase):
    """The file object that HDF5 reads and writes through; `commit` and `roll_back` end a change."""

    def __init__(
        self,
        path: Path,
        disk: Disk,
        durability: Durability = "full",
        create: bool = False,
        count: Callable[[], None] | None = None,
        wait: Callable[[], None] | None = None,
        aside: bool = False,
        library: LibraryLock | None = None,
    ) -> None:
        """aside: the file has no public name yet and is discarded after a crash, so commits need no journal.

        library: the lock of the library that reads and writes through this file.
        """
        super().__init__()
        # These belong to the last HDF5 file that was opened through this one.
        self.latch = Latch(NoLibrary() if library is None else library)
        self._process = os.getpid()
        self.is_aside = aside
        self.lock: HDF5Lock | None = None  # keeps other HDF5 programs out while pages are overwritten
        self._count = count
        self._wait = wait
        self._path = path
        self._journal_path = journal_path(path)
        self._disk = disk
        self._full = durability == "full"
        self._file = disk.open(path, create=create)
        self._old_length = disk.length(self._file)
        self.length = self._old_length  # the current size. An attribute: HDF5 asks for it in C (see `callbacks`)
        self._position = 0
        self._held = HeldPages()
        self._unchanging: list[memoryview] = []  # memory that pages are held in without a copy
        self._saved: set[int] = set()
        self._saving: Future[None] | None = None  # the thread of `save_ahead`
        self._digests: dict[int, int] = {}  # of the new content of overwritten pages
        self._journal: int | None = None
        self._journal_end = 0
        self._journal_id = b""
        self._mark_at: int | None = None  # while pages are being overwritten
        self._grown = False
        self.written: list[tuple[int, int]] = []  # byte ranges that were written; whoever uses them clears it
        self.is_untouched = True  # since it was opened
        self._failure: BaseException | None = None
        OPEN_FOR_CHANGES.add(self)

    @property
    def is_orphan(self) -> bool:
        """Whether this process was forked from the one that opened the file. Only that one may change it."""
        return os.getpid() != self._process

    def check_process(self) -> None:
        """Raise in a forked process."""
        if self.is_orphan:
            raise ConflictError(
                f"cannot use {self._path} in process {os.getpid()}: it was opened for changes by process "
                f"{self._process}, from which this one was forked. Open it again here",
                path=str(self._path),
            )

    @property
    def descriptor(self) -> int:
        """The open file, for locks."""
        return self._file

    # -- what HDF5 calls --

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence != io.SEEK_SET:
            offset += self._position if whence == io.SEEK_CUR else self.length
        self._position = offset
        return offset

    def tell(self) -> int:
        return self._position

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        view = memoryview(buffer).cast("B")
        data = self.read_at(self._position, len(view))
        view[: len(data)] = data
        self._position += len(data)
        return len(data)

    def write(self, data: bytes | bytearray | memoryview) -> int:  # type: ignore[override]
        view = memoryview(data).cast("B")
        if self._failure is None:
            try:
                self._write(self._position, view)
            except BaseException as error:
                self._failure = error  # a commit raises it as well
                raise
        self._position += len(view)
        self.length = max(self.length, self._position)
        return len(view)

    def append(self, parts: Sequence[bytes | bytearray | memoryview]) -> None:
        """Append buffers at the end of the file, one after another."""
        if self.length < self._old_length:  # it was truncated: the new bytes lie below the old end
            parts = [b"".join(parts)]
        self._position = self.length
        if len(parts) == 1:
            self.write(parts[0])
            return
        stop = self.length + sum(len(part) for part in parts)
        if self._failure is None:
            try:
                self._note(self.length, stop)
                self._make_room(stop)
                self._disk.write_parts(self._file, parts, self.length)
            except BaseException as error:
                self._failure = error
                raise
        self._position = self.length = stop

    def _note(self, start: int, stop: int) -> None:
        """Remember the byte range of a write."""
        if os.getpid() != self._process:  # `is_orphan` without a call: this happens at every write
            self.check_process()
        self.is_untouched = False
        if self.written and self.written[-1][1] == start:
            self.written[-1] = (self.written[-1][0], stop)
        else:
            self.written.append((start, stop))

    def write_at(self, start: int, view: memoryview) -> None:
        """Write bytes at an offset, without using the position of HDF5."""
        self._write(start, view)
        self.length = max(self.length, start + len(view))

    def _write(self, start: int, view: memoryview) -> None:
        stop = start + len(view)
        self._note(start, stop)
        if start < stop <= self._old_length:
            self._change(start, view)
            return
        edge = min(max(self._old_length, start), stop)
        if edge > start:
            self._change(start, view[: edge - start])
        if stop > edge:
            self._make_room(stop)
            self._disk.write(self._file, view[edge - start :], edge)

    def truncate(self, length: int | None = None) -> int:
        wanted = self._position if length is None else length
        is_behind = wanted > self._old_length or self.length > self._old_length
        if is_behind and self._failure is None:  # after a failure the change can only be rolled back, as in `write`
            try:
                self._make_room(wanted)
                begin = max(wanted, self._old_length)
                if self._mark_at is not None and begin < self.length:  # a commit truncates it, with the mark
                    self._disk.write(self._file, bytes(self.length - begin), begin)
                if self._mark_at is None:
                    self._disk.truncate(self._file, max(wanted, self._old_length))
            except BaseException as error:
                self._failure = error
                raise
        self.length = wanted
        return wanted

    def flush(self) -> None:
        """Do nothing: a commit syncs everything that must be on the disk."""

    # -- pages --

    def read_at(self, start: int, n_bytes: int) -> bytes:
        """Current bytes, including uncommitted changes; fewer at the end of the file."""
        n_bytes = max(0, min(n_bytes, self.length - start))
        # Take the held pages before reading the file: the writing thread may write and drop them at any moment.
        touched = self._held_of(start, n_bytes)
        data = self._disk.read(self._file, n_bytes, start)
        if not touched:
            return data
        whole = bytearray(data.ljust(n_bytes, b"\0"))
        for first, content in touched:
            begin = first * PAGE
            low, high = max(start, begin), min(start + n_bytes, begin + len(content))
            if high > low:
                whole[low - start : high - start] = content[low - begin : high - begin]
        return bytes(whole)

    def read_into(self, start: int, target: memoryview) -> int:
        """Read current bytes, as `read_at`, into memory of the caller; return how many there were."""
        n_bytes = max(0, min(len(target), self.length - start))
        if self._held_of(start, n_bytes):
            data = self.read_at(start, n_bytes)
            target[: len(data)] = data
            return len(data)
        return self._disk.read_into(self._file, target[:n_bytes], start)

    def _held_of(self, start: int, n_bytes: int) -> list[tuple[int, memoryview]]:
        """The pages kept in memory that contain some of these bytes."""
        if not n_bytes or not self._held.n_pages:
            return []
        return self._held.parts(range(start // PAGE, (start + n_bytes - 1) // PAGE + 1))

    def _change(self, start: int, view: memoryview) -> None:
        """Keep changed bytes below the old end in memory, page by page."""
        page, at = divmod(start, PAGE)
        if at + len(view) < PAGE:  # as most of what HDF5 writes
            if self._held.change(page, at, view):
                return
            self._held.put_part(page, self._stored(range(page, page + 1)), at, view)
        else:
            self._change_pages(start, view)
        if self._held.n_bytes > limits.now.held_page_bytes and (self._saving is None or self._saving.done()):
            self._write_pages()  # never waits: this may be a call of HDF5, whose lock the other thread may need

    def _change_pages(self, start: int, view: memoryview) -> None:
        stop = start + len(view)
        whole = range(-(-start // PAGE), stop // PAGE)
        if whole:
            self._held.put(whole.start, self._own(view[whole.start * PAGE - start : whole.stop * PAGE - start]))
        for page in {start // PAGE, (stop - 1) // PAGE}.difference(whole):
            low, high = max(start, page * PAGE), min(stop, (page + 1) * PAGE)
            part = view[low - start : high - start]
            if not self._held.change(page, low - page * PAGE, part):
                self._held.put_part(page, self._stored(range(page, page + 1)), low - page * PAGE, part)

    def _own(self, view: memoryview) -> memoryview:
        """Bytes that stay as they are until the commit: a copy, or the caller's memory that `leave_unchanged` named."""
        at = _address(view) if self._unchanging else 0
        for memory in self._unchanging:
            begin = at - _address(memory)
            if 0 <= begin <= len(memory) - len(view):
                return memory[begin : begin + len(view)]
        return memoryview(bytearray(view))

    def leave_unchanged(self, memory: memoryview) -> None:
        """Promise that this memory is not changed before the commit: what is written from it need not be copied."""
        self._unchanging.append(memory.cast("B").toreadonly())

    def _stored(self, pages: range) -> bytes:
        """Consecutive pages as stored in the file, without bytes beyond its old end."""
        begin, stop = pages.start * PAGE, min(pages.stop * PAGE, self._old_length)
        return self._disk.read(self._file, stop - begin, begin)

    # -- the end of a change --

    @property
    def is_changed(self) -> bool:
        """Whether there is anything to commit."""
        is_written = self._held.n_pages > 0 or self._grown or self._journal is not None
        return is_written or self.length != self._old_length

    @shielded
    def commit(self) -> None:
        """Make everything written since the last commit part of the file, at once."""
        self.check_process()
        failure = self.latch.take() or self._failure
        if failure is not None:
            raise failure
        self._check_place()
        self._await_saving()
        unsaved = self._unsaved_records()
        first = next(unsaved, None)  # compares: HDF5 rewrites pages unchanged when a file is only opened and closed
        if not self.is_changed:
            self._held.clear()
            return
        if self.is_aside and self._journal is None:
            self._put_pages(list(self._held.adjacent(MOST_COPIED_AT_ONCE)))
            self._held.clear()
        if self._held.n_pages or self._journal is not None:
            self._write_pages(last=True, unsaved=itertools.chain([] if first is None else [first], unsaved))
            if self._count is not None:
                self._count()  # before the journal is removed: a reader that sees no journal must see the new count
            self._check_place()
            self._finish()
        else:
            self._sync()
            old_length = self._old_length
            self._begin_anew()
            if self.length < old_length:
                self._disk.truncate(self._file, self.length)

    def _finish(self) -> None:
        """Steps 4 and 5."""
        self._disk.truncate(self._file, self.length)
        self._begin_anew()  # committed: if anything fails from here on, there is nothing to roll back
        try:
            self._sync()
        finally:
            self._remove_journal()

    def _check_place(self) -> None:
        """Raise if the file is no longer at its path: nobody would find what is written to it."""
        if not self._disk.is_at(self._file, self._path):
            raise ConflictError(
                f"cannot commit to {self._path}: it was replaced, moved or removed while it was open for changes. What "
                "is at that path now was not changed; open it again and repeat the change",
                path=str(self._path),
            )

    def _unsaved(self) -> Iterator[range]:
        """The held pages whose old content is not in the journal, in runs of limited length."""
        for run in self._held.runs(MOST_COPIED_AT_ONCE):
            if self._saved.isdisjoint(run):
                yield run
            else:
                yield from ranges_of([page for page in run if page not in self._saved])

    @shielded
    def roll_back(self) -> None:
        """Discard everything written since the last commit, and whatever HDF5 may still write of it."""
        self.latch.is_dead = True
        self.latch = self.latch.next()
        if self.is_orphan:
            return
        self._await_saving(fails=False)
        if self._journal is not None and self._mark_at is not None:
            if self._count is not None:
                self._count()  # pages were overwritten: a reader that saw some of them must read again
            content = self._disk.read(self._journal, self._journal_end, 0)
            restore(self._disk, self._file, records(content), self._old_length)
        elif self._grown:
            self._disk.truncate(self._file, self._old_length)
        self._remove_journal()
        self.length = self._old_length
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._old_length = self.length
        self._held.clear()
        self._unchanging.clear()
        self._saved.clear()
        self._digests.clear()
        self._mark_at = None
        self._grown = False
        self._failure = None
        if self.lock is not None:
            self.lock.give_back()

    def _write_pages(self, last: bool = False, unsaved: Iterable[SavedPages] | None = None) -> None:
        """Steps 1 to 3: write the old content of the held pages to the journal, then the pages to the file.

        last: nothing more is written before the commit; otherwise the mark is placed with free space before it.
        unsaved: the old content, where it was compared already.
        """
        self._await_saving()
        is_new = self._mark_at is None
        if self._journal is None and self._wait is not None:
            self._wait()  # from here on nobody may read the file
        if is_new and self.lock is not None:
            self.lock.take()
        if self._journal is None:
            self._start_journal()
        for records in self._unsaved_records() if unsaved is None else unsaved:
            self._append_records([(pages.start, content) for pages, content in records])
            self._saved.update(*(pages for pages, _ in records))
        runs = list(self._held.adjacent(MOST_COPIED_AT_ONCE))
        for first, contents in runs:
            each_page = itertools.chain.from_iterable(map(split_pages, contents))
            self._digests.update(enumerate(map(crc32, each_page), first))
        if last:
            self._append_digests()
        if self._full and self._journal is not None:
            self._disk.sync(self._journal)
            if is_new:
                self._disk.sync_folder(self._path.parent)
        if self._mark_at is None:
            end = max(self.length, self._old_length)
            self._put_mark(end if last else place_with_room(end))
        self._sync()
        self._put_pages(runs)
        self._sync()
        self._held.clear()

    def _unsaved_records(self) -> Iterator[SavedPages]:
        """Changed pages and their old content, which the journal lacks; pages that did not change are dropped."""
        records: SavedPages = []
        n_pages = 0
        for run in self._unsaved():
            stored = self._held.stored(run) or self._stored(run)
            for part in self._held.drop_unchanged(run, stored):
                at = (part.start - run.start) * PAGE
                records.append((part, stored if part == run else stored[at : at + len(part) * PAGE]))
                n_pages += len(part)
            if n_pages >= MOST_COPIED_AT_ONCE:
                yield records
                records, n_pages = [], 0
        if records:
            yield records

    def _put_mark(self, offset: int) -> None:
        """End the file with the mark of an incomplete commit."""
        mark = Mark(self._journal_id, self._journal_end, self._journal_path.name)
        self._mark_at = offset  # first: from here on a rollback must restore the pages and cut the mark off
        self._disk.write(self._file, pack_mark(mark, offset), offset)

    def _make_room(self, stop: int) -> None:
        """Before bytes are written after the old end: move the mark out of their way, so they cannot overwrite it."""
        self._grown = True
        if self._mark_at is not None and stop > self._mark_at:
            before, offset = self._mark_at, place_with_room(stop)
            self._disk.truncate(self._file, offset + MARK_BYTES)  # first, so that a torn mark still has the full length
            self._put_mark(offset)
            self._sync()  # a power cut before this point leaves the previous mark
            self._disk.write(self._file, bytes(MARK_BYTES), before)  # unwritten bytes must read as zeros

    def _put_pages(self, runs: list[tuple[int, list[memoryview]]]) -> None:
        """Write the held pages, in runs of consecutive ones, into the file."""
        for first, contents in runs:
            self._disk.write_parts(self._file, contents, first * PAGE)

    def _sync(self) -> None:
        if self._full:
            self._disk.sync(self._file)

    def save_ahead(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Begin to journal bytes that the change is going to overwrite, in another thread, if there are many."""
        if self._journal is not None or self.is_aside or self._failure is not None or default_threads() < 2:
            return
        old = [(start, min(stop, self._old_length)) for start, stop in ranges]
        pages = {page for start, stop in old for page in range(start // PAGE, -(-stop // PAGE))}
        if len(pages) * PAGE >= limits.now.saved_ahead_bytes:
            if self._wait is not None:
                self._wait()  # from here on nobody may read the file
            self._start_journal()
            self._saving = begin_aside(lambda: self._save(ranges_of(sorted(pages))))

    def _save(self, runs: list[range]) -> None:
        for run in runs:
            for at in range(run.start, run.stop, MOST_COPIED_AT_ONCE):
                part = range(at, min(at + MOST_COPIED_AT_ONCE, run.stop))
                self._append_records([(part.start, self._stored(part))])
                self._saved.update(part)
        if self._full and self._journal is not None:
            self._disk.sync(self._journal)

    def _await_saving(self, fails: bool = True) -> None:
        saving, self._saving = self._saving, None
        if saving is not None:
            error = saving.exception()
            if error is not None and fails:
                raise error

    def _start_journal(self) -> None:
        self._journal = self._disk.open(self._journal_path, create=True)
        self._journal_id = os.urandom(16)
        head = HEADER.pack(MAGIC, PAGE, self._old_length, self._journal_id, *self._disk.identity(self._file))
        head += CHECK.pack(crc32(head))
        self._disk.write(self._journal, head, 0)
        self._journal_end = len(head)

    def _append_digests(self) -> None:
        """Add to the journal the digests of the new content of all its pages that the new file will have."""
        pages = sorted(self._saved)
        for page in pages if self.length < self._old_length else self._saved.difference(self._digests):
            left = self.length - page * PAGE
            if left < min(PAGE, self._old_length - page * PAGE) or page not in self._digests:
                content = self.read_at(page * PAGE, min(max(left, 0), PAGE))
                self._digests[page] = crc32(content)
        digests = b"".join(map(DIGEST.pack, pages, map(self._digests.__getitem__, pages)))
        self._append_records([(DIGESTS, digests)])

    def _append_records(self, records: Sequence[tuple[int, bytes]]) -> None:
        """Add records to the journal: consecutive pages that begin with this one, or digests."""
        assert self._journal is not None  # started by the caller
        parts: list[bytes] = []
        for page, content in records:
            lead = RECORD.pack(page, len(content))
            parts += (lead, CHECK.pack(crc32(content, crc32(lead))), content)
        self._disk.write_parts(self._journal, parts, self._journal_end)
        self._journal_end += sum(map(len, parts))

    def _remove_journal(self) -> None:
        if self._journal is not None:
            is_there = self._disk.is_at(self._journal, self._journal_path)
            self._close_journal()
            if is_there:
                self._disk.unlink(self._journal_path)

    def _close_journal(self) -> None:
        if self._journal is not None:
            self._disk.close(self._journal)
            self._journal = None

    @shielded
    def close(self) -> None:
        """Close the file. Uncommitted changes are discarded."""
        OPEN_FOR_CHANGES.discard(self)
        if not self.closed:
            try:
                if self.is_changed and not self.is_orphan:
                    self.roll_back()
            finally:
                self._close_journal()
                self._disk.close(self._file)
                super().close()


def _address(memory: memoryview) -> int:
    return int(np.frombuffer(memory, np.uint8).__array_interface__["data"][0])


def records(content: bytes) -> Iterator[tuple[int, bytes, int]]:
    """Page numbers, old pages and the end of each record, up to the first incomplete record."""
    at = HEADER.size + CHECK.size
    while True:
        lead = content[at : at + RECORD.size]
        check = content[at + RECORD.size : at + RECORD.size + CHECK.size]
        if len(check) < CHECK.size:
            return
        first, n_bytes = RECORD.unpack(lead)
        begin = at + RECORD.size + CHECK.size
        old = content[begin : begin + n_bytes]
        if len(old) != n_bytes or CHECK.unpack(check)[0] != crc32(old, crc32(lead)):
            return
        at = begin + n_bytes
        if first == DIGESTS:
            yield first, old, at
        else:
            yield from ((first + start // PAGE, old[start : start + PAGE], at) for start in range(0, n_bytes, PAGE))


def restore(disk: Disk, file: int, saved: Iterable[tuple[int, bytes, int]], length: int) -> None:
    """Restore the old pages, then the old length: truncating removes the mark, so the pages must be back before."""
    for page, old, _ in saved:
        if page != DIGESTS:
            disk.write(file, old, page * PAGE)
    disk.sync(file)
    disk.truncate(file, length)
    disk.sync(file)
