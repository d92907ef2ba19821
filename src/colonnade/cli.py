"""The command line: what is in a file, for people and (with --json) for programs.

In: arguments. Out: text on stdout, or one JSON object with the same facts. A command gathers plain
facts (dicts, lists, text, numbers) and then shows them. Errors are one line on stderr; with --json
also {"error": ...} on stdout.

Exit codes: 0 fine; 1 findings, or nothing there to show; 2 asked wrongly; 3 the file cannot be read.

Starts fast: this module imports click alone; what a command needs is imported inside it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from colonnade import __version__
from colonnade.errors import ColonnadeError, CorruptError, FormatError, UnsupportedError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console
    from rich.table import Table as Grid

    from colonnade.h5.links import Child
    from colonnade.model import ColumnInfo
    from colonnade.table import Column, File, Table

Facts = dict[str, Any]
FINE, FINDINGS, USAGE, FILE = 0, 1, 2, 3
DEFAULT_HEAD = 5
FEW_CATEGORIES = 8
MOST_LINES = 500
READ_TOGETHER = 50
NARROW_CELL = 8
WIDEST_CELL = 40
WIDEST_FILL = 20
WIDEST_UNITS = 18
GAP = 2
NUMBERS = ("int", "uint", "float", "double", "halffloat", "decimal")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="colonnade")
def main() -> None:
    """Column tables inside HDF5 files: see what is there.

    Every command takes --json. Exit codes: 0 fine, 1 findings or nothing to show, 2 usage, 3 file or format error.
    """


def command(function: Callable[..., int]) -> click.Command:
    """The function as a command with --json; it returns its exit code, its errors become one line and a code."""

    @wraps(function)
    def guarded(*, as_json: bool, **given: Any) -> None:
        try:
            code = function(as_json=as_json, **given)
        except BrokenPipeError:
            raise
        except (ColonnadeError, OSError) as error:
            code = report_error(error, as_json)
        click.get_current_context().exit(code)

    flag = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
    return main.command()(flag(guarded))


def report_error(error: ColonnadeError | OSError, as_json: bool) -> int:
    """The exit code for the error, once it has been told."""
    code = USAGE if isinstance(error, UsageError) else FILE
    message = printable(" ".join(str(error).split()))
    if as_json:
        print_json({"error": {"kind": type(error).__name__, "message": message, "exit_code": code}})
    click.echo(f"colonnade: {message}", err=True)
    return code


def print_json(facts: Facts) -> None:
    """One JSON object, in UTF-8 whatever the terminal speaks; bytes of a name that are no UTF-8 as \\udcXX."""
    text = json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False)
    click.echo(text.encode("utf-8", "backslashreplace"))


def printable(text: str) -> str:
    """The text on one line: control characters of a file must not reach the terminal."""
    return "".join(c if c.isprintable() or c in "\u200c\u200d" else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")


# -- commands --


@command
@click.option("--rows", "n_rows", default=1_000_000, show_default=True, type=click.IntRange(min=1), help="How many.")
@click.option(
    "--keep", default=None, metavar="PATH", help="The file to make. [default: colonnade-demo.h5 in this folder]"
)
def demo(n_rows: int, keep: str | None, as_json: bool) -> int:
    """Make a table of detector events beside an image cube, and read it back.

    The file stays, for you to explore.
    """
    from colonnade.demo import FILE_NAME, check_place, run, show_end, show_start, show_steps, writing_bar

    path = Path(keep or FILE_NAME)
    check_place(path)
    console = open_console()
    if not as_json:
        show_start(console, path)
    with writing_bar(open_console(stderr=True), n_rows) as progress:
        steps = run(path, n_rows, progress)
        done = list(steps) if as_json else show_steps(console, steps)
    failed = any(step.failed for step in done)
    if as_json:
        print_json(demo_facts(path, n_rows, done))
    else:
        show_end(console, path, failed)
    return FINDINGS if failed else FINE


@command
@click.argument("file")
def ls(file: str, as_json: bool) -> int:
    """List the tables of FILE, and what lies beside them."""
    with open_file(file) as opened:
        facts = ls_facts(opened)
    if as_json:
        print_json(facts)
    else:
        show_ls(facts)
    return FINE


@command
@click.argument("file")
@click.argument("table", required=False)
def info(file: str, table: str | None, as_json: bool) -> int:
    """Show how TABLE is stored: sizes, chunks, filters, missing marks, problems.

    All tables of FILE when no TABLE is named. Exit code 1 when problems were found.
    """
    facts = table_command(file, table, info_facts, show_info, as_json)
    serious = [p for t in facts["tables"] for p in t["problems"] if p["severity"] != "note"]
    broken = any(t["problem"] for t in facts["tables"])
    return FINDINGS if serious or broken or not facts["tables"] else FINE


@command
@click.argument("file")
@click.argument("table", required=False)
def schema(file: str, table: str | None, as_json: bool) -> int:
    """Show the columns of TABLE: types, units, descriptions, categories.

    All tables of FILE when no TABLE is named.
    """
    facts = table_command(file, table, schema_facts, show_schema, as_json)
    return FINDINGS if not facts["tables"] or any(t["problem"] for t in facts["tables"]) else FINE


@command
@click.argument("file")
@click.argument("table", required=False)
@click.option("-n", "n_rows", type=click.IntRange(min=0), help="How many rows.  [default: 5, or all of --rows]")
@click.option("-c", "--columns", multiple=True, metavar="A,B", help="Which columns, in this order; may be repeated.")
@click.option("--rows", metavar="START:STOP[:STEP]", help="Which rows, as a Python slice; 7 is row 7, -5: the last 5.")
def head(
    file: str, table: str | None, n_rows: int | None, columns: tuple[str, ...], rows: str | None, as_json: bool
) -> int:
    """Show rows of TABLE.

    TABLE may be left out when FILE holds one table. A missing value is shown as "-".
    """
    with open_file(file) as opened:
        chosen = only_table(opened, table)
        if chosen is None:
            return report_no_tables(file, as_json)
        names = asked_columns(chosen, columns)
        numbers = asked_rows(chosen.n_rows, rows, n_rows)
        found = read_columns(chosen, names, numbers, strict=bool(columns))
        if as_json:
            facts = head_facts(opened, chosen, numbers, found)
            print_json(facts)
            return FINDINGS if facts["unreadable"] else FINE
        return show_head(chosen, len(names), numbers, found)


# -- which file, which table, which columns, which rows --


@contextmanager
def open_file(name: str) -> Iterator[File]:
    """The file, open for reading; what the HDF5 library itself says of broken bytes is an error of ours."""
    from colonnade.table import open as open_target

    try:
        with open_target(name) as file:
            yield file
    except ColonnadeError:
        raise
    except (RuntimeError, KeyError) as error:
        raise CorruptError(f"{name} cannot be read, HDF5 says: {error}", path=name) from error


def table_command(
    file: str,
    table: str | None,
    gather: Callable[[Table], Facts],
    show: Callable[[Facts], None],
    as_json: bool,
) -> Facts:
    """The facts of one table, or of all, once they have been shown."""
    with open_file(file) as opened:
        if table is not None:
            tables = [gather(opened[table])]
        else:
            tables = [_gather_or_problem(opened, path, gather) for path in opened.tables()]
        facts = {"file": file_facts(opened), "tables": tables}
    if as_json:
        print_json(facts)
    else:
        show(facts)
    return facts


def _gather_or_problem(file: File, path: str, gather: Callable[[Table], Facts]) -> Facts:
    """The facts of one table among several: one that cannot be described does not hide the others."""
    try:
        return gather(file[path])
    except (FormatError, UnsupportedError) as error:
        return {"path": path, "problem": str(error), "problems": []}


def only_table(file: File, asked: str | None) -> Table | None:
    """The table asked for, or the only one; None when there is none, a UsageError when there are several."""
    if asked is not None:
        return file[asked]
    tables = file.tables()
    if len(tables) > 1:
        shown = ", ".join(tables[:8]) + (", ..." if len(tables) > 8 else "")
        raise UsageError(f"{file.name} holds {len(tables)} tables, name one: {shown}", tables=tables)
    return file[tables[0]] if tables else None


def report_no_tables(file: str, as_json: bool) -> int:
    """Exit code 1, once it has been told that the file holds no tables."""
    message = f"{printable(file)} holds no tables"
    if as_json:
        print_json({"error": {"kind": "NoTables", "message": message, "exit_code": FINDINGS}})
    click.echo(f"colonnade: {message}; see what it holds with: colonnade ls", err=True)
    return FINDINGS


def asked_columns(table: Table, asked: tuple[str, ...]) -> list[str]:
    """The names of --columns, or all: labels first, since they name the rows."""
    if not asked:
        labels = [name for name in table.labels if name not in set(table.columns)]
        return labels + table.columns
    names = [name for text in asked for name in ([text] if text in table else _split(text))]
    for name in names:
        table[name]
    return list(dict.fromkeys(names))


def _split(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def asked_rows(n_rows: int, text: str | None, count: int | None) -> range:
    """The row numbers that --rows and -n choose."""
    if text is None:
        return range(n_rows)[: DEFAULT_HEAD if count is None else count]
    return _parse_rows(n_rows, text)[slice(count)]


def _parse_rows(n_rows: int, text: str) -> range:
    try:
        parts = [int(part) if part.strip() else None for part in text.split(":")]
        if len(parts) == 1 and parts[0] is not None:
            row = range(n_rows)[parts[0]]
            return range(row, row + 1)
        if len(parts) not in (2, 3):
            raise ValueError
        return range(n_rows)[slice(*parts)]
    except IndexError:
        raise UsageError(f"there is no row {text.strip()}: the table has {n_rows:,} rows") from None
    except ValueError:
        raise UsageError(f"--rows {text!r} is not START:STOP or START:STOP:STEP, such as 10:20 or -5:") from None


# -- facts --


def file_facts(file: File) -> Facts:
    """Name and size of the file."""
    path = Path(file.name)
    size = path.stat().st_size if path.is_file() else file.h5.id.get_filesize()
    return {"name": file.name, "bytes": size}


def ls_facts(file: File) -> Facts:
    """Every table, and every object beside the tables, parents first."""
    objects = list(_objects(file))
    tables = [entry["path"] for entry in objects if entry["kind"] == "table"]
    return {"file": file_facts(file), "tables": tables, "objects": objects}


def _entry(path: str, kind: str, **known: Any) -> Facts:
    """One line of `ls`: every key is always there."""
    keys = ("layout", "rows", "columns", "title", "shape", "type", "bytes", "target", "problem")
    return {"path": path, "kind": kind, **{key: known.get(key) for key in keys}}


def _objects(file: File) -> Iterator[Facts]:
    from colonnade.h5.links import children, join_path, walk_groups

    root = file.h5["/"].id
    for path, group in walk_groups(root):
        own, known = _group_entry(file, path, group)
        if own is not None:
            yield own
        for child in children(group):
            entry = None if child.name in known else _child_entry(group, join_path(path, child.name), child)
            if entry is not None:
                yield entry


def _group_entry(file: File, path: str, group: Any) -> tuple[Facts | None, set[str]]:
    """The line of a group, None for a root that is no table; and the names in it that are parts of a table."""
    from colonnade.h5.attributes import BROKEN, read_text

    if path in file or read_text(group, "CLASS") == "COLUMN_TABLE":
        return _table_entry(file, path)
    try:
        list(group)
    except BROKEN:
        return _entry(path, "broken", problem="a group whose links cannot be read"), set()
    return (None if path == "/" else _entry(path, "group")), set()


def _table_entry(file: File, path: str) -> tuple[Facts, set[str]]:
    try:
        table = file[path]
    except (FormatError, UnsupportedError) as error:
        return _entry(path, "table", problem=str(error)), set()
    parts = {column.name for column in table.info.members}
    parts |= {column.categories.name for column in table.info.members if column.categories is not None}
    serious = sum(problem.severity != "note" for problem in table.problems)
    entry = _entry(
        path,
        "table",
        layout=table.layout,
        rows=table.n_rows,
        columns=len(table.columns),
        title=table.title,
        bytes=sum(column.stored_bytes for column in table.info.members),
        problem=f"{plural(serious, 'problem')}, see: colonnade info" if serious else None,
    )
    return entry, parts


def _child_entry(group: Any, path: str, child: Child) -> Facts | None:
    """The line of what a link leads to; None for a group that can be opened, which has its own."""
    from colonnade.h5.links import open_group

    if child.kind == "group":
        broken = open_group(group, child.name) is None
        return _entry(path, "broken", problem="a group that cannot be opened") if broken else None
    if child.kind == "dataset":
        return _array_entry(group, path, child.name)
    if child.kind in ("soft link", "external link"):
        return _entry(path, child.kind, target=_link_target(group, child.name))
    problem = "the link leads to no object that can be opened" if child.kind == "broken" else None
    return _entry(path, child.kind, problem=problem)


def _array_entry(group: Any, path: str, name: str) -> Facts:
    from colonnade.h5.attributes import BROKEN
    from colonnade.h5.datasets import describe_dataset
    from colonnade.h5.links import open_dataset

    dataset = open_dataset(group, name)
    if dataset is None:
        return _entry(path, "broken", problem="a dataset that cannot be opened")
    try:
        found = describe_dataset(dataset)
        shape = None if dataset.shape is None else list(dataset.shape)
    except BROKEN as error:
        return _entry(path, "broken", problem=f"a dataset whose header cannot be read: {error}")
    return _entry(path, "array", shape=shape, type=str(found.type), bytes=found.stored_bytes)


def _link_target(group: Any, name: str) -> str | None:
    from colonnade.h5.attributes import BROKEN
    from colonnade.h5.links import decode_name, encode_name

    try:
        value = group.links.get_val(encode_name(name))
    except BROKEN:
        return None
    parts = [value] if isinstance(value, bytes) else list(value)
    return ":".join(decode_name(part) if isinstance(part, bytes) else str(part) for part in parts)


def info_facts(table: Table) -> Facts:
    """How a table is stored."""
    from colonnade.show import type_word

    columns = [_stored_facts(table[column.name], type_word) for column in table.info.members]
    return {
        "path": table.path,
        "layout": table.layout,
        "version": table.info.version,
        "title": table.title,
        "description": table.description,
        "rows": table.n_rows,
        "labels": table.labels,
        "stored_bytes": sum(column["stored_bytes"] for column in columns),
        "raw_bytes": sum(column["raw_bytes"] for column in columns),
        "columns": columns,
        "problems": [
            {"rule": p.rule, "severity": p.severity, "path": p.path, "message": p.message} for p in table.problems
        ],
        "problem": None,
    }


def _stored_facts(column: Column, type_word: Callable[[pa.DataType], str]) -> Facts:
    """How one column is stored. Raw bytes are those of the elements: of variable-length ones, the pointers."""
    stored = column.info
    return {
        "name": stored.name,
        "label": stored.is_label,
        "type": type_word(column.dtype),
        "units": stored.units,
        "fill": plain_value(column.fill),
        "storage": stored.storage,
        "chunk_rows": stored.chunk_rows,
        "filters": column.filters,
        "stored_bytes": stored.stored_bytes,
        "raw_bytes": stored.n_rows * stored.type.size,
        "variable_length": stored.type.has_pointers,
        "problem": stored.problem,
    }


def schema_facts(table: Table) -> Facts:
    """What the columns of a table mean."""
    from colonnade.show import type_word

    return {
        "path": table.path,
        "title": table.title,
        "description": table.description,
        "rows": table.n_rows,
        "labels": table.labels,
        "columns": [_meaning_facts(table[column.name], type_word) for column in table.info.members],
        "problem": None,
    }


def _meaning_facts(column: Column, type_word: Callable[[pa.DataType], str]) -> Facts:
    categories, problem = _categories(column)
    return {
        "name": column.name,
        "label": column.info.is_label,
        "type": type_word(column.dtype),
        "arrow_type": str(column.dtype),
        "hdf5_type": str(column.stored_type),
        "units": column.units,
        "units_vocabulary": column.units_vocabulary,
        "description": column.description,
        "ordered": column.ordered,
        "categories": categories,
        "n_categories": _n_categories(column.info),
        "problem": column.info.problem or problem,
    }


def _n_categories(column: ColumnInfo) -> int | None:
    if column.categories is not None:
        return column.categories.n_categories
    return len(column.type.members) if column.type.kind == "enum" else None


def _categories(column: Column) -> tuple[list[Any] | None, str | None]:
    """The first few categories, None for a column without; or why they cannot be read."""
    if column.info.problem is not None:
        return None, None
    try:
        found = column.categories
    except (ColonnadeError, OSError) as error:
        return None, str(error)
    return (None if found is None else plain_values(found.slice(0, FEW_CATEGORIES))), None


@dataclass(frozen=True)
class ReadColumn:
    """One column of `head`: its values as plain data, or why they cannot be read."""

    column: Column
    type: str
    values: list[Any]
    problem: str | None = None


def read_columns(table: Table, names: list[str], rows: range, strict: bool) -> Iterator[ReadColumn]:
    """The columns in order, read some at a time when asked for; with `strict` a broken one is an error."""
    for first in range(0, len(names), READ_TOGETHER):
        yield from _read_together(table, names[first : first + READ_TOGETHER], rows, strict)


def _read_together(table: Table, names: list[str], rows: range, strict: bool) -> Iterator[ReadColumn]:
    """These columns; where one of several cannot be read, each is tried alone."""
    from colonnade.show import type_word

    problem = "its name is no UTF-8 text, which Arrow needs"
    try:
        arrays = _read(table, names, rows).columns
    except (FormatError, UnsupportedError, UnicodeError) as error:
        if len(names) > 1:
            for name in names:
                yield from _read_together(table, [name], rows, strict)
            return
        if not isinstance(error, UnicodeError):
            problem = str(error)
            if strict:
                raise
        column = table[names[0]]
        yield ReadColumn(column, type_word(column.dtype), [], problem)
        return
    for name, array in zip(names, arrays, strict=True):
        values = [value for chunk in array.chunks for value in plain_values(chunk)]
        yield ReadColumn(table[name], type_word(array.type), values)


def _read(table: Table, names: list[str], rows: range) -> pa.Table:
    chosen = slice(rows.start, rows.stop if rows.stop >= 0 else None, rows.step)
    return table.select(names)[chosen].to_arrow()


def head_facts(file: File, table: Table, rows: range, found: Iterable[ReadColumn]) -> Facts:
    """The rows as records, and what could not be read."""
    columns = list(found)
    good = [c for c in columns if c.problem is None]
    return {
        "file": file_facts(file),
        "table": table.path,
        "n_rows": table.n_rows,
        "columns": [
            {"name": c.column.name, "type": c.type, "units": c.column.units, "label": c.column.info.is_label}
            for c in good
        ],
        "row_numbers": list(rows),
        "rows": [{c.column.name: c.values[at] for c in good} for at in range(len(rows))],
        "unreadable": [{"column": c.column.name, "message": c.problem} for c in columns if c.problem is not None],
    }


def demo_facts(path: Path, n_rows: int, steps: list[Any]) -> Facts:
    """What the demo did and how long each step took."""
    from colonnade.demo import next_commands

    return {
        "file": {"name": str(path), "bytes": path.stat().st_size},
        "rows": n_rows,
        "equal": not any(step.failed for step in steps),
        "seconds": round(sum(step.seconds for step in steps), 4),
        "steps": [
            {"name": step.name, "seconds": round(step.seconds, 4), "said": step.said, **step.facts} for step in steps
        ],
        "next": next_commands(path),
    }


# -- values as plain data: what JSON can hold --


def plain_values(array: pa.Array) -> list[Any]:
    """Arrow values for JSON: None where missing, bytes as hex, times as ISO text, categories by name."""
    import pyarrow as pa

    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return plain_values(array.storage)
    if pa.types.is_dictionary(kind):
        return plain_values(array.dictionary_decode())
    if pa.types.is_struct(kind):
        return _plain_structs(array)
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return _plain_lists(array)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return _plain_dates(array)
    if pa.types.is_time(kind):
        return list(array.cast(pa.string()).to_pylist())
    if pa.types.is_duration(kind):
        return list(array.cast(pa.int64()).to_pylist())
    if pa.types.is_float16(kind) or pa.types.is_float32(kind):
        return _plain_short_floats(array)
    return [plain_value(value) for value in array.to_pylist()]


def plain_value(value: Any) -> Any:
    """A Python value for JSON: NaN and infinities as text, bytes as hex, other things as their text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _float_word(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, complex):
        return {"r": plain_value(value.real), "i": plain_value(value.imag)}
    if isinstance(value, dict):
        return {str(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_value(item) for item in value]
    return str(value)


def _float_word(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _plain_structs(array: pa.StructArray) -> list[Any]:
    names = [array.type.field(i).name for i in range(array.type.num_fields)]
    parts = [plain_values(part) for part in array.flatten()]
    there = array.is_valid().to_pylist()
    return [{n: part[at] for n, part in zip(names, parts, strict=True)} if ok else None for at, ok in enumerate(there)]


def _plain_lists(array: pa.Array) -> list[Any]:
    import pyarrow.compute as pc

    items = iter(plain_values(array.flatten()))
    return [None if n is None else list(islice(items, n)) for n in pc.list_value_length(array).to_pylist()]


def _plain_dates(array: pa.Array) -> list[Any]:
    """ISO text for any year and unit, which Python's own datetime cannot do; a time zone is told in UTC."""
    import numpy as np
    import pyarrow as pa

    kind = array.type
    unit = kind.unit if pa.types.is_timestamp(kind) else "D" if pa.types.is_date32(kind) else "ms"
    counts = array.view(pa.int32() if unit == "D" else pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    moments = counts.astype("i8").view(f"M8[{unit}]")
    texts = np.datetime_as_string(moments.astype("M8[D]") if pa.types.is_date(kind) else moments)
    zone = "Z" if pa.types.is_timestamp(kind) and kind.tz is not None else ""
    there = array.is_valid().to_pylist()
    return [f"{text}{zone}" if ok else None for text, ok in zip(texts.tolist(), there, strict=True)]


def _plain_short_floats(array: pa.Array) -> list[Any]:
    """Floats of 16 and 32 bits with the digits they have: 0.1, not 0.10000000149011612."""
    import numpy as np

    short = np.dtype(array.type.to_pandas_dtype()).type
    return [None if value is None else plain_value(float(str(short(value)))) for value in array.to_pylist()]


# -- text for people --


def open_console(stderr: bool = False) -> Console:
    """A console that prints text as it is: nothing in a file's names is taken for markup."""
    import sys

    from rich.console import Console

    stream: Any = sys.stderr if stderr else sys.stdout
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def cell(text: str | None, style: str = "") -> Any:
    """Text from a file, made safe for a terminal."""
    from rich.text import Text

    return Text(printable(text or ""), style)


def lines(*parts: Any) -> Any:
    """Cells under each other, the empty ones left out."""
    from rich.text import Text

    return Text("\n").join([part for part in parts if part.plain])


def new_grid(*heads: str, right: tuple[str, ...] = ()) -> Grid:
    """An empty table of text; long cells are broken over lines."""
    from rich.table import Table as Grid

    grid = Grid(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold")
    for title in heads:
        grid.add_column(title, justify="right" if title in right else "left", overflow="fold")
    return grid


def show_file(console: Console, facts: Facts, tables: int, others: int | None = None) -> None:
    """The line about the file itself."""
    from colonnade.show import size_text

    beside = "" if others is None else f", {plural(others, 'other object')}"
    line = cell(facts["name"], "bold")
    line.append(f"  {size_text(facts['bytes'])}, {plural(tables, 'table')}{beside}")
    console.print(line, soft_wrap=True)


def show_ls(facts: Facts) -> None:
    """The objects of a file, a line each, tables in bold."""
    console = open_console()
    objects = facts["objects"]
    n_tables = len(facts["tables"])
    show_file(console, facts["file"], n_tables, len(objects) - n_tables)
    if not objects:
        return
    grid = new_grid("path", "kind", "shape", "what", "stored", right=("stored",))
    for entry in objects:
        style = {"table": "bold", "broken": "red"}.get(entry["kind"], "")
        grid.add_row(cell(entry["path"], style), cell(entry["kind"], style), *_ls_cells(entry))
    console.print()
    console.print(grid)


def _ls_cells(entry: Facts) -> tuple[Any, Any, Any]:
    from colonnade.show import size_text

    size, what = "", entry["type"] or ""
    if entry["kind"] == "table" and entry["rows"] is not None:
        size = f"{entry['rows']:,} x {entry['columns']:,}"
        what = " ".join(filter(None, (entry["layout"], entry["title"] and f"“{entry['title']}”")))
    elif entry["kind"] == "array":
        shape = entry["shape"]
        size = "empty" if shape is None else " x ".join(f"{n:,}" for n in shape) or "scalar"
    elif entry["target"]:
        what = f"to {entry['target']}"
    stored = "" if entry["bytes"] is None else size_text(entry["bytes"])
    return cell(size), lines(cell(what), cell(entry["problem"], "red")), cell(stored)


def show_info(facts: Facts) -> None:
    """How each table is stored."""
    console = open_console()
    show_file(console, facts["file"], len(facts["tables"]))
    for table in facts["tables"]:
        console.print()
        if table["problem"]:
            _show_broken_table(console, table)
        else:
            _show_table_info(console, table)


def _show_broken_table(console: Console, table: Facts) -> None:
    console.print(cell(table["path"], "bold"), soft_wrap=True)
    console.print(cell(table["problem"], "red"))


def _show_table_title(console: Console, table: Facts) -> None:
    line = cell(table["path"], "bold")
    if table["title"]:
        line.append_text(cell(f"  {table['title']}"))
    console.print(line, soft_wrap=True)
    if table["description"]:
        console.print(cell(table["description"], "dim"))


def _show_table_info(console: Console, table: Facts) -> None:
    _show_table_title(console, table)
    grid = new_grid("", "")
    for name, value in _table_lines(table):
        grid.add_row(cell(name, "dim"), cell(value))
    grid.show_header = False
    console.print(grid)
    if table["columns"]:
        console.print()
        _show_stored_columns(console, table["columns"])
    _show_problems(console, table["problems"])


def _table_lines(table: Facts) -> Iterator[tuple[str, str]]:
    from colonnade.show import size_text

    columns = [column for column in table["columns"] if not column["label"]]
    stored, raw = table["stored_bytes"], table["raw_bytes"]
    yield "layout", f"{table['layout']}, version {table['version'] or 'not given'}"
    yield "rows", f"{table['rows']:,}"
    yield "columns", f"{len(columns):,}"
    yield "labels", ", ".join(table["labels"]) or "none"
    ratio = f", {raw / stored:.1f} to 1" if 0 < stored < raw else ""
    heap = any(column["variable_length"] for column in table["columns"])
    beside = "; variable-length values are kept beside and not counted" if heap else ""
    yield "size", f"{size_text(stored)} stored, {size_text(raw)} raw{ratio}{beside}"


def _say_left_out(console: Console, columns: list[Facts], shown: list[Facts]) -> None:
    if len(columns) > len(shown):
        left = plural(len(columns) - len(shown), "more column")
        console.print(f"... and {left}; --json shows all", style="dim")


def _column_name(column: Facts) -> Any:
    return lines(cell(column["name"]), cell("label" if column["label"] else "", "dim"))


def _show_stored_columns(console: Console, columns: list[Facts]) -> None:
    from colonnade.show import size_text

    grid = new_grid("column", "type", "fill", "storage", "stored", right=("stored",))
    for heading in grid.columns[2:]:
        heading.no_wrap = True
    shown = columns[:MOST_LINES]
    for column in shown:
        grid.add_row(
            _column_name(column),
            lines(cell(column["type"]), cell(_told_units(column), "dim"), cell(column["problem"], "red")),
            cell(_fill_text(column["fill"])),
            lines(cell(_storage_text(column)), cell(_filters_text(column), "dim")),
            cell(size_text(column["stored_bytes"])),
        )
    console.print(grid)
    _say_left_out(console, columns, shown)


def _told_units(column: Facts) -> str:
    """The units, but not those that the type of a timestamp says already."""
    units = column["units"] or ""
    return "" if " since " in units else units


def _fill_text(fill: Any) -> str:
    if fill is None:
        return "none"
    if isinstance(fill, str):
        return _cut(repr(fill), WIDEST_FILL)
    return _cut(f"{fill:.6g}" if isinstance(fill, float) else json.dumps(fill, ensure_ascii=False), WIDEST_FILL)


def _storage_text(column: Facts) -> str:
    return f"chunks of {column['chunk_rows']:,}" if column["chunk_rows"] else str(column["storage"])


def _filters_text(column: Facts) -> str:
    if column["filters"] != "none":
        return str(column["filters"])
    return "no filters" if column["storage"] == "chunked" else ""


def _show_problems(console: Console, problems: list[Facts]) -> None:
    if not problems:
        return
    console.print()
    console.print(f"{plural(len(problems), 'problem')} found", style="bold")
    styles = {"error": "red", "warning": "yellow"}
    grid = new_grid("severity", "rule", "where", "what")
    for problem in problems:
        style = styles.get(problem["severity"], "")
        grid.add_row(
            cell(problem["severity"], style), cell(problem["rule"]), cell(problem["path"]), cell(problem["message"])
        )
    console.print(grid)


def show_schema(facts: Facts) -> None:
    """What the columns of each table mean."""
    console = open_console()
    for number, table in enumerate(facts["tables"]):
        if number:
            console.print()
        if table["problem"]:
            _show_broken_table(console, table)
        else:
            _show_table_title(console, table)
            _show_meanings(console, table["columns"])
    if not facts["tables"]:
        show_file(console, facts["file"], 0)


def _show_meanings(console: Console, columns: list[Facts]) -> None:
    if not columns:
        console.print("no columns", style="dim")
        return
    console.print()
    grid = new_grid("column", "type", "units", "description")
    grid.columns[2].max_width = WIDEST_UNITS
    shown = columns[:MOST_LINES]
    for column in shown:
        grid.add_row(
            _column_name(column),
            lines(cell(column["type"]), cell(f"as {column['hdf5_type']}", "dim")),
            lines(cell(column["units"]), cell(column["units_vocabulary"] if column["units"] else "", "dim")),
            lines(
                cell(column["description"]), cell(_categories_text(column), "dim"), cell(column["problem"] or "", "red")
            ),
        )
    console.print(grid)
    _say_left_out(console, columns, shown)


def _categories_text(column: Facts) -> str:
    if column["categories"] is None:
        return ""
    names = ", ".join(_cell_text(value) for value in column["categories"])
    more = ", ..." if column["n_categories"] > len(column["categories"]) else ""
    joint = " < " if column["ordered"] else ", "
    return f"{plural(column['n_categories'], 'value')}: {names.replace(', ', joint)}{more}"


# -- head as text --


@dataclass(frozen=True)
class HeadColumn:
    """One column of text: its title, a line under that, its cells, all of one width."""

    title: str
    under: str
    cells: list[str]
    right: bool
    width: int


def show_head(table: Table, n_columns: int, rows: range, found: Iterable[ReadColumn]) -> int:
    """Print the columns that fit side by side; the exit code."""
    console = open_console()
    numbers = [f"{row:,}" for row in rows]
    room = console.width - max((len(text) for text in numbers), default=3) - GAP
    unreadable: list[ReadColumn] = []
    fitting = _fitting(found, room, unreadable)
    click.echo("\n".join(head_lines(numbers, fitting)))
    left_out = n_columns - len(fitting) - len(unreadable)
    console.print(_foot(table, rows, n_columns, left_out), style="dim")
    for column in unreadable:
        console.print(cell(f"column {column.column.name} cannot be read: {column.problem}", "red"))
    return FINDINGS if unreadable else FINE


def _fitting(found: Iterable[ReadColumn], room: int, unreadable: list[ReadColumn]) -> list[HeadColumn]:
    """The first columns that fit into so many characters, at least one; no column after them is read."""
    chosen: list[HeadColumn] = []
    for column in found:
        if column.problem is not None:
            unreadable.append(column)
            continue
        made = _head_column(column)
        room -= made.width + (GAP if chosen else 0)
        if room < 0 and chosen:
            break
        chosen.append(made)
    return chosen


def _head_column(column: ReadColumn) -> HeadColumn:
    from rich.cells import cell_len

    as_text = _complex_text if column.type.startswith("complex") else _cell_text
    cells = [_cut(as_text(value), WIDEST_CELL) for value in column.values]
    title = _cut(printable(column.column.name), WIDEST_CELL)
    under = column.column.units if column.column.units and " since " not in column.column.units else column.type
    under = printable(under.removeprefix("categories of "))
    width = max(cell_len(text) for text in (*cells, title, under[:NARROW_CELL]))
    return HeadColumn(title, _cut(under, width), cells, column.type.startswith(NUMBERS), width)


def _cut(text: str, width: int) -> str:
    """The text in so many columns of a terminal."""
    from rich.cells import cell_len, set_cell_size

    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…"


def _cell_text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (list, dict)):
        return printable(json.dumps(value, ensure_ascii=False))
    return printable(str(value))


def _complex_text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{complex(float(value['r']), float(value['i'])):.6g}"


def head_lines(numbers: list[str], columns: list[HeadColumn]) -> Iterator[str]:
    """Two lines of titles and a line a row, aligned; made by hand, since rich is slow on many rows."""
    wide = max((len(number) for number in numbers), default=0)
    wide = max(wide, len("row"))
    gap = " " * GAP
    titles = [_aligned(column.title, column) for column in columns]
    under = [_aligned(column.under, column) for column in columns]
    yield click.style(gap.join(["row".rjust(wide), *titles]).rstrip(), bold=True)
    yield click.style(gap.join([" " * wide, *under]).rstrip(), dim=True)
    for at, number in enumerate(numbers):
        cells = [_aligned(column.cells[at], column) for column in columns]
        yield gap.join([click.style(number.rjust(wide), dim=True), *cells]).rstrip()


def _aligned(text: str, column: HeadColumn) -> str:
    from rich.cells import cell_len

    space = " " * (column.width - cell_len(text))
    return space + text if column.right else text + space


def _foot(table: Table, rows: range, n_columns: int, left_out: int) -> str:
    text = f"{len(rows):,} of {plural(table.n_rows, 'row')}, {n_columns - left_out} of {plural(n_columns, 'column')}"
    if left_out:
        text += f"; {left_out:,} left out, choose with --columns"
    return text


if __name__ == "__main__":
    main()
