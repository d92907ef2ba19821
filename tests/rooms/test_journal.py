"""The file object that HDF5 writes through, asked by other threads than the one that writes."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade import limits
from colonnade.pager import journal
from colonnade.pager.disk import Disk
from colonnade.pager.held_pages import PAGE
from colonnade.pager.journal import JournaledFile
from colonnade.pager.marks import journal_path
from tests.conftest import SetLimits


class Disturbed(Disk):
    """Lets something happen once, right after bytes were read."""

    then: Callable[[], None] | None = None

    def read(self, descriptor: int, n_bytes: int, offset: int) -> bytes:
        data = super().read(descriptor, n_bytes, offset)
        then, self.then = self.then, None
        if then is not None:
            then()
        return data


def test_pages_that_are_written_early_while_another_thread_reads(tmp_path: Path, set_limits: SetLimits) -> None:
    """The thread that writes puts its pages into the file, and lets go of them, between a read and the look at them."""
    path = tmp_path / "x"
    path.write_bytes(b"o" * 20 * PAGE)
    disk = Disturbed()
    set_limits(held_page_bytes=4 * PAGE)
    with JournaledFile(path, disk) as file:
        file.write(memoryview(b"N" * PAGE))

        def write_more() -> None:
            for page in range(10, 14):
                file.seek(page * PAGE)
                file.write(memoryview(b"x" * PAGE))

        disk.then = write_more
        assert file.read_at(0, 4) == b"NNNN"
        assert file.read_at(0, 4) == b"NNNN"
        assert disk.then is None
        file.commit()
    assert path.read_bytes()[: PAGE + 1] == b"N" * PAGE + b"o"


def test_asked_for_its_length_it_does_not_move(tmp_path: Path) -> None:
    """HDF5 seeks, and then reads or writes: nothing may come between."""
    path = tmp_path / "x"
    path.write_bytes(bytes(100))
    with JournaledFile(path, Disk()) as file:
        file.seek(40)
        assert file.length == 100
        file.write(memoryview(b"abc"))
        assert file.tell() == 43
        file.seek(0, io.SEEK_END)
        file.write(memoryview(b"abc"))
        assert file.length == 103
        file.commit()


class Broken(Disk):
    """A disk whose writes fail from some moment on; counts what is tried."""

    fails = False
    n_tried = 0

    def write(self, descriptor: int, data: bytes | bytearray | memoryview, offset: int) -> None:
        self._try()
        super().write(descriptor, data, offset)

    def write_parts(self, descriptor: int, parts: Sequence[Any], offset: int) -> None:
        self.write(descriptor, b"".join(parts), offset)

    def truncate(self, descriptor: int, length: int) -> None:
        self._try()
        super().truncate(descriptor, length)

    def _try(self) -> None:
        self.n_tried += 1
        if self.fails:
            raise OSError("the disk is full")


def test_after_a_failure_the_file_is_not_touched_until_it_is_rolled_back(tmp_path: Path) -> None:
    path, disk = tmp_path / "x", Broken()
    path.write_bytes(b"old")
    with JournaledFile(path, disk) as file:
        file.seek(3)
        file.write(memoryview(b"new"))
        disk.fails = True
        with pytest.raises(OSError, match="full"):
            file.write(memoryview(b"more"))
        tried = disk.n_tried
        file.write(memoryview(b"more"))
        file.truncate(5000)
        file.truncate(4)
        assert disk.n_tried == tried
        with pytest.raises(OSError, match="full"):
            file.commit()
        disk.fails = False
        file.roll_back()
    assert path.read_bytes() == b"old"


class Counting(Disk):
    """Counts what is asked of the disk."""

    def __init__(self) -> None:
        self.n_calls = 0

    def read(self, descriptor: int, n_bytes: int, offset: int) -> bytes:
        self.n_calls += 1
        return super().read(descriptor, n_bytes, offset)

    def write_parts(self, descriptor: int, parts: Sequence[Any], offset: int) -> None:
        self.n_calls += 1
        super().write_parts(descriptor, parts, offset)


def test_pages_that_follow_each_other_are_journaled_together(tmp_path: Path) -> None:
    """The disk is asked, and the journal has records, per run of pages; each page of a run can still be told apart."""
    path, disk = tmp_path / "x", Counting()
    old = bytes(range(256)) * (64 * PAGE // 256) + b"the end"
    path.write_bytes(old)
    file = JournaledFile(path, disk)
    file.seek(100)
    file.write(memoryview(bytes(60 * PAGE)))
    file.seek(len(old) - 3)
    file.write(memoryview(b"END"))
    file._write_pages(last=True)
    content = journal_path(path).read_bytes()
    saved = [record for record in journal.records(content) if record[0] != journal.DIGESTS]
    assert [page for page, _, _ in saved] == [*range(61), 64]
    assert all(before == old[page * PAGE : (page + 1) * PAGE] for page, before, _ in saved)
    assert len({end for _, _, end in saved}) == 2
    assert disk.n_calls < 15
    file.roll_back()
    file.close()
    assert path.read_bytes() == old


def test_pages_that_change_in_part_are_read_once(tmp_path: Path) -> None:
    """What a page was is held from its first change on: the commit does not read it again to journal it."""
    path, disk = tmp_path / "x", Counting()
    path.write_bytes(bytes(64 * PAGE))
    file = JournaledFile(path, disk)
    pages = [3, 4, 5, 20, 40]
    for page in pages:
        file.write_at(page * PAGE + 100, memoryview(b"HDF5"))
        file.write_at(page * PAGE + 900, memoryview(b"more"))
    assert disk.n_calls == len(pages)
    file._write_pages(last=True)
    assert disk.n_calls == len(pages) + 2 + len([range(3, 6), 20, 40])  # two records, and one call for each run
    file.write_at(3 * PAGE + 7, memoryview(b"and more"))  # what it is now, not what it was when it changed first
    file.commit()
    file.close()
    written = path.read_bytes()
    assert [written[page * PAGE + 100 :][:4] for page in pages] == [b"HDF5"] * len(pages)
    assert written[3 * PAGE + 7 :][:8] == b"and more"


def test_pages_rewritten_as_they_were_are_no_change_and_are_read_again_later(tmp_path: Path) -> None:
    """Between two commits another program may change what was held of them."""
    path, disk = tmp_path / "x", Counting()
    path.write_bytes(bytes(8 * PAGE))
    file = JournaledFile(path, disk)
    file.write_at(10, memoryview(bytes(4)))
    file.commit()
    assert not file.is_changed
    with path.open("r+b") as other:
        other.seek(2000)
        other.write(b"of another")
    file.write_at(0, memoryview(b"HDF5" * (PAGE // 4)))
    file._write_pages(last=True)
    saved = list(journal.records(journal_path(path).read_bytes()))
    assert saved[0][1][2000:2010] == b"of another"
    file.roll_back()
    file.close()
    assert path.read_bytes()[2000:2010] == b"of another"


@settings(max_examples=60, deadline=None)
@given(
    writes=st.lists(st.tuples(st.integers(0, 5 * PAGE), st.integers(1, 3 * PAGE), st.integers(0, 255)), max_size=8),
    most_held=st.sampled_from([0, 2 * PAGE, 1 << 20]),
    keeps=st.booleans(),
)
def test_any_writes_are_read_back_and_committed_or_not(
    writes: list[tuple[int, int, int]], most_held: int, keeps: bool
) -> None:
    """Whatever pages, parts of pages and bytes behind the end are written, and however often."""
    with TemporaryDirectory() as folder, limits.override(held_page_bytes=most_held):
        path, old = Path(folder) / "x", bytes(range(256)) * 70
        path.write_bytes(old)
        expected = bytearray(old)
        with JournaledFile(path, Disk(), durability="fast") as file:
            for start, count, value in writes:
                file.seek(start)
                file.write(memoryview(bytes([value]) * count))
                expected.extend(bytes(max(0, start - len(expected))))
                expected[start : start + count] = bytes([value]) * count
            assert file.read_at(0, 1 << 20) == bytes(expected)
            if keeps:
                file.commit()
        assert path.read_bytes() == (bytes(expected) if keeps else old)
        assert not journal_path(path).exists()
