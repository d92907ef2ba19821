"""Measures and compares times: CPU and wall-clock time, best and median of alternating runs.

On a shared machine a single run is not reliable. So the candidates run alternately, in changing order, and
ratios compare the best runs: disturbances only make a run longer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median


@dataclass
class Took:
    """The seconds of one run: CPU time of all threads, and wall-clock time."""

    cpu: float = 0.0
    wall: float = 0.0


@contextmanager
def timed(took: Took) -> Iterator[None]:
    """Add the time spent inside the block to `took`."""
    cpu, wall = time.process_time(), time.perf_counter()
    try:
        yield
    finally:
        took.cpu += time.process_time() - cpu
        took.wall += time.perf_counter() - wall


@dataclass(frozen=True)
class Runs:
    """All runs of one candidate."""

    took: list[Took]

    @property
    def best_cpu(self) -> float:
        return min(run.cpu for run in self.took)

    @property
    def median_cpu(self) -> float:
        return median(run.cpu for run in self.took)

    @property
    def best_wall(self) -> float:
        return min(run.wall for run in self.took)

    @property
    def median_wall(self) -> float:
        return median(run.wall for run in self.took)


def run_in_turns(actions: Mapping[str, Callable[[], Took]], times: int) -> dict[str, Runs]:
    """Run each action the given number of times: one after the other, then in the opposite order, and so on."""
    took: dict[str, list[Took]] = {name: [] for name in actions}
    for turn in range(times):
        for name in list(actions)[:: 1 if turn % 2 == 0 else -1]:
            took[name].append(actions[name]())
    return {name: Runs(runs) for name, runs in took.items()}


def print_table(title: str, runs: Mapping[str, Runs], peers: Mapping[str, str]) -> None:
    """Print the milliseconds of each, and the ratio of its best runs to those of its peer, if it has one."""
    print(f"\n{title}")
    width = max(map(len, runs))
    head = ("cpu best", "median", "wall best", "median", "cpu ratio", "wall ratio")
    print(f"{'ms':{width}}  " + "  ".join(f"{word:>10}" for word in head))
    for name, own in runs.items():
        seconds = (own.best_cpu, own.median_cpu, own.best_wall, own.median_wall)
        cells = [f"{value * 1000:10.2f}" for value in seconds]
        if name in peers:
            peer = runs[peers[name]]
            cells += [f"{own.best_cpu / peer.best_cpu:10.2f}", f"{own.best_wall / peer.best_wall:10.2f}"]
        print(f"{name:{width}}  " + "  ".join(cells))


def print_verdict(what: str, met: bool) -> bool:
    """Print whether a target is met, and return it."""
    print(f"{'met' if met else 'MISSED'}: {what}")
    return met
