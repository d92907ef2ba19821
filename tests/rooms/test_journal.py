"""The file object that HDF5 writes through, asked by other threads than the one that writes."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from colonnade.h5 import journal
from colonnade.h5.disk import Disk
from colonnade.h5.journal import PAGE, JournaledFile


class Disturbed(Disk):
    """Lets something happen once, right after bytes were read."""

    then: Callable[[], None] | None = None

    def read(self, descriptor: int, n_bytes: int, offset: int) -> bytes:
        data = super().read(descriptor, n_bytes, offset)
        then, self.then = self.then, None
        if then is not None:
            then()
        return data


def test_pages_that_are_written_early_while_another_thread_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that writes puts its pages into the file, and lets go of them, between a read and the look at them."""
    path = tmp_path / "x"
    path.write_bytes(b"o" * 20 * PAGE)
    disk = Disturbed()
    monkeypatch.setattr(journal, "MOST_HELD", 4 * PAGE)
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
