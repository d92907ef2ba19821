"""Write an ArtifactDB data frame, in any of its generations.

The order of writing:
1. the group with an empty `data`: it has no column names until step 4, and so is not a frame yet;
2. columns and row names, row by row (by `writer`);
3. levels, and the attributes of each column;
4. column names, and the group's attributes.
Sidecar files follow when the file is closed (by `publish`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from colonnade import writing
from colonnade.columns.arrow_types import write_arrow_type
from colonnade.columns.encode import encode
from colonnade.columns.mapping import stored_string
from colonnade.columns.strings import byte_lengths
from colonnade.dataclass import dataclass
from colonnade.errors import FormatError, UnsupportedError, UsageError
from colonnade.h5.datasets import DatasetPlan
from colonnade.h5.files import open_file
from colonnade.h5.handles import create_dataset, create_group
from colonnade.h5.links import rename, unlink
from colonnade.h5.row_sink import write_rows
from colonnade.layouts.artifactdb import LAYOUT, names
from colonnade.layouts.artifactdb.describe import generation_of, position_of, read_texts
from colonnade.layouts.artifactdb.documents import annotations_file, described_annotations
from colonnade.layouts.artifactdb.metadata import directory_of, metadata_of
from colonnade.layouts.artifactdb.names import Generation
from colonnade.model import ColumnInfo, ColumnOptions, Plain, TableInfo, TableText
from colonnade.nodes import EditableDataset, EditableGroup, Group
from colonnade.nodes.elements import default_chunk_rows
from colonnade.nodes.paths import dataset_at, group_at
from colonnade.nodes.protocols import Notes

if TYPE_CHECKING:
    from colonnade.columns.writer import WrittenColumn
    from colonnade.layouts.artifactdb.writer import ArtifactWriter


VERSIONED = Generation("versioned")
DEFAULT_TIME = pa.timestamp("us", "UTC")
SMALL = 1024  # bytes; smaller datasets get no filter


def needs_large_attributes(_n_columns: int, _longest_name: int) -> bool:
    """False: column names are in a dataset, so no attribute grows with them."""
    return False


def make_group(root: EditableGroup, path: str, large_attributes: bool) -> EditableGroup:
    """A new group for a frame."""
    group = create_group(root, path, large_attributes)
    create_group(group, names.DATA)
    return group


def check_can_change(group: Group, info: TableInfo) -> None:
    """Refuse frames that can only be read: legacy frames, and damaged ones."""
    generation = generation_of(group, metadata_of(group, info.path))
    if generation.family == "legacy":
        raise UnsupportedError(
            f"{info.path} is an ArtifactDB data frame of a legacy form ({generation}), which can be read but not "
            "changed, since levels and types are in other files. Write it again, or convert it.",
            feature=f"changes of legacy ArtifactDB data frames ({generation})",
            path=info.path,
        )
    wrong = next((one for one in info.problems if one.severity == "error"), None)
    if wrong is not None:
        raise FormatError(f"{info.path} cannot be changed: {wrong.path}: {wrong.message}", path=wrong.path)


def new_writer(
    generation: Generation,
    name: str,
    kind: pa.DataType,
    options: ColumnOptions,
    is_label: bool = False,
) -> ArtifactWriter:
    """A writer for a new column of a frame of this generation."""
    from colonnade.layouts.artifactdb.writer import ArtifactWriter

    return ArtifactWriter(name, kind, options, generation, is_label)


def resume_column(group: EditableGroup, column: ColumnInfo) -> ArtifactWriter:
    """A writer that continues after the rows of a column."""
    from colonnade.layouts.artifactdb.writer import ArtifactWriter

    return ArtifactWriter.resume(column, group, generation_of(group, None))


def complete_columns(group: EditableGroup, columns: Sequence[WrittenColumn], labels: Sequence[WrittenColumn]) -> None:
    """Step 3 for self-described frames: types, formats, levels and placeholders."""
    for column in columns:
        _complete_column(group, column)
    _name_labels(group, labels)


def complete_legacy_columns(
    generation: Generation, group: EditableGroup, columns: Sequence[WrittenColumn], labels: Sequence[WrittenColumn]
) -> None:
    """Step 3 for legacy frames: placeholders only, since types and levels are in the metadata."""
    for column in columns:
        is_text = column.form.stored.kind in ("string", "text")
        if column.has_missing and (is_text or generation.hdf5 >= 2):
            _write_placeholder(column.dataset, column)
        _write_arrow_type(column)
    _name_labels(group, labels)


def _name_labels(group: EditableGroup, labels: Sequence[WrittenColumn]) -> None:
    """Store the name of the row names, unless it is the default."""
    for label in labels:
        if label.name != names.ROW_NAMES:
            writing.write_text(label.dataset, names.LABEL_NAME, label.name)


def complete_group(
    group: EditableGroup, columns: Sequence[WrittenColumn], _labels: Sequence[WrittenColumn], _text: TableText
) -> None:
    """Step 4 for self-described frames: column names, row count and version."""
    complete_legacy_group(group, columns)
    count_rows(group, columns[0].n_rows if columns else _labels[0].n_rows if _labels else 0)
    writing.write_variable_text(group, names.VERSION, VERSIONED.version)


def complete_legacy_group(group: EditableGroup, columns: Sequence[WrittenColumn]) -> None:
    """Step 4 for legacy frames: column names."""
    write_texts(group, names.COLUMN_NAMES, [column.name for column in columns])


def count_rows(group: EditableGroup, n_rows: int) -> None:
    """Write the number of rows."""
    writing.write_integer(group, names.ROW_COUNT, n_rows)


def write_texts(group: EditableGroup, name: str, texts: Sequence[str]) -> None:
    """Write strings as a dataset of fixed-length strings, replacing any dataset of this name."""
    array = pa.array(texts, pa.string())
    width = int(byte_lengths(array).max(initial=1))
    stored = stored_string(max(width, 1))
    aside = f"{name}\x01new"
    filters = "shuffle+deflate" if len(texts) * stored.size >= SMALL else "none"
    plan = DatasetPlan(stored, default_chunk_rows(max(len(texts), 1), stored), filters)
    dataset = create_dataset(group, aside, plan, len(texts))
    write_rows(dataset, stored, 0, encode(array, stored, None, name).image, len(texts))
    if group.has_link(name):
        unlink(group, name)
    rename(group, aside, name)


def _complete_column(group: EditableGroup, column: WrittenColumn) -> None:
    """Write the type, levels, format and placeholder of a column."""
    link = column.link or ""
    if column.categories is not None:
        inner = group_at(group, link)
        write_texts(inner, names.LEVELS, column.categories.to_pylist())
        if column.ordered:
            writing.write_integer(inner, names.ORDERED, 1, "i1")
        writing.write_variable_text(inner, names.TYPE, names.FACTOR)
    elif column.form.stored.kind == "compound":
        writing.write_variable_text(group_at(group, link), names.TYPE, names.VLS)
    else:
        writing.write_variable_text(column.dataset, names.TYPE, declared_type(column.kind))
        _write_format(column)
    if column.has_missing:
        _write_placeholder(column.dataset, column)


def _write_format(column: WrittenColumn) -> None:
    """Write the format of a column's strings, and the Arrow type of times."""
    text_format = declared_format(column.kind)
    if text_format is not None:
        writing.write_variable_text(column.dataset, names.FORMAT, text_format)
    _write_arrow_type(column)


