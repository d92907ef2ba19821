"""`convert`: writes a file again with its tables in another layout."""

from __future__ import annotations

from dataclasses import asdict

from colonnade.cli.answer import FINDINGS, FINE, print_json
from colonnade.cli.progress import counting_bytes
from colonnade.cli.text import cell, open_console, plural
from colonnade.converting import convert
from colonnade.dataclass import dataclass


@dataclass(frozen=True)
class Wanted:
    """What to write, from the options of the command."""

    layout: str | None
    version: str | None
    directory: bool
    overwrite: bool


def convert_file(source: str, target: str, wanted: Wanted, as_json: bool) -> int:
    with counting_bytes(f"converting {source}") as progress:
        done = convert(source, target, **asdict(wanted), progress=progress)
    if as_json:
        print_json({"source": source, "target": target, **asdict(done)})
        return FINE if done.tables or done.copied else FINDINGS
    what = f"{plural(len(done.tables), 'table')} written in the layout {done.layout}"
    names = f" ({', '.join(done.tables)})" if done.tables else ""
    kept = f", {plural(len(done.copied), 'table')} copied unchanged" if done.copied else ""
    indexes = f", {done.indexes:,} search {'index' if done.indexes == 1 else 'indexes'} rebuilt" if done.indexes else ""
    console = open_console()
    for line in (f"{target}: {what}{names}{kept}{indexes}", *(f"note: {note}" for note in done.notes)):
        console.print(cell(line), soft_wrap=True)
    if not done.tables and not done.copied:
        console.print(cell("it has no table that can be written in another layout (`colonnade ls` lists its contents)"))
        return FINDINGS
    return FINE
