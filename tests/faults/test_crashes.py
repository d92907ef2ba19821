"""A change stopped at any call, by a kill or a power cut, leaves the old file or the new one, whole.

Each change runs once on a disk that logs its calls. For every call, everything that a crash before it (or in the
middle of it) may leave is laid out, opened with the real disk, and compared in full with the old and the new state.
"""

from __future__ import annotations

import errno
import json
import re
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TypeVar

import pyarrow as pa
import pytest

import colonnade as cn
from colonnade import limits
from colonnade.errors import ColonnadeError, ConflictError
from colonnade.pager import disk as pager_disk
from colonnade.pager import journal
from colonnade.pager.disk import Disk
from colonnade.pager.half_commits import find_mark
from colonnade.pager.held_pages import PAGE
from colonnade.pager.locks import lock_path
from colonnade.pager.marks import journal_path
from colonnade.pager.options import Durability
from colonnade.pager.recovery import roll_back
from tests.conftest import SetLimits
from tests.faults.changes import (
    ACTS,
    CHANGES,
    FRAME_CHANGES,
    N_RECORDS,
    N_ROWS,
    RECORD_CHANGES,
    RECORD_INDEXES,
    RECORD_TABLES,
    Act,
    Change,
    frame_rows,
    make_file,
    make_frame_file,
    make_records_file,
    rows,
)
from tests.faults.disk import Crash, FaultyDisk, Remains
from tests.faults.states import State, tables_state, whole_state

SPILL = 2 * PAGE
DEAD_PROCESS = 2**22 + 1  # above the greatest process number of Linux


def used_bytes(path: Path) -> bytes:
    """The bytes of a file up to the end that its superblock (version 0) tells: HDF5 looks at none behind it."""
    content = path.read_bytes()
    return content[: int.from_bytes(content[40:48], "little")] if content[8] == 0 else content


@dataclass
class World:
    """A folder with the file of every test in it, as it was before the change; and room for what a crash leaves."""

    folder: Path
    vault: Path
    patch: pytest.MonkeyPatch
    base: dict[str, bytes] = field(default_factory=dict)
    known: dict[bytes, State] = field(default_factory=dict)
    followed: set[tuple[tuple[str, bytes, bool], ...]] = field(default_factory=set)

    @property
    def path(self) -> Path:
        return self.folder / "run.h5"

    def reset(self) -> None:
        """The folder as it was before the change."""
        for path in self.folder.iterdir():
            path.unlink()
        for name, content in self.base.items():
            (self.folder / name).write_bytes(content)

    def run(self, act: Act, stop_at: int | None = None, fault: Callable[[], BaseException] = Crash) -> FaultyDisk:
        """Do something to the folder as it is, with a disk that logs and may stop."""
        disk = FaultyDisk(self.folder, self.vault, stop_at, fault)
        with self.patch.context() as patch:
            patch.setattr(pager_disk, "DISK", disk)
            act(self.path)
        disk.returned = disk.returned or len(disk.calls)
        return disk

    def state(self) -> State:
        """Every file that has a name of its own, in full; bytes that were looked at before are not read again."""
        return {path.name: self._state(path) for path in sorted(self.folder.glob("*.h5"))}

    def _state(self, path: Path) -> State | str:
        if not path.stat().st_size:
            return "empty"
        cn.open(path).close()  # puts right what a crash left
        content = used_bytes(path)
        if content not in self.known:
            self.known[content] = whole_state(path)
        return self.known[content]

    def bytes(self) -> dict[str, bytes]:
        """Every file, byte for byte."""
        return {path.name: path.read_bytes() for path in sorted(self.folder.iterdir())}


AnyWorld = TypeVar("AnyWorld", bound=World)


