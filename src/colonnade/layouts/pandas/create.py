"""A new frame in the table format of pandas: a table of PyTables, and the attributes that pandas reads.

Every column is a member with its own name, as `data_columns=True` makes it: pandas can search it, and every reader can
see what it is called. What pandas takes from pickles only is written as one (`pickles_written`), and also plainly:
`index_names`, `<column>_tz` and `<column>_ordered` of the table are for readers that load no pickles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pyarrow as pa

from colonnade import compute as pc
from colonnade import writing
from colonnade.columns.arrow_types import ComplexType
from colonnade.columns.forms import start_coder
from colonnade.columns.mapping import plain_type, stored_codes, stored_string, stored_type
from colonnade.columns.writer import WrittenColumn
from colonnade.errors import DataError, UsageError
from colonnade.layouts.contract import refuse_version
from colonnade.layouts.pandas import names
from colonnade.layouts.pandas.kinds import DATE_TIME, PLAIN_NAN, TIME_DELTA
from colonnade.layouts.pandas.pickles_written import Literal, write_pickled
from colonnade.layouts.records.create import NewMember, NewRecords, cast_times
from colonnade.layouts.records.pytables_marks import BITS, check_member_name, mark_root, mark_table
from colonnade.layouts.records.tables import seen_type
from colonnade.model import AUTO, ColumnOptions, StoredType, TableText
from colonnade.nodes import EditableGroup
from colonnade.nodes.paths import dataset_at, group_at
from colonnade.stored_dtypes import memory_dtype

NAN_REP = "\x7f"  # stands for a missing string; not pandas' "nan", which may be a value
_NOT_A_TIME = np.array([np.iinfo(np.int64).min]).tobytes()
_INT64 = StoredType("integer", 8, signed=True, precision=64)
_CODES = {1: pa.int8(), 2: pa.int16(), 4: pa.int32(), 8: pa.int64()}
_OF_GROUP = (("CLASS", "GROUP"), ("VERSION", "1.0"))
_LONGEST_LIST = 60_000  # bytes of an attribute that fits into an object header


class NewStore(NewRecords):
    """The creation of one frame; of a Series, where that holds the categories of a column."""

    layout = "pandas"
    rows_name = names.TABLE

    def __init__(self, is_series: bool = False) -> None:
        super().__init__()
        self._is_series = is_series
        self._numbers: FrameMember | None = None  # numbers the rows, where the index has several levels
        self._written_first: NewMember | None = None

    def check_name(self, name: str, _allow_reserved: bool) -> None:
        check_member_name(name)

    def check_members(self, columns: Sequence[str], labels: Sequence[str], text: TableText) -> None:
        for option, value in (("description", text.description), ("units_vocabulary", text.units_vocabulary)):
            if value is not None:
                raise UsageError(f"the layout 'pandas' has no place for {option}: write it as an attribute")
        if not columns:
            raise UsageError("the layout 'pandas' has no tables without columns: pandas stores none")
        if names.INDEX in columns or (len(labels) > 1 and names.INDEX in labels):
            raise UsageError(
                "the layout 'pandas' has no column called 'index': pandas calls the row labels so. Rename it",
                column=names.INDEX,
            )

    def needs_large_attributes(self, n_columns: int, longest_name: int) -> bool:
        """pandas lists all columns in one attribute, with what it knows of each."""
        return n_columns * (6 * longest_name + 60) > _LONGEST_LIST

    def new_member(self, name: str, kind: pa.DataType, options: ColumnOptions, is_label: bool) -> FrameMember:
        for option in ("units", "description"):
            if getattr(options, option) is not None:
                raise UsageError(f"column {name!r}: pandas cannot store {option}: leave it out", column=name)
        plain = plain_type(kind)
        if pa.types.is_dictionary(plain):
            return CategoryMember(self, name, plain, options, is_label)
        return FrameMember(self, name, plain, options, _stored_form(plain, name), is_label)

    def start(self, group: EditableGroup, n_rows: int | None, most_rows: int) -> None:
        if self._written_first is None:
            self._written_first = self.members[0]
            labels = [member for member in self._frame_members if member.is_label]
            if len(labels) == 1:
                labels[0].become_index()
            else:
                self._numbers = FrameMember(self, names.INDEX, pa.int64(), ColumnOptions(), _INT64, True)
                self._numbers.become_index()
                labels.insert(0, self._numbers)
                self._started += 1
            self.members = [*labels, *(member for member in self._frame_members if not member.is_label)]
        super().start(group, n_rows, most_rows)

    @property
    def _frame_members(self) -> list[FrameMember]:
        return cast("list[FrameMember]", self.members)  # as `new_member` makes them

    def number_rows(self, member: NewMember, n_rows: int) -> None:
        """With the first column of a batch: the numbers of its rows, if they are the index that is stored."""
        if self._numbers is not None and member is self._written_first:
            numbers = pa.array(np.arange(self.elements.n_rows, self.elements.n_rows + n_rows))
            self.elements.put(self._numbers.column(), numbers)

    def complete_columns(
        self, group: EditableGroup, _columns: Sequence[WrittenColumn], _labels: Sequence[WrittenColumn]
    ) -> None:
        """What pandas and PyTables read of each column, in attributes of the table; categories are Series."""
        dataset = dataset_at(group, self.rows_name)
        mark_table(dataset, self.members, self.elements.n_rows)
        for member in self._frame_members:
            if member.member == names.INDEX:
                writing.write_text(dataset, f"{names.INDEX}_kind", member.index_kind)
            else:
                writing.write_variable_texts(dataset, f"{member.member}_kind", [member.name])
                writing.write_text(dataset, f"{member.member}_dtype", member.dtype)
            if member.zone is not None:
                writing.write_text(dataset, f"{member.member}_{names.ZONE}", member.zone)
            if isinstance(member, CategoryMember):
                writing.write_text(dataset, f"{member.member}_meta", "category")
                writing.write_values(dataset, {f"{member.member}_{names.ORDERED}": np.uint8(member.coder.ordered)})
                _write_categories(group, member)
        writing.write_variable_texts(dataset, names.INDEX_NAMES, self._index_names())

    def _index_names(self) -> list[str]:
        return [member.name for member in self._frame_members if member.is_label and member is not self._numbers]

    def complete_group(
        self,
        group: EditableGroup,
        _columns: Sequence[WrittenColumn],
        _labels: Sequence[WrittenColumn],
        text: TableText,
    ) -> None:
        """The attributes of the group, which make it a frame."""
        members = self._frame_members
        listed = [member.name for member in members if member.member != names.INDEX]
        levels = self._index_names() if self._numbers is not None else []
        kind = "series" if self._is_series else "multiframe" if levels else "frame"
        for name, value in (
            *_OF_GROUP,
            ("TITLE", text.title or ""),
            ("pandas_version", "0.15.2"),
            ("table_type", f"appendable_{kind}"),
            (names.ENCODING, "UTF-8"),
            ("errors", "strict"),
            (names.NAN_REP, NAN_REP),
        ):
            writing.write_text(group, name, value)
        writing.write_variable_texts(group, names.VALUES_COLUMNS, listed)
        write_pickled(group, "index_cols", [(0, names.INDEX)])
        write_pickled(group, "non_index_axes", [(1, _list(listed))])
        write_pickled(group, "data_columns", _list(listed))
        write_pickled(group, "info", {1: {"names": [None], "type": "Index"}, **{m.member: m.facts() for m in members}})
        if levels:
            write_pickled(group, "levels", _list(levels))
        else:
            writing.write_values(group, {"levels": np.int64(1)})
        writing.write_text(group, names.PANDAS_TYPE, names.TABLE_SERIES if self._is_series else names.TABLE_FRAME)
        mark_root(group_at(group, "/"))


def _list(strings: Sequence[str]) -> list[Literal]:
    return list(strings)


class FrameMember(NewMember):
    """Writes one column, or the index."""

    def __init__(
        self,
        table: NewStore,
        name: str,
        kind: pa.DataType,
        options: ColumnOptions,
        stored: StoredType,
        is_label: bool,
    ) -> None:
        self._store = table
        self.is_label = is_label
        self.zone = kind.tz if pa.types.is_timestamp(kind) else None
        self.nan_rep: str | None = None  # the string that pandas reads as missing
        self._is_time = pa.types.is_timestamp(kind) or pa.types.is_duration(kind)
        if pa.types.is_timestamp(kind):
            kind = pa.timestamp("ns", kind.tz)  # pandas 2 reads the integers of other units as nanoseconds
        elif pa.types.is_duration(kind):
            kind = pa.duration("ns")
        super().__init__(table, name, kind, options, stored, seen_type(stored))
        if self.stored.kind == "string" and not is_label and self.options.fill is AUTO:
            self.fill = NAN_REP.encode()
            self.nan_rep = NAN_REP
        if self._is_time:
            self.fill = _NOT_A_TIME

    def become_index(self) -> None:
        """Be the only row label, which is a member of another name."""
        if pa.types.is_duration(self.kind):
            raise DataError(
                "pandas' table format reads durations in the index as integers: store them as a column (labels=[])",
                column=self.name,
            )
        self.member = names.INDEX
        self.nan_rep = PLAIN_NAN if self.stored.kind == "string" else None

    @property
    def dtype(self) -> str:
        """The name of its type, as pandas writes it."""
        if pa.types.is_timestamp(self.kind):
            return f"{DATE_TIME}[ns]"
        if pa.types.is_duration(self.kind):
            return f"{TIME_DELTA}[ns]"
        if self.stored.kind == "string":
            return f"bytes{8 * self.stored.size}"
        return "bool" if self.stored == BITS else str(memory_dtype(self.stored))

    @property
    def index_kind(self) -> str:
        """What pandas calls its type if it is the index."""
        if self._is_time:
            return self.dtype.removesuffix("[ns]")  # pandas before 2.2 knows no units here
        return "bool" if self.stored == BITS else self.stored.kind

    def facts(self) -> dict[str | int, Literal]:
        """What pandas' attribute `info` states of a column or of the index."""
        facts: dict[str | int, Literal] = {}
        if self.member == names.INDEX and self.name != names.INDEX:
            facts["index_name"] = self.name
        if self.zone is not None:
            facts["tz"] = self.zone
        return facts

    def values(self, array: pa.Array) -> pa.Array:
        values = super().values(array)
        if self._is_time:
            return cast_times(values, self.kind, self.name).cast(pa.int64())
        if self.nan_rep is not None and pa.types.is_string(values.type):
            self._refuse_equal(values, self.nan_rep)
        return values

    def _refuse_equal(self, values: pa.Array, nan_rep: str) -> None:
        """Refuse a string that would be read as missing."""
        if pc.any(equal := pc.equal(values, nan_rep)).as_py():
            row = int(pc.index(equal, True).as_py())
            raise DataError(f"cannot store {nan_rep!r}: it stands for missing strings", column=self.name, row=row)

    def write(self, array: pa.Array) -> None:
        self._store.number_rows(self, len(array))
        super().write(array)


