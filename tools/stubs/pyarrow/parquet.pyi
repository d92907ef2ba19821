from collections.abc import Iterator
from os import PathLike
from typing import IO

from . import NativeFile, RecordBatch, Schema, Table

class FileMetaData:
    num_rows: int

class ParquetFile:
    schema_arrow: Schema
    metadata: FileMetaData
    def __init__(self, source: str | PathLike[str] | NativeFile) -> None: ...
    def iter_batches(self, batch_size: int = ...) -> Iterator[RecordBatch]: ...

class ParquetWriter:
    def __init__(self, where: str | PathLike[str] | NativeFile | IO[bytes], schema: Schema) -> None: ...
    def write_batch(self, batch: RecordBatch) -> None: ...
    def write_table(self, table: Table) -> None: ...
    def close(self) -> None: ...
