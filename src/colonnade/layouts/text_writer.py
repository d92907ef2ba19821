"""Write strings by categories as long as that saves space, else as plain strings; both read back as strings.

Same interface and order of calls as a ColumnWriter. Whether categories save space is estimated from the number of
distinct values in the first rows. If many more turn out to be distinct, the rows so far are copied once into plain
strings.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from colonnade import compute as pc
from colonnade.columns.arrow_types import plain_array
from colonnade.columns.decode import decode_coded_text
from colonnade.columns.forms import POINTER_COST, Marking
from colonnade.columns.mapping import TEXT_BY_CATEGORIES, plain_type, stored_codes
from colonnade.columns.raw import cut
from colonnade.columns.strings import byte_lengths
from colonnade.columns.writer import ColumnWriter, WrittenColumn
from colonnade.dataclass import replace
from colonnade.h5.links import rename, unlink
from colonnade.model import ColumnOptions
from colonnade.nodes import EditableGroup

FEWEST_ROWS = 4096  # smaller columns are always plain strings
MOST_COUNTED = 16_384  # rows whose distinct values are counted
MOST_OF_ROWS = 8  # rows per category, at least
MOST_CATEGORIES = 1 << 20
WORTH = 0.7  # categories must take less than this fraction of the bytes of plain strings


class TextWriter:
    """Writes one column of strings into a group."""

    def __init__(
        self,
        name: str,
        kind: pa.DataType,
        options: ColumnOptions,
        large_attributes: bool,
        marking: Marking = Marking(),  # noqa: B008 - frozen
    ) -> None:
        self.name = name
        self._marking = marking
        self._kind = kind
        self._options = options
        self._large_attributes = large_attributes
        self._is_asked = options.strings == "categories"
        self._plain = replace(options, strings="auto") if self._is_asked else options
        self._writer = self._new_writer(self._plain)  # raises for options that are not possible
        self._is_coded = False
        self._group: EditableGroup
        self._n_rows = self._n_expected = 0
        self._most_rows = 0

    def _new_writer(self, options: ColumnOptions) -> ColumnWriter:
        return ColumnWriter(self.name, self._kind, options, self._large_attributes, marking=self._marking)

    def start(self, group: EditableGroup, sample: pa.Array, n_rows: int | None, most_rows: int) -> None:
        """Choose between categories and plain strings from a sample of the first rows, and create the dataset."""
        self._group, self._most_rows, self._n_expected = group, most_rows, n_rows or 0
        text = plain_array(sample, plain_type(self._kind))
        self._is_coded = self._is_asked or pays_by_categories(text, n_rows)
        if self._is_coded:
            self._writer = self._new_writer(replace(self._plain, categories=True))
        self._writer.start(group, sample, n_rows, most_rows)

    def write(self, array: pa.Array) -> None:
        """Take the next rows."""
        self._writer.write(array)
        self._n_rows += len(array)
        if self._is_coded and not self._is_asked and self._has_too_many():
            self._turn_into_text()

    def finish(self) -> WrittenColumn:
        """Write the remaining rows, and return how the column is stored."""
        written = self._writer.finish()
        return replace(written, options=self._options, arrow_type=TEXT_BY_CATEGORIES) if self._is_coded else written

    def _has_too_many(self) -> bool:
        n_categories, n_rows = self._writer.n_categories, max(self._n_rows, self._n_expected)
        return n_categories > max(FEWEST_ROWS, 2 * n_rows // MOST_OF_ROWS) or n_categories > 2 * MOST_CATEGORIES

    def _turn_into_text(self) -> None:
        """Copy the rows so far into a dataset of plain strings that replaces the codes."""
        coded = self._writer.finish()
        aside = f"{self.name}\x01codes"
        rename(self._group, self.name, aside)
        assert coded.categories is not None  # it was written by categories
        self._writer, self._is_coded = self._new_writer(self._plain), False
        self._writer.start(self._group, coded.categories, None, self._most_rows)
        for text in _text_of(coded, coded.categories):
            self._writer.write(text)
        unlink(self._group, aside)


def _text_of(coded: WrittenColumn, categories: pa.Array) -> Iterator[pa.Array]:
    """The rows of a column that was written by categories, as strings, a few MiB at a time."""
    info = coded.dataset.describe()
    for start, stop in cut(0, coded.n_rows, info.chunk_rows or coded.n_rows, info.type):
        with coded.dataset.reading(info, start, stop - start) as codes:
            yield decode_coded_text(codes, categories, coded.form.fill)


def pays_by_categories(values: pa.Array, n_rows: int | None) -> bool:
    """Whether a column that begins with these values is estimated to be smaller by categories."""
    present = values.drop_null() if values.null_count else values
    if len(present) < FEWEST_ROWS:
        return False
    n_all, present = max(n_rows or 0, len(values)), present.slice(0, MOST_COUNTED)
    n_categories = distinct_in_all(int(pc.count_distinct(present).as_py()), len(present))
    if n_categories > min(n_all / MOST_OF_ROWS, MOST_CATEGORIES):
        return False
    lengths = byte_lengths(present)
    mean, longest = float(lengths.mean()), int(lengths.max(initial=0))
    plain = n_all * min(longest, mean + POINTER_COST)
    coded = n_all * stored_codes(math.ceil(n_categories)).size + n_categories * (mean + POINTER_COST)
    return coded < WORTH * plain


def distinct_in_all(n_distinct: int, n_values: int) -> float:
    """The estimated size of a population if `n_values` random draws from it have `n_distinct` distinct values."""
    if n_distinct > 0.97 * n_values:
        return math.inf  # almost no value was drawn twice
    # Bisect for the population size whose expected number of distinct draws is n_distinct.
    low, high = float(max(n_distinct, 1)), 64.0 * n_values
    for _ in range(60):
        middle = math.sqrt(low * high)
        met = -middle * np.expm1(-n_values / middle)
        low, high = (middle, high) if met < n_distinct else (low, middle)
    return high