class CategoryMember(FrameMember):
    """Writes the codes of a categorical column, and knows its categories."""

    def __init__(self, table: NewStore, name: str, kind: pa.DataType, options: ColumnOptions, is_label: bool) -> None:
        if options.fill not in (None, AUTO):
            raise UsageError(
                f"column {name!r}: missing rows of categories are stored as -1: leave out fill", column=name
            )
        self.category_kind = kind.value_type
        self.coder = start_coder(kind, None, None, name)
        _stored_form(self.category_kind, name)  # refuses categories that have no form
        super().__init__(table, name, pa.int64(), options, stored_codes(1), is_label)
        self.fill = _no_code(self.stored)

    def facts(self) -> dict[str | int, Literal]:
        return {"ordered": self.coder.ordered}

    def values(self, array: pa.Array) -> pa.Array:
        codes = self.coder.encode(array, 0)
        size = max(stored_codes(len(self.coder.values)).size, self.stored.size)
        return codes.cast(_CODES[size])

    def suit(self, values: pa.Array) -> bool:
        width = stored_codes(len(self.coder.values))
        if width.size <= self.stored.size:
            return False
        self.stored = self.seen = width
        self.fill = _no_code(width)
        return True


def _no_code(stored: StoredType) -> bytes:
    return np.array(-1, memory_dtype(stored)).tobytes()