def _write_arrow_type(column: WrittenColumn) -> None:
    """Write the Arrow type of times, unless it is the default."""
    if pa.types.is_timestamp(column.kind) and column.kind != DEFAULT_TIME:
        writing.write_text(column.dataset, names.ARROW_TYPE, write_arrow_type(column.kind))


def declared_type(kind: pa.DataType) -> str:
    """The ArtifactDB type for a column of this Arrow type."""
    if pa.types.is_dictionary(kind):
        return names.FACTOR
    if pa.types.is_boolean(kind):
        return names.BOOLEAN
    if pa.types.is_integer(kind):
        return names.INTEGER
    return names.NUMBER if pa.types.is_floating(kind) else names.STRING


def declared_format(kind: pa.DataType) -> str | None:
    """The format of the strings of a column of this Arrow type; None if it has none."""
    if pa.types.is_date(kind):
        return "date"
    return "date-time" if pa.types.is_timestamp(kind) else None


def _write_placeholder(dataset: EditableDataset, column: WrittenColumn) -> None:
    """Write the attribute with the placeholder of missing rows."""
    stored, mark = column.form.stored, column.form.fill
    if mark is None:  # R's NA, which is stored in the rows
        mark = np.array(names.R_MISSING, dtype="u8").tobytes()
    if stored.kind in ("string", "text", "compound"):
        writing.write_variable_text(dataset, names.PLACEHOLDER, mark.rstrip(b"\0").decode())
    else:
        writing.write_element(dataset, names.PLACEHOLDER, stored, mark)


