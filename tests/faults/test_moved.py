"""Files that were moved, copied, renamed, replaced, removed or linked: after a crash, and under an open writer."""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import colonnade as cn
from colonnade import limits
from colonnade.errors import ConflictError
from colonnade.h5 import capi
from colonnade.h5.files import FileHandle
from colonnade.pager.disk import Disk
from colonnade.pager.half_commits import find_mark
from colonnade.pager.held_pages import PAGE
from colonnade.pager.journal import MAGIC, JournaledFile
from colonnade.pager.marks import MARK_BYTES, Mark, journal_path, pack_mark
from colonnade.pager.recovery import roll_back
from tests.conftest import SetLimits
from tests.faults.changes import make_file, rows
from tests.faults.test_crashes import OPENINGS
from tests.faults.test_kill import forget, leave_journal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "run.h5"
    make_file(path)
    return path


def whole(path: Path) -> bool:
    return cn.read(path, "events").to_pydict() == rows(1).to_pydict()


# -- after a crash --


@pytest.mark.parametrize("opening", OPENINGS)
@pytest.mark.parametrize("move", [Path.rename, shutil.copy])
def test_a_file_without_its_journal_is_refused(
    path: Path, tmp_path: Path, move: Callable[[Path, Path], Any], opening: Callable[[Path], object]
) -> None:
    leave_journal(path)
    moved = tmp_path / "elsewhere" / "moved.h5"
    moved.parent.mkdir()
    move(path, moved)
    content = moved.read_bytes()
    with pytest.raises(ConflictError, match=r"half a commit.*'run.h5-journal'.*as 'moved.h5-journal'") as caught:
        opening(moved)
    assert caught.value.journal == "run.h5-journal"
    assert moved.read_bytes() == content
    shutil.copy(journal_path(path), journal_path(moved))
    assert whole(moved)


def by_stream(path: Path) -> None:
    with path.open("rb") as stream:
        cn.open(stream)


def by_h5py(path: Path) -> None:
    with h5py.File(path) as h5:
        cn.open(h5)


OTHERS: list[Callable[[Path], object]] = [
    by_stream,
    by_h5py,
    lambda path: cn.open(io.BytesIO(path.read_bytes())),
    lambda path: cn.open(f"file://{path}"),
    lambda path: cn.open_sparse(path.read_bytes(), "sparse"),
    lambda path: cn.open_sparse(io.BytesIO(path.read_bytes()), "sparse"),
]


@pytest.mark.parametrize("opening", OTHERS)
def test_bytes_that_hold_half_a_commit_are_refused(path: Path, opening: Callable[[Path], object]) -> None:
    """Also where there is no folder in which a journal could be."""
    dying = JournaledFile(path, Disk())
    dying.seek(path.stat().st_size - 1)
    dying.write(memoryview(b"!"))
    dying._write_pages(last=True)
    forget(dying)
    with pytest.raises(ConflictError, match="half a commit"):
        opening(path)


def test_a_folder_that_was_copied_whole_recovers(path: Path, tmp_path: Path) -> None:
    before = leave_journal(path)
    copied = tmp_path / "copied"
    shutil.copytree(path.parent, copied, ignore=lambda *_: ["copied"])
    assert whole(copied / path.name)
    assert (copied / path.name).read_bytes() == before
    assert not journal_path(copied / path.name).exists()


def put_there(backup: Path, path: Path) -> None:
    path.rename(path.with_name("half.h5"))
    shutil.copy(backup, path)


def write_over(backup: Path, path: Path) -> None:
    """As `cp` does: the file keeps its inode."""
    shutil.copy(path, path.with_name("half.h5"))
    shutil.copyfile(backup, path)