def _stored_form(kind: pa.DataType, name: str) -> StoredType:
    """The datatype in which pandas stores an Arrow type; a DataError if there is none."""
    if pa.types.is_string(kind):
        return stored_string(len(NAN_REP))
    if pa.types.is_boolean(kind):
        return BITS
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return _INT64
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or isinstance(kind, ComplexType):
        return stored_type(kind, name)
    raise DataError(
        f"the layout 'pandas' cannot store {kind}, as pandas' table format has no such columns. Cast it to numbers, "
        "booleans, strings, timestamps or durations",
        column=name,
    )


def _write_categories(group: EditableGroup, member: CategoryMember) -> None:
    """The categories of a column, as pandas keeps them: a Series in the table format. None if there are none."""
    values = member.coder.values
    if not len(values):
        return
    store = NewStore(is_series=True)
    made = store.make_group(group, f"{names.META}/{member.member}/{names.META}", large_attributes=False)
    writers = [
        store.new_writer("values", values.type, ColumnOptions(fill=None), False, False),
        store.new_writer(names.INDEX, pa.int64(), ColumnOptions(), False, True),
    ]
    arrays = (values, pa.array(np.arange(len(values))))
    for writer, array in zip(writers, arrays, strict=True):
        writer.start(made, array, len(values), len(values))
    for writer, array in zip(writers, arrays, strict=True):
        writer.write(array)
    written = [writer.finish() for writer in writers]
    store.complete_columns(made, written[:1], written[1:])
    store.complete_group(made, written[:1], written[1:], TableText(None, None, None))


def new_table(version: object, directory: bool) -> NewStore:
    """What writes a new table."""
    refuse_version("pandas", version, directory)
    return NewStore()


PART = new_table
