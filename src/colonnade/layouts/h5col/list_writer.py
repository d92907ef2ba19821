"""List columns of H5Col, written: a group of OFFSETS, VALUES and perhaps MASK per level, the leaf first (JL13).

In: Arrow arrays of lists, of any depth, or of strings inside lists. Memory: the rows of one chunk per dataset.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from colonnade import writing
from colonnade.arrays import Int64s
from colonnade.columns.arrow_types import plain_array
from colonnade.columns.encode import ElementForm
from colonnade.columns.forms import Marking, categorical_form
from colonnade.columns.lists import ListOffsets
from colonnade.columns.mapping import plain_type
from colonnade.columns.raw import read_stored
from colonnade.columns.read import ColumnReader
from colonnade.columns.writer import ColumnWriter, WrittenColumn
from colonnade.dataclass import replace
from colonnade.errors import CorruptError, UsageError
from colonnade.layouts.h5col import names
from colonnade.layouts.h5col.lists import Level, ListElements, column_of, companions, read_levels
from colonnade.model import DEFAULT_CHUNK_ROWS, ColumnInfo, ColumnOptions, Lists, Masked, StoredType
from colonnade.nodes import Dataset, EditableGroup, Group, attributes
from colonnade.nodes.elements import dataset_column
from colonnade.nodes.paths import editable, group_at
from colonnade.selection import Selection

_BYTE = StoredType("integer", 1, signed=True, precision=8)
NULLABLE_BOOLEAN = StoredType("boolean", 1, base=_BYTE, members=(("FALSE", 0), ("TRUE", 1), ("MISSING", 2)))


def _code_form(categories: pa.Array, as_enum: bool, has_missing: bool, name: str) -> ElementForm:
    """Every enum gets a member MISSING, since every column has a fill (JM6)."""
    return categorical_form(categories, as_enum, has_missing or as_enum, name)


JULY_MARKING = replace(Marking(), code_form=_code_form, nullable=NULLABLE_BOOLEAN, is_everywhere=True)
"""How missing rows are marked: by the fill alone, which every column but a boolean one has."""


def is_list(kind: pa.DataType) -> bool:
    """Whether rows of this type are stored as a list column."""
    return bool(pa.types.is_list(plain_type(kind)))


def check_kind(name: str, kind: pa.DataType) -> None:
    """Refuse lists of what needs a datatype of variable length inside, which list columns must not have (JL10)."""
    item = plain_type(kind)
    while pa.types.is_list(item):
        item = item.value_type
    if not pa.types.is_string(item) and _is_variable(item):
        raise UsageError(
            f"column {name!r}: H5Col has no lists of {item}. Convert the elements to numbers or strings",
            column=name,
            rule="JL10",
        )


def _is_variable(kind: pa.DataType) -> bool:
    """Whether values of a type have no bound, at any depth."""
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_list(kind) or pa.types.is_map(kind):
        return True
    if pa.types.is_fixed_size_list(kind):
        return _is_variable(kind.value_type)
    return pa.types.is_struct(kind) and any(_is_variable(kind.field(i).type) for i in range(kind.num_fields))


class LevelWriter:
    """Writes one level: the offsets of lists or strings, their mask once one is missing, and what they hold."""

    def __init__(self, name: str, kind: pa.DataType, options: ColumnOptions) -> None:
        self._name, self._kind, self._options = name, plain_type(kind), options
        self._plain = ColumnOptions(fill=None, chunk_rows=options.chunk_rows, filters=options.filters)
        self.is_text = bool(pa.types.is_string(self._kind))
        self._values: LevelWriter | ColumnWriter
        if self.is_text:
            self._values = self._part(names.CHARS, pa.uint8())
        elif pa.types.is_list(self._kind.value_type) or pa.types.is_string(self._kind.value_type):
            self._values = LevelWriter(f"{name} (elements)", self._kind.value_type, options)
        else:
            self._values = ColumnWriter(
                f"{name} (elements)", self._kind.value_type, options, link=names.LIST_VALUES, marking=JULY_MARKING
            )
        self._offsets = self._part(names.OFFSETS, pa.uint64())
        self._mask: ColumnWriter | None = None
        self._n_rows = self._n_values = 0
        self._group: EditableGroup
        self._most_rows = DEFAULT_CHUNK_ROWS
        self.leaf: WrittenColumn  # the elements on the lowest level, after `finish`

    def _part(self, link: str, kind: pa.DataType) -> ColumnWriter:
        return ColumnWriter(f"{self._name} ({link})", kind, self._plain, link=link, is_companion=True)

    def start(self, group: EditableGroup, link: str, sample: pa.Array, n_rows: int | None, most_rows: int) -> None:
        """Create the group and its datasets. The parameters are those of ColumnWriter.start."""
        self._group, self._most_rows = writing.create_group(group, link), most_rows
        writing.write_text(
            self._group, names.CLASS, names.STRING_VALUES if self.is_text else names.LIST_COLUMN, "ascii"
        )
        if not self.is_text:
            writing.write_text(self._group, names.KIND_ATTRIBUTE, names.OFFSETS, "ascii")
        lengths, values = self._divided(sample)
        first = pa.array(np.cumsum(lengths).astype(np.uint64))
        self._offsets.start(self._group, first, None if n_rows is None else n_rows + 1, most_rows)
        self._offsets.write(pa.array([0], pa.uint64()))
        if isinstance(self._values, LevelWriter):
            self._values.start(self._group, names.LIST_VALUES, values, None, most_rows)
        else:
            self._values.start(self._group, values, None, most_rows)

    @classmethod
    def resume(cls, group: EditableGroup, level: Level, column: ColumnInfo, options: ColumnOptions) -> LevelWriter:
        """A writer after the rows of a level; `column` describes them. What follows them is overwritten."""
        from colonnade.columns.mapping import arrow_type

        writer = cls(column.name, arrow_type(column), options)
        n_rows, form = column.n_rows, column.form.of if isinstance(column.form, Masked) else column.form
        assert isinstance(form, Lists)  # a level
        writer._group, writer._n_rows, writer._n_values = group, n_rows, _end_of(level, n_rows)
        info = level.info
        writer._offsets = _resumed(column.name, names.OFFSETS, info.type, group, level.offsets, n_rows + 1)
        if level.mask is not None:
            mask = level.mask.describe()
            writer._mask = _resumed(column.name, names.MASK, mask.type, group, level.mask, n_rows)
        items = replace(form.items, n_rows=writer._n_values)
        if isinstance(level.values, Level):
            inner = group_at(group, names.LIST_VALUES)
            writer._values = cls.resume(inner, level.values, items, options)
        else:
            link = names.CHARS if level.is_text else names.LIST_VALUES
            leaf = editable(level.values.dataset)
            writer._values = ColumnWriter.resume(items, group, leaf, None, link, JULY_MARKING)
        return writer

    def write(self, array: pa.Array) -> None:
        """Take the next rows."""
        array = plain_array(array, self._kind)
        lengths, values = self._divided(array)
        missing = array.is_null() if array.null_count else None
        if missing is not None and self._mask is None:
            self._start_mask()
        self._values.write(values)
        if self._mask is not None:
            self._mask.write(array.is_valid())
        self._offsets.write(pa.array((self._n_values + np.cumsum(lengths)).astype(np.uint64)))
        self._n_rows += len(array)
        self._n_values += len(values)

    def _divided(self, array: pa.Array) -> tuple[ListOffsets, pa.Array]:
        """The length of each entry, and the elements of all; null entries own none."""
        array = plain_array(array, self._kind)
        if array.null_count:  # Arrow's null entries may own elements
            array = pa.concat_arrays([array.slice(0, 0), array.take(pa.array(np.arange(len(array))))])
        if not self.is_text:
            lengths = np.diff(np.asarray(array.offsets)).astype(np.int64) if len(array) else np.zeros(0, np.int64)
            missing = array.is_null().to_numpy(zero_copy_only=False)
            lengths[missing] = 0
            return lengths, array.flatten()
        offsets = np.zeros(1, dtype=np.int64)
        data = b""
        if len(array):
            _, ends, stored = array.buffers()
            offsets = np.frombuffer(ends, np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
            data = b"" if stored is None else stored.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
        buffer = pa.py_buffer(data) if isinstance(data, bytes) else data
        n_bytes = int(offsets[-1] - offsets[0])
        return np.diff(offsets), pa.Array.from_buffers(pa.uint8(), n_bytes, [None, buffer])

    def _start_mask(self) -> None:
        """Begin a mask; none of the rows so far is missing."""
        self._mask = self._part(names.MASK, pa.bool_())
        self._mask.start(self._group, pa.array([], pa.bool_()), None, self._most_rows)
        for start in range(0, self._n_rows, DEFAULT_CHUNK_ROWS):
            self._mask.write(pa.array(np.ones(min(DEFAULT_CHUNK_ROWS, self._n_rows - start), dtype=bool)))

    def truncate(self, n_rows: int) -> None:
        """Keep only the first rows, on this level and below."""
        n_values = _offset_at(self._offsets_dataset(), n_rows)
        self._values.truncate(n_values)
        if self._mask is not None:
            self._mask.truncate(n_rows)
        self._offsets.truncate(n_rows + 1)
        self._n_rows, self._n_values = n_rows, n_values

    def _offsets_dataset(self) -> Dataset:
        return self._offsets.finish().dataset

    def finish(self) -> WrittenColumn:
        """Write what is left, the lowest level first; returns how the offsets are stored."""
        inner = self._values.finish()
        self.leaf = self._values.leaf if isinstance(self._values, LevelWriter) else inner
        if self._mask is not None:
            self._mask.finish()
        return self._offsets.finish()


def _resumed(
    name: str, link: str, stored: StoredType, group: EditableGroup, dataset: Dataset, n_rows: int
) -> ColumnWriter:
    """A writer after the first rows of a member of a level."""
    column = dataset_column(f"{name} ({link})", dataset.describe(), n_rows)
    return ColumnWriter.resume(replace(column, type=stored), group, editable(dataset), None, link)


def _offset_at(offsets: Dataset, row: int) -> int:
    """One offset; a CorruptError if it cannot be one."""
    offset = int(read_stored(offsets, row, 1)[0])
    if not 0 <= offset < 2**63:
        raise CorruptError(f"the offset of list {row:,} is {offset:,}", row=row, found=offset)
    return offset


def _end_of(level: Level, n_rows: int) -> int:
    """The number of elements that the first rows of a level own; a CorruptError if there are not so many."""
    end = _offset_at(level.offsets, n_rows)
    there = level.values.capacity if isinstance(level.values, Level) else _n_elements(level.values)
    if end > there:
        raise CorruptError(f"the lists end at element {end:,}, there are {there:,}", row=n_rows, found=end)
    return end


def _n_elements(leaf: ListElements) -> int:
    return leaf.info.shape[0] if leaf.info.shape else 0


class ListWriter:
    """Writes a list column, or changes the rows of one. Same order of calls as a ColumnWriter."""

    def __init__(self, name: str, kind: pa.DataType, options: ColumnOptions, n_before: int = 0) -> None:
        check_kind(name, kind)
        if options.fill not in (None,) and isinstance(options.fill, (int, float, str, bytes)):
            raise UsageError(f"column {name!r}: a mask marks missing lists: leave out fill=", column=name)
        self.name, self._kind, self._options = name, plain_type(kind), options
        self._level = LevelWriter(name, kind, replace(options, units=None, description=None))
        self._parent: EditableGroup
        self._n_rows, self._replaced, self._has_missing = n_before, False, False

    @classmethod
    def resume(cls, group: EditableGroup, column: ColumnInfo) -> ListWriter:
        """A writer that appends to a list column, and changes its rows."""
        from colonnade.columns.mapping import arrow_type

        inner = group_at(group, column.name)
        writer = cls(column.name, arrow_type(column), ColumnOptions(), column.n_rows)
        writer._parent = group
        level = read_levels(inner, lambda _rule, _severity, _message: None)
        writer._level = LevelWriter.resume(inner, level, column, ColumnOptions())
        return writer

    def start(self, group: EditableGroup, sample: pa.Array, n_rows: int | None, most_rows: int) -> None:
        self._parent = group
        self._level.start(group, self.name, sample, n_rows, most_rows)

    def write(self, array: pa.Array) -> None:
        self._level.write(array)
        self._has_missing = self._has_missing or array.null_count > 0
        self._n_rows += len(array)

    def truncate(self, n_rows: int) -> None:
        self._level.finish()
        self._level.truncate(n_rows)
        self._n_rows = n_rows

    def overwrite(self, rows: Int64s, array: pa.Array) -> None:
        """Write the column again from the first of these rows on, with other values in them: lists have no fixed
        place."""
        array = plain_array(array, self._kind)
        at = 0

        def changed(first: int, values: pa.Array) -> pa.Array:
            nonlocal at
            end = int(np.searchsorted(rows, first + len(values)))
            if end == at:
                return values
            chosen = np.arange(len(values))
            chosen[rows[at:end] - first] = len(values) + np.arange(end - at)
            both = pa.concat_arrays([values, array.slice(at, end - at)])
            at = end
            return both.take(pa.array(chosen))

        if len(rows):
            self._write_again(changed, int(rows[0]))

    def remove(self, rows: Selection) -> None:
        """Write the column again from the first of these rows on, without them."""

        def kept(first: int, values: pa.Array) -> pa.Array:
            numbers = np.arange(first, first + len(values))
            return values.filter(pa.array(~rows.holds(numbers)))

        if rows:
            self._write_again(kept, int(rows.starts[0]))

    def _write_again(self, change: Callable[[int, pa.Array], pa.Array], first: int) -> None:
        """Copy the rows from `first` on, a few at a time, into a new group; then back, or as the whole column."""
        first = first if 2 * first >= self._n_rows else 0  # what is before is neither read nor written
        self._level.finish()
        inner, aside = group_at(self._parent, self.name), f"{self.name}\x01aside"
        try:
            writer, n_rows = self._copied(inner, aside, change, first)
        except CorruptError as error:  # its row is one of the column, not of the new values
            raise CorruptError(f"cannot change column {self.name!r}: {error}", column=self.name) from error
        if first:
            self._put_back(inner, aside, first, n_rows)
            return
        replacement = group_at(self._parent, aside)
        writing.copy_attributes(editable(inner), replacement)
        del inner, replacement
        writing.unlink(self._parent, self.name)
        writing.rename(self._parent, aside, self.name)
        self._level, self._n_rows, self._replaced = writer, n_rows, True

    def _copied(
        self, inner: Group, aside: str, change: Callable[[int, pa.Array], pa.Array], first: int
    ) -> tuple[LevelWriter, int]:
        """A new group of the changed rows from `first` on; the writer of it, and how many they are."""
        reader = self._reader(inner, self._n_rows)
        writer = LevelWriter(self.name, self._kind, self._options)
        sample = reader.read(first, min(self._n_rows - first, 1024))
        writer.start(self._parent, aside, sample, None, DEFAULT_CHUNK_ROWS)
        n_rows = 0
        for start, stop in reader.pieces(first, self._n_rows):
            values = change(start, plain_array(reader.read(start, stop - start), self._kind))
            writer.write(values)
            n_rows += len(values)
        writer.finish()
        return writer, n_rows

    def _reader(self, group: Group, n_rows: int) -> ColumnReader:
        level = read_levels(group, lambda _rule, _severity, _message: None)
        column = column_of(level, self.name, n_rows, attributes.read_text(group, names.UNITS))
        return ColumnReader(column, level.offsets, companions(level))

    def _put_back(self, inner: EditableGroup, aside: str, first: int, n_rows: int) -> None:
        """Write the rows of the new group after the first rows of the column, instead of those that are there."""
        self._level.truncate(first)
        level = read_levels(inner, lambda _rule, _severity, _message: None)
        column = column_of(level, self.name, first, attributes.read_text(inner, names.UNITS))
        self._level = LevelWriter.resume(inner, level, column, ColumnOptions())
        reader = self._reader(group_at(self._parent, aside), n_rows)
        for start, stop in reader.pieces(0, n_rows):
            self._level.write(plain_array(reader.read(start, stop - start), self._kind))
        self._n_rows = first + n_rows
        del reader
        writing.unlink(self._parent, aside)

    def finish(self) -> WrittenColumn:
        written = self._level.finish()
        leaf = self._level.leaf
        if leaf.arrow_type is not None:
            writing.write_text(leaf.dataset, names.ARROW_TYPE, leaf.arrow_type)
        return WrittenColumn(
            name=self.name,
            stored=written.stored,
            form=written.form,
            options=self._options,
            units=leaf.units or self._options.units,
            arrow_type=None,
            has_missing=self._has_missing,
            n_rows=self._n_rows,
            kind=self._kind,
            replaced=self._replaced,
        )
