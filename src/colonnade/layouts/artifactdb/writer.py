"""Write one column of an ArtifactDB data frame: values, or codes with levels.

In: Arrow arrays of one type, in any lengths. Out: `data/<position>`, in the form of the frame's generation:

| Arrow | versioned, directory | legacy |
| --- | --- | --- |
| boolean | int8, missing -1 | the same; hdf5 1: int32, missing -2147483648 |
| integers | their own type, wider ones as int32 | the same; hdf5 1: int32, missing -2147483648 |
| floats | float32 or float64; missing NaN, or a value that does not occur | float64, missing is R's NA |
| strings, dates, times | strings, of fixed length if that is smaller; missing "NA", "NA_", ... | the same |
| dictionary of strings | uint8 or uint16 codes, missing the largest; levels | int32 codes, or strings; other file |

A placeholder is chosen when the first missing row arrives; the layout writes it as an attribute.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from colonnade import compute as pc
from colonnade.arrays import Int64s
from colonnade.columns.arrow_types import plain_array
from colonnade.columns.encode import ElementForm
from colonnade.columns.forms import CategoryCoder, Marking, contains_nul
from colonnade.columns.mapping import plain_type
from colonnade.columns.plain import date_times_to_text, dates_to_text
from colonnade.columns.read import ColumnReader
from colonnade.columns.writer import ColumnWriter, WrittenColumn
from colonnade.dataclass import replace
from colonnade.errors import DataError, UsageError, rows_as
from colonnade.h5.handles import create_group
from colonnade.layouts.artifactdb import names
from colonnade.layouts.artifactdb.describe import INT32_MIN, generation_of, open_column, position_of, read_texts
from colonnade.layouts.artifactdb.names import Generation
from colonnade.layouts.artifactdb.vls_writer import VlsWriter, wastes_space
from colonnade.layouts.frame_options import check_column_texts
from colonnade.model import ColumnInfo, ColumnOptions, Plain, Pointers, StoredType
from colonnade.nodes import EditableGroup, GroupHandle
from colonnade.nodes.paths import editable, group_at
from colonnade.selection import Selection
from colonnade.stored_dtypes import memory_dtype

_SMALL = (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16())


def mark_of(dtype: np.dtype, mark: int | None = None) -> bytes:
    """The code of a missing row: `mark`, or the largest code (-1 if signed), which does not change with new levels."""
    if mark is None:
        mark = -1 if dtype.kind == "i" else int(np.iinfo(dtype).max)
    return np.array(mark, dtype=dtype).tobytes()


def code_marking(generation: Generation) -> Marking:
    """How frames of a generation store codes: in types that both the seed and today's validator accept, if possible."""
    if generation.family == "legacy":
        codes, mark = ["i4"], INT32_MIN if generation.hdf5 <= 1 else None
    else:  # codes of today's directory are never signed
        codes, mark = ["u1", "u2", "u4" if generation.family == "directory" else "i4"], None
    dtypes = list(map(np.dtype, codes))

    def code_form(categories: pa.Array, as_enum: bool, has_missing: bool, name: str) -> ElementForm:
        dtype = next((dtype for dtype in dtypes[:-1] if len(categories) <= np.iinfo(dtype).max), dtypes[-1])
        stored = StoredType("integer", dtype.itemsize, signed=dtype.kind == "i", precision=8 * dtype.itemsize)
        return ElementForm(stored, pa.from_numpy_dtype(dtype), mark_of(dtype, mark))

    return Marking(placeholders, True, code_form)


def _boolean_placeholders(stored: StoredType) -> Iterator[bytes]:
    """Values for missing rows of booleans, which are stored as integers: -1 first."""
    minus_one = np.array(-1).astype(memory_dtype(stored)).tobytes()
    return itertools.chain((minus_one,), placeholders(stored))


