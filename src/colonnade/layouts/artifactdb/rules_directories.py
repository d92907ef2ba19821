"""Rules for the directory of a data frame: DO1 and DO2 its OBJECT, DO3 columns kept as objects, DO4 annotations."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from colonnade.errors import FormatError
from colonnade.layouts.artifactdb import names
from colonnade.layouts.artifactdb.documents import described_annotations
from colonnade.layouts.artifactdb.metadata import ObjectFile, read_object_file
from colonnade.layouts.artifactdb.seen import MOST_NAMED, VERSION, SeenFrame
from colonnade.model import Breach

OBJECT = names.OBJECT_FILE
# What an object beside the columns must be.
ANNOTATIONS = {names.COLUMN_ANNOTATIONS: names.OBJECT_TYPE, names.OTHER_ANNOTATIONS: "simple_list"}


def object_is_said(frame: SeenFrame) -> Iterator[Breach]:
    """DO1: OBJECT is a JSON object of type data_frame."""
    if frame.folder is None:
        return
    found = frame.object_file
    if not isinstance(found, ObjectFile):
        message = "OBJECT, which says what the directory holds, is missing or no JSON object"
        yield Breach("error", OBJECT, message, found or "no such file", "a JSON object")
    elif found.type != names.OBJECT_TYPE:
        said = repr(found.document.get("type"))
        yield Breach("error", f"{OBJECT}#/type", "the directory holds no data frame", said, repr(names.OBJECT_TYPE))


def version_is_said(frame: SeenFrame) -> Iterator[Breach]:
    """DO2: OBJECT says the version, <major>.<minor>, of which major is 1."""
    if not isinstance(frame.object_file, ObjectFile):
        return
    said = frame.object_file.version
    if said is None or not VERSION.fullmatch(said) or not said.startswith("1."):
        own = frame.object_file.document.get(names.OBJECT_TYPE)
        message = "the version of the data frame is missing, or none that is known"
        yield Breach("error", f"{OBJECT}#/data_frame/version", message, repr(own)[:60], "a text 1.<minor>")


def other_columns_are_objects(frame: SeenFrame) -> Iterator[Breach]:
    """DO3: other_columns has an object for every column that is not in the file, and nothing else."""
    if frame.folder is None or frame.data is None or frame.names is None:
        return
    wanted = {str(column.position) for column in frame.columns if column.link is None}
    for name in sorted(wanted, key=int):
        yield from _object(frame.folder, f"{names.OTHER_COLUMNS}/{name}", None)
    strangers = sorted(_entries(frame.folder / names.OTHER_COLUMNS) - wanted)
    for name in strangers[:MOST_NAMED]:
        message = "this belongs to no column that is kept outside the file"
        yield Breach("error", f"{names.OTHER_COLUMNS}/{name}", message, repr(name), "columns that data does not have")


def _entries(folder: Path) -> set[str]:
    """The names in a directory, but those that ArtifactDB passes over."""
    try:
        return {entry.name for entry in folder.iterdir() if not entry.name.startswith((".", "_"))}
    except OSError:
        return set()


def annotations_are_objects(frame: SeenFrame) -> Iterator[Breach]:
    """DO4: annotations, where there are any, are objects: a data frame with one row per column, and a list."""
    for name, kind in ANNOTATIONS.items() if frame.folder is not None else ():
        if frame.folder is not None and os.path.lexists(frame.folder / name):
            yield from _object(frame.folder, name, kind)
    annotations = None if frame.folder is None else described_annotations(frame.folder)
    if annotations is None or frame.names is None or annotations.n_rows == len(frame.names):
        return
    message = "there is not one row of annotations per column"
    wanted = f"{len(frame.names)} rows"
    yield Breach("error", names.COLUMN_ANNOTATIONS, message, f"{annotations.n_rows} rows", wanted)


def _object(folder: Path, name: str, kind: str | None) -> Iterator[Breach]:
    """What is wrong with an object of the directory, of this type if one is named; what it holds is not looked at."""
    try:
        found = read_object_file(folder / name)
        problem = "no OBJECT" if found is None else None
    except FormatError as error:
        found, problem = None, str(error)
    if found is None or found.type is None:
        message = "this is no object: it has no OBJECT that says its type"
        yield Breach("error", name, message, problem or "no type", "a directory with an OBJECT")
    elif kind is not None and found.type != kind:
        yield Breach("error", name, f"this is no {kind}", repr(found.type), repr(kind))
