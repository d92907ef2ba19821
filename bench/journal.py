"""The cost of the journal: 200 MB written through it, against plain h5py writing the same datasets.

    python -m bench.journal [--megabytes 200] [--times 5] [--limit 1.15]

Both write the same columns in the same chunks without filters, chunk by chunk in the order of the
rows, into a new file and into one that already holds data. With durability "full" h5py syncs its
file at the end, so that both do the same work. The data is read back and compared.
Exits 1 when colonnade's CPU time is over the limit.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np

import colonnade as cn
from bench.timing import Took, print_table, print_verdict, run_in_turns, timed

CHUNK_ROWS = 65_536
ROW_BYTES = 8 + 8 + 4
Columns = dict[str, np.ndarray[Any, Any]]
Durability = Literal["full", "fast"]


def make_columns(n_bytes: int) -> Columns:
    """Random columns of this total number of bytes."""
    rng = np.random.default_rng(1)
    n_rows = n_bytes // ROW_BYTES
    return {
        "energy": rng.normal(size=n_rows),
        "id": rng.integers(0, 2**62, n_rows),
        "price": rng.random(n_rows, dtype=np.float32),
    }


def make_file(path: Path, existing: bool) -> None:
    """Start with no file, or with one that holds an array."""
    path.unlink(missing_ok=True)
    if existing:
        with h5py.File(path, "w") as file:
            file["images"] = np.arange(1_000_000)


def write_with_colonnade(path: Path, columns: Columns, existing: bool, durability: Durability) -> None:
    options = cn.column(chunk_rows=CHUNK_ROWS, filters="none")
    with cn.open(path, "r+" if existing else "w", durability=durability) as file:
        file.create("events", columns, columns=dict.fromkeys(columns, options))


def write_with_h5py(path: Path, columns: Columns, existing: bool, durability: Durability) -> None:
    with h5py.File(path, "r+" if existing else "w") as file:
        group = file.create_group("events")
        datasets = {
            name: group.create_dataset(name, (0,), values.dtype, chunks=(CHUNK_ROWS,), maxshape=(None,))
            for name, values in columns.items()
        }
        for start in range(0, len(columns["id"]), CHUNK_ROWS):
            for name, values in columns.items():
                part = values[start : start + CHUNK_ROWS]
                datasets[name].resize((start + len(part),))
                datasets[name][start : start + len(part)] = part
    if durability == "full":
        sync(path)


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def measure(
    write: Callable[[Path, Columns, bool, Durability], None],
    path: Path,
    columns: Columns,
    existing: bool,
    durability: Durability,
) -> Took:
    """One run: writing is timed, checking the result is not."""
    make_file(path, existing)
    took = Took()
    with timed(took):
        write(path, columns, existing, durability)
    check(path, columns, existing)
    path.unlink()
    return took


def check(path: Path, columns: Columns, existing: bool) -> None:
    """Read everything back with h5py and check values, chunks, the absence of filters, and earlier data."""
    with h5py.File(path) as file:
        for name, values in columns.items():
            dataset = file["events"][name]
            if not np.array_equal(dataset[:], values) or dataset.dtype != values.dtype:
                raise SystemExit(f"{path}: column {name} does not hold what was written")
            if dataset.chunks != (CHUNK_ROWS,) or dataset.id.get_create_plist().get_nfilters():
                raise SystemExit(f"{path}: column {name} is not stored as it should be")
        if existing and not np.array_equal(file["images"][:], np.arange(1_000_000)):
            raise SystemExit(f"{path}: what was there before has changed")


def compare(folder: Path, columns: Columns, existing: bool, durability: Durability, times: int, limit: float) -> bool:
    """Run both in alternating order and print the comparison; whether the CPU time is within the limit."""
    writers = {"h5py": write_with_h5py, "colonnade": write_with_colonnade}
    runs = run_in_turns(
        {
            name: partial(measure, write, folder / f"{name}.h5", columns, existing, durability)
            for name, write in writers.items()
        },
        times,
    )
    n_bytes = sum(values.nbytes for values in columns.values())
    place = "an existing file" if existing else "a new file"
    print_table(f'{n_bytes:,} bytes into {place}, durability "{durability}"', runs, {"colonnade": "h5py"})
    ratio = runs["colonnade"].best_cpu / runs["h5py"].best_cpu
    return print_verdict(f"CPU time {ratio:.2f} times that of h5py, limit {limit}", ratio <= limit)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--megabytes", type=float, default=200.0)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--limit", type=float, default=1.15, help="times the CPU time of h5py")
    asked = parser.parse_args(arguments)
    columns = make_columns(int(asked.megabytes * 1e6))
    met = True
    with tempfile.TemporaryDirectory() as folder:
        for durability in ("fast", "full"):
            for existing in (False, True):
                met &= compare(Path(folder), columns, existing, durability, asked.times, asked.limit)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
