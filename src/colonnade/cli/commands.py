"""Every command: its arguments, options and help. What it does is in the file of its name.

A new command is a declaration here and a file with a function that returns the exit code. The file
is imported inside the declaration, so that --help loads none of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from colonnade import __version__
from colonnade.cli.answer import report_error
from colonnade.errors import ColonnadeError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="colonnade")
def main() -> None:
    """Column tables inside HDF5 files: see what is there, add to it, keep it small.

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


def rows_or_auto(_context: click.Context, _option: click.Parameter, given: str | None) -> Any:
    """The option as a number of rows, or "auto"."""
    if given is None or given == "auto":
        return given
    if not given.isascii() or not given.isdigit() or int(given) < 1:
        raise click.BadParameter(f"{given!r} is neither a number of rows nor 'auto'.")
    return int(given)


file_argument = click.argument("file")
table_argument = click.argument("table", required=False)


@command
@click.option("--rows", "n_rows", default=1_000_000, show_default=True, type=click.IntRange(min=1), help="How many.")
@click.option(
    "--keep", default=None, metavar="PATH", help="The file to make. [default: colonnade-demo.h5 in this folder]"
)
def demo(n_rows: int, keep: str | None, as_json: bool) -> int:
    """Make a table of detector events beside an image cube, and read it back.

    The file stays, for you to explore.
    """
    from colonnade.cli.demo import run_demo

    return run_demo(n_rows, keep, as_json)


@command
@file_argument
def ls(file: str, as_json: bool) -> int:
    """List the tables of FILE, and what lies beside them."""
    from colonnade.cli.ls import list_objects

    return list_objects(file, as_json)


@command
@file_argument
@table_argument
def info(file: str, table: str | None, as_json: bool) -> int:
    """Show how TABLE is stored: sizes, chunks, filters, missing marks, problems.

    All tables of FILE when no TABLE is named. Exit code 1 when problems were found.
    """
    from colonnade.cli.info import tell_storage

    return tell_storage(file, table, as_json)


@command
@file_argument
@table_argument
def schema(file: str, table: str | None, as_json: bool) -> int:
    """Show the columns of TABLE: types, units, descriptions, categories.

    All tables of FILE when no TABLE is named.
    """
    from colonnade.cli.schema import tell_columns

    return tell_columns(file, table, as_json)


@command
@file_argument
@table_argument
@click.option("-n", "n_rows", type=click.IntRange(min=0), help="How many rows.  [default: 5, or all of --rows]")
@click.option("-c", "--columns", multiple=True, metavar="A,B", help="Which columns, in this order; may be repeated.")
@click.option("--rows", metavar="START:STOP[:STEP]", help="Which rows, as a Python slice; 7 is row 7, -5: the last 5.")
def head(
    file: str, table: str | None, n_rows: int | None, columns: tuple[str, ...], rows: str | None, as_json: bool
) -> int:
    """Show rows of TABLE.

    TABLE may be left out when FILE holds one table. A missing value is shown as "-".
    """
    from colonnade.cli.head import show_rows

    return show_rows(file, table, n_rows, columns, rows, as_json)


@command
@file_argument
@click.argument("source")
@click.option("-t", "--table", help="The table to add to; may be left out when FILE holds one.")
@click.option("--from", "source_table", metavar="TABLE", help="The table of SOURCE, if that is an HDF5 file.")
@click.option("--create", is_flag=True, help="Make the table, and FILE, if they are not there.")
def append(file: str, source: str, table: str | None, source_table: str | None, create: bool, as_json: bool) -> int:
    """Add the rows of SOURCE to a table of FILE: all of them, or none.

    SOURCE is a CSV, TSV, Parquet, Arrow (Feather) or JSON-lines file, or an HDF5 file with a table. Its columns
    are matched by name.
    """
    from colonnade.cli.append import append_rows

    return append_rows(file, source, table, source_table, create, as_json)


@command
@file_argument
@click.option("--chunk-rows", callback=rows_or_auto, metavar="ROWS|auto", help="Store columns in chunks of so many.")
@click.option("--filters", metavar="TEXT|auto", help="Store columns with these filters, as shuffle+zstd:5 or none.")
def repack(file: str, chunk_rows: Any, filters: str | None, as_json: bool) -> int:
    """Rewrite FILE to its smallest form, all at once.

    Space that dropped and replaced things left is given back; everything in the file is kept, with its links,
    attributes and references. "auto" stores columns as for a new table.
    """
    from colonnade.cli.repack import repack_file

    return repack_file(file, chunk_rows, filters, as_json)
