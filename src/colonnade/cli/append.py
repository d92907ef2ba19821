"""`append`: rows from a file of any format behind those of a table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from colonnade.cli.answer import FINE, print_json
from colonnade.cli.choose import only_table
from colonnade.cli.progress import counting_rows
from colonnade.cli.text import cell, open_console, plural
from colonnade.exchange.files import Types, rows_of
from colonnade.table import File, Table, open

HDF5_ENDINGS = (".h5", ".hdf5", ".hdf", ".he5")


def append_rows(
    file: str, source: str, table: str | None, source_table: str | None, create: bool, as_json: bool
) -> int:
    with open(file, "a" if create else "r+") as opened:
        grown, added = _append(opened, Path(source), table, source_table, create)
        facts = {"file": opened.name, "table": grown.path, "added": added, "rows": grown.n_rows}
    if as_json:
        print_json(facts)
    else:
        said = f"{plural(added, 'row')} added to {facts['table']} of {file}, which has {facts['rows']:,} now"
        open_console().print(cell(said), soft_wrap=True)
    return FINE


def _append(opened: File, source: Path, table: str | None, source_table: str | None, create: bool) -> tuple[Table, int]:
    """The table that has grown, and by how many rows."""
    if create and ((table is not None and table not in opened) or not opened.tables()):
        with _rows(source, {}, source_table) as rows, counting_rows(f"writing {source.name}") as progress:
            made = opened.create(table or "table", rows, progress=progress)
            return made, made.n_rows
    grown = only_table(opened, table)
    types = {field.name: field.type for field in grown.schema}
    with _rows(source, types, source_table) as rows, counting_rows(f"appending {source.name}") as progress:
        return grown, grown.append(rows, progress=progress)


@contextmanager
def _rows(source: Path, types: Types, source_table: str | None) -> Iterator[Any]:
    """The rows of a file of any format, or of a table of an HDF5 file."""
    if source.suffix.lower() not in HDF5_ENDINGS:
        with rows_of(source, types) as rows:
            yield rows
        return
    with open(source) as opened:
        yield only_table(opened, source_table).batches()
