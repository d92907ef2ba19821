"""What stands beside an HDF5 file of ArtifactDB and says what it is: the metadata, or the OBJECT of its directory.

Metadata are a JSON document, `<file>.json`, or one that was given. Nothing in them is believed here: claims that are
not of the type they should be are left out, and the rules tell of them.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import field
from functools import lru_cache
from pathlib import Path
from typing import Any

from colonnade.dataclass import dataclass
from colonnade.errors import FormatError
from colonnade.h5.outside import file_place, is_within, links_of
from colonnade.layouts.artifactdb import names
from colonnade.layouts.artifactdb.names import Generation

LARGEST_DOCUMENT = 64 << 20
LARGEST_MEMORY = 128 << 20  # for a document: about 200,000 columns
_GIVEN: dict[Path, Metadata] = {}  # by the file they are of: metadata that do not stand beside it


@dataclass(frozen=True)
class ColumnClaim:
    """What the metadata say of one column; None of what they do not."""

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
        """The type, by its name of today."""
        return _TODAY.get(self.type or "", (self.type, None))[0]

    @property
    def text_format(self) -> str | None:
        """What its text must look like: "date", "date-time", or nothing."""
        return _TODAY.get(self.type or "", (None, self.format))[1]


_TODAY = {
    names.OLD_ORDERED: (names.FACTOR, None),
    "date": (names.STRING, "date"),
    "date-time": (names.STRING, "date-time"),
}


@dataclass(frozen=True)
class Metadata:
    """The metadata of a file: what they claim, and the whole document for who checks it."""

    place: Path
    group: str
    hdf5_version: int = 1
    frame_version: int = 1
    columns: tuple[ColumnClaim, ...] = ()
    n_rows: int | None = None
    row_names: bool = False
    document: dict[str, Any] = field(default_factory=dict, compare=False)

    @property
    def generation(self) -> Generation:
        return Generation("legacy", "", self.hdf5_version, self.frame_version)

    @property
    def project(self) -> Path:
        """The folder that paths of resources begin at: the document's `path` leads from there to the file."""
        return _project(self.place, self.document)


def _project(place: Path, document: dict[str, Any]) -> Path:
    path = document.get("path")
    folders = Path(path).parent.parts if isinstance(path, str) else ()
    here = place.parent
    if folders and here.parts[-len(folders) :] == folders:
        return Path(*here.parts[: -len(folders)])
    return here


def _memory_for(data: bytes) -> int:
    """About the bytes of memory that a JSON text takes as Python objects: three bytes of it can take a hundred."""
    return 256 * data.count(b"{") + 96 * data.count(b"[") + 64 * data.count(b",") + 4 * len(data)


def read_document(place: Path) -> dict[str, Any]:
    """A JSON document that is an object; anything else is a FormatError."""
    try:
        with place.open("rb") as stream:
            if os.fstat(stream.fileno()).st_size > LARGEST_DOCUMENT:
                raise FormatError(f"{place} is too large for metadata of ArtifactDB", path=str(place))
            data = stream.read()
        if _memory_for(data) > LARGEST_MEMORY:
            raise FormatError(f"{place} would take far more memory than metadata of ArtifactDB", path=str(place))
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{place} is no JSON document: {error}", path=str(place)) from error
    except OSError as error:
        raise FormatError(f"{place} cannot be read: {error.strerror or error}", path=str(place)) from error
    if not isinstance(document, dict):
        raise FormatError(f"{place} holds no JSON object", path=str(place))
    return document


def read_metadata(place: Path) -> Metadata:
    """The metadata of an HDF5 data frame; a FormatError when the document is something else."""
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
    """What an entry of the metadata says of a column."""
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
    """The path of a resource that stands as {"resource": {"type": "local", "path": ...}}."""
    resource = holder.get("resource") if isinstance(holder, dict) else None
    path = resource.get("path") if isinstance(resource, dict) else None
    return path if isinstance(path, str) else None