def extend(group: EditableGroup, info: TableInfo, written: Sequence[WrittenColumn]) -> bool:
    """Update levels and placeholders after rows were added to columns.

    Returns whether the frame's description is still true, except for its length and the number of categories.
    """
    holds = True
    for column in written:
        before = info.by_name[column.name]
        if (column.has_missing or before.fill is not None) and column.form.fill not in (None, before.fill):
            _write_placeholder(column.dataset, column)
            holds = False
        n_before = before.categories.n_categories if before.categories is not None else 0
        if column.categories is not None and len(column.categories) != n_before:
            write_texts(group_at(group, before.link or ""), names.LEVELS, column.categories.to_pylist())
            holds = False
        if before.form == Plain("double"):
            holds = False
    return holds and not any(column.replaced for column in written)


def attach_column(group: EditableGroup, info: TableInfo, column: WrittenColumn) -> None:
    """Turn what was just written into the last column."""
    _complete_column(group, column)
    listed = all_names(group)
    note_columns(group, listed)
    write_texts(group, names.COLUMN_NAMES, [*listed, column.name])
    if not info.members:
        count_rows(group, column.n_rows)


def all_names(group: EditableGroup) -> list[str]:
    """The names of all columns, including those stored in other files."""
    listed = read_texts(group, names.COLUMN_NAMES)
    if listed is None:
        raise FormatError("the column names of the frame cannot be read")
    return listed


def detach_column(group: EditableGroup, info: TableInfo, name: str) -> None:
    """Remove a column or the row names. Later columns move up, so it is refused if any is in another file."""
    column = info.by_name[name]
    if column.is_label:
        unlink(group, names.ROW_NAMES)
        return
    if info.others:
        kept = ", ".join(repr(other.name) for other in info.others)
        raise UnsupportedError(
            f"{info.path} stores {kept} in other files by the column's position, which would change. No column can be "
            "dropped.",
            feature="dropping columns of a frame with columns in other files",
            column=name,
        )
    data, listed, gone = group_at(group, names.DATA), all_names(group), position_of(column)
    note_columns(group, listed)
    unlink(data, str(gone))
    for position in range(gone + 1, len(listed)):
        rename(data, str(position), str(position - 1))
    write_texts(group, names.COLUMN_NAMES, [*listed[:gone], *listed[gone + 1 :]])


def rename_column(group: EditableGroup, info: TableInfo, name: str, new_name: str) -> None:
    """Give a column or the row names another name."""
    column = info.by_name[name]
    if column.is_label:
        writing.write_text(dataset_at(group, names.ROW_NAMES), names.LABEL_NAME, new_name)
        return
    listed = all_names(group)
    if new_name in listed:
        raise UsageError(f"{info.path} already has a column {new_name!r}. Choose another name.", column=new_name)
    note_new_name(group, listed, name, new_name)
    listed[position_of(column)] = new_name
    write_texts(group, names.COLUMN_NAMES, listed)


def reorder_columns(group: EditableGroup, info: TableInfo, order: Sequence[str]) -> None:
    """Move the columns, which are numbered in their order. Refused if any is in another file."""
    if info.others:
        elsewhere = ", ".join(repr(other.name) for other in info.others)
        raise UnsupportedError(
            f"{info.path} stores {elsewhere} in other files by the column's position, which would change. No "
            "column can be moved.",
            feature="reordering a frame with columns in other files",
        )
    data, listed = group_at(group, names.DATA), all_names(group)
    note_columns(group, listed)
    before = [position_of(info.by_name[name]) for name in order]
    for position in before:
        rename(data, str(position), f"{position}\x01moved")
    for position, old in enumerate(before):
        rename(data, f"{old}\x01moved", str(position))
    write_texts(group, names.COLUMN_NAMES, [listed[position] for position in before])


def set_labels(_group: EditableGroup, info: TableInfo, labels: Sequence[str]) -> None:
    """Refuse: row names are stored apart from the columns, as strings that no column has to be."""
    raise UnsupportedError(
        f"cannot make {list(labels)} the labels of {info.path}: the row names of an ArtifactDB data frame are not "
        f"one of its columns. Write the frame again with labels={list(labels)}.",
        feature="row names of ArtifactDB data frames",
        path=info.path,
    )


