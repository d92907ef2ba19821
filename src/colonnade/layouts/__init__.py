"""Where a table keeps its things inside an HDF5 file: one folder a layout, the same file names in each.

`LAYOUTS` is the closed set of them, in the order in which a group is asked what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from colonnade.dataclass import dataclass
from colonnade.layouts import index_home
from colonnade.layouts.anndata import describe as anndata_describe
from colonnade.layouts.anndata import names as anndata_names
from colonnade.layouts.anndata import search as anndata_search
from colonnade.layouts.anndata import write as anndata_write
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

__all__ = ["LAYOUTS", "Layout", "NewWriter", "PlacedIndex", "ResumedWriter", "TableText", "layout_of"]


class NewWriter(Protocol):
    """What writes a new column: start, then write, then finish."""

    name: str

    def start(self, group: Any, sample: pa.Array, n_rows: int | None, most_rows: int) -> None: ...
    def write(self, array: pa.Array) -> None: ...
    def finish(self) -> WrittenColumn: ...


class ResumedWriter(Protocol):
    """What goes on behind the rows that a column has, or puts others into them; `finish` may come several times."""

    name: str

    def write(self, array: pa.Array) -> None: ...
    def overwrite(self, rows: np.ndarray[Any, np.dtype[np.int64]], array: pa.Array) -> None: ...
    def finish(self) -> WrittenColumn: ...


@dataclass(frozen=True)
class Layout:
    """What every layout offers; rows are read and written by others."""

    name: str
    is_table: Callable[[Any], bool]
    describe: Callable[[Any, str], TableInfo]
    open_column: Callable[[Any, ColumnInfo], tuple[Any, Any]]  # its rows; its categories or its mask, or None
    own_attributes: Callable[[Any], dict[str, object]]
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
    unnamed_labels: str = "index"  # the name of labels that have none
    needs_labels: bool = False  # rows without labels are numbered
    keeps_texts: bool = True  # units and descriptions
    keeps_masks: bool = False  # beside the values, which say what is missing


HEP001 = Layout(
    name="hep001",
    is_table=hep001_describe.is_table,
    describe=hep001_describe.describe,
    open_column=hep001_describe.open_column,
    own_attributes=hep001_describe.unread_attributes,
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
)
ANNDATA = Layout(
    name="anndata",
    is_table=anndata_describe.is_table,
    describe=anndata_describe.describe,
    open_column=anndata_describe.open_column,
    own_attributes=anndata_describe.unread_attributes,
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
LAYOUTS: dict[str, Layout] = {"hep001": HEP001, "anndata": ANNDATA}


def layout_of(group: Any) -> Layout | None:
    """The layout whose table this group is, or None."""
    return next((layout for layout in LAYOUTS.values() if layout.is_table(group)), None)
