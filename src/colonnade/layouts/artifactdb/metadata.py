"""The sidecar files that describe an HDF5 file of ArtifactDB: its metadata, or the OBJECT of its directory.

Metadata are a JSON document: `<file>.json`, or one that was passed to `open`. They are not trusted: entries of the
wrong type are ignored here, and reported by the rules.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from colonnade.dataclass import dataclass
from colonnade.errors import FormatError
from colonnade.layouts.artifactdb import names
from colonnade.layouts.artifactdb.names import Generation
from colonnade.nodes import Group
from colonnade.nodes.elements import claims_too_much
from colonnade.nodes.paths import is_within
from colonnade.nodes.protocols import Notes
from colonnade.opening import open_file

if TYPE_CHECKING:
    from pyarrow.csv import CSVStreamingReader

    from colonnade.values import Json, JsonObject

LARGEST_DOCUMENT = 64 << 20
LARGEST_MEMORY = 128 << 20  # of a parsed document: about 200,000 columns
LARGEST_LEVELS = 1 << 30  # bytes of strings
CSV_BLOCK_BYTES = 1 << 20  # read at once
_CODECS = {"none": None, "gzip": "gzip", "bzip2": "bz2"}
_METADATA_NOTE = "artifactdb: metadata that are not next to the file"


@dataclass(frozen=True)
class ColumnClaim:
    """The metadata entry of one column, with None for what it does not have."""

    name: str | None = None
    type: str | None = None
    format: str | None = None
    ordered: bool = False
    levels: str | None = None
    resource: str | None = None

    @property
    def is_ordered(self) -> bool:
        return self.ordered or self.type == names.OLD_ORDERED

    @property
    def kind(self) -> str | None:
        """The type, by its current name."""
        return _TODAY.get(self.type or "", (self.type, None))[0]

    @property
    def text_format(self) -> str | None:
        """The format of its strings: "date", "date-time", or None."""
        return _TODAY.get(self.type or "", (None, self.format))[1]


_TODAY = {
    names.OLD_ORDERED: (names.FACTOR, None),
    "date": (names.STRING, "date"),
    "date-time": (names.STRING, "date-time"),
}


@dataclass(frozen=True)
class Metadata:
    """The metadata of a file: what they declare, and the whole document for the rules."""

    place: Path
    group: str
    hdf5_version: int = 1
    frame_version: int = 1
    columns: tuple[ColumnClaim, ...] = ()
    n_rows: int | None = None
    row_names: bool = False
    document: JsonObject = field(default_factory=dict, compare=False)

    @property
    def generation(self) -> Generation:
        return Generation("legacy", "", self.hdf5_version, self.frame_version)

    @property
    def project(self) -> Path:
        """The folder that paths of resources are relative to; so is the document's own `path`."""
        return _project(self.place, self.document)


def _project(place: Path, document: JsonObject) -> Path:
    path = document.get("path")
    folders = Path(path).parent.parts if isinstance(path, str) else ()
    here = place.parent
    if folders and here.parts[-len(folders) :] == folders:
        return Path(*here.parts[: -len(folders)])
    return here


def _memory_for(data: bytes) -> int:
    """An estimate of the memory a JSON document takes as Python objects: up to thirty times its size."""
    return 256 * data.count(b"{") + 96 * data.count(b"[") + 64 * data.count(b",") + 4 * len(data)


def read_document(place: Path) -> JsonObject:
    """The JSON object in a file. Raises a FormatError if the file is anything else."""
    import json

    try:
        with place.open("rb") as stream:
            if os.fstat(stream.fileno()).st_size > LARGEST_DOCUMENT:
                raise FormatError(f"{place} is too large to be ArtifactDB metadata", path=str(place))
            data = stream.read()
        if _memory_for(data) > LARGEST_MEMORY:
            raise FormatError(f"{place} would take far more memory than ArtifactDB metadata need", path=str(place))
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{place} is not a JSON document: {error}", path=str(place)) from error
    except OSError as error:
        raise FormatError(f"{place} cannot be read: {error.strerror or error}", path=str(place)) from error
    if not isinstance(document, dict):
        raise FormatError(f"{place} does not hold a JSON object", path=str(place))
    return document


