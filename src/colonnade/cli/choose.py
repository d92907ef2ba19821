"""Which tables, columns and rows of a file a command was asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from colonnade.cli.answer import Facts, NoTables, print_json
from colonnade.errors import FormatError, UnsupportedError, UsageError
from colonnade.table import File, Table, open

DEFAULT_ROWS = 5


def file_facts(file: File) -> Facts:
    """Name and size of the file."""
    path = Path(file.name)
    size = path.stat().st_size if path.is_file() else file.h5.id.get_filesize()
    return {"name": file.name, "bytes": size}


def tell_tables(
    file: str, table: str | None, gather: Callable[[Table], Facts], show: Callable[[Facts], None], as_json: bool
) -> list[Facts]:
    """The facts of one table, or of all, once they have been shown. `problem` says why a table has no other facts."""
    with open(file) as opened:
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
    """The facts of one table among several: one that cannot be described does not hide the others."""
    try:
        return gather(file[path])
    except (FormatError, UnsupportedError) as error:
        return {"path": path, "problem": str(error), "problems": []}


def only_table(file: File, asked: str | None) -> Table:
    """The table asked for, or the only one; NoTables when there is none, a UsageError when there are several."""
    if asked is not None:
        return file[asked]
    tables = file.tables()
    if not tables:
        raise NoTables(f"{file.name} holds no tables; see what it holds with: colonnade ls")
    if len(tables) > 1:
        shown = ", ".join(tables[:8]) + (", ..." if len(tables) > 8 else "")
        raise UsageError(f"{file.name} holds {len(tables)} tables, name one: {shown}", tables=tables)
    return file[tables[0]]


def asked_columns(table: Table, asked: tuple[str, ...]) -> list[str]:
    """The names of --columns, or all: labels first, since they name the rows."""
    if not asked:
        labels = [name for name in table.labels if name not in set(table.columns)]
        return labels + table.columns
    names = [name for text in asked for name in ([text] if text in table else _split(text))]
    return list(dict.fromkeys(table[name].name for name in names))


def _split(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


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