@pytest.mark.parametrize("replace", [put_there, write_over])
@pytest.mark.parametrize("mode", ["r", "r+", "a", "w"])
def test_a_backup_that_was_copied_into_place_is_left_alone(
    path: Path, tmp_path: Path, mode: Any, replace: Callable[[Path, Path], None]
) -> None:
    """The half file is elsewhere, and another state of it was put there: the journal is kept for the half file."""
    backup = tmp_path / "backup.h5"
    shutil.copy(path, backup)
    with h5py.File(path, "r+") as h5:
        h5["image"][...] = 7.0
        h5.attrs["state"] = "later"  # in a page of the journal
    before = leave_journal(path)
    replace(backup, path)
    cn.open(path, mode).close() if mode != "w" else cn.write(path, {"x": [1]}, "new")
    if mode == "r":
        assert path.read_bytes() == backup.read_bytes()
    assert whole(path)
    (kept,) = tmp_path.glob("run.h5-journal-*")
    kept.rename(tmp_path / "half.h5-journal")
    assert whole(tmp_path / "half.h5")
    assert (tmp_path / "half.h5").read_bytes() == before


def test_the_journal_of_a_file_that_is_gone_is_kept(path: Path, tmp_path: Path) -> None:
    """The half file was moved away, and a new one is made where it was."""
    before = leave_journal(path)
    half = tmp_path / "half.h5"
    path.rename(half)
    cn.write(path, {"x": [1]}, "new")
    (kept,) = tmp_path.glob("run.h5-journal-*")
    kept.rename(journal_path(half))
    assert whole(half)
    assert half.read_bytes() == before


def hold_refused(path: Path, wrong: bytes) -> None:
    """With a wrong journal the file is refused and left as it is; with its own it is whole again."""
    half, right = path.read_bytes(), journal_path(path).read_bytes()
    journal_path(path).write_bytes(wrong)
    for mode in ("r", "r+"):
        with pytest.raises(ConflictError, match="missing or incomplete"):
            cn.open(path, mode)
    assert path.read_bytes() == half
    journal_path(path).write_bytes(right)
    assert whole(path)


def test_the_journal_of_another_commit_is_not_used(path: Path, tmp_path: Path) -> None:
    """The mark in the file names another journal: this one would put pages of another state into the file."""
    other = tmp_path / "other.h5"
    shutil.copy(path, other)
    leave_journal(other)
    leave_journal(path)
    hold_refused(path, journal_path(other).read_bytes())


@pytest.mark.parametrize("n_bytes", [0, 10, 40, 60, 5000])
def test_a_journal_that_was_cut_short_is_not_used(path: Path, n_bytes: int) -> None:
    leave_journal(path)
    hold_refused(path, journal_path(path).read_bytes()[:n_bytes])


def test_half_a_file_whose_mark_was_cut_off(path: Path) -> None:
    """HDF5 cuts a file to what its superblock says when it closes it: pages tell that it holds half a commit."""
    before = path.read_bytes()
    dying = JournaledFile(path, Disk())
    for page in (1, 2):
        dying.seek(page * PAGE)
        dying.write(memoryview(b"\xee" * PAGE))
    dying._write_pages(last=True)
    forget(dying)
    content = path.read_bytes()
    path.write_bytes(content[: 2 * PAGE] + before[2 * PAGE :])
    assert whole(path)
    assert path.read_bytes() == before


def test_a_file_with_half_a_commit_can_be_replaced(path: Path) -> None:
    leave_journal(path)
    journal_path(path).unlink()
    with cn.open(path, "w") as file:
        file.create("events", rows(1))
    assert whole(path)


def test_a_journal_of_an_earlier_version_is_refused(path: Path) -> None:
    leave_journal(path)
    content = journal_path(path).read_bytes()
    journal_path(path).write_bytes(MAGIC[:-1] + b"1" + content[8:])
    with pytest.raises(ConflictError, match="earlier version"):
        cn.open(path)


BOUNDS: list[tuple[str, int]] = [("EARLIEST", 0), ("K", 1), ("V18", 2), ("V110", 3)]


