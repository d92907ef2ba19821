"""Other HDF5 programs that have the file open: nothing changes under them, and none sees half a commit."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import colonnade as cn
from colonnade.errors import ConflictError
from colonnade.pager import disk as pager_disk
from colonnade.pager.disk import Disk
from tests.faults.changes import make_file, rows
from tests.faults.test_kill import leave_journal

OPEN_IT = """
import sys, h5py
with h5py.File(sys.argv[1], sys.argv[2]) as file:
    print(file["events/x"].shape[0], flush=True)
"""
CHANGE_IT = """
import sys, colonnade as cn
with cn.open(sys.argv[1], "r+") as file:
    table = file["events"]
    table.drop_column("x")
    table.add_column("x", [7] * len(table))
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "run.h5"
    make_file(path)
    return path


def opened_elsewhere(path: Path, mode: str = "r") -> bool:
    """Whether h5py in another process can open the file now."""
    return subprocess.run([sys.executable, "-c", OPEN_IT, path, mode], check=False, capture_output=True).returncode == 0


def test_a_commit_under_an_open_h5py_file_is_refused(path: Path) -> None:
    """The example of the issue: h5py holds a dataset, columns are dropped and added."""
    with h5py.File(path) as h5:
        dataset = h5["events/x"]
        before = dataset[:]
        with cn.open(path, "r+", timeout=0.05) as file:
            with pytest.raises(ConflictError, match=r"has it open through HDF5.*hdf5_lock=False"):
                file["events"].drop_column("x")
            assert "x" in file["events"].columns
        dataset.id.refresh()
        np.testing.assert_array_equal(dataset[:], before)
    with cn.open(path, "r+", timeout=0.05) as file:
        file["events"].drop_column("x")