@pytest.fixture(scope="session")
def base_file(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("base") / "run.h5"
    make_file(path)
    return path.read_bytes()


def fresh_world(
    kind: type[AnyWorld], below: Path, patch: pytest.MonkeyPatch, set_limits: SetLimits, content: dict[str, bytes]
) -> AnyWorld:
    folder, vault = below / "data", below / "vault"
    folder.mkdir()
    vault.mkdir()
    set_limits(mark_stride=PAGE)  # a mark moves on often, and files stay small
    made = kind(folder, vault, patch, content)
    made.reset()
    return made


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_limits: SetLimits, base_file: bytes) -> World:
    return fresh_world(World, tmp_path, monkeypatch, set_limits, {"run.h5": base_file, "void.h5": b""})


def opened(change: Change, durability: Durability = "full") -> Act:
    """A change as something done to a path."""

    def act(path: Path) -> None:
        with cn.open(path, "r+", durability=durability) as file:
            change(file)
            if isinstance(pager_disk.DISK, FaultyDisk):
                pager_disk.DISK.note_return()

    return act


@dataclass
class Trial:
    """One thing done to the folder: its log, the states before and after, and the moment between them."""

    world: World
    act: Act
    old: State
    new: State
    disk: FaultyDisk
    seen: set[tuple[int, bool, bool]] = field(default_factory=set)
    n_marked: int = 0

    @classmethod
    def of(cls, world: World, act: Act) -> Trial:
        old = world.state()
        disk = world.run(act)
        new = world.state()
        assert new != old
        return cls(world, act, old, new, disk)

    @property
    def n_calls(self) -> int:
        return len(self.disk.calls)

    @property
    def moment(self) -> int:
        """The call that commits: the mark cut off, after which the journal is removed; or a new file named."""
        kinds = [call.kind for call in self.disk.calls]
        end = next(i for i, kind in enumerate(kinds) if kind in ("unlink", "rename"))
        return end if kinds[end] == "rename" else max(i for i, kind in enumerate(kinds[:end]) if kind == "truncate")

    def check(self, remains: Remains, may_be_old: bool, may_be_new: bool, note: str) -> None:
        """Lay out what a crash left, open it, and look at everything."""
        key = (remains.key(), may_be_old, may_be_new)
        if key in self.seen:
            return
        self.seen.add(key)
        self.check_without_journal(remains, may_be_old, may_be_new, note)
        self.disk.lay_out(remains)
        leave_stale_lock(self.world.path)
        found = self.world.state()
        is_old, is_new = found == self.old, found == self.new
        assert is_old or is_new, f"{note}: neither the old nor the new state"
        assert not (is_old and not may_be_old), f"{note}: what was committed is gone"
        assert not (is_new and not may_be_new), f"{note}: there before it was committed"
        assert not list(self.world.folder.glob("*-journal")), f"{note}: the journal stayed"
        check_following_write(self.world, found)

    def check_without_journal(self, remains: Remains, may_be_old: bool, may_be_new: bool, note: str) -> None:
        """The file is moved away without its journal: it is whole, or every opener says that it holds half a commit."""
        if "run.h5-journal" not in remains.names:
            return
        self.disk.lay_out(remains)
        journal_path(self.world.path).unlink()
        content = self.world.path.read_bytes()
        if find_mark(self.world.path, Disk()) is None:
            found = self.world.state()
            assert found in [self.old] * may_be_old + [self.new] * may_be_new, f"{note}: half a commit without a mark"
            return
        self.n_marked += 1
        for opening in OPENINGS[self.n_marked % len(OPENINGS) :][:1]:
            with pytest.raises(ConflictError, match=r"half a commit.*'run.h5-journal'"):
                opening(self.world.path)
        assert self.world.path.read_bytes() == content


OPENINGS: list[Callable[[Path], object]] = [
    cn.open,
    lambda path: cn.open(path, "r+"),
    lambda path: cn.open(path, "a"),
    lambda path: cn.read(path, "events"),
    lambda path: cn.open_sparse(path, "sparse"),
    lambda path: cn.write(path, {"x": [1]}, "more"),
    lambda path: cn.open_table(path, "events"),
]


