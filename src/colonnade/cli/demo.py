"""`demo`: a million detector events next to an image cube, written, read back and compared, step by step.

The data depend only on the row number and a fixed seed, so every batch can be generated again and compared with what is
read, and memory stays at a few batches for any number of rows. A file is replaced only if this demo created it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import field
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table as Grid

from colonnade import __version__
from colonnade.cli.answer import FINDINGS, FINE, Facts, print_json
from colonnade.cli.progress import counting_rows
from colonnade.cli.text import cell, open_console
from colonnade.dataclass import dataclass
from colonnade.errors import ConflictError, FormatError, UnsupportedError, UsageError
from colonnade.model import ColumnOptions, Progress
from colonnade.predicate.tree import col
from colonnade.table import File, Table, open
from colonnade.table.show import rows_text, size_text

FILE_NAME = "colonnade-demo.h5"
DEMO_TITLE = "Detector events, run 42 (colonnade demo)"
EVENTS = "/events"
CUBE = "/images/cube"
DEMO_INDEXES = {"time": "chunk_minmax", "particle": "bitmap", "energy": "chunk_minmax"}
CUBE_SHAPE = (64, 128, 128)
DEMO_BATCH_ROWS = 65_536
SEED = 42

_START = np.datetime64("2026-01-01T00:00:00", "us").astype("i8")
_GAP = 250  # microseconds from one event to the next
_JITTER = 2_000  # events arrive out of order by about this much
_MISSING_SHARE = 0.02
_DETECTORS = 512
_PARTICLES = ("muon", "electron", "photon", "pion", "kaon", "proton", "neutron")
_CHARGES = np.array([-1, -1, 0, 1, 1, 1, 0], dtype="i1")
_SHARES = (1 / np.arange(1, 8)) / (1 / np.arange(1, 8)).sum()
_NAME = b"R042-000000000000"
_DIGITS = 12

_COLUMNS = {
    "time": ColumnOptions(description="When the event was recorded; nearly in order"),
    "energy": ColumnOptions(units="MeV", description="Energy left in the detector; missing where it was saturated"),
    "detector": ColumnOptions(description="Number of the detector, 0 to 511"),
    "particle": ColumnOptions(description="What the event was classified as"),
    "charge": ColumnOptions(units="e", description="Charge of the particle, in elementary charges"),
    "triggered": ColumnOptions(description="Whether the event fired the trigger"),
    "event": ColumnOptions(description="Name of the event; the label of its row"),
}


@dataclass(frozen=True)
class Step:
    """One step of the demo: its name, one sentence about it, its time, and its numbers."""

    name: str
    said: str
    seconds: float
    facts: dict[str, Any] = field(default_factory=dict)
    shown: str = ""
    failed: bool = False


class _Clock:
    """Seconds since it was created."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._start


def run(path: Path, n_rows: int, progress: Progress | None = None) -> Iterator[Step]:
    """Run the demo; yields each step when it is done."""
    check_place(path)
    yield from _write(path, n_rows, progress)
    with open(path) as file:
        table = file[EVENTS]
        yield _show_schema(table)
        yield _read_column(table)
        yield _read_rows(table)
        yield _find_rows(table)
        yield _compare_events(table)
        yield _compare_cube(file)


def check_place(path: Path) -> None:
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
    codes = random.choice(len(_PARTICLES), count, p=_SHARES).astype("i4")
    energy = np.round(random.lognormal(4.0, 1.2, count), 3)
    columns = {
        "time": _timestamps(rows, random),
        "energy": pa.array(energy, mask=random.random(count) < _MISSING_SHARE),
        "detector": pa.array(random.integers(0, _DETECTORS, count, dtype="i4")),
        "particle": pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(_PARTICLES)),
        "charge": pa.array(_CHARGES[codes]),
        "triggered": pa.array(energy > 100),
        "event": _event_names(rows),
    }
    return pa.RecordBatch.from_pydict(columns)


def _timestamps(rows: np.ndarray, random: np.random.Generator) -> pa.Array:
    late = random.exponential(_JITTER, len(rows)).astype("i8")
    return pa.array(_START + rows * _GAP + late).cast(pa.timestamp("us"))


