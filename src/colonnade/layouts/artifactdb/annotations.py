"""column_annotations of a directory: a data frame with one row per column, which must follow when columns come and go.

A change of columns notes which there were before. When the file is closed, `following_annotations` finds the row that
belongs to each column now, and the code that closes the file writes them. A new column has a row without values.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import field
from pathlib import Path
from typing import Any

import pyarrow as pa

from colonnade.dataclass import dataclass
from colonnade.errors import FormatError, UnsupportedError
from colonnade.h5.files import open_file
from colonnade.h5.links import open_group
from colonnade.layouts.artifactdb import names
from colonnade.layouts.artifactdb.describe import describe, is_table, read_texts
from colonnade.layouts.artifactdb.metadata import directory_of
from colonnade.model import TableInfo


@dataclass
class ColumnsBefore:
    """The columns that annotations were written for, and the columns that have another name since."""

    names: list[str]
    renamed: dict[str, str] = field(default_factory=dict)  # today's name to the one before


_BEFORE: dict[Path, ColumnsBefore] = {}  # by directory


def annotations_file(folder: Path) -> Path:
    """Where the annotations of a directory are kept, if there are any."""
    return folder / names.COLUMN_ANNOTATIONS / names.BASIC_COLUMNS


def described_annotations(folder: Path) -> TableInfo | None:
    """The frame of annotations; None when there is none that can be read."""
    place = annotations_file(folder)
    try:
        return _described(place) if place.is_file() else None
    except (FormatError, UnsupportedError):
        return None


def _described(place: Path) -> TableInfo | None:
    with closing(open_file(place)) as handle:
        group = open_group(handle.root, names.DIRECTORY_GROUP)
        return describe(group, f"/{names.DIRECTORY_GROUP}") if group is not None and is_table(group) else None


def note_columns(group: Any, listed: list[str]) -> None:
    """Before a column comes or goes: note those that are there. Refused where the annotations cannot follow."""
    folder = directory_of(group)
    if folder is None or not (folder / names.COLUMN_ANNOTATIONS).is_dir():
        return
    info, reason = described_annotations(folder), None
    before = _BEFORE.get(folder)
    if info is None:
        reason = "cannot be read"
    elif info.others:
        reason = "keeps columns in other files"
    elif before is None or len(before.names) != info.n_rows:
        before = ColumnsBefore(list(listed))
        if len(listed) != info.n_rows:
            reason = f"has {info.n_rows} rows for {len(listed)} columns"
    if reason is not None or before is None:
        raise UnsupportedError(
            f"cannot add or drop a column of {folder}: its {names.COLUMN_ANNOTATIONS} {reason}, and could not follow. "
            f"Write {names.COLUMN_ANNOTATIONS} again, or remove it.",
            feature="column annotations",
            path=str(folder),
        )
    _BEFORE[folder] = before


def note_new_name(group: Any, listed: list[str], old: str, new: str) -> None:
    """Before a column gets another name: its row of annotations stays its own."""
    folder = directory_of(group)
    if folder is not None and (folder / names.COLUMN_ANNOTATIONS).is_dir():
        before = _BEFORE.setdefault(folder, ColumnsBefore(list(listed)))
        before.renamed[new] = before.renamed.pop(old, old)


@dataclass(frozen=True)
class Annotations:
    """The annotations that must follow a change of columns.

    moved: for each column its name, the name it had, and the row of its annotations; None for what it did not have.
    """

    file: Path
    moved: list[tuple[str, str | None, int | None]]
    table: str = names.DIRECTORY_GROUP

    @property
    def n_rows(self) -> int:
        return len(self.moved)

    def rows(self, before: pa.Table, labels: Sequence[str]) -> pa.Table:
        """The annotations of the columns as they are now; row names that were those of the columns follow them."""
        rows = before.combine_chunks().take(pa.array([row for _, _, row in self.moved], pa.int64()))
        for label in labels:
            stored = rows[label].to_pylist()
            pairs = zip(self.moved, stored, strict=True)
            renamed = [name if value in (None, old) else value for (name, old, _), value in pairs]
            array = pa.array(renamed, rows.schema.field(label).type)
            rows = rows.set_column(rows.column_names.index(label), label, array)
        return rows


def following_annotations(file: Path) -> Annotations | None:
    """The annotations of a closed file's columns; None where they need not change."""
    before = _BEFORE.pop(file.parent.resolve(), None)
    if before is None or not annotations_file(file.parent).is_file():
        return None
    with closing(open_file(file)) as handle:
        group = open_group(handle.root, names.DIRECTORY_GROUP)
        listed = None if group is None else read_texts(group, names.COLUMN_NAMES)
    if listed is None or listed == before.names:
        return None
    rows = {name: row for row, name in enumerate(before.names)}
    moved: list[tuple[str, str | None, int | None]] = []
    for name in listed:
        old = name if name in rows else before.renamed.get(name)
        moved.append((name, old, None if old is None else rows.pop(old, None)))
    return Annotations(annotations_file(file.parent), moved)
