"""The cost of an append: 100 appends of 10,000 rows against PyTables and pandas, and one to a table of 50 million rows.

    python -m bench.appends [--appends 100] [--times 5] [--rows 50000000]

Each library gets the rows as data frames with the columns of the benchmark workload (numbers, a boolean, two
of strings), converts them to its own form, stores them without filters and otherwise with its defaults, and
has handed them to the operating system when an append returns (only colonnade can roll back an interrupted
append). The first append makes the table. All rows are read back and compared. Then one append is measured on a
short and on a long table.
Exits 1 when colonnade takes more CPU time than a peer, or more for the long table than for the short one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import h5py
import numpy as np
import pyarrow as pa

import colonnade as cn
from bench.timing import Runs, Took, print_table, print_verdict, run_in_turns, timed

ROWS = 10_000
SHORT = 50_000
CHUNK_ROWS = 65_536
APPENDS_TO_ONE = 30
NOISE = 1.1  # two medians of the same measurement may differ by this factor
NAMES = ("ts", "energy", "id", "label", "name", "flag", "price")
DTYPE = np.dtype(
    [
        ("ts", "<i8"),
        ("energy", "<f8"),
        ("id", "<i4"),
        ("label", "S20"),
        ("name", "S20"),
        ("flag", "?"),
        ("price", "<f4"),
    ]
)


@dataclass(frozen=True)
class Peer:
    """One library: appends to one open file, appends that each open the file again, and reading back."""

    name: str
    append_open: Callable[[Path, list[Any]], None]
    append_anew: Callable[[Path, Any], None]
    read: Callable[[Path, str], Any]


def find(module: str, package: str) -> ModuleType:
    """Import a library to compare with, or exit with a message on how to install it."""
    try:
        return import_module(module)
    except ImportError:
        raise SystemExit(f"bench.appends compares with {package}, which is missing: pip install {package}") from None


def make_frames(n_batches: int) -> list[Any]:
    """Random rows as data frames: numbers, a boolean, strings of few and of many distinct values."""
    pandas = find("pandas", "pandas")
    rng = np.random.default_rng(1)
    words = np.array([f"label {number:02d}" for number in range(16)], dtype=object)
    frames = []
    for number in range(n_batches):
        columns = {
            "ts": 1_700_000_000_000 + number * ROWS * 1000 + np.arange(ROWS) * 1000 + rng.integers(0, 5000, ROWS),
            "energy": rng.normal(size=ROWS),
            "id": rng.integers(0, 2**31 - 1, ROWS).astype("i4"),
            "label": words[rng.zipf(1.5, ROWS) % 16],
            "name": np.array([f"name {value}" for value in rng.integers(0, 10**12, ROWS)], dtype=object),
            "flag": rng.random(ROWS) < 0.5,
            "price": (rng.integers(0, 10_000, ROWS) / 100).astype("f4"),
        }
        frames.append(pandas.DataFrame(columns))
    return frames


# -- colonnade --


def append_open(path: Path, batches: list[Any]) -> None:
    append_anew(path, batches[0])  # a new file appears under its name only when it is closed
    with cn.open(path, "r+", durability="fast") as file:
        table = file["events"]
        for batch in batches[1:]:
            table.append(batch)


def append_anew(path: Path, batch: Any) -> None:
    with cn.open(path, "a", durability="fast") as file:
        if "events" in file:
            file["events"].append(batch)
        else:
            file.create("events", batch, columns=dict.fromkeys(NAMES, cn.column(filters="none")))


def read_colonnade(path: Path, name: str) -> Any:
    return cn.read(path, "events", [name]).column(0).to_numpy()


def colonnade() -> Peer:
    return Peer("colonnade", append_open, append_anew, read_colonnade)


# -- PyTables --


def pytables() -> Peer:
    tables = find("tables", "tables")

    def append(file: Any, frame: Any) -> None:
        records = np.empty(len(frame), DTYPE)
        for name in NAMES:
            records[name] = frame[name].to_numpy()
        if "/events" in file:
            file.root.events.append(records)
        else:
            file.create_table("/", "events", obj=records)
        file.flush()

    def all_open(path: Path, frames: list[Any]) -> None:
        with tables.open_file(path, "a") as file:
            for frame in frames:
                append(file, frame)

    def one_anew(path: Path, frame: Any) -> None:
        with tables.open_file(path, "a") as file:
            append(file, frame)

    def read(path: Path, name: str) -> Any:
        with tables.open_file(path) as file:
            values = file.root.events.col(name)
            return np.char.decode(values) if values.dtype.kind == "S" else values

    return Peer("PyTables", all_open, one_anew, read)


# -- pandas --


def pandas(index: bool) -> Peer:
    """HDFStore with its defaults (it keeps an index of its row labels), or without that index."""
    library = find("pandas", "pandas")
    find("tables", "tables")

    def append(store: Any, frame: Any) -> None:
        store.append("events", frame, format="table", index=index, min_itemsize=20)
        store.flush()

    def all_open(path: Path, frames: list[Any]) -> None:
        with library.HDFStore(path, "a") as store:
            for frame in frames:
                append(store, frame)

    def one_anew(path: Path, frame: Any) -> None:
        with library.HDFStore(path, "a") as store:
            append(store, frame)

    def read(path: Path, name: str) -> Any:
        return library.read_hdf(path, "events")[name].to_numpy()

    return Peer("pandas" if index else "pandas, index=False", all_open, one_anew, read)


# -- the comparison --


def measure(peer: Peer, path: Path, frames: list[Any], reopened: bool) -> Took:
    """Time all appends to a new file; reading them back is not timed."""
    path.unlink(missing_ok=True)
    took = Took()
    with timed(took):
        if reopened:
            for frame in frames:
                peer.append_anew(path, frame)
        else:
            peer.append_open(path, frames)
    for name in NAMES:
        if not np.array_equal(peer.read(path, name), np.concatenate([frame[name].to_numpy() for frame in frames])):
            raise SystemExit(f"{peer.name}: column {name} does not hold what was appended")
    path.unlink()
    return took


def compare(folder: Path, n_appends: int, times: int, reopened: bool) -> bool:
    """Run all peers in alternating order and print the comparison; whether colonnade takes the least CPU time.

    Files that are opened again for each append have no limit: on opening, colonnade checks for a crashed writer and
    reads the description of the table.
    """
    peers = [colonnade(), pytables(), pandas(index=False), pandas(index=True)]
    frames = make_frames(n_appends)
    actions = {peer.name: partial(measure, peer, folder / "appends.h5", frames, reopened) for peer in peers}
    runs = run_in_turns(actions, times)
    how = "the file opened again for each" if reopened else "one open file"
    title = f"{n_appends} appends of {ROWS:,} rows, {how} (ratios: colonnade is 1)"
    print_table(title, runs, {peer.name: "colonnade" for peer in peers[1:]})
    if reopened:
        return True
    ratios = {peer.name: runs["colonnade"].best_cpu / runs[peer.name].best_cpu for peer in peers[1:]}
    verdicts = [
        print_verdict(f"CPU time {ratio:.2f} times that of {name}, limit 1", ratio <= 1)
        for name, ratio in ratios.items()
    ]
    return all(verdicts)


# -- short and long tables --


def make_batch(rng: np.random.Generator, n_rows: int) -> pa.RecordBatch:
    return pa.record_batch({"energy": rng.normal(size=n_rows), "charge": rng.random(n_rows)})


def many_rows(n_rows: int) -> Iterator[pa.RecordBatch]:
    """A table of two columns in batches; the rows repeat, because only their number matters here."""
    batch = make_batch(np.random.default_rng(2), 1_000_000)
    for start in range(0, n_rows, batch.num_rows):
        yield batch.slice(0, n_rows - start)


def append_once(table: cn.Table, batch: pa.RecordBatch) -> Took:
    took = Took()
    with timed(took):
        table.append(batch)
    return took


def append_once_anew(path: Path, batch: pa.RecordBatch) -> Took:
    took = Took()
    with timed(took), cn.open(path, "r+", durability="fast") as file:
        file["events"].append(batch)
    return took


def compare_lengths(folder: Path, n_rows: int) -> bool:
    """Time one append to a short and to a long table; whether the long one is not slower."""
    names = {f"{SHORT:,} rows": folder / "short.h5", f"{n_rows:,} rows": folder / "long.h5"}
    options = cn.column(filters="none", chunk_rows=CHUNK_ROWS)  # equal for both tables: only the length differs
    for length, path in zip((SHORT, n_rows), names.values(), strict=True):
        cn.write(path, many_rows(length), table="events", columns={"energy": options, "charge": options})
    batch = make_batch(np.random.default_rng(3), ROWS)
    files = {name: cn.open(path, "r+", durability="fast") for name, path in names.items()}
    tables = {name: file["events"] for name, file in files.items()}
    runs = run_in_turns({name: partial(append_once, tables[name], batch) for name in names}, APPENDS_TO_ONE)
    for file in files.values():
        file.close()
    met = print_lengths("one open file", runs)
    runs = run_in_turns({name: partial(append_once_anew, path, batch) for name, path in names.items()}, APPENDS_TO_ONE)
    met &= print_lengths("the file opened again for each", runs)
    for path, length in zip(names.values(), (SHORT, n_rows), strict=True):
        check_end(path, length + 2 * APPENDS_TO_ONE * ROWS, batch)
    return met


def print_lengths(how: str, runs: dict[str, Runs]) -> bool:
    short, long = runs
    print_table(f"one append of {ROWS:,} rows to tables of n rows, {how}", runs, {long: short})
    ratio = runs[long].median_cpu / runs[short].median_cpu
    return print_verdict(f"median CPU time {ratio:.2f} times that of the short table, limit {NOISE}", ratio <= NOISE)


def check_end(path: Path, n_rows: int, batch: pa.RecordBatch) -> None:
    """Check that the table has all rows, and that the last ones are those that were appended."""
    with h5py.File(path) as file:
        for name in batch.schema.names:
            dataset = file["events"][name]
            if len(dataset) != n_rows or not np.array_equal(dataset[-ROWS:], batch[name].to_numpy()):
                raise SystemExit(f"{path}: column {name} does not hold what was appended")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--appends", type=int, default=100)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--rows", type=int, default=50_000_000, help="rows of the long table, 16 bytes each; 0: none")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        met = [compare(Path(folder), asked.appends, asked.times, reopened) for reopened in (False, True)]
        if asked.rows:
            met.append(compare_lengths(Path(folder), asked.rows))
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
