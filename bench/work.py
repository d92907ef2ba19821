"""The kinds of work that the benchmark measures: how a peer is asked, what is timed, and what the correct answer is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from bench.machine import CopySpeed
from bench.peers import Peer
from bench.timing import Took, timed
from bench.workload import SEARCHES, Workload


@dataclass(frozen=True)
class Moved:
    """The bytes that work must move at least, uncompressed: into new memory for the caller, and past the processor."""

    returned: float = 0.0
    passed: float = 0.0

    def milliseconds(self, speed: CopySpeed) -> float:
        """How long that takes at the memory speed of this machine."""
        return (self.returned / speed.into_new_memory + self.passed / speed.into_cache) * 1000


@dataclass(frozen=True)
class Row:
    """One row of the results table. key: its name on the command line."""

    key: str
    title: str

    def heading(self, workload: Workload) -> str:
        """The title, with the amount of work where that depends on the workload."""
        return self.title

    def moved(self, workload: Workload) -> Moved | None:
        """What the limit of this row is computed from; None for rows without a limit."""
        return None

    def expected(self, workload: Workload) -> list[Any]:
        """The correct answers, computed from the workload: one per variant of the query, in the order they run."""
        raise NotImplementedError

    def once(self, peer: Peer, workload: Workload, turns: range, took: Took) -> Any:
        """The answer to the last of several calls, whose times are added to `took`; None when the peer cannot do it."""
        raise NotImplementedError


@dataclass(frozen=True)
class Question(Row):
    """Reads rows or a number from an existing table; every call is the same."""

    ask: Callable[[Peer, Workload], Any]
    expect: Callable[[Workload], Any]
    moves: Callable[[Workload], Moved] | None = None

    def moved(self, workload: Workload) -> Moved | None:
        return None if self.moves is None else self.moves(workload)

    def expected(self, workload: Workload) -> list[Any]:
        return [self.expect(workload)]

    def once(self, peer: Peer, workload: Workload, turns: range, took: Took) -> Any:
        with timed(took):
            for _ in turns:
                answer = self.ask(peer, workload)
        return answer


@dataclass(frozen=True)
class Search(Row):
    """Searches a few rows of an existing table; each call uses another value, so that no answer can be cached."""

    ask: Callable[[Peer, Workload, int], Any]
    expect: Callable[[Workload], list[Any]]
    moves: Callable[[Workload], Moved] | None = None
    is_cold: bool = False
    """Whether the system forgets the pages of the files before each call."""

    def moved(self, workload: Workload) -> Moved | None:
        return None if self.moves is None else self.moves(workload)

    def expected(self, workload: Workload) -> list[Any]:
        return self.expect(workload)

    def once(self, peer: Peer, workload: Workload, turns: range, took: Took) -> Any:
        for group in [range(turn, turn + 1) for turn in turns] if self.is_cold else [turns]:
            if self.is_cold:
                _forget_pages(peer.made.folder)
            with timed(took):
                for turn in group:
                    answer = self.ask(peer, workload, turn % SEARCHES)
        return answer


@dataclass(frozen=True)
class Writing(Row):
    """Writes a new table without search indexes. Reading it back and removing it are not timed."""

    store: Callable[[Peer, Workload, Path], Any]
    rows: Callable[[Workload], pa.Table]
    words: Callable[[Workload], str]

    def heading(self, workload: Workload) -> str:
        return self.words(workload)

    def expected(self, workload: Workload) -> list[Any]:
        return [self.rows(workload)]

    def once(self, peer: Peer, workload: Workload, turns: range, took: Took) -> Any:
        path = _scratch(peer)
        answer = None
        for _ in turns:
            _remove(path)
            with timed(took):
                done = self.store(peer, workload, path)
        if done is not None:
            answer = peer.read_back(path)
        _remove(path)
        return answer


@dataclass(frozen=True)
class Changing(Row):
    """Changes a table of the written rows, which has no search indexes. Only the change is timed."""

    change: Callable[[Peer, Workload, Path], Any]
    rows: Callable[[Workload], pa.Table]

    def expected(self, workload: Workload) -> list[Any]:
        return [self.rows(workload)]

    def once(self, peer: Peer, workload: Workload, turns: range, took: Took) -> Any:
        path = _scratch(peer)
        answer = done = None
        for _ in turns:
            _remove(path)
            if peer.write(workload.written, path) is None:
                return None
            with timed(took):
                done = self.change(peer, workload, path)
        if done is not None:
            answer = peer.read_back(path)
        _remove(path)
        return answer


@dataclass(frozen=True)
class ManyFiles(Row):
    """Opens many files of equal length, reads a few rows of each, and closes them when all are read."""

    n_files: int
    ask: Callable[[Peer, Workload, list[Path]], Any]
    expect: Callable[[Workload], pa.Table]

    def expected(self, workload: Workload) -> list[Any]:
        return [self.expect(workload)]

    def once(self, peer: Peer, workload: Workload, turns: range, took: Took) -> Any:
        if peer.many_files is None:
            peer.many_files = TemporaryDirectory(dir=peer.made.folder.parent)
            n_rows = workload.written.num_rows // self.n_files
            for number, path in enumerate(self._paths(peer)):
                if peer.write(workload.written.slice(number * n_rows, n_rows), path) is None:
                    break
        paths = self._paths(peer)
        if not all(path.exists() for path in paths):
            return None
        with timed(took):
            for _ in turns:
                answer = self.ask(peer, workload, paths)
        return answer

    def _paths(self, peer: Peer) -> list[Path]:
        assert peer.many_files is not None
        return [Path(peer.many_files.name) / f"{number:03d}" for number in range(self.n_files)]


@dataclass(frozen=True)
class Size(Row):
    """Bytes on disk; nothing is timed."""

    def expected(self, workload: Workload) -> list[Any]:
        return []


def _scratch(peer: Peer) -> Path:
    """The path of what a peer writes."""
    return peer.made.folder.parent / f"{peer.name}-written"


def _forget_pages(folder: Path) -> None:
    """Have the system drop the pages of all files in a folder that nobody has mapped into memory."""
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fdatasync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    for left in path.parent.glob(f"{path.name}*"):  # also locks and logs next to it
        left.unlink()
