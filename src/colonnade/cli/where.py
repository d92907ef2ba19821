"""`where` and `count`: shows, writes or counts the rows for which a predicate is true."""

from __future__ import annotations

import sys
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import click
import pyarrow as pa

from colonnade import limits
from colonnade.arrays import Int64s
from colonnade.cli.answer import FINDINGS, FINE, Facts, json_line, print_json, printable, stream_json
from colonnade.cli.choose import asked_columns, asked_matches, asked_order, file_facts, matching, read_columns
from colonnade.cli.progress import counting_rows, ignore_progress, waiting
from colonnade.cli.text import cell, columns_shown, open_console, plural, say, show_side_by_side, show_unreadable
from colonnade.cli.values import plain_values
from colonnade.dataclass import dataclass
from colonnade.errors import UsageError
from colonnade.model import Progress
from colonnade.pager.options import Links
from colonnade.pager.receipts import Trust
from colonnade.pager.safe_files import open_device, written_whole
from colonnade.query.plan import Plan
from colonnade.table import File, Query, Table, open
from colonnade.table.show import rows_text, size_text, type_word

if TYPE_CHECKING:

    class BatchWriter(Protocol):
        """A writer of Arrow's: CSV, IPC or Parquet."""

        def write_batch(self, batch: pa.RecordBatch) -> None: ...
        def close(self) -> None: ...

    class ByteStream(Protocol):
        """Where bytes are written."""

        def write(self, data: bytes, /) -> object: ...
        def flush(self) -> None: ...


SHOWN_ROWS = 20


@dataclass(frozen=True)
class ReadOptions:
    columns: tuple[str, ...]
    most: int | None
    form: str | None
    out: str | None
    row_numbers: bool
    explain: bool
    sort_by: str | None = None
    sample: int | None = None
    seed: int | None = None


@dataclass(frozen=True)
class Question:
    """The requested rows: of a table of an open file, those that match, some columns, at most `most`."""

    file: File
    table: Table
    predicate: str
    query: Query
    names: list[str]
    most: int | None
    strict: bool

    @property
    def rows(self) -> Query:
        """The rows, not searched yet."""
        chosen = self.query.select(self.names)
        return chosen if self.most is None else chosen.head(self.most)

    @property
    def facts(self) -> Facts:
        return {"file": file_facts(self.file), "table": self.table.path, "predicate": self.predicate}


def find_rows(
    file: str, given: Sequence[str], wish: ReadOptions, trust: Trust, as_json: bool, links: Links = "folder"
) -> int:
    if (wish.explain or wish.row_numbers) and (wish.form or wish.out or (wish.explain and wish.row_numbers)):
        raise UsageError("--explain and --row-numbers each replace the rows: give only one of them")
    form = chosen_format(wish.form, wish.out)
    with open(file, trust=trust, links=links) as opened:
        question = _question(opened, given, wish)
        if wish.explain:
            print_plan(question.facts, question.rows.explain(), as_json)
            return FINE
        if wish.row_numbers:
            return print_row_numbers(question, as_json)
        if form != "table":
            return write_matches(question, form, wish.out, as_json)
        return print_records(question) if as_json else show_first(question)


def _question(file: File, given: Sequence[str], wish: ReadOptions) -> Question:
    table, predicate = asked_matches(file, given, needed=True)
    assert predicate is not None  # it was required
    query = matching(file, table, predicate)
    if wish.sample is not None:
        query = query.sample(wish.sample, seed=wish.seed)
    elif wish.seed is not None:
        raise UsageError("--seed is for --sample")
    if wish.sort_by is not None:
        query = query.sort_by(*asked_order(table, wish.sort_by))
    return Question(
        file, table, predicate, query, asked_columns(table, wish.columns), wish.most, strict=bool(wish.columns)
    )


# -- other things than rows --


def print_plan(facts: Facts, plan: Plan, as_json: bool) -> None:
    """Print a plan as text, or with other facts as JSON."""
    if as_json:
        print_json({**facts, "plan": plan_facts(plan)})
        return
    console = open_console()
    for line in str(plan).split("\n"):
        console.print(cell(line), soft_wrap=True)


