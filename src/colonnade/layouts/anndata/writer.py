"""Writes one column of an AnnData data frame: a dataset, codes with categories, or values with a mask.

In: Arrow arrays of one type, in any lengths. Out: what anndata writes for them. A column without missing rows is a
dataset; at the first missing integer, boolean or string it becomes a group of values and mask, and its dataset is moved
into that group unchanged. A missing float is NaN, as in pandas. A categorical is a group from the beginning.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from colonnade import compute as pc
from colonnade.arrays import Int64s
from colonnade.columns.arrow_types import ComplexType, plain_array
from colonnade.columns.encode import ElementForm
from colonnade.columns.forms import WORTH_FILTERING, Marking, categorical_form, contains_nul
from colonnade.columns.mapping import plain_type, stored_codes
from colonnade.columns.masked import mask_column
from colonnade.columns.read import ColumnReader
from colonnade.columns.writer import ColumnWriter, WrittenColumn
from colonnade.dataclass import replace
from colonnade.errors import DataError, UsageError
from colonnade.h5.handles import create_group
from colonnade.layouts.anndata import names
from colonnade.layouts.anndata.describe import open_column
from colonnade.layouts.frame_options import check_column_texts
from colonnade.model import AUTO, DEFAULT_CHUNK_ROWS, ColumnInfo, ColumnOptions
from colonnade.nodes import EditableGroup
from colonnade.nodes.paths import editable, group_at
from colonnade.selection import Selection
from colonnade.stored_dtypes import memory_dtype

CODES, VALUES, MASK = "codes", "values", "mask"
_ASIDE = "\x01values"


def _code_form(categories: pa.Array, as_enum: bool, has_missing: bool, name: str) -> ElementForm:
    """The form for codes in the width that pandas uses."""
    form = categorical_form(categories, as_enum, has_missing, name)
    stored = stored_codes(len(categories) + 2)  # pandas uses one byte for at most 126 categories
    if stored == form.stored:
        return form
    dtype = memory_dtype(stored)
    return ElementForm(stored, pa.from_numpy_dtype(dtype), np.array(-1, dtype=dtype).tobytes())


CODE_MARKING = Marking(code_form=_code_form)


class FrameWriter:
    """Writes one column into a frame. Call order: constructor (checks type and options), start, write, finish."""

    def __init__(self, name: str, kind: pa.DataType, options: ColumnOptions) -> None:
        self.name = name
        self._kind = plain_type(kind)
        self._options = _checked(name, self._kind, options)
        self._group: EditableGroup | None = None
        self._mask: ColumnWriter | None = None
        self._rows = self._new_rows()

    @property
    def _is_coded(self) -> bool:
        asked = self._options.categories
        return bool(pa.types.is_dictionary(self._kind)) or (asked is not None and asked is not False)

    def _new_rows(self) -> ColumnWriter:
        if self._is_coded:
            return ColumnWriter(self.name, self._kind, self._options, link=CODES, marking=CODE_MARKING)
        options = replace(self._options, fill=None, strings="variable", categories=None, ordered=None)
        return ColumnWriter(self.name, self._kind, options)

    @classmethod
    def resume(cls, column: ColumnInfo, group: EditableGroup) -> FrameWriter:
        """A writer that appends to an existing column."""
        dataset, companion = open_column(group, column)
        reader = ColumnReader(column, dataset, companion)
        writer = cls.__new__(cls)
        writer.name, writer._group = column.name, group
        writer._kind, writer._options = plain_type(reader.kind), ColumnOptions()
        writer._mask = None
        if column.categories is not None:
            marked = replace(column, fill=_missing_code(column))
            inner = group_at(group, column.name)
            writer._rows = ColumnWriter.resume(
                marked, inner, editable(dataset), reader.categories(), CODES, CODE_MARKING
            )
        elif companion is not None:  # its mask
            inner = group_at(group, column.name)
            writer._rows = ColumnWriter.resume(column, inner, editable(dataset), None, link=VALUES)
            writer._mask = ColumnWriter.resume(
                mask_column(column, companion), inner, editable(companion), None, link=MASK
            )
        else:
            writer._rows = ColumnWriter.resume(column, group, editable(dataset), None)
        return writer

    def start(self, group: EditableGroup, sample: pa.Array, n_rows: int | None, most_rows: int) -> None:
        """Create the datasets. The parameters are those of ColumnWriter.start."""
        self._group = group
        home = create_group(group, self.name) if self._is_coded else group
        values, _ = self._split(sample, 0)
        self._rows.start(home, values, n_rows, most_rows)
        if self._options.masked:
            self._begin_mask(0)

    def write(self, array: pa.Array) -> None:
        """Take the next rows."""
        first = self._rows.n_rows
        values, missing = self._split(array, first)
        if missing is not None and self._mask is None:
            self._begin_mask(first)
        self._rows.write(values)
        if self._mask is not None:
            self._mask.write(_flags(missing, len(values)))

    def overwrite(self, rows: Int64s, array: pa.Array) -> None:
        """Overwrite existing rows, given in increasing order. Errors report the position among the values."""
        values, missing = self._split(array, 0)
        if missing is not None and self._mask is None:
            self._begin_mask(self._rows.n_rows)
        self._rows.overwrite(rows, values)
        if self._mask is not None:
            self._mask.finish()  # all of its rows must be written first
            self._mask.overwrite(rows, _flags(missing, len(values)))

    def truncate(self, n_rows: int) -> None:
        """Keep the first rows only."""
        self._rows.truncate(n_rows)
        if self._mask is not None:
            self._mask.truncate(n_rows)

    def remove(self, rows: Selection) -> None:
        """Remove these rows: those after them move up."""
        self._rows.remove(rows)
        if self._mask is not None:
            self._mask.remove(rows)

    def finish(self) -> WrittenColumn:
        """Write what is left and return how the column is stored."""
        written = self._rows.finish()
        if written.categories is not None and contains_nul(written.categories):
            raise DataError("a category holds NUL, which AnnData cannot store", column=self.name)
        mask = self._mask.finish() if self._mask is not None else None
        replaced = written.replaced or (mask is not None and mask.replaced)
        return replace(written, mask=None if mask is None else mask.dataset, replaced=replaced)

    def _split(self, array: pa.Array, first_row: int) -> tuple[pa.Array, pa.Array | None]:
        """The rows as values, and which of them the mask must mark as missing; None if it need not mark any."""
        if self._is_coded:
            return array, None
        plain = array.cast(self._kind) if pa.types.is_null(array.type) else plain_array(array, self._kind)
        if pa.types.is_string(plain.type) and contains_nul(plain):
            _refuse_nul(plain, first_row, self.name)
        if not plain.null_count or isinstance(plain, pa.ExtensionArray):
            return plain, None
        if pa.types.is_floating(plain.type):
            return pc.fill_null(plain, pa.scalar(float("nan")).cast(plain.type)), None
        return pc.fill_null(plain, _BLANKS[_family(plain.type)]), plain.is_null()

    def _begin_mask(self, n_rows: int) -> None:
        """Turn the dataset into a group of values and mask. None of the rows so far is missing."""
        assert self._group is not None  # by `start` or `resume`
        self._rows.move_to(self._group, self.name + _ASIDE)
        group = create_group(self._group, self.name)
        self._rows.move_to(group, VALUES)
        filters = "deflate" if self._options.filters != "none" and self._rows.chunk_rows >= WORTH_FILTERING else "none"
        options = ColumnOptions(fill=None, chunk_rows=self._rows.chunk_rows, filters=filters)
        self._mask = ColumnWriter(self.name, pa.bool_(), options, link=MASK, is_companion=True)
        self._mask.start(group, _flags(None, 0), n_rows, self._rows.chunk_rows)
        for start in range(0, n_rows, DEFAULT_CHUNK_ROWS):
            self._mask.write(_flags(None, min(DEFAULT_CHUNK_ROWS, n_rows - start)))


_BLANKS: dict[str | None, int | str] = {"integer": 0, "boolean": False, "text": ""}


def _family(kind: pa.DataType) -> str | None:
    """The kind of AnnData element that holds values of this type; None if there is none."""
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_floating(kind) or isinstance(kind, ComplexType):
        return "number"
    if pa.types.is_boolean(kind):
        return "boolean"
    return "text" if pa.types.is_string(kind) else None


def _checked(name: str, kind: pa.DataType, options: ColumnOptions) -> ColumnOptions:
    """The options. Raises if a frame cannot store a column of this type with these options."""
    values = plain_type(kind.value_type) if pa.types.is_dictionary(kind) else kind
    if _family(values) is None:
        raise UsageError(
            f"column {name!r}: AnnData cannot store {kind}: cast it to numbers, booleans, strings or a categorical",
            column=name,
            type=str(kind),
        )
    check_column_texts(name, options, names.FRAME)
    if options.enum or options.strings in ("fixed", "categories"):
        raise UsageError(
            f"column {name!r}: AnnData stores strings with variable length or as categoricals (categories=True); it "
            "has neither HDF5 enums, nor strings of fixed length, nor dictionary-encoded strings",
            column=name,
        )
    if options.masked and (_family(kind) not in _BLANKS or options.categories):
        raise UsageError(f"column {name!r}: AnnData has masks for integers, booleans and strings only", column=name)
    if options.fill is not AUTO and options.fill is not None:
        raise UsageError(
            f"column {name!r}: AnnData marks missing rows with a mask, not with a fill: leave out fill=", column=name
        )
    return options


def _missing_code(column: ColumnInfo) -> bytes | None:
    """The code -1 in the datatype of the codes. Unsigned codes have none, and are copied into signed ones."""
    dtype = memory_dtype(column.type)
    return np.array(-1, dtype=dtype).tobytes() if dtype.kind == "i" else None


def _flags(missing: pa.Array | None, n_rows: int) -> pa.Array:
    return pa.array(np.zeros(n_rows, dtype=bool)) if missing is None else missing


def _refuse_nul(text: pa.Array, first_row: int, name: str) -> None:
    found = pc.match_substring(text, "\0").fill_null(False).to_numpy(zero_copy_only=False)
    row = first_row + int(np.argmax(found))
    raise DataError("the string holds NUL, which AnnData cannot store", column=name, row=row)
