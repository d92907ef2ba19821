"""Write the sidecar files of an ArtifactDB file when it is closed: metadata with its md5 sum, levels, OBJECT.

A document is written under a temporary name and renamed. A crash between the file and its metadata leaves the old
metadata: their md5 sum is wrong, and `fix` rewrites them.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from colonnade.dataclass import dataclass
from colonnade.errors import UsageError
from colonnade.layouts.artifactdb import names, write
from colonnade.layouts.artifactdb.documents import (
    described_frame,
    frame_document,
    local_resource,
    new_document,
    write_bytes,
    write_json,
)
from colonnade.layouts.artifactdb.metadata import (
    ColumnClaim,
    Metadata,
    give,
    md5_of,
    metadata_beside,
    metadata_of_file,
)
from colonnade.layouts.artifactdb.names import Generation
from colonnade.layouts.artifactdb.write import declared_format, declared_type
from colonnade.model import ColumnOptions, TableText
from colonnade.nodes import EditableGroup, Group

if TYPE_CHECKING:
    import pyarrow as pa

    from colonnade.columns.writer import WrittenColumn
    from colonnade.layouts.artifactdb.writer import ArtifactWriter
    from colonnade.values import JsonObject

LEGACY = {(hdf5, frame) for hdf5 in (1, 2) for frame in (1, 2)}


def asked_generation(version: object, directory: bool) -> Generation:
    """The generation that `version=` and `directory=` ask for."""
    if directory:
        if version not in (None, *names.DIRECTORY_VERSIONS):
            raise UsageError(f"directories have version {' or '.join(names.DIRECTORY_VERSIONS)}, not {version!r}")
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

    @property
    def sidecars(self) -> Publisher:
        return self

    def check_name(self, name: str, allow_reserved: bool) -> None:
        names.check_name(name, allow_reserved)

    def check_members(self, columns: Sequence[str], labels: Sequence[str], text: TableText) -> None:
        names.check_members(columns, labels, text)

    def needs_large_attributes(self, n_columns: int, longest_name: int) -> bool:
        return write.needs_large_attributes(n_columns, longest_name)

    def make_group(self, root: EditableGroup, path: str, large_attributes: bool) -> EditableGroup:
        return write.make_group(root, path, large_attributes)

    def new_writer(
        self, name: str, kind: pa.DataType, options: ColumnOptions, _large_attributes: bool, is_label: bool
    ) -> ArtifactWriter:
        return write.new_writer(self.generation, name, kind, options, is_label)

    def complete_columns(
        self, group: EditableGroup, columns: Sequence[WrittenColumn], labels: Sequence[WrittenColumn]
    ) -> None:
        if self.generation.family == "legacy":
            write.complete_legacy_columns(self.generation, group, columns, labels)
        else:
            write.complete_columns(group, columns, labels)

    def complete_group(
        self, group: EditableGroup, columns: Sequence[WrittenColumn], labels: Sequence[WrittenColumn], text: TableText
    ) -> None:
        if self.generation.family == "legacy":
            self._complete_legacy_group(group, columns, labels)
        else:
            write.complete_group(group, columns, labels, text)

    def check_place(self, root: Group, table: str, alone: bool) -> None:
        """Refuse a second frame in a file where metadata describe the first, or must describe this one."""
        if not alone and self.generation.family == "legacy":
            raise UsageError(
                f"a legacy frame needs metadata, which describe one frame. Write {table} to a file of its own.",
                path=table,
            )
        before = metadata_of_file(root) if self.generation.family != "directory" else None
        if before is not None and before.group != table.strip("/"):
            raise UsageError(
                f"{before.place} describes the frame {before.group!r}, and can describe only one. Write this "
                "one to a file of its own.",
                path=str(root.file.place),
            )

    def _complete_legacy_group(
        self, group: EditableGroup, columns: Sequence[WrittenColumn], labels: Sequence[WrittenColumn]
    ) -> None:
        """Write the column names, and remember the metadata that make the group a frame."""
        write.complete_legacy_group(group, columns)
        self.columns = list(columns)
        self.has_row_names = bool(labels)
        self.n_rows = next((one.n_rows for one in (*columns, *labels)), 0)
        file = group.file.place
        if file is not None:
            give(group.file.notes, self._noted(file, group.path))

    def _noted(self, file: Path, table: str) -> Metadata:
        """The future metadata, without the md5 sum, which needs the closed file."""
        claims = tuple(
            ColumnClaim(one.name, declared_type(one.kind), declared_format(one.kind), one.ordered)
            for one in self.columns
        )
        made = self.generation
        return Metadata(
            metadata_beside(file), table.strip("/"), made.hdf5, made.frame, claims, self.n_rows, self.has_row_names
        )

    def publish(self, file: Path, table: str, alone: bool) -> None:
        """Write the sidecar files of a closed file. Metadata describe one frame, so a file with several gets none."""
        if self.generation.family == "directory":
            document: JsonObject = {"type": names.OBJECT_TYPE, names.OBJECT_TYPE: {"version": self.generation.version}}
            write_json(file.parent / names.OBJECT_FILE, document)
        elif self.generation.family == "versioned":
            info = described_frame(file, table) if alone else None
            if info is not None:
                write_json(metadata_beside(file), new_document(file, info, table))
        else:
            write_json(metadata_beside(file), self._legacy_document(file, table))

    def _legacy_document(self, file: Path, table: str) -> JsonObject:
        columns = [self._claim(file, position, column) for position, column in enumerate(self.columns)]
        return frame_document(file, table, columns, self.n_rows, self.has_row_names, self.generation)

    def _claim(self, file: Path, position: int, column: WrittenColumn) -> JsonObject:
        claim: JsonObject = {"name": column.name}
        kind, text_format = declared_type(column.kind), declared_format(column.kind)
        old = self.generation.frame <= 1
        if column.categories is not None:
            claim["type"] = names.OLD_ORDERED if old and column.ordered else names.FACTOR
            if column.ordered and not old:
                claim["ordered"] = True
            claim["levels"] = local_resource(_write_levels(file, position, column.categories.to_pylist(), old))
        elif text_format is not None:
            claim |= {"type": text_format} if old else {"type": kind, "format": text_format}
        else:
            claim["type"] = kind
        return claim


def _write_levels(file: Path, position: int, levels: Sequence[str], as_frame: bool) -> str:
    """Write the levels of a factor as a CSV file with its own metadata: a vector, or a frame of one column."""
    folder = file.parent / f"{file.name}.levels"
    folder.mkdir(exist_ok=True)
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows([["values"], *([level] for level in levels)])
    place = folder / f"{position}.csv.gz"
    write_bytes(place, gzip.compress(text.getvalue().encode(), mtime=0))
    path = f"{folder.name}/{place.name}"
    document: JsonObject = {"path": path, "is_child": True, "md5sum": md5_of(place)}
    if as_frame:
        document |= {
            "$schema": "csv_data_frame/v1.json",
            "data_frame": {"columns": [{"name": "values", "type": "string"}], "dimensions": [len(levels), 1]},
            "csv_data_frame": {"compression": "gzip"},
        }
    else:
        vector: JsonObject = {"type": "string", "length": len(levels), "names": False, "compression": "gzip"}
        document |= {"$schema": "atomic_vector/v1.json", "atomic_vector": vector}
    write_json(metadata_beside(place), document)
    return path


def new_frame(version: object, directory: bool) -> Publisher:
    """What writes a new frame in this version and form."""
    return Publisher(asked_generation(version, directory))


PART = new_frame
