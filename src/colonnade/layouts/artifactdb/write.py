"""An ArtifactDB data frame written, in any of its generations.

The order of writing:
1. the group with an empty `data`: until the end it has no column names, and so is no frame;
2. columns and row names, row by row (by `writer`);
3. levels, and the attributes of each column;
4. column names, and the group's attributes.
What stands beside the file follows when it is closed (by `publish`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from colonnade.columns.arrow_types import write_arrow_type
from colonnade.columns.encode import encode
from colonnade.columns.mapping import stored_string
from colonnade.columns.strings import byte_lengths
from colonnade.dataclass import dataclass
from colonnade.errors import FormatError, UnsupportedError, UsageError
from colonnade.h5 import attributes
from colonnade.h5.datasets import DatasetPlan, create_dataset, default_chunk_rows
from colonnade.h5.files import open_file
from colonnade.h5.links import create_group, exists, open_group, rename, unlink
from colonnade.h5.row_sink import write_rows
from colonnade.layouts.artifactdb import names
from colonnade.layouts.artifactdb.describe import describe, generation_of, position_of, read_texts, rows_of
from colonnade.layouts.artifactdb.documents import annotations_file, described_annotations
from colonnade.layouts.artifactdb.metadata import directory_of, metadata_of
from colonnade.layouts.artifactdb.names import Generation
from colonnade.model import ColumnInfo, ColumnOptions, TableInfo, TableText

if TYPE_CHECKING:
    from colonnade.columns.writer import WrittenColumn
    from colonnade.layouts.artifactdb.writer import ArtifactWriter


VERSIONED = Generation("versioned")
DEFAULT_TIME = pa.timestamp("us", "UTC")
SMALL = 1024  # bytes that are not worth a filter


def needs_large_attributes(_n_columns: int, _longest_name: int) -> bool:
    """Names of columns are in a dataset: no attribute grows with them."""
    return False


def make_group(root: Any, path: str, large_attributes: bool) -> Any:
    """A new group for a frame."""
    group = create_group(root, path, large_attributes)
    create_group(group, names.DATA)
    return group


def check_can_change(group: Any, info: TableInfo) -> None:
    """Refuse frames that can only be read: those that metadata describe, and those in disorder."""
    generation = generation_of(group, metadata_of(group, info.path))
    if generation.family == "legacy":
        raise UnsupportedError(
            f"{info.path} is an ArtifactDB data frame of a legacy form ({generation}), which is read here and not "
            "changed, since levels and types are in other files: write it anew, or convert it",
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
    """What writes a new column of a frame of this generation."""
    from colonnade.layouts.artifactdb.writer import ArtifactWriter

    return ArtifactWriter(name, kind, options, generation, is_label)


def resume_column(group: Any, column: ColumnInfo) -> ArtifactWriter:
    """A writer for the rows behind those that a column has."""
    from colonnade.layouts.artifactdb.writer import ArtifactWriter

    return ArtifactWriter.resume(column, group, generation_of(group, None))


def complete_columns(group: Any, columns: Sequence[WrittenColumn], labels: Sequence[WrittenColumn]) -> None:
    """Step 3 for frames whose columns say what they are."""
    for column in columns:
        _complete_column(group, column)
    _name_labels(group, labels)


def complete_legacy_columns(
    generation: Generation, group: Any, columns: Sequence[WrittenColumn], labels: Sequence[WrittenColumn]
) -> None:
    """Step 3 for frames that their metadata describe: only missing values are told in the file, and not all."""
    for column in columns:
        is_text = column.form.stored.kind in ("string", "text")
        if column.has_missing and (is_text or generation.hdf5 >= 2):
            _write_placeholder(column.dataset, column)
        _write_arrow_type(column)
    _name_labels(group, labels)


def _name_labels(group: Any, labels: Sequence[WrittenColumn]) -> None:
    """Keep the name that row names have here, if it is not theirs anyway."""
    for label in labels:
        if label.name != names.ROW_NAMES:
            attributes.write_text(label.dataset, names.LABEL_NAME, label.name)


def complete_group(
    group: Any, columns: Sequence[WrittenColumn], _labels: Sequence[WrittenColumn], _text: TableText
) -> None:
    """Step 4: what makes the group a frame that says so itself."""
    complete_legacy_group(group, columns)
    count_rows(group, columns[0].n_rows if columns else _labels[0].n_rows if _labels else 0)
    attributes.write_variable_text(group, names.VERSION, VERSIONED.version)


def complete_legacy_group(group: Any, columns: Sequence[WrittenColumn]) -> None:
    """Step 4: what is in a group that metadata make a frame."""
    write_texts(group, names.COLUMN_NAMES, [column.name for column in columns])


def count_rows(group: Any, n_rows: int) -> None:
    """Say how many rows the frame has."""
    attributes.write_integer(group, names.ROW_COUNT, n_rows)


def write_texts(group: Any, name: str, texts: Sequence[str]) -> None:
    """A dataset of text of fixed length, in the place of one that is there."""
    array = pa.array(texts, pa.string())
    width = int(byte_lengths(array).max(initial=1))
    stored = stored_string(max(width, 1))
    aside = f"{name}\x01new"
    filters = "shuffle+deflate" if len(texts) * stored.size >= SMALL else "none"
    plan = DatasetPlan(stored, default_chunk_rows(max(len(texts), 1), stored), filters)
    dataset = create_dataset(group, aside, plan, len(texts))
    write_rows(dataset, stored, 0, encode(array, stored, None, name).image, len(texts))
    if exists(group, name):
        unlink(group, name)
    rename(group, aside, name)


def _complete_column(group: Any, column: WrittenColumn) -> None:
    """Say of a column what it is; write its levels."""
    link = column.link or ""
    if column.categories is not None:
        inner = open_group(group, link)
        write_texts(inner, names.LEVELS, column.categories.to_pylist())
        if column.ordered:
            attributes.write_integer(inner, names.ORDERED, 1, "i1")
        attributes.write_variable_text(inner, names.TYPE, names.FACTOR)
    elif column.form.stored.kind == "compound":
        attributes.write_variable_text(open_group(group, link), names.TYPE, names.VLS)
    else:
        attributes.write_variable_text(column.dataset, names.TYPE, declared_type(column.kind))
        _write_format(column)
    if column.has_missing:
        _write_placeholder(column.dataset, column)


def _write_format(column: WrittenColumn) -> None:
    """What its text looks like."""
    text_format = declared_format(column.kind)
    if text_format is not None:
        attributes.write_variable_text(column.dataset, names.FORMAT, text_format)
    _write_arrow_type(column)


def _write_arrow_type(column: WrittenColumn) -> None:
    """The Arrow type of times, where it is not the one they read as without more."""
    if pa.types.is_timestamp(column.kind) and column.kind != DEFAULT_TIME:
        attributes.write_text(column.dataset, names.ARROW_TYPE, write_arrow_type(column.kind))


def declared_type(kind: pa.DataType) -> str:
    """What ArtifactDB calls a column of this Arrow type."""
    if pa.types.is_dictionary(kind):
        return names.FACTOR
    if pa.types.is_boolean(kind):
        return names.BOOLEAN
    if pa.types.is_integer(kind):
        return names.INTEGER
    return names.NUMBER if pa.types.is_floating(kind) else names.STRING


def declared_format(kind: pa.DataType) -> str | None:
    """What text of a column of this Arrow type must look like, if anything."""
    if pa.types.is_date(kind):
        return "date"
    return "date-time" if pa.types.is_timestamp(kind) else None


def _write_placeholder(dataset: Any, column: WrittenColumn) -> None:
    """Say which value marks missing rows."""
    stored, mark = column.form.stored, column.form.fill
    if mark is None:  # R's NA, which is put into the rows as it is
        mark = np.array(names.R_MISSING, dtype="u8").tobytes()
    if stored.kind in ("string", "text", "compound"):
        attributes.write_variable_text(dataset, names.PLACEHOLDER, mark.rstrip(b"\0").decode())
    else:
        attributes.write_element(dataset, names.PLACEHOLDER, stored, mark)


def extend(group: Any, info: TableInfo, written: Sequence[WrittenColumn]) -> bool:
    """After rows were added to columns: levels and placeholders as they must be now.

    Says whether what is told of the frame still holds, up to its length and the number of categories.
    """
    holds = True
    for column in written:
        before = info.by_name[column.name]
        if (column.has_missing or before.fill is not None) and column.form.fill not in (None, before.fill):
            _write_placeholder(column.dataset, column)
            holds = False
        n_before = before.categories.n_categories if before.categories is not None else 0
        if column.categories is not None and len(column.categories) != n_before:
            write_texts(open_group(group, before.link or ""), names.LEVELS, column.categories.to_pylist())
            holds = False
        if before.encoding == "double":
            holds = False
    return holds and not any(column.replaced for column in written)


def attach_column(group: Any, info: TableInfo, column: WrittenColumn) -> None:
    """Make what was just written a column, behind the others."""
    _complete_column(group, column)
    listed = all_names(group)
    note_columns(group, listed)
    write_texts(group, names.COLUMN_NAMES, [*listed, column.name])
    if not info.members:
        count_rows(group, column.n_rows)


def all_names(group: Any) -> list[str]:
    """The names of all columns, also of those that are kept elsewhere."""
    listed = read_texts(group, names.COLUMN_NAMES)
    if listed is None:
        raise FormatError("the column names of the frame cannot be read")
    return listed


def detach_column(group: Any, info: TableInfo, name: str) -> None:
    """Remove a column or the row names; those behind it move up, unless some are kept elsewhere by their number."""
    column = info.by_name[name]
    if column.is_label:
        unlink(group, names.ROW_NAMES)
        return
    if info.others:
        kept = ", ".join(repr(other.name) for other in info.others)
        raise UnsupportedError(
            f"{info.path} keeps {kept} in other files by the column's number, which would change: no column can be "
            "dropped",
            feature="dropping columns beside those kept elsewhere",
            column=name,
        )
    data, listed, gone = open_group(group, names.DATA), all_names(group), position_of(column)
    note_columns(group, listed)
    unlink(data, str(gone))
    for position in range(gone + 1, len(listed)):
        rename(data, str(position), str(position - 1))
    write_texts(group, names.COLUMN_NAMES, [*listed[:gone], *listed[gone + 1 :]])


def rename_column(group: Any, info: TableInfo, name: str, new_name: str) -> None:
    """Give a column or the row names another name."""
    column = info.by_name[name]
    if column.is_label:
        attributes.write_text(rows_of(group, column), names.LABEL_NAME, new_name)
        return
    listed = all_names(group)
    if new_name in listed:
        raise UsageError(f"{info.path} has a column {new_name!r} already: choose another name", column=new_name)
    note_new_name(group, listed, name, new_name)
    listed[position_of(column)] = new_name
    write_texts(group, names.COLUMN_NAMES, listed)


def replace_column(group: Any, info: TableInfo, column: WrittenColumn, _old: Any) -> None:
    """Make what was just written, behind the others, the column of its name."""
    before = info.by_name[column.name]
    if before.is_label:
        _name_labels(group, [column])
        return
    data, written = open_group(group, names.DATA), (column.link or "").rsplit("/", 1)[-1]
    _complete_column(group, column)
    rename(data, written, str(position_of(before)))


def set_texts(_group: Any, info: TableInfo, name: str | None, texts: Mapping[str, str | None]) -> None:
    """A frame has no place for texts."""
    where = info.path if name is None else f"column {name!r} of {info.path}"
    raise UnsupportedError(
        f"{where}: an ArtifactDB data frame has no place for {', '.join(texts)}",
        feature="texts of ArtifactDB data frames",
    )


def sparse_attributes(_column: ColumnInfo, _strings: Mapping[str, str | None]) -> dict[str, str | None]:
    """A frame has no sparse columns."""
    return {}


def note_pandas(_node: Any, _note: str | None) -> None:
    """A frame keeps no notes about pandas types."""


def own_objects(group: Any) -> set[str]:
    """The names of the frame's own objects in its group."""
    return {name for name in names.MEMBERS if exists(group, name)}


def clear(group: Any) -> None:
    """Remove the frame's own objects and attributes from its group; what others put there stays."""
    describe(group, "/")  # of a version that is not known nothing is removed
    for name in sorted(own_objects(group)):
        unlink(group, name)
    for name in names.GROUP_ATTRIBUTES:
        attributes.delete(group, name)


@dataclass
class ColumnsBefore:
    """The columns that annotations were written for, and the columns that have another name since."""

    names: list[str]
    renamed: dict[str, str] = field(default_factory=dict)  # today's name to the one before


_BEFORE: dict[Path, ColumnsBefore] = {}  # by directory


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
