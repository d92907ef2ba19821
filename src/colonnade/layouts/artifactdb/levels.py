"""Levels of a factor that are kept in another file, as legacy metadata have it: a vector, or a frame's first column.

How many there are the resource's own metadata say; they are read, and counted, when the column is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
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
BLOCK_BYTES = 1 << 20  # that are read at once
_CODECS = {"none": None, "gzip": "gzip", "bzip2": "bz2"}


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
        levels = _column(data, _compression(document), _first_column(document), _count(document, place))
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


def _column(place: Path, compression: str, position: int, count: int) -> pa.Array:
    """One column of a CSV file as text, read block by block; more values than `count` are a FormatError."""
    if compression not in _CODECS:
        raise FormatError(f"{place}: unknown compression {compression!r}", path=str(place))
    try:
        with _csv(place, _CODECS[compression], None) as reader:
            n_columns = len(reader.schema)
        if n_columns <= position:
            raise FormatError(f"{place} has {n_columns} columns, levels would be number {position + 1}")
        blocks, n_rows, n_bytes = [], 0, 0
        with _csv(place, _CODECS[compression], (n_columns, position)) as reader:
            for batch in reader:
                blocks.append(batch.column(0))
                n_rows, n_bytes = n_rows + len(batch), n_bytes + batch.nbytes
                if n_rows > count or n_bytes > LARGEST_LEVELS:
                    most = f"{count} levels, as its metadata say" if n_rows > count else f"{LARGEST_LEVELS:,} bytes"
                    raise FormatError(f"{place} holds more than {most}", path=str(place))
    except (OSError, pa.ArrowInvalid) as error:
        raise FormatError(f"{place} cannot be read as CSV: {error}", path=str(place)) from error
    return pa.concat_arrays(blocks) if blocks else pa.array([], pa.string())


@contextmanager
def _csv(place: Path, codec: str | None, chosen: tuple[int, int] | None) -> Iterator[Any]:
    """What reads a CSV file block by block. chosen: how many columns it has, and the one to be read, as text."""
    from pyarrow import csv

    names = [str(number) for number in range(chosen[0])] if chosen else None
    with pa.OSFile(str(place), "rb") as raw, ExitStack() as closed:
        stream = closed.enter_context(pa.CompressedInputStream(raw, codec)) if codec else raw
        yield csv.open_csv(
            stream,
            read_options=csv.ReadOptions(
                use_threads=False, block_size=BLOCK_BYTES, column_names=names, skip_rows=1 if chosen else 0
            ),
            parse_options=csv.ParseOptions(newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                include_columns=[names[chosen[1]]] if chosen and names else None,
                column_types=dict.fromkeys(names or (), pa.string()),
                strings_can_be_null=False,
            ),
        )