@pytest.mark.parametrize("user_block", [0, 512, 2048])
@pytest.mark.parametrize(("bound", "version"), BOUNDS)
def test_stock_hdf5_does_not_see_the_mark(tmp_path: Path, bound: str, version: int, user_block: int) -> None:
    """In files of every superblock version, with and without a user block."""
    path = tmp_path / "x.h5"
    creation = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    creation.set_userblock(user_block)
    if bound == "K":  # only a superblock of version 1 tells it
        capi._bind("H5Pset_istore_k", capi._HID, ctypes.c_uint)(creation.id, 64)
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_libver_bounds(getattr(h5py.h5f, f"LIBVER_{bound}", h5py.h5f.LIBVER_EARLIEST), h5py.h5f.LIBVER_LATEST)
    with h5py.File(h5py.h5f.create(os.fsencode(path), h5py.h5f.ACC_TRUNC, creation, access)) as h5:
        h5["image"] = np.arange(3000)
    assert path.read_bytes()[user_block + 8] == version
    dying = JournaledFile(path, Disk())
    dying.seek(user_block + 2000)
    dying.write(memoryview(dying.read_at(user_block + 2000, 1)))
    dying._write_pages(last=True)
    forget(dying)
    assert find_mark(path, Disk()) is not None
    with h5py.File(path) as h5:
        assert h5["image"][2999] == 2999
    journal = journal_path(path).read_bytes()
    journal_path(path).unlink()
    with pytest.raises(ConflictError, match="half a commit"):
        cn.open(path)
    journal_path(path).write_bytes(journal)
    with cn.open(path) as file:
        assert file.h5["image"][2999] == 2999


@pytest.mark.parametrize("user_block", [0, 512])
def test_a_value_that_looks_like_a_mark_is_a_value(tmp_path: Path, user_block: int) -> None:
    path = tmp_path / "x.h5"
    with h5py.File(path, "w", userblock_size=user_block) as h5:
        h5["other"] = np.arange(10)
        h5["last"] = np.zeros(5000, "u1")
        offset = h5["last"].id.get_offset()
    size = path.stat().st_size
    assert offset + 5000 <= size
    with path.open("r+b") as file:
        file.seek(size - MARK_BYTES)
        file.write(pack_mark(Mark(bytes(16), 1, "x"), size - MARK_BYTES))
    with cn.open(path) as opened:
        assert opened.h5["other"][9] == 9


def test_a_mark_that_did_not_arrive_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_limits: SetLimits
) -> None:
    """Pages are written early and the file grows over the mark: the power fails when only its new length is there."""
    set_limits(held_page_bytes=0)
    stride = limits.now.mark_stride
    path = tmp_path / "x.h5"
    path.write_bytes(bytes(10_000))
    dying = JournaledFile(path, Disk())
    dying.write(memoryview(b"new"))  # written early
    length = path.stat().st_size
    assert length % stride == 0
    assert find_mark(path, Disk()) is not None
    with monkeypatch.context() as patch, pytest.raises(OSError, match="power"):
        patch.setattr(dying, "_put_mark", no_power)
        dying.seek(length + 3 * stride)
        dying.write(memoryview(b"far"))
    forget(dying)
    assert path.stat().st_size == length + 4 * stride
    assert find_mark(path, Disk()) is not None
    roll_back(path, Disk())
    assert path.read_bytes() == bytes(10_000)


def no_power(_place: int) -> None:
    raise OSError("the power fails")


# -- under an open writer --


def replaced(path: Path) -> None:
    other = path.with_name("other.h5")
    shutil.copy(path, other)
    other.replace(path)


def moved(path: Path) -> None:
    path.rename(path.with_name("away.h5"))


AWAY = [replaced, moved, Path.unlink]


