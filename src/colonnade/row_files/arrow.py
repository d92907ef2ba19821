"""Arrow's own files: the IPC file format (.arrow, .feather) and the IPC stream format (.arrows)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from colonnade.dataclass import dataclass
from colonnade.errors import DataError
from colonnade.exchange.sources import RowStream
from colonnade.row_files.base import Batches, TextOptions, feed, read_errors
from colonnade.row_files.sinks import RegularFile


@dataclass(frozen=True)
class ArrowFile:
    """Rows as Arrow record batches: every type that a table can have is kept as it is."""

    name: str
    suffixes: tuple[str, ...]
    magic: bytes
    is_stream: bool = False
    is_text: bool = False

    @contextmanager
    def open(self, path: Path, _options: TextOptions) -> Iterator[RowStream]:
        with pa.memory_map(str(path)) as memory:
            with read_errors(path):
                begin = memory.read(6)
                memory.seek(0)
                if begin.startswith(b"FEA1"):
                    raise DataError(
                        "it is a Feather file of version 1. Write it again with a newer version of its program",
                        path=str(path),
                    )
                is_file = begin == b"ARROW1"
                schema, batches = _opened_file(memory) if is_file else _opened_stream(memory)
            yield RowStream(schema, _read_batches(path, schema, batches))

    def fit(self, _schema: pa.Schema) -> list[str]:
        return []

    def write(self, sink: pa.NativeFile, schema: pa.Schema, batches: Batches, _options: TextOptions) -> None:
        """Write the file format into a file; into a pipe, which cannot seek, the stream format."""
        from pyarrow import ipc

        begin = ipc.new_stream if self.is_stream or not isinstance(sink, RegularFile) else ipc.new_file
        options = ipc.IpcWriteOptions(emit_dictionary_deltas=True)
        growing = GrowingDictionaries(schema)
        feed(begin(sink, schema, options=options), sink, map(growing.extend, batches))


ARROW = ArrowFile("arrow", (".arrow", ".feather"), b"ARROW1")
ARROW_STREAM = ArrowFile("arrows", (".arrows",), b"\xff\xff\xff\xff", is_stream=True)


def _opened_file(memory: pa.NativeFile) -> tuple[pa.Schema, Batches]:
    from pyarrow import ipc

    file = ipc.open_file(memory)
    return file.schema, (file.get_batch(number) for number in range(file.num_record_batches))


def _opened_stream(memory: pa.NativeFile) -> tuple[pa.Schema, Batches]:
    from pyarrow import ipc

    stream = ipc.open_stream(memory)
    return stream.schema, iter(stream)


def _read_batches(path: Path, schema: pa.Schema, batches: Batches) -> Batches:
    n_batches = 0
    with read_errors(path):
        for batch in batches:
            yield batch
            n_batches += 1
    if not n_batches:
        yield pa.record_batch([pa.nulls(0, field.type) for field in schema], schema=schema)


class GrowingDictionaries:
    """Gives the batches of a stream dictionaries of which each begins with the one before: a file allows no others."""

    def __init__(self, schema: pa.Schema, known: dict[int, pa.Array] | None = None) -> None:
        """known: the categories that come first, by the position of the column."""
        self._columns = [position for position, field in enumerate(schema) if pa.types.is_dictionary(field.type)]
        self._known = {} if known is None else known

    def extend(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = batch.columns
        for position in self._columns:
            columns[position] = self._extended(position, columns[position])
        return pa.record_batch(columns, schema=batch.schema)

    def _extended(self, position: int, array: pa.Array) -> pa.Array:
        known = self._known.get(position)
        if known is None or known.equals(array.dictionary):
            self._known[position] = array.dictionary
            return array
        from colonnade import compute as pc

        where = pc.index_in(array.dictionary, known)
        new = array.dictionary.filter(pc.is_null(where))
        self._known[position] = whole = pa.concat_arrays([known, new]) if len(new) else known
        codes = pc.index_in(array.dictionary, whole).take(array.indices)
        return pa.DictionaryArray.from_arrays(codes.cast(array.type.index_type), whole, ordered=array.type.ordered)
