"""Building search indexes of 10 million rows against PyTables' CSI, and the chunks that a point query on them reads.

    python -m bench.indexes [--rows 10000000] [--times 3]

colonnade builds all four kinds: CHUNK_MINMAX, SORTED_ROWS and CHUNK_BLOOM of a column of random int64, and
BITMAP of an int64 column of 64 values (PyTables has no such index). PyTables builds one completely
sorted index (CSI) of the same random column. Both have already written the column, without filters. Then the
same values are looked up in each, and the answers are compared. Exits 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import colonnade as cn
from bench.appends import find
from bench.timing import Took, print_table, print_verdict, run_in_turns, timed
from colonnade.columns.read import ColumnReader

LOOKUPS = 50
LIMITS = {("sorted_rows",): 25, ("chunk_minmax", "chunk_bloom"): 2}  # chunks of the column, in the typical case
KINDS = {"id": ["chunk_minmax", "sorted_rows", "chunk_bloom"], "channel": ["bitmap"]}


def make_columns(n_rows: int) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    return {"id": rng.integers(0, 2**62, n_rows), "channel": rng.integers(0, 64, n_rows)}


def build_ours(path: Path) -> Took:
    took = Took()
    with cn.open(path, "r+", durability="fast") as file, timed(took):
        file["t"].build_index(KINDS)
    return took


def build_theirs(path: Path) -> Took:
    tables = find("tables", "tables")
    took = Took()
    with tables.open_file(path, "a") as file:
        column = file.root.t.cols.id
        if column.is_indexed:
            column.remove_index()
        with timed(took):
            column.create_csindex(tmp_dir=str(path.parent))
    return took


def write_both(folder: Path, columns: dict[str, Any]) -> tuple[Path, Path]:
    ours, theirs = folder / "ours.h5", folder / "theirs.h5"
    cn.write(ours, columns, "t", columns=dict.fromkeys(columns, cn.column(filters="none")))
    tables = find("tables", "tables")
    records = np.rec.fromarrays(list(columns.values()), names=list(columns))
    with tables.open_file(theirs, "w") as file:
        file.create_table("/", "t", obj=records)
    return ours, theirs


class ChunksRead:
    """Counts the distinct chunks of a column that are read while it is active."""

    def __init__(self) -> None:
        self.chunks: set[tuple[str, int]] = set()
        self._keys, self._read = ColumnReader.keys, ColumnReader.read

    def __enter__(self) -> ChunksRead:
        def noting(original: Any) -> Any:
            def wrapped(reader: ColumnReader, start: int, count: int, *rest: Any) -> Any:
                rows = reader.column.grid.chunk_rows
                self.chunks |= {(reader.column.name, n) for n in range(start // rows, -(-(start + count) // rows))}
                return original(reader, start, count, *rest)

            return wrapped

        ColumnReader.keys = noting(self._keys)  # type: ignore[method-assign]
        ColumnReader.read = noting(self._read)  # type: ignore[method-assign]
        return self

    def __exit__(self, *_error: object) -> None:
        ColumnReader.keys, ColumnReader.read = self._keys, self._read  # type: ignore[method-assign]


def count_chunks(path: Path, kinds: tuple[str, ...], values: list[int]) -> list[int]:
    """The number of chunks of the column that each look-up reads, with indexes of only these kinds."""
    with cn.open(path) as file:
        table = file["t"]
        wanted = [
            (opened.info, opened.index)
            for opened in table._indexes().open()
            if opened.info.kind in kinds and opened.info.column == "id" and opened.index is not None
        ]
        counts = []
        for value in values:
            query = table.where(cn.col("id") == value)
            search = query._search()
            search._planner._by_column = {"id": wanted}
            with ChunksRead() as seen:
                if not len(search.rows()):
                    raise SystemExit(f"{value} was not found")
            counts.append(len(seen.chunks))
    return counts


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--times", type=int, default=3)
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        columns = make_columns(asked.rows)
        ours, theirs = write_both(Path(folder), columns)
        actions = {"colonnade, four kinds": partial(build_ours, ours), "PyTables, CSI": partial(build_theirs, theirs)}
        runs = run_in_turns(actions, asked.times)
        print_table(f"indexes of {asked.rows:,} rows", runs, {"PyTables, CSI": "colonnade, four kinds"})
        ratio = runs["colonnade, four kinds"].best_cpu / runs["PyTables, CSI"].best_cpu
        met = [print_verdict(f"CPU time {ratio:.2f} times that of PyTables, limit 1", ratio <= 1)]
        values = columns["id"][np.random.default_rng(2).integers(0, asked.rows, LOOKUPS)].tolist()
        for kinds, most in LIMITS.items():
            counts = count_chunks(ours, kinds, values)
            summary = f"{' and '.join(kinds)}: a look-up reads {np.median(counts):.0f} chunks, {max(counts)} at most"
            met.append(print_verdict(f"{summary}; limit {most} in the typical case", float(np.median(counts)) <= most))
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
