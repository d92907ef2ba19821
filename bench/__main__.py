"""Compares colonnade with its peers: the same rows, the same queries, alternating runs, every answer checked.

    python -m bench                             20 million rows, five repeats; files take about 6 GB
    python -m bench --rows 1_000_000 --quick    within two minutes

Prints milliseconds of CPU time (user + system, all threads), writes every figure as JSON and a chart as SVG.
Exits 1 when an answer is wrong or a peer fails. bench/README.md describes the method.
"""

from __future__ import annotations

import argparse
import getpass
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench import machine

if TYPE_CHECKING:
    from bench.peers import Peer
    from bench.report import Comparison
    from bench.work import Row
    from bench.workload import Workload

ROWS, REPEATS, QUICK_REPEATS = 20_000_000, 5, 2


def arguments_from(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rows", type=int, default=ROWS, help="rows of the table, such as 1_000_000 (default 20_000_000)"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the random rows (default 1)")
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"{QUICK_REPEATS} repeats instead of {REPEATS}, fewer rows written and appended",
    )
    parser.add_argument("--repeats", type=int, help="number of repeats; the best one counts")
    parser.add_argument("--threads", type=int, default=2, help="number of cores for every peer (default 2)")
    parser.add_argument("--only", metavar="ROW,...", help="only these rows of the table: see --list")
    parser.add_argument("--peers", metavar="NAME,...", help="only colonnade and these peers; 'duckdb' is all of DuckDB")
    parser.add_argument(
        "--folder", type=Path, help="folder of the files, kept for later runs (default: in the temporary folder)"
    )
    parser.add_argument("--json", type=Path, help="path for the figures (default: results.json in the folder)")
    parser.add_argument("--svg", type=Path, help="path for the chart (default: results.svg in the folder)")
    parser.add_argument(
        "--reuse",
        action="store_true",
        help="use colonnade's file even if its sources have changed since it was written",
    )
    parser.add_argument("--list", action="store_true", help="list rows and peers, and exit")
    asked = parser.parse_args(words)
    if asked.rows < 1 or asked.threads < 1 or (asked.repeats is not None and asked.repeats < 1):
        parser.error("--rows, --threads and --repeats must be 1 or more")
    return asked


def chosen_rows(only: str | None) -> list[Row]:
    from bench.rows import ROWS as ALL

    if only is None:
        return list(ALL)
    keys = only.split(",")
    known = [row.key for row in ALL]
    for key in keys:
        if key not in known:
            raise SystemExit(f"python -m bench: there is no row {key!r}; rows are {', '.join(known)}")
    return [row for row in ALL if row.key in keys]


def chosen_peers(names: str | None) -> list[type[Peer]]:
    """colonnade, and the peers whose names begin with one of the given names."""
    from bench.peers import PEERS

    if names is None:
        return list(PEERS)
    asked = tuple(names.split(","))
    for name in asked:
        if not any(kind.name.startswith(name) for kind in PEERS):
            raise SystemExit(
                f"python -m bench: there is no peer {name!r}; peers are {', '.join(k.name for k in PEERS)}"
            )
    return [kind for kind in PEERS if kind.name == "colonnade" or kind.name.startswith(asked)]


def print_list(console: Console) -> None:
    from bench.peers import PEERS
    from bench.rows import ROWS as ALL

    for row in ALL:
        console.print(f"row   {row.key:22} {row.title}", highlight=False)
    for kind in PEERS:
        state = "" if kind.available() else " (not installed)"
        console.print(f"peer  {kind.name:22} {kind.family}: {kind.layout}{state}", highlight=False)


def compare(
    workload: Workload,
    kinds: Sequence[type[Peer]],
    rows: Sequence[Row],
    folder: Path,
    repeats: int,
    threads: int = 2,
    console: Console | None = None,
) -> Comparison:
    """Make missing files, then run every row on every peer that is installed."""
    from bench import race
    from bench.report import Comparison

    console = console or Console(stderr=True, quiet=True)
    peers = [kind(threads) for kind in kinds if kind.available()]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("files", total=len(peers) + len(rows))

        def tell(message: str) -> None:
            progress.update(task, description=message)
            if not console.is_terminal:
                console.print(message)

        troubles = race.prepare(peers, folder, workload, tell)
        ready = [peer for peer in peers if peer.name not in troubles]
        progress.advance(task, len(peers))
        lines = []
        speed = machine.copy_speed()
        try:
            for row in rows:
                tell(row.heading(workload))
                lines.append(race.run_row(row, ready, workload, repeats, speed))
                progress.advance(task)
        finally:
            for peer in ready:
                peer.close()
                if peer.many_files is not None:
                    peer.many_files.cleanup()
    missing = [kind.name for kind in kinds if not kind.available()]
    return Comparison(workload, threads, repeats, peers, missing, lines, troubles)


def default_folder() -> Path:
    return Path(tempfile.gettempdir()) / f"colonnade-bench-{getpass.getuser()}"


def main(words: Sequence[str]) -> int:
    asked = arguments_from(words)
    if asked.list:
        print_list(Console())
        return 0
    machine.hold_to(asked.threads)
    from bench import chart, report
    from bench.peers import colonnade
    from bench.workload import FEW_APPENDS, FEW_WRITTEN, Workload

    if asked.reuse:
        colonnade.reuse_files()
    repeats = asked.repeats or (QUICK_REPEATS if asked.quick else REPEATS)
    workload = Workload(asked.rows, asked.seed, *((FEW_WRITTEN, FEW_APPENDS) if asked.quick else ()))
    folder = (asked.folder or default_folder()) / f"rows-{asked.rows}-seed-{asked.seed}"
    folder.mkdir(parents=True, exist_ok=True)
    kinds, rows = chosen_peers(asked.peers), chosen_rows(asked.only)
    found = compare(workload, kinds, rows, folder, repeats, asked.threads, Console(stderr=True))
    console = Console()
    report.print_report(found, console)
    figures, picture = asked.json or folder / "results.json", asked.svg or folder / "results.svg"
    figures.write_text(json.dumps(report.as_json(found), indent=1) + "\n")
    picture.write_text(chart.svg(found))
    console.print(f"figures: {figures}\nchart: {picture}", highlight=False)
    return 1 if found.problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
