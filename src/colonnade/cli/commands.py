"""Every command: its arguments, options and help. The implementation is in the module of its name.

A new command is a declaration here and a module with a function that returns the exit code. The module is imported
inside the declaration, so that --help loads none of them.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Literal

import click

from colonnade.cli.answer import leave_pipe, report_error, report_interrupt
from colonnade.errors import ColonnadeError

if TYPE_CHECKING:  # imported by the commands that need them
    from click.shell_completion import CompletionItem

    from colonnade.cli.choose import Access
    from colonnade.model import Severity
    from colonnade.pager.options import Links
    from colonnade.pager.receipts import Trust


def show_versions(context: click.Context, _option: click.Parameter, asked: bool) -> None:
    """--version: everything a bug report needs; the packages are looked up only here."""
    if asked and not context.resilient_parsing:
        from colonnade.versions import versions_text

        click.echo(versions_text())
        context.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=show_versions,
    help="Show the versions of colonnade, its kernels and the packages it works with.",
)
def main() -> None:
    """Column tables in HDF5 files: list, search, append, check and repack.

    Every command takes --json. Exit codes: 0 success, 1 findings or nothing to show, 2 usage error, 3 file or format
    error, 130 interrupted, 141 the program that reads the output has ended.
    """


def command_in(group: click.Group, name: str | None = None) -> Callable[[Callable[..., int]], click.Command]:
    """Makes a function a command of the group, with the option --json.

    The function returns its exit code; its errors become one line and a code.
    """

    def decorate(function: Callable[..., int]) -> click.Command:
        @wraps(function)
        def guarded(*, as_json: bool, **given: object) -> None:
            try:
                code = function(as_json=as_json, **given)
                sys.stdout.flush()
            except KeyboardInterrupt:
                code = report_interrupt()
            except (ColonnadeError, OSError) as error:
                is_closed = isinstance(error, OSError) and error.errno == errno.EPIPE
                code = leave_pipe() if is_closed else report_error(error, as_json, str(given.get("file", "")))
            click.get_current_context().exit(code)

        flag = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
        return group.command(name)(flag(guarded))

    return decorate


command = command_in(main)


def rows_or_auto(_context: click.Context, _option: click.Parameter, given: str | None) -> int | str | None:
    """The option as a number of rows, or "auto"."""
    if given is None or given == "auto":
        return given
    if not given.isascii() or not given.isdigit() or int(given) < 1:
        raise click.BadParameter(f"{given!r} is neither a number of rows nor 'auto'.")
    return int(given)


FILE_FORMATS = ["hdf5", "csv", "tsv", "jsonl", "arrow", "arrows", "parquet"]


def complete_files(_context: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from colonnade.cli.complete import files

    return files(incomplete)


def complete_tables(context: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from colonnade.cli.complete import tables

    return tables(context, incomplete)


def complete_columns(context: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from colonnade.cli.complete import columns

    return columns(context, incomplete)


file_argument = click.argument("file", shell_complete=complete_files)
source_argument = click.argument("source", shell_complete=complete_files)
target_argument = click.argument("target", shell_complete=complete_files)
table_argument = click.argument("table", required=False, shell_complete=complete_tables)
columns_option = click.option(
    "-c", "--columns", multiple=True, metavar="A,B", help="Which columns, in this order; may be repeated.",
    shell_complete=complete_columns,
)  # fmt: skip
trust_option = click.option(
    "--trust",
    type=click.Choice(["verified", "always", "never"]),
    default="verified",
    show_default=True,
    help="Which search indexes to trust: those built or verified here, all, or none.",
)
links_option = click.option(
    "--links",
    type=click.Choice(["folder", "none", "any"]),
    default="folder",
    show_default=True,
    help="Which other files FILE may refer to: those in its folder or below, none, or any.",
)
layout_option = click.option(
    "--layout",
    metavar="NAME",
    help="Read TABLE as a table of this layout, whatever it declares.",
)
index_file_option = click.option(
    "--index-file",
    metavar="PATH",
    shell_complete=complete_files,
    help="Search indexes in a file of their own, for a FILE that must not change.",
)
missing_option = click.option(
    "--missing", multiple=True, metavar="TEXT", help="In CSV and TSV, this string also means missing; repeatable."
)
delimiter_option = click.option("--delimiter", metavar="CHARACTER", help="What separates the fields of CSV.")
force_option = click.option("--force", "force", is_flag=True, help="Replace the file if it exists.")
explain_option = click.option("--explain", is_flag=True, help="Show which indexes and chunks would be read instead.")


def file_access(function: Callable[..., int]) -> Callable[..., int]:
    """Options on how to open FILE, as one argument `access`; a command may add --trust and --index-file."""

    @wraps(function)
    def opened(
        *, links: Links, layout: str | None, trust: Trust = "verified", index_file: str | None = None, **given: object
    ) -> int:
        from colonnade.cli.choose import Access

        return function(access=Access(links, layout, trust, index_file), **given)

    return layout_option(links_option(opened))


@command
@click.option("--rows", "n_rows", default=1_000_000, show_default=True, type=click.IntRange(min=1), help="Row count.")
@click.option(
    "--keep", default=None, metavar="PATH", help="The file to create. [default: colonnade-demo.h5 in this folder]"
)
def demo(n_rows: int, keep: str | None, as_json: bool) -> int:
    """Create a table of detector events next to an image cube, and read it back.

    The file is kept, for you to explore.
    """
    from colonnade.cli.demo import run_demo

    return run_demo(n_rows, keep, as_json)


@command
@file_argument
def ls(file: str, as_json: bool) -> int:
    """List the tables of FILE, and its other objects."""
    from colonnade.cli.ls import list_objects

    return list_objects(file, as_json)


@command
@file_argument
@table_argument
@file_access
def info(file: str, table: str | None, access: Access, as_json: bool) -> int:
    """Show how TABLE is stored: sizes, chunks, filters, missing marks, problems.

    Shows all tables of FILE if TABLE is not given. Exit code 1 when problems were found.
    """
    from colonnade.cli.info import print_storage

    return print_storage(file, table, as_json, access)


@command
@file_argument
@table_argument
@file_access
def schema(file: str, table: str | None, access: Access, as_json: bool) -> int:
    """Show the columns of TABLE: types, units, descriptions, categories.

    Shows all tables of FILE if TABLE is not given.
    """
    from colonnade.cli.info import print_columns

    return print_columns(file, table, as_json, access)


@command
@file_argument
@table_argument
@click.option("-n", "n_rows", type=click.IntRange(min=0), help="How many rows.  [default: 5, or all of --rows]")
@columns_option
@click.option("--rows", metavar="START:STOP[:STEP]", help="Which rows, as a Python slice; 7 is row 7, -5: the last 5.")
@file_access
def head(
    file: str,
    table: str | None,
    n_rows: int | None,
    columns: tuple[str, ...],
    rows: str | None,
    access: Access,
    as_json: bool,
) -> int:
    """Show rows of TABLE.

    TABLE may be left out when FILE holds one table. A missing value is shown as "-".
    """
    from colonnade.cli.head import show_rows

    return show_rows(file, table, n_rows, columns, rows, as_json, access)


@command
@file_argument
@click.option("-t", "--table", metavar="PATH", help="Only this table.")
@click.option("--deep", is_flag=True, help="Also read every value, and compare indexes with their columns.")
@click.option("--sarif", is_flag=True, help="Print SARIF 2.1.0, for services that show findings.")
@click.option(
    "--severity",
    type=click.Choice(["error", "warning", "note"]),
    default="note",
    show_default=True,
    help="The lowest severity to show.",
)
@click.option("--strict", is_flag=True, help="Warnings make the exit code 1 too.")
@click.option(
    "--generation",
    metavar="WORD",
    help="For ArtifactDB data frames: check as versioned, directory or legacy:2/1, not by the stated version.",
)
@links_option
@layout_option
def check(
    file: str,
    table: str | None,
    deep: bool,
    sarif: bool,
    severity: Severity,
    strict: bool,
    generation: str | None,
    links: Links,
    layout: str | None,
    as_json: bool,
) -> int:
    """Check FILE against every rule of its tables.

    Errors violate a MUST of the standard, warnings a SHOULD (or are stored as colonnade would not), notes are worth
    knowing. Exit codes: 0 no errors, 1 errors (with --strict also warnings) or no tables, 2 usage, 3 not readable as
    HDF5. "colonnade fix" repairs many of the findings.
    """
    from colonnade.cli.check import Asked, check_file

    if sarif and as_json:
        raise click.UsageError("--json and --sarif cannot be combined: choose one.")
    asked = Asked(table, deep, severity, strict, links, generation, layout)
    return check_file(file, asked, "sarif" if sarif else "json" if as_json else "text")


@command
@file_argument
@click.option("-n", "--dry-run", is_flag=True, help="Only show what would be done.")
def fix(file: str, dry_run: bool, as_json: bool) -> int:
    """Repair findings of "check" in FILE without touching data: all repairs in one commit.

    References, column-order and the storage of attributes are corrected; wrong search indexes are rebuilt or dropped.
    What cannot be repaired is listed. Exit code 1 when errors are left.
    """
    from colonnade.cli.check import fix_file

    return fix_file(file, dry_run, as_json)


@command
@file_argument
@source_argument
@click.option(
    "-t", "--table", shell_complete=complete_tables, help="The table to append to; may be left out when FILE holds one."
)
@click.option("--from", "source_table", metavar="TABLE", help="The table of SOURCE, if it is an HDF5 file.")
@click.option("--create", is_flag=True, help="Create the table, and FILE, if they do not exist.")
@missing_option
@delimiter_option
@links_option
def append(
    file: str,
    source: str,
    table: str | None,
    source_table: str | None,
    create: bool,
    missing: tuple[str, ...],
    delimiter: str | None,
    links: Links,
    as_json: bool,
) -> int:
    """Append the rows of SOURCE to a table of FILE: all of them, or none.

    SOURCE is a CSV, TSV, Parquet, Arrow (Feather) or JSON-lines file, or an HDF5 file with a table. Its columns
    are matched by name.
    """
    from pathlib import Path

    from colonnade.cli.rewrite import InputSource, append_rows

    return append_rows(file, InputSource(Path(source), source_table, missing, links, delimiter), table, create, as_json)


@command
@source_argument
@target_argument
@click.option(
    "--layout",
    metavar="NAME",
    help="hep001, h5col, anndata or artifactdb; by default by the suffix of TARGET.",
)
@click.option("--version", metavar="V", help="For artifactdb: 1.0, or H/F for the legacy forms 1/1, 1/2, 2/1 and 2/2.")
@click.option(
    "--directory", is_flag=True, help="Create TARGET as an artifactdb directory, with the only table of SOURCE."
)
@click.option("-t", "--table", metavar="PATH", help="Which table of an HDF5 SOURCE, or its name in an HDF5 TARGET.")
@click.option("--format", "form", type=click.Choice(FILE_FORMATS), help="The format of TARGET.  [default: by suffix]")
@click.option("--source-format", type=click.Choice(FILE_FORMATS), help="The format of SOURCE.  [default: by suffix]")
@click.option(
    "--source-layout", "source_layouts", multiple=True, metavar="PATH=LAYOUT",
    help="Read a group of SOURCE as a table of a layout, such as /col_attrs=columns; repeatable.",
)  # fmt: skip
@click.option(
    "--types", multiple=True, metavar="COLUMN=TYPE,...", help="Types of columns of CSV or JSON lines, as in id=uint64."
)
@missing_option
@delimiter_option
@click.option("--force", "--overwrite", "overwrite", is_flag=True, help="Replace TARGET if it exists.")
def convert(
    source: str, target: str, layout: str | None, version: str | None, directory: bool, table: str | None,
    form: str | None, source_format: str | None, types: tuple[str, ...], missing: tuple[str, ...],
    delimiter: str | None, source_layouts: tuple[str, ...], overwrite: bool, as_json: bool,
) -> int:  # fmt: skip
    """Write SOURCE as TARGET in another layout or format.

    From .h5ad to .h5, obs and var become HEP001 tables; from .h5 to .h5ad, HEP001 tables become data frames. Everything
    else is copied unchanged. If the layout cannot hold something, the command fails and writes no TARGET. SOURCE may be
    the directory, or the JSON metadata, of an ArtifactDB data frame.

    Either may be a CSV, TSV, JSON-lines, Arrow or Parquet file instead, by its suffix (.csv, .csv.gz, .tsv, .jsonl,
    .arrow, .feather, .arrows, .parquet). Several tables of SOURCE are written into a new folder, with --format. CSV and
    JSON lines record no types: those of numbers, booleans and ISO times are found from the first rows, the others can
    be given with --types. An empty CSV field is missing, a quoted one ("") is an empty string.
    """
    from colonnade.cli.rewrite import WantedOptions, convert_file

    wanted = WantedOptions(layout, version, directory, overwrite, table, form, source_format, types, missing, delimiter,
                           source_layouts)  # fmt: skip
    return convert_file(source, target, wanted, as_json)


@command
@source_argument
@target_argument
@force_option
def copy(source: str, target: str, force: bool, as_json: bool) -> int:
    """Copy SOURCE as of its last commit, also while another program changes it.

    TARGET appears when it is complete. The metadata of ArtifactDB files are copied with them. SOURCE may be the
    directory of an ArtifactDB data frame.
    """
    from colonnade.cli.rewrite import copy_file

    return copy_file(source, target, force, as_json)


@command
@file_argument
@click.argument("query")
@click.option("-n", "n_rows", type=click.IntRange(min=1), help="How many rows at most.  [default: 20 as table]")
@click.option(
    "--attach", "attached", multiple=True, metavar="NAME=FILE", help="Another file, for NAME.table; repeatable."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", *FILE_FORMATS]),
    help="How to write the result.  [default: by the suffix of --output, otherwise table]",
)
@click.option(
    "-o",
    "--output",
    "out",
    metavar="OUT",
    shell_complete=complete_files,
    help="The file to write: .h5 .parquet .csv .tsv .jsonl .arrow; - is stdout.",
)
@force_option
@trust_option
@index_file_option
@file_access
def sql(
    file: str, query: str, n_rows: int | None, attached: tuple[str, ...], form: str | None, out: str | None,
    force: bool, access: Access, as_json: bool,
) -> int:  # fmt: skip
    """Show, or write to a file, the result of the SQL QUERY on the tables of FILE.

    A table is named by its path, such as events or "run/hits", or by its last part. The table at the root of FILE is
    root. array('/image') are the elements of an array: columns i0, i1, ... for the position, and value. DuckDB runs the
    query (pip install 'colonnade[sql]'). Exit code 1 when the result has no rows.
    """
    from colonnade.cli.sql import ResultOptions, run_query

    return run_query(file, query, attached, ResultOptions(n_rows, form, out, force, as_json), access)


@command
@file_argument
@click.argument("given", nargs=-1, metavar="[TABLE] PREDICATE")
@click.option("-n", "--dry-run", is_flag=True, help="Only show how many rows would be removed.")
@file_access
def delete(file: str, given: tuple[str, ...], dry_run: bool, access: Access, as_json: bool) -> int:
    """Remove the rows of TABLE for which PREDICATE is true: all of them, or none.

    PREDICATE is written as for "where"; "true" is for all rows. TABLE may be left out when FILE holds one table. Exit
    code 1 when no row matches.
    """
    from colonnade.cli.rewrite import delete_rows

    return delete_rows(file, given, dry_run, as_json, access)


@command
@file_argument
@click.option("--chunk-rows", callback=rows_or_auto, metavar="ROWS|auto", help="Rows per chunk of all columns.")
@click.option(
    "--filters",
    metavar="TEXT|auto|portable",
    help="Store columns with these filters, such as shuffle+zstd:5, portable or none.",
)
def repack(file: str, chunk_rows: int | Literal["auto"] | None, filters: str | None, as_json: bool) -> int:
    """Rewrite FILE to its smallest size, in one step.

    Space left by dropped and replaced objects is freed; everything in the file is kept, with its links, attributes and
    references. "auto" stores columns as for a new table.
    """
    from colonnade.cli.rewrite import repack_file

    return repack_file(file, chunk_rows, filters, as_json)


@command
@file_argument
@click.argument("given", nargs=-1, metavar="[TABLE] PREDICATE", shell_complete=complete_tables)
@click.option(
    "-n", "n_rows", type=click.IntRange(min=1), help="How many rows at most.  [default: 20 as table, otherwise all]"
)
@columns_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", *FILE_FORMATS]),
    help="How to write the rows.  [default: by the suffix of --output, otherwise table]",
)
@click.option(
    "-o",
    "--output",
    "out",
    metavar="OUT",
    shell_complete=complete_files,
    help="The file to write: .h5 .parquet .csv .tsv .jsonl .arrow; - is stdout.",
)
@force_option
@click.option("--row-numbers", is_flag=True, help="Print the row numbers instead, one per line.")
@click.option(
    "--sort-by", metavar="COLUMNS", help="Sort the rows, such as --sort-by ts,-energy: a minus is descending.",
    shell_complete=complete_columns,
)  # fmt: skip
@click.option("--sample", type=click.IntRange(min=0), metavar="N", help="Only N of the matching rows, at random.")
@click.option("--seed", type=click.IntRange(min=0), help="The same seed gives the same sample.")
@explain_option
@trust_option
@index_file_option
@file_access
def where(
    file: str,
    given: tuple[str, ...],
    n_rows: int | None,
    columns: tuple[str, ...],
    form: str | None,
    out: str | None,
    force: bool,
    row_numbers: bool,
    sort_by: str | None,
    sample: int | None,
    seed: int | None,
    explain: bool,
    access: Access,
    as_json: bool,
) -> int:
    """Show, or write to a file, the rows of TABLE for which PREDICATE is true.

    PREDICATE is one argument in quotes: "energy > 3 and particle in ('muon', 'pion')", "ts between '2026-01-01' and
    '2026-02-01'", "id is missing", "name like 'run%'", "not (x < 0 or y is nan)"; "true" is for all rows. A name that
    is not a plain word is quoted in `backticks`. Put -- before a PREDICATE that begins with a minus. TABLE may be
    left out when FILE holds one table.

    In CSV and JSON lines, times are ISO strings, bytes are hex digits, lists and structs are JSON. Exit code 1 when no
    row matches.
    """
    from colonnade.cli.choose import ReadOptions

    options = ReadOptions(columns, n_rows, form, out, row_numbers, explain, force, sort_by, sample, seed)
    if out is None and form in (None, "table"):
        from colonnade.cli.where import find_rows

        return find_rows(file, given, options, as_json, access)
    from colonnade.cli.export import write_rows

    return write_rows(file, given, options, as_json, access)


@command
@file_argument
@click.argument("given", nargs=-1, metavar="[TABLE] [PREDICATE]", shell_complete=complete_tables)
@explain_option
@trust_option
@index_file_option
@file_access
def count(file: str, given: tuple[str, ...], explain: bool, access: Access, as_json: bool) -> int:
    """Print how many rows TABLE has, or for how many of them PREDICATE is true.

    A single argument after FILE is the table if it is the path of one or begins with a slash, otherwise a predicate, as
    for "where". Exit code 1 when the number is 0.
    """
    from colonnade.cli.where import count_rows

    return count_rows(file, given, explain, as_json, access)


@command
@file_argument
@table_argument
@columns_option
@trust_option
@click.option("--describe", is_flag=True, help="Mean, std and quartiles of numbers, the most frequent of other values.")
@index_file_option
@file_access
def stats(
    file: str,
    table: str | None,
    columns: tuple[str, ...],
    describe: bool,
    access: Access,
    as_json: bool,
) -> int:
    """Show statistics of the columns of TABLE: missing, NaN, minimum, maximum, distinct.

    A column is read only if no search index has its statistics; --trust never reads all columns. NaN counts as one
    distinct value. TABLE may be left out when FILE holds one table. Exit code 1 when a column could not be read.
    """
    from colonnade.cli.stats import print_description, print_stats

    return (print_description if describe else print_stats)(file, table, columns, as_json, access)


@main.group()
def index() -> None:
    """Build, list, drop and verify search indexes, which save queries from reading whole columns."""


@command_in(index)
@file_argument
@click.argument("given", nargs=-1, required=True, metavar="[TABLE] COLUMN=KIND[,KIND]...")
@click.option(
    "--error-rate",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.01,
    show_default=True,
    help="For chunk_bloom: the rate of false positives.",
)
@click.option(
    "--max-values",
    type=click.IntRange(min=1),
    default=4096,
    show_default=True,
    help="For bitmap: the most distinct values.",
)
@index_file_option
@file_access
def build(file: str, given: tuple[str, ...], error_rate: float, max_values: int, access: Access, as_json: bool) -> int:
    """Build search indexes for columns of TABLE, as in: ts=chunk_minmax id=chunk_bloom,sorted_rows

    \b
    chunk_minmax  the least and greatest value of each chunk: for nearly sorted columns
    sorted_rows   all rows in order: for ranges and single values of unsorted columns
    bitmap        the rows of each value: for few distinct values
    chunk_bloom   which chunks may hold a value: for single values among many

    An existing index is rebuilt. Either all indexes are built, or none. The first argument after FILE is the table if
    it is the path of one.
    """
    from colonnade.cli.index import build_indexes

    return build_indexes(file, given, error_rate, max_values, as_json, access)


@command_in(index, "ls")
@file_argument
@table_argument
@index_file_option
@file_access
def list_indexes(file: str, table: str | None, access: Access, as_json: bool) -> int:
    """List the search indexes of TABLE: kind, size, and whether queries use them.

    Lists those of all tables if TABLE is not given. Exit code 1 when one is unusable.
    """
    from colonnade.cli.index import list_indexes

    return list_indexes(file, table, as_json, access)


@command_in(index)
@file_argument
@click.argument("given", nargs=-1, required=True, metavar="[TABLE] COLUMN[=KIND]...")
@index_file_option
@file_access
def drop(file: str, given: tuple[str, ...], access: Access, as_json: bool) -> int:
    """Remove search indexes of columns: those of a KIND, or all.

    The first argument after FILE is the table if it is the path of one and not the only argument.
    """
    from colonnade.cli.index import drop_indexes

    return drop_indexes(file, given, as_json, access)


@command_in(index)
@file_argument
@table_argument
@index_file_option
@file_access
def verify(file: str, table: str | None, access: Access, as_json: bool) -> int:
    """Compare the search indexes of TABLE with its columns; queries then use those that are correct.

    Verifies those of all tables if TABLE is not given. Exit code 1 when one is wrong.
    """
    from colonnade.cli.index import verify_indexes

    return verify_indexes(file, table, as_json, access)


@main.group()
def sparse() -> None:
    """Inspect sparse arrays in sectioned chunks, which no released HDF5 library reads."""


array_argument = click.argument("array", required=False)
box_option = click.option("--box", metavar="A:B,C:D", help='Which part, one range per dimension, as in "0:10,:".')


@command_in(sparse, "info")
@file_argument
@array_argument
def sparse_info(file: str, array: str | None, as_json: bool) -> int:
    """Show how ARRAY is stored: chunks, chunk map, and each section with its size, ratio and filters.

    Shows all sparse arrays of FILE if ARRAY is not given. Exit code 1 when one cannot be read.
    """
    from colonnade.cli.sparse import print_sparse

    return print_sparse(file, array, as_json)


@command_in(sparse, "dump")
@file_argument
@array_argument
@box_option
def sparse_dump(file: str, array: str | None, box: str | None, as_json: bool) -> int:
    """Print the defined elements of ARRAY, chunk by chunk; each line begins with the coordinates of its first
    element."""
    from colonnade.cli.sparse import dump_cells

    return dump_cells(file, array, box, as_json)


@command_in(sparse, "defined")
@file_argument
@array_argument
@box_option
def sparse_defined(file: str, array: str | None, box: str | None, as_json: bool) -> int:
    """Print which elements of ARRAY are defined, chunk by chunk, as points and blocks."""
    from colonnade.cli.sparse import print_defined

    return print_defined(file, array, box, as_json)


@command_in(sparse, "convert")
@source_argument
@target_argument
@click.option("--array", metavar="NAME", help="Which array or group of SOURCE, if it has several.")
@click.option("--as", "new_name", metavar="NAME", help='Its name in TARGET; "matrix", or "X" for csr and csc groups.')
@click.option(
    "--format", "kind", metavar="KIND", help="sectioned, csr, csc or mtx; by default chosen from TARGET's name."
)
@click.option("--chunks", metavar="AxB", help="The chunk of a sectioned array, as in 256x1024.")
@click.option("--filters", metavar="TEXT", help='As in "shuffle+deflate:4"; for csr and csc groups, gzip or lzf.')
def sparse_convert(
    source: str, target: str, array: str | None, new_name: str | None, kind: str | None, chunks: str | None,
    filters: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Write the sparse matrix of SOURCE into TARGET, in pieces.

    Both may be HDF5 files with sectioned arrays or with csr and csc groups (AnnData, 10x), or Matrix Market files
    (.mtx, .mtx.gz). TARGET may exist if it is HDF5.
    """
    from colonnade.cli.sparse import convert_matrix

    return convert_matrix(source, target, array, new_name, kind, chunks, filters, as_json)


@command_in(sparse, "verify")
@file_argument
@array_argument
def sparse_verify(file: str, array: str | None, as_json: bool) -> int:
    """Read all of ARRAY and check every length, offset and checksum; all sparse arrays if ARRAY is not given.

    Exit code 1 when something is wrong.
    """
    from colonnade.cli.sparse import print_verified

    return print_verified(file, array, as_json)
