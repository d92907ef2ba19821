"""DuckDB: over Parquet files of three layouts, and over its own file with indexes (ART).

Rows leave through `con.sql(...).to_arrow_table()`, which DuckDB names as the way without an extra copy. Over Parquet
the footers are kept in memory (`parquet_metadata_cache`); the order of rows is kept, as it is by default.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from bench.peers import parquet
from bench.peers.base import Answer, Note, Peer, Sizes, made_once
from bench.workload import Range, Workload

INDEXED = ("ts", "id", "name")  # label has 16 values: no index of DuckDB helps there


class _DuckDB(Peer):
    packages: ClassVar[tuple[str, ...]] = ("duckdb",)
    source: str
    con: Any

    def connect(self, path: Path | None = None, read_only: bool = False) -> Any:
        import duckdb

        connection = duckdb.connect(str(path) if path else ":memory:", read_only=read_only)
        connection.execute(f"set threads = {self.threads}")
        return connection

    def close(self) -> None:
        self.con.close()

    def ask(self, columns: str, rest: str = "") -> pa.Table:
        return self.con.sql(f"select {columns} from {self.source} {rest}").to_arrow_table()

    def scan(self, column: str) -> Answer:
        return self.ask(column).column(0)

    def scan_plain(self, column: str) -> Answer:
        return self.scan(column)  # of the type string already

    def scan_numpy(self, column: str) -> Answer:
        return self.con.sql(f"select {column} from {self.source}").fetchnumpy()[column]

    def mean(self, column: str) -> Answer:
        return self.con.sql(f"select avg({column}) from {self.source}").fetchall()[0][0]

    def between(self, column: str, low: int, high: int, columns: Sequence[str]) -> Answer:
        return self.ask(", ".join(columns), f"where {column} >= {low} and {column} < {high}")

    def equal(self, column: str, value: int | str, columns: Sequence[str]) -> Answer:
        return self.ask(", ".join(columns), f"where {column} = {quoted(value)}")

    def among(self, column: str, values: Sequence[int], columns: Sequence[str]) -> Answer:
        self.con.register("wanted", pa.table({"value": pa.array(values, pa.int32())}))
        return self.ask(", ".join(columns), f"where {column} in (select value from wanted)")

    def sorted_by(self, column: str, columns: Sequence[str]) -> Answer:
        return self.ask(", ".join(columns), f"order by {column}")

    def top(self, column: str, n: int, columns: Sequence[str]) -> Answer:
        return self.ask(", ".join(columns), f"order by {column} desc limit {n}")

    def count(self, column: str, value: str) -> Answer:
        return self.con.sql(f"select count(*) from {self.source} where {column} = {quoted(value)}").fetchall()[0][0]

    def over_and_equal(self, over: tuple[str, float], equal: tuple[str, str], columns: Sequence[str]) -> Answer:
        return self.ask(", ".join(columns), f"where {over[0]} > {over[1]} and {equal[0]} = {quoted(equal[1])}")

    def mean_by(self, column: str, by: str) -> Answer:
        return dict(self.con.sql(f"select {by}, avg({column}) from {self.source} group by {by}").fetchall())


def quoted(value: int | str) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


class _OverParquet(_DuckDB):
    family: ClassVar[str] = "DuckDB / Parquet"
    kind: ClassVar[str]

    def prepare(self, folder: Path, workload: Workload, note: Note = lambda _said: None) -> None:
        self.made = parquet.made(folder, self.kind, workload, note)
        self.con = self.connect()
        self.con.execute("set parquet_metadata_cache = true")
        self.source = f"'{self.made.folder / parquet.FILE}'"

    def write(self, rows: pa.Table, path: Path) -> Answer:
        options = f", row_group_size {parquet.GROUP_ROWS[self.kind]}, compression lz4" if self.kind != "default" else ""
        with self.connect() as con:
            con.register("rows", rows)
            con.execute(f"copy (from rows) to '{path}' (format parquet{options})")
        return True

    def append(self, batches: Sequence[pa.RecordBatch], path: Path) -> Answer:
        path.mkdir()
        with self.connect() as con:
            for number, batch in enumerate(batches):
                con.register("rows", pa.table(batch))
                con.execute(f"copy (from rows) to '{parquet.part(path, number)}' (format parquet)")
        return True

    def delete_below(self, column: str, limit: float, path: Path) -> Answer:
        aside = path.with_name(f"{path.name}.part")
        with self.connect() as con:
            con.execute(f"copy (from read_parquet('{path}') where {column} >= {limit}) to '{aside}' (format parquet)")
        aside.rename(path)
        return True

    def between_in_files(
        self, asked: Sequence[tuple[Path, Range]], column: str, columns: Sequence[str]
    ) -> list[Answer]:
        return [
            self.con.sql(
                f"select {', '.join(columns)} from read_parquet('{path}') "
                f"where {column} >= {wanted.low} and {column} < {wanted.high}"
            ).to_arrow_table()
            for path, wanted in asked
        ]

    def read_back(self, path: Path) -> pa.Table:
        files = path / "*.parquet" if path.is_dir() else path
        with self.connect() as con:
            return con.sql(f"from read_parquet('{files}')").to_arrow_table()


class DuckDBDefault(_OverParquet):
    name: ClassVar[str] = "duckdb-parquet"
    kind: ClassVar[str] = "default"
    layout: ClassVar[str] = parquet.WORDS["default"]


class DuckDBSmall(_OverParquet):
    name: ClassVar[str] = "duckdb-parquet-small"
    kind: ClassVar[str] = "small"
    layout: ClassVar[str] = parquet.WORDS["small"]


class DuckDBLarge(_OverParquet):
    name: ClassVar[str] = "duckdb-parquet-large"
    kind: ClassVar[str] = "large"
    layout: ClassVar[str] = parquet.WORDS["large"]


class DuckDBNative(_DuckDB):
    """Its own file; ART indexes of ts, id and name, made after the rows, as its manual advises."""

    name: ClassVar[str] = "duckdb-native"
    family: ClassVar[str] = "DuckDB native + ART"
    layout: ClassVar[str] = "a DuckDB file with ART indexes of ts, id and name"
    source = "events"

    def prepare(self, folder: Path, workload: Workload, note: Note = lambda _said: None) -> None:
        def make(place: Path) -> Sizes:
            self.store(workload.reader(), place / "events.duckdb")
            data = (place / "events.duckdb").stat().st_size
            with self.connect(place / "events.duckdb") as con:
                for column in INDEXED:
                    con.execute(f"create index {column}_art on events ({column})")
                con.execute("checkpoint")
            return Sizes(data, (place / "events.duckdb").stat().st_size - data)

        self.made = made_once(folder, self.name, [Path(__file__), str(self.versions())], make, note)
        self.con = self.connect(self.made.folder / "events.duckdb", read_only=True)

    def store(self, rows: pa.Table | pa.RecordBatchReader, path: Path) -> None:
        with self.connect(path) as con:
            con.register("rows", rows)
            con.execute("create table events as from rows")
            con.execute("checkpoint")

    def write(self, rows: pa.Table, path: Path) -> Answer:
        self.store(rows, path)
        return True

    def append(self, batches: Sequence[pa.RecordBatch], path: Path) -> Answer:
        with self.connect(path) as con:
            for number, batch in enumerate(batches):
                con.register("rows", pa.table(batch))
                con.execute("insert into events from rows" if number else "create table events as from rows")
        return True

    def delete_below(self, column: str, limit: float, path: Path) -> Answer:
        with self.connect(path) as con:
            con.execute(f"delete from events where {column} < {limit}")
            con.execute("checkpoint")
        return True

    def between_in_files(
        self, asked: Sequence[tuple[Path, Range]], column: str, columns: Sequence[str]
    ) -> list[Answer]:
        connections, answers = [], []
        for path, wanted in asked:
            connections.append(self.connect(path, read_only=True))
            query = (
                f"select {', '.join(columns)} from events where {column} >= {wanted.low} and {column} < {wanted.high}"
            )
            answers.append(connections[-1].sql(query).to_arrow_table())
        for connection in connections:
            connection.close()
        return answers

    def read_back(self, path: Path) -> pa.Table:
        with self.connect(path, read_only=True) as con:
            return con.sql("from events").to_arrow_table()
