"""Write one column as batches arrive, and change its form when later rows do not fit.

In: Arrow arrays of one type, of any length. Out: a dataset in which each chunk is written once, whole,
and a `WrittenColumn` that describes how it is stored. Memory: the rows of one chunk.

The form (datatype, fill, categories) is a guess from the rows seen so far. A later row may need
another: a longer string, a first missing boolean, a value that equals the fill, a 129th category.
Then the rows written so far are copied into a dataset of the new form, which replaces the old
one. The guess leaves room, so that this is rare.

Invariant: a stored value that equals the fill always stands for a missing row.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa

from colonnade import compute as pc
from colonnade.arrays import Image, Int64s
from colonnade.columns.arrow_types import plain_array
from colonnade.columns.decode import decode
from colonnade.columns.encode import ElementForm, Encoded, FastEncode, encode, fast_encoder
from colonnade.columns.forms import (
    CategoryCoder,
    Marking,
    asked_fill,
    checked_units,
    choose_filters,
    fills_that_do_not_occur,
    first_form,
    holds_codes,
    is_nan,
    names_and_numbers,
    refuse_fill_among,
    start_coder,
    suit_datatype,
)
from colonnade.columns.mapping import arrow_type, named_type, plain_type, stored_string, stored_type
from colonnade.columns.raw import cut
from colonnade.dataclass import dataclass, replace
from colonnade.errors import DataError, FormatError, UnsupportedError, UsageError, rows_as
from colonnade.filters.names import (
    PORTABLE,
    check_filters,
    cuts_off_bits,
    has_lossy,
    is_lossy,
    known_filters,
    without_scale_offset,
)
from colonnade.h5.attributes import copy_attributes, write_text
from colonnade.h5.datasets import DatasetPlan, leads_nowhere
from colonnade.h5.handles import create_dataset
from colonnade.h5.links import move, rename, unlink
from colonnade.h5.row_sink import CannotSkipFilter, RowSink, can_column_grow, resize, write_rows
from colonnade.model import AUTO, DEFAULT_CHUNK_ROWS, ColumnInfo, ColumnOptions
from colonnade.nodes import EditableDataset, EditableGroup
from colonnade.nodes.attributes import OPTIONS_SET, read_text
from colonnade.nodes.elements import default_chunk_rows
from colonnade.selection import Selection
from colonnade.stored_dtypes import memory_dtype
from colonnade.threads import default_threads

if TYPE_CHECKING:
    from colonnade.sparse.draft import SparseDraft

LARGEST_CHUNK_BYTES = 2**32
ROOM_FOR_FILL = 16
GROWS_AT, GROWS_TO = 4, 2  # a column that fills 4 chunks gets chunks for twice its rows
LONG_CHUNK = 8192  # rows; longer chunks do not grow: each append unpacks and packs the last one, which it does not fill
CHOSEN_BY_US = ("none", "scale-offset", "deflate:1", "shuffle+deflate:1")

MOST_UNWRITTEN_COPIED = 1 << 28  # rows without storage (all fill) that may still be copied into another form


@dataclass(frozen=True)
class WrittenColumn:
    """A column that was written, for the layout to add its attributes. `mask` is the mask dataset, if there is one;
    `link` is the path of the column below its group, if that is not its name.

    stored: its dataset; None for a sparse column, which is a draft until the commit."""

    name: str
    stored: EditableDataset | None
    form: ElementForm
    options: ColumnOptions
    units: str | None
    arrow_type: str | None
    has_missing: bool
    n_rows: int
    kind: pa.DataType
    categories: pa.Array | None = None
    ordered: bool = False
    replaced: bool = False
    mask: EditableDataset | None = None
    link: str | None = None
    draft: SparseDraft | None = None

    @property
    def dataset(self) -> EditableDataset:
        """The dataset of a column that is not sparse."""
        assert self.stored is not None  # sparse columns are asked for their draft
        return self.stored

    @property
    def holder(self) -> EditableDataset | SparseDraft:
        """What the attributes of the column are set on."""
        return self.dataset if self.draft is None else self.draft


def _without_fill(options: ColumnOptions, name: str) -> ColumnOptions:
    """The options of a column with a lossy filter: it has no fill, whose size would spoil the rows next to it."""
    if options.fill not in (AUTO, None):
        raise UsageError(f"column {name!r}: a lossy filter keeps no fill: leave out fill={options.fill!r}", column=name)
    return replace(options, fill=None)


class ColumnWriter:
    """Writes one column into a group. Call in this order: construct (checks type and options), start, write, finish."""

    def __init__(
        self,
        name: str,
        kind: pa.DataType,
        options: ColumnOptions,
        large_attributes: bool = False,
        link: str = "",
        marking: Marking = Marking(),  # noqa: B008 - frozen
        is_companion: bool = False,
    ) -> None:
        """is_companion: a mask or heap of a column, whose options nobody has set."""
        self.name = name
        self._is_companion = is_companion
        self._link = link or name  # of the dataset in its group
        self._given = plain_type(kind)
        self._options = options
        self._marking = marking
        self._is_lossy = is_lossy(options.filters)
        if self._is_lossy:
            self._options = _without_fill(options, name)
        self._large_attributes = large_attributes
        try:
            self._coder = self._start_coder()
            self._units = self._check_units()
            self._form = self._first_form()
        except UsageError as error:
            error.column = error.column or name
            raise
        self._plan: DatasetPlan | None = None
        self._group: EditableGroup
        self._opened: EditableDataset | None = None  # None before the first rows
        self._waiting: list[pa.Array] = []
        self._n_waiting = 0
        self._n_taken = 0
        self._n_written = 0
        self._has_missing = False
        self._resumed = False
        self.most_chunk_rows = DEFAULT_CHUNK_ROWS  # to which chunks may grow
        self._replaced = False
        self._sink: tuple[EditableDataset, RowSink] | None = None
        self._quick: tuple[ElementForm, FastEncode] | None = None
        self._named: tuple[ElementForm, str | None] | None = None
        self._numbers: pa.Array | None = None  # member numbers of an enum that does not count from 0
        check_filters(options.filters)

    @classmethod
    def resume(
        cls,
        column: ColumnInfo,
        group: EditableGroup,
        dataset: EditableDataset,
        categories: pa.Array | None,
        link: str = "",
        marking: Marking = Marking(),  # noqa: B008 - frozen
    ) -> Self:
        """A writer that appends to the existing rows of a column. `link` names its dataset, if not the column name."""
        kind = arrow_type(column)
        kind = kind if pa.types.is_dictionary(kind) else plain_type(kind)  # names of an inner enum are strings
        numbers = None
        if column.type.kind == "enum":
            categories, numbers = names_and_numbers(column)
        options = ColumnOptions(description=column.description, enum=column.type.kind == "enum")
        writer = cls(column.name, kind, options, link=link, marking=marking)
        if categories is not None:
            ordered = bool(pa.types.is_dictionary(kind) and kind.ordered)
            whose = "" if numbers is None else "the members of its enum"
            writer._coder = CategoryCoder(categories, ordered, numbers is not None, column.name, whose)
            writer._numbers = numbers
            kind = pa.from_numpy_dtype(memory_dtype(column.type))
        writer._units = column.units
        writer._form = ElementForm(column.type, kind, column.fill)
        chunk_rows = column.chunk_rows or default_chunk_rows(column.n_rows, column.type)
        writer._plan = DatasetPlan(column.type, chunk_rows, known_filters(column.filters), column.fill)
        writer._group, writer._opened = group, dataset
        writer._n_taken = writer._n_written = column.n_rows
        writer._resumed = True
        writer._is_lossy = has_lossy(column.filters)
        if writer._is_lossy:
            writer._options = replace(options, fill=None)
        if not can_column_grow(column, dataset) or cuts_off_bits(column.filters):
            writer._copy_into(writer._form)
        return writer

    @property
    def _dataset(self) -> EditableDataset:
        assert self._opened is not None  # by `start` or `resume`
        return self._opened

    # -- before a byte is written --

    def _start_coder(self) -> CategoryCoder | None:
        wanted, as_enum = self._options.categories, self._options.enum
        categorical = pa.types.is_dictionary(self._given) or (wanted is not None and wanted is not False)
        if not categorical:
            if as_enum:
                raise UsageError(
                    f"column {self.name!r}: enum=True needs a dictionary column, or categories=", column=self.name
                )
            return None
        kind = self._given.value_type if pa.types.is_dictionary(self._given) else self._given
        stored_type(kind, f"the categories of column {self.name!r}")
        coder = start_coder(self._given, wanted, self._options.ordered, self.name)
        if as_enum and not pa.types.is_string(coder.values.type):
            raise UsageError(f"column {self.name!r}: enum=True needs categories that are text", column=self.name)
        if self._options.fill not in (AUTO, None, -1):
            raise UsageError(
                f"column {self.name!r}: missing rows of a categorical are stored as -1; leave out fill=",
                column=self.name,
            )
        return coder

    def _check_units(self) -> str | None:
        return (
            self._options.units
            if self._coder is not None
            else checked_units(self._given, self._options.units, self.name)
        )

    def _first_form(self) -> ElementForm:
        if self._coder is not None:
            return self._code_form(self._coder.values, False)
        return first_form(self._given, self.name)

    def _code_form(self, categories: pa.Array, has_missing: bool) -> ElementForm:
        """The form for the codes of these categories."""
        return self._marking.code_form(categories, self._options.enum, has_missing, self.name)

    # -- the first rows --

    def start(self, group: EditableGroup, sample: pa.Array, n_rows: int | None, most_rows: int, link: str = "") -> None:
        """Decide the form from a sample of the first rows, and create the dataset.

        `n_rows` is the table's length where it is known; `most_rows` bounds the chunk length; `link` names the dataset.
        """
        self._group, self._link = group, link or self._link
        values = self._as_values(sample, 0)
        self._form = self._suit(values, more=n_rows is None or n_rows > len(sample))
        stored = self._form.stored
        chunk_rows = self._options.chunk_rows
        if chunk_rows is None:
            chunk_rows = min(most_rows, default_chunk_rows(most_rows if n_rows is None else n_rows, stored))
        if chunk_rows * stored.size >= LARGEST_CHUNK_BYTES:
            raise UsageError(
                f"column {self.name!r}: {chunk_rows} rows of {stored.size} bytes exceed the 4 GiB "
                "that a chunk may have: choose a smaller chunk_rows",
                column=self.name,
            )
        plan = DatasetPlan(stored, chunk_rows, "none", self._stored_fill(self._form), self._large_attributes)
        self._plan = replace(plan, filters=self._choose_filters(plan, values.slice(0, chunk_rows)))
        self._opened = create_dataset(group, self._link, self._plan)
        if not self._is_companion:
            self._note_options(self._opened)

    def _note_options(self, dataset: EditableDataset) -> None:
        """Record in the file which options of its storage the user has set."""
        options = self._options
        is_portable = options.filters == PORTABLE
        filters = PORTABLE if is_portable else None if options.filters is None else "filters"
        noted = [word for word in (None if options.chunk_rows is None else "chunk_rows", filters) if word is not None]
        if noted:
            write_text(dataset, OPTIONS_SET, " ".join(noted))

    def _choose_filters(self, plan: DatasetPlan, values: pa.Array) -> str:
        is_portable = self._options.filters == PORTABLE
        if self._options.filters is not None and not is_portable:
            return self._options.filters
        encoded = self._encode(values)  # kept alive during the trials: the image may point into it
        return choose_filters(plan, encoded.image, len(values), self._coder is not None, is_portable)

    # -- rows --

    def write(self, array: pa.Array) -> None:
        """Take the next rows; full chunks are written immediately."""
        self._waiting.append(self._as_values(array, self._n_taken))
        self._n_taken += len(array)
        self._n_waiting += len(array)
        chunk_rows = self.chunk_rows
        whole = (self._n_written + self._n_waiting) // chunk_rows * chunk_rows - self._n_written
        if whole > 0:
            self._flush(whole)

    def finish(self) -> WrittenColumn:
        """Write the remaining rows, and return how the column is stored."""
        if self._n_waiting:
            self._flush(self._n_waiting)
        self._drain()
        coder = self._coder
        if coder is not None:
            self._make_fit(pa.nulls(0, pa.int64()), self._n_written)
            if self._options.enum and not len(coder.values):
                raise DataError(
                    "an HDF5 enum needs a member: name the categories with categories=[...]",
                    column=self.name,
                )
        return WrittenColumn(
            name=self.name,
            stored=self._opened,
            form=self._form,
            options=self._options,
            units=self._units,
            arrow_type=None if coder is not None else self._named_type(),
            has_missing=self._has_missing,
            n_rows=self._n_written,
            kind=self._given,
            categories=None if coder is None or self._options.enum else coder.values,
            ordered=coder is not None and coder.ordered,
            replaced=self._replaced,
        )

    def _named_type(self) -> str | None:
        if self._named is None or self._named[0] is not self._form:
            self._named = (self._form, named_type(self._form.stored, self._units, self._given))
        return self._named[1]

    def overwrite(self, rows: Int64s, array: pa.Array) -> None:
        """Overwrite existing rows, given in increasing order. Row numbers in errors are positions in `array`."""
        values = self._as_values(array, 0)
        self._check_lossy(np.zeros(0), not len(values))
        self._make_fit(values, 0)
        if len(values):
            encoded = self._encode(values)
            try:
                self._write_at(rows, encoded.image)
            except CannotSkipFilter:
                self._copy_without_scale_offset()
                self._write_at(rows, encoded.image)
        self._has_missing = self._has_missing or self._holds_missing(values)

    def _write_at(self, rows: Int64s, image: Image) -> None:
        sink = self._open_sink()
        sink.write_at(rows, image)
        sink.drain()

    def truncate(self, n_rows: int) -> None:
        """Keep only the first `n_rows` rows."""
        self._check_lossy(np.zeros(0), n_rows in (0, self._n_written) or n_rows % self.chunk_rows == 0)
        try:
            resize(self._dataset, n_rows)
        except CannotSkipFilter:
            self._n_written = n_rows
            self._copy_without_scale_offset()
        self._n_taken = self._n_written = n_rows

    def remove(self, rows: Selection) -> None:
        """Remove these rows: those after them move up, as they are stored."""
        if self._n_written - int(rows.starts[0]) - self._dataset.written_rows() > MOST_UNWRITTEN_COPIED:
            raise self._mostly_unwritten("rows of it are not moved")
        try:
            self._open_sink().close_gaps(rows, self._n_written)
        except CannotSkipFilter:  # the only chunk: nothing was written yet
            self._copy_without_scale_offset()
            self._open_sink().close_gaps(rows, self._n_written)
        self.truncate(self._n_written - rows.count)

    @property
    def n_rows(self) -> int:
        """The number of rows so far, including those that existed before."""
        return self._n_taken

    @property
    def kind(self) -> pa.DataType:
        """The Arrow type of the values."""
        return self._given

    @property
    def coder(self) -> CategoryCoder | None:
        """What gives codes to the values of a categorical."""
        return self._coder

    @property
    def n_categories(self) -> int:
        """The number of categories so far; 0 for a column without categories."""
        return 0 if self._coder is None else len(self._coder.values)

    @property
    def chunk_rows(self) -> int:
        """The number of rows in a chunk, once decided."""
        assert self._plan is not None and self._plan.chunk_rows is not None  # start() came first
        return self._plan.chunk_rows

    def _as_values(self, array: pa.Array, first_row: int) -> pa.Array:
        """The array in its plain type, or its codes if the column is a categorical."""
        if self._coder is not None:
            codes = self._coder.encode(array, first_row)
            return codes if self._numbers is None else self._numbers.take(codes)
        return plain_array(array, self._given)

    def _flush(self, count: int) -> None:
        """Write the first `count` waiting rows, a chunk at a time."""
        whole = self._waiting[0] if len(self._waiting) == 1 else pa.concat_arrays(self._waiting)
        self._grow_chunks(whole.slice(0, count))
        self._n_waiting = len(whole) - count
        self._waiting = [whole.slice(count)] if self._n_waiting else []
        at, step = 0, self.chunk_rows
        while at < count:
            to_edge = step - self._n_written % step
            self._write_part(whole.slice(at, min(to_edge, count - at)))
            at += to_edge

    def _grow_chunks(self, values: pa.Array) -> None:
        """Copy a column that was begun with few rows into chunks, with filters, that suit it with these values too.

        Not what the user has chosen. Each copy has eight times the rows of the one before, and there are few.
        """
        n_rows = self._n_written + len(values)
        if not self._resumed or self.chunk_rows >= LONG_CHUNK or n_rows < GROWS_AT * self.chunk_rows:
            return
        wanted = min(default_chunk_rows(GROWS_TO * n_rows, self._form.stored), self.most_chunk_rows)
        if wanted < 2 * self.chunk_rows:
            return
        noted = (read_text(self._dataset, OPTIONS_SET) or "").split()
        if "chunk_rows" in noted or self._is_lossy:
            return
        assert self._plan is not None  # it has rows
        before = self._plan
        if "filters" not in noted and before.filters in CHOSEN_BY_US:
            filters = self._suiting_filters(replace(before, chunk_rows=wanted), values, PORTABLE in noted)
            self._plan = replace(before, filters=filters)
        try:
            self._copy_into(self._form, wanted)
        except CannotSkipFilter:
            unlink(self._group, f"{self._link}\x01aside")
            self._plan = replace(self._plan, filters=without_scale_offset(self._plan.filters))
            self._copy_into(self._form, wanted)

    def _suiting_filters(self, plan: DatasetPlan, values: pa.Array, is_portable: bool) -> str:
        """The filters that suit the rows in the file, or these if they are more."""
        if self._n_written < len(values):
            values = values.slice(0, plan.chunk_rows)
            encoded = self._encoded(values)
            plan = replace(plan, type=self._form.stored, fill=self._stored_fill(self._form))
        else:
            values = next(self._written_values())
            encoded = self._encode(values)
        return choose_filters(plan, encoded.image, len(values), self._coder is not None, is_portable)

    def _write_part(self, values: pa.Array) -> None:
        encoded = self._encoded(values)
        try:
            self._write_behind(encoded.image, len(values))
        except CannotSkipFilter:
            self._copy_without_scale_offset()
            self._write_behind(encoded.image, len(values))
        self._refuse_dangling(encoded.image)
        self._n_written += len(values)

    def _encoded(self, values: pa.Array) -> Encoded:
        """The values as elements of the form, which is changed if they need another one."""
        encoded = self._encode_fast(values)
        if encoded is None:
            self._make_fit(values, self._n_written)
            with rows_as(lambda position: self._n_written + position):
                encoded = self._encode(values)
            self._has_missing = self._has_missing or self._holds_missing(values)
        return encoded

    def _check_lossy(self, image: Image, is_kept: bool) -> None:
        """Refuse what a lossy filter would spoil: rows that are not finite, and rows in the file that change again."""
        if not self._is_lossy:
            return
        if not is_kept:
            raise UnsupportedError(
                f"cannot change rows of column {self.name!r}: its filter keeps approximate values, so that the rows of "
                "the same chunk would change again. Give the column with replace_column",
                feature="changes of columns with lossy filters",
            )
        spoiled = ~np.isfinite(image)
        if spoiled.any():
            row = int(np.argmax(spoiled))
            raise DataError(
                f"{image[row]} is not a finite number: the filter would change the rows next to it. Choose a filter "
                "that keeps all values",
                column=self.name,
                row=self._n_written + row,
                value=float(image[row]),
            )

    def _write_behind(self, image: Image, count: int) -> None:
        self._check_lossy(image, not self._resumed or self._n_written % self.chunk_rows == 0)
        self._dataset.set_extent((self._n_written + count,))
        self._open_sink().write(self._n_written, image, count)

    def _drain(self) -> None:
        """Write buffered rows to the dataset."""
        if self._sink is not None:
            self._sink[1].drain()

    def _open_sink(self) -> RowSink:
        """The sink of the current dataset, which may have replaced another one."""
        if self._sink is None or self._sink[0] is not self._dataset:
            self._sink = (self._dataset, RowSink(self._dataset, self._form.stored, default_threads()))
        return self._sink[1]

    def _refuse_dangling(self, image: Image) -> None:
        """Raise if an object reference that was just written does not point to an object of this file."""
        if self._form.stored.kind != "object_reference":
            return
        _, rows = np.unique(image.view("u8"), return_index=True)
        for row in rows.tolist():
            if leads_nowhere(self._dataset, self._n_written + row):
                raise DataError(
                    "the reference does not point to an object "
                    "of this file; a reference is valid only in the file it was made in",
                    column=self.name,
                    row=self._n_written + row,
                )

    def _holds_missing(self, values: pa.Array) -> bool:
        if values.null_count:
            return True
        return is_nan(self._form.fill, self._form) and bool(pc.any(pc.is_nan(values)).as_py())

    def _encode_fast(self, values: pa.Array) -> Encoded | None:
        """The values encoded by the fast path, if the column existed before and they obviously fit its form."""
        if not self._resumed:
            return None
        if self._coder is not None:
            return self._encode_codes_fast(values)
        if self._quick is None or self._quick[0] is not self._form:
            self._quick = (self._form, fast_encoder(self._form))
        image = self._quick[1](values)
        return None if image is None else Encoded(image)

    def _encode_codes_fast(self, codes: pa.Array) -> Encoded | None:
        """Codes as elements, if the integers of the form have room for every category, and no row is missing."""
        stored, coder = self._form.stored, self._coder
        if coder is None or self._numbers is not None or stored.kind != "integer" or codes.null_count:
            return None
        if not len(codes) or not holds_codes(stored, len(coder.values)):
            return None
        return Encoded(np.asarray(codes).astype(memory_dtype(stored)))

    def _encode(self, values: pa.Array) -> Encoded:
        kind = self._form.kind
        return encode(
            values if values.type == kind else values.cast(kind), self._form.stored, self._form.fill, self.name
        )

    # -- the form --

    def _make_fit(self, values: pa.Array, first_row: int) -> None:
        """Change the form and copy the rows written so far, if these values need another form."""
        with rows_as(lambda place: first_row + place):
            form = self._suit(values, more=True)
        if form != self._form:
            self._copy_into(form)

    def _suit(self, values: pa.Array, more: bool) -> ElementForm:
        """The current form if it holds these values too, else one that does. Errors report positions in `values`."""
        has_missing = self._has_missing or values.null_count > 0
        if self._coder is not None:
            if self._options.fill is None:
                self._refuse_missing_without_fill(self._form, values)
            if self._numbers is not None or (self._resumed and self._is_held_by_enum(values)):
                return self._form
            if self._resumed and holds_codes(self._form.stored, len(self._coder.values)) and not self._fill_is_a_code():
                return self._form
            marked = has_missing or self._form.fill is not None  # in existing rows
            return self._code_form(self._coder.values, marked)
        first = self._plan is None
        form = suit_datatype(self._form, values, self._options, self.name, first, more, self._marking.nullable)
        if form.stored.kind == "boolean":
            self._refuse_missing_without_fill(form, values)
            asked_fill(self._options, form, self.name)
            return form
        return self._suit_fill(form, values)

    def _fill_is_a_code(self) -> bool:
        """Whether the fill of the codes is the code of a category now: other programs choose fills other than -1."""
        form = self._form
        if form.fill is None or form.stored.kind != "integer" or self._coder is None:
            return False
        return 0 <= int(np.frombuffer(form.fill, dtype=memory_dtype(form.stored))[0]) < len(self._coder.values)

    def _is_held_by_enum(self, values: pa.Array) -> bool:
        """Whether the enum of an existing column has a member for every category, and for missing rows if needed."""
        form, coder = self._form, self._coder
        if form.stored.kind != "enum" or coder is None or (values.null_count and form.fill is None):
            return False
        return len(coder.values) <= len(form.stored.members) - (form.fill is not None)

    def _suit_fill(self, form: ElementForm, values: pa.Array) -> ElementForm:
        marks_missing = self._has_missing or values.null_count or self._form.fill is not None or form.fill is not None
        if self._marking.is_attribute and self._options.fill is AUTO and not marks_missing:
            return form
        if self._options.fill is not AUTO:
            form = replace(form, fill=asked_fill(self._options, form, self.name))
            self._refuse_missing_without_fill(form, values)
            refuse_fill_among(form, values, self.name)
            return form
        if form.fill is not None and self._resumed and form.fill not in islice(self._marking.fills(form.stored), 8):
            refuse_fill_among(form, values, self.name)  # a fill that was chosen by the user is kept
            return form
        if form.fill is not None and list(fills_that_do_not_occur(form, values, [form.fill], self.name)):
            return form
        has_missing = self._has_missing or values.null_count > 0 or (self._resumed and self._form.fill is not None)
        has_none = form.stored.has_pointers and not self._marking.is_everywhere
        if form.fill is None and not has_missing and (self._plan is not None or has_none):
            return form  # it had no value to spare when created, or H5Ocopy would lose the fill; none is needed yet
        found = self._find_fill(form, values)
        if found is None and has_missing:
            if form.stored.kind == "string" and form.stored.size < ROOM_FOR_FILL:
                return self._suit_fill(replace(form, stored=stored_string(ROOM_FOR_FILL), fill=None), values)
            if self._resumed:
                refuse_fill_among(form, values, self.name)
            self._refuse_missing_without_fill(replace(form, fill=None), values, always=True)
        return replace(form, fill=found)

    def _stored_fill(self, form: ElementForm) -> bytes | None:
        """The HDF5 fill value of the dataset."""
        return None if self._marking.is_attribute else form.fill

    def _find_fill(self, form: ElementForm, values: pa.Array) -> bytes | None:
        """The first recommended fill that occurs neither in these values nor in the rows written."""
        candidates = fills_that_do_not_occur(form, values, self._marking.fills(form.stored), self.name)
        if self._n_written == 0:
            return next(candidates, None)
        alive = list(candidates)
        for written in self._written_values():
            alive = list(fills_that_do_not_occur(form, written, alive, self.name))
        return alive[0] if alive else None

    def _refuse_missing_without_fill(self, form: ElementForm, values: pa.Array, always: bool = False) -> None:
        if form.fill is not None and self._options.fill is not None:
            return
        if not values.null_count and not always:
            return
        row = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False))) if values.null_count else 0
        why = "fill=None declares that there are none" if self._options.fill is None else (
            f"the type of the column, {form.stored}, has no value to spare for it: cast it to a wider type, or fill it"
        )  # fmt: skip
        raise DataError(f"found a missing value, but {why}", column=self.name, row=row)

    def _written_values(self) -> Iterator[pa.Array]:
        """The rows written so far, as values, a few MiB at a time."""
        self._drain()
        if self._opened is None:
            return
        form, info = self._form, self._dataset.describe()
        sink = RowSink(self._dataset, form.stored)
        for start, stop in cut(0, self._n_written, self.chunk_rows, form.stored):
            image = sink.read(start, stop - start, memory_dtype(form.stored))
            if image is not None:
                yield decode(image, form.values_type, form.kind, form.fill)
                continue
            with self._dataset.reading(info, start, stop - start) as image:
                yield decode(image, form.values_type, form.kind, form.fill)

    def _copy_into(self, form: ElementForm, chunk_rows: int | None = None) -> None:
        """Copy the rows written so far into a dataset of another form, which replaces this one."""
        is_same = form.stored == self._form.stored
        is_only_marked = self._marking.is_attribute and form != self._form and is_same and self._form.fill is None
        if self._plan is None or is_only_marked:  # no row is missing yet, so no row changes
            self._form = form
            return
        if self._opened is not None and self._n_written - self._dataset.written_rows() > MOST_UNWRITTEN_COPIED:
            raise self._mostly_unwritten("it is not copied into another form")
        aside = f"{self._link}\x01aside"
        chunk_rows = chunk_rows or self._fitting_chunk_rows(form)
        self._plan = replace(self._plan, type=form.stored, fill=self._stored_fill(form), chunk_rows=chunk_rows)
        kept_type = self._dataset.get_type() if self._opened is not None and is_same else None
        dataset = create_dataset(self._group, aside, self._plan, type_id=kept_type)
        resize(dataset, self._n_written)
        at = 0
        for values in self._written_values():
            cast = self._cast(values, form.kind)
            encoded = encode(cast, form.stored, form.fill, self.name)
            write_rows(dataset, form.stored, at, encoded.image, len(values))
            at += len(values)
        copy_attributes(self._dataset, dataset)
        self._opened, self._replaced = None, True
        unlink(self._group, self._link)
        rename(self._group, aside, self._link)
        self._opened, self._form = dataset, form

    def _mostly_unwritten(self, so: str) -> FormatError:
        reason = f"column {self.name!r} claims {self._n_written:,} rows, most of which were never written: {so}"
        return FormatError(reason, column=self.name)

    def _copy_without_scale_offset(self) -> None:
        """Copy the rows, fewer than a chunk, into a dataset whose filters hold every value."""
        assert self._plan is not None  # it has rows
        self._plan = replace(self._plan, filters=without_scale_offset(self._plan.filters))
        self._copy_into(self._form)

    def _cast(self, values: pa.Array, kind: pa.DataType) -> pa.Array:
        """Cast rows of the file to another type. Only values that contradict the file's metadata can fail."""
        try:
            return values if values.type == kind else values.cast(kind)
        except pa.ArrowInvalid as error:
            raise FormatError(f"column {self.name!r} holds values not of {kind}: {error}", column=self.name) from error

    def widen(self, kind: pa.DataType) -> None:
        """Copy the rows written so far into a form for another type, whose values include theirs."""
        form = first_form(kind, self.name)
        mark = None if self._form.fill is None else next(self._marking.fills(form.stored))
        self._given = kind
        self._copy_into(replace(form, fill=mark))

    def move_to(self, group: EditableGroup, link: str) -> None:
        """Move the dataset to another group and name; writing continues there."""
        move(self._group, self._link, group, link)
        self._group, self._link = group, link

    def _fitting_chunk_rows(self, form: ElementForm) -> int:
        """The requested chunk length, or one that a wider datatype still allows."""
        if self._options.chunk_rows is not None:
            return self._options.chunk_rows
        return min(self.chunk_rows, default_chunk_rows(self.chunk_rows, form.stored))