def placeholders(stored: StoredType) -> Iterator[bytes]:
    """Candidates for the placeholder of missing rows, in ArtifactDB's order of preference."""
    dtype = memory_dtype(stored)
    if stored.kind in ("string", "text"):
        words = (b"NA" + b"_" * count for count in range(1000))
        if stored.kind == "text":
            return words
        return (word.ljust(stored.size, b"\0") for word in itertools.takewhile(lambda w: len(w) <= stored.size, words))
    if stored.kind == "float":
        ends = np.finfo(dtype)
        numbers: Iterator[float] = itertools.chain(
            (np.nan, np.inf, -np.inf, ends.min, ends.max, 0.0), (float(-n) for n in range(1, 300))
        )
    else:
        low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        first = (low, high, 0) if low else (high, 0)
        numbers = itertools.chain(first, range(high - 1, max(high - 300, low), -1))
    return (np.array(number, dtype=dtype).tobytes() for number in numbers)


MARKING = Marking(placeholders, True)
BOOLEAN_MARKING = Marking(_boolean_placeholders, True)


class ArtifactWriter:
    """Writes one column of a frame. Call order: construct (refuses what cannot be stored), start, write, finish."""

    def __init__(
        self, name: str, kind: pa.DataType, options: ColumnOptions, generation: Generation, is_label: bool = False
    ) -> None:
        self.name = name
        self.generation = generation
        self._is_label = is_label
        self._given = _checked(name, plain_type(kind), options, is_label)
        self._options = options
        self._link: str | None = None
        self._has_missing = False
        self._levels: CategoryCoder | None = None  # if a factor is stored as strings
        self._kind = self._stored_kind()
        self._rows: ColumnWriter | VlsWriter = self._new_rows()

    @property
    def _is_coded(self) -> bool:
        asked = self._options.categories
        return bool(pa.types.is_dictionary(self._given)) or (asked is not None and asked is not False)

    @property
    def _keeps_level_text(self) -> bool:
        """Whether this is a factor that is stored as strings, with its levels in another file."""
        return self._is_coded and self.generation.family == "legacy" and self.generation.frame <= 1

    @property
    def _is_marked_by_bits(self) -> bool:
        """Whether missing floats are stored as R's NA."""
        return self.generation.family == "legacy" and bool(pa.types.is_floating(self._given))

    def _new_rows(self) -> ColumnWriter:
        options = replace(self._options, masked=None)
        if self._is_coded:
            coded = ColumnWriter(self.name, self._given, options, marking=code_marking(self.generation))
            if not self._keeps_level_text:
                return coded
            self._levels = coded.coder
        plain = replace(options, categories=False, ordered=None, fill=self._fill())
        return ColumnWriter(self.name, self._kind, plain, marking=self._marking)

    @property
    def _marking(self) -> Marking:
        return BOOLEAN_MARKING if pa.types.is_boolean(self._given) else MARKING

    def _fill(self) -> object:
        """The fill that the generation prescribes; AUTO if it is chosen later, None if no row can be missing."""
        if self._is_label or self._is_marked_by_bits:
            return None
        if self.generation.family == "legacy" and self.generation.hdf5 <= 1 and not pa.types.is_string(self._kind):
            return INT32_MIN
        return self._options.fill

    def _stored_kind(self) -> pa.DataType:
        """The Arrow type of the stored values."""
        kind, old = self._given, self.generation.family == "legacy" and self.generation.hdf5 <= 1
        if pa.types.is_boolean(kind):
            return pa.int32() if old else pa.int8()
        if pa.types.is_integer(kind):
            return kind if kind in _SMALL and not old else pa.int32()
        if pa.types.is_floating(kind):
            return pa.float64() if self._is_marked_by_bits or kind == pa.float64() else pa.float32()
        return pa.string()

    @classmethod
    def resume(cls, column: ColumnInfo, group: EditableGroup, generation: Generation) -> ArtifactWriter:
        """A writer that continues after the rows of an existing column."""
        dataset, companion = open_column(group, column)
        reader = ColumnReader(column, dataset, companion)
        writer = cls(column.name, reader.kind, ColumnOptions(), generation, column.is_label)
        writer._link = column.link
        if column.categories is not None:
            mark = column.fill if column.fill is not None else mark_of(memory_dtype(column.type))
            writer._rows = ColumnWriter.resume(
                replace(column, fill=mark),
                group_at(group, column.link or ""),
                editable(dataset),
                reader.categories(),
                link=names.CODES,
                marking=code_marking(generation),
            )
            return writer
        if isinstance(column.form, Pointers):
            assert not isinstance(companion, pa.Array) and companion is not None  # describe found its heap
            writer._rows = VlsWriter.resume(column, group, editable(dataset), editable(companion))
            return writer
        home = group if column.is_label else group_at(group, names.DATA)
        link = names.ROW_NAMES if column.is_label else str(position_of(column))
        stored = replace(column, form=Plain(), arrow_type=None)
        rows = ColumnWriter.resume(stored, home, editable(dataset), None, link, writer._marking)
        if column.form == Plain("double"):
            rows.widen(pa.float64())
        writer._rows, writer._kind = rows, rows.kind
        return writer

    def start(self, group: EditableGroup, sample: pa.Array, n_rows: int | None, most_rows: int) -> None:
        """Create the datasets, as ColumnWriter.start does. A new column comes after the others."""
        self._suit_home(group)
        values, rows = self._values(sample, 0), self._rows
        assert isinstance(rows, ColumnWriter)  # a heap is chosen below
        if self._is_label:
            self._link = names.ROW_NAMES
            rows.start(group, values, n_rows, most_rows, names.ROW_NAMES)
            return
        data = group_at(group, names.DATA)
        place = str(_next_position(group, data))
        self._link = f"{names.DATA}/{place}"
        if self._suits_heap(values):
            self._rows = heap = VlsWriter(self.name, self._options)
            heap.start(data, place, values, n_rows, most_rows)
        elif self._is_coded and self.generation.is_self_described:
            rows.start(create_group(data, place), values, n_rows, most_rows, names.CODES)
        else:
            rows.start(data, values, n_rows, most_rows, place)

    def _suit_home(self, group: EditableGroup) -> None:
        """Use the generation of directories for a column that is added to a frame in one."""
        found = generation_of(group, None)
        if found.family == "directory" and self.generation.family == "versioned":
            self.generation = found
            self._rows = self._new_rows()

    def _suits_heap(self, sample: pa.Array) -> bool:
        """Whether to store strings as pointers into a heap: in directories of version 1.1, if it saves space."""
        if self.generation.version != "1.1" or self._is_coded or not pa.types.is_string(self._given):
            return False
        return self._options.strings == "variable" or (self._options.strings == "auto" and wastes_space(sample))

    def write(self, array: pa.Array) -> None:
        """Write the next rows."""
        self._rows.write(self._values(array, self._rows.n_rows))

    def overwrite(self, rows: Int64s, array: pa.Array) -> None:
        """Overwrite existing rows, given in increasing order. Row numbers in errors are positions in `values`."""
        self._rows.overwrite(rows, self._values(array, 0))

    def truncate(self, n_rows: int) -> None:
        """Keep the first rows only."""
        self._rows.truncate(n_rows)

    def remove(self, rows: Selection) -> None:
        """Remove these rows: those after them move up."""
        self._rows.remove(rows)

    def finish(self) -> WrittenColumn:
        """Write what is buffered, and return how the column is stored."""
        written: WrittenColumn = self._rows.finish()
        if self._levels is not None:
            written = replace(written, categories=self._levels.values, ordered=self._levels.ordered)
        if written.categories is not None and contains_nul(written.categories):
            raise DataError("a level contains NUL, which ends a string", column=self.name)
        missing = written.has_missing or self._has_missing
        return replace(written, has_missing=missing, kind=self._given, link=self._link)

    def _values(self, array: pa.Array, first_row: int) -> pa.Array:
        """The rows in the type that is stored, before they are coded."""
        if self._levels is not None:
            codes = self._levels.encode(array, first_row)
            return self._checked_text(self._levels.values.take(codes), first_row)
        if self._is_coded:
            return array
        plain = array.cast(self._given) if pa.types.is_null(array.type) else plain_array(array, self._given)
        if self._is_label and plain.null_count:
            row = first_row + int(np.argmax(plain.is_null().to_numpy(zero_copy_only=False)))
            raise DataError("row names cannot be missing", column=self.name, row=row)
        if pa.types.is_date(self._given) or pa.types.is_timestamp(self._given):
            with rows_as(lambda place: first_row + place):
                return _stamps(plain)
        if pa.types.is_string(self._given):
            return self._checked_text(plain, first_row)
        if self._is_marked_by_bits:
            return self._with_bits(plain)
        return self._narrowed(plain, first_row)

    def _checked_text(self, text: pa.Array, first_row: int) -> pa.Array:
        if contains_nul(text):
            found = pc.match_substring(text, "\0").fill_null(False).to_numpy(zero_copy_only=False)
            row = first_row + int(np.argmax(found))
            raise DataError(
                "the string contains NUL, which ends a string in ArtifactDB",
                column=self.name,
                row=row,
            )
        return text

    def _with_bits(self, floats: pa.Array) -> pa.Array:
        """Missing rows as R's NA. A NaN with the same bits becomes another NaN."""
        wide = floats.cast(pa.float64())
        missing = wide.is_null().to_numpy(zero_copy_only=False)
        self._has_missing = self._has_missing or bool(missing.any())
        bits = wide.fill_null(0.0).to_numpy(zero_copy_only=False).copy().view("u8")
        taken = (bits & 0x7FFFFFFF_FFFFFFFF) > 0x7FF0000000000000
        taken &= (bits & 0xFFFFFFFF) == (names.R_MISSING & 0xFFFFFFFF)
        bits[taken] = np.array(np.nan).view("u8")
        bits[missing] = names.R_MISSING
        return pa.Array.from_buffers(pa.float64(), len(bits), [None, pa.py_buffer(bits)])

    def _narrowed(self, numbers: pa.Array, first_row: int) -> pa.Array:
        """Numbers and booleans in the stored type. An integer that does not fit into int32 is refused."""
        try:
            return numbers.cast(self._kind)
        except pa.ArrowInvalid:
            values = numbers.fill_null(0).to_numpy(zero_copy_only=False)
            bounds = np.iinfo("i4")
            row = int(np.argmax((values < bounds.min) | (values > bounds.max)))
            raise DataError(
                f"ArtifactDB's integers have 32 bits and cannot hold {values[row]}. Cast the column to float64.",
                column=self.name,
                row=first_row + row,
                value=int(values[row]),
            ) from None


