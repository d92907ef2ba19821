"""`demo`: runs the demo and reports each step as it is done."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table as Grid

from colonnade import __version__
from colonnade.cli.answer import FINDINGS, FINE, Facts, print_json
from colonnade.cli.demonstration import FILE_NAME, Step, check_place, next_commands, next_python, run
from colonnade.cli.progress import counting_rows
from colonnade.cli.text import cell, open_console


def run_demo(n_rows: int, keep: str | None, as_json: bool) -> int:
    path = Path(keep or FILE_NAME)
    check_place(path)
    console = open_console()
    if not as_json:
        console.print(cell(f"colonnade {__version__} demo, in {path}", "bold"), soft_wrap=True)
    with counting_rows("writing events", n_rows) as progress:
        steps = run(path, n_rows, progress)
        done = list(steps) if as_json else show_steps(console, steps)
    failed = any(step.failed for step in done)
    if as_json:
        print_json(demo_facts(path, n_rows, done))
    else:
        show_end(console, path, failed)
    return FINDINGS if failed else FINE


def demo_facts(path: Path, n_rows: int, steps: list[Step]) -> Facts:
    """What the demo did, and how long each step took."""
    return {
        "file": {"name": str(path), "bytes": path.stat().st_size},
        "rows": n_rows,
        "equal": not any(step.failed for step in steps),
        "seconds": round(sum(step.seconds for step in steps), 4),
        "steps": [
            {"name": step.name, "seconds": round(step.seconds, 4), "said": step.said, **step.facts} for step in steps
        ],
        "next": next_commands(path),
    }


def show_steps(console: Console, steps: Iterable[Step]) -> list[Step]:
    """Print each step as it is done, and return all of them."""
    done = []
    for step in steps:
        done.append(step)
        _show_step(console, len(done), step)
    return done


def _show_step(console: Console, number: int, step: Step) -> None:
    grid = Grid.grid(padding=(0, 2, 0, 0), expand=True)
    grid.add_column(style="dim")
    grid.add_column(ratio=1)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_row(str(number), cell(step.said, "red" if step.failed else ""), _seconds_text(step.seconds))
    console.print(grid)
    for line in step.shown.splitlines():
        console.print(cell(f"     {line}", "cyan"), no_wrap=True, overflow="ellipsis")


def _seconds_text(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{seconds * 1000:.1f} ms"


def show_end(console: Console, path: Path, failed: bool) -> None:
    """Print whether everything was equal, and what the user can type next."""
    if failed:
        verdict = cell("What was read is NOT what was written: please report this.", "bold red")
    else:
        verdict = cell("Everything that was read equals what was written. The file is kept; explore it:", "bold")
    console.print()
    console.print(verdict)
    _show_typed(console, next_commands(path))
    console.print(cell("or in Python:", "bold"))
    _show_typed(console, next_python(path))


def _show_typed(console: Console, typed: list[str]) -> None:
    console.print()
    for line in typed:
        console.print(cell(f"  {line}", "green"), soft_wrap=True)
    console.print()