def leave_stale_lock(path: Path) -> None:
    """The lock of a process that died."""
    told = {"pid": DEAD_PROCESS, "host": socket.gethostname(), "since": "", "commits": 3, "stamp": [1, 2, 3, 4]}
    lock_path(path).write_text(json.dumps(told).ljust(512))


def described(path: Path) -> tuple[str, bytes, bool]:
    """A file as far as later writes depend on it: its name, its bytes, and whether more of them follow its end."""
    if path.suffix != ".h5" or not path.stat().st_size:
        return path.name, b"", bool(path.stat().st_size)
    content = used_bytes(path)
    return path.name, content, path.stat().st_size > len(content)


def check_following_write(world: World, found: State) -> None:
    """What a crash left does not prevent a later write, and nothing but unfinished new files remains.

    After recovery most crashes leave the same files, up to bytes after their end: these are written to once.
    """
    files = tuple(described(path) for path in sorted(world.folder.iterdir()))
    if files in world.followed:
        return
    world.followed.add(files)
    with cn.open(world.path, "r+", timeout=0.5, durability="fast") as file:
        file.create("afterwards", rows(99))
    tables = tables_state(world.path)
    assert tables.pop("/afterwards")["values"] == rows(99).to_pydict()
    assert tables == found["run.h5"]["tables"]
    left = {path.name for path in world.folder.iterdir()} - found.keys()
    assert all(name.endswith(".part") for name in left), left


def check_kills(trial: Trial) -> None:
    """The process is killed before every call, and in the middle of every write."""
    for k in range(trial.n_calls + 1):
        committed = k > trial.moment
        trial.check(trial.disk.after_kill(k), not committed, committed, f"killed before call {k}")
        if k < trial.n_calls and trial.disk.calls[k].kind == "write":
            trial.check(trial.disk.after_kill(k, tear=True), not committed, committed, f"killed in call {k}")


def check_power_cuts(trial: Trial, n_random: int = 3) -> None:
    """The power fails before every call, and in the middle of every write."""
    random = Random(7)
    for k in range(trial.n_calls + 1):
        for word, remains in trial.disk.after_power_cut(k, random, n_random):
            trial.check(remains, k < trial.disk.returned, k > trial.moment, f"power cut before call {k} ({word})")


ALL_ACTS: dict[str, Act] = {**{name: opened(change) for name, change in CHANGES.items()}, **ACTS}


@pytest.mark.parametrize("name", ALL_ACTS)
def test_killed_at_every_call(world: World, name: str) -> None:
    check_kills(Trial.of(world, ALL_ACTS[name]))


@pytest.mark.parametrize("name", ALL_ACTS)
def test_power_cut_at_every_call(world: World, name: str) -> None:
    check_power_cuts(Trial.of(world, ALL_ACTS[name]))


# -- appends to datasets of compound types --


@pytest.fixture
def records_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_limits: SetLimits) -> World:
    path = tmp_path / "base.h5"
    make_records_file(path)
    return fresh_world(World, tmp_path, monkeypatch, set_limits, {"run.h5": path.read_bytes()})


def record_trial(world: World, name: str) -> Trial:
    """An append to record tables. In its old and its new state, counts, rows, and indexes of both kinds agree."""
    trial = Trial.of(world, opened(RECORD_CHANGES[name]))
    for state in (trial.old, trial.new):
        tables, objects = state["run.h5"]["tables"], state["run.h5"]["objects"]
        assert tables.keys() == {f"/{table}" for table in RECORD_TABLES}
        theirs, index = objects["deep/theirs"]["attributes"], objects["deep/_i_theirs/id"]["attributes"]
        n_rows = theirs["NROWS"]
        assert n_rows == len(tables["/deep/theirs"]["values"]["id"]) and index["DIRTY"] == (n_rows > N_RECORDS)
    with cn.open(world.path) as file:
        for table in RECORD_TABLES:
            fresh = [(index.column, index.kind) for index in file[table].indexes if index.fresh]
            assert sorted(fresh) == sorted(RECORD_INDEXES.items())
    assert [finding for finding in cn.check(world.path, deep=True) if finding.severity == "error"] == []
    return trial


