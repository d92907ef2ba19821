"""Several real processes: writers killed at any moment, locks of the dead and of the living."""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random

import pytest

import colonnade as cn
from colonnade.errors import ConflictError
from colonnade.pager import locks
from colonnade.pager.disk import Disk
from colonnade.pager.journal import JournaledFile
from colonnade.pager.locks import WriterLock, lock_path
from colonnade.pager.marks import journal_path
from colonnade.pager.options import Durability
from tests.faults.changes import make_file, rows
from tests.faults.states import objects_state, tables_state
from tests.faults.test_crashes import leave_stale_lock
from tests.faults.workers import (
    N_SLOTS,
    commit_once,
    commit_when_told,
    context,
    hold,
    numbered,
    slot,
    start,
    write_for_ever,
)

KILLS = int(os.environ.get("COLONNADE_KILLS", "30"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "run.h5"
    make_file(path)
    return path


# -- killed --


def last_commit(path: Path) -> int:
    """The number of the last commit in the file; every slot must hold the table it should."""
    with cn.open(path, timeout=2) as file:
        number = max(int(file[slot(each)].title or -1) for each in range(N_SLOTS))
        for each in range(number - N_SLOTS + 1, number + 1):
            assert file[slot(each)].title == str(each)
            assert file[slot(each)].to_arrow().to_pydict() == numbered(each).to_pydict()
    return number


@pytest.mark.parametrize("durability", ["full", "fast"])
def test_killed_at_any_moment(path: Path, durability: Durability) -> None:
    """What a writer said is done stays; what it was doing is there wholly or not at all; nobody is blocked."""
    random = Random(1)
    for number in range(N_SLOTS):
        cn.write(path, numbered(number), slot(number), title=str(number))
    others, last = {name: item for name, item in objects_state(path).items() if name.startswith("image")}, N_SLOTS - 1
    for _ in range((KILLS + 1) // 2):
        done = context().Value("q", last, lock=False)
        writer = start(write_for_ever, path, last + 1, durability, done)
        wait_until(lambda done=done, last=last: done.value > last)
        time.sleep(random.random() * 0.03)
        writer.kill()
        writer.join()
        last, told = last_commit(path), done.value
        assert last in (told, told + 1)
        assert not journal_path(path).exists()
        objects = objects_state(path)
        assert {name: item for name, item in objects.items() if name.startswith("image")} == others
        assert tables_state(path).keys() == {"/events", "/deep/runs", *(f"/{slot(each)}" for each in range(N_SLOTS))}


def wait_until(is_so: object) -> None:
    """Wait for another process; it has half a minute."""
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline, "another process is stuck"
        time.sleep(0.001)


# -- locks --


def test_lock_of_a_dead_process_blocks_nobody(path: Path) -> None:
    made = context()
    is_held, release = made.Event(), made.Event()
    holder = start(hold, path, is_held, release)
    assert is_held.wait(30)
    holder.kill()
    holder.join()
    assert lock_path(path).exists()
    assert cn.read(path, "events").num_rows == len(rows(1))
    with cn.open(path, "r+", timeout=0) as file:
        file.create("new", rows(3))
    assert not lock_path(path).exists()


@pytest.mark.parametrize("content", [b"", bytes(512), b'{"colonnade": "lock", "stamp": [1], "commits": "many"}'])
def test_lock_with_odd_content_blocks_nobody(path: Path, content: bytes) -> None:
    lock_path(path).write_bytes(content)
    assert cn.read(path, "events").num_rows == len(rows(1))
    with cn.open(path, "r+", timeout=0) as file:
        file.create("new", rows(3))


@pytest.mark.parametrize("content", [b"{", b"[1]", b"null", b"\xff" * 600, b'{"stamp": [1], "commits": "many"}'])
def test_a_file_of_others_at_the_name_of_the_lock(path: Path, content: bytes) -> None:
    """Reading goes on; changing is refused, and the file in the way stays as it is."""
    lock_path(path).write_bytes(content)
    assert cn.read(path, "events").num_rows == len(rows(1))
    with pytest.raises(ConflictError, match="not a lock of colonnade"):
        cn.open(path, "r+", timeout=0)
    assert lock_path(path).read_bytes() == content


def test_second_writer_is_told_who_is_first(path: Path) -> None:
    made = context()
    is_held, release = made.Event(), made.Event()
    holder = start(hold, path, is_held, release)
    assert is_held.wait(30)
    begun = time.monotonic()
    with pytest.raises(ConflictError, match=str(holder.pid)) as caught:
        cn.open(path, "r+", timeout=0.3)
    assert time.monotonic() - begun >= 0.3
    assert caught.value.holder["pid"] == holder.pid
    assert str(path) in str(caught.value)
    assert cn.read(path, "events").num_rows == len(rows(1))
    release.set()
    with cn.open(path, "r+", timeout=10) as file:
        file.create("new", rows(3))
    holder.join()
    assert holder.exitcode == 0


def test_lock_that_was_removed_is_no_lock(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between opening and locking the lock file, its holder removed it and a third writer made another."""
    others: list[WriterLock] = []
    take = locks._take

    def take_late(descriptor: int, lock: Path) -> bool:
        monkeypatch.setattr(locks, "_take", take)
        lock.unlink()
        others.append(WriterLock(path, 0))
        return take(descriptor, lock)

    monkeypatch.setattr(locks, "_take", take_late)
    with pytest.raises(ConflictError):
        WriterLock(path, 0)
    others[0].release()
    WriterLock(path, 0).release()


def test_second_writer_of_one_process(path: Path) -> None:
    with cn.open(path, "r+"), pytest.raises(ConflictError, match=str(os.getpid())):
        cn.open(path, "r+", timeout=0)


def test_reader_sees_the_old_then_the_new(path: Path) -> None:
    """A file opened for reading shows the last commit, also while the next one is half written."""
    made = context()
    is_half, go_on, is_done = made.Event(), made.Event(), made.Event()
    with cn.open(path) as file:
        table, column = file["events"], file["events"]["x"]
        old = table.to_arrow().to_pydict()
        writer = start(commit_when_told, path, is_half, go_on, is_done)
        assert is_half.wait(30)
        assert table.to_arrow().to_pydict() == old
        assert cn.read(path, "events").to_pydict() == old
        go_on.set()
        assert is_done.wait(30)
        new = numbered(1).to_pydict()
        new = {name: new[name] + numbered(2).to_pydict()[name] for name in new}
        assert table.to_arrow().to_pydict() == new
        assert column.to_numpy().tolist() == new["x"]
        assert len(table) == len(new["x"])
        writer.join()
        assert table.to_arrow().to_pydict() == new
    assert writer.exitcode == 0


def test_two_readers_of_one_process(path: Path) -> None:
    """HDF5 opens a file once in a process, and remembers what it has read: a second reader must not be shown that."""
    with cn.open(path) as first, cn.open(path) as second:
        assert first["events"].to_arrow() == second["events"].to_arrow()
        writer = start(commit_once, path)
        writer.join()
        new = numbered(1).to_pydict()
        assert cn.read(path, "events").to_pydict() == new
        assert first["events"].to_arrow().to_pydict() == new
        assert second["events"].to_arrow().to_pydict() == new


# -- journals left behind --


def forget(dying: JournaledFile) -> None:
    """Drop a file as a dead process does: nothing is undone."""
    disk = Disk()
    disk.close(dying._file)
    assert dying._journal is not None
    disk.close(dying._journal)
    dying.__dict__.update(_pages={}, _grown=False, _journal=None, length=dying._old_length, _disk=Gone())


class Gone(Disk):
    """A disk whose files are closed already."""

    def close(self, descriptor: int) -> None:
        """Nothing."""


def leave_journal(path: Path) -> bytes:
    """A change that died when all its pages were overwritten; gives the file as it was."""
    before = path.read_bytes()
    dying = JournaledFile(path, Disk())
    dying.seek(100)
    dying.write(memoryview(b"\xee" * 9000))
    dying.seek(0, 2)
    dying.write(memoryview(b"more"))
    dying._write_pages()
    forget(dying)
    assert path.read_bytes() != before
    return before


def test_journal_is_rolled_back_by_a_reader(path: Path) -> None:
    before = leave_journal(path)
    leave_stale_lock(path)
    assert cn.read(path, "events").num_rows == len(rows(1))
    assert path.read_bytes() == before
    assert not journal_path(path).exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
@pytest.mark.parametrize("where", ["file", "folder"])
def test_journal_beside_a_file_that_may_not_be_written(path: Path, where: str) -> None:
    before = leave_journal(path)
    locked = path if where == "file" else path.parent
    mode = locked.stat().st_mode
    locked.chmod(mode & ~0o222)
    try:
        with pytest.raises(ConflictError, match="writer that crashed") as caught:
            cn.open(path)
        assert caught.value.path == str(path)
    finally:
        locked.chmod(mode)
    assert cn.read(path, "events").num_rows == len(rows(1))
    assert path.read_bytes() == before


def test_journal_is_found_through_a_symbolic_link(path: Path) -> None:
    before = leave_journal(path)
    link = path.with_name("link.h5")
    link.symlink_to(path)
    assert cn.read(link, "events").num_rows == len(rows(1))
    assert path.read_bytes() == before


@pytest.mark.parametrize("is_there", [True, False])
def test_new_file_where_a_journal_was_left(path: Path, is_there: bool) -> None:
    """A file made anew has nothing to do with the journal of the one that was there."""
    leave_journal(path)
    if not is_there:
        path.unlink()
    with cn.open(path, "w") as file:
        file.create("anew", rows(5))
    assert not journal_path(path).exists()
    assert cn.read(path, "anew").to_pydict() == rows(5).to_pydict()


def test_file_that_is_being_changed_is_not_made_anew(path: Path) -> None:
    made = context()
    is_held, release = made.Event(), made.Event()
    holder = start(hold, path, is_held, release)
    assert is_held.wait(30)
    before = path.read_bytes()
    with pytest.raises(ConflictError, match=str(holder.pid)), cn.open(path, "w", timeout=0.2) as file:
        file.create("anew", rows(5))
    assert path.read_bytes() == before
    release.set()
    holder.join()


@pytest.mark.parametrize("n_bytes", [0, 1, 20, 39])
def test_torn_header_is_discarded(path: Path, n_bytes: int) -> None:
    """A journal whose header was never finished belongs to a change that never began to overwrite anything."""
    before = leave_journal(path)
    path.write_bytes(before)
    journal_path(path).write_bytes(journal_path(path).read_bytes()[:n_bytes])
    assert cn.read(path, "events").num_rows == len(rows(1))
    assert path.read_bytes() == before
    assert not journal_path(path).exists()


@pytest.mark.parametrize("at", range(9, 40, 3))
def test_garbage_in_the_header_is_discarded(path: Path, at: int) -> None:
    before = leave_journal(path)
    path.write_bytes(before)
    content = bytearray(journal_path(path).read_bytes())
    content[at] ^= 0x55
    journal_path(path).write_bytes(content)
    assert cn.read(path, "events").num_rows == len(rows(1))
    assert path.read_bytes() == before
    assert not journal_path(path).exists()


@pytest.mark.parametrize("at", range(0, 8, 3))
def test_a_file_of_others_at_the_name_of_the_journal(path: Path, at: int) -> None:
    """What does not begin like a journal is not removed: nobody may read over it until it is moved away."""
    leave_journal(path)
    content = bytearray(journal_path(path).read_bytes())
    content[at] ^= 0x55
    journal_path(path).write_bytes(content)
    for mode in ("r", "r+", "w"):
        with pytest.raises(ConflictError, match="not a journal of colonnade"):
            cn.open(path, mode)
    assert journal_path(path).read_bytes() == content
