from collections.abc import Mapping, Sequence
from os import PathLike
from typing import IO

from . import DataType, NativeFile, RecordBatch, RecordBatchReader, Schema, Table

class ReadOptions:
    def __init__(
        self,
        *,
        block_size: int | None = None,
        column_names: Sequence[str] | None = None,
        skip_rows: int = 0,
        use_threads: bool = True,
    ) -> None: ...

class ParseOptions:
    def __init__(self, *, delimiter: str = ",", newlines_in_values: bool = False) -> None: ...

class ConvertOptions:
    def __init__(
        self,
        *,
        column_types: Mapping[str, DataType] | Schema | None = None,
        include_columns: Sequence[str] | None = None,
        null_values: Sequence[str] | None = None,
        quoted_strings_can_be_null: bool = True,
        strings_can_be_null: bool = False,
        true_values: Sequence[str] | None = None,
        false_values: Sequence[str] | None = None,
    ) -> None: ...

class WriteOptions:
    def __init__(self, *, delimiter: str = ",") -> None: ...

class CSVStreamingReader(RecordBatchReader): ...

class CSVWriter:
    def __init__(
        self, sink: NativeFile | IO[bytes], schema: Schema, *, write_options: WriteOptions | None = None
    ) -> None: ...
    def write_batch(self, batch: RecordBatch) -> None: ...
    def write_table(self, table: Table) -> None: ...
    def close(self) -> None: ...

def open_csv(
    input_file: str | PathLike[str] | NativeFile | IO[bytes],
    read_options: ReadOptions | None = None,
    parse_options: ParseOptions | None = None,
    convert_options: ConvertOptions | None = None,
) -> CSVStreamingReader: ...
def read_csv(
    input_file: str | PathLike[str] | NativeFile | IO[bytes],
    read_options: ReadOptions | None = None,
    parse_options: ParseOptions | None = None,
    convert_options: ConvertOptions | None = None,
) -> Table: ...
def write_csv(
    data: Table | RecordBatch,
    output_file: str | PathLike[str] | NativeFile | IO[bytes],
    write_options: WriteOptions | None = None,
) -> None: ...