def plan_facts(plan: Plan) -> Facts:
    """A plan as plain data."""
    return {
        "predicate": plan.predicate,
        "n_rows": plan.n_rows,
        "rows_that_may_match": plan.found.may.count,
        "rows_sure_to_match": plan.found.sure.count,
        "indexes_used": [asdict(used) for used in plan.indexes_used],
        "indexes_skipped": [asdict(skipped) for skipped in plan.indexes_skipped],
        "columns": [asdict(column) for column in plan.columns],
        "sorted": plan.sorted,
        "left_to_library": [asdict(left) for left in plan.left_to_library],
        "chunks_read": plan.chunks_read,
        "chunks_total": plan.chunks_total,
    }


def print_row_numbers(question: Question, as_json: bool) -> int:
    """Print the row numbers, one per line."""
    with waiting("searching"):
        numbers = question.rows.row_numbers()
    parts = _lists(numbers)
    if as_json:
        stream_json({**question.facts, "n_rows": question.table.n_rows}, {"row_numbers": parts})
    else:
        for part in parts:
            click.echo("\n".join(map(str, part)))
    return FINE if len(numbers) else FINDINGS


def _lists(numbers: Int64s) -> Iterator[list[int]]:
    n = limits.now.printed_rows
    return (numbers[first : first + n].tolist() for first in range(0, len(numbers), n))


# -- rows as text and as JSON --


def print_records(question: Question) -> int:
    """Print the rows as records; matches are held as row numbers, and the rows are read batch by batch."""
    with waiting("searching"):
        matching = question.rows[:]
        numbers = matching.row_numbers()
    table = question.table
    columns = [table[name] for name in question.names]
    facts = {
        **question.facts,
        "n_rows": table.n_rows,
        "columns": [
            {"name": c.name, "type": type_word(c.dtype), "units": c.units, "label": c.info.is_label} for c in columns
        ],
        "found": len(numbers),
        "all_found": question.most is None or len(numbers) < question.most,
    }
    records = (_records(batch, question.names) for batch in matching.batches(_batch_rows(question)))
    code = stream_json(facts, {"row_numbers": _lists(numbers), "rows": records})
    return code or (FINE if len(numbers) else FINDINGS)


def _records(batch: pa.RecordBatch, names: Sequence[str]) -> list[object]:
    """The rows of a batch as dicts of plain data."""
    if not names:
        return [{} for _ in range(batch.num_rows)]
    values = [plain_values(column) for column in batch.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


def show_first(question: Question) -> int:
    most = SHOWN_ROWS if question.most is None else question.most
    with waiting("searching"):
        matching = question.query.head(most)[:]
        total = _total(question, len(matching))
    table, names = question.table, question.names
    if not len(matching):
        say(f"no row of {rows_text(table.n_rows)} matches")
        return FINDINGS
    columns = read_columns(table, matching, names, question.strict)
    n_shown, unreadable = show_side_by_side(matching.row_numbers().tolist(), columns)
    shown_rows = _found_text(len(matching), total, table.n_rows)
    say(f"{shown_rows}, {columns_shown(n_shown, len(names), len(unreadable))}")
    show_unreadable(unreadable)
    return FINDINGS if unreadable else FINE


def _total(question: Question, n_found: int) -> int | None:
    """How many rows match; None if the user gave a limit and it was reached."""
    if n_found < (SHOWN_ROWS if question.most is None else question.most):
        return n_found
    return question.query.count() if question.most is None else None


def _found_text(n_shown: int, total: int | None, n_rows: int) -> str:
    if total is not None and total <= n_shown:
        return f"{plural(total, 'matching row')} among {n_rows:,}"
    of = "" if total is None else f" of {total:,}"
    return f"the first {n_shown:,}{of} matching rows among {n_rows:,} (-n shows more)"


# -- rows in other formats --

Batches = Iterator[pa.RecordBatch]
ENDINGS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".parquet": "parquet",
}
NOT_FOR_A_TERMINAL = ("arrow", "parquet")


def chosen_format(form: str | None, out: str | None) -> str:
    """The format given by --format, or by the suffix of --output; "table" when neither is given."""
    if form == "table" and out is not None:
        raise UsageError("the format table cannot be written to a file: choose csv, tsv, jsonl, arrow or parquet")
    if form is not None or out is None:
        return form or "table"
    ending = Path(out).suffix.lower()
    if ending not in ENDINGS:
        raise UsageError(f"{out!r} ends in none of {', '.join(ENDINGS)}: give the format with --format")
    return ENDINGS[ending]


