"""PyTables: a table of records with completely sorted indexes (CSI) of ts, id and name.

Not compressed: with Blosc the file was a quarter smaller and small ranges faster, scans three times as long (1M rows).
Labels are kept as numbers of an enumeration, as its manual advises. What it has no words for (means by group) is done
in NumPy on columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from bench.peers.base import Answer, Note, Peer, Sizes, made_once
from bench.peers.records import CODES, NAME_BYTES, label_codes, padded
from bench.workload import LABELS, Range, Workload

INDEXED = ("ts", "id", "name")
DTYPE = np.dtype(
    [
        ("ts", "<i8"),
        ("energy", "<f8"),
        ("id", "<i4"),
        ("label", "u1"),
        ("name", f"S{NAME_BYTES}"),
        ("flag", "?"),
        ("price", "<f4"),
    ]
)


def records(rows: pa.RecordBatch | pa.Table) -> np.ndarray[Any, Any]:
    """Rows as NumPy records."""
    filled = np.empty(rows.num_rows, DTYPE)
    for name in DTYPE.names or ():
        if name == "label":
            filled[name] = label_codes(rows[name])
        elif name == "name":
            filled[name] = padded(rows[name])
        else:
            filled[name] = np.asarray(rows[name])
    return filled


class PyTables(Peer):
    name: ClassVar[str] = "pytables"
    family: ClassVar[str] = "PyTables + CSI"
    packages: ClassVar[tuple[str, ...]] = ("tables",)
    layout: ClassVar[str] = "a table of records, not compressed, with CSI of ts, id and name"
    compression: ClassVar[str | None] = None

    def prepare(self, folder: Path, workload: Workload, note: Note = lambda _said: None) -> None:
        import tables

        self.tables = tables
        tables.set_blosc_max_threads(self.threads)

        def make(place: Path) -> Sizes:
            path = place / "events.h5"
            self.store(workload.batches(), path, workload.rows)
            data = path.stat().st_size
            with tables.open_file(path, "a") as file:
                for column in INDEXED:
                    getattr(file.root.events.cols, column).create_csindex(tmp_dir=str(place))
            return Sizes(data, path.stat().st_size - data)

        self.made = made_once(folder, self.name, [Path(__file__), str(self.versions())], make, note)
        self.file = tables.open_file(self.made.folder / "events.h5")
        self.table = self.file.root.events

    def close(self) -> None:
        self.file.close()

    def store(self, batches: Iterable[pa.RecordBatch | pa.Table], path: Path, rows: int) -> None:
        with self.tables.open_file(path, "w") as file:
            filters = self.tables.Filters(complevel=5, complib=self.compression) if self.compression else None
            table = file.create_table("/", "events", DTYPE, expectedrows=rows, filters=filters)
            for batch in batches:
                table.append(records(batch))
                table.flush()

    def scan(self, column: str) -> Answer:
        return self.table.read(field=column)

    def scan_numpy(self, column: str) -> Answer:
        return self.table.read(field=column)

    def mean(self, column: str) -> Answer:
        return float(self.table.read(field=column).mean())

    def between(self, column: str, low: int, high: int, columns: Sequence[str]) -> Answer:
        return self.where(f"({column} >= low) & ({column} < high)", {"low": low, "high": high}, columns)

    def equal(self, column: str, value: int | str, columns: Sequence[str]) -> Answer:
        stored = value.encode() if isinstance(value, str) else value
        return self.where(f"{column} == value", {"value": stored}, columns)

    def count(self, column: str, value: str) -> Answer:
        return len(self.table.get_where_list(f"{column} == value", {"value": LABELS.index(value)}))

    def over_and_equal(self, over: tuple[str, float], equal: tuple[str, str], columns: Sequence[str]) -> Answer:
        values = {"limit": over[1], "value": LABELS.index(equal[1])}
        return self.where(f"({over[0]} > limit) & ({equal[0]} == value)", values, columns)

    def where(self, condition: str, values: dict[str, Any], columns: Sequence[str]) -> dict[str, Any]:
        """Records lie together, so that all columns are read whatever is wanted."""
        found = self.table.read_where(condition, values)
        return {name: found[name] for name in columns}

    def mean_by(self, column: str, by: str) -> Answer:
        codes = self.table.read(field=by)
        sums = np.bincount(codes, weights=self.table.read(field=column), minlength=len(LABELS))
        counts = np.bincount(codes, minlength=len(LABELS))
        return {word: sums[code] / counts[code] for code, word in enumerate(LABELS) if counts[code]}

    def among(self, column: str, values: Sequence[int], columns: Sequence[str]) -> Answer:
        found = self.table.read_coordinates(np.flatnonzero(np.isin(self.table.read(field=column), values)))
        return {name: found[name] for name in columns}

    def sorted_by(self, column: str, columns: Sequence[str]) -> Answer:
        order = np.argsort(self.table.read(field=column))
        return {name: self.table.read(field=name)[order] for name in columns}

    def top(self, column: str, n: int, columns: Sequence[str]) -> Answer:
        keys = self.table.read(field=column)
        order = np.argpartition(keys, -n)[-n:]
        found = self.table.read_coordinates(order[np.argsort(-keys[order])])
        return {name: found[name] for name in columns}

    def write(self, rows: pa.Table, path: Path) -> Answer:
        if not self.compression:
            return None
        self.store([rows], path, rows.num_rows)
        return True

    def append(self, batches: Sequence[pa.RecordBatch], path: Path) -> Answer:
        if not self.compression:
            return None
        self.store(batches, path, sum(batch.num_rows for batch in batches))
        return True

    def write_plain(self, rows: pa.Table, path: Path) -> Answer:
        if self.compression:
            return None
        self.store([rows], path, rows.num_rows)
        return True

    def append_plain(self, batches: Sequence[pa.RecordBatch], path: Path) -> Answer:
        if self.compression:
            return None
        self.store(batches, path, sum(batch.num_rows for batch in batches))
        return True

    def delete_below(self, column: str, limit: float, path: Path) -> Answer:
        aside = path.with_name(f"{path.name}.part")  # it can remove ranges of rows only, one after the other
        with self.tables.open_file(path) as old, self.tables.open_file(aside, "w") as new:
            rows = old.root.events
            table = new.create_table("/", "events", DTYPE, expectedrows=rows.nrows, filters=rows.filters)
            rows.append_where(table, f"{column} >= limit", {"limit": limit})
        aside.rename(path)
        return True

    def between_in_files(
        self, asked: Sequence[tuple[Path, Range]], column: str, columns: Sequence[str]
    ) -> list[Answer]:
        files, answers = [], []
        for path, wanted in asked:
            files.append(self.tables.open_file(path))
            condition = f"({column} >= {wanted.low}) & ({column} < {wanted.high})"
            found = files[-1].root.events.read_where(condition)
            answers.append({name: found[name] for name in columns})
        for file in files:
            file.close()
        return answers

    def read_back(self, path: Path) -> dict[str, Any]:
        with self.tables.open_file(path) as file:
            found = file.root.events.read()
        return {
            name: CODES.take(pa.array(found[name])) if name == "label" else found[name] for name in DTYPE.names or ()
        }


class PyTablesBlosc(PyTables):
    """Compressed, as its manual advises: Blosc with LZ4 and its shuffle."""

    name: ClassVar[str] = "pytables-blosc"
    layout: ClassVar[str] = "a table of records, Blosc (LZ4, level 5), with CSI of ts, id and name"
    compression: ClassVar[str | None] = "blosc:lz4"
