"""The results of a comparison: printed as a table, and saved as JSON."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import machine
from bench.peers import Peer
from bench.race import OURS, Cell, Line
from bench.workload import Workload

NOT_A_TERMINAL = 230  # columns


@dataclass(frozen=True)
class Comparison:
    """All measurements of one comparison."""

    workload: Workload
    threads: int
    repeats: int
    peers: Sequence[Peer]
    not_installed: Sequence[str]
    lines: Sequence[Line]
    troubles: dict[str, str]
    """Peers that could not make their files."""

    @property
    def families(self) -> list[str]:
        """The columns of the table, in order."""
        return list(dict.fromkeys(peer.family for peer in self.peers))

    def best_of(self, line: Line, family: str) -> Cell:
        """The best cell of a family; a cell with a problem if there is no other."""
        cells = [line.cells[peer.name] for peer in self.peers if peer.family == family and peer.name in line.cells]
        known = [(cell.cpu, number) for number, cell in enumerate(cells) if cell.cpu is not None]
        if known:
            return cells[min(known)[1]]
        return next((cell for cell in cells if cell.problem), Cell())

    @property
    def problems(self) -> list[str]:
        """Wrong answers and failures; a comparison with any of them must not be trusted."""
        found = [f"{name}: {shown}" for name, shown in self.troubles.items()]
        for line in self.lines:
            found += [f"{line.heading}, {name}: {cell.problem}" for name, cell in line.cells.items() if cell.problem]
        return found


def number(value: float | None) -> str:
    """Format a value with three significant digits."""
    if value is None:
        return ""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def print_report(found: Comparison, console: Console | None = None) -> None:
    """Print the table, then the layout of each peer, the missing peers, and the problems."""
    console = console or Console()
    if not console.is_terminal:
        console.width = NOT_A_TERMINAL
    console.print(_table(found))
    _print_standing(found, console)
    for peer in found.peers:
        versions = ", ".join(f"{name} {version}" for name, version in peer.versions().items())
        console.print(f"[dim]{peer.name}: {peer.layout} ({versions})[/dim]", highlight=False)
    if found.not_installed:
        console.print(f"not installed: {', '.join(found.not_installed)}")
    for problem in found.problems:
        console.print(f"[bold red]PROBLEM[/bold red] {problem}", highlight=False, markup=True)


def _table(found: Comparison) -> Table:
    table = Table(
        title=f"{found.workload.rows:,} rows, {found.threads} threads, best of {found.repeats}: milliseconds of "
        "CPU time (user + system, all threads); ratio: colonnade to the best peer, below 1 colonnade is better",
        title_justify="left",
    )
    table.add_column("work", no_wrap=True)
    for family in found.families:
        table.add_column(family, justify="right")
    for heading in ("ratio", "wall-clock ratio", "best peer", "limit", "times limit"):
        table.add_column(heading, justify="right")
    for line in found.lines:
        table.add_row(*_cells(found, line))
    return table


def _cells(found: Comparison, line: Line) -> list[str]:
    best = line.best_peer()
    cells = [line.heading]
    for family in found.families:
        cell = found.best_of(line, family)
        shown = _cell_text(cell)
        is_best = best is not None and cell is line.cells[best]
        cells.append(f"[bold]{shown}[/bold]" if is_best else shown)
    return [
        *cells,
        _ratio_text(line.ratio()),
        _ratio_text(line.ratio(by_wall=True)),
        best or "",
        number(line.limit),
        number(line.times_limit),
    ]


def _cell_text(cell: Cell) -> str:
    if cell.problem:
        return "[bold red]WRONG[/bold red]" if cell.problem.startswith("wrong") else "[red]failed[/red]"
    if cell.sizes and cell.sizes.indexes:
        return f"{number(cell.cpu)} (+{number(cell.sizes.indexes / 1e6)})"
    return number(cell.cpu)


def _ratio_text(ratio: float | None) -> str:
    if ratio is None:
        return ""
    return f"[{'green' if ratio < 1 else 'red'}]{ratio:.2f}[/]"


def _print_standing(found: Comparison, console: Console) -> None:
    ratios = [ratio for line in found.lines if (ratio := line.ratio()) is not None]
    ahead = sum(ratio < 1 for ratio in ratios)
    console.print(f"colonnade is ahead of every peer in {ahead} of {len(ratios)} rows")


def as_json(found: Comparison) -> dict[str, Any]:
    """Every figure, and the settings it was measured with."""
    return {
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": machine.facts(),
        "workload": asdict(found.workload),
        "threads": found.threads,
        "repeats": found.repeats,
        "peers": {peer.name: _peer_facts(peer) for peer in found.peers},
        "not_installed": list(found.not_installed),
        "rows": [_line_facts(line) for line in found.lines],
        "problems": found.problems,
    }


def _peer_facts(peer: Peer) -> dict[str, Any]:
    made = getattr(peer, "made", None)
    return {
        "family": peer.family,
        "layout": peer.layout,
        "versions": peer.versions(),
        "files_made_in_s": made.seconds if made else None,
    }


def _line_facts(line: Line) -> dict[str, Any]:
    return {
        "key": line.row.key,
        "work": line.heading,
        "best_peer": line.best_peer(),
        "ratio_cpu": line.ratio(),
        "ratio_wall": line.ratio(by_wall=True),
        "limit_ms": line.limit,
        "times_limit": line.times_limit,
        "ours": OURS,
        "cells": {name: _cell_facts(cell) for name, cell in line.cells.items() if cell != Cell()},
    }


def _cell_facts(cell: Cell) -> dict[str, Any]:
    if cell.problem:
        return {"problem": cell.problem}
    if cell.sizes:
        return {"data_mb": cell.sizes.data / 1e6, "indexes_mb": cell.sizes.indexes / 1e6}
    took = cell.runs.took if cell.runs else []
    return {
        "cpu_ms": cell.cpu,
        "wall_ms": cell.wall,
        "calls_a_run": cell.calls,
        "cpu_ms_of_runs": [run.cpu / cell.calls * 1000 for run in took],
        "wall_ms_of_runs": [run.wall / cell.calls * 1000 for run in took],
    }
