"""What stands beside a file of ArtifactDB, written when the file is closed: metadata with its md5 sum, levels, OBJECT.

A document is written aside and renamed. Between the file and its metadata a crash leaves those of before: their md5 sum
tells, and `fix` writes them anew.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from colonnade.dataclass import dataclass
from colonnade.errors import FormatError, UnsupportedError, UsageError
from colonnade.h5.datasets import object_name
from colonnade.h5.files import open_file
from colonnade.h5.links import open_group
from colonnade.h5.outside import file_place
from colonnade.layouts.artifactdb import names, write
from colonnade.layouts.artifactdb.describe import describe, is_table
from colonnade.layouts.artifactdb.metadata import (
    ColumnClaim,
    Metadata,
    give,
    md5_of,
    metadata_beside,
    metadata_of_file,
    read_claim,
)
from colonnade.layouts.artifactdb.names import Generation
from colonnade.layouts.artifactdb.write import declared_format, declared_type
from colonnade.model import ColumnInfo, ColumnOptions, TableInfo, TableText
from colonnade.pager.safe_files import written_whole

if TYPE_CHECKING:
    import pyarrow as pa

    from colonnade.columns.writer import WrittenColumn
    from colonnade.layouts.artifactdb.writer import ArtifactWriter

LEGACY = {(hdf5, frame) for hdf5 in (1, 2) for frame in (1, 2)}


def asked_generation(version: object, directory: bool) -> Generation:
    """The generation that `version=` and `directory=` ask for."""
    if directory:
        if version not in (None, *names.DIRECTORY_VERSIONS):
            raise UsageError(f"directories are of version {' or '.join(names.DIRECTORY_VERSIONS)}, not {version!r}")
        return Generation("directory", str(version or names.DIRECTORY_VERSIONS[0]))
    if version in (None, "1.0"):
        return Generation("versioned")
    pair = tuple(version.split("/")) if isinstance(version, str) else version
    if isinstance(pair, tuple) and len(pair) == 2 and all(str(one).isdigit() for one in pair):
        hdf5, frame = int(pair[0]), int(pair[1])
        if (hdf5, frame) in LEGACY:
            return Generation("legacy", "", hdf5, frame)
    raise UsageError(
        f"version must be '1.0', or 'H/F' with hdf5_data_frame version H and data_frame version F, 1 or 2 each, "
        f"not {version!r}",
        option="version",
    )


@dataclass
class Publisher:
    """Writes a frame of one generation (the `Create` of this layout), and the sidecar files when its file is closed."""

    generation: Generation
    columns: list[WrittenColumn] = field(default_factory=list)
    n_rows: int = 0
    has_row_names: bool = False
    _noted_of: Path | None = None

    @property
    def sidecars(self) -> Publisher:
        return self

    def check_name(self, name: str, allow_reserved: bool) -> None:
        names.check_name(name, allow_reserved)

    def check_members(self, columns: Sequence[str], labels: Sequence[str], text: TableText) -> None:
        names.check_members(columns, labels, text)

    def needs_large_attributes(self, n_columns: int, longest_name: int) -> bool:
        return write.needs_large_attributes(n_columns, longest_name)

    def make_group(self, root: Any, path: str, large_attributes: bool) -> Any:
        return write.make_group(root, path, large_attributes)

    def new_writer(
        self, name: str, kind: pa.DataType, options: ColumnOptions, _large_attributes: bool, is_label: bool
    ) -> ArtifactWriter:
        return write.new_writer(self.generation, name, kind, options, is_label)

    def complete_columns(self, group: Any, columns: Sequence[WrittenColumn], labels: Sequence[WrittenColumn]) -> None:
        if self.generation.family == "legacy":
            write.complete_legacy_columns(self.generation, group, columns, labels)
        else:
            write.complete_columns(group, columns, labels)

    def complete_group(
        self, group: Any, columns: Sequence[WrittenColumn], labels: Sequence[WrittenColumn], text: TableText
    ) -> None:
        if self.generation.family == "legacy":
            self._complete_legacy_group(group, columns, labels)
        else:
            write.complete_group(group, columns, labels, text)

    def check_place(self, file: Path, table: str, alone: bool) -> None:
        """Refuse a second frame in a file where metadata describe the first, or must describe this one."""
        if not alone and self.generation.family == "legacy":
            raise UsageError(
                f"a legacy frame needs metadata, which describe one frame a file: write {table} to a file of its own",
                path=table,
            )
        before = metadata_of_file(file) if self.generation.family != "directory" else None
        if before is not None and before.group != table.strip("/"):
            raise UsageError(
                f"{metadata_beside(file)} describes the frame {before.group!r}, and can describe no other: write this "
                "one to a file of its own",
                path=str(file),
            )

    def _complete_legacy_group(
        self, group: Any, columns: Sequence[WrittenColumn], labels: Sequence[WrittenColumn]
    ) -> None:
        """Write the column names, and note the metadata that the group needs to be a frame."""
        write.complete_legacy_group(group, columns)
        self.columns = list(columns)
        self.has_row_names = bool(labels)
        self.n_rows = next((one.n_rows for one in (*columns, *labels)), 0)
        self._noted_of = file_place(group)
        if self._noted_of is not None:
            give(self._noted_of, self._noted(self._noted_of, object_name(group)))

    def _noted(self, file: Path, table: str) -> Metadata:
        """The metadata to be, without what only the closed file has."""
        claims = tuple(
            ColumnClaim(one.name, declared_type(one.kind), declared_format(one.kind), one.ordered)
            for one in self.columns
        )
        made = self.generation
        return Metadata(
            metadata_beside(file), table.strip("/"), made.hdf5, made.frame, claims, self.n_rows, self.has_row_names
        )

    def publish(self, file: Path, table: str, alone: bool) -> None:
        """Write what stands beside the file, which is closed. Metadata describe one frame: of several, none."""
        if self._noted_of is not None:
            give(self._noted_of, None)
        if self.generation.family == "directory":
            made = {"type": names.OBJECT_TYPE, names.OBJECT_TYPE: {"version": self.generation.version}}
            _write_json(file.parent / names.OBJECT_FILE, made)
        elif self.generation.family == "versioned":
            info = _described(file, table) if alone else None
            if info is not None:
                _write_json(metadata_beside(file), _document(file, info, table))
        else:
            _write_json(metadata_beside(file), self._legacy_document(file, table))

    def _legacy_document(self, file: Path, table: str) -> dict[str, Any]:
        columns = [self._claim(file, position, column) for position, column in enumerate(self.columns)]
        return _frame_document(file, table, columns, self.n_rows, self.has_row_names, self.generation)

    def _claim(self, file: Path, position: int, column: WrittenColumn) -> dict[str, Any]:
        claim: dict[str, Any] = {"name": column.name}
        kind, text_format = declared_type(column.kind), declared_format(column.kind)
        old = self.generation.frame <= 1
        if column.categories is not None:
            claim["type"] = names.OLD_ORDERED if old and column.ordered else names.FACTOR
            if column.ordered and not old:
                claim["ordered"] = True
            claim["levels"] = _local(_write_levels(file, position, column.categories.to_pylist(), old))
        elif text_format is not None:
            claim |= {"type": text_format} if old else {"type": kind, "format": text_format}
        else:
            claim["type"] = kind
        return claim


def _local(path: str) -> dict[str, Any]:
    return {"resource": {"type": "local", "path": path}}


def _write_levels(file: Path, position: int, levels: Sequence[str], as_frame: bool) -> str:
    """The levels of a factor as a CSV file with metadata of its own: a vector, or a frame of one column."""
    folder = file.parent / f"{file.name}.levels"
    folder.mkdir(exist_ok=True)
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows([["values"], *([level] for level in levels)])
    place = folder / f"{position}.csv.gz"
    _write_bytes(place, gzip.compress(text.getvalue().encode(), mtime=0))
    path = f"{folder.name}/{place.name}"
    shared = {"path": path, "is_child": True, "md5sum": md5_of(place)}
    if as_frame:
        made = {
            "$schema": "csv_data_frame/v1.json",
            **shared,
            "data_frame": {"columns": [{"name": "values", "type": "string"}], "dimensions": [len(levels), 1]},
            "csv_data_frame": {"compression": "gzip"},
        }
    else:
        vector = {"type": "string", "length": len(levels), "names": False, "compression": "gzip"}
        made = {"$schema": "atomic_vector/v1.json", **shared, "atomic_vector": vector}
    _write_json(metadata_beside(place), made)
    return path


# -- frames that say themselves what they are --


def follow(file: Path) -> None:
    """After a file was changed and closed: its metadata, if it has any, as they must be now."""
    place = metadata_beside(file)
    metadata = metadata_of_file(file) if place.is_file() else None
    if metadata is not None and metadata.place == place:
        write_anew(file, metadata, _described(file, metadata.group))


def write_anew(file: Path, metadata: Metadata, info: TableInfo | None) -> None:
    """Metadata as they must be, if they are not; of a frame that says what it is, by what it says."""
    now = as_must_be(file, metadata, info)
    if now != metadata.document:
        _write_json(metadata.place, now)


def as_must_be(file: Path, metadata: Metadata, info: TableInfo | None) -> dict[str, Any]:
    """The metadata of a file as they must be; what agrees with it stays as it is written.

    Of a legacy frame, or where there is none, only the md5 sum can be told.
    """
    now = {**metadata.document, "md5sum": md5_of(file)}
    if info is None or "/" in str(info.version):
        return now
    wanted = _document(file, info, metadata.group, metadata.document)["data_frame"]
    own = now.get("data_frame")
    own = dict(own) if isinstance(own, dict) else {}
    claims = tuple(read_claim(column) for column in wanted["columns"])
    if [_meaning(one) for one in metadata.columns] != [_meaning(one) for one in claims]:
        own["columns"] = wanted["columns"]
    if metadata.row_names != wanted["row_names"]:
        own["row_names"] = wanted["row_names"]
    return {**now, "data_frame": {**own, "dimensions": wanted["dimensions"]}}


def _meaning(claim: ColumnClaim) -> tuple[object, ...]:
    """What metadata say of a column, however they say it."""
    return claim.name, claim.kind, claim.text_format or "none", claim.is_ordered, claim.resource


def _described(file: Path, table: str) -> TableInfo | None:
    """The frame in a file that is closed; None when there is none, or it cannot be read."""
    try:
        with closing(open_file(file)) as handle:
            group = open_group(handle.root, table or "/")
            return describe(group, f"/{table.strip('/')}") if group is not None and is_table(group) else None
    except (FormatError, UnsupportedError):
        return None


def _document(file: Path, info: TableInfo, table: str, before: dict[str, Any] | None = None) -> dict[str, Any]:
    """The metadata of a frame that says what it is; what else they said before stays."""
    by_name = {other.name: other.place for other in info.others}
    claims: list[dict[str, Any]] = [declared(column) for column in info.columns]
    claims += [{"name": name, "type": names.OTHER, **_local(place)} for name, place in by_name.items()]
    in_order = _in_order(claims, info)
    made = _frame_document(file, table, in_order, info.n_rows, bool(info.labels), Generation("versioned"))
    kept = (before or {}).get("data_frame")
    if isinstance(kept, dict):
        made["data_frame"] |= {key: kept[key] for key in ("column_data", "other_data") if key in kept}
    if before is not None and isinstance(before.get("path"), str):
        made["path"] = before["path"]
    return made


def _in_order(claims: list[dict[str, Any]], info: TableInfo) -> list[dict[str, Any]]:
    """The entries of all columns by their places: those kept elsewhere fill the gaps."""
    places = {column.name: int((column.link or "0").rsplit("/", 1)[-1]) for column in info.columns}
    free = (place for place in range(len(claims)) if place not in places.values())
    for other in info.others:
        places[other.name] = next(free)
    return sorted(claims, key=lambda claim: places[claim["name"]])


def declared(column: ColumnInfo) -> dict[str, Any]:
    """What metadata say of a column that says itself what it is."""
    claim: dict[str, Any] = {"name": column.name}
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


def _frame_document(
    file: Path, table: str, columns: list[dict[str, Any]], n_rows: int, row_names: bool, generation: Generation
) -> dict[str, Any]:
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


def _write_json(place: Path, document: dict[str, Any]) -> None:
    _write_bytes(place, json.dumps(document, indent=4, ensure_ascii=False).encode() + b"\n")


def _write_bytes(place: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    with written_whole(place) as stream:
        stream.write(data)
