"""Describes a frame or Series in the fixed format of pandas: an array per axis, and one per block of columns.

A block is a matrix with a row per row and a column per column, all of one type. Its columns are named by an axis of its
own; their order in the frame is that of the column axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from colonnade.dataclass import replace
from colonnade.layouts.frame_parts import FrameDescription, Unfit, common_length
from colonnade.layouts.pandas import names
from colonnade.layouts.pandas.axes import (
    PICKLED_OBJECTS,
    describe_labels,
    is_empty,
    is_objects,
    nothing,
    open_array,
    read_names,
    with_meaning,
    zone_of,
)
from colonnade.layouts.pandas.kinds import meaning_of
from colonnade.layouts.pandas.notes import Properties, dtype_note, frame_note
from colonnade.layouts.pandas.pickles import is_pickled, read_name, read_string
from colonnade.model import ColumnInfo, DatasetInfo, LazyColumns, Member, TableInfo, unreadable_column
from colonnade.nodes import Dataset, attributes
from colonnade.nodes.elements import dataset_column


class BlockColumn(NamedTuple):
    """Where the values of a column are: the array, and the position in its rows."""

    array: str
    position: int


class FixedDescription(FrameDescription):
    """One pass over a frame or Series, which collects the problems it finds."""

    layout = "pandas"

    def table(self) -> TableInfo:
        if read_string(self.group, names.PANDAS_TYPE) == names.FIXED_SERIES:
            title = read_name(self.group, names.NAME)
            self._note_pickled_name()
            name = names.SERIES_VALUES if title is None else str(title)
            levels: list[Properties] = [{"dtype": "int64"}] if isinstance(title, int) else []
            return self._described([name], {}, levels, names.SERIES_INDEX)
        places, listed = self._places()
        try:
            axis = read_names(self.group, names.COLUMN_AXIS)
            order, levels = list(dict.fromkeys(axis.strings)), list(axis.levels)
            if len(order) != len(axis.strings):
                self.note("error", "two columns have one name", names.COLUMN_AXIS)
            for name in [name for name in listed if name not in set(order)][:10]:
                self.note("error", "this column of a block is not on the column axis", name)
        except Unfit as error:
            order, levels = listed, []
            self.note("warning", f"the names of the columns cannot be read: {error}", names.COLUMN_AXIS)
        return self._described(order, places, levels, names.ROW_AXIS)

    def _note_pickled_name(self) -> None:
        if is_pickled(self.group, names.NAME):
            self.note("note", "the name of the Series is a pickle, which is not loaded", names.NAME)

    def _places(self) -> tuple[dict[str, BlockColumn], list[str]]:
        """Where each column is, and the names of all columns in the order of the blocks."""
        counted = attributes.read_integers(self.group, "nblocks") or [0]
        n_blocks = min(counted[0], len(self.group.link_names()))
        if n_blocks != counted[0]:
            self.note("error", f"there are not {counted[0]} blocks")
        places: dict[str, BlockColumn] = {}
        for block in range(n_blocks):
            array = names.block_values(block)
            try:
                items = read_names(self.group, names.block_items(block)).strings
            except Unfit as error:
                items = self._unnamed(array)
                self.note("warning", f"the names of its columns cannot be read: {error}", array)
            for position, name in enumerate(items):
                if name in places:
                    self.note("error", f"column {name!r} is in two blocks", array)
                places.setdefault(name, BlockColumn(array, position))
        return places, list(places)

    def _unnamed(self, array: str) -> list[str]:
        """Names for the columns of a block that has none, by their positions; a file may claim any number of them."""
        width = self._width(array)
        if width > names.MOST_UNNAMED:
            self.note("error", f"it claims {width:,} columns without names: they are left out", array)
            return []
        return [f"{array}[{position}]" for position in range(width)]

    def _width(self, array: str) -> int:
        try:
            info = open_array(self.group, array).describe()
        except Unfit:
            return 0
        return info.shape[1] if info.shape is not None and len(info.shape) == 2 else 1

    def _described(
        self, order: Sequence[str], places: dict[str, BlockColumn], levels: Sequence[Properties], axis: str
    ) -> TableInfo:
        labels = describe_labels(self.group, axis, order)
        arrays: dict[str, tuple[Dataset, DatasetInfo] | str] = {}
        own = [label for label in labels if label.problem is None]
        n_rows = common_length(own)
        label_names = tuple(label.name for label in labels)

        def array(name: str) -> tuple[Dataset, DatasetInfo] | str:
            if name not in arrays:
                arrays[name] = self._opened(name)
            return arrays[name]

        def described(name: str) -> ColumnInfo:
            source = places.get(name, BlockColumn(names.SERIES_VALUES, 0) if axis == names.SERIES_INDEX else None)
            if source is None:
                return unreadable_column(name, "no block has this column")
            opened = array(source.array)
            column = (
                unreadable_column(name, opened, source.array)
                if isinstance(opened, str)
                else _described_values(name, source, *opened)
            )
            return self.of_frame(column, n_rows or 0, label_names)

        if n_rows is None:  # the labels cannot be read, so the columns say how many rows there are
            described_values = [_described_values(name, source, *opened) for name, source in places.items()
                     if not isinstance(opened := array(source.array), str)]  # fmt: skip
            n_rows = common_length(described_values) or 0
        is_lazy = self.links_if_wide(self.group, len(order)) is not None
        columns = LazyColumns(order, described)
        whole = columns if is_lazy else tuple(columns)
        if not is_lazy:
            for column in whole:
                if column.problem is not None:
                    self.note("error" if column.problem != PICKLED_OBJECTS else "warning", column.problem, column.name)
        own_labels = [self.of_frame(label, n_rows, label_names) for label in labels]
        for label in own_labels:
            if label.problem is not None:
                self.note("warning", label.problem, label.link or label.name)
        for column in [*own_labels, *(() if is_lazy else whole)]:
            if column.description is not None:
                self.note("note", column.description, column.name)
        return TableInfo(
            path=self.path,
            layout=self.layout,
            n_rows=n_rows,
            columns=whole,
            labels=own_labels,
            pandas=frame_note(levels),
            version="fixed",
            problems=self.found_problems(is_lazy),
        )

    def _opened(self, name: str) -> tuple[Dataset, DatasetInfo] | str:
        """An array of values and its header, or why it cannot be read."""
        try:
            dataset = open_array(self.group, name)
            info = dataset.describe()
        except Unfit as error:
            return str(error)
        if is_objects(dataset, info):
            return PICKLED_OBJECTS
        return dataset, info


def _described_values(name: str, source: BlockColumn, dataset: Dataset, info: DatasetInfo) -> ColumnInfo:
    """A column of a block, or the values of a Series."""
    array, position = source
    if is_empty(dataset):
        return replace(nothing(name, array, dataset, info), pandas=None)
    shape = info.shape or ()
    if len(shape) not in (1, 2):
        return unreadable_column(name, f"{array} has rank {len(shape)}", array)
    if len(shape) == 2 and not attributes.read_flag(dataset, names.TRANSPOSED):
        return unreadable_column(name, f"{array} has a column per row, as very old versions of pandas wrote it", array)
    if position >= (shape[1] if len(shape) == 2 else 1):
        return unreadable_column(name, f"{array} has no column {position}", array)
    meaning = meaning_of(info.type, read_string(dataset, names.VALUE_TYPE), zone_of(dataset))
    column = with_meaning(dataset_column(name, info, shape[0]), meaning, array)
    column = replace(column, pandas=dtype_note(column.pandas))
    return column if len(shape) == 1 else replace(column, form=Member((position,), meaning.form))
