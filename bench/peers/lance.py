"""Lance: a dataset with scalar indexes: BTREE of ts, id and name, BITMAP of label (its manual's advice for each).

Sums and groups are made by pyarrow on the columns: Lance's own SQL took longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc

from bench.peers.base import Answer, Note, Peer, Sizes, bytes_under, made_once
from bench.peers.pyarrow import means
from bench.workload import Workload

VERSION: Literal["2.1"] = "2.1"  # scans numbers in half the time that "stable" takes
INDEXES: dict[str, Any] = {"ts": "BTREE", "id": "BTREE", "name": "BTREE", "label": "BITMAP"}


class Lance(Peer):
    name: ClassVar[str] = "lance"
    family: ClassVar[str] = "Lance + indexes"
    packages: ClassVar[tuple[str, ...]] = ("pylance",)
    layout: ClassVar[str] = "a Lance dataset (2.1) with BTREE of ts, id and name, BITMAP of label"

    def prepare(self, folder: Path, workload: Workload, note: Note = lambda _said: None) -> None:
        import lance

        self.lance = lance

        def make(place: Path) -> Sizes:
            dataset = lance.write_dataset(workload.reader(), place / "events.lance", data_storage_version=VERSION)
            data = bytes_under(place)
            for column, kind in INDEXES.items():
                dataset.create_scalar_index(column, kind)
            return Sizes(data, bytes_under(place) - data)

        self.made = made_once(folder, self.name, [Path(__file__), str(self.versions())], make, note)
        self.dataset = lance.dataset(self.made.folder / "events.lance")

    def close(self) -> None:
        del self.dataset

    def scan(self, column: str) -> Answer:
        return self.dataset.to_table([column]).column(0)

    def mean(self, column: str) -> Answer:
        return pc.mean(self.scan(column)).as_py()

    def between(self, column: str, low: int, high: int, columns: Sequence[str]) -> Answer:
        return self.dataset.to_table(list(columns), filter=f"{column} >= {low} and {column} < {high}")

    def equal(self, column: str, value: int | str, columns: Sequence[str]) -> Answer:
        return self.dataset.to_table(list(columns), filter=f"{column} = {value!r}")

    def count(self, column: str, value: str) -> Answer:
        return self.dataset.count_rows(f"{column} = {value!r}")

    def over_and_equal(self, over: tuple[str, float], equal: tuple[str, str], columns: Sequence[str]) -> Answer:
        # One row in three hundred: fetching what the BITMAP finds took longer than reading both columns.
        wanted = f"{over[0]} > {over[1]} and {equal[0]} = {equal[1]!r}"
        return self.dataset.scanner(list(columns), filter=wanted, use_scalar_index=False).to_table()

    def mean_by(self, column: str, by: str) -> Answer:
        return means(self.dataset.to_table([by, column]).group_by(by).aggregate([(column, "mean")]), by)

    def write(self, rows: pa.Table, path: Path) -> Answer:
        self.lance.write_dataset(rows, path, data_storage_version=VERSION)
        return True

    def append(self, batches: Sequence[pa.RecordBatch], path: Path) -> Answer:
        dataset = self.lance.write_dataset(pa.table(batches[0]), path, data_storage_version=VERSION)
        for batch in batches[1:]:
            dataset = self.lance.write_dataset(pa.table(batch), dataset, mode="append")
        return True

    def read_back(self, path: Path) -> pa.Table:
        return self.lance.dataset(path).to_table()