def _stamps(array: pa.Array) -> pa.Array:
    """Dates and times as strings."""
    missing = array.is_null().to_numpy(zero_copy_only=False)
    is_date = pa.types.is_date(array.type)
    numbers = array.cast(pa.date32()).view(pa.int32()) if is_date else array.view(pa.int64())
    whole = numbers.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    images = dates_to_text(whole) if is_date else date_times_to_text(whole, array.type.unit)
    return pa.array(images.astype(object), pa.binary(), mask=missing).cast(pa.string())


def _next_position(group: EditableGroup, data: GroupHandle) -> int:
    """The position of a new column: after the named columns or, while a frame is created, after those started."""
    if group.has_link(names.COLUMN_NAMES):
        return len(read_texts(group, names.COLUMN_NAMES) or [])
    return len(data)


def _checked(name: str, kind: pa.DataType, options: ColumnOptions, is_label: bool) -> pa.DataType:
    """The type, if a frame can store a column of it with these options. Raises a UsageError."""
    if pa.types.is_null(kind):
        kind = pa.string()  # no rows, or all missing: any type will do
    if is_label and not pa.types.is_string(kind):
        raise UsageError(f"row names are strings in ArtifactDB, {name!r} holds {kind}. Cast it to string.", column=name)
    values = plain_type(kind.value_type) if pa.types.is_dictionary(kind) else kind
    is_factor = pa.types.is_dictionary(kind) or bool(options.categories)
    if is_factor and not pa.types.is_string(values):
        raise UsageError(
            f"column {name!r}: the levels of a factor are strings in ArtifactDB, not {values}. Cast them.", column=name
        )
    if not is_factor and not _is_kept(kind):
        raise UsageError(
            f"column {name!r}: ArtifactDB cannot store {kind}. Cast it to numbers, booleans, strings, dates or times.",
            column=name,
            type=str(kind),
        )
    check_column_texts(name, options, names.FRAME)
    if options.enum or options.sparse or options.masked or options.strings == "categories":
        raise UsageError(
            f"column {name!r}: ArtifactDB has no HDF5 enums, sparse columns, masks or strings by categories "
            "(categories=True makes a factor)",
            column=name,
        )
    return kind


def _is_kept(kind: pa.DataType) -> bool:
    checks = (
        pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_string, pa.types.is_date,
        pa.types.is_timestamp,
    )  # fmt: skip
    return any(check(kind) for check in checks)
