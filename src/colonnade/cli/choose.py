"""Which tables, columns and rows of a file a command is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from colonnade import limits
from colonnade.cli.answer import Facts, NoTables, print_json
from colonnade.cli.text import ReadColumn
from colonnade.dataclass import dataclass
from colonnade.errors import ColumnNotFound, FormatError, UnsupportedError, UsageError
from colonnade.pager.options import Links, Mode
from colonnade.pager.receipts import Trust
from colonnade.row_files.plain import plain_values
from colonnade.table import File, Query, Table, open
from colonnade.table.show import type_word

DEFAULT_ROWS = 5
READ_TOGETHER = 50

ALL_ROWS = "true"


@dataclass(frozen=True)
class Access:
    """How a command opens its file: as `open` does; layout: every table is read as one of this layout.

    index_file: the search indexes of a file that must not change, so it is opened for reading.
    """

    links: Links = "folder"
    layout: str | None = None
    trust: Trust = "verified"
    index_file: str | None = None

    def open(self, file: str, mode: Mode = "r") -> File:
        opened = open(file, mode, trust=self.trust, links=self.links, index_file=self.index_file)
        opened._read_as = self.layout
        return opened


def file_facts(file: File) -> Facts:
    """Name and size of the file."""
    path = Path(file.name)
    size = path.stat().st_size if path.is_file() else file.h5.id.get_filesize()
    return {"name": file.name, "bytes": size}


def print_tables(
    file: str,
    table: str | None,
    gather: Callable[[Table], Facts],
    show: Callable[[Facts], None],
    as_json: bool,
    access: Access,
) -> list[Facts]:
    """Show the facts of one table, or of all, and return them. `problem` states why a table has no other facts."""
    with access.open(file) as opened:
        if table is not None:
            tables = [gather(opened[table])]
        else:
            tables = [_gather_or_problem(opened, path, gather) for path in opened.tables()]
        facts = {"file": file_facts(opened), "tables": tables}
    if as_json:
        print_json(facts)
    else:
        show(facts)
    return tables


def _gather_or_problem(file: File, path: str, gather: Callable[[Table], Facts]) -> Facts:
    """The facts of one of several tables; a table that cannot be described does not hide the others."""
    try:
        return gather(file[path])
    except (FormatError, UnsupportedError) as error:
        return {"path": path, "problem": str(error), "problems": []}


def only_table(file: File, asked: str | None) -> Table:
    """The given table, or the only one; NoTables when there is none, a UsageError when there are several."""
    if asked is not None:
        return file[asked]
    tables = file.tables()
    if not tables:
        those = "tables" if file._read_as is None else f"tables of layout {file._read_as!r}"
        raise NoTables(f"{file.name} holds no {those}; list its contents with: colonnade ls")
    if len(tables) > 1:
        shown = ", ".join(tables[:8]) + (", ..." if len(tables) > 8 else "")
        raise UsageError(f"{file.name} holds {len(tables)} tables, name one: {shown}", tables=tables)
    return file[tables[0]]


def is_path_of_table(file: File, text: str) -> bool:
    """Whether an argument that may be a table is one: it begins with a slash, or is the path of a table."""
    return text.startswith("/") or text in file


def asked_matches(file: File, given: Sequence[str], needed: bool) -> tuple[Table, str | None]:
    """The table and the predicate of the arguments [TABLE] [PREDICATE].

    A single argument is the predicate if one is `needed`, or if the argument is not a table.
    """
    if len(given) > 2:
        raise UsageError(f"[TABLE] PREDICATE are two arguments, not {len(given)}: put the predicate in quotes")
    if needed and not given:
        raise UsageError("a predicate is needed, such as 'energy > 3', or true for all rows")
    if len(given) == 1 and (needed or not is_path_of_table(file, given[0])):
        return only_table(file, None), given[0]
    table = only_table(file, given[0] if given else None)
    return table, given[1] if len(given) == 2 else None


def matching(file: File, table: Table, predicate: str | None) -> Query:
    """The rows for which the predicate holds, or all rows. A word that is not a column may have been meant as a
    table."""
    if predicate is None or predicate.strip().lower() == ALL_ROWS:
        return table[:]
    try:
        return table.where(predicate)
    except ColumnNotFound as error:
        if error.name != predicate:
            raise
        hint = (
            "It is a table: a predicate must follow it; true is for all rows."
            if is_path_of_table(file, predicate)
            else "There is no such table either."
        )
        problem, *_ = str(error).splitlines()  # without the mark under the word
        raise UsageError(f"{problem} {hint}") from error


def asked_columns(table: Table, asked: tuple[str, ...]) -> list[str]:
    """The names of --columns, or all columns: labels first, since they name the rows."""
    if not asked:
        labels = [name for name in table.labels if name not in set(table.columns)]
        return labels + table.columns
    names = [name for text in asked for name in ([text] if text in table else _split(text))]
    if not names:
        raise UsageError("--columns does not name a column")
    return list(dict.fromkeys(table[name].name for name in names))


def asked_order(table: Table, text: str) -> list[tuple[str, str]]:
    """The columns of --sort-by with their directions: a minus before a name means descending."""
    keys = []
    for name in [text] if text in table else _split(text):
        descending = name.startswith("-") and name not in table
        keys.append((name.removeprefix("-"), "descending") if descending else (name, "ascending"))
    return keys


def _split(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def read_columns(table: Table, rows: Query, names: Sequence[str], strict: bool) -> Iterator[ReadColumn]:
    """Columns of some rows in order, read a few at a time on request; with `strict` a broken column is an error."""
    for first in range(0, len(names), READ_TOGETHER):
        yield from _read_together(table, rows, names[first : first + READ_TOGETHER], strict)


def _read_together(table: Table, rows: Query, names: Sequence[str], strict: bool) -> Iterator[ReadColumn]:
    """Read these columns together; if one of several cannot be read, each is tried alone."""
    try:
        arrays = rows.select(list(names)).to_arrow().columns
    except (FormatError, UnsupportedError) as error:
        if len(names) > 1:
            for name in names:
                yield from _read_together(table, rows, [name], strict)
            return
        if strict:
            raise
        column = table[names[0]]
        yield ReadColumn(column, type_word(column.dtype), [], str(error))
        return
    for name, array in zip(names, arrays, strict=True):
        values = [value for chunk in array.chunks for value in plain_values(chunk)]
        yield ReadColumn(table[name], type_word(array.type), values)


def asked_rows(n_rows: int, text: str | None, count: int | None) -> range:
    """The row numbers that --rows and -n choose."""
    if text is None:
        return range(n_rows)[: DEFAULT_ROWS if count is None else count]
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


@dataclass(frozen=True)
class ReadOptions:
    columns: tuple[str, ...]
    most: int | None
    form: str | None
    out: str | None
    row_numbers: bool
    explain: bool
    force: bool = False
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
    options: ReadOptions

    @property
    def rows(self) -> Query:
        """The rows, not searched yet."""
        chosen = self.query.select(self.names)
        return chosen if self.options.most is None else chosen.head(self.options.most)

    @property
    def facts(self) -> Facts:
        return {"file": file_facts(self.file), "table": self.table.path, "predicate": self.predicate}


def question_of(file: File, given: Sequence[str], options: ReadOptions) -> Question:
    table, predicate = asked_matches(file, given, needed=True)
    assert predicate is not None  # it was required
    query = matching(file, table, predicate)
    if options.sample is not None:
        query = query.sample(options.sample, seed=options.seed)
    elif options.seed is not None:
        raise UsageError("--seed is for --sample")
    if options.sort_by is not None:
        query = query.sort_by(*asked_order(table, options.sort_by))
    return Question(file, table, predicate, query, asked_columns(table, options.columns), options)


def batch_rows(question: Question) -> int:
    """Rows per batch: fewer for a very wide table."""
    width = sum(question.table[name].stored_type.size for name in question.names)
    return max(1, min(limits.now.printed_rows, limits.now.printed_bytes // max(width, 1)))