def test_a_commit_waits_for_the_other_to_close(path: Path) -> None:
    code = OPEN_IT + "    import time; time.sleep(0.5)\n"
    with subprocess.Popen([sys.executable, "-c", code, path, "r"], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.read(1)
        with cn.open(path, "r+", timeout=60) as file:
            file["events"].append(rows(2))
    assert cn.read(path, "events").num_rows == len(rows(1)) + len(rows(2))


def test_without_the_lock_on_request(path: Path) -> None:
    with h5py.File(path), cn.open(path, "r+", timeout=0.05, hdf5_lock=False) as file:
        file["events"].append(rows(2))
    with h5py.File(path), cn.open(path, "r+", timeout=0.05, locking="none") as file:
        file["events"].append(rows(2))


def test_locking_of_hdf5_turned_off(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with h5py.File(path):
        monkeypatch.setenv("HDF5_USE_FILE_LOCKING", "FALSE")
        with cn.open(path, "r+", timeout=0.05) as file:
            file["events"].append(rows(2))


class Asking(Disk):
    """Lets another program try to open the file at every write of a commit."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.during: list[bool] = []
        self.in_commit = False

    def write(self, descriptor: int, data: bytes | bytearray | memoryview, offset: int) -> None:
        super().write(descriptor, data, offset)
        if self.in_commit and len(self.during) < 8:
            self.during.append(opened_elsewhere(self.path))

    def write_parts(self, descriptor: int, parts: Sequence[Any], offset: int) -> None:
        self.write(descriptor, b"".join(parts), offset)

    def open(self, path: Path, create: bool = False, write: bool = True) -> int:
        self.in_commit = self.in_commit or create
        return super().open(path, create, write)

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        self.in_commit = False


def test_nobody_opens_the_file_in_the_middle_of_a_commit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Asking(path)
    monkeypatch.setattr(pager_disk, "DISK", disk)
    with cn.open(path, "r+") as file:
        assert opened_elsewhere(path)  # open for changes, and not committing
        assert not opened_elsewhere(path, "r+")
        file["events"].append(rows(2))
        assert len(disk.during) > 3
        assert not any(disk.during)
        assert opened_elsewhere(path)  # not longer than the commit
        assert not opened_elsewhere(path, "r+")
    assert opened_elsewhere(path, "r+")


def test_our_readers_hold_no_lock(path: Path) -> None:
    """They keep reading while others write, and see every commit."""
    with cn.open(path) as reader:
        assert len(reader["events"]) == len(rows(1))
        with cn.open(path, "r+", timeout=0.05) as file:
            file["events"].append(rows(2))
        assert len(reader["events"]) == len(rows(1)) + len(rows(2))
        assert opened_elsewhere(path, "r+")


def test_a_reader_beside_an_h5py_file_of_the_same_process(path: Path) -> None:
    """Either may come first: HDF5 refuses one file with and without locks by one driver."""
    with h5py.File(path) as h5, cn.open(path) as file:
        assert len(h5["events/x"]) == len(file["events"])
    with cn.open(path) as file, h5py.File(path) as h5:
        assert len(h5["events/x"]) == len(file["events"])


def test_a_file_that_another_program_writes_is_not_read(path: Path) -> None:
    with h5py.File(path, "r+"), pytest.raises(ConflictError, match="in use"):
        cn.open(path, timeout=0.05)


def test_readers_do_not_share_what_an_unlocked_handle_remembers(path: Path) -> None:
    """An h5py handle without locks stays open over a commit: our reader sees the new state all the same."""
    with h5py.File(path, locking=False) as h5, cn.open(path) as reader:
        assert len(h5["events/x"]) == len(reader["events"])
        subprocess.run([sys.executable, "-c", CHANGE_IT, path], check=True)
        assert set(reader["events"]["x"].to_numpy().tolist()) == {7}
        assert set(cn.read(path, "events")["x"].to_pylist()) == {7}


STALE: dict[str, tuple[Callable[[h5py.File], Any], Callable[[Any], object]]] = {
    "file": (lambda h5: h5, lambda h5: h5["image"]),
    "names": (lambda h5: h5, list),
    "get": (lambda h5: h5, lambda h5: h5.get("image")),
    "group": (lambda h5: h5["events"], lambda group: group["x"]),
    "values": (lambda h5: h5["events"].values(), list),
    "dataset": (lambda h5: h5["image"], lambda dataset: dataset[0]),
    "dataset that was read": (lambda h5: (h5["image"], h5["image"][:])[0], lambda dataset: dataset[0]),
    "shape": (lambda h5: h5["image"], lambda dataset: dataset.shape),
    "direct": (lambda h5: h5["image"], lambda dataset: dataset.read_direct(np.zeros(2500))),
    "as type": (lambda h5: h5["image"].astype("f4"), lambda view: view[:]),
    "attributes": (lambda h5: h5["image"].attrs, lambda attributes: attributes["made by"]),
    "attributes of a dataset": (lambda h5: h5["image"], lambda dataset: dataset.attrs["made by"]),
    "names of attributes": (lambda h5: h5["events"].attrs, list),
    "parent": (lambda h5: h5["events/x"].parent, lambda group: group["x"]),
    "file of a dataset": (lambda h5: h5["image"].file, lambda file: file["image"]),
    "reference": (lambda h5: (h5, h5["image"].ref), lambda pair: pair[0][pair[1]]),
}


@pytest.mark.parametrize("name", STALE)
def test_objects_of_an_older_state_raise(path: Path, name: str) -> None:
    """Those that came from `f.h5` before another process committed, whether the reader has looked since or not."""
    take, use = STALE[name]
    with cn.open(path) as reader:
        thing = take(reader.h5)
        use(thing)
        commit_elsewhere(path)
        with pytest.raises(ConflictError, match=r"File\.h5"):
            use(thing)
        assert reader["events"].n_rows == len(rows(1))  # looks at the file again
        with pytest.raises(ConflictError, match=r"File\.h5"):
            use(thing)
        use(take(reader.h5))
        assert reader.h5 is reader.h5 and isinstance(reader.h5, h5py.File)


def commit_elsewhere(path: Path) -> None:
    with cn.open(path, "r+") as file:
        file.h5["image"][...] = 5.0


def test_a_commit_while_an_object_is_read_is_noticed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with cn.open(path) as reader:
        image = reader.h5["image"]
        real = h5py.Dataset.__getitem__

        def committed_meanwhile(dataset: h5py.Dataset, *arguments: Any, **options: Any) -> Any:
            monkeypatch.setattr(h5py.Dataset, "__getitem__", real)
            found = real(dataset, *arguments, **options)
            commit_elsewhere(path)
            return found

        monkeypatch.setattr(h5py.Dataset, "__getitem__", committed_meanwhile)
        with pytest.raises(ConflictError, match=r"File\.h5"):
            image[:]
        assert not image
        assert np.all(reader.h5["image"][...] == 5.0)


def test_objects_of_a_reader_that_was_closed(path: Path) -> None:
    reader = cn.open(path)
    h5 = reader.h5
    image = h5["image"]
    reader.close()
    assert not image and not h5
    with pytest.raises((ValueError, RuntimeError), match="identifier"):
        image[0]
    with cn.open(path) as reader:
        reader.h5.close()
        assert len(reader["events"]) == len(rows(1))


def test_recovery_does_not_change_a_file_under_another_program(path: Path) -> None:
    before = leave_journal(path)
    half = path.read_bytes()
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)  # as HDF5 does
        with pytest.raises(ConflictError, match="through HDF5"):
            cn.open(path, timeout=0.05)
        assert path.read_bytes() == half
    finally:
        os.close(descriptor)
    assert cn.read(path, "events").num_rows == len(rows(1))
    assert path.read_bytes() == before
