"""h5col, the reference implementation of the later revision of HEP001; it is installed from its repository.

Written from its documentation: `Table.from_arrow`, `select(...).read(...)`, `build_index`. Text comes as NumPy arrays.
Names are kept as fixed-length text, labels by categories; indexes CHUNK_MINMAX and SORTED_ROWS of ts, SORTED_ROWS of
id and name, BITMAP of label.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from bench.peers.base import Answer, Note, Peer, Sizes, made_once
from bench.peers.pyarrow import means
from bench.workload import Workload

CHUNK_ROWS = 65_536
INDEXES = (
    ("ts", "CHUNK_MINMAX"),
    ("ts", "SORTED_ROWS"),
    ("id", "SORTED_ROWS"),
    ("name", "SORTED_ROWS"),
    ("label", "BITMAP"),
)


class H5Col(Peer):
    name: ClassVar[str] = "h5col"
    family: ClassVar[str] = "h5col"
    packages: ClassVar[tuple[str, ...]] = ("h5col", "h5py")
    layout: ClassVar[str] = "an H5Col table, chunks of 65,536 rows, indexes of ts, id, name and label"

    def prepare(self, folder: Path, workload: Workload, note: Note = lambda _said: None) -> None:
        import h5col
        import h5py

        self.h5col, self.h5 = h5col, h5py

        def make(place: Path) -> Sizes:
            path = place / "events.h5"
            self.store(pa.Table.from_batches(list(workload.batches())), path)
            data = path.stat().st_size
            with h5py.File(path, "r+") as file:
                table = h5col.Table.open(file["events"])
                for column, kind in INDEXES:
                    table.build_index(column, kind)
            return Sizes(data, path.stat().st_size - data)

        self.made = made_once(folder, self.name, [Path(__file__), str(self.versions())], make, note)
        self.file = h5py.File(self.made.folder / "events.h5")
        self.table = h5col.Table.open(self.file["events"])

    def close(self) -> None:
        self.file.close()

    def store(self, rows: pa.Table, path: Path) -> None:
        rows = rows.set_column(rows.column_names.index("label"), "label", rows["label"].dictionary_encode())
        specs = self.h5col.specs_from_arrow(rows)
        for spec in specs:
            spec.chunks = CHUNK_ROWS
        with self.h5.File(path, "w") as file:
            self.h5col.Table.from_arrow(file.create_group("events"), rows, specs=specs)

    def scan(self, column: str) -> Answer:
        values = self.table[column].read(masked=False)
        return pa.array(values.tolist(), pa.string()) if column == "name" else values

    def mean(self, column: str) -> Answer:
        return float(np.mean(self.table[column].read(masked=False)))

    def between(self, column: str, low: int, high: int, columns: Sequence[str]) -> Answer:
        named = self.h5col.field(column)
        return self.read((named >= low) & (named < high), columns)

    def equal(self, column: str, value: int | str, columns: Sequence[str]) -> Answer:
        return self.read(self.h5col.field(column) == value, columns)

    def count(self, column: str, value: str) -> Answer:
        return self.table.count(self.h5col.field(column) == value)

    def over_and_equal(self, over: tuple[str, float], equal: tuple[str, str], columns: Sequence[str]) -> Answer:
        return self.read((self.h5col.field(over[0]) > over[1]) & (self.h5col.field(equal[0]) == equal[1]), columns)

    def read(self, wanted: Any, columns: Sequence[str]) -> dict[str, Any]:
        return dict(self.table.select(wanted).read(list(columns), masked=False))

    def mean_by(self, column: str, by: str) -> Answer:
        rows = self.table.to_arrow([by, column])
        return means(rows.group_by(by).aggregate([(column, "mean")]), by)

    def write(self, rows: pa.Table, path: Path) -> Answer:
        self.store(rows, path)
        return True

    def read_back(self, path: Path) -> pa.Table:
        with self.h5.File(path) as file:
            return self.h5col.Table.open(file["events"]).to_arrow()