@pytest.mark.parametrize("name", RECORD_CHANGES)
def test_appends_of_records_killed_at_every_call(records_world: World, name: str) -> None:
    check_kills(record_trial(records_world, name))


@pytest.mark.parametrize("name", RECORD_CHANGES)
def test_power_cut_in_appends_of_records(records_world: World, name: str) -> None:
    check_power_cuts(record_trial(records_world, name))


# -- removing and putting in rows of data frames of other software --


@pytest.fixture(params=["anndata", "artifactdb"])
def frame_world(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_limits: SetLimits
) -> World:
    path = tmp_path / "base.h5"
    make_frame_file(path, request.param)
    return fresh_world(World, tmp_path, monkeypatch, set_limits, {"run.h5": path.read_bytes()})


def frame_trial(world: World, name: str) -> Trial:
    """A change of rows. In its old and its new state every dataset of the table has as many rows as the table."""
    trial = Trial.of(world, opened(FRAME_CHANGES[name]))
    assert expected_rows(name, trial.old) == trial.new["run.h5"]["tables"]["/obs"]["values"]
    with cn.open(world.path) as file:
        assert file["obs"].layout in ("anndata", "artifactdb")
        fresh = [(index.column, index.kind) for index in file["obs"].indexes if index.fresh]
        assert sorted(fresh) == [("id", "sorted_rows"), ("x", "chunk_minmax"), ("x", "sorted_rows")]
    assert [finding for finding in cn.check(world.path, deep=True) if finding.severity == "error"] == []
    return trial


def expected_rows(name: str, old: State) -> dict[str, list[object]]:
    """What the change makes of the old rows, computed in Python."""
    columns = old["run.h5"]["tables"]["/obs"]["values"]
    before = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if name == "delete":
        kept = [row for number, row in enumerate(before) if number not in (0, 3, 4, 17, 29)]
        rows_after = [row for row in kept if not (row["x"] > 5 and row["kind"] not in ("pion", None))]
    else:
        more = frame_rows(16).to_pylist()
        for number, row in enumerate(more):
            row["name"] = None if number % 4 else f"a name that is longer {number}"
        by_id = {row["id"]: {**row, "kind": row["kind"]} for row in before} | {row["id"]: row for row in more}
        rows_after = list(by_id.values())
    return {column: [row[column] for row in rows_after] for column in columns}


@pytest.mark.parametrize("name", FRAME_CHANGES)
def test_changes_of_frames_killed_at_every_call(frame_world: World, name: str) -> None:
    check_kills(frame_trial(frame_world, name))


@pytest.mark.parametrize("name", FRAME_CHANGES)
def test_power_cut_in_changes_of_frames(frame_world: World, name: str) -> None:
    check_power_cuts(frame_trial(frame_world, name), n_random=1)


def append_in_between(file: cn.File) -> None:
    """Keys below all others: every row of the sorted indexes moves."""
    file["events"].append(rows(-N_ROWS))


@pytest.mark.parametrize("check", [check_kills, check_power_cuts])
def test_crash_after_pages_were_journaled_ahead(
    world: World, check: Callable[[Trial], None], set_limits: SetLimits
) -> None:
    """A thread journals the sorted index while its new rows are computed: the same crashes, and the same outcomes."""
    ahead: list[int] = []
    save = journal.JournaledFile._save
    set_limits(saved_ahead_bytes=0)
    world.patch.setattr(journal, "default_threads", lambda: 2)
    world.patch.setattr(journal.JournaledFile, "_save", lambda file, runs: (ahead.append(len(runs)), save(file, runs)))
    trial = Trial.of(world, opened(append_in_between))
    assert ahead
    check(trial)


@pytest.mark.parametrize("name", CHANGES)
def test_fast_killed_at_every_call(world: World, name: str) -> None:
    trial = Trial.of(world, opened(CHANGES[name], "fast"))
    assert not any(call.kind.startswith("sync") for call in trial.disk.calls)
    check_kills(trial)