def object_in(document: JsonObject, key: str) -> JsonObject:
    """The object under a key; an empty one if there is none, or something else."""
    value = document.get(key)
    return value if isinstance(value, dict) else {}


def items_in(document: JsonObject, key: str) -> Sequence[Json]:
    """The array under a key; an empty one if there is none, or something else."""
    value = document.get(key)
    return value if isinstance(value, list) else ()


def read_metadata(place: Path) -> Metadata:
    """The metadata of an HDF5 data frame. Raises a FormatError if the document is something else."""
    document = read_document(place)
    own = document.get("hdf5_data_frame")
    if not isinstance(own, dict) or not isinstance(own.get("group"), str):
        raise FormatError(f"{place} does not describe an HDF5 data frame of ArtifactDB", path=str(place))
    frame = document.get("data_frame")
    frame = frame if isinstance(frame, dict) else {}
    columns = frame.get("columns")
    dimensions = frame.get("dimensions")
    n_rows = dimensions[0] if isinstance(dimensions, list) and dimensions else None
    return Metadata(
        place=place,
        group=own["group"].strip("/"),
        hdf5_version=_integer(own.get("version"), 1),
        frame_version=_integer(frame.get("version"), 1),
        columns=tuple(read_claim(column) for column in columns) if isinstance(columns, list) else (),
        n_rows=n_rows if isinstance(n_rows, int) and not isinstance(n_rows, bool) else None,
        row_names=frame.get("row_names") is True,
        document=document,
    )


