"""Layouts: how a table is stored inside an HDF5 file. One folder per layout, with the same file names in each.

`LAYOUTS` is the fixed set of layouts, in the order in which a group is tested for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from colonnade.dataclass import dataclass
from colonnade.errors import UsageError
from colonnade.h5.attributes import read_texts
from colonnade.h5.links import encode_name
from colonnade.layouts import index_home
from colonnade.layouts.anndata import axes as anndata_axes
from colonnade.layouts.anndata import describe as anndata_describe
from colonnade.layouts.anndata import names as anndata_names
from colonnade.layouts.anndata import search as anndata_search
from colonnade.layouts.anndata import write as anndata_write
from colonnade.layouts.artifactdb import annotations as artifactdb_annotations
from colonnade.layouts.artifactdb import describe as artifactdb_describe
from colonnade.layouts.artifactdb import metadata as artifactdb_metadata
from colonnade.layouts.artifactdb import names as artifactdb_names
from colonnade.layouts.artifactdb import search as artifactdb_search
from colonnade.layouts.artifactdb import write as artifactdb_write
from colonnade.layouts.hep001 import describe as hep001_describe
from colonnade.layouts.hep001 import names as hep001_names
from colonnade.layouts.hep001 import search as hep001_search
from colonnade.layouts.hep001 import write as hep001_write
from colonnade.layouts.index_home import PlacedIndex
from colonnade.model import ColumnInfo, ColumnOptions, TableInfo, TableText

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from colonnade.columns.writer import WrittenColumn

check_axes = anndata_axes.check_axes
annotations_file, moved_rows = artifactdb_annotations.annotations_file, artifactdb_annotations.moved_rows
located = artifactdb_metadata.located
BASIC_COLUMNS, DIRECTORY_GROUP = artifactdb_names.BASIC_COLUMNS, artifactdb_names.DIRECTORY_GROUP
__all__ = [
    "BASIC_COLUMNS", "DIRECTORY_GROUP", "LAYOUTS", "Layout", "NewWriter", "PlacedIndex", "ResumedWriter", "TableText",
    "annotations_file", "check_axes", "follow_file", "layout_of", "listed_columns", "located", "moved_rows",
    "new_layout",
]  # fmt: skip


class NewWriter(Protocol):
    """Writes a new column: start, then write, then finish."""

    name: str

    def start(self, group: Any, sample: pa.Array, n_rows: int | None, most_rows: int) -> None: ...
    def write(self, array: pa.Array) -> None: ...
    def finish(self) -> WrittenColumn: ...


class ResumedWriter(Protocol):
    """Appends to, overwrites or truncates the rows of an existing column. `finish` may be called several times."""

    name: str

    def write(self, array: pa.Array) -> None: ...
    def overwrite(self, rows: np.ndarray[Any, np.dtype[np.int64]], array: pa.Array) -> None: ...
    def truncate(self, n_rows: int) -> None: ...
    def finish(self) -> WrittenColumn: ...


@dataclass(frozen=True)
class Layout:
    """The operations and options of a layout. Rows are read and written elsewhere."""

    name: str
    is_table: Callable[[Any], bool]
    describe: Callable[[Any, str], TableInfo]
    open_column: Callable[[Any, ColumnInfo], tuple[Any, Any]]  # rows; categories, mask or None
    own_attributes: Callable[[Any], dict[str, object]]
    group_attributes: tuple[str, ...]  # reserved: set by the layout only
    column_attributes: tuple[str, ...]
    check_name: Callable[[str, bool], None]
    needs_large_attributes: Callable[[int, int], bool]
    make_group: Callable[[Any, str, bool], Any]
    new_writer: Callable[[str, pa.DataType, ColumnOptions, bool, bool], NewWriter]
    resume_column: Callable[[Any, ColumnInfo], ResumedWriter]
    complete_columns: Callable[[Any, Sequence[WrittenColumn], Sequence[WrittenColumn]], None]
    complete_group: Callable[[Any, Sequence[WrittenColumn], Sequence[WrittenColumn], TableText], None]
    extend: Callable[[Any, TableInfo, Sequence[WrittenColumn]], bool]
    attach_column: Callable[[Any, TableInfo, WrittenColumn], None]
    detach_column: Callable[[Any, TableInfo, str], None]
    rename_column: Callable[[Any, TableInfo, str, str], None]
    replace_column: Callable[[Any, TableInfo, WrittenColumn, Any], None]
    sparse_texts: Callable[[ColumnInfo, Mapping[str, str | None]], dict[str, str | None]]
    set_texts: Callable[[Any, TableInfo, str | None, Mapping[str, str | None]], None]
    search_indexes: Callable[[Any, TableInfo], list[PlacedIndex]]
    place_index: Callable[[Any, str, str], tuple[Any, str]]
    attach_index: Callable[[Any, str, str, Any], None]
    detach_index: Callable[[Any, PlacedIndex], None]
    rename_indexes: Callable[[Any, TableInfo, str, str], None]
    own_objects: Callable[[Any], set[str]]
    clear: Callable[[Any], None]
    check_members: Callable[[Sequence[str], Sequence[str], TableText], None] = lambda _columns, _labels, _text: None
    check_can_change: Callable[[Any, TableInfo], None] = lambda _group, _info: None
    unnamed_labels: str = "index"  # the name of labels without a name
    needs_labels: bool = False  # if rows have no labels, row numbers are stored as labels
    keeps_texts: bool = True  # can store units and descriptions
    keeps_masks: bool = False  # can store a mask of missing rows next to the values
    parts: tuple[str, ...] = ()  # members of a table's group that do not belong to a single column
    names_are_links: bool = True  # the name of a column is also its link name in the group
    count_rows: Callable[[Any, int], None] = lambda _group, _n_rows: None
    note_pandas: Callable[[Any, str | None], None] | None = None  # on a dataset or the group; None: not stored
    beside: Beside | None = None  # the sidecar files of a new table


class Beside(Protocol):
    """The sidecar files of a file, updated when it is closed."""

    def check_place(self, file: Path, table: str, alone: bool) -> None: ...
    def publish(self, file: Path, table: str, alone: bool) -> None: ...


HEP001 = Layout(
    name="hep001",
    is_table=hep001_describe.is_table,
    describe=hep001_describe.describe,
    open_column=hep001_describe.open_column,
    own_attributes=hep001_describe.unread_attributes,
    group_attributes=hep001_names.GROUP_ATTRIBUTES,
    column_attributes=hep001_names.COLUMN_ATTRIBUTES,
    check_name=hep001_names.check_name,
    needs_large_attributes=hep001_write.needs_large_attributes,
    make_group=hep001_write.make_group,
    new_writer=hep001_write.new_writer,
    resume_column=hep001_write.resume_column,
    complete_columns=hep001_write.complete_columns,
    complete_group=hep001_write.complete_group,
    extend=hep001_write.extend,
    attach_column=hep001_write.attach_column,
    detach_column=hep001_write.detach_column,
    rename_column=hep001_write.rename_column,
    replace_column=hep001_write.replace_column,
    sparse_texts=hep001_write.sparse_texts,
    set_texts=hep001_write.set_texts,
    search_indexes=hep001_search.search_indexes,
    place_index=index_home.place_index,
    attach_index=hep001_search.attach_index,
    detach_index=hep001_search.detach_index,
    rename_indexes=hep001_search.rename_indexes,
    own_objects=hep001_write.own_objects,
    clear=hep001_write.clear,
    note_pandas=hep001_write.note_pandas,
)
ANNDATA = Layout(
    name="anndata",
    is_table=anndata_describe.is_table,
    describe=anndata_describe.describe,
    open_column=anndata_describe.open_column,
    own_attributes=anndata_describe.unread_attributes,
    group_attributes=anndata_names.GROUP_ATTRIBUTES,
    column_attributes=anndata_names.COLUMN_ATTRIBUTES,
    check_name=anndata_names.check_name,
    needs_large_attributes=anndata_write.needs_large_attributes,
    make_group=anndata_write.make_group,
    new_writer=anndata_write.new_writer,
    resume_column=anndata_write.resume_column,
    complete_columns=anndata_write.complete_columns,
    complete_group=anndata_write.complete_group,
    extend=anndata_write.extend,
    attach_column=anndata_write.attach_column,
    detach_column=anndata_write.detach_column,
    rename_column=anndata_write.rename_column,
    replace_column=anndata_write.replace_column,
    sparse_texts=lambda *_: {},  # there are no sparse columns
    set_texts=anndata_write.set_texts,
    search_indexes=anndata_search.search_indexes,
    place_index=anndata_search.place_index,
    attach_index=anndata_search.attach_index,
    detach_index=index_home.remove_index,
    rename_indexes=anndata_search.rename_indexes,
    own_objects=anndata_write.own_objects,
    clear=anndata_write.clear,
    check_members=anndata_names.check_members,
    check_can_change=anndata_write.check_can_change,
    unnamed_labels=anndata_names.UNNAMED,
    needs_labels=True,
    keeps_texts=False,
    keeps_masks=True,
)
ARTIFACTDB = Layout(
    name="artifactdb",
    is_table=artifactdb_describe.is_table,
    describe=artifactdb_describe.describe,
    open_column=artifactdb_describe.open_column,
    own_attributes=artifactdb_describe.unread_attributes,
    group_attributes=artifactdb_names.GROUP_ATTRIBUTES,
    column_attributes=artifactdb_names.COLUMN_ATTRIBUTES,
    check_name=artifactdb_names.check_name,
    needs_large_attributes=artifactdb_write.needs_large_attributes,
    make_group=artifactdb_write.make_group,
    new_writer=partial(artifactdb_write.new_writer, artifactdb_write.VERSIONED),
    resume_column=artifactdb_write.resume_column,
    complete_columns=artifactdb_write.complete_columns,
    complete_group=artifactdb_write.complete_group,
    extend=artifactdb_write.extend,
    attach_column=artifactdb_write.attach_column,
    detach_column=artifactdb_write.detach_column,
    rename_column=artifactdb_write.rename_column,
    replace_column=artifactdb_write.replace_column,
    sparse_texts=lambda *_: {},  # there are no sparse columns
    set_texts=artifactdb_write.set_texts,
    search_indexes=artifactdb_search.search_indexes,
    place_index=artifactdb_search.place_index,
    attach_index=artifactdb_search.attach_index,
    detach_index=index_home.remove_index,
    rename_indexes=artifactdb_search.rename_indexes,
    own_objects=artifactdb_write.own_objects,
    clear=artifactdb_write.clear,
    check_members=artifactdb_names.check_members,
    check_can_change=artifactdb_write.check_can_change,
    unnamed_labels=artifactdb_names.ROW_NAMES,
    keeps_texts=False,
    parts=(artifactdb_names.DATA, artifactdb_names.COLUMN_NAMES),
    names_are_links=False,
    count_rows=artifactdb_write.count_rows,
)
LAYOUTS: dict[str, Layout] = {"hep001": HEP001, "anndata": ANNDATA, "artifactdb": ARTIFACTDB}


def new_layout(name: str, version: object = None, directory: bool = False) -> Layout:
    """The layout of a new table, in the requested version and form if it has several."""
    if name not in LAYOUTS:
        raise UsageError(f"unknown layout {name!r}; known: {', '.join(LAYOUTS)}")
    if name != ARTIFACTDB.name:
        if version is not None or directory:
            raise UsageError(f"version= and directory= are for the layout 'artifactdb', not {name!r}")
        return LAYOUTS[name]
    from colonnade.layouts.artifactdb.publish import Publisher, asked_generation

    generation = asked_generation(version, directory)
    publisher = Publisher(generation)
    made = replace(ARTIFACTDB, new_writer=partial(artifactdb_write.new_writer, generation), beside=publisher)
    if generation.family != "legacy":
        return made
    return replace(
        made,
        complete_columns=partial(artifactdb_write.complete_legacy_columns, generation),
        complete_group=publisher.complete_legacy_group,
    )


def follow_file(file: Path) -> None:
    """Update the sidecar files of a file that was changed and closed."""
    if artifactdb_metadata.metadata_beside(file).is_file():
        from colonnade.layouts.artifactdb.publish import follow

        follow(file)


def layout_of(group: Any) -> Layout | None:
    """The layout of the table stored in this group, or None if it is not a table."""
    return next((layout for layout in LAYOUTS.values() if layout.is_table(group)), None)


def listed_columns(group: Any) -> set[bytes]:
    """The names of members listed as columns of a table, so not tables themselves; empty if there is no such list."""
    if layout_of(group) is None:
        return set()
    names = read_texts(group, hep001_names.COLUMN_ORDER) or ()
    return set(encode_name("\0".join(names)).split(b"\0"))
