"""Updating indexes: an append of 10,000 rows to a table with a sorted index, and building a bitmap of categories.

    python -m bench.kept [--rows 5000000] [--appends 5]

Each library appends the same rows to a table whose int64 column has a sorted index, which must be correct when the
append returns. The keys either continue in order or are random. colonnade merges SORTED_ROWS; h5col maintains its own
index (`maintain_indexes=True`); PyTables updates its index as it appends, but sorts it completely only when it is
rebuilt, so it does less work. Parquet has no such index. Then colonnade and h5col build a BITMAP of a column of 3, 16,
64 and 256 categories. colonnade is measured with durability="fast", which like its peers does not wait for the disk,
and with the default, "full". h5col is left out if it cannot be imported. Exits 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa

import colonnade as cn
from bench.appends import find
from bench.timing import Took, print_table, print_verdict, run_in_turns, timed
from colonnade.pager.options import Durability

ROWS = 10_000
CHUNK_ROWS = 65_536
BITMAP_ROWS = 1_000_000  # besides --rows
FAST, DEFAULT = "colonnade, fast", "colonnade, full"  # by durability: "full", the default, waits for the disk
CATEGORIES = (3, 16, 64, 256)
HAS_H5COL = find_spec("h5col") is not None and find_spec("pydantic") is not None
Keys = np.ndarray[Any, np.dtype[np.int64]]


def next_keys(rng: np.random.Generator, n_rows: int, in_order: bool) -> Keys:
    return np.arange(n_rows, n_rows + ROWS) if in_order else rng.integers(0, 2**62, ROWS)


# -- appends: each peer opens its file once, and gives a function that appends keys and one that returns sorted rows --

Opened = tuple[Callable[[Keys], None], Callable[[], Keys], Callable[[], None]]


def open_colonnade(folder: Path, keys: Keys, durability: Durability) -> Opened:
    path = folder / f"colonnade-{durability}.h5"
    path.unlink(missing_ok=True)
    cn.write(path, {"x": keys}, "t", columns={"x": cn.column(filters="none")})
    file = cn.open(path, "r+", durability=durability)
    table = file["t"]
    table.build_index("x", "sorted_rows")

    def rows() -> Keys:
        assert table.indexes[0].trusted
        return np.asarray(file.h5["t/_search_indexes/x__sorted_rows"][:], dtype=np.int64)

    return lambda added: table.append({"x": added}), rows, file.close  # type: ignore[return-value]


def open_h5col(folder: Path, keys: Keys) -> Opened:
    h5col = find("h5col", "h5col")
    file = h5py.File(folder / "h5col.h5", "w")
    rows = pa.table({"x": keys})
    specs = h5col.specs_from_arrow(rows)
    for spec in specs:
        spec.chunks = CHUNK_ROWS
    table = h5col.Table.from_arrow(file.create_group("t"), rows, specs=specs)
    table.build_index("x", "SORTED_ROWS")

    def append(added: Keys) -> None:
        table.append({"x": added}, maintain_indexes=True)
        file.flush()

    def order() -> Keys:
        found: list[Keys] = []
        file["t"].visititems(lambda name, node: found.append(node[:]) if name.endswith("x__sorted_rows") else None)
        return found[0].astype(np.int64)

    return append, order, file.close


def open_pytables(folder: Path, keys: Keys) -> Opened:
    tables = find("tables", "tables")
    file = tables.open_file(folder / "pytables.h5", "w")
    records = file.create_table("/", "t", obj=np.rec.fromarrays([keys], names=["x"]))
    records.cols.x.create_csindex(tmp_dir=str(folder))

    def append(added: Keys) -> None:
        records.append(np.rec.fromarrays([added], names=["x"]))
        records.flush()

    return append, lambda: np.argsort(records.col("x"), kind="stable"), file.close  # it has no complete order


def measure_appends(folder: Path, n_rows: int, n_appends: int, in_order: bool) -> bool:
    rng = np.random.default_rng(1)
    keys = np.arange(n_rows) if in_order else rng.integers(0, 2**62, n_rows)
    makers: dict[str, Callable[[Path, Keys], Opened]] = {
        FAST: partial(open_colonnade, durability="fast"),
        DEFAULT: partial(open_colonnade, durability="full"),
        "PyTables": open_pytables,
    }
    if HAS_H5COL:
        makers["h5col"] = open_h5col
    opened = {name: make(folder, keys) for name, make in makers.items()}
    held = dict.fromkeys(opened, keys)

    def append(name: str) -> Took:
        took, added = Took(), next_keys(rng, len(held[name]), in_order)
        with timed(took):
            opened[name][0](added)
        held[name] = np.concatenate((held[name], added))
        return took

    runs = run_in_turns({name: partial(append, name) for name in opened}, n_appends)
    for name, (_, rows, close) in opened.items():
        if not np.array_equal(rows(), np.argsort(held[name], kind="stable")):
            raise SystemExit(f"{name}: its index is not in order")
        close()
    how = "in order" if in_order else "random"
    title = f"an append of {ROWS:,} rows, keys {how}, to {n_rows:,} with a sorted index (ratios: {FAST} is 1)"
    print_table(title, runs, {name: FAST for name in opened if name != FAST})
    if "h5col" not in runs:
        return True
    ratio = runs[FAST].best_cpu / runs["h5col"].best_cpu
    return print_verdict(f"{ratio:.2f} times the time of h5col, limit 1", ratio <= 1)


# -- bitmaps --


def build_ours(path: Path, durability: Durability) -> Took:
    took = Took()
    fresh = path.with_suffix(".fresh.h5")
    shutil.copyfile(path, fresh)
    with cn.open(fresh, "r+", durability=durability) as file:
        table = file["t"]
        with timed(took):
            table.build_index("label", "bitmap")
    return took


def build_h5col(path: Path, rows: pa.Table) -> Took:
    h5col = find("h5col", "h5col")
    specs = h5col.specs_from_arrow(rows)
    for spec in specs:
        spec.chunks = CHUNK_ROWS
    took = Took()
    with h5py.File(path, "w") as file:
        table = h5col.Table.from_arrow(file.create_group("t"), rows, specs=specs)
        file.flush()
        with timed(took):
            table.build_index("label", "BITMAP")
            file.flush()
    return took


def measure_bitmaps(folder: Path, n_rows: int, times: int) -> bool:
    met = []
    for n_categories in CATEGORIES:
        codes = np.random.default_rng(n_categories).zipf(1.5, n_rows) % n_categories
        words = [f"label {number:03d}" for number in range(n_categories)]
        rows = pa.table({"label": pa.DictionaryArray.from_arrays(pa.array(codes.astype("i4")), pa.array(words))})
        path = folder / f"bitmap-{n_rows}-{n_categories}.h5"
        cn.write(path, rows, "t")
        actions = {FAST: partial(build_ours, path, "fast"), DEFAULT: partial(build_ours, path, "full")}
        if HAS_H5COL:
            actions["h5col"] = partial(build_h5col, folder / "theirs.h5", rows)
        runs = run_in_turns(actions, times)
        title = f"a bitmap of {n_rows:,} rows of {n_categories} categories (ratios: {FAST} is 1)"
        print_table(title, runs, {name: FAST for name in runs if name != FAST})
        if HAS_H5COL:
            ratio = runs[FAST].best_cpu / runs["h5col"].best_cpu
            met.append(print_verdict(f"{ratio:.2f} times the time of h5col, limit 1", ratio <= 1))
    return all(met)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--appends", type=int, default=5, help="appends, and builds of each bitmap")
    asked = parser.parse_args(arguments)
    if not HAS_H5COL:
        print("h5col is not installed: it is left out")
    with tempfile.TemporaryDirectory() as folder:
        met = [measure_appends(Path(folder), asked.rows, asked.appends, in_order) for in_order in (True, False)]
        met += [measure_bitmaps(Path(folder), n_rows, asked.appends) for n_rows in (BITMAP_ROWS, asked.rows)]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
