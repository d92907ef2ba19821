"""Rules for the directory of a data frame: DO1 and DO2 its OBJECT, DO3 columns stored as objects, DO4 annotations."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from colonnade.errors import FormatError
from colonnade.layouts.artifactdb import names
from colonnade.layouts.artifactdb.documents import described_annotations
from colonnade.layouts.artifactdb.metadata import ObjectFile, read_object_file
from colonnade.layouts.artifactdb.raw import MOST_NAMED, VERSION_PATTERN, RawFrame
from colonnade.model import Breach

OBJECT = names.OBJECT_FILE
# The required types of the objects of annotations.
ANNOTATIONS = {names.COLUMN_ANNOTATIONS: names.OBJECT_TYPE, names.OTHER_ANNOTATIONS: "simple_list"}


def object_is_said(frame: RawFrame) -> Iterator[Breach]:
    """DO1: OBJECT is a JSON object of type data_frame."""
    if frame.folder is None:
        return
    found = frame.object_file
    if not isinstance(found, ObjectFile):
        message = "OBJECT, which declares the type of the directory, is missing or not a JSON object"
        yield Breach("error", OBJECT, message, found or "no such file", "a JSON object")
    elif found.type != names.OBJECT_TYPE:
        declared = repr(found.document.get("type"))
        yield Breach("error", f"{OBJECT}#/type", "the directory is not a data frame", declared, repr(names.OBJECT_TYPE))


def version_is_said(frame: RawFrame) -> Iterator[Breach]:
    """DO2: OBJECT has the version <major>.<minor>, where major is 1."""
    if not isinstance(frame.object_file, ObjectFile):
        return
    declared = frame.object_file.version
    if declared is None or not VERSION_PATTERN.fullmatch(declared) or not declared.startswith("1."):
        own = frame.object_file.document.get(names.OBJECT_TYPE)
        message = "the version of the data frame is missing or unknown"
        yield Breach("error", f"{OBJECT}#/data_frame/version", message, repr(own)[:60], "a string 1.<minor>")


def other_columns_are_objects(frame: RawFrame) -> Iterator[Breach]:
    """DO3: other_columns has one object for each column that is not in the file, and nothing else."""
    if frame.folder is None or frame.data is None or frame.names is None:
        return
    wanted = {str(column.position) for column in frame.columns if column.link is None}
    for name in sorted(wanted, key=int):
        yield from _object(frame.folder, f"{names.OTHER_COLUMNS}/{name}", None)
    strangers = sorted(_entries(frame.folder / names.OTHER_COLUMNS) - wanted)
    for name in strangers[:MOST_NAMED]:
        message = "this does not belong to a column outside the file"
        yield Breach("error", f"{names.OTHER_COLUMNS}/{name}", message, repr(name), "columns that data does not have")


def _entries(folder: Path) -> set[str]:
    """The names in a directory, except those that ArtifactDB ignores."""
    try:
        return {entry.name for entry in folder.iterdir() if not entry.name.startswith((".", "_"))}
    except OSError:
        return set()


def annotations_are_objects(frame: RawFrame) -> Iterator[Breach]:
    """DO4: annotations, if any, are objects: a data frame with one row per column, and a list."""
    for name, kind in ANNOTATIONS.items() if frame.folder is not None else ():
        if frame.folder is not None and os.path.lexists(frame.folder / name):
            yield from _object(frame.folder, name, kind)
    annotations = None if frame.folder is None else described_annotations(frame.folder)
    if annotations is None or frame.names is None or annotations.n_rows == len(frame.names):
        return
    message = "the annotations do not have one row per column"
    wanted = f"{len(frame.names)} rows"
    yield Breach("error", names.COLUMN_ANNOTATIONS, message, f"{annotations.n_rows} rows", wanted)


def _object(folder: Path, name: str, kind: str | None) -> Iterator[Breach]:
    """What is wrong with an object of the directory, which must have type `kind` if given. Its content is not read."""
    try:
        found = read_object_file(folder / name)
        problem = "no OBJECT" if found is None else None
    except FormatError as error:
        found, problem = None, str(error)
    if found is None or found.type is None:
        message = "this is not an object: it has no OBJECT with its type"
        yield Breach("error", name, message, problem or "no type", "a directory with an OBJECT")
    elif kind is not None and found.type != kind:
        yield Breach("error", name, f"this is not a {kind}", repr(found.type), repr(kind))