def replace_column(group: EditableGroup, info: TableInfo, column: WrittenColumn, _old: EditableDataset | None) -> None:
    """Let what was just written replace the column of its name."""
    before = info.by_name[column.name]
    if before.is_label:
        _name_labels(group, [column])
        return
    data, written = group_at(group, names.DATA), (column.link or "").rsplit("/", 1)[-1]
    _complete_column(group, column)
    rename(data, written, str(position_of(before)))


def set_texts(_group: EditableGroup, info: TableInfo, name: str | None, texts: Mapping[str, str | None]) -> None:
    """Refuse titles, descriptions and units, which a frame cannot store."""
    where = info.path if name is None else f"column {name!r} of {info.path}"
    raise UnsupportedError(
        f"{where}: an ArtifactDB data frame cannot store {', '.join(texts)}",
        feature="texts of ArtifactDB data frames",
    )


def sparse_attributes(_column: ColumnInfo, _strings: Mapping[str, str | None]) -> dict[str, str | None]:
    """Empty: a frame has no sparse columns."""
    return {}


def note_pandas(_node: object, _note: str | None) -> None:
    """Do nothing: a frame stores no notes about pandas types."""


clear = LAYOUT.clear_group


@dataclass
class ColumnsBefore:
    """The columns for which the annotations were written, and those that were renamed since."""

    names: list[str]
    renamed: dict[str, str] = field(default_factory=dict)  # the current name to the former one


_COLUMNS_NOTE = "artifactdb: columns before the change"


def _columns_before(notes: Notes) -> ColumnsBefore | None:
    before = notes.get(_COLUMNS_NOTE)
    return before if isinstance(before, ColumnsBefore) else None


def note_columns(group: EditableGroup, listed: list[str]) -> None:
    """Remember the columns before one is added or removed. Refused if the annotations cannot be updated."""
    folder = directory_of(group)
    if folder is None or not (folder / names.COLUMN_ANNOTATIONS).is_dir():
        return
    info, reason = described_annotations(folder), None
    notes = group.file.notes
    before = _columns_before(notes)
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
    notes[_COLUMNS_NOTE] = before


def note_new_name(group: EditableGroup, listed: list[str], old: str, new: str) -> None:
    """Remember a column's former name before it is renamed, so that it keeps its row of annotations."""
    folder = directory_of(group)
    if folder is not None and (folder / names.COLUMN_ANNOTATIONS).is_dir():
        notes = group.file.notes
        before = _columns_before(notes) or ColumnsBefore(list(listed))
        notes[_COLUMNS_NOTE] = before
        before.renamed[new] = before.renamed.pop(old, old)


@dataclass(frozen=True)
class Annotations:
    """The annotations to update after a change of columns.

    moved: for each column its name, its former name, and its row in the annotations; None for what it did not have.
    """

    file: Path
    moved: list[tuple[str, str | None, int | None]]
    table: str = names.DIRECTORY_GROUP

    @property
    def n_rows(self) -> int:
        return len(self.moved)

    def rows(self, before: pa.Table, labels: Sequence[str]) -> pa.Table:
        """The annotations of the current columns. Row names that were column names are renamed with them."""
        rows = before.combine_chunks().take(pa.array([row for _, _, row in self.moved], pa.int64()))
        for label in labels:
            stored = rows[label].to_pylist()
            pairs = zip(self.moved, stored, strict=True)
            renamed = [name if value in (None, old) else value for (name, old, _), value in pairs]
            array = pa.array(renamed, rows.schema.field(label).type)
            rows = rows.set_column(rows.column_names.index(label), label, array)
        return rows


def following_annotations(file: Path, notes: Notes) -> Annotations | None:
    """The annotations to update for a closed file; None if they need not change."""
    before = _columns_before(notes)
    if before is None or not annotations_file(file.parent).is_file():
        return None
    with closing(open_file(file)) as handle:
        group = handle.root.open_group(names.DIRECTORY_GROUP)
        listed = None if group is None else read_texts(group, names.COLUMN_NAMES)
    if listed is None or listed == before.names:
        return None
    rows = {name: row for row, name in enumerate(before.names)}
    moved: list[tuple[str, str | None, int | None]] = []
    for name in listed:
        old = name if name in rows else before.renamed.get(name)
        moved.append((name, old, None if old is None else rows.pop(old, None)))
    return Annotations(annotations_file(file.parent), moved)
