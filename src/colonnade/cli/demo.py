"""`demo`: detector events next to an image cube, written, searched, read back and compared.

The data depend only on the row number and a fixed seed: every batch can be generated again and compared with what is
read, in the memory of a few batches. A file is replaced only if this demo created it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from shlex import quote
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console

from colonnade import __version__
from colonnade.cli.answer import FINDINGS, FINE, print_json
from colonnade.cli.progress import counting_rows
from colonnade.cli.text import cell, open_console
from colonnade.errors import ConflictError, FormatError, UnsupportedError, UsageError
from colonnade.model import ColumnOptions, Progress
from colonnade.table import File, Table, open
from colonnade.table.show import rows_text, size_text

FILE_NAME = "colonnade-demo.h5"
DEMO_TITLE = "Detector events, run 42 (colonnade demo)"
EVENTS, CUBE = "/events", "/images/cube"
DEMO_INDEXES = {"time": "chunk_minmax", "particle": "bitmap", "energy": "chunk_minmax"}
CUBE_SHAPE = (64, 128, 128)
DEMO_BATCH_ROWS = 65_536
SEED = 42
QUESTION = "particle == 'muon' and energy > 500"

_PARTICLES = pa.array(["muon", "electron", "photon", "pion", "kaon", "proton", "neutron"])
_COLUMNS = {
    "time": ColumnOptions(description="When the event was recorded; nearly in order"),
    "energy": ColumnOptions(units="MeV", description="Energy left in the detector; missing where it was saturated"),
    "detector": ColumnOptions(description="Number of the detector, 0 to 511"),
    "particle": ColumnOptions(description="What the event was classified as"),
    "charge": ColumnOptions(units="e", description="Charge of the particle, in elementary charges"),
    "triggered": ColumnOptions(description="Whether the event fired the trigger"),
    "event": ColumnOptions(description="Name of the event; the label of its row"),
}


class Step(NamedTuple):
    """One step of the demo: its name, one sentence about the result, its time, and lines to show below it."""

    name: str
    summary: str
    seconds: float
    shown: str = ""
    failed: bool = False


def run_demo(n_rows: int, keep: str | None, as_json: bool) -> int:
    """Run the demo in a file; print each step when it is done, or all of them as JSON."""
    path, console, steps = Path(keep or FILE_NAME), open_console(), []
    check_path(path)
    if not as_json:
        console.print(cell(f"colonnade {__version__} demo, in {path}", "bold"), soft_wrap=True)
    with counting_rows("writing events", n_rows) as progress:
        for step in run(path, n_rows, progress):
            steps.append(step)
            if not as_json:
                _show_step(console, len(steps), step)
    failed = any(step.failed for step in steps)
    if as_json:
        print_json(
            {
                "file": {"name": str(path), "bytes": path.stat().st_size},
                "rows": n_rows,
                "equal": not failed,
                "seconds": round(sum(step.seconds for step in steps), 4),
                "steps": [
                    {"name": step.name, "seconds": round(step.seconds, 4), "summary": step.summary} for step in steps
                ],
                "next": next_commands(path),
            }
        )
    else:
        _show_end(console, path, failed)
    return FINDINGS if failed else FINE


def run(path: Path, n_rows: int, progress: Progress | None = None) -> Iterator[Step]:
    """Yields each step when it is done."""
    with open(path, "w") as file:
        yield _timed("write events", lambda: _write_events(file, n_rows, progress))
        yield _timed("write cube", lambda: _write_cube(file))
    with open(path) as file:
        table = file[EVENTS]
        yield _timed("show schema", lambda: _show_schema(table, path))
        yield _timed("read a column", lambda: _read_column(table))
        yield _timed("find rows", lambda: _find_rows(table))
        yield _timed("check events", lambda: _compare_events(table))
        yield _timed("check cube", lambda: _compare_cube(file))


def _timed(name: str, step: Callable[[], tuple[str, str]]) -> Step:
    start = time.perf_counter()
    summary, shown = step()
    return Step(name, summary, time.perf_counter() - start, shown, failed="NOT equal" in summary)


def check_path(path: Path) -> None:
    """Refuse a path where no file can be created, or that holds something this demo did not create."""
    advice = "choose another file with --keep"
    if path.is_dir():
        raise UsageError(f"{path} is a folder: choose a file in it with --keep", path=str(path))
    if path.exists() and not _is_demo_file(path):
        raise UsageError(
            f"{path} already exists and was not created by this demo: remove it, or {advice}", path=str(path)
        )
    if path.exists() and not os.access(path, os.W_OK):
        raise ConflictError(f"{path} is read-only: remove it, or {advice}", path=str(path))
    folder = path.absolute().parent
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ConflictError(f"cannot create a file in {folder} ({error.strerror}): {advice}", path=str(path)) from error


def _is_demo_file(path: Path) -> bool:
    """Whether this demo created the file; a file that is in use elsewhere raises ConflictError."""
    try:
        with open(path) as file:
            return EVENTS in file and file[EVENTS].title == DEMO_TITLE
    except (FormatError, UnsupportedError):
        return False


# -- the data --


def make_events(start: int, count: int) -> pa.RecordBatch:
    """The events of rows start to start + count; reproducible. `start` is a multiple of DEMO_BATCH_ROWS."""
    random = np.random.default_rng([SEED, start // DEMO_BATCH_ROWS])
    rows = np.arange(start, start + count)
    kinds = ((random.zipf(2.0, count) - 1) % len(_PARTICLES)).astype("i4")  # most are muons
    energy = np.round(random.lognormal(4.0, 1.2, count), 3)
    late = random.exponential(2_000, count).astype("i8")  # microseconds: events arrive slightly out of order
    first = np.datetime64("2026-01-01T00:00:00", "us").astype("i8")
    numbers = pc.ascii_lpad(pa.array(rows).cast(pa.string()), 12, "0")
    return pa.RecordBatch.from_pydict(
        {
            "time": pa.array(first + rows * 250 + late).cast(pa.timestamp("us")),
            "energy": pa.array(energy, mask=random.random(count) < 0.02),
            "detector": pa.array(random.integers(0, 512, count, dtype="i4")),
            "particle": pa.DictionaryArray.from_arrays(pa.array(kinds), _PARTICLES),
            "charge": pa.array(np.array([-1, -1, 0, 1, 1, 1, 0], dtype="i1")[kinds]),
            "triggered": pa.array(energy > 100),
            "event": pc.binary_join_element_wise("R042", numbers, "-"),
        }
    )


def make_batches(n_rows: int) -> Iterator[pa.RecordBatch]:
    """All events, batch by batch."""
    for start in range(0, n_rows, DEMO_BATCH_ROWS):
        yield make_events(start, min(DEMO_BATCH_ROWS, n_rows - start))


def make_cube() -> np.ndarray:
    """Camera frames: one spot that moves over a noisy background; reproducible."""
    frames, height, width = CUBE_SHAPE
    turn = np.linspace(0, 2 * np.pi, frames)[:, None, None]
    down = np.arange(height)[None, :, None] - height / 2 * (1 + np.sin(turn) / 2)
    across = np.arange(width)[None, None, :] - width / 2 * (1 + np.cos(turn) / 2)
    noise = np.random.default_rng(SEED).poisson(5, CUBE_SHAPE)
    return (200 * np.exp(-(down**2 + across**2) / 60) + noise).round().astype("f4")


# -- the steps: each returns one sentence about its result, and lines to show --


def _write_events(file: File, n_rows: int, progress: Progress | None) -> tuple[str, str]:
    table = file.create(
        EVENTS,
        make_batches(n_rows),
        progress=progress,
        title=DEMO_TITLE,
        description="Made-up events of a particle detector: one row per event, in the order they were read out.",
        columns=_COLUMNS,
        labels=["event"],
        index=DEMO_INDEXES,
    )
    stored = sum(table[member.name].stored_bytes for member in table.info.members)
    return f"generated {rows_text(n_rows)} and wrote them to {EVENTS}, with search indexes: {size_text(stored)}", ""


def _write_cube(file: File) -> tuple[str, str]:
    file.h5.create_dataset(CUBE, data=make_cube(), chunks=(1, *CUBE_SHAPE[1:]), shuffle=True, compression="gzip")
    return f"wrote an image cube of {' x '.join(map(str, CUBE_SHAPE))} float32 next to it, at {CUBE}, with h5py", ""


def _show_schema(table: Table, path: Path) -> tuple[str, str]:
    return f"looked at the table, without reading a row; the file has {size_text(path.stat().st_size)}", repr(table)


def _read_column(table: Table) -> tuple[str, str]:
    energy = table["energy"].to_arrow()
    mean = pc.mean(energy).as_py() or 0.0
    return f"read the column energy: {energy.null_count:,} of {rows_text(len(energy))} missing, mean {mean:.2f} MeV", ""


def _find_rows(table: Table) -> tuple[str, str]:
    """Find rows by their values, through the indexes, and compare with a test of every row."""
    query = table.where(QUESTION)
    rows = query.row_numbers()
    values = table[["particle", "energy"]].to_arrow()
    muons = pc.equal(values.column("particle").cast(pa.string()), "muon")
    expected = pc.indices_nonzero(pc.and_kleene(muons, pc.greater(values.column("energy"), 500.0)))
    verdict = "equal" if np.array_equal(rows, expected.to_numpy()) else "NOT equal"
    return f"found {rows_text(len(rows))} where {QUESTION}: {verdict} to a test of every row", str(query.explain())


def _compare_events(table: Table) -> tuple[str, str]:
    """Compare every value of every column, batch by batch, with the same batch generated again."""
    unequal: set[str] = set()
    for read, written in zip(table.batches(DEMO_BATCH_ROWS), make_batches(table.n_rows), strict=True):
        unequal.update(name for name in written.schema.names if not _equal(read.column(name), written.column(name)))
    verdict = f"NOT equal in {', '.join(sorted(unequal))}" if unequal else "equal"
    n_values = table.n_rows * len(_COLUMNS)
    return f"read the table back and compared all {n_values:,} values with what was written: {verdict}", ""


def _equal(read: pa.Array, written: pa.Array) -> bool:
    if pa.types.is_dictionary(written.type):
        return pa.types.is_dictionary(read.type) and _equal(read.cast(pa.string()), written.cast(pa.string()))
    return bool(read.equals(written))


def _compare_cube(file: File) -> tuple[str, str]:
    verdict = "equal" if np.array_equal(file.h5[CUBE][...], make_cube()) else "NOT equal"
    return f"read the image cube back with h5py: {verdict}", ""


# -- what is printed --


def next_commands(path: Path) -> list[str]:
    """What to type next in a terminal."""
    name = quote(str(path))
    return [
        f"colonnade info {name}",
        f"colonnade head {name} --columns time,energy,particle --rows 1000:1005",
        f'colonnade where {name} "{QUESTION}" -c time,energy',
        f"colonnade index ls {name}",
    ]


def next_python(path: Path) -> list[str]:
    """What to type next in Python."""
    return [
        "import colonnade as cn",
        f'f = cn.open({str(path)!r}); t = f["events"]',
        't["energy"][:10]                # NumPy, masked where missing',
        f't.where("{QUESTION}").to_arrow()',
        f'f.h5["{CUBE}"][0].max()   # the array next to the table, by h5py',
    ]


def _show_step(console: Console, number: int, step: Step) -> None:
    seconds = f"{step.seconds:.2f} s" if step.seconds >= 0.1 else f"{step.seconds * 1000:.1f} ms"
    console.print(cell(f"{number}  {step.summary} ({seconds})", "red" if step.failed else ""))
    for line in step.shown.splitlines():
        console.print(cell(f"     {line}", "cyan"), no_wrap=True, overflow="ellipsis")


def _show_end(console: Console, path: Path, failed: bool) -> None:
    """Print whether everything was equal, and what the user can type next."""
    console.print()
    if failed:
        console.print(cell("What was read is NOT what was written: please report this.", "bold red"))
    else:
        console.print(cell("Everything that was read equals what was written. The file is kept; explore it:", "bold"))
    for line in ["", *next_commands(path), "", *next_python(path), ""]:
        console.print(cell(f"  {line}", "green"), soft_wrap=True)