def md5_of(file: Path) -> str:
    """The md5 sum of the bytes of a file, as metadata have it."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def metadata_beside(file: Path) -> Path:
    """Where the metadata of a file stand."""
    return file.with_name(f"{file.name}.json")


def give(file: Path, metadata: Metadata | None) -> None:
    """Note metadata of a file that do not stand beside it; None forgets them."""
    if metadata is None:
        _GIVEN.pop(file.resolve(), None)
    else:
        _GIVEN[file.resolve()] = metadata


def metadata_of_file(file: Path) -> Metadata | None:
    """The metadata of a file, if there are any and they can be read."""
    return _GIVEN.get(file.resolve()) or _beside(file)


def _beside(file: Path) -> Metadata | None:
    place = metadata_beside(file)
    try:
        stamp = place.stat()
        return _read_once(place, stamp.st_mtime_ns, stamp.st_size, stamp.st_ino)
    except (OSError, FormatError):
        return None


def why_unreadable(file: Path) -> str | None:
    """Why the document next to a file cannot be read; None where there is none, or it is a JSON object."""
    place = metadata_beside(file)
    try:
        if place.exists():
            read_document(place)
    except FormatError as error:
        return error.message
    return None


@lru_cache(maxsize=8)  # asked for every column that is opened
def _read_once(place: Path, *_stamp: int) -> Metadata:
    return read_metadata(place)


def metadata_of(group: Any, path: str) -> Metadata | None:
    """The metadata of the file of a group, if they are about it."""
    file = file_place(group)
    if file is None:
        return None
    for found in (_GIVEN.get(file), _beside(file)):
        if found is not None and found.group == path.strip("/"):
            return found
    return None


# -- files that a document names --


def resource_place(metadata: Metadata, resource: str, group: Any) -> Path:
    """The metadata document of a resource; a FormatError where the file may not lead, or it is not there."""
    wanted = resource if resource.endswith(".json") else f"{resource}.json"
    return allowed_place(metadata.project, wanted, metadata.place.parent, group)


def allowed_place(project: Path, path: str, home: Path, group: Any) -> Path:
    """A file that a document names, if the file of the group may lead there."""
    links = links_of(group)
    place = project / path
    if links == "none" or (links == "folder" and not is_within(place, home)):
        raise FormatError(
            f"{path} is outside the folder of this file, to which it may lead (links='any' allows more)", path=path
        )
    try:
        there = place.is_file()
    except (OSError, ValueError):
        there = False
    if not there:
        raise FormatError(f"the metadata name {path}, which is not there", path=path)
    return place


# -- today's directory --


@dataclass(frozen=True)
class ObjectFile:
    """The file OBJECT of a directory: what the directory holds, and of which version."""

    place: Path
    type: str | None
    version: str | None
    document: dict[str, Any] = field(default_factory=dict, compare=False)


def read_object_file(folder: Path) -> ObjectFile | None:
    """The OBJECT of a directory; None when there is none, a FormatError when it is no JSON object."""
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


def directory_of(group: Any) -> Path | None:
    """The directory of today's form that a group's file is in; None when it is not in one."""
    file = file_place(group)
    if file is None or file.name != names.BASIC_COLUMNS or not (file.parent / names.OBJECT_FILE).is_file():
        return None
    return file.parent


def located(target: Any) -> Any:
    """The HDF5 file of a directory of today's form, or of a metadata document; any other target as it is."""
    if not isinstance(target, (str, os.PathLike)):
        return target
    path = Path(target)
    try:
        if path.is_dir() and (path / names.BASIC_COLUMNS).is_file():
            return path / names.BASIC_COLUMNS
        if path.suffix != ".json" or not path.is_file():
            return target
    except (OSError, ValueError):
        return target
    return _file_of(read_metadata(path))


def _file_of(metadata: Metadata) -> Path:
    """The file that a metadata document is of: the one it names, beside it or from the folder that paths begin at."""
    path = metadata.document.get("path")
    if not isinstance(path, str) or not path:
        raise FormatError(f"{metadata.place} does not name its file", path=str(metadata.place))
    here = metadata.place.parent
    for place in (here / Path(path).name, metadata.project / path):
        if place.is_file() and is_within(place, here):
            if metadata_beside(place).resolve() != metadata.place.resolve():
                give(place, metadata)
            return place
    raise FormatError(f"{metadata.place} names {path}, which is not there", path=str(metadata.place))