@pytest.mark.parametrize("name", ["replace", "overwrite"])
@pytest.mark.parametrize("durability", ["full", "fast"])
def test_pages_written_early(world: World, name: str, durability: Durability, set_limits: SetLimits) -> None:
    """More pages changed than may be held: they go to the file before the commit, their old content before them."""
    set_limits(held_page_bytes=SPILL if name == "overwrite" else 0)
    trial = Trial.of(world, opened(CHANGES[name], durability))
    first = next(i for i, call in enumerate(trial.disk.calls) if call.kind == "create")
    node = trial.disk.calls[first].node
    kinds = "".join("j" if call.node == node else "f" for call in trial.disk.calls[first:] if call.kind == "write")
    assert re.search("jf+j", kinds), "nothing was written early"
    check_kills(trial)
    if durability == "full":
        check_power_cuts(trial, n_random=1)


def test_several_pages_are_journaled(world: World) -> None:
    """The tests above are about something: a commit overwrites several pages of the old file."""
    disk = Trial.of(world, opened(CHANGES["overwrite"])).disk
    node = next(call.node for call in disk.calls if call.kind == "create")
    assert sum(len(call.data) for call in disk.calls if call.kind == "write" and call.node == node) > 5 * PAGE


def test_a_commit_syncs_five_times(world: World) -> None:
    """The journal, its folder, and the file: before its pages, after them, and when the mark is cut off."""
    calls = Trial.of(world, opened(CHANGES["append"])).disk.calls
    begin = next(i for i, call in enumerate(calls) if call.kind == "create")
    end = next(i for i, call in enumerate(calls) if call.kind == "unlink")
    synced = [call for call in calls[begin:end] if call.kind.startswith("sync")]
    assert [call.kind for call in synced] == ["sync", "sync_folder", "sync", "sync", "sync"]
    assert len([call for call in calls if call.kind.startswith("sync")]) == len(synced)


def test_the_file_is_cut(world: World) -> None:
    """There is a change that makes the file shorter."""
    length = world.path.stat().st_size
    disk = Trial.of(world, opened(CHANGES["shorten"])).disk
    assert any(call.kind == "truncate" and call.offset < length for call in disk.calls)


# -- really stopped: the same log, and the process goes on after an error of the disk --


@pytest.mark.parametrize("name", ["replace", "new file"])
def test_stopped_by_a_crash(world: World, name: str) -> None:
    """A run that is really stopped did the same calls as one that was not: the logs above are what happens."""
    trial = Trial.of(world, ALL_ACTS[name])
    for k in range(0, trial.n_calls, 5):
        world.reset()
        disk = FaultyDisk(world.folder, world.vault, k)
        with world.patch.context() as patch, pytest.raises(Crash):
            patch.setattr(pager_disk, "DISK", disk)
            trial.act(world.path)
        assert [call.kind for call in disk.calls] == [call.kind for call in trial.disk.calls[:k]]
        disk.lay_out(disk.after_kill(k))
        assert world.state() == (trial.new if k > trial.moment else trial.old)


def full_disk() -> OSError:
    """The error of a write for which there is no room."""
    return OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("name", ALL_ACTS)
def test_disk_error_at_every_call(world: World, name: str) -> None:
    """One call fails, the process lives on: an error is raised, and the file is the old or the new one, not locked."""
    trial = Trial.of(world, ALL_ACTS[name])
    for k in range(trial.n_calls):
        world.reset()
        with pytest.raises((OSError, RuntimeError, ColonnadeError)):
            world.run(trial.act, k, full_disk)
        found = world.state()
        assert found in (trial.old, trial.new), f"error in call {k}"
        assert found == trial.old or k >= trial.moment, f"error in call {k}: there before it was committed"
        assert {path.name for path in world.folder.iterdir()} == found.keys(), f"error in call {k}: something stayed"
        check_following_write(world, found)


# -- rolling back --


