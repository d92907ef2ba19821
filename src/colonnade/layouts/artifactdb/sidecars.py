"""Files next to an HDF5 file of ArtifactDB: its metadata document, or the directory it is in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from colonnade.layouts.artifactdb import names
from colonnade.layouts.artifactdb.metadata import file_of, metadata_beside, read_metadata
from colonnade.layouts.artifactdb.names import Generation, parse_generation
from colonnade.model import Breach
from colonnade.nodes.protocols import Notes

if TYPE_CHECKING:
    from colonnade.layouts.artifactdb.write import Annotations


def following_table(file: Path, notes: Notes) -> Annotations | None:
    """The annotations to update for a closed file; None if they need not change."""
    from colonnade.layouts.artifactdb.write import following_annotations  # late: directories are read without libhdf5

    return following_annotations(file, notes)


def locate(path: Path) -> tuple[Path, Notes] | None:
    """The HDF5 file of a directory, or of a metadata document, and notes for its handle; None if it is neither."""
    if path.is_dir():
        file = path / names.BASIC_COLUMNS
        return (file, {}) if file.is_file() else None
    return file_of(read_metadata(path))


def new_directory(folder: Path) -> tuple[Path, str]:
    """The HDF5 file of a new directory, and the path of the table in it."""
    return folder / names.BASIC_COLUMNS, f"/{names.DIRECTORY_GROUP}"


def declared_variant(path: Path) -> Generation | None:
    """The generation of directories, if the path is one."""
    return parse_generation("directory") if path.is_dir() else None


def not_located(path: Path, error: Exception | None) -> list[tuple[str, Breach]]:
    """The rules broken by a directory or document that does not lead to an HDF5 file."""
    if path.is_dir():
        message = str(error) if error is not None else f"{path} has no {names.BASIC_COLUMNS}"
        return [("DG1", Breach("error", "/", message, "no such file", "the HDF5 file of the directory"))]
    from colonnade.layouts.artifactdb.rules_documents import document_breaches

    nowhere = Breach("error", f"{path.name}#/path", str(error), "no such file", "the HDF5 file it describes")
    return list(document_breaches(path)) or [("DJ7", nowhere)]


def follow(file: Path) -> None:
    """Update the metadata of a file that was changed and closed."""
    if metadata_beside(file).is_file():
        from colonnade.layouts.artifactdb.documents import follow as follow_metadata

        follow_metadata(file)


def copy(source: Path, target: Path) -> None:
    """Copy the metadata of a file, and its levels, for a copy of the file: with its name and its checksum."""
    if metadata_beside(source).is_file():
        from colonnade.layouts.artifactdb.documents import copy_documents
        from colonnade.layouts.artifactdb.documents import follow as follow_metadata

        copy_documents(source, target)
        follow_metadata(target)