@pytest.mark.parametrize("away", AWAY)
def test_nothing_is_acknowledged_that_nobody_finds(path: Path, away: Callable[[Path], None]) -> None:
    file = cn.open(path, "r+")
    file["events"].append(rows(2))
    away(path)
    content = path.read_bytes() if path.exists() else None
    with pytest.raises(ConflictError, match="replaced, moved or removed"):
        file["events"].append(rows(3))
    with pytest.raises(ConflictError, match="replaced, moved or removed"), file.transaction():
        file["events"].append(rows(3))
    with pytest.raises(ConflictError, match="replaced, moved or removed"):
        file.close()
    assert (path.read_bytes() if path.exists() else None) == content
    assert not journal_path(path).exists()
    cn.write(path, {"x": [1]}, "later")  # no lock is left behind


@pytest.mark.parametrize("away", AWAY)
def test_a_writer_that_changes_nothing_says_so_too(path: Path, away: Callable[[Path], None]) -> None:
    file = cn.open(path, "r+")
    away(path)
    with pytest.raises(ConflictError):
        file.close()
    assert repr(file).endswith("(closed)>")


def test_receipts_are_those_of_the_file_that_was_open(path: Path, tmp_path: Path) -> None:
    """Another file of the same content but for its rows takes the place of the one that was open."""
    with cn.open(path, "r+") as file:
        file.create("t", {"x": np.arange(1000)}, index={"x": "chunk_minmax"})
    other = tmp_path / "other.h5"
    shutil.copy(path, other)
    with h5py.File(other, "r+") as h5:
        h5["t/x"][...] = np.arange(1000) + 5000
    file = cn.open(path, "r+")
    file["t"].append({"x": [7]})
    other.replace(path)
    with pytest.raises(ConflictError):
        file.close()
    with cn.open(path) as file:
        assert file["t"].where("x >= 5500").count() == 500
        assert [index.trusted for index in file["t"].indexes] == [False]


@pytest.mark.parametrize("moment", ["commit", "_end_changes"])
def test_receipts_are_not_those_of_what_took_its_place_meanwhile(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Another file takes the place after a commit, or when the file is closed, and before receipts are saved."""
    with cn.open(path, "r+") as file:
        file.create("t", {"x": np.arange(1000)}, index={"x": "chunk_minmax"})
    other = tmp_path / "other.h5"
    shutil.copy(path, other)
    with h5py.File(other, "r+") as h5:
        h5["t/x"][...] = np.arange(1000) + 5000
    real: Callable[[FileHandle], Any] = getattr(FileHandle, moment)

    def replace_after(handle: FileHandle) -> Any:
        done = real(handle)
        if other.exists():
            other.replace(path)
        return done

    file = cn.open(path, "r+")
    monkeypatch.setattr(FileHandle, moment, replace_after)
    with contextlib.suppress(ConflictError):
        file["t"].update("x", [7], [7])
        file.close()
    assert not other.exists()
    with contextlib.suppress(ConflictError):
        file.close()
    with cn.open(path) as file:
        assert file["t"].where("x >= 5500").count() == 500
        assert [index.trusted for index in file["t"].indexes] == [False]


# -- several names --


def test_a_file_with_several_names_is_not_changed(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.h5"
    os.link(path, other)
    for name in (path, other):
        for mode in ("r+", "a"):
            with pytest.raises(ConflictError, match=r"2 names.*hard_links='allow'"):
                cn.open(name, mode)
        assert whole(name)
    with cn.open(path, "r+", hard_links="allow") as file:
        file.create("new", rows(2))
    assert cn.read(other, "new").num_rows == len(rows(2))
    other.unlink()
    cn.open(path, "r+").close()


def test_a_new_file_may_replace_one_of_several_names(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.h5"
    os.link(path, other)
    with cn.open(path, "w") as file:
        file.create("new", rows(2))
    assert whole(other)


def test_symbolic_links_share_lock_and_journal(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "links"
    folder.mkdir()
    link = folder / "link.h5"
    link.symlink_to(path)
    with cn.open(link, "r+") as file:
        with pytest.raises(ConflictError, match=str(os.getpid())):
            cn.open(path, "r+", timeout=0)
        file.create("new", rows(2))
    assert cn.read(path, "new").num_rows == len(rows(2))
    assert list(folder.iterdir()) == [link]
