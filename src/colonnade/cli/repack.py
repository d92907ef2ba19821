"""`repack`: rewrites a file to its smallest size."""

from __future__ import annotations

from typing import Literal

from colonnade.cli.answer import FINE, print_json
from colonnade.cli.progress import counting_bytes
from colonnade.cli.text import cell, open_console
from colonnade.table import open
from colonnade.table.show import size_text


def repack_file(file: str, chunk_rows: int | Literal["auto"] | None, filters: str | None, as_json: bool) -> int:
    with open(file, "r+") as opened, counting_bytes(f"repacking {file}") as progress:
        before, after = opened.repack(chunk_rows=chunk_rows, filters=filters, progress=progress)
    if as_json:
        print_json({"file": file, "bytes_before": before, "bytes_after": after})
    else:
        open_console().print(cell(f"{file}: {size_text(before)} before, {size_text(after)} now"), soft_wrap=True)
    return FINE
