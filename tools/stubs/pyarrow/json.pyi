from os import PathLike

from . import RecordBatchReader, Schema

class ParseOptions:
    def __init__(self, *, explicit_schema: Schema | None = None) -> None: ...

def open_json(input_file: str | PathLike[str], *, parse_options: ParseOptions | None = None) -> RecordBatchReader: ...