def write_matches(question: Question, form: str, out: str | None, as_json: bool) -> int:
    """Write the rows to a file, or to stdout, batch by batch; returns the exit code."""
    if out is None or out == "-":
        if as_json:
            raise UsageError(f"--json and --format {form} both print to stdout: choose one, or give a file with -o")
        with _stdout(form) as sink:
            n_rows = _write(form, sink, question, quiet=sys.stdout.isatty())
        return FINE if n_rows else FINDINGS
    path = Path(out)
    if path.exists() and Path(question.file.name).exists() and path.samefile(question.file.name):
        raise UsageError(f"cannot write to {out}: it is the file that is read. Choose another one")
    with _file(path) as sink:
        n_rows = _write(form, sink, question)
    _tell_written(question, form, path, n_rows, as_json)
    return FINE if n_rows else FINDINGS


def _tell_written(question: Question, form: str, path: Path, n_rows: int, as_json: bool) -> None:
    n_bytes = path.stat().st_size if path.is_file() else None
    if as_json:
        print_json({**question.facts, "output": str(path), "format": form, "rows": n_rows, "bytes": n_bytes})
        return
    size = "" if n_bytes is None else f", {size_text(n_bytes)}"
    open_console().print(cell(f"{plural(n_rows, 'row')} written to {path}{size}"), soft_wrap=True)


def _write(form: str, sink: pa.NativeFile, question: Question, quiet: bool = False) -> int:
    """Write the batches, with a progress bar; returns the number of rows."""
    rows, n_rows = question.rows, 0

    def followed(progress: Progress) -> Batches:
        nonlocal n_rows
        for batch in rows.batches(_batch_rows(question)):
            yield batch
            n_rows += batch.num_rows
            progress(n_rows, None)

    bar: AbstractContextManager[Progress] = nullcontext(ignore_progress) if quiet else counting_rows(f"writing {form}")
    try:
        with bar as progress:
            WRITERS[form](sink, rows.schema, followed(progress))
    except pa.ArrowException as error:
        raise UsageError(f"these columns cannot be written as {form}: {error}") from error
    return n_rows


