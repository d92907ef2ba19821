"""The cost of searching a PyTables file, and of reading 3 of 30 members of a compound dataset: PyTables and h5py too.

    python -m bench.foreign [--rows 1_000_000] [--times 7]

Searches: a predicate on one column or two, three columns of the rows that match; without indexes, and with PyTables'
completely sorted index (CSI) against our sorted rows next to the table. Files are open and their pages in memory. Each
call asks for other values, because PyTables caches the answers to repeated queries. Every answer is compared. Needs
tables.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np

import colonnade as cn
from bench.timing import Took, print_table, run_in_turns, timed

Ask = Callable[[int], Any]
OWN, PYTABLES, H5PY = "colonnade", "PyTables", "h5py"
COLUMNS = ("id", "energy", "name")
INDEXED = ("id", "energy")
N_MEMBERS, READ = 30, ("m03", "m14", "m27")


def write_table(path: Path, n_rows: int, is_indexed: bool) -> None:
    """A table of six columns, written by PyTables in its default chunks, with its own indexes if asked for."""
    import tables

    chance = np.random.default_rng(5)
    kinds = [("ts", "i8"), ("id", "i4"), ("energy", "f8"), ("flag", "?"), ("price", "f4"), ("name", "S16")]
    rows = np.zeros(n_rows, kinds)
    rows["ts"], rows["id"] = np.arange(n_rows), chance.permutation(n_rows)
    rows["energy"], rows["price"], rows["flag"] = chance.random(n_rows), chance.random(n_rows), rows["id"] % 2 == 0
    rows["name"] = np.char.add(b"name ", (rows["id"] % 5000).astype("S6"))
    with tables.open_file(path, "w") as file:
        table = file.create_table("/", "events", rows, expectedrows=n_rows)
        for column in INDEXED if is_indexed else ():
            table.cols._f_col(column).create_csindex()


def write_compound(path: Path, n_rows: int, filters: Mapping[str, Any]) -> None:
    """A compound dataset of 30 numbers of 8 bytes, by h5py in chunks of 4,096 rows."""
    chance = np.random.default_rng(6)
    kind = np.dtype([(f"m{number:02}", "f8" if number % 2 else "i8") for number in range(N_MEMBERS)])
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("records", (n_rows,), kind, chunks=(4096,), maxshape=(None,), **filters)
        for first in range(0, n_rows, 65_536):
            rows = np.zeros(min(65_536, n_rows - first), kind)
            for number, name in enumerate(kind.names or ()):
                rows[name] = chance.integers(0, 1000 * (number + 1), len(rows))
            dataset[first : first + len(rows)] = rows


def searches(own: cn.Table, theirs: Any, n_rows: int) -> dict[str, dict[str, Ask]]:
    """What is asked of the table, and how each asks it."""

    def both(ours: Callable[[int], str], condition: str, values: Callable[[int], dict[str, Any]]) -> dict[str, Ask]:
        return {
            OWN: lambda turn: own.where(ours(turn)).select(*COLUMNS).to_arrow(),
            PYTABLES: lambda turn: theirs.read_where(condition, values(turn))[list(COLUMNS)],
        }

    def low(turn: int) -> float:
        return 0.3 + turn / 1000

    return {
        "one row, id = v": both(lambda turn: f"id = {turn * 37}", "id == v", lambda turn: {"v": turn * 37}),
        "range of 1 %": both(
            lambda turn: f"energy >= {low(turn)} and energy < {low(turn) + 0.01}",
            "(energy >= low) & (energy < high)",
            lambda turn: {"low": low(turn), "high": low(turn) + 0.01},
        ),
        "two columns, 5 %": both(
            lambda turn: f"energy < {low(turn) / 3} and price < 0.5",
            "(energy < high) & (price < half)",
            lambda turn: {"high": low(turn) / 3, "half": np.float32(0.5)},
        ),
    }  # fmt: skip


def reads(own: cn.Table, dataset: Any, theirs: Any) -> dict[str, Ask]:
    """Three members of all rows, as each reads them."""
    return {
        OWN: lambda _turn: own.select(*READ).to_arrow(),
        H5PY: lambda _turn: dataset.fields(list(READ))[:],
        PYTABLES: lambda _turn: {name: theirs.read(field=name) for name in READ},
    }


def columns_of(answer: Any, names: tuple[str, ...]) -> list[list[Any]]:
    """An answer as lists of plain values, one per column; strings as bytes."""
    columns = [answer[name] for name in names]
    listed = [column.tolist() if isinstance(column, np.ndarray) else column.to_pylist() for column in columns]
    return [[value.encode() if isinstance(value, str) else value for value in values] for values in listed]


def compare(title: str, asked: Mapping[str, Ask], names: tuple[str, ...], times: int) -> None:
    """Ask all in turns, after their answers were compared, and print the times."""
    for turn in range(2):
        answers = {name: columns_of(ask(turn), names) for name, ask in asked.items()}
        if any(answer != answers[OWN] for answer in answers.values()):
            raise SystemExit(f"{title}: the answers differ")
    turns = dict.fromkeys(asked, 2)

    def run(name: str) -> Took:
        taken = Took()
        turns[name] += 1
        with timed(taken):
            asked[name](turns[name])
        return taken

    runs = run_in_turns({name: partial(run, name) for name in asked}, times)
    print_table(title, runs, {OWN: H5PY if H5PY in asked else PYTABLES})


def main(arguments: list[str]) -> int:
    import tables

    parser = argparse.ArgumentParser(prog="python -m bench.foreign", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=7, help="runs of each; the best one counts")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        for is_indexed in (False, True):
            path, indexed = Path(folder, "ours.h5"), Path(folder, "theirs.h5")
            write_table(path, asked.rows, is_indexed=False)
            write_table(indexed, asked.rows, is_indexed)
            if is_indexed:
                with cn.open(path, "r+") as file:
                    file["events"].build_index(dict.fromkeys(INDEXED, "sorted_rows"))
            with cn.open(path) as own, tables.open_file(indexed) as theirs:
                for title, asking in searches(own["events"], theirs.root.events, asked.rows).items():
                    words = "with indexes" if is_indexed else "without indexes"
                    compare(f"{title}, {words}, {asked.rows:,} rows", asking, COLUMNS, asked.times)
        for words, filters in (("not compressed", {}), ("deflate", {"compression": 1, "shuffle": True})):
            path = Path(folder, "records.h5")
            write_compound(path, asked.rows, filters)
            with cn.open(path) as own, h5py.File(path) as library, tables.open_file(path) as theirs:
                asking = reads(own["records"], library["records"], theirs.root.records)
                compare(f"3 of 30 members, {words}, {asked.rows:,} rows", asking, READ, asked.times)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