def _event_names(rows: np.ndarray) -> pa.Array:
    """The names "R042-" and twelve digits, built as bytes for all rows at once."""
    text = np.tile(np.frombuffer(_NAME, dtype="u1"), (len(rows), 1))
    powers = 10 ** np.arange(_DIGITS - 1, -1, -1)
    text[:, -_DIGITS:] += (rows[:, None] // powers % 10).astype("u1")
    offsets = np.arange(len(rows) + 1, dtype="i4") * len(_NAME)
    return pa.Array.from_buffers(pa.string(), len(rows), [None, pa.py_buffer(offsets), pa.py_buffer(text)])


def make_cube() -> np.ndarray:
    """Camera frames: one spot that moves over a noisy background; reproducible."""
    frames, height, width = CUBE_SHAPE
    turn = np.linspace(0, 2 * np.pi, frames)[:, None, None]
    down = np.arange(height)[None, :, None] - height / 2 * (1 + np.sin(turn) / 2)
    across = np.arange(width)[None, None, :] - width / 2 * (1 + np.cos(turn) / 2)
    spot = 200 * np.exp(-(down**2 + across**2) / 60)
    noise = np.random.default_rng(SEED).poisson(5, CUBE_SHAPE)
    return (spot + noise).round().astype("f4")


class _Events:
    """The batches in turn, as `write` requests them, and the time it took to generate them."""

    def __init__(self, n_rows: int) -> None:
        self._n_rows = n_rows
        self.seconds = 0.0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for start in range(0, self._n_rows, DEMO_BATCH_ROWS):
            clock = _Clock()
            batch = make_events(start, min(DEMO_BATCH_ROWS, self._n_rows - start))
            self.seconds += clock.seconds
            yield batch


# -- the steps --


def _write(path: Path, n_rows: int, progress: Progress | None) -> Iterator[Step]:
    """Write both objects into one new file, which appears under its name when it is complete."""
    events = _Events(n_rows)
    with open(path, "w") as file:
        clock = _Clock()
        table = file.create(
            EVENTS,
            iter(events),
            progress=progress,
            title=DEMO_TITLE,
            description="Made-up events of a particle detector: one row per event, in the order they were read out.",
            columns=_COLUMNS,
            labels=["event"],
            index=DEMO_INDEXES,
        )
        seconds = clock.seconds
        stored, raw = table_bytes(table)
        clock = _Clock()
        _write_cube(file)
        cube_seconds = clock.seconds
    yield _written_events(n_rows, seconds, events.seconds, stored, raw)
    size = path.stat().st_size
    shape = " x ".join(map(str, CUBE_SHAPE))
    yield Step(
        "write cube",
        f"wrote an image cube of {shape} float32 next to it, at {CUBE}, with h5py; the file has {size_text(size)}",
        cube_seconds,
        {"path": CUBE, "shape": list(CUBE_SHAPE), "file_bytes": size},
    )


def _written_events(n_rows: int, seconds: float, making: float, stored: int, raw: int) -> Step:
    rate = n_rows / max(seconds, 1e-9)
    return Step(
        "write events",
        f"wrote {rows_text(n_rows)} to {EVENTS}, in batches of {DEMO_BATCH_ROWS:,}: {rate:,.0f} rows per second "
        f"({making:.2f} s of it generating the data); {size_text(raw)} of values take {size_text(stored)} in the file",
        seconds,
        {
            "path": EVENTS,
            "rows": n_rows,
            "batch_rows": DEMO_BATCH_ROWS,
            "seconds_making_data": round(making, 4),
            "stored_bytes": stored,
            "raw_bytes": raw,
        },
    )


def _write_cube(file: File) -> None:
    cube = make_cube()
    dataset = file.h5.create_dataset(CUBE, data=cube, chunks=(1, *CUBE_SHAPE[1:]), shuffle=True, compression="gzip")
    dataset.attrs["description"] = "Frames of the camera above the detector"


def table_bytes(table: Table) -> tuple[int, int]:
    """Bytes of all columns and labels: as stored, and as values without filters."""
    members = table.info.members
    return sum(table[m.name].stored_bytes for m in members), sum(m.n_rows * m.type.size for m in members)


def _show_schema(table: Table) -> Step:
    clock = _Clock()
    text = repr(table)
    return Step(
        "show schema",
        f"looked at the table: {len(table.columns)} columns and {len(table.labels)} label, no row read",
        clock.seconds,
        {"columns": table.columns, "labels": table.labels},
        shown=text,
    )


def _read_column(table: Table) -> Step:
    clock = _Clock()
    energy = table["energy"].to_arrow()
    mean = np.nanmean(energy.to_numpy(zero_copy_only=False)) if energy.null_count < len(energy) else float("nan")
    seconds = clock.seconds
    return Step(
        "read a column",
        f"read the column energy: {rows_text(len(energy))}, {energy.null_count:,} missing, mean {mean:.2f} MeV",
        seconds,
        {"column": "energy", "rows": len(energy), "missing": energy.null_count},
    )


def _read_rows(table: Table) -> Step:
    """Read rows from all over the table, in random order, and compare them with the same rows generated again."""
    rows = np.random.default_rng(SEED).integers(0, table.n_rows, min(table.n_rows, 20))
    clock = _Clock()
    got = table.take(rows).to_arrow()
    seconds = clock.seconds
    made = [make_row(int(row), table.n_rows) for row in rows]
    unequal = _unequal_columns(got, pa.Table.from_batches(made))
    return Step(
        "read rows",
        f"read {rows_text(len(rows))} from all over the table, in random order: "
        + ("equal to what was written" if not unequal else f"NOT equal in {', '.join(unequal)}"),
        seconds,
        {"rows": len(rows), "equal": not unequal, "unequal_columns": unequal},
        failed=bool(unequal),
    )


def _find_rows(table: Table) -> Step:
    """Find rows by their values, through the indexes, and compare with a test of every row."""
    middle = table["time"][table.n_rows // 2]
    found = table.where((col("time") >= middle) & (col("particle") == "muon") & (col("energy") > 500.0))
    clock = _Clock()
    rows = found.row_numbers()
    seconds = clock.seconds
    plan = found.explain()
    values = table[["time", "particle", "energy"]].to_arrow()
    later = pc.greater_equal(values.column(0), pa.scalar(middle, values.column(0).type))
    muons = pc.equal(values.column(1).cast(pa.string()), "muon")
    truth = pc.indices_nonzero(pc.and_kleene(pc.and_kleene(later, muons), pc.greater(values.column(2), 500.0)))
    equal = bool(np.array_equal(rows, truth.to_numpy()))
    used = ", ".join(f"{one.kind} of {one.column}" for one in plan.indexes_used) or "no index"
    return Step(
        "find rows",
        f"found the {len(rows):,} muons above 500 MeV in the second half by {used}: "
        + ("the same as by testing every row" if equal else "NOT the same as by testing every row"),
        seconds,
        {"rows": len(rows), "equal": equal, "chunks_read": plan.chunks_read, "chunks_total": plan.chunks_total},
        shown=str(plan),
        failed=not equal,
    )


def make_row(row: int, n_rows: int) -> pa.RecordBatch:
    """One event as it was written; its whole batch is generated again."""
    start = row // DEMO_BATCH_ROWS * DEMO_BATCH_ROWS
    return make_events(start, min(DEMO_BATCH_ROWS, n_rows - start)).slice(row - start, 1)


def _compare_events(table: Table) -> Step:
    """Compare every value of every column, batch by batch, with the same batch generated again."""
    clock = _Clock()
    unequal: set[str] = set()
    n_compared = n_seen = 0
    for batch in table.batches(DEMO_BATCH_ROWS):
        made = make_events(n_seen, batch.num_rows)
        unequal.update(_unequal_columns(pa.Table.from_batches([batch]), pa.Table.from_batches([made])))
        n_seen += batch.num_rows
        n_compared += batch.num_rows * made.num_columns
    return Step(
        "check events",
        f"read the whole table back and compared all {n_compared:,} values with what was written: "
        + ("equal" if not unequal else f"NOT equal in {', '.join(sorted(unequal))}"),
        clock.seconds,
        {"rows": n_seen, "values": n_compared, "equal": not unequal, "unequal_columns": sorted(unequal)},
        failed=bool(unequal),
    )


def _unequal_columns(got: pa.Table, made: pa.Table) -> list[str]:
    """The columns whose type, length or values differ."""
    return [name for name in made.column_names if not _equal(got.column(name), made.column(name))]


def _equal(got: pa.ChunkedArray, made: pa.ChunkedArray) -> bool:
    if pa.types.is_dictionary(made.type):
        return bool(pa.types.is_dictionary(got.type)) and _equal(got.cast(pa.string()), made.cast(pa.string()))
    return bool(got.equals(made))


def _compare_cube(file: File) -> Step:
    clock = _Clock()
    equal = bool(np.array_equal(file.h5[CUBE][...], make_cube()))
    return Step(
        "check cube",
        f"read the image cube back with h5py: {'equal' if equal else 'NOT equal'}",
        clock.seconds,
        {"equal": equal},
        failed=not equal,
    )


# -- what to do next --


def next_commands(path: Path) -> list[str]:
    """What to type next in a terminal."""
    name = quote(str(path))
    return [
        f"colonnade ls {name}",
        f"colonnade info {name}",
        f"colonnade schema {name}",
        f"colonnade head {name} -n 10",
        f"colonnade head {name} --columns time,energy,particle --rows 1000:1005",
        f"colonnade where {name} \"particle == 'muon' and energy > 500\" -c time,energy",
        f"colonnade index ls {name}",
    ]


def next_python(path: Path) -> list[str]:
    """What to type next in Python."""
    return [
        "import colonnade as cn",
        f"f = cn.open({str(path)!r})",
        't = f["events"]',
        't["energy"][:10]                # NumPy, masked where missing',
        't[["time", "energy", "particle"]][1000:1005].to_arrow()',
        "t.head(3).to_arrow().to_pylist()",
        """print(t.where("particle == 'muon' and energy > 500").explain())""",
        f'f.h5["{CUBE}"][0].max()   # the array next to the table, by h5py',
    ]


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
