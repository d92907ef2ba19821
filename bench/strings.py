"""The cost of reading strings into a NumPy array: repeated, short and long strings, from an open file.

    python -m bench.strings [--rows 1_000_000] [--times 5]

Against Parquet (pyarrow), h5py (variable-length strings), and PyTables (fixed-length bytes, decoded), if it is
installed. Peers return objects, or NumPy's strings where they can. Every answer is checked.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import colonnade as cn
from bench.timing import Took, print_table, run_in_turns, timed

Read = Callable[[], Any]
OWN, OBJECTS, PARQUET = "colonnade", "colonnade, objects", "Parquet (pyarrow), objects"


def columns(n_rows: int) -> dict[str, list[str]]:
    order = np.random.default_rng(7).permutation(n_rows).tolist()
    return {
        "repeated": [f"name {number % 977}" for number in order],
        "short": [f"id{number}" for number in order],
        "long": [f"a longer text, which has the number {number} in it" for number in order],
    }


@contextmanager
def readers(folder: Path, rows: list[str]) -> Iterator[dict[str, Read]]:
    """For each peer, the function that reads the rows from its file."""
    cn.write(folder / "a.h5", {"x": rows}, "t", mode="replace")
    pq.write_table(pa.table({"x": rows}), folder / "a.parquet")
    with h5py.File(folder / "b.h5", "w") as file:
        file.create_dataset("x", data=rows, dtype=h5py.string_dtype(), chunks=(65_536,))
    with (
        cn.open(folder / "a.h5") as own,
        h5py.File(folder / "b.h5") as other,
        pq.ParquetFile(folder / "a.parquet") as parquet,
    ):
        found: dict[str, Read] = {
            OWN: own["t"]["x"].to_numpy,
            OBJECTS: lambda: own["t"]["x"].to_numpy(strings="objects"),
            PARQUET: lambda: parquet.read(["x"]).column(0).to_numpy(zero_copy_only=False),
            "h5py, objects": lambda: other["x"].asstr()[:],
            "h5py, NumPy's strings": lambda: other["x"].astype("T")[:],
        }
        if importlib.util.find_spec("tables") is None:
            yield found
            return
        import tables

        with tables.open_file(str(folder / "c.h5"), "w") as file:
            file.create_table("/", "t", np.array([(row.encode(),) for row in rows], [("x", f"S{max(map(len, rows))}")]))
        with tables.open_file(str(folder / "c.h5")) as file:
            yield {**found, "PyTables, decoded": lambda: file.root.t.read(field="x").astype(np.dtypes.StringDType())}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.strings", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=5, help="runs of each; the best one counts")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        for kind, rows in columns(asked.rows).items():
            with readers(Path(folder), rows) as found:
                for name, read in found.items():
                    if read().tolist() != rows:
                        raise SystemExit(f"{name}: {kind} strings read back differently")
                runs = run_in_turns({name: lambda read=read: _took(read) for name, read in found.items()}, asked.times)  # type: ignore[misc]
            print_table(f"{kind} strings", runs, {name: PARQUET for name in runs if name != PARQUET})
    return 0


def _took(read: Read) -> Took:
    taken = Took()
    with timed(taken):
        kept = read()
    del kept
    return taken


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
