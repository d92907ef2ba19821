"""The cost of a wide table: written, one column read, one added, one row appended, at n columns and at 4 n.

    python -m bench.wide [--columns 5000] [--rows 1000] [--times 3]

Against Parquet (pyarrow), h5py by hand (one dataset per column) and h5col, where it is installed. PyTables warns above
512 columns and stores rows, so it is left out. Parquet cannot add a column or a row: the file is written again, as its
users do. Every answer is checked. Exits 1 when colonnade's cost of writing or of appending grows by more than 4.5 times
from n to 4 n columns, or when reading one column or adding one takes 100 ms of CPU time or more at 4 n.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import colonnade as cn
from bench.timing import Runs, Took, print_table, print_verdict, timed

TIMES_WIDER = 4
GROWTH = 4.5
FEW_MILLISECONDS = 0.1  # seconds
Data = dict[str, np.ndarray[Any, Any]]


def columns(n_columns: int, n_rows: int) -> Data:
    rng = np.random.default_rng(7)
    return {
        f"c{number:05d}": rng.integers(0, 1000, n_rows) if number % 3 == 0 else rng.normal(size=n_rows)
        for number in range(n_columns)
    }


class Colonnade:
    name = "colonnade"

    def write(self, path: Path, data: Data) -> None:
        cn.write(path, data, table="t", mode="replace")

    def read(self, path: Path, name: str) -> Any:
        return cn.read(path, "t", columns=[name]).column(0).to_numpy()

    def add(self, path: Path, name: str, values: Any) -> None:
        with cn.open(path, "r+", durability="fast") as file:
            file["t"].add_column(name, values)

    def append(self, path: Path, rows: Data) -> None:
        with cn.open(path, "r+", durability="fast") as file:
            file["t"].append(rows)


class Parquet:
    name = "Parquet (pyarrow)"

    def write(self, path: Path, data: Data) -> None:
        pq.write_table(pa.table(data), path)

    def read(self, path: Path, name: str) -> Any:
        return pq.read_table(path, columns=[name]).column(0).to_numpy()

    def add(self, path: Path, name: str, values: Any) -> None:
        pq.write_table(pq.read_table(path).append_column(name, pa.array(values)), path)

    def append(self, path: Path, rows: Data) -> None:
        pq.write_table(pa.concat_tables([pq.read_table(path), pa.table(rows)]), path)


class H5pyByHand:
    name = "h5py by hand"

    def write(self, path: Path, data: Data) -> None:
        with h5py.File(path, "w") as file:
            for name, values in data.items():
                file.create_dataset(name, data=values, maxshape=(None,), chunks=True, shuffle=True, compression=1)

    def read(self, path: Path, name: str) -> Any:
        with h5py.File(path) as file:
            return file[name][:]

    def add(self, path: Path, name: str, values: Any) -> None:
        with h5py.File(path, "r+") as file:
            file.create_dataset(name, data=values, maxshape=(None,), chunks=True, shuffle=True, compression=1)

    def append(self, path: Path, rows: Data) -> None:
        with h5py.File(path, "r+") as file:
            for name, values in rows.items():
                dataset = file[name]
                dataset.resize((len(dataset) + len(values),))
                dataset[-len(values) :] = values


class H5Col:
    """An added column has no values yet: h5col fills it, and the rows are then written through h5py."""

    name = "h5col"

    def write(self, path: Path, data: Data) -> None:
        from h5col import Table

        with h5py.File(path, "w") as file:
            Table.from_arrays(file.create_group("t"), data)

    def read(self, path: Path, name: str) -> Any:
        from h5col import Table

        with h5py.File(path) as file:
            return Table.open(file["t"]).read([name], masked=False)[name]

    def add(self, path: Path, name: str, values: Any) -> None:
        from h5col import ColumnSpec, Table

        with h5py.File(path, "r+") as file:
            Table.open(file["t"]).add_column(ColumnSpec(name=name, dtype=values.dtype))
            file["t"][name][: len(values)] = values

    def append(self, path: Path, rows: Data) -> None:
        from h5col import Table

        with h5py.File(path, "r+") as file:
            Table.open(file["t"]).append(rows)


PEERS: tuple[Any, ...] = (Colonnade(), Parquet(), H5pyByHand())
if importlib.util.find_spec("h5col") is not None:
    PEERS += (H5Col(),)


def took(action: Callable[[], Any]) -> Took:
    taken = Took()
    with timed(taken):
        action()
    return taken


def measure(peer: Any, folder: Path, data: Data, times: int) -> dict[str, Runs]:
    """Run each kind of work several times, each on a separate file."""
    path = folder / f"{peer.name.split()[0]}-{len(data)}"
    one = {name: values[:1] for name, values in data.items()}
    n_rows = len(next(iter(data.values())))
    last = list(data)[-2]
    found: dict[str, list[Took]] = {"write": [], "read one column": [], "add one column": [], "append one row": []}
    for turn in range(times):
        path.unlink(missing_ok=True)
        found["write"].append(took(partial(peer.write, path, data)))
        found["read one column"].append(took(partial(peer.read, path, last)))
        if not np.array_equal(peer.read(path, last), data[last]):
            raise SystemExit(f"{peer.name}: {last} reads back differently")
        found["append one row"].append(took(partial(peer.append, path, one)))
        found["add one column"].append(took(partial(peer.add, path, f"new{turn}", np.arange(n_rows + 1))))
        if len(peer.read(path, last)) != n_rows + 1:
            raise SystemExit(f"{peer.name}: the row that was appended is not there")
    return {work: Runs(runs) for work, runs in found.items()}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.wide", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--columns", type=int, default=5000, help="columns of the narrower table; the other has 4 times as many"
    )
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--times", type=int, default=3, help="runs of each; the best one counts")
    asked = parser.parse_args(arguments)
    met = []
    with tempfile.TemporaryDirectory() as folder:
        Colonnade().write(Path(folder) / "warm", columns(3, 10))
        Colonnade().read(Path(folder) / "warm", "c00001")
        widths = (asked.columns, TIMES_WIDER * asked.columns)
        runs = {
            (peer.name, width): measure(peer, Path(folder), columns(width, asked.rows), asked.times)
            for width in widths
            for peer in PEERS
        }
    for work in ("write", "read one column", "add one column", "append one row"):
        shown = {f"{name}, {width:,} columns": found[work] for (name, width), found in runs.items()}
        print_table(
            work, shown, {f"colonnade, {width:,} columns": f"{Parquet.name}, {width:,} columns" for width in widths}
        )
        narrow, wide = (runs[Colonnade.name, width][work].best_cpu for width in widths)
        if work in ("write", "append one row"):
            summary, right = f"{wide / narrow:.2f} times for {TIMES_WIDER} times the columns", wide <= GROWTH * narrow
        else:
            summary, right = f"{wide * 1000:.0f} ms at {widths[1]:,} columns", wide < FEW_MILLISECONDS
        met.append(print_verdict(f"{work}: {summary}", right))
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
