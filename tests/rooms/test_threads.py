"""Work in threads: none is waited for by a thread that holds h5py's lock, which any thread may come to need."""

from __future__ import annotations

from pathlib import Path
from threading import Event, get_ident

import pytest
from h5py._objects import phil

from colonnade import threads
from colonnade.h5 import capi
from colonnade.pager.disk import Disk
from colonnade.pager.held_pages import PAGE
from colonnade.pager.journal import JournaledFile
from tests.conftest import SetLimits


def _where(_item: int = 0) -> int:
    return get_ident()


def test_whoever_holds_the_lock_of_h5py_works_alone() -> None:
    """Freeing an object of h5py takes the lock, and garbage is collected in any thread."""
    here = get_ident()
    assert capi.HDF5_LOCK.is_owned() is False
    for holds in (False, True, False):
        if holds:
            phil.acquire()
        try:
            places = {*threads.in_order(_where, range(8), 2)}
            places |= {threads.begin(_where, 2).result(), threads.begin_aside(_where).result()}
        finally:
            if holds:
                phil.release()
        assert (here in places) == holds
        assert len(places) == 1 or not holds


class Slow(Disk):
    """Reads old pages once it is told to, or after a while."""

    def __init__(self) -> None:
        self.may_read = Event()
        self.was_told = True

    def read(self, descriptor: int, n_bytes: int, offset: int) -> bytes:
        if n_bytes >= 8 * PAGE:
            self.was_told = self.may_read.wait(20)
        return super().read(descriptor, n_bytes, offset)


def test_a_write_of_hdf5_waits_for_no_thread(
    tmp_path: Path, set_limits: SetLimits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if more is held in memory than should be, while old pages are still being journaled."""
    monkeypatch.setenv("COLONNADE_THREADS", "2")
    path, disk = tmp_path / "x", Slow()
    path.write_bytes(b"o" * 40 * PAGE)
    set_limits(held_page_bytes=4 * PAGE, saved_ahead_bytes=PAGE)
    with JournaledFile(path, disk) as file:
        file.save_ahead([(0, 16 * PAGE)])
        for page in range(20, 30):
            file.write_at(page * PAGE, memoryview(b"n" * PAGE))
        disk.may_read.set()
        file.commit()
    assert disk.was_told
    assert path.read_bytes() == b"o" * 20 * PAGE + b"n" * 10 * PAGE + b"o" * 10 * PAGE
