"""Rules for the metadata of a data frame: DJ1 to DJ3 check the schema, DJ4 to DJ8 whether they agree with the file.

The schema is hdf5_data_frame/v1.json of ArtifactDB's schemas, restated here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from colonnade.errors import ColonnadeError, FormatError
from colonnade.layouts.artifactdb import names
from colonnade.layouts.artifactdb.metadata import (
    Metadata,
    count_levels,
    md5_of,
    metadata_beside,
    read_document,
    read_levels,
    resource_place,
    why_unreadable,
)
from colonnade.layouts.artifactdb.raw import RawFrame
from colonnade.model import Breach
from colonnade.nodes.damage import hdf5_errors

if TYPE_CHECKING:
    from colonnade.values import Json, JsonObject

OWN, FRAME = "hdf5_data_frame", "data_frame"
TYPES = (
    names.INTEGER, names.NUMBER, names.STRING, names.FACTOR, names.OLD_ORDERED, names.BOOLEAN, "date", "date-time",
    names.OTHER,
)  # fmt: skip
OLD_TYPES = (names.OLD_ORDERED, "date", "date-time")
HIGHEST = {OWN: 3, FRAME: 2}
Path_ = tuple[str | int, ...]
Fault = tuple[Path_, str, str, str]  # where in the document, what is wrong, what was found, what was expected


def _is_integer(value: object) -> bool:
    """Whether this is an integer in JSON Schema: 1.0 is, true is not."""
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and (isinstance(value, int) or value.is_integer())
    )


_KINDS: dict[str, Callable[[object], bool]] = {
    "a string": lambda value: isinstance(value, str),
    "an object": lambda value: isinstance(value, dict),
    "an array": lambda value: isinstance(value, list),
    "true or false": lambda value: isinstance(value, bool),
    "an integer": _is_integer,
}
# For each object of the document: the allowed keys with their types; below, the required keys.
_ROOT = {
    "$schema": "a string", FRAME: "an object", OWN: "an object", "is_child": "true or false", "md5sum": "a string",
    "path": "a string",
}  # fmt: skip
_FRAME = {
    "columns": "an array", "dimensions": "an array", "row_names": "true or false", "version": "an integer",
    "column_data": "an object", "other_data": "an object",
}  # fmt: skip
_OWN = {"group": "a string", "version": "an integer"}
_COLUMN = {
    "name": "a string", "type": "a string", "format": "a string", "ordered": "true or false", "levels": "an object",
    "resource": "an object",
}  # fmt: skip
_NEEDED = {
    "root": ("$schema", FRAME, OWN, "md5sum", "path"),
    "frame": ("columns", "dimensions"),
    "own": ("group",),
    "column": ("name", "type"),
}


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# -- DJ1: keys --


def key_faults(document: JsonObject) -> Iterator[Fault]:
    """DJ1: every object has the required keys, and only allowed ones."""
    for where, one, allowed, needed in _objects(document):
        for key in needed:
            if key not in one:
                yield where, f"{key!r} is missing", "no such key", f"the keys {', '.join(needed)}"
        for key in one:
            if key not in allowed:
                yield (*where, key), f"{_shown(key)} is not a key of the schema", _shown(key), ", ".join(allowed)


def _objects(document: JsonObject) -> Iterator[tuple[Path_, JsonObject, dict[str, str], tuple[str, ...]]]:
    """The objects of the document whose keys the schema lists."""
    yield (), document, _ROOT, _NEEDED["root"]
    for key, allowed, needed in ((FRAME, _FRAME, "frame"), (OWN, _OWN, "own")):
        inner = document.get(key)
        if isinstance(inner, dict):
            yield (key,), inner, allowed, _NEEDED[needed]
    for position, column in _columns(document):
        if isinstance(column, dict):
            yield (FRAME, "columns", position), column, _COLUMN, _NEEDED["column"]


def _columns(document: JsonObject) -> Iterator[tuple[int, Json]]:
    frame = document.get(FRAME)
    columns = frame.get("columns") if isinstance(frame, dict) else None
    yield from enumerate(columns if isinstance(columns, list) else ())


# -- DJ2: values --


def value_faults(document: JsonObject) -> Iterator[Fault]:
    """DJ2: every value has the right type; versions, dimensions and resources are valid."""
    for where, one, allowed, _ in _objects(document):
        for key, wanted in allowed.items():
            if key in one and not _KINDS[wanted](one[key]):
                yield (*where, key), f"this is not {wanted}", _shown(one[key]), wanted
    for position, column in _columns(document):
        if not isinstance(column, dict):
            yield (FRAME, "columns", position), "a column is not an object", _shown(column), "an object"
    for key, highest in HIGHEST.items():
        own = document.get(key)
        version = own.get("version") if isinstance(own, dict) else None
        if isinstance(version, int | float) and _is_integer(version) and version > highest:
            yield (key, "version"), "an unknown version", _shown(version), f"up to {highest}"
    yield from _dimension_faults(document)
    yield from _resource_faults(document)


def _dimension_faults(document: JsonObject) -> Iterator[Fault]:
    frame = document.get(FRAME)
    found = frame.get("dimensions") if isinstance(frame, dict) else None
    if isinstance(found, list) and (len(found) != 2 or not all(map(_is_integer, found))):
        yield (FRAME, "dimensions"), "these are not two integers", _shown(found), "rows and columns"


def _resource_faults(document: JsonObject) -> Iterator[Fault]:
    """Faults in references to other files: {"resource": {"type": "local", "path": ...}}."""
    for where, holder in _holders(document):
        resource = holder.get("resource")
        if not isinstance(resource, dict):
            yield where, "this does not name a resource", _shown(resource), "an object resource"
        elif resource.get("type") != "local" or not isinstance(resource.get("path"), str):
            expected = "type local, and a path that is a string"
            yield (*where, "resource"), "this is not a local resource with a path", _shown(resource), expected


def _holders(document: JsonObject) -> Iterator[tuple[Path_, JsonObject]]:
    frame = document.get(FRAME)
    for key in ("column_data", "other_data"):
        if isinstance(frame, dict) and isinstance(frame.get(key), dict):
            yield (FRAME, key), frame[key]
    for position, column in _columns(document):
        if isinstance(column, dict) and isinstance(column.get("levels"), dict):
            yield (FRAME, "columns", position, "levels"), column["levels"]
        if isinstance(column, dict) and isinstance(column.get("resource"), dict):
            yield (FRAME, "columns", position), column


# -- DJ3: columns --


def column_faults(document: JsonObject) -> Iterator[Fault]:
    """DJ3: a column has a name and a known type, and only keys that its type and the version allow."""
    frame = document.get(FRAME)
    version = frame.get("version", 1) if isinstance(frame, dict) else 1
    version = version if _is_integer(version) else 1
    for position, column in _columns(document):
        if isinstance(column, dict):
            for key, message, found, expected in _of_column(column, version):
                yield (FRAME, "columns", position, *key), message, found, expected


def _of_column(column: JsonObject, version: float) -> Iterator[Fault]:
    kind = column.get("type")
    if column.get("name") == "":
        yield ("name",), "the name is empty", "''", "a name"
    if isinstance(kind, str) and kind not in TYPES:
        yield ("type",), "an unknown type", _shown(kind), ", ".join(TYPES)
        return
    if kind in OLD_TYPES and version >= 2:
        yield ("type",), f"the type {kind} is of version 1", _shown(kind), "string with a format, factor with ordered"
    if isinstance(column.get("format"), str) and column["format"] not in names.FORMATS[1:]:
        yield ("format",), "an unknown format", _shown(column["format"]), ", ".join(names.FORMATS[1:])
    for key, types in _ONLY_OF.items():
        if key in column and kind is not None and kind not in types:
            yield (key,), f"a column of type {_shown(kind)} has {key!r}", key, f"only of type {' or '.join(types)}"
        elif key in column and version == 1 and key in ("format", "ordered"):
            yield (key,), f"{key!r} needs version 2", key, "version 2, or a type of version 1"
    if kind == names.OTHER and "resource" not in column:
        yield (), "a column of type other does not name a resource", "no resource", "a resource"


_ONLY_OF = {
    "format": (names.STRING,),
    "ordered": (names.FACTOR,),
    "levels": (names.FACTOR, names.OLD_ORDERED),
    "resource": (names.OTHER,),
}


# -- faults as breaches --


def _breach(document: str, fault: Fault) -> Breach:
    where, message, found, expected = fault
    pointer = "".join(f"/{one}" for one in where)
    return Breach("error", f"{document}#{pointer}", message, found, expected)


def document_breaches(place: Path) -> Iterator[tuple[str, Breach]]:
    """The breaches of a document that does not lead to a file, each with its rule."""
    try:
        document = read_document(place)
    except FormatError as error:
        yield "DJ1", Breach("error", f"{place.name}#", str(error), "no JSON object", "a JSON object")
        return
    for rule, faults in (("DJ1", key_faults), ("DJ2", value_faults), ("DJ3", column_faults)):
        yield from ((rule, _breach(place.name, fault)) for fault in faults(document))


def _of_document(frame: RawFrame, faults: Callable[[JsonObject], Iterator[Fault]]) -> Iterator[Breach]:
    if frame.metadata is not None:
        for fault in faults(frame.metadata.document):
            yield _breach(frame.metadata.place.name, fault)


def document_has_its_keys(frame: RawFrame) -> Iterator[Breach]:
    """DJ1: the metadata exist if they are needed, can be read, and have the keys of the schema."""
    reason = why_unreadable(frame.file) if frame.file is not None and not frame.is_directory else None
    if reason is not None and frame.file is not None:
        place = metadata_beside(frame.file).name
        yield Breach("warning", place, "the metadata next to the file cannot be read", reason, "a JSON object")
    if frame.metadata is None and not frame.is_self_described:
        message = "this data frame needs metadata next to the file, which declare its columns"
        yield Breach("error", frame.path, message, "no metadata", "a JSON document next to the file")
    yield from _of_document(frame, key_faults)


def document_has_its_values(frame: RawFrame) -> Iterator[Breach]:
    """DJ2: the values of the metadata have the right types."""
    return _of_document(frame, value_faults)


def document_has_its_columns(frame: RawFrame) -> Iterator[Breach]:
    """DJ3: the columns of the metadata follow their version."""
    return _of_document(frame, column_faults)


# -- DJ4 to DJ8: beyond the schema --


def _where(metadata: Metadata, *keys: str | int) -> str:
    return f"{metadata.place.name}#" + "".join(f"/{key}" for key in keys)


def names_agree(frame: RawFrame) -> Iterator[Breach]:
    """DJ4: the column names are distinct, and equal to those of the file, in order."""
    if frame.metadata is None:
        return
    listed = [claim.name for claim in frame.claims]
    where = _where(frame.metadata, FRAME, "columns")
    twice = next((name for position, name in enumerate(listed) if name in listed[:position]), None)
    if twice is not None:
        yield Breach("error", where, "two columns have the same name", repr(twice), "distinct names")
    if frame.names is None:
        return
    in_file = [None if name is None else name.decode("utf-8", "surrogateescape") for name in frame.names]
    if len(listed) == len(in_file) and listed != in_file:
        position = next(place for place, name in enumerate(listed) if name != in_file[place])
        message = f"column {position} has another name in the file"
        yield Breach("error", f"{where}/{position}", message, repr(listed[position]), repr(in_file[position]))
    elif len(listed) != len(in_file):
        message = "the file has more or fewer columns"
        yield Breach("error", where, message, f"{len(listed)} columns", f"{len(in_file)} names")


def dimensions_agree(frame: RawFrame) -> Iterator[Breach]:
    """DJ5: dimensions are not negative, and equal to those of the frame."""
    own = frame.metadata.document.get(FRAME) if frame.metadata is not None else None
    found = own.get("dimensions") if isinstance(own, dict) else None
    if frame.metadata is None or not isinstance(found, list) or len(found) != 2 or not all(map(_is_integer, found)):
        return
    where = _where(frame.metadata, FRAME, "dimensions")
    if min(found) < 0:
        yield Breach("error", where, "a dimension is negative", _shown(found), "no negative numbers")
    elif found[1] != len(frame.claims):
        message = "the second dimension is not the number of columns"
        yield Breach("error", where, message, _shown(found), f"{len(frame.claims)} columns")
    elif frame.generation.family != "legacy" and frame.n_rows != found[0]:
        message = "the first dimension is not the row-count of the group"
        yield Breach("error", where, message, _shown(found), f"{frame.n_rows} rows")


def versions_begin_at_one(frame: RawFrame) -> Iterator[Breach]:
    """DJ6: versions begin at 1."""
    for key in HIGHEST if frame.metadata is not None else ():
        own = frame.metadata.document.get(key) if frame.metadata is not None else None
        version = own.get("version", 1) if isinstance(own, dict) else 1
        if frame.metadata is not None and _is_integer(version) and version < 1:
            where = _where(frame.metadata, key, "version")
            yield Breach("error", where, "a version below 1", _shown(version), f"1 to {HIGHEST[key]}")


def document_is_of_the_file(frame: RawFrame) -> Iterator[Breach]:
    """DJ7: path names the file; (deep) md5sum is that of the file."""
    if frame.metadata is None or frame.file is None:
        return
    path, summed = frame.metadata.document.get("path"), frame.metadata.document.get("md5sum")
    if isinstance(path, str) and (PurePosixPath(path).name != frame.file.name or PurePosixPath(path).is_absolute()):
        message = "path names another file"
        yield Breach("error", _where(frame.metadata, "path"), message, _shown(path), f"a path to {frame.file.name}")
    if frame.deep and isinstance(summed, str):
        found = md5_of(frame.file)
        frame.bytes_read += frame.file.stat().st_size
        if found != summed:
            message = "md5sum is not that of the file: the file was changed or replaced"
            yield Breach("error", _where(frame.metadata, "md5sum"), message, _shown(summed), found)


def resources_are_there(frame: RawFrame) -> Iterator[Breach]:
    """DJ8: resources that the metadata name exist; (deep) levels are distinct strings."""
    if frame.metadata is None:
        return
    for position, claim in enumerate(frame.claims):
        where = _where(frame.metadata, FRAME, "columns", position)
        if claim.levels is not None:
            yield from _levels(frame, frame.metadata, claim.levels, f"{where}/levels")
        elif claim.kind == names.FACTOR and not frame.is_self_described:
            message = "a factor has levels neither in the file nor in a resource"
            yield Breach("error", where, message, "no levels", "levels with a resource")
        if claim.resource is not None:
            yield from _other(frame, frame.metadata, claim.resource, f"{where}/resource")
    for where_in, holder in _holders(frame.metadata.document):
        resource = holder.get("resource")
        path = resource.get("path") if isinstance(resource, dict) else None
        if where_in[-1] in ("column_data", "other_data") and isinstance(path, str):
            yield from _other(frame, frame.metadata, path, _where(frame.metadata, *where_in))


def _other(frame: RawFrame, metadata: Metadata, resource: str, where: str) -> Iterator[Breach]:
    """A warning for a missing resource without which the frame can still be read."""
    try:
        resource_place(metadata, resource, frame.group)
    except FormatError as error:
        yield Breach("warning", where, str(error), _shown(resource), "a resource that exists")


def _levels(frame: RawFrame, metadata: Metadata, resource: str, where: str) -> Iterator[Breach]:
    expected = "metadata of a vector, or of a frame, of strings"
    try:
        count_levels(metadata, resource, frame.group)
        levels = read_levels(metadata, resource, frame.group) if frame.deep else None
    except hdf5_errors(ColonnadeError, MemoryError) as error:
        yield Breach("error", where, f"the levels cannot be read: {error}", _shown(resource), expected)
        return
    if levels is not None and (len(levels.unique()) != len(levels) or levels.null_count):
        yield Breach("error", where, "two levels are equal, or one is missing", _shown(resource), "distinct strings")
