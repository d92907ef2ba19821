"""Runs every row on every peer in alternating order: measures times, and checks the answers."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bench.answers import difference
from bench.machine import CopySpeed
from bench.peers import Peer
from bench.peers.base import Sizes
from bench.timing import Runs, Took, run_in_turns
from bench.work import Row, Size
from bench.workload import Workload

OURS = "colonnade"
SLOW = 3.0  # seconds of CPU time; work that takes longer is run only twice
NO_SECOND_WARM_UP = 0.1  # seconds
SHORT = 0.02  # seconds; work that takes less is called several times in one run
MOST_CALLS = 50
Report = Callable[[str], None]


@dataclass
class Cell:
    """One row of one peer. A cell without runs, sizes and a problem means that the peer cannot do it."""

    runs: Runs | None = None
    calls: int = 1
    turn: int = field(default=0, compare=False)
    """Number of calls so far; it selects the value that is searched next."""
    sizes: Sizes | None = None
    problem: str | None = None

    @property
    def cpu(self) -> float | None:
        """Milliseconds of CPU time of one call, best run; megabytes for the row of sizes."""
        if self.problem:
            return None
        if self.sizes:
            return self.sizes.data / 1e6
        return self.runs.best_cpu / self.calls * 1000 if self.runs else None

    @property
    def wall(self) -> float | None:
        """Milliseconds of wall-clock time of one call, best run."""
        return self.runs.best_wall / self.calls * 1000 if self.runs and not self.problem else None


@dataclass(frozen=True)
class Line:
    """One row of all peers."""

    row: Row
    heading: str
    cells: dict[str, Cell]
    limit: float | None = None
    """Milliseconds that moving the bytes takes at memory speed."""

    def best_peer(self, by_wall: bool = False) -> str | None:
        """The name of the best peer other than colonnade."""
        values = {name: cell.wall if by_wall else cell.cpu for name, cell in self.cells.items() if name != OURS}
        known = {name: value for name, value in values.items() if value is not None}
        return min(known, key=lambda name: known[name]) if known else None

    def ratio(self, by_wall: bool = False) -> float | None:
        """The ratio of colonnade to the best peer; below 1 colonnade is better."""
        ours, best = self.cells.get(OURS), self.best_peer(by_wall)
        if ours is None or best is None:
            return None
        theirs = self.cells[best]
        one, other = (ours.wall, theirs.wall) if by_wall else (ours.cpu, theirs.cpu)
        return one / other if one is not None and other else None

    @property
    def times_limit(self) -> float | None:
        """The ratio of colonnade to the limit."""
        ours = self.cells.get(OURS)
        return ours.cpu / self.limit if ours is not None and ours.cpu is not None and self.limit else None


def prepare(peers: Sequence[Peer], folder: Path, workload: Workload, tell: Report) -> dict[str, str]:
    """Make or find the files of all peers; the errors, by peer."""
    problems = {}
    for peer in peers:
        tell(peer.name)
        try:
            peer.prepare(folder, workload, tell)
        except Exception as error:  # noqa: BLE001 - a peer that fails is reported, the others are measured
            problems[peer.name] = f"could not make its files: {_said(error)}"
    return problems


def run_row(row: Row, peers: Sequence[Peer], workload: Workload, repeats: int, speed: CopySpeed | None = None) -> Line:
    """Run one row: a warm-up of each peer, whose answer is checked, then all in alternating order."""
    if isinstance(row, Size):
        return Line(row, row.heading(workload), {peer.name: Cell(sizes=peer.sizes()) for peer in peers})
    expected = row.expected(workload)
    cells = {peer.name: Cell() for peer in peers}
    quick: dict[str, Callable[[], Took]] = {}
    slow: dict[str, Callable[[], Took]] = {}
    for peer in peers:
        cell = cells[peer.name]
        took = _warm_up(row, peer, workload, expected, cell)
        if took is not None:
            # By CPU time: on a busy machine a call may wait many times as long as it works.
            cell.calls = max(1, min(MOST_CALLS, int(SHORT / max(took.cpu, SHORT / MOST_CALLS))))
            (slow if took.cpu > SLOW else quick)[peer.name] = partial(_run, row, peer, workload, expected, cell)
    for actions, times in ((quick, repeats), (slow, min(2, repeats))):
        for name, runs in run_in_turns(actions, times).items():
            cells[name].runs = runs
    moved = row.moved(workload)
    limit = None if moved is None or speed is None else moved.milliseconds(speed)
    return Line(row, row.heading(workload), cells, limit)


def _warm_up(row: Row, peer: Peer, workload: Workload, expected: list[object], cell: Cell) -> Took | None:
    """The time of a call that was not the first; None when there is nothing to measure."""
    for _ in range(2):
        took = Took()
        try:
            answer = _ask(row, peer, workload, cell, took)
        except Exception as error:  # noqa: BLE001 - as above
            cell.problem = _said(error)
            return None
        if answer is None or answer is NotImplemented:
            return None
        _check(answer, expected, cell)
        if cell.problem:
            return None
        if took.cpu > NO_SECOND_WARM_UP:
            break
    return took


def _run(row: Row, peer: Peer, workload: Workload, expected: list[object], cell: Cell) -> Took:
    """One run that counts."""
    settle()
    took = Took()
    gc.disable()
    try:
        answer = _ask(row, peer, workload, cell, took)
    finally:
        gc.enable()
    _check(answer, expected, cell)
    return took


def _ask(row: Row, peer: Peer, workload: Workload, cell: Cell, took: Took) -> object:
    turns = range(cell.turn, cell.turn + cell.calls)
    cell.turn = turns.stop
    return row.once(peer, workload, turns, took)


def _check(answer: object, expected: list[object], cell: Cell) -> None:
    """Compare with the correct answer to the last query."""
    wrong = difference(answer, expected[(cell.turn - 1) % len(expected)])
    if wrong:
        cell.problem = f"wrong answer: {wrong}"


def settle() -> None:
    """Wait until the threads of the previous peer are idle: their CPU time would be charged to the next one."""
    for _ in range(25):
        before = time.process_time()
        time.sleep(0.002)
        if time.process_time() - before < 0.0002:
            return


def _said(error: Exception) -> str:
    first = str(error).strip().splitlines()
    return f"{type(error).__name__}: {first[0] if first else ''}"
