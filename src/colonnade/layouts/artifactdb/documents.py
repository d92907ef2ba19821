"""Write the metadata documents of ArtifactDB, for a new file and for one that was changed."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from colonnade.errors import FormatError, UnsupportedError
from colonnade.layouts.artifactdb import is_table, names
from colonnade.layouts.artifactdb.describe import describe
from colonnade.layouts.artifactdb.metadata import (
    ColumnClaim,
    Metadata,
    items_in,
    md5_of,
    metadata_beside,
    object_in,
    read_claim,
    stored_metadata,
)
from colonnade.layouts.artifactdb.names import Generation
from colonnade.model import ColumnInfo, TableInfo
from colonnade.opening import open_file
from colonnade.pager.safe_files import written_whole

if TYPE_CHECKING:
    from colonnade.values import Json, JsonObject


def follow(file: Path) -> None:
    """Update the metadata of a file, if it has any, after the file was changed and closed."""
    metadata = stored_metadata(file)
    if metadata is not None:
        write_anew(file, metadata, described_frame(file, metadata.group))


def copy_documents(source: Path, target: Path) -> None:
    """Copy the metadata of a file and the folder of its levels, with the paths that the copy has."""
    levels = source.with_name(f"{source.name}.levels")
    for document in [metadata_beside(source), *sorted(levels.glob("*.json"))]:
        copied = metadata_beside(target) if document.parent == source.parent else _level_path(target, document)
        copied.parent.mkdir(exist_ok=True)
        write_json(copied, _moved(json.loads(document.read_bytes()), source.name, target.name))
    for values in sorted(levels.glob("*.csv.gz")):
        write_bytes(_level_path(target, values), values.read_bytes())


def _level_path(target: Path, level: Path) -> Path:
    return target.with_name(f"{target.name}.levels") / level.name


def _moved(value: JsonObject, before: str, after: str) -> JsonObject:
    """A document with the paths of a file and of its levels replaced, wherever they are."""

    def moved(item: Json) -> Json:
        if isinstance(item, dict):
            return {key: moved(inner) for key, inner in item.items()}
        if isinstance(item, list):
            return [moved(inner) for inner in item]
        if isinstance(item, str) and item.rsplit("/", 1)[-1] == before:
            return after
        if isinstance(item, str) and item.startswith(f"{before}.levels/"):
            return after + item.removeprefix(before)
        return item

    return {key: moved(item) for key, item in value.items()}


def write_anew(file: Path, metadata: Metadata, info: TableInfo | None) -> None:
    """Rewrite the metadata of a file if they do not agree with it."""
    now = as_must_be(file, metadata, info)
    if now != metadata.document:
        write_json(metadata.place, now)


def as_must_be(file: Path, metadata: Metadata, info: TableInfo | None) -> JsonObject:
    """The metadata document that agrees with a file. What agrees already is left as it is.

    For a legacy frame, or without a frame, only the md5 sum can be updated.
    """
    now = {**metadata.document, "md5sum": md5_of(file)}
    if info is None or "/" in str(info.version):
        return now
    wanted = object_in(new_document(file, info, metadata.group, metadata.document), "data_frame")
    own = dict(object_in(now, "data_frame"))
    claims = tuple(read_claim(column) for column in items_in(wanted, "columns"))
    if [_meaning(one) for one in metadata.columns] != [_meaning(one) for one in claims]:
        own["columns"] = wanted["columns"]
    if metadata.row_names != wanted["row_names"]:
        own["row_names"] = wanted["row_names"]
    return {**now, "data_frame": {**own, "dimensions": wanted["dimensions"]}}


def _meaning(claim: ColumnClaim) -> tuple[object, ...]:
    """The meaning of an entry, whichever way it is written."""
    return claim.name, claim.kind, claim.text_format or "none", claim.is_ordered, claim.resource


def described_frame(file: Path, table: str) -> TableInfo | None:
    """The frame in a closed file; None if there is none, or it cannot be read."""
    try:
        with closing(open_file(file)) as handle:
            group = handle.root.open_group(table or "/")
            return describe(group, f"/{table.strip('/')}") if group is not None and is_table(group) else None
    except (FormatError, UnsupportedError):
        return None


def new_document(file: Path, info: TableInfo, table: str, before: JsonObject | None = None) -> JsonObject:
    """The metadata of a self-described frame. Resources and the path of the document `before` are kept."""
    by_name = {other.name: other.place for other in info.others}
    claims: list[JsonObject] = [declared(column) for column in info.columns]
    claims += [{"name": name, "type": names.OTHER, **local_resource(place)} for name, place in by_name.items()]
    in_order = _in_order(claims, info)
    made = frame_document(file, table, in_order, info.n_rows, bool(info.labels), Generation("versioned"))
    kept = object_in(before or {}, "data_frame")
    object_in(made, "data_frame").update({key: kept[key] for key in ("column_data", "other_data") if key in kept})
    if before is not None and isinstance(before.get("path"), str):
        made["path"] = before["path"]
    return made


def _in_order(claims: list[JsonObject], info: TableInfo) -> list[JsonObject]:
    """The entries of all columns in order of position. Columns in other files fill the gaps."""
    places = {column.name: int((column.link or "0").rsplit("/", 1)[-1]) for column in info.columns}
    free = (place for place in range(len(claims)) if place not in places.values())
    for other in info.others:
        places[other.name] = next(free)
    return sorted(claims, key=lambda claim: places[str(claim["name"])])


def declared(column: ColumnInfo) -> JsonObject:
    """The metadata entry of a self-described column."""
    claim: JsonObject = {"name": column.name}
    if column.categories is not None:
        claim["type"] = names.FACTOR
        if column.categories.ordered:
            claim["ordered"] = True
    elif column.encoding in ("date", "date-time"):
        claim |= {"type": names.STRING, "format": column.encoding}
    elif column.encoding == "truth":
        claim["type"] = names.BOOLEAN
    elif column.encoding == "double" or column.type.kind == "float":
        claim["type"] = names.NUMBER
    else:
        claim["type"] = names.INTEGER if column.type.kind == "integer" else names.STRING
    return claim


def frame_document(
    file: Path, table: str, columns: list[JsonObject], n_rows: int, row_names: bool, generation: Generation
) -> JsonObject:
    return {
        "$schema": names.SCHEMA,
        "path": file.name,
        "is_child": False,
        "md5sum": md5_of(file),
        "data_frame": {
            "columns": columns,
            "dimensions": [n_rows, len(columns)],
            "row_names": row_names,
            "version": generation.frame,
        },
        "hdf5_data_frame": {"group": table.strip("/"), "version": generation.hdf5},
    }


def write_json(place: Path, document: JsonObject) -> None:
    write_bytes(place, json.dumps(document, indent=4, ensure_ascii=False).encode() + b"\n")


def write_bytes(place: Path, data: bytes) -> None:
    """Write a file completely or not at all."""
    with written_whole(place) as stream:
        stream.write(data)


def local_resource(path: str) -> JsonObject:
    return {"resource": {"type": "local", "path": path}}


# -- annotations of columns --


def annotations_file(folder: Path) -> Path:
    """The path of the column annotations of a directory."""
    return folder / names.COLUMN_ANNOTATIONS / names.BASIC_COLUMNS


def described_annotations(folder: Path) -> TableInfo | None:
    """The frame of annotations; None if there is none, or it cannot be read."""
    place = annotations_file(folder)
    return described_frame(place, names.DIRECTORY_GROUP) if place.is_file() else None
