"""Polars over Parquet files: lazy frames, so that columns and rows are chosen before anything is read.

Columns leave with `CompatLevel.newest()`: text as Arrow views, which spares a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from bench.peers import parquet
from bench.peers.base import Answer, Note, Peer
from bench.workload import Range, Workload


class _Polars(Peer):
    family: ClassVar[str] = "Polars / Parquet"
    packages: ClassVar[tuple[str, ...]] = ("polars",)
    kind: ClassVar[str]

    def prepare(self, folder: Path, workload: Workload, note: Note = lambda _said: None) -> None:
        import polars

        self.pl = polars
        self.made = parquet.made(folder, self.kind, workload, note)
        self.frame = polars.scan_parquet(self.made.folder / parquet.FILE)

    def arrow(self, frame: Any) -> pa.Table:
        return frame.collect().to_arrow(compat_level=self.pl.CompatLevel.newest())

    def scan(self, column: str) -> Answer:
        return self.arrow(self.frame.select(column)).column(0)

    def scan_dictionary(self, column: str) -> Answer:
        return self.arrow(self.frame.select(self.pl.col(column).cast(self.pl.Categorical))).column(0)

    def scan_plain(self, column: str) -> Answer:
        frame = self.frame.select(column).collect()
        return frame.to_arrow(compat_level=self.pl.CompatLevel.oldest()).column(0).cast(pa.string())

    def scan_numpy(self, column: str) -> Answer:
        return self.frame.select(column).collect()[column].to_numpy()

    def mean(self, column: str) -> Answer:
        return self.frame.select(self.pl.col(column).mean()).collect().item()

    def between(self, column: str, low: int, high: int, columns: Sequence[str]) -> Answer:
        named = self.pl.col(column)
        return self.arrow(self.frame.filter(named >= low, named < high).select(columns))

    def equal(self, column: str, value: int | str, columns: Sequence[str]) -> Answer:
        return self.arrow(self.frame.filter(self.pl.col(column) == value).select(columns))

    def among(self, column: str, values: Sequence[int], columns: Sequence[str]) -> Answer:
        wanted = self.pl.Series(values, dtype=self.pl.Int32)
        return self.arrow(self.frame.filter(self.pl.col(column).is_in(wanted.implode())).select(columns))

    def sorted_by(self, column: str, columns: Sequence[str]) -> Answer:
        return self.arrow(self.frame.select(columns).sort(column))

    def top(self, column: str, n: int, columns: Sequence[str]) -> Answer:
        return self.arrow(self.frame.select(columns).sort(column, descending=True).head(n))

    def count(self, column: str, value: str) -> Answer:
        return self.frame.filter(self.pl.col(column) == value).select(self.pl.len()).collect().item()

    def over_and_equal(self, over: tuple[str, float], equal: tuple[str, str], columns: Sequence[str]) -> Answer:
        wanted = self.frame.filter(self.pl.col(over[0]) > over[1], self.pl.col(equal[0]) == equal[1])
        return self.arrow(wanted.select(columns))

    def mean_by(self, column: str, by: str) -> Answer:
        return dict(self.frame.group_by(by).agg(self.pl.col(column).mean()).collect().iter_rows())

    def write(self, rows: pa.Table, path: Path) -> Answer:
        frame = self.pl.DataFrame(rows)
        if self.kind == "default":
            frame.write_parquet(path)
        else:
            frame.write_parquet(path, compression="lz4", row_group_size=parquet.GROUP_ROWS[self.kind])
        return True

    def append(self, batches: Sequence[pa.RecordBatch], path: Path) -> Answer:
        path.mkdir()
        for number, batch in enumerate(batches):
            self.pl.DataFrame(batch).write_parquet(parquet.part(path, number), compression="lz4")
        return True

    def delete_below(self, column: str, limit: float, path: Path) -> Answer:
        aside = path.with_name(f"{path.name}.part")
        self.pl.scan_parquet(path).filter(self.pl.col(column) >= limit).sink_parquet(aside)
        aside.rename(path)
        return True

    def between_in_files(
        self, asked: Sequence[tuple[Path, Range]], column: str, columns: Sequence[str]
    ) -> list[Answer]:
        named = self.pl.col(column)
        return [
            self.arrow(self.pl.scan_parquet(path).filter(named >= wanted.low, named < wanted.high).select(columns))
            for path, wanted in asked
        ]

    def read_back(self, path: Path) -> pa.Table:
        return self.arrow(self.pl.scan_parquet(path))


class PolarsDefault(_Polars):
    name: ClassVar[str] = "polars-parquet"
    kind: ClassVar[str] = "default"
    layout: ClassVar[str] = parquet.WORDS["default"]


class PolarsSmall(_Polars):
    name: ClassVar[str] = "polars-parquet-small"
    kind: ClassVar[str] = "small"
    layout: ClassVar[str] = parquet.WORDS["small"]


class PolarsLarge(_Polars):
    name: ClassVar[str] = "polars-parquet-large"
    kind: ClassVar[str] = "large"
    layout: ClassVar[str] = parquet.WORDS["large"]
