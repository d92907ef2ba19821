"""Where a table keeps its things inside an HDF5 file: one folder a layout, the same file names in each.

`LAYOUTS` is the closed set of them, in the order in which a group is asked what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from colonnade.layouts.anndata import describe as anndata_describe
from colonnade.layouts.anndata.write import no_indexes, refuse
from colonnade.layouts.hep001 import describe as hep001_describe
from colonnade.layouts.hep001 import names as hep001_names
from colonnade.layouts.hep001 import search as hep001_search
from colonnade.layouts.hep001 import write as hep001_write
from colonnade.layouts.hep001.search import PlacedIndex
from colonnade.layouts.hep001.write import TableText
from colonnade.model import ColumnInfo, TableInfo

if TYPE_CHECKING:
    from colonnade.columns.writer import WrittenColumn

__all__ = ["LAYOUTS", "Layout", "PlacedIndex", "TableText", "layout_of"]


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
    discard_index: Callable[[Any, str], None]
    detach_index: Callable[[Any, PlacedIndex], None]
    rename_indexes: Callable[[Any, TableInfo, str, str], None]
    index_bytes: Callable[[PlacedIndex], int]
    own_objects: Callable[[Any], set[str]]
    clear: Callable[[Any], None]
    check_can_change: Callable[[], None] = lambda: None


HEP001 = Layout(
    name="hep001",
    is_table=hep001_describe.is_table,
    describe=hep001_describe.describe,
    open_column=hep001_describe.open_column,
    own_attributes=hep001_describe.unread_attributes,
    check_name=hep001_names.check_name,
    needs_large_attributes=hep001_write.needs_large_attributes,
    make_group=hep001_write.make_group,
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
    place_index=hep001_search.place_index,
    attach_index=hep001_search.attach_index,
    discard_index=hep001_search.discard_index,
    detach_index=hep001_search.detach_index,
    rename_indexes=hep001_search.rename_indexes,
    index_bytes=hep001_search.stored_bytes,
    own_objects=hep001_write.own_objects,
    clear=hep001_write.clear,
)
ANNDATA = Layout(
    name="anndata",
    is_table=anndata_describe.is_table,
    describe=anndata_describe.describe,
    open_column=anndata_describe.open_column,
    own_attributes=anndata_describe.unread_attributes,
    check_name=refuse("choosing a name"),
    needs_large_attributes=refuse("writing a table"),
    make_group=refuse("writing a table"),
    complete_columns=refuse("writing a table"),
    complete_group=refuse("writing a table"),
    extend=refuse("appending rows"),
    attach_column=refuse("adding a column"),
    detach_column=refuse("dropping a column"),
    rename_column=refuse("renaming a column"),
    replace_column=refuse("replacing a column"),
    sparse_texts=refuse("setting a text"),
    set_texts=refuse("setting a text"),
    search_indexes=no_indexes,
    place_index=refuse("building a search index"),
    attach_index=refuse("building a search index"),
    discard_index=refuse("building a search index"),
    detach_index=refuse("dropping a search index"),
    rename_indexes=refuse("renaming a column"),
    index_bytes=refuse("measuring a search index"),
    own_objects=refuse("replacing it by a table"),
    clear=refuse("dropping it"),
    check_can_change=refuse("changing rows or columns"),
)
LAYOUTS: dict[str, Layout] = {"hep001": HEP001, "anndata": ANNDATA}


def layout_of(group: Any) -> Layout | None:
    """The layout whose table this group is, or None."""
    return next((layout for layout in LAYOUTS.values() if layout.is_table(group)), None)