def _batch_rows(question: Question) -> int:
    """Rows per batch: fewer for a very wide table."""
    width = sum(question.table[name].stored_type.size for name in question.names)
    return max(1, min(limits.now.printed_rows, limits.now.printed_bytes // max(width, 1)))


def _feed(writer: BatchWriter, sink: pa.NativeFile, batches: Batches) -> None:
    """Give all batches to a writer. After an error the writer must not end its file as if it were complete."""
    try:
        for batch in batches:
            writer.write_batch(batch)
    except BaseException:
        sink.close()
        with suppress(Exception):
            writer.close()
        raise
    writer.close()


def _write_csv(sink: pa.NativeFile, schema: pa.Schema, batches: Batches, delimiter: str = ",") -> None:
    from pyarrow import csv

    csv_schema = pa.schema([pa.field(field.name, _csv_type(field.type, len(schema))) for field in schema])
    writer = csv.CSVWriter(sink, csv_schema, write_options=csv.WriteOptions(delimiter=delimiter))
    _feed(writer, sink, (_csv_batch(batch, csv_schema) for batch in batches))


def _csv_type(kind: pa.DataType, n_columns: int) -> pa.DataType:
    """The type a column is written from: numbers unchanged, everything else as strings. A single column is all
    strings."""
    if pa.types.is_dictionary(kind):
        return _csv_type(kind.value_type, n_columns)
    if pa.types.is_float16(kind):
        kind = pa.float32()
    if pa.types.is_duration(kind):
        kind = pa.int64()
    numbers = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    return kind if n_columns > 1 and any(check(kind) for check in numbers) else pa.string()


def _csv_batch(batch: pa.RecordBatch, csv_schema: pa.Schema) -> pa.RecordBatch:
    arrays = [_csv_array(array, field.type) for array, field in zip(batch.columns, csv_schema, strict=True)]
    if len(arrays) == 1:  # readers would skip an empty line; a string is quoted
        arrays = [arrays[0].fill_null("")]
    return pa.RecordBatch.from_arrays(arrays, schema=csv_schema)


def _csv_array(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if not pa.types.is_string(wanted) or pa.types.is_string(array.type):
        return array.cast(wanted)
    return pa.array([None if value is None else _csv_text(value) for value in plain_values(array)], pa.string())


def _csv_text(value: object) -> str:
    return value if isinstance(value, str) else json_line(value)


def _write_json_lines(sink: pa.NativeFile, schema: pa.Schema, batches: Batches) -> None:
    for batch in batches:
        text = "".join(json_line(record) + "\n" for record in _records(batch, schema.names))
        sink.write(text.encode("utf-8", "backslashreplace"))


def _write_arrow(sink: pa.NativeFile, schema: pa.Schema, batches: Batches) -> None:
    """Write the file format into a file; into a pipe, which cannot seek, the stream format."""
    from pyarrow import ipc

    begin = ipc.new_file if isinstance(sink, _RegularFile) else ipc.new_stream
    _feed(begin(sink, schema), sink, batches)


def _write_parquet(sink: pa.NativeFile, schema: pa.Schema, batches: Batches) -> None:
    from pyarrow import parquet

    _feed(parquet.ParquetWriter(sink, schema), sink, batches)


WRITERS: dict[str, Callable[[pa.NativeFile, pa.Schema, Batches], None]] = {
    "csv": _write_csv,
    "tsv": partial(_write_csv, delimiter="\t"),
    "jsonl": _write_json_lines,
    "arrow": _write_arrow,
    "parquet": _write_parquet,
}


# -- where bytes go --


class _RegularFile(pa.PythonFile):
    """Marks a sink that can take a file format, not only a stream."""


@contextmanager
def _file(path: Path) -> Iterator[pa.NativeFile]:
    """A file that appears under its name when it is complete; a target that is not a regular file is written
    directly."""
    path = path.resolve()
    if path.exists() and not path.is_file():
        with open_device(path) as stream, _pipe(stream) as sink:
            yield sink
        return
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {str(path.parent)!r}")
    with written_whole(path) as stream, _RegularFile(stream, mode="w") as sink:
        yield sink


@contextmanager
def _stdout(form: str) -> Iterator[pa.NativeFile]:
    terminal = sys.stdout.isatty()
    if terminal and form in NOT_FOR_A_TERMINAL:
        raise UsageError(f"cannot write {form} to a terminal: give a file with -o, or pipe it to a program")
    stream = sys.stdout.buffer
    with _pipe(_Terminal(stream) if terminal else stream) as sink:
        yield sink


@contextmanager
def _pipe(stream: ByteStream) -> Iterator[pa.NativeFile]:
    sink = pa.PythonFile(_Pipe(stream), mode="w")
    try:
        yield sink
    finally:
        sink.close()


class _Pipe:
    """Takes bytes, and reports how many there were, which Arrow's writers ask of a file."""

    closed = False

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._place = 0

    def write(self, data: bytes) -> int:
        self._stream.write(data)
        self._place += len(data)
        return len(data)

    def tell(self) -> int:
        return self._place

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        self._stream.flush()


class _Terminal:
    """A terminal: control characters in the output do not reach it raw."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._decoder = getincrementaldecoder("utf-8")("backslashreplace")

    def write(self, data: bytes) -> None:
        text = self._decoder.decode(bytes(data))
        safe = "".join(char if char in "\n\t" else printable(char) for char in text)
        self._stream.write(safe.encode(sys.stdout.encoding or "utf-8", "backslashreplace"))

    def flush(self) -> None:
        self._stream.flush()


def count_rows(
    file: str, given: Sequence[str], explain: bool, trust: Trust, as_json: bool, links: Links = "folder"
) -> int:
    with open(file, trust=trust, links=links) as opened:
        table, predicate = asked_matches(opened, given, needed=False)
        query = matching(opened, table, predicate)
        facts = {"file": file_facts(opened), "table": table.path, "predicate": predicate, "n_rows": table.n_rows}
        if explain:
            print_plan(facts, query.select().explain(), as_json)
            return FINE
        with waiting("counting"):
            count = query.count()
    if as_json:
        print_json({**facts, "count": count})
    else:
        click.echo(count)
    return FINE if count else FINDINGS