def with_journal(trial: Trial) -> Iterator[Remains]:
    """What crashes leave that must be rolled back: the journal half written, half of the pages overwritten, all."""
    kinds = [call.kind for call in trial.disk.calls]
    begin, end = kinds.index("create"), trial.moment
    for k in (begin + 2, (begin + end) // 2, end - 2, end):
        yield trial.disk.after_kill(k)
    yield from (remains for _, remains in trial.disk.after_power_cut(end, Random(3), 2))


@pytest.mark.parametrize("spill", [limits.now.held_page_bytes, SPILL])
def test_crash_while_rolling_back(world: World, spill: int, set_limits: SetLimits) -> None:
    """A roll back that is stopped at any call is done again, and again."""
    set_limits(held_page_bytes=spill)
    trial = Trial.of(world, opened(CHANGES["overwrite"]))
    undone = 0
    for remains in with_journal(trial):
        trial.disk.lay_out(remains)
        if not journal_path(world.path).exists():
            continue
        undone += 1
        rolling = FaultyDisk(world.folder, world.vault.parent)
        assert roll_back(world.path, rolling)
        assert not roll_back(world.path, rolling)
        again = Trial(world, trial.act, trial.old, trial.new, rolling)
        for k in range(len(rolling.calls) + 1):
            again.check(rolling.after_kill(k), True, False, f"killed before call {k} of rolling back")
            if k < len(rolling.calls) and rolling.calls[k].kind == "write":
                again.check(rolling.after_kill(k, tear=True), True, False, f"killed in call {k} of rolling back")
            for word, left in rolling.after_power_cut(k, Random(k), 2):
                again.check(left, True, False, f"power cut before call {k} of rolling back ({word})")
    assert undone >= 5


class Refused(Exception):
    """Raised in the middle of a change."""


def failing_batches() -> Iterator[pa.Table]:
    yield rows(1)
    raise Refused


def failing_progress(_done: int, _in_all: int | None) -> None:
    raise Refused


FAILURES: dict[str, Callable[[cn.File], object]] = {
    "batches": lambda file: file.create("bad", failing_batches()),
    "progress": lambda file: file.create("bad", rows(1), progress=failing_progress),
    "replace": lambda file: file.create("events", rows(1), mode="replace", progress=failing_progress),
}


def overwrite_and_fail(file: cn.File) -> None:
    """Many pages of the old file changed, and the file made longer, before it fails."""
    with file._change():
        file.h5["image"][...] = 3.0
        file.h5["other"] = [1.0] * 3000
        file.h5.flush()
        raise Refused


FAILURES["overwrite"] = overwrite_and_fail


@pytest.mark.parametrize("spill", [limits.now.held_page_bytes, SPILL, 0])
@pytest.mark.parametrize("name", FAILURES)
def test_rolled_back_by_an_exception(world: World, name: str, spill: int, set_limits: SetLimits) -> None:
    """An exception in the middle of a change: the file is as it was, byte for byte; and can be used further."""
    set_limits(held_page_bytes=spill)
    before = world.bytes()
    with pytest.raises(Refused), cn.open(world.path, "r+") as file:
        FAILURES[name](file)
    assert world.bytes() == before
    with cn.open(world.path, "r+") as file:
        with pytest.raises(Refused):
            FAILURES[name](file)
        during = {name: content for name, content in world.bytes().items() if not name.endswith("-lock")}
        assert during == before
        assert file.tables() == ["/deep/runs", "/events"]
        assert file["events"].to_arrow().to_pydict() == rows(1).to_pydict()
        file.create("good", rows(2))
    assert cn.read(world.path, "good").to_pydict() == rows(2).to_pydict()
    assert "events" in cn.open(world.path)


@pytest.mark.parametrize("durability", ["full", "fast"])
def test_new_file_that_fails_is_not_there(world: World, durability: Durability) -> None:
    before = world.bytes()
    with pytest.raises(Refused), cn.open(world.folder / "fresh.h5", "w", durability=durability) as file:
        file.create("bad", failing_batches())
    assert world.bytes() == before