def _integer(value: object, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def read_claim(column: object) -> ColumnClaim:
    """The metadata entry of a column, without the values of the wrong type."""
    if not isinstance(column, dict):
        return ColumnClaim()
    texts = {key: column[key] for key in ("name", "type", "format") if isinstance(column.get(key), str)}
    return ColumnClaim(
        **texts,
        ordered=column.get("ordered") is True,
        levels=_resource(column.get("levels")),
        resource=_resource(column),
    )


def _resource(holder: object) -> str | None:
    """The path in {"resource": {"type": "local", "path": ...}}; None if there is none."""
    resource = holder.get("resource") if isinstance(holder, dict) else None
    path = resource.get("path") if isinstance(resource, dict) else None
    return path if isinstance(path, str) else None


def md5_of(file: Path) -> str:
    """The md5 sum of a file, in hexadecimal."""
    import hashlib

    with file.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def metadata_beside(file: Path) -> Path:
    """The path of a file's metadata, next to it."""
    return file.with_name(f"{file.name}.json")


def give(notes: Notes, metadata: Metadata) -> None:
    """Note metadata of an open file that are not next to it."""
    notes[_METADATA_NOTE] = metadata


def _given(group: Group) -> Metadata | None:
    """The metadata that were noted for the file of a group."""
    noted = group.file.notes.get(_METADATA_NOTE)
    return noted if isinstance(noted, Metadata) else None


def metadata_of_file(group: Group) -> Metadata | None:
    """The metadata of a group's file, if there are any and they can be read."""
    file = group.file.place
    return None if file is None else _given(group) or stored_metadata(file)


def stored_metadata(file: Path) -> Metadata | None:
    """The metadata next to a file, if there are any and they can be read."""
    place = metadata_beside(file)
    try:
        stamp = place.stat()
        return _read_once(place, stamp.st_mtime_ns, stamp.st_size, stamp.st_ino)
    except (OSError, FormatError):
        return None


def why_unreadable(file: Path) -> str | None:
    """Why the document next to a file cannot be read; None if it can, or if there is none."""
    place = metadata_beside(file)
    try:
        if place.exists():
            read_document(place)
    except FormatError as error:
        return str(error)
    return None


@lru_cache(maxsize=8)  # called for every column that is opened
def _read_once(place: Path, *_stamp: int) -> Metadata:
    return read_metadata(place)


def metadata_of(group: Group, path: str) -> Metadata | None:
    """The metadata of a group's file, if they describe the group."""
    file = group.file.place
    if file is None:
        return None
    for found in (_given(group), stored_metadata(file)):
        if found is not None and found.group == path.strip("/"):
            return found
    return None


# -- files that a document names --


def resource_place(metadata: Metadata, resource: str, group: Group) -> Path:
    """The path of a resource's metadata. Raises a FormatError if it is missing, or the link policy forbids it."""
    wanted = resource if resource.endswith(".json") else f"{resource}.json"
    return allowed_place(metadata.project, wanted, metadata.place.parent, group)


def allowed_place(project: Path, path: str, home: Path, group: Group) -> Path:
    """The path of a file that a document names. Raises a FormatError if it is missing, or links= forbids it."""
    links = group.file.links
    place = project / path
    if links == "none" or (links == "folder" and not is_within(place, home)):
        raise FormatError(
            f"cannot read {path}: links={links!r} does not allow it ('folder': nothing outside the folder)", path=path
        )
    try:
        there = place.is_file()
    except (OSError, ValueError):
        there = False
    if not there:
        raise FormatError(f"the metadata name {path}, which does not exist", path=path)
    return place


# -- the directory of the current form --


@dataclass(frozen=True)
class ObjectFile:
    """The file OBJECT of a directory: the type and the version of what it holds."""

    place: Path
    type: str | None
    version: str | None
    document: JsonObject = field(default_factory=dict, compare=False)


def read_object_file(folder: Path) -> ObjectFile | None:
    """The OBJECT of a directory; None if there is none. Raises a FormatError if it is not a JSON object."""
    place = folder / names.OBJECT_FILE
    if not place.is_file():
        return None
    document = read_document(place)
    kind = document.get("type")
    own = document.get(names.OBJECT_TYPE)
    version = own.get("version") if isinstance(own, dict) else None
    return ObjectFile(
        place,
        kind if isinstance(kind, str) else None,
        version if isinstance(version, str) else None,
        document,
    )


def directory_of(group: Group) -> Path | None:
    """The ArtifactDB directory that a group's file is in; None if it is not in one."""
    file = group.file.place
    if file is None or file.name != names.BASIC_COLUMNS or not (file.parent / names.OBJECT_FILE).is_file():
        return None
    return file.parent


def file_of(metadata: Metadata) -> tuple[Path, Notes]:
    """The file that a metadata document describes: next to it, or at its `path` relative to the project.

    The notes are for whoever opens the file: it must be read with this document, not with another one next to it.
    """
    path = metadata.document.get("path")
    if not isinstance(path, str) or not path:
        raise FormatError(f"{metadata.place} does not name its file", path=str(metadata.place))
    here = metadata.place.parent
    for place in (here / Path(path).name, metadata.project / path):
        if place.is_file() and is_within(place, here):
            notes: Notes = {}
            if metadata_beside(place).resolve() != metadata.place.resolve():
                give(notes, metadata)
            return place, notes
    raise FormatError(f"{metadata.place} names {path}, which does not exist", path=str(metadata.place))


# -- levels of a factor in another file (legacy): a vector, or the first column of a frame --


def count_levels(metadata: Metadata, resource: str, group: Group) -> int:
    """The number of levels in a resource, according to its metadata."""
    place = resource_place(metadata, resource, group)
    return _count(read_document(place), place)


def _count(document: JsonObject, place: Path) -> int:
    vector, frame = document.get("atomic_vector"), document.get("data_frame")
    if isinstance(vector, dict):
        count = vector.get("length")
    else:
        dimensions = frame.get("dimensions") if isinstance(frame, dict) else None
        count = dimensions[0] if isinstance(dimensions, list) and dimensions else None
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= names.MOST_LEVELS:
        raise FormatError(f"{place} does not declare the number of its levels", path=str(place))
    return count


def read_levels(metadata: Metadata, resource: str, group: Group) -> pa.Array:
    """The levels in a resource, as an Arrow array of strings."""
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
        raise FormatError(f"{data} holds {len(levels)} levels, but its metadata declare {_count(document, place)}")
    return levels


def _of_frame(place: Path, metadata: Metadata) -> pa.Array:
    """The first column of an HDF5 data frame, which must hold strings and not be a factor itself."""
    from colonnade.columns.read import ColumnReader
    from colonnade.layouts.artifactdb.describe import describe, open_column

    with closing(open_file(place)) as handle:
        group = handle.root.open_group(metadata.group) if metadata.group else handle.root
        if group is None:
            raise FormatError(f"{place} has no group {metadata.group!r}", path=str(place))
        info = describe(group, f"/{metadata.group}")
        if not info.columns or info.columns[0].type.kind not in ("string", "text") or info.columns[0].categories:
            raise FormatError(f"{place}: its first column does not hold strings, as levels must", path=str(place))
        column = info.columns[0]
        if claims_too_much(column.n_rows * max(column.type.size, 1), column.n_rows + place.stat().st_size):
            raise FormatError(f"{place} claims {column.n_rows:,} levels, far more than it stores", path=str(place))
        return ColumnReader(column, *open_column(group, column)).read(0, column.n_rows)


def _data_place(metadata: Metadata, place: Path, path: str, group: Group) -> Path:
    """The file that a resource's metadata describe: next to them, or at their `path` relative to the project."""
    neighbour = place.parent / Path(path).name
    if neighbour.is_file():
        return allowed_place(place.parent, Path(path).name, metadata.place.parent, group)
    return allowed_place(metadata.project, path, metadata.place.parent, group)


def _compression(document: JsonObject) -> str:
    for name in ("atomic_vector", "csv_data_frame"):
        own = document.get(name)
        if isinstance(own, dict) and isinstance(own.get("compression"), str):
            return str(own["compression"])
    return "none"


def _first_column(document: JsonObject) -> int:
    """The column of the CSV file with the levels: the one after the names, if there are any."""
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
            raise FormatError(f"{place} has {n_columns} columns, but the levels must be column {position + 1}")
        blocks, n_rows, n_bytes = [], 0, 0
        with _csv(place, _CODECS[compression], (n_columns, position)) as reader:
            for batch in reader:
                blocks.append(batch.column(0))
                n_rows, n_bytes = n_rows + len(batch), n_bytes + batch.nbytes
                if n_rows > count or n_bytes > LARGEST_LEVELS:
                    most = f"{count} levels, as declared" if n_rows > count else f"{LARGEST_LEVELS:,} bytes"
                    raise FormatError(f"{place} holds more than {most}", path=str(place))
    except (OSError, pa.ArrowInvalid) as error:
        raise FormatError(f"{place} cannot be read as CSV: {error}", path=str(place)) from error
    return pa.concat_arrays(blocks) if blocks else pa.array([], pa.string())


@contextmanager
def _csv(place: Path, codec: str | None, chosen: tuple[int, int] | None) -> Iterator[CSVStreamingReader]:
    """A reader of a CSV file, block by block. chosen: the number of columns, and the one to read, as strings."""
    from pyarrow import csv

    names = [str(number) for number in range(chosen[0])] if chosen else None
    with pa.OSFile(str(place), "rb") as raw, ExitStack() as closed:
        stream = closed.enter_context(pa.CompressedInputStream(raw, codec)) if codec else raw
        yield csv.open_csv(
            stream,
            read_options=csv.ReadOptions(
                use_threads=False, block_size=CSV_BLOCK_BYTES, column_names=names, skip_rows=1 if chosen else 0
            ),
            parse_options=csv.ParseOptions(newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                include_columns=[names[chosen[1]]] if chosen and names else None,
                column_types=dict.fromkeys(names or (), pa.string()),
                strings_can_be_null=False,
            ),
        )
