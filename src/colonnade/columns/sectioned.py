"""Sparse columns, in sectioned chunks: only the rows that are not missing are stored. Fetches them and writes them.

The writer does not touch the file: rows are collected in a `SparseDraft`, which the commit writes at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from colonnade.columns.arrow_types import plain_array
from colonnade.columns.encode import ElementForm, encode
from colonnade.columns.forms import checked_units, first_form
from colonnade.columns.mapping import arrow_type, named_type, plain_type
from colonnade.columns.missing import recommended_fills
from colonnade.columns.raw import MaskedRaw, Raw, any_of, cut, refuse_unreadable
from colonnade.columns.writer import WrittenColumn
from colonnade.dataclass import replace
from colonnade.errors import DataError, UsageError, rows_as
from colonnade.filters.names import PORTABLE
from colonnade.filters.read_plan import MOST_AT_ONCE
from colonnade.format.values import stored_dtype
from colonnade.model import AUTO, DEFAULT_CHUNK_ROWS, ColumnInfo, ColumnOptions
from colonnade.nodes import Group
from colonnade.selection import RowNumbers, Selection
from colonnade.sparse.create import SparseOptions, plan
from colonnade.sparse.draft import SparseDraft
from colonnade.sparse.rows import SparseRows
from colonnade.stored_dtypes import memory_dtype

WRITABLE = ("integer", "float", "boolean", "opaque", "complex")
USUAL_FILTERS = "shuffle+deflate:4"


class SectionedFetcher:
    """Rows of a sparse column: undefined rows are missing."""

    source = None

    def __init__(self, column: ColumnInfo, rows: SparseRows, n_threads: int = 1) -> None:
        self._column, self._rows = column, rows
        self.n_threads = n_threads

    def fetch(self, start: int, count: int) -> MaskedRaw[Raw]:
        self._check(count)
        image, missing = self._rows.read(start, count)
        return MaskedRaw(image, any_of(missing))

    @contextmanager
    def by_library(self, start: int, count: int, step: int = 1) -> Iterator[MaskedRaw[Raw]]:
        yield self.take(start + step * np.arange(count))

    def take(self, rows: RowNumbers) -> MaskedRaw[Raw]:
        self._check(len(rows))
        image, missing = self._rows.take(rows)
        return MaskedRaw(image, any_of(missing))

    def pieces(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        return cut(start, stop, self._column.grid.chunk_rows, self._column.type)

    def _check(self, count: int) -> None:
        """Refuse to read too many rows at once: missing rows take no space in the file, but they do in memory."""
        refuse_unreadable(self._column)
        if count * self._column.type.size > MOST_AT_ONCE:
            name = self._column.name
            message = f"{count:,} rows of column {name!r} are too many to be read at once: use batches()"
            raise UsageError(message, column=name)

    @property
    def stored_bytes(self) -> int:
        return self._rows.stored_bytes

    def written_rows(self) -> int:
        return self._rows.written_rows


class SparseColumnWriter:
    """Writes one column of which most rows are missing."""

    def __init__(self, name: str, kind: pa.DataType, options: ColumnOptions) -> None:
        self.name = name
        self._given = plain_type(kind)
        self._options = options
        self._n_taken = 0
        self._before: SparseRows | None = None  # the rows of an existing column
        _refuse_options(name, options)
        self._form = _form_of(self._given, name)
        try:
            self._units = checked_units(self._given, options.units, name)
            chunks = (options.chunk_rows or DEFAULT_CHUNK_ROWS,)
            filters = USUAL_FILTERS if options.filters in (None, PORTABLE) else options.filters
            stored = SparseOptions(chunks=chunks, filters=filters, max_shape=(None,))
            info = plan(name, (0,), self._form.stored, stored)
        except UsageError as error:
            error.column = error.column or name
            raise
        self._draft = SparseDraft(replace(info, fill=_fill_of(self._form)), is_new=True)

    @classmethod
    def resume(cls, column: ColumnInfo, rows: SparseRows) -> SparseColumnWriter:
        """A writer that appends to the existing rows of a column, or changes them."""
        writer = cls.__new__(cls)
        writer.name = column.name
        writer._given = arrow_type(column)
        writer._options = ColumnOptions(description=column.description)
        writer._form = ElementForm(column.type, writer._given)
        writer._units = column.units
        writer._n_taken = column.n_rows
        writer._draft = SparseDraft(rows.info, is_new=False)
        writer._before = rows
        return writer

    def start(self, group: Group, sample: pa.Array, n_rows: int | None, most_rows: int) -> None:
        """Does nothing: a sparse column needs no decision from a sample."""

    def write(self, array: pa.Array) -> None:
        """Take the next rows."""
        places, image = self._cells(array, self._n_taken)
        self._draft.add(len(array), places, image)
        self._n_taken += len(array)

    def overwrite(self, rows: RowNumbers, array: pa.Array) -> None:
        """Overwrite existing rows, given in increasing order; None makes a row missing."""
        places, image = self._cells(array, 0)
        erased = np.ones(len(rows), dtype=bool)
        erased[places] = False
        self._draft.erase(rows[erased])
        self._draft.set(rows[places], image)

    def truncate(self, n_rows: int) -> None:
        """Keep only the first `n_rows` rows."""
        self._draft.n_rows = self._n_taken = n_rows

    def remove(self, rows: Selection) -> None:
        """Remove these rows: those after them move up."""
        assert self._before is not None  # by `resume`
        first = int(rows.starts[0])
        self._draft.cut(first)
        for begin, places, values in self._before.cells(first):
            numbers = places + begin
            stays = (numbers >= first) & ~rows.holds(numbers)
            numbers = numbers[stays] - rows.n_before(numbers[stays])
            if len(numbers):
                n_added = int(numbers[-1]) + 1 - self._draft.n_rows
                self._draft.add(n_added, numbers - self._draft.n_rows, values[stays])
        self._n_taken -= rows.count
        self._draft.n_rows = self._n_taken  # the last rows may be missing

    def _cells(self, array: pa.Array, first_row: int) -> tuple[RowNumbers, np.ndarray]:
        """The row numbers of the rows that are not missing, and their elements."""
        values = plain_array(array, self._given)
        if self._options.fill is None and values.null_count:
            row = first_row + int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
            raise DataError(
                "found a missing value, but fill=None declares that there are none",
                column=self.name, row=row,
            )  # fmt: skip
        places = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        present = values.drop_null() if values.null_count else values
        with rows_as(lambda place: first_row + int(places[place])):
            image = encode(present, self._form.stored, None, self.name).image
        return places, np.array(image, dtype=stored_dtype(self._form.stored).base)

    def finish(self) -> WrittenColumn:
        """Return how the column is stored; its rows are in the draft."""
        return WrittenColumn(
            name=self.name,
            stored=None,
            form=self._form,
            options=self._options,
            units=self._units,
            arrow_type=named_type(self._form.stored, self._units, self._given),
            has_missing=False,  # no row that a fill would have to mark
            n_rows=self._n_taken,
            kind=self._given,
            draft=self._draft,
        )


def _refuse_options(name: str, options: ColumnOptions) -> None:
    odd = [
        word
        for word, is_set in (
            ("fill", options.fill not in (AUTO, None)),
            ("categories", options.categories not in (None, False)),
            ("enum", options.enum),
            ("strings", options.strings != "auto"),
        )
        if is_set
    ]
    if odd:
        raise UsageError(f"column {name!r}: {odd[0]}= has no meaning for a sparse column", column=name, option=odd[0])


def _form_of(kind: pa.DataType, name: str) -> ElementForm:
    if pa.types.is_dictionary(kind):
        raise UsageError(f"column {name!r}: a sparse column cannot be a categorical yet", column=name)
    form = first_form(kind, name)
    if form.stored.kind not in WRITABLE:
        raise UsageError(
            f"column {name!r} of type {kind} would be stored as {form.stored}; sparse columns hold numbers, booleans, "
            "times and bytes of one length",
            column=name,
        )
    return form


def _fill_of(form: ElementForm) -> bytes | None:
    """The recommended fill, which readers that ignore the definition of rows see for missing rows."""
    fill = next(recommended_fills(form.stored), None) if form.stored.kind in ("integer", "float") else None
    if fill is None:
        return None
    return np.frombuffer(fill, dtype=memory_dtype(form.stored)).astype(stored_dtype(form.stored)).tobytes()
