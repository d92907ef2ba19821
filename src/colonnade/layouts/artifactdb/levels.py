"""Levels of a factor that are kept in another file, as legacy metadata have it: a vector, or a frame's first column.

How many there are the resource's own metadata say; they are read, and counted, when the column is.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa

from colonnade.errors import FormatError
from colonnade.h5.datasets import claims_too_much
from colonnade.h5.files import open_file
from colonnade.h5.links import open_group
from colonnade.layouts.artifactdb import names
from colonnade.layouts.artifactdb.metadata import (
    Metadata,
    allowed_place,
    read_document,
    read_metadata,
    resource_place,
)

LARGEST_LEVELS = 1 << 30  # bytes of text


def count_levels(metadata: Metadata, resource: str, group: Any) -> int:
    """How many levels a resource has, as its metadata say."""
    place = resource_place(metadata, resource, group)
    return _count(read_document(place), place)


def _count(document: dict[str, Any], place: Path) -> int:
    vector, frame = document.get("atomic_vector"), document.get("data_frame")
    if isinstance(vector, dict):
        count = vector.get("length")
    else:
        dimensions = frame.get("dimensions") if isinstance(frame, dict) else None
        count = dimensions[0] if isinstance(dimensions, list) and dimensions else None
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= names.MOST_LEVELS:
        raise FormatError(f"{place} does not say how many levels it describes", path=str(place))
    return count


def read_levels(metadata: Metadata, resource: str, group: Any) -> pa.Array:
    """The levels themselves, as text."""
    place = resource_place(metadata, resource, group)
    document = read_document(place)
    path = document.get("path")
    if not isinstance(path, str):
        raise FormatError(f"{place} does not name its file", path=str(place))
    data = _data_place(metadata, place, path, group)
    if "hdf5_data_frame" in document:
        levels = _of_frame(data, read_metadata(place))
    else:
        levels = _column(data, _compression(document), _first_column(document))
    if len(levels) != _count(document, place):
        raise FormatError(f"{data} holds {len(levels)} levels, its metadata say {_count(document, place)}")
    return levels


def _of_frame(place: Path, metadata: Metadata) -> pa.Array:
    """The first column of an HDF5 data frame, which must be plain text: it has no levels elsewhere in its turn."""
    from colonnade.columns.readers import open_reader
    from colonnade.layouts.artifactdb.describe import describe, open_column

    with closing(open_file(place)) as handle:
        group = open_group(handle.root, metadata.group) if metadata.group else handle.root
        if group is None:
            raise FormatError(f"{place} has no group {metadata.group!r}", path=str(place))
        info = describe(group, f"/{metadata.group}")
        if not info.columns or info.columns[0].type.kind not in ("string", "text") or info.columns[0].categories:
            raise FormatError(f"{place}: its first column is no text, and so no levels", path=str(place))
        column = info.columns[0]
        if claims_too_much(column.n_rows * max(column.type.size, 1), column.n_rows + place.stat().st_size):
            raise FormatError(f"{place} claims {column.n_rows:,} levels, far more than it stores", path=str(place))
        return open_reader(column, *open_column(group, column)).read(0, column.n_rows)


def _data_place(metadata: Metadata, place: Path, path: str, group: Any) -> Path:
    """The file that a resource's metadata are of: beside them, or where their path leads from the project's folder."""
    beside = place.parent / Path(path).name
    if beside.is_file():
        return allowed_place(place.parent, Path(path).name, metadata.place.parent, group)
    return allowed_place(metadata.project, path, metadata.place.parent, group)


def _compression(document: dict[str, Any]) -> str:
    for name in ("atomic_vector", "csv_data_frame"):
        own = document.get(name)
        if isinstance(own, dict) and isinstance(own.get("compression"), str):
            return str(own["compression"])
    return "none"


def _first_column(document: dict[str, Any]) -> int:
    """Which column of the CSV holds the levels: the one behind names, where there are any."""
    vector, frame = document.get("atomic_vector"), document.get("data_frame")
    named = isinstance(vector, dict) and vector.get("names") is True
    labelled = isinstance(frame, dict) and frame.get("row_names") is True
    return 1 if named or labelled else 0


def _column(place: Path, compression: str, position: int) -> pa.Array:
    """One column of a CSV file as text."""
    from pyarrow import csv

    if compression not in ("none", "gzip", "bzip2"):
        raise FormatError(f"{place}: unknown compression {compression!r}", path=str(place))
    packed = {"none": None, "gzip": "gzip", "bzip2": "bz2"}[compression]
    try:
        with pa.OSFile(str(place), "rb") as raw:
            stream = pa.CompressedInputStream(raw, packed) if packed else raw
            data = stream.read(LARGEST_LEVELS + 1)
        if len(data) > LARGEST_LEVELS:
            raise FormatError(f"{place} holds more than {LARGEST_LEVELS:,} bytes of levels", path=str(place))
        table = _parse(csv, data)
    except (OSError, pa.ArrowInvalid) as error:
        raise FormatError(f"{place} cannot be read as CSV: {error}", path=str(place)) from error
    if table.num_columns <= position:
        raise FormatError(f"{place} has {table.num_columns} columns, levels would be number {position + 1}")
    return table.column(position).combine_chunks()


def _parse(csv: Any, data: bytes) -> pa.Table:
    """All columns as text; the header says how many there are."""
    header = csv.read_csv(pa.BufferReader(data[: data.find(b"\n") + 1] or data))
    return csv.read_csv(
        pa.BufferReader(data),
        parse_options=csv.ParseOptions(newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            column_types={name: pa.string() for name in header.column_names}, strings_can_be_null=False
        ),
    )
