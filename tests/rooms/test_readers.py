"""Reading between two commits: what was read while a writer committed is read again, its errors too."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

import pytest

from colonnade.errors import ConflictError, UsageError
from colonnade.pager.disk import Disk
from colonnade.pager.journal import JournaledFile
from colonnade.pager.locks import WaitRequest, WriterLock, request_path
from colonnade.pager.readers import CommittedFile, read_between_commits
from colonnade.pager.sources import BufferBytes, ByteSource


class Busy:
    """A file that is committed to while it is read, as often as `disturbed` says."""

    name = "busy"

    def __init__(self, path: Path, disturbed: Iterator[bool]) -> None:
        self.n_refreshed = 0
        self._path = path
        self._disturbed = disturbed

    def refresh(self) -> None:
        self.n_refreshed += 1

    def is_current(self) -> bool:
        return not next(self._disturbed, False)

    def wait_request(self) -> WaitRequest:
        return WaitRequest(self._path)


@pytest.mark.parametrize("n_disturbed", [0, 1, 7, 49])
def test_a_disturbed_read_is_repeated(n_disturbed: int, tmp_path: Path) -> None:
    file = Busy(tmp_path / "f", repeat(True, n_disturbed))
    assert read_between_commits(file, lambda: file.n_refreshed) == n_disturbed + 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("n_disturbed", [0, 1, 7])
def test_an_error_counts_only_if_nothing_was_committed(n_disturbed: int, tmp_path: Path) -> None:
    file = Busy(tmp_path / "f", repeat(True, n_disturbed))

    def read() -> None:
        raise ValueError(f"read {file.n_refreshed}")

    with pytest.raises(ValueError, match=f"read {n_disturbed + 1}"):
        read_between_commits(file, read)


def test_an_interrupt_is_never_a_reason_to_read_again(tmp_path: Path) -> None:
    file = Busy(tmp_path / "f", repeat(True))

    def read() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read_between_commits(file, read)
    assert file.n_refreshed == 1


def test_a_file_that_never_rests_is_a_conflict_and_writers_were_asked_to_wait(tmp_path: Path) -> None:
    file = Busy(tmp_path / "f", repeat(True))
    asked: list[bool] = []
    with pytest.raises(ConflictError, match="cannot read busy: it was changed repeatedly"):
        read_between_commits(file, lambda: asked.append(request_path(tmp_path / "f").exists()))
    assert asked[0] is False and asked[-1] is True and len(asked) == 50
    assert list(tmp_path.iterdir()) == []


def test_a_committed_file_shows_each_commit_once_it_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old" * 2000)
    reader = CommittedFile(path, "f", Disk())
    lock = WriterLock(path, 1.0)
    writer = JournaledFile(path, Disk(), count=lock.count_commit)
    seen: list[bytes] = []

    def read(source: ByteSource) -> bytes:
        seen.append(source.read(0, 3, "a part"))
        if len(seen) == 2:
            writer.write_at(0, memoryview(b"new"))
            writer.commit()
        return seen[-1]

    assert reader.consistent(read) == b"old"
    generation = reader.generation
    assert reader.is_current()
    assert reader.consistent(read) == b"new"
    assert reader.generation == generation + 1 and reader.is_current()
    assert seen[0] == b"old" and len(seen) == 3
    writer.close()
    lock.release()
    reader.close()
    with pytest.raises(UsageError, match="f is closed"):
        reader.consistent(read)


def test_bytes_that_nobody_changes_are_always_current() -> None:
    reader = CommittedFile(BufferBytes(b"abc"), "the buffer", Disk())
    assert reader.consistent(lambda source: source.read(1, 2, "a part")) == b"bc"
    assert reader.is_current() and reader.generation == 0
