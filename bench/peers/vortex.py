"""Vortex: one file with the compressor's own choice of encodings, mapped into memory.

The compact encodings (`VortexWriteOptions.compact`) were smaller by a fifth and two to eight times slower. Text leaves
as Arrow views; where codes serve better (a dictionary, groups), the scan is asked for a dictionary type.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from bench.peers.base import Answer, Note, Peer, Sizes, made_once
from bench.peers.pyarrow import means
from bench.workload import SCHEMA, Workload


class Vortex(Peer):
    name: ClassVar[str] = "vortex"
    family: ClassVar[str] = "Vortex"
    packages: ClassVar[tuple[str, ...]] = ("vortex-data",)
    layout: ClassVar[str] = "a Vortex file as it comes"

    def prepare(self, folder: Path, workload: Workload, note: Note = lambda _said: None) -> None:
        import vortex
        import vortex.expr

        self.vx, self.expr = vortex, vortex.expr
        vortex.set_worker_threads(self.threads - 1)  # in addition to the thread that asks

        def make(place: Path) -> Sizes:
            vortex.io.write(workload.reader(), str(place / "events.vortex"))
            return Sizes((place / "events.vortex").stat().st_size)

        self.made = made_once(folder, self.name, [Path(__file__), str(self.versions())], make, note)
        self.file = vortex.open(str(self.made.folder / "events.vortex"), memory_map=True)

    def close(self) -> None:
        del self.file

    def scan(self, column: str) -> Answer:
        return self.file.to_arrow([column]).read_all().column(0)

    def scan_dictionary(self, column: str) -> Answer:
        schema = pa.schema({column: pa.dictionary(pa.int32(), pa.string())})
        return self.file.to_arrow([column], schema=schema).read_all().column(0)

    def mean(self, column: str) -> Answer:
        return pc.mean(self.scan(column)).as_py()

    def between(self, column: str, low: int, high: int, columns: Sequence[str]) -> Answer:
        named = self.expr.column(column)
        return self.file.to_arrow(list(columns), expr=(named >= low) & (named < high)).read_all()

    def equal(self, column: str, value: int | str, columns: Sequence[str]) -> Answer:
        return self.file.to_arrow(list(columns), expr=self.is_equal(column, value)).read_all()

    def count(self, column: str, value: str) -> Answer:
        return sum(batch.num_rows for batch in self.file.to_arrow([], expr=self.is_equal(column, value)))

    def over_and_equal(self, over: tuple[str, float], equal: tuple[str, str], columns: Sequence[str]) -> Answer:
        wanted = (self.expr.column(over[0]) > over[1]) & self.is_equal(*equal)
        return self.file.to_arrow(list(columns), expr=wanted).read_all()

    def mean_by(self, column: str, by: str) -> Answer:
        schema = pa.schema({by: pa.dictionary(pa.uint8(), pa.string()), column: pa.float64()})
        rows = self.file.to_arrow([by, column], schema=schema).read_all().unify_dictionaries()
        return means(rows.group_by(by).aggregate([(column, "mean")]), by)

    def write(self, rows: pa.Table, path: Path) -> Answer:
        self.vx.io.write(rows, str(path))
        return True

    def append(self, batches: Sequence[pa.RecordBatch], path: Path) -> Answer:
        path.mkdir()
        for number, batch in enumerate(batches):
            self.vx.io.write(pa.table(batch), str(path / f"{number:05d}.vortex"))
        return True

    def read_back(self, path: Path) -> pa.Table:
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        return pa.concat_tables([self.vx.open(str(file)).to_arrow().read_all() for file in files])

    def is_equal(self, column: str, value: int | str) -> Any:
        """Vortex compares values of one type only: a number must be of the column's width."""
        if SCHEMA.field(column).type == pa.int32():
            return self.expr.column(column) == self.expr.literal(self.vx.int_(32, nullable=True), value)
        return self.expr.column(column) == value
