"""A new table that is a dataset of a compound type, for the layouts `compound`, `pytables` and `pandas`.

The form of every column must be known before the dataset is made: it is made when the last column starts, inside the
group at the path of the table. Where the dataset is the table, it takes the place of that group when the rows are
written. A string that is longer than the first rows widens the dataset, which copies it.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from colonnade import compute as pc
from colonnade import writing
from colonnade.columns.arrow_types import plain_array
from colonnade.columns.encode import ElementForm
from colonnade.columns.forms import asked_fill
from colonnade.columns.mapping import plain_type
from colonnade.columns.writer import WrittenColumn
from colonnade.dataclass import replace
from colonnade.errors import DataError, UnsupportedError, UsageError, rows_as
from colonnade.h5.datasets import DatasetPlan
from colonnade.h5.datatypes import make_type
from colonnade.h5.handles import create_dataset, create_group
from colonnade.h5.links import move, unlink
from colonnade.layouts.records.write import ElementWriter, MemberWriter
from colonnade.model import AUTO, ColumnInfo, ColumnOptions, Member, StoredField, StoredType, TableText
from colonnade.nodes import EditableDataset, EditableGroup
from colonnade.nodes.dataset_tables import DatasetTable
from colonnade.nodes.elements import default_chunk_rows
from colonnade.nodes.paths import dataset_at, editable, group_at
from colonnade.stored_dtypes import memory_dtype

ROWS, _UNSETTLED = "rows", "\x01rows"
_LARGEST_TYPE = (1 << 16) - 6  # bytes of an encoded datatype that fits into an object header


class NewRecords:
    """The creation of one table: its columns share one writer of elements. Each layout has a class of its own."""

    sidecars = None
    layout: str
    rows_name = ROWS
    """The name of the dataset in the group of the table."""

    def __init__(self) -> None:
        self.members: list[NewMember] = []
        self._started = 0
        self._elements: ElementWriter | None = None
        self._group: EditableGroup | None = None
        self._chunk_rows = 1
        self._filters = "none"

    @property
    def has_rows(self) -> bool:
        """Whether the dataset is made."""
        return self._elements is not None

    @property
    def elements(self) -> ElementWriter:
        assert self._elements is not None  # all columns start before one is written
        return self._elements

    def new_member(self, name: str, kind: pa.DataType, options: ColumnOptions, is_label: bool) -> NewMember:
        """What writes a column of this type; a DataError if the layout has no form for it."""
        raise NotImplementedError

    def refuse_labels_and_descriptions(self, labels: Sequence[str], text: TableText) -> None:
        """Refuse row labels, and a description of the table."""
        if labels:
            raise UsageError(
                f"the layout {self.layout!r} has no row labels: write {labels[0]!r} as a column (labels=[])",
                column=labels[0],
            )
        for name, value in (("description", text.description), ("units_vocabulary", text.units_vocabulary)):
            if value is not None:
                raise UsageError(f"the layout {self.layout!r} has no place for {name}: write it as an attribute")

    def needs_large_attributes(self, _n_columns: int, _longest_name: int) -> bool:
        """Every column has small attributes of its own."""
        return False

    def make_group(self, root: EditableGroup, path: str, large_attributes: bool) -> EditableGroup:
        """The group that the dataset is made in."""
        return create_group(root, path, large_attributes=large_attributes)

    def new_writer(
        self, name: str, kind: pa.DataType, options: ColumnOptions, _large_attributes: bool, is_label: bool
    ) -> NewMember:
        _refuse_options(self.layout, name, options)
        self.members.append(self.new_member(name, kind, options, is_label))
        return self.members[-1]

    def start(self, group: EditableGroup, n_rows: int | None, most_rows: int) -> None:
        """A column has started; the last one makes the dataset."""
        self._started += 1
        if self._started < len(self.members):
            return
        self._group = group
        self._filters = self._asked_filters()
        chunks = default_chunk_rows(most_rows if n_rows is None else n_rows, self._type())
        asked = [member.options.chunk_rows for member in self.members if member.options.chunk_rows]
        self._chunk_rows = min([chunks, most_rows, *asked])
        members = [member.member for member in self.members]
        self._elements = ElementWriter(self._make_dataset(group), members, self._fills())

    def _fills(self) -> dict[str, bytes]:
        """What missing rows of each column hold."""
        fills = {member.member: (member.fill, member.seen) for member in self.members if member.fill is not None}
        return {name: fill.ljust(memory_dtype(seen).itemsize, b"\0") for name, (fill, seen) in fills.items()}

    def _asked_filters(self) -> str:
        """The filters of the dataset, which all columns share."""
        asked = {member.options.filters: member.name for member in self.members if member.options.filters is not None}
        if len(asked) > 1:
            first, second = list(asked)[:2]
            raise UsageError(
                f"columns {asked[first]!r} and {asked[second]!r} are stored in one dataset, so they cannot have the "
                f"filters {first} and {second}: give one, and only one",
                column=asked[second],
            )
        return next((filters for filters in asked if filters is not None), "none")

    def widen(self) -> None:
        """Copy the rows into a dataset of the datatypes that the columns have now."""
        assert self._group is not None  # set by the last column to start
        old = self.elements
        writing.rename(self._group, self.rows_name, _UNSETTLED)
        self._elements = old.moved(self._make_dataset(self._group), self._fills())
        unlink(self._group, _UNSETTLED)

    def _make_dataset(self, group: EditableGroup) -> EditableGroup:
        stored = self._type()
        if len(make_type(stored).encode()) > _LARGEST_TYPE:
            raise DataError(
                f"the layout {self.layout!r} cannot store {len(self.members):,} columns of these names: HDF5 keeps at "
                "most 64 KiB for the datatype of a row. Write fewer columns, or another layout"
            )
        dataset = create_dataset(group, self.rows_name, DatasetPlan(stored, self._chunk_rows, self._filters))
        return editable(DatasetTable(group, self.rows_name, dataset))

    def _type(self) -> StoredType:
        fields, offset = [], 0
        for member in self.members:
            fields.append(StoredField(member.member, offset, member.stored))
            offset += member.stored.size
        return StoredType("compound", offset, "none", fields=tuple(fields))

    def write_units_and_descriptions(self, dataset: EditableDataset) -> None:
        """The units and description of every column, as attributes of the dataset."""
        for position, member in enumerate(self.members):
            for word, text in (("UNITS", member.units), ("DESCRIPTION", member.options.description)):
                if text is not None:
                    writing.write_text(dataset, f"FIELD_{position}_{word}", text)

    def replace_group(self, group: EditableGroup) -> EditableDataset:
        """The dataset takes the place of its group."""
        root, path = group_at(group, "/"), group.path
        above, _, name = path.rpartition("/")
        parent = group_at(root, above or "/")
        aside = f"{name}{_UNSETTLED}"
        move(group, self.rows_name, parent, aside)
        unlink(parent, name)
        writing.rename(parent, aside, name)
        return dataset_at(parent, name)


class NewMember:
    """Writes one column of a new table.

    stored, seen: the datatype of the member, and what its layout sees it as. member: its name in the dataset.
    """

    def __init__(
        self,
        table: NewRecords,
        name: str,
        kind: pa.DataType,
        options: ColumnOptions,
        stored: StoredType,
        seen: StoredType | None = None,
    ) -> None:
        self.name = self.member = name
        self.options = options
        self.table = table
        self.kind = kind
        self.stored, self.seen = stored, stored if seen is None else seen
        self.units = options.units
        self.fill: bytes | None = None
        self._choose_fill()

    def _choose_fill(self) -> None:
        """What missing rows hold: what was asked for, else NaN in floats. There is no mark for missing rows."""
        fill = self.options.fill
        if fill is None:
            return
        if fill is AUTO:
            if self.seen.kind == "float":
                self.fill = memory_dtype(self.seen).type("nan").tobytes()
        elif self.seen.kind == "string":
            if not isinstance(fill, str) or "\0" in fill:
                raise UsageError(f"column {self.name!r}: its fill is a string, not {fill!r}", column=self.name)
            self.fill = fill.encode()
            self._widen_to(len(self.fill))
        elif self.seen.kind == "boolean":
            self.fill = bytes([bool(fill)])
        elif self.seen.kind in ("integer", "float"):
            self.fill = asked_fill(self.options, ElementForm(self.seen, self.kind, None), self.name)
        else:
            raise UsageError(
                f"column {self.name!r}: fill= is for numbers, booleans, strings and times in layout "
                f"{self.table.layout!r}",
                column=self.name,
            )

    def _widen_to(self, size: int) -> None:
        self.stored = replace(self.stored, size=max(size, self.stored.size))
        self.seen = replace(self.seen, size=self.stored.size)

    def values(self, array: pa.Array) -> pa.Array:
        """The rows in the Arrow type of what is stored."""
        plain = plain_array(array, plain_type(array.type))
        return plain.dictionary_decode() if pa.types.is_dictionary(plain.type) else plain

    def suit(self, values: pa.Array) -> bool:
        """Widen the datatype where these rows do not fit; whether it has changed."""
        if self.stored.kind != "string" or (size := longest(values)) <= self.stored.size:
            return False
        self._widen_to(max(size, 2 * self.stored.size) if self.table.has_rows else size)
        return True

    def start(self, group: EditableGroup, sample: pa.Array, n_rows: int | None, most_rows: int) -> None:
        self.suit(self.values(sample))
        self.table.start(group, n_rows, most_rows)

    def write(self, array: pa.Array) -> None:
        with rows_as(lambda position: self.table.elements.n_rows + position):
            values = self.values(array)
        if self.suit(values):
            self.table.widen()
        try:
            self.table.elements.put(self.column(), values)
        except DataError as error:
            if error.column == self.member:
                error.column = self.name
            raise

    def column(self) -> ColumnInfo:
        return ColumnInfo(self.member, self.seen, self.table.elements.n_rows, "chunked", form=Member((self.member,)))

    def finish(self) -> WrittenColumn:
        return replace(MemberWriter(self.column(), self.table.elements).finish(), name=self.name)


def longest(array: pa.Array) -> int:
    """The bytes of the longest string."""
    if pa.types.is_null(array.type):
        return 0
    return int(pc.min_max(pc.binary_length(array))["max"].as_py() or 0)


def cast_times(array: pa.Array, kind: pa.DataType, name: str) -> pa.Array:
    """Times in another unit; a DataError for the first that it cannot express."""
    try:
        return array.cast(kind)
    except pa.ArrowInvalid:
        for row, value in enumerate(array):
            try:
                value.cast(kind)
            except pa.ArrowInvalid as error:
                raise DataError(f"cannot store this time as {kind}: {error}", column=name, row=row) from error
        raise


def value_kind(kind: pa.DataType) -> pa.DataType:
    """The Arrow type of a column's values: of a dictionary, that of its categories."""
    plain = plain_type(kind)
    return plain.value_type if pa.types.is_dictionary(plain) else plain


def _refuse_options(layout: str, name: str, options: ColumnOptions) -> None:
    """Refuse what is not stored for single columns of such a table."""
    asked = {
        "categories": bool(options.categories),
        "enum": options.enum,
        "sparse": options.sparse,
        "masked": bool(options.masked),
        "units_vocabulary": options.units_vocabulary is not None,
        "strings": options.strings not in ("auto", "fixed"),
    }
    for option, is_asked in asked.items():
        if is_asked:
            raise UnsupportedError(
                f"column {name!r}: the layout {layout!r} has no {option}: leave it out",
                feature=f"{option} in layout {layout}",
                column=name,
            )
