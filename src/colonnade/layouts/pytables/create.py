"""A new table of PyTables: one dataset of a compound type, with the attributes that PyTables reads.

The form of every column must be known before the dataset is made: it is made when the last column starts, inside a
group at the path of the table. When the rows are written, the dataset takes the place of that group.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from colonnade import compute as pc
from colonnade import writing
from colonnade.columns.arrow_types import ComplexType, plain_array
from colonnade.columns.encode import ElementForm
from colonnade.columns.forms import asked_fill
from colonnade.columns.mapping import BOOLEAN, plain_type, stored_string, stored_type
from colonnade.columns.writer import WrittenColumn
from colonnade.dataclass import replace
from colonnade.errors import DataError, UnsupportedError, UsageError
from colonnade.h5.attributes import write_element
from colonnade.h5.datasets import DatasetPlan
from colonnade.h5.datatypes import make_type
from colonnade.h5.handles import create_dataset, create_group
from colonnade.h5.links import move, unlink
from colonnade.layouts.contract import refuse_version
from colonnade.layouts.pytables.describe import seen_type
from colonnade.layouts.records import tables as record_tables
from colonnade.layouts.records.write import ElementWriter, MemberWriter
from colonnade.model import AUTO, ColumnInfo, ColumnOptions, Member, StoredField, StoredType, TableText
from colonnade.nodes import EditableDataset, EditableGroup
from colonnade.nodes.dataset_tables import DatasetTable
from colonnade.nodes.elements import default_chunk_rows
from colonnade.nodes.paths import dataset_at, editable, group_at
from colonnade.stored_dtypes import memory_dtype

_ROWS, _UNSETTLED = "rows", "\x01rows"
_ASIDE = "\x01aside"  # ends the path where the rows of a table go that replaces a group
_BITS = StoredType("bitfield", 1, precision=8)
_RESERVED = ("_v_", "_f_", "_g_", "_i_")
_OF_ROOT = (("CLASS", "GROUP"), ("PYTABLES_FORMAT_VERSION", "2.1"), ("TITLE", ""), ("VERSION", "1.0"))
_TABLE_VERSION = "2.7"
_LARGEST_TYPE = (1 << 16) - 6  # bytes of an encoded datatype that fits into an object header


class NewTable:
    """The creation of one table: its columns share one writer of elements."""

    sidecars = None

    def __init__(self) -> None:
        self._members: list[NewMember] = []
        self._started = 0
        self._elements: ElementWriter | None = None
        self._group: EditableGroup | None = None
        self._chunk_rows = 1

    @property
    def elements(self) -> ElementWriter:
        assert self._elements is not None  # all columns start before one is written
        return self._elements

    def check_name(self, name: str, _allow_reserved: bool) -> None:
        if not name or "/" in name or "\0" in name or name.startswith(_RESERVED):
            raise UsageError(
                f"column {name!r}: PyTables has no such name: it is not empty, has no '/' or NUL, and does not begin "
                f"with {', '.join(_RESERVED)}",
                column=name,
            )

    def check_members(self, columns: Sequence[str], labels: Sequence[str], text: TableText) -> None:
        if labels:
            raise UsageError(
                f"the layout 'pytables' has no row labels: write {labels[0]!r} as a column (labels=[])",
                column=labels[0],
            )
        if not columns:
            raise UsageError("the layout 'pytables' has no tables without columns")
        for name, value in (("description", text.description), ("units_vocabulary", text.units_vocabulary)):
            if value is not None:
                raise UsageError(f"the layout 'pytables' has no place for {name}: write it as an attribute")

    def needs_large_attributes(self, _n_columns: int, _longest_name: int) -> bool:
        """Every column has small attributes of its own."""
        return False

    def make_group(self, root: EditableGroup, path: str, _large_attributes: bool) -> EditableGroup:
        if path.endswith(_ASIDE):
            raise UsageError(
                f"{path.removesuffix(_ASIDE) or '/'} is a group, a table of PyTables is a dataset: drop it first, or "
                "choose another path"
            )
        return create_group(root, path, large_attributes=False)

    def new_writer(
        self, name: str, kind: pa.DataType, options: ColumnOptions, _large_attributes: bool, _is_label: bool
    ) -> NewMember:
        self._members.append(NewMember(self, name, kind, options))
        return self._members[-1]

    def start(self, group: EditableGroup, n_rows: int | None, most_rows: int) -> None:
        """A column has started; the last one makes the dataset."""
        self._started += 1
        if self._started < len(self._members):
            return
        self._group = group
        chunks = default_chunk_rows(most_rows if n_rows is None else n_rows, self._type())
        asked = [member.options.chunk_rows for member in self._members if member.options.chunk_rows]
        self._chunk_rows = min([chunks, most_rows, *asked])
        fills = {member.name: member.fill for member in self._members if member.fill is not None}
        self._elements = ElementWriter(self._make_dataset(group), [member.name for member in self._members], fills)

    def widen(self) -> None:
        """Copy the rows into a dataset of the datatypes that the columns have now."""
        assert self._group is not None  # set by the last column to start
        old = self.elements
        writing.rename(self._group, _ROWS, _UNSETTLED)
        self._elements = old.moved(self._make_dataset(self._group))
        unlink(self._group, _UNSETTLED)

    def _make_dataset(self, group: EditableGroup) -> EditableGroup:
        stored = self._type()
        if len(make_type(stored).encode()) > _LARGEST_TYPE:
            raise DataError(
                f"the layout 'pytables' cannot store {len(self._members):,} columns of these names: HDF5 keeps at most "
                "64 KiB for the datatype of a row. Write fewer columns, or another layout"
            )
        dataset = create_dataset(group, _ROWS, DatasetPlan(stored, self._chunk_rows))
        return editable(DatasetTable(group, _ROWS, dataset))

    def _type(self) -> StoredType:
        fields, offset = [], 0
        for member in self._members:
            fields.append(StoredField(member.name, offset, member.stored))
            offset += member.stored.size
        return StoredType("compound", offset, "none", fields=tuple(fields))

    def complete_columns(
        self, group: EditableGroup, _columns: Sequence[WrittenColumn], _labels: Sequence[WrittenColumn]
    ) -> None:
        """What PyTables reads of each column: its name, and what a row holds for which no value is given."""
        dataset = dataset_at(group, _ROWS)
        for position, member in enumerate(self._members):
            item = member.stored.item if member.stored.kind == "array" else member.stored
            if item.kind == "string":
                item = replace(item, size=1, charset="ascii")  # as PyTables stores no bytes
            fill = member.fill or bytes(memory_dtype(item).itemsize)
            writing.write_text(dataset, f"FIELD_{position}_NAME", member.name)
            write_element(dataset, f"FIELD_{position}_FILL", item, fill)
            for word, text in (("UNITS", member.options.units), ("DESCRIPTION", member.options.description)):
                if text is not None:
                    writing.write_text(dataset, f"FIELD_{position}_{word}", text)

    def complete_group(
        self,
        group: EditableGroup,
        _columns: Sequence[WrittenColumn],
        _labels: Sequence[WrittenColumn],
        text: TableText,
    ) -> None:
        """The dataset takes the place of its group, and becomes a table."""
        root, path = group_at(group, "/"), group.path
        above, _, name = path.rpartition("/")
        parent = group_at(root, above or "/")
        aside = f"{name}{_UNSETTLED}"
        move(group, _ROWS, parent, aside)
        unlink(parent, name)
        writing.rename(parent, aside, name)
        dataset: EditableDataset = dataset_at(parent, name)
        writing.write_text(dataset, record_tables.VERSION, _TABLE_VERSION)
        writing.write_text(dataset, record_tables.TITLE, text.title or "")
        writing.write_values(dataset, {record_tables.NROWS: np.int64(self.elements.n_rows)})
        writing.write_text(dataset, record_tables.CLASS, record_tables.TABLE)
        if all(root.attribute_storage(attribute) is None for attribute, _ in _OF_ROOT):
            for attribute, value in _OF_ROOT:
                writing.write_text(root, attribute, value)


class NewMember:
    """Writes one column of a new table."""

    def __init__(self, table: NewTable, name: str, kind: pa.DataType, options: ColumnOptions) -> None:
        self.name, self.options = name, options
        self._table = table
        self._writer: MemberWriter | None = None
        self._kind = plain_type(kind)
        if pa.types.is_dictionary(self._kind):
            self._kind = self._kind.value_type
        self.stored = _stored_form(self._kind, name)
        self.fill = self._chosen_fill()
        _refuse_options(name, options)

    def _chosen_fill(self) -> bytes | None:
        """What missing rows hold: what was asked for, else NaN. There is no mark for missing rows."""
        fill = self.options.fill
        if self.stored.kind == "array" or fill is None:
            return None
        if fill is not AUTO:
            if self.stored.kind == "string":
                raise UsageError(f"column {self.name!r}: fill= is for numbers in layout 'pytables'", column=self.name)
            if self.stored == _BITS:
                return bytes([bool(fill)])
            return asked_fill(self.options, ElementForm(seen_type(self.stored), self._kind, None), self.name)
        return memory_dtype(self.stored).type(np.nan).tobytes() if self.stored.kind == "float" else None

    def start(self, group: EditableGroup, sample: pa.Array, n_rows: int | None, most_rows: int) -> None:
        if self.stored.kind == "string":
            self.stored = replace(self.stored, size=max(_longest(_values(sample)), 1))
        self._table.start(group, n_rows, most_rows)

    def write(self, array: pa.Array) -> None:
        values = _values(array)
        if self.stored.kind == "string" and (longest := _longest(values)) > self.stored.size:
            self.stored = replace(self.stored, size=max(longest, 2 * self.stored.size))
            self._table.widen()
        self._table.elements.put(self._column(), values)

    def _column(self) -> ColumnInfo:
        return ColumnInfo(
            self.name, seen_type(self.stored), self._table.elements.n_rows, "chunked", form=Member((self.name,))
        )

    def finish(self) -> WrittenColumn:
        return MemberWriter(self._column(), self._table.elements).finish()


def _values(array: pa.Array) -> pa.Array:
    plain = plain_array(array, plain_type(array.type))
    return plain.dictionary_decode() if pa.types.is_dictionary(plain.type) else plain


def _longest(array: pa.Array) -> int:
    """The bytes of the longest string."""
    return 0 if pa.types.is_null(array.type) else int(pc.min_max(pc.binary_length(array))["max"].as_py() or 0)


def _stored_form(kind: pa.DataType, name: str) -> StoredType:
    """The datatype in which PyTables stores an Arrow type; a DataError if there is none."""
    if pa.types.is_string(kind):
        return stored_string(1)
    if pa.types.is_boolean(kind):
        return _BITS
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or isinstance(kind, ComplexType):
        return stored_type(kind, name)
    if pa.types.is_fixed_size_list(kind) and kind.list_size:
        whole, inner = stored_type(kind, name), kind
        while pa.types.is_fixed_size_list(inner):
            inner = inner.value_type
        if pa.types.is_integer(inner) or pa.types.is_floating(inner):
            return whole
        if whole.item == BOOLEAN:
            return replace(whole, base=_BITS)
    raise DataError(
        f"the layout 'pytables' cannot store {kind}. Cast it to numbers, booleans, strings or lists of fixed length of "
        "numbers",
        column=name,
    )


def _refuse_options(name: str, options: ColumnOptions) -> None:
    """Refuse what is not stored for single columns of a table of PyTables."""
    asked = {
        "filters": options.filters is not None,
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
                f"column {name!r}: the layout 'pytables' has no {option}: leave it out",
                feature=f"{option} in tables of PyTables",
                column=name,
            )


def new_table(version: object, directory: bool) -> NewTable:
    """What writes a new table."""
    refuse_version("pytables", version, directory)
    return NewTable()


PART = new_table
