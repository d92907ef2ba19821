"""colonnade through its public face: text by categories, filters as it chooses them, all four kinds of index.

What is written and appended in a race is stored as it chooses: labels by categories, names as text of a fixed length.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from bench.peers.base import Answer, Note, Peer, Sizes, made_once
from bench.peers.pyarrow import means
from bench.workload import Range, Workload

INDEXES = {
    "ts": ["sorted_rows", "chunk_minmax"],
    "energy": ["chunk_minmax"],  # as Parquet and DuckDB keep the bounds of every column
    "id": ["sorted_rows", "chunk_bloom"],
    "name": ["sorted_rows", "chunk_bloom"],
    "label": ["bitmap"],
}
_reused = False


def reuse_files() -> None:
    """From now on take a file that other sources of colonnade have written, too."""
    global _reused  # noqa: PLW0603 - a switch of the command line
    _reused = True


class Colonnade(Peer):
    name: ClassVar[str] = "colonnade"
    family: ClassVar[str] = "colonnade"
    packages: ClassVar[tuple[str, ...]] = ("colonnade",)
    layout: ClassVar[str] = "a HEP001 table, label and name by categories, indexes of ts, energy, id, name and label"

    def prepare(self, folder: Path, workload: Workload, note: Note = lambda _said: None) -> None:
        import colonnade

        self.cn = colonnade
        os.environ["COLONNADE_CACHE"] = str(folder / "receipts")  # trust is kept next to the files

        def make(place: Path) -> Sizes:
            path = place / "events.h5"
            colonnade.write(path, workload.reader(), table="events", columns=self.options(), index=INDEXES)
            with colonnade.open(path) as file:
                indexes = sum(index.bytes for index in file["events"].indexes)
            return Sizes(path.stat().st_size - indexes, indexes)

        marks: list[str | Path] = [Path(__file__), str(self.versions())]
        if not _reused:
            marks += sorted(Path(colonnade.__file__).parent.rglob("*.py"))
        self.made = made_once(folder, self.name, marks, make, note)
        self.file = colonnade.open(self.made.folder / "events.h5")
        self.table = self.file["events"]
        if not all(index.trusted for index in self.table.indexes):  # the receipts know the file by its place
            note("verifying indexes: colonnade")
            if self.table.verify_indexes():
                raise RuntimeError("an index of colonnade does not match its column")

    def options(self) -> dict[str, Any]:
        return {"name": self.cn.column(strings="categories")}  # labels are stored as categories by default

    def close(self) -> None:
        self.file.close()

    def scan(self, column: str) -> Answer:
        return self.table[column].to_arrow(views=True)

    def scan_dictionary(self, column: str) -> Answer:
        return self.table[column].to_arrow(dictionaries=True)

    def scan_plain(self, column: str) -> Answer:
        return self.table[column].to_arrow()

    def scan_numpy(self, column: str) -> Answer:
        return self.table[column].to_numpy(strings="bytes")

    def mean(self, column: str) -> Answer:
        return self.table.aggregate(mean=(column, "mean"))["mean"]

    def between(self, column: str, low: int, high: int, columns: Sequence[str]) -> Answer:
        named = self.cn.col(column)
        return self.table.where((named >= low) & (named < high)).select(columns).to_arrow()

    def equal(self, column: str, value: int | str, columns: Sequence[str]) -> Answer:
        return self.table.where(self.cn.col(column) == value).select(columns).to_arrow()

    def among(self, column: str, values: Sequence[int], columns: Sequence[str]) -> Answer:
        return self.table.where(self.cn.col(column).is_in(values)).select(columns).to_arrow()

    def sorted_by(self, column: str, columns: Sequence[str]) -> Answer:
        return self.table.select(columns).sort_by(column).to_arrow()

    def top(self, column: str, n: int, columns: Sequence[str]) -> Answer:
        return self.table.select(columns).sort_by((column, "descending")).head(n).to_arrow()

    def count(self, column: str, value: str) -> Answer:
        return self.table.where(self.cn.col(column) == value).count()

    def over_and_equal(self, over: tuple[str, float], equal: tuple[str, str], columns: Sequence[str]) -> Answer:
        wanted = (self.cn.col(over[0]) > over[1]) & (self.cn.col(equal[0]) == equal[1])
        return self.table.where(wanted).select(columns).to_arrow()

    def mean_by(self, column: str, by: str) -> Answer:
        return means(self.table.aggregate(mean=(column, "mean"), by=by), by)

    def write(self, rows: pa.Table, path: Path) -> Answer:
        with self.cn.open(path, "w", durability="fast") as file:  # no peer syncs either
            file.create("events", rows)
        return True

    def append(self, batches: Sequence[pa.RecordBatch], path: Path) -> Answer:
        self.write(pa.table(batches[0]), path)
        return self._append(batches[1:], path)

    def _append(self, batches: Sequence[pa.RecordBatch], path: Path) -> Answer:
        with self.cn.open(path, "r+", durability="fast") as file:
            table = file["events"]
            for batch in batches:
                table.append(batch)
        return True

    def write_plain(self, rows: pa.Table, path: Path) -> Answer:
        plain = {name: self.cn.column(filters="none") for name in rows.column_names}
        with self.cn.open(path, "w", durability="fast") as file:
            file.create("events", rows, columns=plain)
        return True

    def append_plain(self, batches: Sequence[pa.RecordBatch], path: Path) -> Answer:
        self.write_plain(pa.table(batches[0]), path)
        return self._append(batches[1:], path)

    def delete_below(self, column: str, limit: float, path: Path) -> Answer:
        with self.cn.open(path, "r+", durability="fast") as file:
            file["events"].delete(self.cn.col(column) < limit)
        return True

    def between_in_files(
        self, asked: Sequence[tuple[Path, Range]], column: str, columns: Sequence[str]
    ) -> list[Answer]:
        named = self.cn.col(column)
        files, answers = [], []
        for path, wanted in asked:
            files.append(self.cn.open(path))
            chosen = files[-1]["events"].where((named >= wanted.low) & (named < wanted.high))
            answers.append(chosen.select(columns).to_arrow())
        for file in files:
            file.close()
        return answers

    def read_back(self, path: Path) -> pa.Table:
        return self.cn.read(path, "events")
