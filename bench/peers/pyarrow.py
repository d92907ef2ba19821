"""pyarrow over Parquet files: `ParquetFile` for whole columns (it was faster), `dataset` where rows are chosen.

Files are mapped into memory. Means by group read text as dictionaries (`read_dictionary`), which groups faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from bench.peers import parquet
from bench.peers.base import Answer, Note, Peer
from bench.workload import Range, Workload


class _PyArrow(Peer):
    family: ClassVar[str] = "pyarrow / Parquet"
    packages: ClassVar[tuple[str, ...]] = ("pyarrow",)
    kind: ClassVar[str]

    def prepare(self, folder: Path, workload: Workload, note: Note = lambda _said: None) -> None:
        self.made = parquet.made(folder, self.kind, workload, note)
        path = self.made.folder / parquet.FILE
        self.file = pq.ParquetFile(path, memory_map=True)
        self.by_dictionary = pq.ParquetFile(path, memory_map=True, read_dictionary=["label", "name"])
        self.dataset = ds.dataset(path)

    def close(self) -> None:
        self.file.close()
        self.by_dictionary.close()

    def scan(self, column: str) -> Answer:
        return self.file.read([column]).column(0)

    def scan_dictionary(self, column: str) -> Answer:
        return self.by_dictionary.read([column]).column(0)

    def scan_plain(self, column: str) -> Answer:
        return self.scan(column)

    def scan_numpy(self, column: str) -> Answer:
        return self.scan(column).to_numpy()

    def mean(self, column: str) -> Answer:
        return pc.mean(self.file.read([column]).column(0)).as_py()

    def between(self, column: str, low: int, high: int, columns: Sequence[str]) -> Answer:
        named = ds.field(column)
        return self.dataset.to_table(list(columns), filter=(named >= low) & (named < high))

    def equal(self, column: str, value: int | str, columns: Sequence[str]) -> Answer:
        return self.dataset.to_table(list(columns), filter=ds.field(column) == value)

    def among(self, column: str, values: Sequence[int], columns: Sequence[str]) -> Answer:
        wanted = ds.field(column).isin(pa.array(values, pa.int32()))
        return self.dataset.to_table(list(columns), filter=wanted)

    def sorted_by(self, column: str, columns: Sequence[str]) -> Answer:
        return self.file.read(list(columns)).sort_by(column)

    def top(self, column: str, n: int, columns: Sequence[str]) -> Answer:
        rows = self.file.read(list(columns))
        return rows.take(pc.select_k_unstable(rows, n, [(column, "descending")]))

    def count(self, column: str, value: str) -> Answer:
        return self.dataset.count_rows(filter=ds.field(column) == value)

    def over_and_equal(self, over: tuple[str, float], equal: tuple[str, str], columns: Sequence[str]) -> Answer:
        wanted = (ds.field(over[0]) > over[1]) & (ds.field(equal[0]) == equal[1])
        return self.dataset.to_table(list(columns), filter=wanted)

    def mean_by(self, column: str, by: str) -> Answer:
        rows = self.by_dictionary.read([by, column]).unify_dictionaries()
        return means(rows.group_by(by).aggregate([(column, "mean")]), by)

    def write(self, rows: pa.Table, path: Path) -> Answer:
        options = parquet.OPTIONS[self.kind]
        pq.write_table(rows, path, row_group_size=parquet.GROUP_ROWS[self.kind], **options)
        return True

    def append(self, batches: Sequence[pa.RecordBatch], path: Path) -> Answer:
        path.mkdir()
        options = {name: value for name, value in parquet.OPTIONS[self.kind].items() if name != "bloom_filter_options"}
        for number, batch in enumerate(batches):
            pq.write_table(pa.table(batch), parquet.part(path, number), **options)
        return True

    def delete_below(self, column: str, limit: float, path: Path) -> Answer:
        aside = path.with_name(f"{path.name}.part")
        pq.write_table(pq.read_table(path, filters=ds.field(column) >= limit), aside, **parquet.OPTIONS[self.kind])
        aside.rename(path)
        return True

    def between_in_files(
        self, asked: Sequence[tuple[Path, Range]], column: str, columns: Sequence[str]
    ) -> list[Answer]:
        named = ds.field(column)
        return [
            pq.read_table(path, columns=list(columns), filters=(named >= wanted.low) & (named < wanted.high))
            for path, wanted in asked
        ]

    def read_back(self, path: Path) -> pa.Table:
        return ds.dataset(path).to_table()


def means(grouped: pa.Table, by: str) -> dict[str, float]:
    """A table of groups and one mean each, as a dict."""
    values = next(name for name in grouped.column_names if name != by)
    return dict(zip(grouped.column(by).to_pylist(), grouped.column(values).to_pylist(), strict=True))


class PyArrowDefault(_PyArrow):
    name: ClassVar[str] = "pyarrow-parquet"
    kind: ClassVar[str] = "default"
    layout: ClassVar[str] = parquet.WORDS["default"]


class PyArrowSmall(_PyArrow):
    name: ClassVar[str] = "pyarrow-parquet-small"
    kind: ClassVar[str] = "small"
    layout: ClassVar[str] = parquet.WORDS["small"]


class PyArrowLarge(_PyArrow):
    name: ClassVar[str] = "pyarrow-parquet-large"
    kind: ClassVar[str] = "large"
    layout: ClassVar[str] = parquet.WORDS["large"]
