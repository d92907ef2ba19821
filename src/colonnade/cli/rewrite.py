"""`append`, `delete`, `convert` and `repack`: add or remove rows of a table, or write a file again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from colonnade.cli.answer import FINDINGS, FINE, print_json
from colonnade.cli.choose import Access, asked_matches, matching, only_table
from colonnade.cli.progress import counting_bytes, counting_rows
from colonnade.cli.text import cell, open_console, plural
from colonnade.converting import convert
from colonnade.converting.row_files import row_format
from colonnade.dataclass import dataclass
from colonnade.errors import UsageError
from colonnade.layouts import LAYOUTS
from colonnade.pager.options import Links
from colonnade.pager.safe_files import check_regular
from colonnade.row_files.base import TextOptions
from colonnade.row_files.known import HDF5_SUFFIXES, format_of, known_suffixes
from colonnade.row_files.types import Types, parse_types
from colonnade.table import File, Table, open
from colonnade.table.copying import copy
from colonnade.table.show import size_text


@dataclass(frozen=True)
class InputSource:
    """Where rows come from: a file, its table if it is an HDF5 file, and the strings that mean a missing value."""

    path: Path
    table: str | None
    missing: Sequence[str]
    links: Links = "folder"
    delimiter: str | None = None

    @contextmanager
    def rows(self, types: Types) -> Iterator[object]:
        known = format_of(self.path)
        if known is None and self.path.suffix.lower() not in HDF5_SUFFIXES:
            endings = ", ".join([HDF5_SUFFIXES[0], *known_suffixes()])
            raise UsageError(f"cannot read rows from {self.path}: its name ends in none of {endings}")
        check_regular(self.path)
        if self.missing and (known is None or not known.is_text):
            raise UsageError("--missing is for CSV and TSV files: other files mark missing values themselves")
        if known is not None:
            with known.open(self.path, TextOptions(types, self.missing, self.delimiter)) as stream:
                yield stream
            return
        with open(self.path, links=self.links) as opened:
            yield only_table(opened, self.table).batches()


def append_rows(
    file: str, source: InputSource, table: str | None, create: bool, layout: str | None, as_json: bool
) -> int:
    with open(file, "a" if create else "r+", links=source.links) as opened:
        grown, added = _append(opened, source, table, create, layout)
        facts = {"file": opened.name, "table": grown.path, "added": added, "rows": grown.n_rows}
    if as_json:
        print_json(facts)
    else:
        message = f"{plural(added, 'row')} added to {facts['table']} of {file}, which has {facts['rows']:,} now"
        open_console().print(cell(message), soft_wrap=True)
    return FINE


def delete_rows(file: str, given: Sequence[str], dry_run: bool, as_json: bool, access: Access) -> int:
    with access.open(file, "r" if dry_run else "r+") as opened:
        table, predicate = asked_matches(opened, given, needed=True)
        query = matching(opened, table, predicate)
        removed = query.count() if dry_run else table.delete(query)
        facts = {
            "file": opened.name,
            "table": table.path,
            "predicate": predicate,
            "removed": removed,
            "dry_run": dry_run,
        }
        n_rows = table.n_rows - removed if dry_run else table.n_rows
    if as_json:
        print_json({**facts, "rows": n_rows})
    else:
        done, now = ("would be removed", "would have") if dry_run else ("removed", "has")
        message = f"{plural(removed, 'row')} {done} from {facts['table']} of {file}, which {now} {n_rows:,} now"
        open_console().print(cell(message.removesuffix(" now") if dry_run else message), soft_wrap=True)
    return FINE if removed else FINDINGS


def _append(
    opened: File, source: InputSource, table: str | None, create: bool, layout: str | None
) -> tuple[Table, int]:
    """The table, and the number of rows appended. layout: of a new table, or the one to read the table in."""
    if create and ((table is not None and table not in opened) or not opened.tables()):
        with source.rows({}) as rows, counting_rows(f"writing {source.path.name}") as progress:
            chosen = next(iter(LAYOUTS)) if layout is None else layout
            created = opened.create(table or "table", rows, layout=chosen, progress=progress)
            return created, created.n_rows
    grown = only_table(opened, None) if table is None else opened.table(table, layout)
    if layout is not None and grown.layout != layout:
        grown = opened.table(grown.path, layout)
    types = {field.name: field.type for field in grown.schema}
    with source.rows(types) as rows, counting_rows(f"appending {source.path.name}") as progress:
        return grown, grown.append(rows, progress=progress)


@dataclass(frozen=True)
class WantedOptions:
    """What to write, from the options of the command."""

    layout: str | None
    version: str | None
    directory: bool
    overwrite: bool
    table: str | None = None
    format: str | None = None
    source_format: str | None = None
    types: Sequence[str] = ()
    missing: Sequence[str] = ()
    delimiter: str | None = None
    source_layouts: Sequence[str] = ()


def convert_file(source: str, target: str, wanted: WantedOptions, as_json: bool) -> int:
    layouts = dict(_path_and_layout(text) for text in wanted.source_layouts)
    options = {**asdict(wanted), "types": parse_types(wanted.types), "source_layouts": layouts}
    is_hdf5 = row_format(Path(source), wanted.source_format, True) is row_format(Path(target), wanted.format, False)
    counting = counting_bytes if is_hdf5 else counting_rows
    with counting(f"converting {source}") as progress:
        done = convert(source, target, **options, progress=progress)
    if as_json:
        print_json({"source": source, "target": target, **asdict(done)})
        return FINE if done.tables or done.copied else FINDINGS
    how = f"in the layout {done.layout}" if done.layout in LAYOUTS else f"as {done.layout}"
    what = f"{plural(len(done.tables), 'table')} written {how}"
    names = f" ({', '.join(done.tables)})" if done.tables else ""
    unchanged = f", {plural(len(done.copied), 'table')} copied unchanged" if done.copied else ""
    indexes = f", {done.indexes:,} search {'index' if done.indexes == 1 else 'indexes'} rebuilt" if done.indexes else ""
    console = open_console()
    for line in (f"{target}: {what}{names}{unchanged}{indexes}", *(f"note: {note}" for note in done.notes)):
        console.print(cell(line), soft_wrap=True)
    if not done.tables and not done.copied:
        console.print(cell("it has no table that can be written in another layout (`colonnade ls` lists its contents)"))
        return FINDINGS
    return FINE


def _path_and_layout(text: str) -> tuple[str, str]:
    """The parts of PATH=LAYOUT."""
    path, sign, layout = text.rpartition("=")
    if not sign or not path:
        raise UsageError(f"--source-layout {text} is not PATH=LAYOUT, such as /col_attrs=columns")
    return path, layout


def copy_file(source: str, target: str, force: bool, as_json: bool) -> int:
    with counting_bytes(f"copying {source}") as progress:
        n_bytes = copy(source, target, overwrite=force, progress=progress)
    if as_json:
        print_json({"source": source, "target": target, "bytes": n_bytes})
    else:
        open_console().print(cell(f"{target}: {size_text(n_bytes)} copied from {source}"), soft_wrap=True)
    return FINE


def repack_file(file: str, chunk_rows: int | Literal["auto"] | None, filters: str | None, as_json: bool) -> int:
    with open(file, "r+") as opened, counting_bytes(f"repacking {file}") as progress:
        before, after = opened.repack(chunk_rows=chunk_rows, filters=filters, progress=progress)
    if as_json:
        print_json({"file": file, "bytes_before": before, "bytes_after": after})
    else:
        open_console().print(cell(f"{file}: {size_text(before)} before, {size_text(after)} now"), soft_wrap=True)
    return FINE
