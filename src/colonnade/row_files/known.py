"""The formats of row files, by name, by suffix and by their first bytes."""

from __future__ import annotations

from pathlib import Path

from colonnade.errors import UsageError
from colonnade.row_files.arrow import ARROW, ARROW_STREAM
from colonnade.row_files.base import COMPRESSED_SUFFIXES, RowFormat
from colonnade.row_files.csv import CSV, TSV
from colonnade.row_files.json_lines import JSON_LINES
from colonnade.row_files.parquet import PARQUET

ROW_FORMATS: dict[str, RowFormat] = {
    known.name: known for known in (CSV, TSV, JSON_LINES, ARROW, ARROW_STREAM, PARQUET)
}


def format_of(path: Path) -> RowFormat | None:
    """The format that the suffix of a path stands for; None for any other suffix. Text may be compressed: .csv.gz."""
    name = path.name.lower()
    packed = next((suffix for suffix in COMPRESSED_SUFFIXES if name.endswith(suffix)), "")
    plain = name.removesuffix(packed)
    matches = (
        known for known in ROW_FORMATS.values() if plain.endswith(known.suffixes) and (known.is_text or not packed)
    )
    return next(matches, None)


def named_format(name: str) -> RowFormat:
    """The format of this name."""
    if name not in ROW_FORMATS:
        raise UsageError(f"unknown format {name!r}; known: {', '.join(ROW_FORMATS)}")
    return ROW_FORMATS[name]


def known_suffixes() -> list[str]:
    """The suffixes of all formats."""
    return [suffix for known in ROW_FORMATS.values() for suffix in known.suffixes]


def format_of_content(path: Path) -> RowFormat | None:
    """The format whose first bytes a file has; None if they tell nothing, as those of text."""
    with path.open("rb") as stream:
        begin = stream.read(8)
    return next((known for known in ROW_FORMATS.values() if known.magic and begin.startswith(known.magic)), None)


HDF5_SUFFIXES = (".h5", ".hdf5", ".hdf", ".he5", ".h5ad", ".h5mu")
HDF5 = "hdf5"


def chosen_format(form: str | None, out: str | None) -> str:
    """The format given by --format, or by the suffix of --output; "table" when neither is given."""
    if form == "table" and out is not None:
        raise UsageError(f"the format table cannot be written to a file: choose {', '.join([HDF5, *ROW_FORMATS])}")
    if form == HDF5 and out in (None, "-"):
        raise UsageError("an HDF5 file cannot be written to stdout: give a file with -o")
    if form is not None or out is None:
        return form or "csv"
    known = format_of(Path(out))
    if known is not None:
        return known.name
    if Path(out).suffix.lower() in HDF5_SUFFIXES:
        return HDF5
    endings = ", ".join([*HDF5_SUFFIXES[:1], *known_suffixes()])
    raise UsageError(f"{out!r} ends in none of {endings}: give the format with --format")
