"""How a HEP001 table is shown as an AnnData frame: by which recipe, in which frame, with which rows. Only reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, overload

import pyarrow as pa

from colonnade.arrays import Booleans
from colonnade.columns.raw import cut
from colonnade.columns.read import ColumnReader
from colonnade.dataclass import dataclass
from colonnade.layouts import Layout, layout_of
from colonnade.layouts.anndata import names
from colonnade.model import ColumnInfo, TableInfo
from colonnade.nodes import Dataset, EditableGroup, Group, attributes
from colonnade.selection import Selection

Recipe = Literal["R0", "R1", "R2"]
Pieces = Iterator[tuple[int, Booleans]]
"""Booleans for the rows of a column, a few MiB at a time: the first row, and one boolean per row from there."""
MASKED = ("integer", "boolean", "text", "string")


def shown_columns(info: TableInfo) -> list[ColumnInfo]:
    """The columns that anndata sees, and the first label."""
    index = next(label for label in info.labels if label.name == info.index_name)
    return [*info.columns, index] if index.name not in {column.name for column in info.columns} else [*info.columns]


@dataclass
class TableRows:
    """The rows of a table's columns, for masks; holds at most one piece of them at a time."""

    group: Group
    layout: Layout

    def dataset(self, column: ColumnInfo) -> Dataset:
        return self.layout.open_dataset(self.group, column)

    def categories(self, column: ColumnInfo) -> pa.Array:
        return self._reader(column).categories()

    def missing(self, column: ColumnInfo, wanted: Selection) -> Pieces:
        """Which rows are missing; pieces may include rows that are not in `wanted`."""
        for begin, values in self.pieces(column, wanted):
            yield begin, values.is_null().to_numpy(zero_copy_only=False)

    def true(self, column: ColumnInfo, wanted: Selection) -> Pieces:
        """Which rows of booleans are true (neither false nor missing); pieces may include rows that are not in
        `wanted`."""
        for begin, values in self.pieces(column, wanted):
            yield begin, values.fill_null(False).to_numpy(zero_copy_only=False)

    def pieces(self, column: ColumnInfo, wanted: Selection | None = None) -> Iterator[tuple[int, pa.Array]]:
        """The wanted rows (by default all), a few MiB at a time, each piece with its first row."""
        wanted = Selection.of(0, column.n_rows) if wanted is None else wanted
        if not wanted:
            return
        reader = self._reader(column)
        for begin, end in cut(int(wanted.starts[0]), int(wanted.stops[-1]), column.grid.chunk_rows, column.type):
            inside = wanted.within(begin, end)
            if inside:
                first = int(inside.starts[0])
                yield first, reader.read(first, int(inside.stops[-1]) - first)

    def _reader(self, column: ColumnInfo) -> ColumnReader:
        return ColumnReader(column, *self.layout.open_column(self.group, column))


def may_miss(column: ColumnInfo) -> bool:
    """Whether a mask may be needed. Floats have NaN and categoricals the code -1, so they need none."""
    marked = column.fill is not None or len(column.type.members) > 2
    return column.categories is None and column.type.kind in MASKED and marked


def recipe_of(group: Group, layout: Layout, path: str) -> Recipe | None:
    """Which view a table has; None when it has none that this library made."""
    if layout.name != "hep001":
        return None
    if frame_around(group, path) is not None:
        return "R2"
    if attributes.read_text(group, names.ENCODING_TYPE) != names.DATAFRAME:
        return None
    index = attributes.read_text(group, names.INDEX)
    labels = group.open_dataset(index) if index and names.is_link_name(index) and group.has_link(index) else None
    if labels is None or attributes.read_text(labels, names.ENCODING_TYPE) is None:
        return None  # other programs mark as dataframe what anndata cannot read
    return "R1" if attributes.read_text(group, names.ENCODING_VERSION) == "0.1.0" else "R0"


@overload
def frame_around(group: EditableGroup, path: str) -> EditableGroup | None: ...
@overload
def frame_around(group: Group, path: str) -> Group | None: ...
def frame_around(group: Group, path: str) -> Group | None:
    """The frame around a table, as its AnnData view; None when there is none."""
    above, _, last = path.rpartition("/")
    frame = group.open_group(above or "/") if last == names.OTHER_FACE else None
    layout = layout_of(frame) if frame is not None else None
    return frame if layout is not None and layout.name == "anndata" else None
