"""Readers that a writer disturbs at the worst moment, one moment a test; and locks that others look at meanwhile."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import colonnade as cn
from colonnade import limits
from colonnade.errors import ConflictError
from colonnade.pager import locks, readers
from colonnade.pager.held_pages import PAGE
from colonnade.pager.locks import WriterLock, has_writer, lock_path
from colonnade.query import scan
from tests.faults.changes import make_file, rows
from tests.faults.test_crashes import leave_stale_lock
from tests.faults.test_kill import leave_journal
from tests.faults.workers import commit_once, context, hold_when_told, numbered, start

N_ROWS = 20_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "run.h5"
    make_file(path)
    return path


def at_the_first_column(patch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let something happen once, before a column of a table is read."""
    real = scan.read_column
    calls: list[object] = []

    def read_column(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 1:
            act()
        return real(*arguments)

    patch.setattr(scan, "read_column", read_column)


def commit_by_another(path: Path) -> None:
    writer = start(commit_once, path)
    writer.join()
    assert writer.exitcode == 0


# -- reads --


def test_batches_begun_before_a_commit(path: Path) -> None:
    """They are told to start again, also when the file was looked at meanwhile and its handles are void."""
    with cn.open(path) as file:
        table = file["events"]
        batches = table.batches(10)
        commit_by_another(path)
        assert len(table) == numbered(1).num_rows
        with pytest.raises(ConflictError, match="start again"):
            next(batches)
        assert pa.Table.from_batches(list(table.batches(10))).to_pydict() == numbered(1).to_pydict()


@pytest.mark.parametrize("kind", [MemoryError, TypeError, IndexError, OverflowError])
def test_any_error_of_a_disturbed_read_means_to_read_again(
    path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    """Bytes of two states may look like anything: a length of petabytes, a missing member."""

    def disturb() -> None:
        commit_by_another(path)
        raise kind("from torn bytes")

    with cn.open(path) as file:
        at_the_first_column(monkeypatch, disturb)
        assert file["events"].to_arrow().to_pydict() == numbered(1).to_pydict()


def take_back(path: Path, is_written: Any, go_on: Any, is_undone: Any) -> None:
    """A change that is too large for the memory, and fails."""
    with limits.override(held_page_bytes=2 * PAGE), cn.open(path, "r+") as file:
        with pytest.raises(KeyError), file.transaction():
            for name in ("x", "y"):
                file["pairs"].update(name, np.arange(N_ROWS), np.full(N_ROWS, 7))
            file.h5.flush()
            is_written.set()
            go_on.wait(30)
            raise KeyError("an error of the caller")
        is_undone.set()
        go_on.clear()
        go_on.wait(30)


def test_change_that_is_taken_back_is_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One column was read before the pages of a change were written, one before they were put back."""
    made = context()
    is_written, go_on, is_undone = made.Event(), made.Event(), made.Event()
    plain = cn.column(chunk_rows=5000, filters="none")
    cn.write(path, {name: np.arange(N_ROWS) for name in "xy"}, "pairs", columns={"x": plain, "y": plain})
    with cn.open(path) as file:
        writers: list[ForkServerProcess] = []

        def disturb() -> None:
            writers.append(start(take_back, path, is_written, go_on, is_undone))
            assert is_written.wait(30)

        real = scan.read_column

        def read_column(reader: Any, chosen: Any) -> Any:
            if reader.column.name == "y" and not writers:
                disturb()
                found = real(reader, chosen)
                go_on.set()
                assert is_undone.wait(30)
                return found
            return real(reader, chosen)

        monkeypatch.setattr(scan, "read_column", read_column)
        for _ in range(2):
            found = file["pairs"].to_arrow()
            assert found["x"].equals(found["y"])
    go_on.set()
    writers[0].join()
    assert writers[0].exitcode == 0


def update_for_ever(path: Path, stop: Any) -> None:
    number = 0
    with cn.open(path, "r+", durability="fast") as file:
        while not stop.is_set():
            number += 1
            file["pairs"].update("x", [0], [number])


def test_reader_that_is_slower_than_the_writer_gets_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits come faster than a read ends; it ends all the same, a few times."""
    cn.write(path, {name: np.arange(100) for name in "xy"}, "pairs")
    stop = context().Event()
    writer = start(update_for_ever, path, stop)
    real = scan.read_column

    def read_slowly(reader: Any, chosen: Any) -> Any:
        time.sleep(0.05)
        return real(reader, chosen)

    monkeypatch.setattr(scan, "read_column", read_slowly)
    try:
        with cn.open(path, timeout=60) as file:
            seen = [file["pairs"]["x"].to_arrow()[0].as_py() for _ in range(3)]
            seen += [file["pairs"].to_arrow()["x"][0].as_py() for _ in range(3)]
    finally:
        stop.set()
        writer.join()
    assert writer.exitcode == 0
    assert seen == sorted(seen)
    assert {each.name for each in path.parent.iterdir()} == {path.name}


# -- stamps --


def coarse_stamp(path: Path | str | int) -> list[int]:
    """The stamp on a disk whose clock ticks once a second."""
    status = os.stat(path)  # noqa: PTH116
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns // 10**9 * 10**9]


def set_title(path: Path, title: str) -> None:
    locks.file_stamp = coarse_stamp
    with cn.open(path, "r+") as file:
        file["deep/runs"].title = title


def test_commits_of_one_size_in_one_tick(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is of another state all the same, and is seen to be."""
    monkeypatch.setattr(locks, "file_stamp", coarse_stamp)
    with cn.open(path) as file:
        table = file["deep/runs"]
        for title in ("one", "two", "six", "ten"):
            writer = start(set_title, path, title)
            writer.join()
            assert writer.exitcode == 0
            assert table.title == title


# -- locks --


def test_reader_is_no_writer(path: Path) -> None:
    """A reader that looks whether a stale lock is held is not taken for its holder by another."""
    leave_stale_lock(path)
    with lock_path(path).open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
        assert not has_writer(path)
    seen: list[bool | None] = []
    real = fcntl.flock

    def flock(descriptor: int, kind: int) -> None:
        real(descriptor, kind)
        if not seen:
            seen.append(None)
            seen.append(has_writer(path))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fcntl, "flock", flock)
        assert not has_writer(path)
    assert seen == [None, False]


def test_stale_lock_where_locks_need_a_file_open_for_writing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS gives an exclusive lock only to who may write: EBADF is no sign of a living writer."""
    before = leave_journal(path)
    leave_stale_lock(path)
    real = fcntl.flock

    def flock(descriptor: int, kind: int) -> None:
        if kind & fcntl.LOCK_EX and fcntl.fcntl(descriptor, fcntl.F_GETFL) & 3 == 0:
            raise OSError(errno.EBADF, "Bad file descriptor")
        real(descriptor, kind)

    monkeypatch.setattr(fcntl, "flock", flock)
    with cn.open(path, timeout=1) as file:
        assert file["events"].n_rows == len(rows(1))
    assert path.read_bytes() == before


def test_reader_leaves_it_to_a_writer_to_put_right(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that is faster puts the file right and keeps its lock; the reader need not wait for that lock."""
    leave_journal(path)
    made = context()
    is_ready, go_on, is_held, release = (made.Event() for _ in range(4))
    holder = start(hold_when_told, path, is_ready, go_on, is_held, release)
    assert is_ready.wait(30)  # or the reader's second would be over before the other process has started

    def has_writer_soon(looked_at: Path) -> bool:
        if is_held.is_set():
            return has_writer(looked_at)
        go_on.set()
        assert is_held.wait(30)
        return False

    monkeypatch.setattr(readers, "has_writer", has_writer_soon)
    with cn.open(path, timeout=1) as file:
        assert file["events"].n_rows == len(rows(1))
    release.set()
    holder.join()


def test_lock_that_cannot_be_told_is_not_held(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(WriterLock, "_write_holder", fail)
        with pytest.raises(OSError, match="space"):
            WriterLock(path, 0)
    WriterLock(path, 0).release()


def test_lock_of_another_is_not_removed(path: Path) -> None:
    """Somebody removed the lock file of a living writer by hand, and another writer came."""
    first = WriterLock(path, 0)
    lock_path(path).unlink()
    second = WriterLock(path, 0)
    first.release()
    assert lock_path(path).exists()
    with pytest.raises(ConflictError):
        WriterLock(path, 0)
    second.release()
    assert not lock_path(path).exists()
